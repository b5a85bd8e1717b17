import numpy as np
import pytest

from pcsuite.contrasts import ArmScores, Contrast, on_scored_items
from pcsuite.contrasts.scores import common_rows
from pcsuite.errors import AnalysisError

NAN = np.nan


def test_items_meet_by_id_in_the_order_of_the_first_arm():
    first = ArmScores(np.array([0.1, 0.2, 0.3, 0.4]), np.array(["d", "a", "c", "b"]))
    second = ArmScores(np.array([1.0, 2.0, 3.0]), np.array(["a", "b", "d"]))
    rows, (left, right) = on_scored_items([first, second])
    assert (left.tolist(), right.tolist()) == ([0.1, 0.2, 0.4], [3.0, 1.0, 2.0])
    assert [own.tolist() for own in rows] == [[0, 1, 3], [2, 0, 1]]


def test_an_item_without_a_score_in_one_arm_is_left_out():
    counts = np.array([[1.0, 0, 0], [NAN, NAN, NAN], [0, 1, 1]])
    _, (left, right) = on_scored_items([ArmScores(counts), ArmScores(counts[::-1])])
    assert left.tolist() == [[1, 0, 0], [0, 1, 1]]
    assert right.tolist() == [[0, 1, 1], [1, 0, 0]]


def test_arms_that_do_not_pair_are_refused():
    with pytest.raises(AnalysisError, match="3 and 2 items"):
        common_rows([ArmScores(np.ones(3)), ArmScores(np.ones(2))])
    with pytest.raises(AnalysisError, match="name their items"):
        common_rows([ArmScores(np.ones(2), np.array([1, 2])), ArmScores(np.ones(2))])
    with pytest.raises(AnalysisError, match="no scores of arm 'C1'"):
        Contrast.of("C1", "C0").arms_of({"C0": ArmScores(np.ones(2))})
