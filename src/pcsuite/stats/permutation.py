"""Permutation tests for paired conditions, and p-values adjusted for many of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, did_you_mean, require
from pcsuite.stats.bootstrap import none_outweighs, random_bit_totals
from pcsuite.stats.estimate import Alternative, FloatArray, Rng, TestResult, as_matrix, as_pair, as_vector
from pcsuite.stats.f1 import micro_f1

PERMUTATIONS = 10_000
ENUMERATE_UP_TO = 20
"""Differences whose signs are flipped in every way: a million sums."""
_LATTICE_STEPS = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 20, 24, 30, 60, 100)
_LATTICE_POINTS = 1 << 21
"""Points of the longest transform: 16 MB."""
_RELATIVE_SLACK = 1e-9
MANY_DIFFER = 2_000
"""Differences from which the saddlepoint of a sum of signs is as good as its exact distribution, and far quicker."""


def sign_flip_test(
    deltas: ArrayLike, *, rng: Rng, permutations: int = PERMUTATIONS, alternative: Alternative = "two-sided"
) -> TestResult:
    """Is the mean paired difference zero? Signs of the per-item differences are flipped.

    Exact when the differences lie on a coarse grid (0/1 scores, averages of R replicates: the null
    distribution is then a product of cosines, inverted by one Fourier transform) or when at most 20 of them
    are not zero; from 2,000 that are not zero on by the saddlepoint of their sum, which is off by less than one in a
    hundred of p; Monte Carlo otherwise. For 0/1 scores it is the exact McNemar test.

    >>> round(sign_flip_test([0.1, 0.2, 0.3, 0.4, 0.5], rng=np.random.default_rng(0)).p_value, 6)
    0.0625
    """
    values = as_vector(deltas, "deltas")
    _check_alternative(alternative)
    moved = values[values != 0]
    observed, scale, method = float(moved.sum()), float(np.abs(moved).sum()), "sign-flip exact"
    if moved.size == 0:
        p_value = 1.0
    elif np.ptp(np.abs(moved)) <= _RELATIVE_SLACK * np.abs(moved).max():
        # All of one size, which is a grid of its own: the sign test.
        p_value = _lattice_p(np.sign(moved).astype(np.int64), alternative)
        method = "sign-flip exact (lattice)"
    elif moved.size >= MANY_DIFFER and none_outweighs(moved[:, None], MANY_DIFFER // 4):
        p_value, method = _saddlepoint_p(moved, alternative), "sign-flip saddlepoint"
    elif (steps := _lattice_steps(moved)) is not None:
        p_value, method = _lattice_p(steps, alternative), "sign-flip exact (lattice)"
    elif moved.size <= ENUMERATE_UP_TO:
        sums = np.zeros(1)
        for value in moved:
            sums = np.concatenate([sums + value, sums - value])
        p_value = _share_extreme(sums, observed, scale, alternative)
    else:
        draws = 2 * random_bit_totals(moved[:, None], rng, permutations)[:, 0] - moved.sum()
        # float32 sums: the slack makes near-ties count as extreme, which errs on the safe side.
        share = _share_extreme(draws, observed, scale, alternative, slack=1e-6)
        p_value = (1 + round(share * permutations)) / (1 + permutations)
        method = f"sign-flip {permutations} draws"
    return TestResult(float(values.mean()), p_value, method, len(values))


def smallest_p(n: int, alternative: Alternative = "two-sided") -> float:
    """The least p-value that the exact sign-flip test of ``n`` items can give: 2^(1-n), one-sided 2^-n.

    Reached only where all of them differ the same way. With m tests held at α together (Holm, or the first step of
    Benjamini–Hochberg) nothing can hold where this exceeds α/m: say so instead of "no effect".

    >>> smallest_p(8), smallest_p(5) > 0.05
    (0.0078125, True)
    """
    if n < 0:
        raise AnalysisError(f"{n} items is not a number of items")
    _check_alternative(alternative)
    return min(1.0, 2.0 ** ((1 if alternative == "two-sided" else 0) - n))


def micro_f1_permutation_test(
    treated: ArrayLike,
    control: ArrayLike,
    *,
    rng: Rng,
    permutations: int = PERMUTATIONS,
) -> TestResult:
    """Is the difference of corpus micro-F1 zero? Items exchange their ``(tp, fp, fn)`` between conditions.

    Exact where at most 20 items changed; else (1 + count) / (1 + ``permutations``), never 0.

    >>> better, worse = [[2, 0, 0], [1, 0, 0]], [[2, 0, 0], [0, 1, 1]]
    >>> micro_f1_permutation_test(better, worse, rng=np.random.default_rng(0)).p_value
    1.0
    """
    first, second = as_pair(treated, control, read=as_matrix, columns=3)
    observed = float(micro_f1(first.sum(0)[None, :])[0] - micro_f1(second.sum(0)[None, :])[0])
    changed = (first != second).any(axis=1)
    exchange = (second - first)[changed]
    if len(exchange) == 0:
        return TestResult(observed, 1.0, "label-swap exact", len(first))
    exact = len(exchange) <= ENUMERATE_UP_TO
    moved = np.zeros((1, 3)) if exact else random_bit_totals(exchange, rng, permutations)
    for row in exchange if exact else ():
        moved = np.concatenate([moved, moved + row])
    draws = micro_f1(first.sum(0) + moved) - micro_f1(second.sum(0) - moved)
    share = _share_extreme(draws, observed, 1.0, "two-sided")
    if exact:
        return TestResult(observed, share, "label-swap exact", len(first))
    p_value = (1 + round(share * permutations)) / (1 + permutations)
    return TestResult(observed, p_value, f"label-swap {permutations} draws", len(first))


def _grid_parts(moved: FloatArray) -> int | None:
    """The coarsest grid that all differences lie on, as parts of 1; ``None`` where there is none."""
    for parts in _LATTICE_STEPS:
        # A look at a few rules most grids out.
        for looked in (moved[:50], moved):
            scaled = looked * parts
            if np.abs(scaled - np.rint(scaled)).max() > 1e-9 * parts:
                break
        else:
            return parts
    return None


def _lattice_steps(moved: FloatArray) -> npt.NDArray[np.int64] | None:
    """The differences in whole steps of the coarsest grid they all lie on, or ``None``."""
    parts = _grid_parts(moved)
    if parts is None:
        return None
    steps = np.asarray(np.rint(moved * parts), dtype=np.int64)
    return steps if 2 * int(np.abs(steps).sum()) + 1 <= _LATTICE_POINTS else None


def _saddlepoint_p(moved: FloatArray, alternative: Alternative) -> float:
    """Tail of Σ ±|d| by Lugannani & Rice 1980, from its cumulant function K(t) = Σ log cosh(|d|·t).

    On a grid the tail begins half a spacing of the sum before the observed value (Daniels 1987, second correction).
    """
    special = require("scipy.special", "stats")
    sizes, counts = np.unique(np.round(np.abs(moved), 12), return_counts=True)
    parts = _grid_parts(moved)
    observed = float(moved.sum())

    def above(total: float) -> float:
        """P(sum ≥ total) for a total of at least 0."""
        reached = total - (1.0 / parts if parts is not None else 0.0)
        spread, most = float(counts @ sizes**2), float(counts @ sizes)
        if abs(reached) <= 1e-6 * spread**0.5:
            return 0.5
        if reached >= most * (1 - 1e-9):
            return float(2.0 ** -float(len(moved)))
        t = reached / spread
        for _ in range(60):
            tilted = np.tanh(sizes * t)
            curvature = float(counts @ (sizes**2 * (1 - tilted**2)))
            step = (float(counts @ (sizes * tilted)) - reached) / max(curvature, 1e-300)
            # K' is concave beyond 0: Newton's steps overshoot only upwards, and are held to twice the way.
            t = min(max(t - step, t / 2), 2 * t) if t > 0 else max(t - step, 2 * t)
            if abs(step) <= 1e-12 * abs(t):
                break
        tilted = np.tanh(sizes * t)
        cumulant = float(counts @ (np.logaddexp(sizes * t, -sizes * t) - np.log(2.0)))
        w = float(np.copysign(np.sqrt(max(2 * (t * reached - cumulant), 0.0)), t))
        u = t * float(np.sqrt(counts @ (sizes**2 * (1 - tilted**2))))
        density = float(np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi))
        return float(
            min(1.0, max(special.ndtr(-w) + density * (1 / u - 1 / w), 2.0 ** -min(len(moved), 1022)))
        )

    if alternative == "two-sided":
        return min(1.0, 2 * above(abs(observed)))
    towards = observed if alternative == "greater" else -observed
    # P(S ≥ -x) = 1 - P(S > x), and the sum takes the value x itself only on a grid.
    return (
        above(towards) if towards >= 0 else 1 - above(-towards + (2.0 / parts if parts is not None else 0.0))
    )


def _lattice_p(steps: npt.NDArray[np.int64], alternative: Alternative) -> float:
    """Exact tail of Σ ±|step|: its characteristic function is Π cos(|step|·t), sampled and inverted."""
    sizes, multiplicity = np.unique(np.abs(steps), return_counts=True)
    if len(sizes) == 1:  # all differences of one size: the sign test
        at_most = require("scipy.special", "stats").bdtr
        n, positive = len(steps), int((steps > 0).sum())
        if alternative == "two-sided":
            return min(1.0, 2 * float(at_most(min(positive, n - positive), n, 0.5)))
        return float(at_most(n - positive if alternative == "greater" else positive, n, 0.5))
    reach = int((sizes * multiplicity).sum())
    points = 1 << int(2 * reach + 1).bit_length()
    angle = 2 * np.pi * np.arange(points // 2 + 1) / points
    characteristic = np.ones(points // 2 + 1)
    for size, count in zip(sizes, multiplicity, strict=True):
        characteristic *= np.cos(size * angle) ** count
    # irfft returns P(S = s) at index s modulo points.
    mass = np.maximum(np.fft.irfft(characteristic, points), 0.0)
    support = np.arange(points)
    support = np.where(support > points // 2, support - points, support)
    # Rounding in the transform leaves noise of this size; p is never stated smaller.
    noise = points * float(np.finfo(np.float64).eps)
    return float(min(1.0, max(float(mass[_extreme(support, int(steps.sum()), alternative)].sum()), noise)))


def _share_extreme(
    draws: FloatArray, observed: float, scale: float, alternative: Alternative, slack: float = _RELATIVE_SLACK
) -> float:
    return float(_extreme(draws, observed, alternative, slack * scale).mean())


def _extreme(
    values: npt.NDArray[Any], observed: float, alternative: Alternative, margin: float = 0
) -> npt.NDArray[np.bool_]:
    """Which values are at least as far out as the observed one, to within ``margin``."""
    if alternative == "two-sided":
        return np.asarray(np.abs(values) >= abs(observed) - margin)
    return np.asarray(
        values >= observed - margin if alternative == "greater" else values <= observed + margin
    )


def _check_alternative(alternative: str) -> None:
    alternatives = ("two-sided", "greater", "less")
    if alternative not in alternatives:
        raise AnalysisError(
            f"unknown alternative '{alternative}'", hint=did_you_mean(alternative, alternatives)
        )


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Adjusted p-values of Benjamini & Hochberg 1995: the expected share of false findings is controlled.

    ``nan`` (not tested) stays ``nan`` and does not count. Raises ``AnalysisError`` for values outside 0..1.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.04, 0.04]
    """

    def step_up(ascending: FloatArray) -> FloatArray:
        scaled = ascending * len(ascending) / np.arange(1, len(ascending) + 1)
        return np.minimum.accumulate(scaled[::-1])[::-1]

    return _adjust(p_values, step_up)


def holm(p_values: ArrayLike) -> FloatArray:
    """Adjusted p-values of Holm 1979: the chance of even one false finding is controlled.

    ``nan`` (not tested) stays ``nan`` and does not count. Raises ``AnalysisError`` for values outside 0..1.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    return _adjust(p_values, lambda p: np.maximum.accumulate(p * (len(p) - np.arange(len(p)))))


def adjust_within_families(
    p_values: ArrayLike,
    families: Sequence[Hashable],
    method: Callable[[ArrayLike], FloatArray] = benjamini_hochberg,
) -> FloatArray:
    """Adjust p-values separately within each family (the conditions of one dataset, say).

    >>> adjust_within_families([0.01, 0.04, 0.03], ["a", "a", "b"]).round(3).tolist()
    [0.02, 0.04, 0.03]
    """
    values = np.asarray(p_values, dtype=np.float64)
    if len(families) != len(values):
        raise AnalysisError(f"{len(values)} p-values but {len(families)} families")
    rows: dict[Hashable, list[int]] = {}
    for index, family in enumerate(families):
        rows.setdefault(family, []).append(index)
    adjusted = np.full(len(values), np.nan)
    for indices in rows.values():
        adjusted[indices] = method(values[indices])
    return adjusted


def _adjust(p_values: ArrayLike, rule: Callable[[FloatArray], FloatArray]) -> FloatArray:
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1:
        raise AnalysisError(f"p-values have {values.ndim} dimensions, one is needed")
    tested = ~np.isnan(values)
    if (values[tested] < 0).any() or (values[tested] > 1).any():
        raise AnalysisError("p-values lie outside 0..1")
    adjusted = np.full(values.shape, np.nan)
    order = np.argsort(values[tested], kind="stable")
    ranked = np.empty(len(order))
    ranked[order] = np.minimum(rule(values[tested][order]), 1.0)
    adjusted[tested] = ranked
    return adjusted
