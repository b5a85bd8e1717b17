"""Cohen's kappa against statsmodels."""

import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa as reference_kappa

from pcsuite.analysis.agreement import cohens_kappa
from pcsuite.errors import AnalysisError


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_statsmodels(seed):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, 120)
    second = np.where(rng.random(120) < 0.6, first, rng.integers(0, 4, 120))
    table = np.zeros((4, 4))
    np.add.at(table, (first, second), 1)
    reference = reference_kappa(table)
    ours = cohens_kappa(first, second)
    assert ours.value == pytest.approx(reference.kappa)
    assert ours.se == pytest.approx(reference.std_kappa)
    assert ours.low == pytest.approx(reference.kappa_low)


def test_labels_may_be_words_and_one_label_is_undefined():
    assert cohens_kappa(["a", "b", "a"], ["a", "b", "a"]).value == pytest.approx(1.0)
    assert not cohens_kappa(["a", "a"], ["a", "a"]).defined
    with pytest.raises(AnalysisError, match="one length"):
        cohens_kappa(["a"], ["a", "b"])
