"""What is compared: the item scores of arms, and contrasts as weights over arms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pcsuite.errors import AnalysisError, did_you_mean, require
from pcsuite.stats.estimate import FloatArray, IntArray

Direction = Literal[1, -1]
"""The sign of a change for the better."""
Items = npt.NDArray[Any]
"""Ids of items: codes or names, each once."""
_MOST_REPLICATES = 100
"""Beyond so many replicates nearly every value is near some average of 0/1, and scores count as graded."""
Labels = npt.NDArray[Any]
"""Names or codes of clusters, one an item."""


@dataclass(frozen=True, slots=True)
class ArmScores:
    """The scores of one arm (a condition, a prompt, a run), one row an item.

    >>> ArmScores(np.array([1.0, 0.0, np.nan])).counted
    False
    """

    values: FloatArray
    """A value per item, replicates averaged within it, or its ``(tp, fp, fn)`` where the figure is micro-F1 of pooled
    counts; ``nan`` where the item has no score."""
    items: Items | None = None
    """The item of each row; without it rows of all arms are the same items in the same order."""
    failed: FloatArray | None = None
    """Share of each item's calls that failed, 0..1; without it nothing is known of failures."""
    replicates: float = 1.0
    """Calls behind a value, on average."""
    bounds: tuple[float, float] | None = None
    """The least and the largest value that the metric can have, infinite where it is open; without them unknown."""
    clusters: Labels | None = None
    """The cluster of each row (a customer, a source text): items of one cluster are related, items of two are not.
    Without it, and where a label is missing (``None``, ``nan``), an item is a cluster of its own."""
    ambiguous: FloatArray | None = None
    """Share of each item's answers that can be read in two ways, 0..1; without it nothing is known of them."""

    @property
    def counted(self) -> bool:
        """Whether rows are counts, to be pooled into micro-F1."""
        return self.values.ndim == 2

    @property
    def bounded(self) -> bool:
        """Whether the metric is known to have a least and a largest value."""
        return self.bounds is not None and bool(np.isfinite(self.bounds).all())

    @property
    def binary(self) -> bool:
        """Whether every value is 0 or 1, or an average of as many of them as there are replicates at most.

        >>> third = np.array([0.0, 1 / 3, 1.0])
        >>> ArmScores(third).binary, ArmScores(third, replicates=3).binary
        (False, True)
        """
        if self.counted:
            return False
        values = self.values[self.scored]
        # Calls that failed leave items with fewer replicates than others, whose average number is no whole one.
        most = math.ceil(self.replicates) + (2 if self.replicates % 1 else 0)
        whole = np.zeros(len(values), dtype=bool)
        for answers in range(1, min(most, _MOST_REPLICATES) + 1):
            whole |= np.abs(values * answers - np.rint(values * answers)) < 1e-9
            if whole.all():
                return bool(len(values) == 0 or (values.min() >= 0 and values.max() <= 1))
        return False

    @property
    def scored(self) -> npt.NDArray[np.bool_]:
        """Which rows have a score."""
        finite = np.isfinite(self.values)
        return np.asarray(finite.all(axis=1) if self.counted else finite)


@dataclass(frozen=True, slots=True)
class Contrast:
    """A weighted sum of arms: of two arms usually the first less the second.

    >>> Contrast.of("C1", "C0").name
    'C1 − C0'
    """

    name: str
    weights: Mapping[str, float]
    """Weight of each arm that takes part."""
    better: Direction | None = 1
    """The sign of a change for the better, of what is judged; ``None`` where nobody can say which end is good."""
    tested: bool = True
    """Whether it is tested; without it there is an estimate with limits and no p-value, and no place in the family."""

    @classmethod
    def of(cls, treated: str, control: str, *, better: Direction | None = 1, tested: bool = True) -> Contrast:
        """One arm less another: positive where ``treated`` scores higher.

        ``better`` is the sign of a change for the better (-1 for costs); ``None`` where nobody can say which end is
        good.
        """
        return cls(f"{treated} − {control}", {treated: 1.0, control: -1.0}, better, tested)

    @property
    def is_difference(self) -> bool:
        """Whether it is one arm less another."""
        return list(self.weights.values()) == [1.0, -1.0]

    def arms_of(self, arms: Mapping[str, ArmScores]) -> list[ArmScores]:
        """The scores of the arms that take part, in the order of the weights.

        Raises :class:`~pcsuite.errors.AnalysisError` for an arm that is not there.
        """
        for name in self.weights:
            if name not in arms:
                raise AnalysisError(
                    f"contrast '{self.name}': no scores of arm '{name}'", hint=did_you_mean(name, list(arms))
                )
        return [arms[name] for name in self.weights]


def common_rows(arms: Sequence[ArmScores]) -> list[IntArray]:
    """For each arm, the rows of the items that all arms have, in the order of the first arm.

    Whether an item has a score there is another matter. Raises :class:`~pcsuite.errors.AnalysisError` where arms
    without item ids differ in length.

    >>> first, second = ArmScores(np.ones(3), np.array([4, 7, 9])), ArmScores(np.ones(2), np.array([9, 4]))
    >>> [rows.tolist() for rows in common_rows([first, second])]
    [[0, 2], [1, 0]]
    """
    first = arms[0]
    if all(arm.items is first.items for arm in arms):
        if any(len(arm.values) != len(first.values) for arm in arms):
            lengths = " and ".join(str(len(arm.values)) for arm in arms)
            raise AnalysisError(
                f"arms have {lengths} items", hint="give their items, or pair them beforehand"
            )
        return [np.arange(len(first.values))] * len(arms)
    if any(arm.items is None for arm in arms):
        raise AnalysisError(
            "some arms name their items and others do not", hint="give the items of every arm"
        )
    ids = [np.asarray(arm.items) for arm in arms]
    common = ids[0]
    for others in ids[1:]:
        common = common[np.isin(common, others, assume_unique=True)]
    rows = []
    for arm_items in ids:
        order = np.argsort(arm_items, kind="stable")
        rows.append(order[np.searchsorted(arm_items, common, sorter=order)])
    return rows


def on_scored_items(arms: Sequence[ArmScores]) -> tuple[list[IntArray], list[FloatArray]]:
    """Rows and values of the items that have a score in every arm, in the order of the first arm.

    Returns, for each arm, the indices of its rows and the values there, so that they are paired item by item. Raises
    :class:`~pcsuite.errors.AnalysisError` where arms without item ids differ in length.
    """
    rows = common_rows(arms)
    scored = np.logical_and.reduce([arm.scored[arm_rows] for arm, arm_rows in zip(arms, rows, strict=True)])
    rows = [arm_rows[scored] for arm_rows in rows]
    return rows, [arm.values[arm_rows] for arm, arm_rows in zip(arms, rows, strict=True)]


def clusters_of(arms: Sequence[ArmScores], rows: Sequence[IntArray]) -> IntArray | None:
    """The cluster of each of the items in ``rows`` as codes from 0; ``None`` where each is a cluster of its own.

    Arms that name clusters need not use the same names. Where they put items together differently, items that any of
    them puts together are one cluster: what is not known to be unrelated counts as related.

    >>> arm = ArmScores(np.ones(4), clusters=np.array(["b", "a", "b", "c"]))
    >>> clusters_of([arm, ArmScores(np.ones(4))], [np.arange(4)] * 2).tolist()
    [0, 1, 0, 2]
    """
    codes: IntArray | None = None
    for arm, arm_rows in zip(arms, rows, strict=True):
        if arm.clusters is None:
            continue
        if len(arm.clusters) != len(arm.values):
            raise AnalysisError(f"an arm has {len(arm.values)} items and {len(arm.clusters)} cluster labels")
        labelled = cluster_codes(arm.clusters[arm_rows])
        codes = labelled if codes is None or np.array_equal(codes, labelled) else _joined(codes, labelled)
    return None if codes is None else related_items(codes)


def related_items(labels: Sequence[Any] | Labels) -> IntArray | None:
    """Labels of clusters as codes from 0; ``None`` where every item is a cluster of its own.

    >>> related_items(["a", "b"]) is None, related_items([7, 7, 3]).tolist()
    (True, [0, 0, 1])
    """
    codes = cluster_codes(labels)
    return codes if len(codes) and codes.max() + 1 < len(codes) else None


def cluster_codes(labels: Sequence[Any] | Labels) -> IntArray:
    """Labels as codes from 0 in the order in which they first appear; each missing label is a cluster of its own.

    >>> cluster_codes(["x", None, "y", "x", None]).tolist()
    [0, 1, 2, 0, 3]
    """
    first: dict[Any, int] = {}
    codes = np.empty(len(labels), dtype=np.int64)
    count = 0
    for position, label in enumerate(np.asarray(labels, dtype=object).tolist()):
        missing = label is None or label != label  # nan is not itself
        code = count if missing else first.setdefault(label, count)
        count += code == count
        codes[position] = code
    return codes


def _joined(first: IntArray, second: IntArray) -> IntArray:
    """The finest clusters that leave no two items apart that one of the two partitions puts together."""
    sparse = require("scipy.sparse", "stats")
    nodes = int(first.max() + 1), int(second.max() + 1)
    links = sparse.coo_matrix((np.ones(len(first)), (first, nodes[0] + second)), shape=(sum(nodes),) * 2)
    _, parts = require("scipy.sparse.csgraph", "stats").connected_components(links, directed=False)
    return cluster_codes(parts[first])
