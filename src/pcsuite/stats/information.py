"""Information between outputs and truth: mutual information, the InfoNCE bound, and what a fixed probe can read.

The probe is multinomial logistic regression on hashed words and word pairs. It is fixed on purpose: description
lengths are comparable between conditions only when the probe, its features and the label set are the same. What it
measures is how *easily* the truth can be read off the output by this probe, not how much is in it.

Mutual information is a nonlinear function of a table of counts, biased upwards in small samples, and its noise at zero
is not normal. So three things are computed of a difference between two conditions: the difference with its bias removed
by the jackknife (whose pseudo-values are one number per item, Efron & Stein 1981), its distribution when the two
conditions' answers are exchanged within items, and that of the better condition's information under shuffled truths.
"""

from __future__ import annotations

import itertools
import math
import re
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.bootstrap import RESAMPLES, UNBOUNDED, bootstrap_mean, interval_from_draws, resample_totals
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, as_matrix, as_pair

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks of the online code, as in Voita & Titov 2020."""
SMALLEST_BLOCK = 8
RIDGE = 0.1
_WORD = re.compile(r"[^\W_]+(?:['’.,-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class OnlineCode:
    """Length of the truth labels given the outputs, in bits, by an online code.

    ``uniform_bits`` is what coding each label alone takes. ``control_bits`` is the mean length when
    labels are shuffled, what the probe "learns" from nothing.
    """

    bits: float
    uniform_bits: float
    bits_per_item: Estimate
    control_bits: float


def hashed_features(texts: Sequence[str], *, bits: int = 10) -> FloatArray:
    """Signed counts of words and word pairs in ``2**bits`` hashed columns (``bits`` 4..16), each row of unit length.

    >>> hashed_features(["a cat", "a dog"], bits=6).shape
    (2, 64)
    """
    if not 4 <= bits <= 16:
        raise AnalysisError(f"bits is {bits}, it must lie in 4..16")
    width = 1 << bits
    words_at, pairs_at = _Columns(width), _Columns(width)
    columns: list[int] = []
    ends = [0]
    for text in texts:
        words = _words(text)
        columns += map(words_at.__getitem__, words)
        columns += map(pairs_at.__getitem__, itertools.pairwise(words))
        ends.append(len(columns))
    at = np.array(columns, dtype=np.int64)
    rows = np.repeat(np.arange(len(texts)), np.diff(ends))
    signs = np.where(at < width, 1.0, -1.0)
    features = np.bincount(rows * width + at % width, signs, len(texts) * width).reshape(len(texts), width)
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.where(length > 0, length, 1.0), dtype=np.float64)


def _words(text: str) -> list[str]:
    if text.isascii():
        return _WORD.findall(text.lower())
    return [word.casefold() for word in _WORD.findall(text)]


class _Columns(dict[str | tuple[str, str], int]):
    """The column of each word or pair of words that was seen, ``width`` being added where it counts as minus one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def __missing__(self, token: str | tuple[str, str]) -> int:
        text = token if isinstance(token, str) else " ".join(token)
        digest = zlib.crc32(text.encode("utf-8"))
        column = self[token] = digest & (self._width - 1) | (0 if digest >> 31 else self._width)
        return column


def online_code(
    features: ArrayLike,
    labels: Sequence[Hashable],
    *,
    rng: Rng,
    controls: int = 3,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> OnlineCode:
    """Online (prequential) description length of Voita & Titov 2020.

    L = t1·log2 K + Σ -log2 p_i(block i+1), the probe p_i trained on all blocks up to i. Items are shuffled
    first. The interval resamples items with their code lengths held; it leaves out the spread from
    retraining. Raises ``AnalysisError`` for fewer than 16 items or a single label.

    >>> labels = ["yes", "no"] * 20
    >>> code = online_code(hashed_features(labels), labels, rng=np.random.default_rng(0), resamples=100)
    >>> code.uniform_bits / code.bits > 1.5
    True
    """
    table, codes, classes = _probe_data(features, labels)
    order = rng.permutation(len(codes))
    labelled = np.column_stack([codes[order], *(rng.permutation(codes) for _ in range(controls))])
    lengths, *shuffled = _code_lengths(table[order], labelled, classes).T
    return OnlineCode(
        bits=float(lengths.sum()),
        uniform_bits=len(codes) * float(np.log2(classes)),
        bits_per_item=bootstrap_mean(
            lengths, rng=rng, resamples=resamples, level=level, bounds=(0.0, math.inf)
        ),
        control_bits=float(np.mean([float(bits.sum()) for bits in shuffled])) if controls else float("nan"),
    )


def v_information(
    features: ArrayLike,
    labels: Sequence[Hashable],
    *,
    rng: Rng,
    folds: int = 5,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """V-usable information in bits (Ethayarajh et al. 2022): mean over items of -log2 g0(y) + log2 g[x](y).

    Both models are fitted on the other folds, so memorising does not count; the value can be negative.

    >>> labels = ["yes", "no"] * 20
    >>> v_information(hashed_features(labels), labels, rng=np.random.default_rng(0), resamples=100).value > 0.5
    True
    """
    table, codes, classes = _probe_data(features, labels)
    n = len(codes)
    if not 2 <= folds <= n:
        raise AnalysisError(f"{folds} folds of {n} items are not possible")
    fold = rng.permutation(n) % folds
    trained = fold[:, None] != np.arange(folds)
    fitted = fit_probes(table, np.repeat(codes[:, None], folds, axis=1), classes, rows=trained)
    pointwise = np.empty(n)
    for left_out, weights in enumerate(fitted):
        train, test = trained[:, left_out], ~trained[:, left_out]
        prior = (np.bincount(codes[train], minlength=classes) + 1) / (train.sum() + classes)
        pointwise[test] = _log2_probability(weights, table[test], codes[test]) - np.log2(prior[codes[test]])
    return bootstrap_mean(pointwise, rng=rng, resamples=resamples, level=level, bounds=UNBOUNDED)


def fit_probes(
    features: FloatArray,
    codes: IntArray,
    classes: int,
    *,
    rows: npt.NDArray[np.bool_] | None = None,
) -> FloatArray:
    """Weights (probes, features + 1, classes) of ridge-penalised multinomial logistic regressions.

    The last row of each is the bias. ``codes`` (rows, probes) are the classes of the rows for each probe, 0 to
    ``classes - 1``, and ``rows`` (of the same shape) says which rows a probe is fitted on, all by default. Probes on
    the same features are found in one search, which costs little more than that of one.

    >>> fit_probes(np.eye(2), np.array([[0], [1]]), 2).shape
    (1, 3, 2)
    """
    optimize = require("scipy.optimize", "stats")
    inputs = np.hstack([features, np.ones((len(features), 1))])
    basis = None
    if len(inputs) < inputs.shape[1]:
        # The optimum is a combination of the rows, so the search keeps to the space that they span: the same steps in
        # fewer dimensions.
        left, lengths, basis = np.linalg.svd(inputs, full_matrices=False)
        inputs = left * lengths
    probes, width = codes.shape[1], inputs.shape[1]
    used = np.ones(codes.shape) if rows is None else rows.astype(np.float64)
    truth = (codes[:, :, None] == np.arange(classes)) * used[:, :, None]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(width, probes * classes)
        scores = (inputs @ weights).reshape(-1, probes, classes)
        scores -= scores.max(axis=2, keepdims=True)
        fit_term = float(np.vdot(scores, truth))
        np.exp(scores, out=scores)
        totals = scores.sum(axis=2)
        value = float(np.vdot(np.log(totals), used)) - fit_term + RIDGE / 2 * float(flat @ flat)
        scores *= (used / totals)[:, :, None]
        scores -= truth
        return value, (inputs.T @ scores.reshape(len(inputs), -1) + RIDGE * weights).ravel()

    # The loss is strictly convex; stopped here, mean code lengths differ from the optimum's by less than 0.001 bits.
    start, options = np.zeros(width * probes * classes), {"maxiter": 200, "ftol": 1e-7 / probes, "gtol": 1e-3}
    optimum = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    fitted = np.asarray(optimum.x, dtype=np.float64).reshape(width, probes * classes)
    if basis is not None:
        fitted = basis.T @ fitted
    return np.ascontiguousarray(fitted.reshape(-1, probes, classes).transpose(1, 0, 2))


def _probe_data(features: ArrayLike, labels: Sequence[Hashable]) -> tuple[FloatArray, IntArray, int]:
    table = as_matrix(features, "features")
    if len(labels) != len(table):
        raise AnalysisError(f"{len(table)} rows of features but {len(labels)} labels")
    codes = _codes(labels)
    classes = int(codes.max()) + 1
    if classes < 2:
        raise AnalysisError("the truth has one label only, there is nothing to code")
    if len(table) < (least := 2 * SMALLEST_BLOCK):
        raise AnalysisError(f"{len(table)} items are too few for a probe", hint=f"at least {least}")
    return table, codes, classes


def _code_lengths(features: FloatArray, codes: IntArray, classes: int) -> FloatArray:
    """Bits of each label (rows, sets of labels) in order: uniform in the first block, then by the probe so far."""
    n = len(codes)
    ends = sorted({end for f in FRACTIONS if (end := round(f * n)) >= SMALLEST_BLOCK})
    lengths = np.full(codes.shape, float(np.log2(classes)))
    for start, end in itertools.pairwise(ends):
        for label_set, weights in enumerate(fit_probes(features[:start], codes[:start], classes)):
            following = codes[start:end, label_set]
            lengths[start:end, label_set] = -_log2_probability(weights, features[start:end], following)
    return lengths


def _log2_probability(weights: FloatArray, features: FloatArray, codes: IntArray) -> FloatArray:
    logp = require("scipy.special", "stats").log_softmax(features @ weights[:-1] + weights[-1], axis=1)
    return np.asarray(logp[np.arange(len(codes)), codes] / np.log(2), dtype=np.float64)


MAX_CELLS = 4_000


@dataclass(frozen=True, slots=True)
class MutualInformation:
    """I(prediction; truth) in nats.

    ``information`` is corrected for bias and may come out slightly below 0; ``plug_in`` is not corrected.
    ``p_value`` is the share of shuffles of the truths over items that reach the observed plug-in value.
    """

    information: Estimate
    plug_in: float
    truth_entropy: float
    p_value: float


@dataclass(frozen=True, slots=True)
class InfoNce:
    """InfoNCE lower bound in nats, and ``cap``, the log N it can never exceed."""

    bound: Estimate
    cap: float
    batch: int
    control: float
    """The same with references shuffled over items, averaged: what chance alone gives."""

    @property
    def saturated(self) -> bool:
        """Whether the bound is so close to its cap that it says nothing about what lies above."""
        return self.bound.value > 0.95 * self.cap


def mutual_information(
    predictions: Sequence[Hashable],
    truths: Sequence[Hashable],
    items: Sequence[Hashable] | None = None,
    *,
    rng: Rng,
    resamples: int = 2_000,
    permutations: int = 500,
    level: float = 0.95,
    labels: int | None = None,
) -> MutualInformation:
    """Mutual information of predicted and true labels, items being the unit.

    With one row per item the bias of the value is removed by Miller–Madow's count of occupied cells, (m_xy - m_x -
    m_y + 1)/2n. With replicates (``items`` repeat) rows are not independent, and the mean under shuffled truths is
    removed. The interval errs on the wide side, because with few items a table of labels can look like much more or
    much less than it is. Its lower limit is 0 unless the shuffle test rejects at half of 1 - ``level``; else it gives
    up the whole bias, (m_x - 1)(m_y - 1)/2n, seen cells or not. Its upper limit allows for cells that were empty by
    chance and lies at most at the log of the number of ``labels`` (those seen, where the label set is not given).

    >>> shared = mutual_information("abab" * 10, "abab" * 10, rng=np.random.default_rng(0), permutations=99)
    >>> round(shared.plug_in, 3), shared.p_value
    (0.693, 0.01)
    """
    joint, shape = _joint_by_item(predictions, truths, items)
    n = len(joint)
    total = joint.sum(axis=0)
    observed = _plug_in_information(total[None, :] / n, shape)[0]
    # Truths are shuffled over items, the predictions of an item kept together.
    by_item = joint.reshape(n, *shape)
    predicted, true = by_item.sum(axis=2), by_item.sum(axis=1)
    shuffled = np.stack([(predicted.T @ true[rng.permutation(n)]).ravel() for _ in range(permutations)])
    null = _plug_in_information(shuffled / n, shape)
    table = total.reshape(shape)
    if len(predictions) > n:
        method, bias = "null-corrected", float(null.mean())
    else:
        occupied = [int((sums > 0).sum()) for sums in (table, table.sum(axis=1), table.sum(axis=0))]
        method, bias = "miller-madow", (occupied[0] - occupied[1] - occupied[2] + 1) / (2 * n)
    value = float(observed) - bias
    p_value = float((1 + (null >= observed - 1e-12).sum()) / (1 + permutations))
    totals = resample_totals(joint, rng, resamples)
    draws = _plug_in_information(totals / n, shape)
    # Half a row spread over the cells: what was empty by chance alone may not be empty.
    filled = totals + rng.standard_gamma(0.5 / max(shape), size=totals.shape)
    smoothed = _plug_in_information(filled / filled.sum(axis=1, keepdims=True), shape)
    # Of one item the limits are 0 and the cap, whatever the quantiles.
    limits = partial(interval_from_draws, n=max(n, 2), level=level)
    (low, high), centred = limits(smoothed), draws - draws.mean()
    largest_bias = max((shape[0] - 1) * (shape[1] - 1) / (2 * n), float(null.mean()))
    low = min(low, limits(centred + observed)[0]) - largest_bias
    low = 0.0 if p_value > (1 - level) / 2 else max(0.0, low)
    choices = min(shape) if labels is None else max(labels, min(shape))
    high = max(high, limits(centred + value)[1], float(observed) + 1.5 * (choices - 1) / n)
    high = min(float(np.log(choices)), high)
    return MutualInformation(
        Estimate(value, low, high, level, n, f"{method}, wide bootstrap", float(draws.std())),
        float(observed),
        float(-xlogx(table.sum(axis=0) / n).sum()),
        p_value,
    )


DRAWS = 499
"""Exchanges and shuffles behind a gain in information."""


@dataclass(frozen=True, slots=True)
class InformationGain:
    """The difference ``treated - control`` in information about the truth, in nats."""

    values: FloatArray
    """Jackknife pseudo-values, one per item; their mean is the difference with its bias removed."""
    difference: float
    """The plug-in difference, to be compared with ``swapped``."""
    swapped: FloatArray
    """The same with the two conditions' answers exchanged within items by fair coins."""
    better: float
    """The plug-in information of the better condition, to be compared with ``shuffled``."""
    shuffled: FloatArray
    """The same with the truths shuffled over items."""


def information_gain(
    treated: ArrayLike, control: ArrayLike, truths: ArrayLike, *, rng: Rng, draws: int = DRAWS
) -> InformationGain:
    """Difference in mutual information of answers and truths between two conditions on the same items.

    ``treated`` and ``control`` are items by labels, each row the shares of an item's answers (they sum to 1);
    ``truths`` is the number of the true label of each item. Raises ``AnalysisError`` where they do not pair.

    >>> told, constant = np.eye(2)[[0, 1] * 10], np.eye(2)[[0] * 20]
    >>> gain = information_gain(told, constant, [0, 1] * 10, rng=np.random.default_rng(0), draws=19)
    >>> round(gain.difference, 3), bool((gain.swapped < gain.difference).all())
    (0.693, True)
    """
    first, second = as_pair(treated, control, read=as_matrix)
    true: IntArray = np.asarray(truths, dtype=np.int64)
    if len(true) != len(first) or len(first) < 2:
        raise AnalysisError(
            f"{len(first)} items and {len(true)} truths, the same number of two or more is needed"
        )
    n, width = first.shape
    kinds = int(true.max()) + 1
    onehot = np.eye(kinds)[true]

    def contributions(shares: FloatArray) -> FloatArray:
        return np.asarray((shares[:, :, None] * onehot[:, None, :]).reshape(n, width * kinds))

    def information(totals: FloatArray) -> FloatArray:
        return _mutual_information(totals.reshape(-1, width, kinds))

    left, right = contributions(first), contributions(second)
    totals = left.sum(axis=0), right.sum(axis=0)
    treated_nats, control_nats = (float(information(total[None, :])[0]) for total in totals)
    without = information(totals[0] - left) - information(totals[1] - right)
    moved = rng.integers(0, 2, size=(draws, n)).astype(np.float64) @ (right - left)
    swapped = information(totals[0] + moved) - information(totals[1] - moved)
    better = first if treated_nats >= control_nats else second
    shuffled = np.stack([better.T @ onehot[rng.permutation(n)] for _ in range(draws)])
    return InformationGain(
        n * (treated_nats - control_nats) - (n - 1) * without,
        treated_nats - control_nats,
        swapped,
        max(treated_nats, control_nats),
        _mutual_information(shuffled),
    )


def _mutual_information(tables: FloatArray) -> FloatArray:
    """Plug-in information in nats of tables of counts, shape (tables, answers, truths)."""
    joint = tables / tables.sum(axis=(1, 2), keepdims=True)
    joint = np.maximum(joint, 0.0)
    return np.asarray(
        xlogx(joint).sum(axis=(1, 2))
        - xlogx(joint.sum(axis=2)).sum(axis=1)
        - xlogx(joint.sum(axis=1)).sum(axis=1)
    )


def infonce(
    outputs: ArrayLike,
    references: ArrayLike,
    *,
    rng: Rng,
    batch: int = 128,
    temperature: float | Sequence[float] = 0.1,
    rounds: int = 20,
    shuffles: int = 5,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> InfoNce:
    """InfoNCE (van den Oord et al. 2018) with a fixed critic, cosine similarity over ``temperature``.

    Row i of ``references`` belongs to row i of ``outputs``; the others of its batch are its negatives.
    Values are averaged over ``rounds`` random batchings, so that N is the same for every item. Any critic
    gives a lower bound, but only if it was not chosen on the same items: of several temperatures each half of the
    items uses the one that is best on the other half. Not learned, so a weak bound.

    >>> estimate = infonce(np.eye(4), np.eye(4), rng=np.random.default_rng(0), resamples=100)
    >>> round(estimate.bound.value, 2), round(estimate.cap, 2), estimate.saturated
    (1.39, 1.39, True)
    """
    first, second = as_pair(outputs, references, "outputs and references", read=as_matrix)
    scales = np.atleast_1d(np.asarray(temperature, dtype=np.float64))
    n = len(first)
    size = min(batch, n if scales.size == 1 else n // 2)
    if size < 2 or not scales.size or (scales <= 0).any():
        why = "InfoNCE needs at least 2 items (4 to choose a temperature) and a positive temperature"
        raise AnalysisError(why)
    left, right = unit_rows(first, "output"), unit_rows(second, "reference")
    terms = _infonce_terms(left, right, scales, size, rounds, rng)
    ends = (-math.inf, float(np.log(size)))
    bound = bootstrap_mean(terms, rng=rng, resamples=resamples, level=level, bounds=ends)
    shuffled = [
        _infonce_terms(left, right[rng.permutation(n)], scales, size, rounds, rng).mean()
        for _ in range(shuffles)
    ]
    return InfoNce(bound, float(np.log(size)), size, float(np.mean(shuffled)) if shuffled else float("nan"))


def _infonce_terms(
    left: FloatArray, right: FloatArray, scales: FloatArray, size: int, rounds: int, rng: Rng
) -> FloatArray:
    """Each item's term of the bound; items that no round placed in a whole batch are left out."""
    if scales.size == 1:
        return _batched_terms(left, right, scales, size, rounds, rng).ravel()
    order = rng.permutation(len(left))
    halves = [
        _batched_terms(left[rows], right[rows], scales, size, rounds, rng)
        for rows in (order[: len(order) // 2], order[len(order) // 2 :])
    ]
    best = [int(np.argmax(half.mean(axis=1))) for half in halves]
    return np.concatenate([halves[0][best[1]], halves[1][best[0]]])


def _batched_terms(
    left: FloatArray, right: FloatArray, scales: FloatArray, size: int, rounds: int, rng: Rng
) -> FloatArray:
    """log(e^s_ii / mean_j e^s_ij) by temperature and item, averaged over random batchings."""
    n = len(left)
    total, batches = np.zeros((scales.size, n)), np.zeros(n)
    # One batch of all items is the same in every round.
    for _ in range(rounds if size < n else 1):
        order = rng.permutation(n)
        for start in range(0, n - size + 1, size):
            rows = order[start : start + size]
            logits = (left[rows] @ right[rows].T)[None, :, :] / scales[:, None, None]
            top = logits.max(axis=2, keepdims=True)
            spread = top[:, :, 0] + np.log(np.exp(logits - top).sum(axis=2))
            total[:, rows] += np.diagonal(logits, axis1=1, axis2=2) - spread + np.log(size)
            batches[rows] += 1
    terms = total / np.where(batches > 0, batches, np.nan)
    return np.asarray(terms[:, np.isfinite(terms[0])], dtype=np.float64)


def _joint_by_item(
    predictions: Sequence[Hashable], truths: Sequence[Hashable], items: Sequence[Hashable] | None
) -> tuple[FloatArray, tuple[int, int]]:
    """One row per item: the shares of its (prediction, truth) cells, each row summing to 1."""
    if len(predictions) != len(truths) or not len(predictions):
        raise AnalysisError(f"{len(predictions)} predictions and {len(truths)} truths do not pair")
    x, y = _codes(predictions), _codes(truths)
    unit = _codes(items) if items is not None else np.arange(len(x))
    if len(unit) != len(x):
        raise AnalysisError(f"{len(x)} predictions but {len(unit)} items")
    shape = (int(x.max()) + 1, int(y.max()) + 1)
    if shape[0] * shape[1] > MAX_CELLS:
        why = f"{shape[0]} predicted and {shape[1]} true labels are too many for a table"
        raise AnalysisError(why, hint="mutual information is for closed label sets")
    table = np.zeros((int(unit.max()) + 1, shape[0] * shape[1]))
    np.add.at(table, (unit, x * shape[1] + y), 1.0)
    return table / table.sum(axis=1, keepdims=True), shape


def _plug_in_information(joint: FloatArray, shape: tuple[int, int]) -> FloatArray:
    table = joint.reshape(-1, *shape)
    h_rows, h_columns = (-xlogx(table.sum(axis=axis)).sum(axis=1) for axis in (2, 1))
    return np.asarray(h_rows + h_columns + xlogx(table).sum(axis=(1, 2)), dtype=np.float64)


def xlogx(share: FloatArray) -> FloatArray:
    """``share · log(share)`` in nats, 0 where the share is 0."""
    return np.asarray(np.where(share > 0, share * np.log(np.where(share > 0, share, 1.0)), 0.0))


def _codes(labels: Sequence[Hashable]) -> IntArray:
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    return np.fromiter(map(codes.__getitem__, labels), dtype=np.int64, count=len(labels))


def unit_rows(vectors: FloatArray, name: str) -> FloatArray:
    """Each row over its length; ``AnalysisError`` names the first zero vector, as "``name`` 3"."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    if (length == 0).any():
        raise AnalysisError(f"{name} {int(np.argmin(length))} is the zero vector", hint="was the text empty?")
    return np.asarray(vectors / length, dtype=np.float64)
