import numpy as np
import pytest

from pcsuite.contrasts import ArmScores, Contrast, clusters_of, on_scored_items
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


def clusters(*labels):
    return ArmScores(np.ones(len(labels)), clusters=np.array(labels, dtype=object))


def test_clusters_are_codes_and_singles_are_none_at_all():
    rows = [np.arange(4)]
    assert clusters_of([clusters("b", "a", "b", "c")], rows).tolist() == [0, 1, 0, 2]
    assert clusters_of([clusters("a", "b", "c", "d")], rows) is None
    assert clusters_of([ArmScores(np.ones(4))], rows) is None


def test_an_item_without_a_label_stands_for_itself():
    assert clusters_of([clusters("a", None, "a", None, np.nan)], [np.arange(5)]).tolist() == [0, 1, 0, 2, 3]


def test_items_that_any_arm_puts_together_are_one_cluster():
    first, second = clusters("a", "a", "b", "c", "d"), clusters("x", "y", "y", "z", "w")
    assert clusters_of([first, second], [np.arange(5)] * 2).tolist() == [0, 0, 0, 1, 2]
    # Other names for the same clusters are the same clusters.
    assert clusters_of([first, clusters("k", "k", "l", "m", "n")], [np.arange(5)] * 2).tolist() == [
        0,
        0,
        1,
        2,
        3,
    ]


def test_clusters_follow_the_items_that_are_paired():
    first = ArmScores(np.ones(4), np.array([1, 2, 3, 4]), clusters=np.array(["a", "a", "b", "b"]))
    second = ArmScores(np.array([1.0, np.nan, 1, 1]), np.array([4, 3, 2, 1]))
    rows, _ = on_scored_items([first, second])
    assert clusters_of([first, second], rows).tolist() == [0, 0, 1]


def test_labels_of_another_length_are_refused():
    wrong = ArmScores(np.ones(3), clusters=np.array(["a", "b"]))
    with pytest.raises(AnalysisError, match="3 items and 2 cluster labels"):
        clusters_of([wrong], [np.arange(3)])


def test_what_counts_as_0_and_1():
    def binary(values, replicates=1.0):
        return ArmScores(np.array(values), replicates=replicates).binary

    assert binary([0.0, 1.0, np.nan])
    assert not binary([0.0, 0.5])
    assert binary([0.0, 1 / 3, 1.0], 3)
    assert binary([0.5, 1 / 3, 1.0], 2.8)  # a call failed
    assert not binary([0.25, 0.5], 3)
    assert not binary([2.0, 0.0])
    assert not ArmScores(np.ones((2, 3))).binary
