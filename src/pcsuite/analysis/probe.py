"""A small fixed probe from text to label, and what it tells: online code length and usable information.

The probe is multinomial logistic regression on hashed words and word pairs. It is fixed on purpose:
description lengths are comparable between conditions only when the probe, its features and the label set
are the same. What it measures is how *easily* the truth can be read off the output by this probe, not how
much is in it.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.bootstrap import RESAMPLES, bootstrap_means
from pcsuite.analysis.estimate import Estimate, FloatArray, IntArray, as_matrix
from pcsuite.errors import AnalysisError, require

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Ends of the blocks of the online code, as in Voita & Titov 2020."""
SMALLEST_BLOCK = 8
RIDGE = 0.1
_WORD = re.compile(r"[^\W_]+(?:['’.,-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class OnlineCode:
    """Length of the truth labels given the outputs, in bits, by an online code.

    ``compression`` is ``uniform_bits / bits`` (1: nothing learned). ``control_bits`` is the length when
    labels are shuffled, what the probe "learns" from nothing; ``control_sd`` its spread over shuffles.
    """

    bits: float
    uniform_bits: float
    bits_per_item: Estimate
    control_bits: float
    control_sd: float
    classes: int

    @property
    def compression(self) -> float:
        """How many times shorter than coding each label with log2 K bits."""
        return self.uniform_bits / self.bits

    @property
    def saved_bits(self) -> float:
        """Bits saved against the random-label control."""
        return self.control_bits - self.bits


def hashed_features(texts: Sequence[str], *, bits: int = 10) -> FloatArray:
    """Signed counts of words and word pairs in ``2**bits`` hashed columns, each row of unit length."""
    if not 4 <= bits <= 16:
        raise AnalysisError(f"bits is {bits}, it must lie in 4..16")
    width = 1 << bits
    features = np.zeros((len(texts), width))
    for row, text in enumerate(texts):
        words = [word.casefold() for word in _WORD.findall(text)]
        for token in (*words, *(f"{a} {b}" for a, b in itertools.pairwise(words))):
            digest = zlib.crc32(token.encode("utf-8"))
            features[row, digest & (width - 1)] += 1.0 if digest >> 31 else -1.0
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.where(length > 0, length, 1.0), dtype=np.float64)


def online_code(
    features: npt.ArrayLike,
    labels: Sequence[Hashable],
    *,
    rng: np.random.Generator,
    controls: int = 3,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> OnlineCode:
    """Online (prequential) description length of Voita & Titov 2020.

    L = t1·log2 K + Σ -log2 p_i(block i+1), the probe p_i trained on all blocks up to i. Items are shuffled
    first. The interval resamples items with their code lengths held; it leaves out the spread from
    retraining.
    """
    table, codes, classes = _probe_data(features, labels)
    order = rng.permutation(len(codes))
    lengths = _code_lengths(table[order], codes[order], classes)
    control = [
        float(_code_lengths(table[order], rng.permutation(codes), classes).sum()) for _ in range(controls)
    ]
    per_item = bootstrap_means(lengths[:, None], rng=rng, resamples=resamples, level=level)[0]
    return OnlineCode(
        bits=float(lengths.sum()),
        uniform_bits=len(codes) * float(np.log2(classes)),
        bits_per_item=per_item,
        control_bits=float(np.mean(control)) if control else float("nan"),
        control_sd=float(np.std(control, ddof=1)) if controls > 1 else float("nan"),
        classes=classes,
    )


def v_information(
    features: npt.ArrayLike,
    labels: Sequence[Hashable],
    *,
    rng: np.random.Generator,
    folds: int = 5,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """V-usable information in bits (Ethayarajh et al. 2022): mean over items of -log2 g0(y) + log2 g[x](y).

    Both models are fitted on the other folds, so memorising does not count; the value can be negative.
    """
    table, codes, classes = _probe_data(features, labels)
    n = len(codes)
    if not 2 <= folds <= n:
        raise AnalysisError(f"{folds} folds of {n} items are not possible")
    fold = rng.permutation(n) % folds
    pointwise = np.empty(n)
    for held in range(folds):
        train, test = fold != held, fold == held
        prior = (np.bincount(codes[train], minlength=classes) + 1) / (train.sum() + classes)
        informed = _log2_probability(fit_probe(table[train], codes[train], classes), table[test], codes[test])
        pointwise[test] = informed - np.log2(prior[codes[test]])
    return bootstrap_means(pointwise[:, None], rng=rng, resamples=resamples, level=level)[0]


def fit_probe(features: FloatArray, codes: IntArray, classes: int, *, ridge: float = RIDGE) -> FloatArray:
    """Weights (features + 1, classes) of ridge-penalised multinomial logistic regression.

    The last row is the bias.
    """
    optimize = require("scipy.optimize", "stats")
    inputs = np.hstack([features, np.ones((len(features), 1))])
    target = np.eye(classes)[codes]
    shape = (inputs.shape[1], classes)

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = flat.reshape(shape)
        logp = _log_softmax(inputs @ weights)
        gradient = inputs.T @ (np.exp(logp) - target) + ridge * weights
        value = -float((logp * target).sum()) + ridge / 2 * float((weights**2).sum())
        return value, gradient.ravel()

    found = optimize.minimize(
        loss, np.zeros(shape[0] * classes), jac=True, method="L-BFGS-B", options={"maxiter": 200}
    )
    return np.asarray(found.x, dtype=np.float64).reshape(shape)


def _probe_data(features: npt.ArrayLike, labels: Sequence[Hashable]) -> tuple[FloatArray, IntArray, int]:
    table = as_matrix(features, "features")
    if len(labels) != len(table):
        raise AnalysisError(f"{len(table)} rows of features but {len(labels)} labels")
    seen: dict[Hashable, int] = {}
    codes = np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.int64)
    if len(seen) < 2:
        raise AnalysisError("the truth has one label only, there is nothing to code")
    if len(table) < 2 * SMALLEST_BLOCK:
        raise AnalysisError(
            f"{len(table)} items are too few for a probe", hint=f"at least {2 * SMALLEST_BLOCK}"
        )
    return table, codes, len(seen)


def _code_lengths(features: FloatArray, codes: IntArray, classes: int) -> FloatArray:
    """Bits of each label in order: uniform in the first block, by the probe so far in the others."""
    n = len(codes)
    ends = sorted({end for f in FRACTIONS if (end := round(f * n)) >= SMALLEST_BLOCK})
    lengths = np.full(n, float(np.log2(classes)))
    for start, end in itertools.pairwise(ends):
        weights = fit_probe(features[:start], codes[:start], classes)
        lengths[start:end] = -_log2_probability(weights, features[start:end], codes[start:end])
    return lengths


def _log2_probability(weights: FloatArray, features: FloatArray, codes: IntArray) -> FloatArray:
    logp = _log_softmax(features @ weights[:-1] + weights[-1])
    return np.asarray(logp[np.arange(len(codes)), codes] / np.log(2), dtype=np.float64)


def _log_softmax(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), dtype=np.float64)
