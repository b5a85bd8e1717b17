"""Agreement of two raters beyond chance: Cohen's kappa."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pcsuite.analysis.estimate import Estimate, check_level, undefined
from pcsuite.errors import AnalysisError, require


def cohens_kappa(first: npt.ArrayLike, second: npt.ArrayLike, *, level: float = 0.95) -> Estimate:
    """Cohen's 1960 kappa of two label vectors, with the standard error of Fleiss, Cohen & Everitt 1969."""
    left, right = np.asarray(first), np.asarray(second)
    if left.shape != right.shape or left.ndim != 1 or left.size == 0:
        raise AnalysisError(
            f"kappa needs two label vectors of one length, not {left.shape} and {right.shape}"
        )
    check_level(level)
    labels, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
    k, n = len(labels), len(left)
    joint = np.bincount(codes[:n] * k + codes[n:], minlength=k * k).reshape(k, k) / n
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    observed, expected = float(np.trace(joint)), float(rows @ columns)
    if expected >= 1:
        return undefined("both raters use one label", n, level)
    kappa = (observed - expected) / (1 - expected)
    diagonal = np.diag(joint) * (1 - (rows + columns) * (1 - kappa)) ** 2
    off = joint * (columns[:, None] + rows[None, :]) ** 2
    spread = (
        diagonal.sum()
        + (1 - kappa) ** 2 * (off.sum() - np.trace(off))
        - (kappa - expected * (1 - kappa)) ** 2
    )
    se = float(np.sqrt(max(spread, 0.0) / n) / (1 - expected))
    special = require("scipy.special", "stats")
    half = float(special.ndtri((1 + level) / 2)) * se
    return Estimate(float(kappa), float(kappa - half), float(min(1.0, kappa + half)), level, n, "kappa", se)
