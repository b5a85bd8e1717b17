"""Conditions that differ in one thing only: the same operators without a constraint, a loop or retries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pcsuite.analysis.load.item_scores import CellKey, ItemScores
from pcsuite.config.load import operator_type

LOOP = "REACT_LOOP"
RETRY = "RETRY_ON_FAIL"


def is_constraint(operator: str) -> bool:
    """Whether an operator, which a log has by name only, restricts decoding."""
    return operator_type(operator) == "constraint"


def constraints(operators: Iterable[str]) -> set[str]:
    """The operators of a bundle that restrict decoding."""
    return {name for name in operators if is_constraint(name)}


def is_open_loop(operators: Sequence[str]) -> bool:
    """Whether a bundle of operators neither restricts decoding nor loops nor retries.

    What such a condition does, it does by the words of its prompt alone.
    """
    return not any(operator_type(name) in ("constraint", "program") for name in operators)


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
