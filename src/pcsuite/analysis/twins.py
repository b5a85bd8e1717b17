"""Conditions that differ in one thing only: the same operators without a constraint, a loop, retries or any other.

A log has operators by name; what type each is and what it does, the run's manifest says, else the suite's operators.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pcsuite.analysis.load.item_scores import CellKey, ItemScores
from pcsuite.config.bundled import operator_type, operator_work
from pcsuite.prompts.compiled import COMPILED_OPERATOR

SEARCH_LOOP = "react"
LOOP_ALONE = "revise"
"""The loop without search, which tells going round again from looking things up."""
RETRY = "retry"
CONSTRAINT = "decoding constraint"
"""Stands for every operator that restricts decoding: which of them a task uses depends on what it provides for."""


class CellPair(NamedTuple):
    """Two cells of one task, model and regime that differ in their conditions only."""

    treated: CellKey
    control: CellKey


def constraints(operators: Iterable[str], types: Mapping[str, str] | None = None) -> set[str]:
    """The operators of a bundle that restrict decoding."""
    return {name for name in operators if _type(name, types) == "constraint"}


def _type(name: str, types: Mapping[str, str] | None) -> str | None:
    return (types or {}).get(name) or operator_type(name)


def doing(scores: ItemScores, operators: Iterable[str], work: str) -> list[str]:
    """Those of some operators that do a work: run a program (``react``) or give a structure (``schema``)."""
    return [name for name in operators if (scores.operator_work.get(name) or operator_work(name)) == work]


def twin_without(
    scores: ItemScores, key: CellKey, dropped: Collection[str], among: Iterable[CellKey]
) -> CellKey | None:
    """The cell of ``among`` whose condition has the operators of ``key`` except ``dropped``.

    Only cells of the same task, model, regime and perturbation count; ``None`` where there is none, or where
    nothing would be dropped.
    """
    operators = scores.operators_in(key)
    remaining = tuple(name for name in operators if name not in dropped)
    if remaining == operators:
        return None
    return next(
        (other for other in among if other[:4] == key[:4] and scores.operators_in(other) == remaining), None
    )


def free_twin(scores: ItemScores, key: CellKey, among: Iterable[CellKey]) -> CellKey | None:
    """The cell of ``among`` with the operators of ``key`` except its constraints.

    ``None`` where the condition has no constraint, or the run no such cell.
    """
    return twin_without(scores, key, constraints(scores.operators_in(key), scores.operator_types), among)


def operator_pairs(scores: ItemScores) -> dict[str, list[CellPair]]:
    """By operator: every clean cell that has it beside the cell that lacks it and nothing else.

    The constraints of a bundle count as one operator, :data:`CONSTRAINT`. Operators without any such pair are not
    in the result: what a run cannot set against its own twin, it cannot credit to an operator.
    """
    pairs: dict[str, list[CellPair]] = {}
    for keys in scores.groups().values():
        # Of controls with the same operators (one constraint by several backends, say) the last stands for all.
        controls = list({scores.operators_in(key): key for key in keys}.values())
        for key in keys:
            operators = scores.operators_in(key)
            if COMPILED_OPERATOR in operators:
                continue  # the words of a compiled prompt do more than its operators say
            constraining = constraints(operators, scores.operator_types)
            dropped = {name: {name} for name in operators if name not in constraining}
            if constraining:
                dropped[CONSTRAINT] = constraining
            for name, operators_dropped in dropped.items():
                twin = twin_without(scores, key, operators_dropped, controls)
                if twin is not None:
                    pairs.setdefault(name, []).append(CellPair(key, twin))
    return pairs


def condition_pairs(scores: ItemScores) -> dict[str, list[CellPair]]:
    """By condition: every clean cell of it beside the control of its group."""
    pairs: dict[str, list[CellPair]] = {}
    for key in scores.cell_keys():
        if (control := scores.control_of(key)) is not None:
            pairs.setdefault(key.condition, []).append(CellPair(key, control))
    return pairs


def ladder(bundles: Mapping[str, Sequence[str]], types: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The conditions that build on one another step by step, from the barest to the fullest.

    ``bundles`` are operators by condition, in the order of the report. A step adds operators and drops none, and adds
    none that restricts decoding, retries, loops or was compiled: those are set beside a step, not on top of it. Of
    conditions with the same operators the first counts. Of several chains that are equally long the one of C0, C1, C2 …
    is meant (leave-one-out conditions beside the ladder make others); empty where none is, as in a factorial.

    >>> ladder({"C0": [], "C1": ["ROLE"], "C6": ["ROLE", "TYPE_CONSTRAIN"], "C2": ["ROLE", "GOAL"], "B": ["GOAL"]})
    ('C0', 'C1', 'C2')
    """
    steps: dict[frozenset[str], str] = {}
    for name, operators in bundles.items():
        aside = any(_type(operator, types) in ("constraint", "program") for operator in operators)
        if not aside and COMPILED_OPERATOR not in operators:
            steps.setdefault(frozenset(operators), name)
    longest: dict[frozenset[str], tuple[tuple[str, ...], int]] = {}
    """By bundle: the longest chain that ends in it, and how many there are of that length."""
    for bundle in sorted(steps, key=len):
        below = _longest(chain for other, chain in longest.items() if other < bundle)
        chain = below[0][0] if below else ()
        longest[bundle] = ((*chain, steps[bundle]), sum(count for _, count in below) if below else 1)
    chains = _longest(longest.values())
    length = len(chains[0][0]) if chains else 0
    numbered = [bundle for bundle in sorted(steps, key=len) if re.fullmatch(r"C\d", steps[bundle])]
    if len(numbered) == length > 1 and all(lower < upper for lower, upper in pairwise(numbered)):
        return tuple(steps[bundle] for bundle in numbered)
    # Two ladders of the same length are none: nothing says which of them was meant.
    return chains[0][0] if len(chains) == 1 and chains[0][1] == 1 and length > 1 else ()


def _longest(chains: Iterable[tuple[tuple[str, ...], int]]) -> list[tuple[tuple[str, ...], int]]:
    """Those of some chains, each with a count, that are as long as the longest."""
    listed = list(chains)
    length = max((len(chain) for chain, _ in listed), default=0)
    return [entry for entry in listed if len(entry[0]) == length]
