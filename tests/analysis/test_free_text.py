"""Key facts and clusters of meaning on small cases a person can check."""

import numpy as np
import pytest

from pcsuite.analysis.free_text import fact_disagreement, key_facts, semantic_clusters, semantic_entropy
from pcsuite.errors import AnalysisError


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("The Eiffel Tower opened in 1889.", {"eiffel tower", "1889"}),
        ("It cost $1,200.50, about 12% more.", {"1200.5", "12%"}),
        ("in Paris and in Berlin", {"paris", "berlin"}),
        ("However, the answer is no.", set()),
        ("She met Ada Lovelace. Then Babbage wrote.", {"ada lovelace", "babbage"}),
        ("The Bank of England's rate is -0.5", {"bank of england", "-0.5"}),
        ("", set()),
    ],
)
def test_key_facts(text, facts):
    assert key_facts(text) == facts


def test_number_forms_meet():
    assert key_facts("42.0") == key_facts("42") == key_facts("+42")


def test_fact_disagreement_by_hand():
    answers = ["Paris in 1889", "in Paris, 1889", "Lyon in 1889"]
    # pairs: (1,2) same; (1,3) and (2,3): one of three facts shared
    assert fact_disagreement(answers) == pytest.approx((0 + 2 / 3 + 2 / 3) / 3)
    assert fact_disagreement(["yes indeed", "no"]) == 0.0
    assert np.isnan(fact_disagreement(["Paris"]))


def test_clusters_by_direction_whatever_the_order():
    east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    points = np.array([east, north, east * 3 + 0.01 * north, north + 0.02 * east, east])
    codes = semantic_clusters(points)
    assert codes[0] == codes[2] == codes[4] != codes[1] == codes[3]
    shuffled = semantic_clusters(points[[3, 0, 4, 1, 2]])
    assert sorted(np.bincount(shuffled)) == [2, 3]


def test_semantic_entropy_is_that_of_the_cluster_counts():
    points = np.array([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2)
    assert semantic_entropy(points, estimator="plug_in") == pytest.approx(np.log(2))
    assert semantic_entropy(points[:1]) == 0.0


def test_zero_vector_is_refused():
    with pytest.raises(AnalysisError, match="embedding 1 is the zero vector"):
        semantic_clusters([[1.0, 0.0], [0.0, 0.0]])
