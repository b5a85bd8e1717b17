"""Conditions that differ in one thing only: the same operators without a constraint, a loop or retries.

A log has operators by name; what type each is, the run's manifest says (``types``), else the suite's own operators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pcsuite.analysis.load.item_scores import CellKey, ItemScores
from pcsuite.config.load import operator_type

LOOP = "REACT_LOOP"
RETRY = "RETRY_ON_FAIL"


def constraints(operators: Iterable[str], types: Mapping[str, str] | None = None) -> set[str]:
    """The operators of a bundle that restrict decoding."""
    return {name for name in operators if ((types or {}).get(name) or operator_type(name)) == "constraint"}


def is_open_loop(operators: Sequence[str], types: Mapping[str, str] | None = None) -> bool:
    """Whether a bundle of operators neither restricts decoding nor loops nor retries.

    What such a condition does, it does by the words of its prompt alone.
    """
    found = {(types or {}).get(name) or operator_type(name) for name in operators}
    return found.isdisjoint(("constraint", "program"))


def twin_without(
    scores: ItemScores, key: CellKey, dropped: Collection[str], among: Iterable[CellKey]
) -> CellKey | None:
    """The cell of ``among`` whose condition has the operators of ``key`` except ``dropped``.

    Only cells of the same task, model, regime and perturbation count; ``None`` where there is none, or where
    nothing would be dropped.
    """
    operators = scores.operators_in(key)
    rest = tuple(name for name in operators if name not in dropped)
    if rest == operators:
        return None
    return next(
        (other for other in among if other[:4] == key[:4] and scores.operators_in(other) == rest), None
    )


def free_twin(scores: ItemScores, key: CellKey, among: Iterable[CellKey]) -> CellKey | None:
    """The cell of ``among`` with the operators of ``key`` except its constraints.

    ``None`` where the condition has no constraint, or the run no such cell.
    """
    return twin_without(scores, key, constraints(scores.operators_in(key), scores.operator_types), among)
