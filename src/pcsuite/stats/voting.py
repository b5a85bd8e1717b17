"""Self-consistency: majority vote over K of the R sampled answers of an item (Wang et al. 2023)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import RESAMPLES, paired_bootstrap
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, as_matrix
from pcsuite.stats.related_rows import cluster_numbers, mean_over_items

MAX_SUBSETS = 300
"""All subsets of K of 10 answers are at most 252, so ten samples are voted on exactly."""
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Vote:
    """Accuracy of the vote of ``k`` answers, and its gain over a single answer on the same items."""

    k: int
    accuracy: Estimate
    gain: Estimate
    exact: bool
    """Whether every subset of ``k`` answers was voted on, rather than a sample of subsets."""


def self_consistency(
    answers: Sequence[Sequence[Hashable]],
    correct: ArrayLike,
    *,
    rng: Rng,
    ks: Sequence[int] | None = None,
    verifier: ArrayLike | None = None,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> list[Vote]:
    """Accuracy of the majority vote as a function of K.

    ``answers`` holds R canonical answers per item (``None``: no answer, which never wins), ``correct`` the
    score of each. Ties go to the answer with the highest mean ``verifier`` score among its votes; without
    one, or where that ties too, each tied answer counts by its expected value. A verdict that could not be read is
    ``nan`` and left out alone: a tied answer none of whose verdicts could be read is neither preferred nor passed over,
    it counts as the mean of the tied answers that have one. K defaults to 1..R. ``clusters`` are those of the items,
    where items are related.

    >>> answers, correct = [["4", "4", "5"], ["7", "8", "7"]], [[1, 1, 0], [1, 0, 1]]
    >>> votes = self_consistency(answers, correct, rng=np.random.default_rng(0), resamples=100)
    >>> [(vote.k, round(vote.accuracy.value, 3)) for vote in votes]
    [(1, 0.667), (2, 0.667), (3, 1.0)]
    """
    scores = as_matrix(correct, "correct")
    n, r = scores.shape
    if len(answers) != n or any(len(row) != r for row in answers):
        raise AnalysisError(f"answers must have {r} entries for each of {n} items, as correct does")
    weights = np.asarray(verifier, dtype=np.float64) if verifier is not None else None
    if weights is not None and weights.shape != scores.shape:
        raise AnalysisError(
            f"verifier has shape {weights.shape}, a score or nan for each of {n} items by {r} is needed"
        )
    sizes = list(ks) if ks is not None else list(range(1, r + 1))
    if any(not 1 <= k <= r for k in sizes):
        raise AnalysisError(f"K must lie between 1 and the {r} answers there are, not {sizes}")
    same = np.zeros((n, r, r), dtype=bool)
    for i, row in enumerate(answers):
        index: dict[Hashable, int] = {}
        for a, answer in enumerate(row):
            if answer is not None:
                same[i, a, index.setdefault(answer, len(index))] = True
    single = _vote_accuracy(same, scores, 1, rng, weights)[0]
    votes = []
    for k in sizes:
        accuracy, exact = _vote_accuracy(same, scores, k, rng, weights)
        mean = mean_over_items(accuracy, clusters, rng=rng, resamples=resamples, level=level)
        if clusters is None:
            gain = paired_bootstrap(accuracy, single, rng=rng, resamples=resamples, level=level)
        else:
            gain = cluster_interval(
                accuracy - single, cluster_numbers(clusters), level=level, bounds=(-1.0, 1.0)
            )
        votes.append(Vote(k, mean, gain, exact))
    return votes


def _vote_accuracy(
    same: npt.NDArray[np.bool_], scores: FloatArray, k: int, rng: Rng, verifier: FloatArray | None
) -> tuple[FloatArray, bool]:
    """Expected score by item of the vote over ``k`` answers, and whether it is exact.

    ``same[i, a, b]`` says that answer ``a`` of item ``i`` is the ``b``-th distinct one.
    """
    n, r = scores.shape
    votes = same.astype(np.float64)
    total = votes.sum(axis=1)
    worth = np.einsum("nab,na->nb", votes, scores) / np.where(total > 0, total, 1.0)
    exact = math.comb(r, k) <= MAX_SUBSETS
    drawn = itertools.combinations(range(r), k)
    subsets = np.array(list(drawn)) if exact else rng.random((MAX_SUBSETS, r)).argsort(axis=1)[:, :k]
    masks = np.zeros((len(subsets), r))
    np.put_along_axis(masks, subsets, 1.0, axis=1)
    result = np.zeros(n)
    for start in range(0, len(masks), _BLOCK):
        block = masks[start : start + _BLOCK]
        counts = np.tensordot(block, votes, axes=(1, 1))
        leading = (counts == counts.max(axis=2, keepdims=True)) & (counts > 0)
        if verifier is not None:
            leading &= _most_trusted(block, votes, verifier, leading)
        winners = leading.sum(axis=2)
        result += ((leading * worth).sum(axis=2) / np.where(winners > 0, winners, 1)).sum(axis=0)
    return result / len(masks), exact


def _most_trusted(
    block: FloatArray, votes: FloatArray, verifier: FloatArray, leading: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Of the leading answers of each vote and item, those with the highest mean of their readable verdicts."""
    has_verdict = np.isfinite(verifier)
    read = np.einsum("ma,na,nab->mnb", block, has_verdict.astype(np.float64), votes)
    total = np.einsum("ma,na,nab->mnb", block, np.where(has_verdict, verifier, 0.0), votes)
    trust = total / np.where(read > 0, read, 1.0)
    trusted = leading & (read > 0)
    judged = trusted.sum(axis=2, keepdims=True)
    middle = np.where(trusted, trust, 0.0).sum(axis=2, keepdims=True) / np.where(judged > 0, judged, 1)
    trust = np.where(leading, np.where(trusted, trust, middle), -np.inf)
    return np.asarray(trust >= trust.max(axis=2, keepdims=True) - 1e-12)
