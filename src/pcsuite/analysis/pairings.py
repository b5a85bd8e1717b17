"""Pairings: which conditions are set against which, found in the bundles of operators that they are made of.

Every condition is compared with the control, and with its *twin*: the condition that has the same operators less one.
One that has no twin is a *step* up from the condition whose operators come nearest: what it adds comes together.
What a design varies follows from it: members of ``leave_one_out`` meet the full bundle, those of ``add_one_in`` the
bare one. Where all subsets of two or more operators are there, whatever they are called, each operator has a main
effect and each pair an interaction.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from pcsuite.analysis.load.item_scores import CellKey, ItemScores, ItemValues, on_common_items
from pcsuite.prompts.compiled import COMPILED_OPERATOR
from pcsuite.stats.f1 import linearised_f1

Kind = Literal["control", "twin", "step", "planned", "main effect", "interaction"]
Bundle = tuple[str, ...]
CONTROL: Kind = "control"
TWIN: Kind = "twin"
STEP: Kind = "step"
PLANNED: Kind = "planned"
PAIRS = (CONTROL, TWIN, STEP, PLANNED)
"""Kinds of one condition less another."""


@dataclass(frozen=True, slots=True)
class ConditionContrast:
    """A weighted sum of conditions; of two conditions, the first less the second."""

    kind: Kind
    condition: str
    """The condition, or what the treated side has in common (``with SCHEMA``)."""
    baseline: str
    """What it is compared with."""
    operator: str
    """The one operator that ``condition`` has and ``baseline`` lacks; ``A+B`` of a step, ``A × B`` of an interaction;
    else empty."""
    weights: tuple[tuple[str, float], ...]
    """Weight of each condition that takes part; they sum to 0."""
    context: str = ""
    """Operators of every condition that takes part, where several factorials must be told apart."""

    @property
    def name(self) -> str:
        """``C6 − C4``, ``main effect of SCHEMA``, ``ROLE × SCHEMA``."""
        if self.kind in PAIRS:
            return f"{self.condition} − {self.baseline}"
        return (
            f"main effect of {self.operator}" if self.kind == "main effect" else self.operator
        ) + self.context


def contrasts_of(bundles: Mapping[str, Sequence[str]], control: str | None = None) -> list[ConditionContrast]:
    """Every contrast of some conditions, given by their operators in order.

    First each condition against ``control`` (none without it), then against its twin where that is not the control, or
    without a twin against the largest of the others that its operators include, then main effects and interactions of
    complete factorials. Compiled prompts meet the control alone: their words do more than their operators say.

    >>> ladder = {"C3": ("GOAL", "SCHEMA"), "C4": ("GOAL", "SCHEMA", "VERIFIER")}
    >>> [(contrast.name, contrast.operator) for contrast in contrasts_of(ladder)]
    [('C4 − C3', 'VERIFIER')]
    >>> [one.name for one in contrasts_of({"C0": (), "C1": ("A",), "C3": ("A", "B", "C")}, "C0") if one.kind == "step"]
    ['C3 − C1']
    """
    return list(_contrasts(tuple((name, tuple(bundle)) for name, bundle in bundles.items()), control))


# Every metric and several tables ask for the contrasts of the same bundles.
@lru_cache(maxsize=256)
def _contrasts(bundles: tuple[tuple[str, Bundle], ...], control: str | None) -> tuple[ConditionContrast, ...]:
    contrasts: list[ConditionContrast] = []
    by_name = dict(bundles)
    if control is not None:
        contrasts += [
            _pair(CONTROL, name, control, _added(bundle, by_name[control]))
            for name, bundle in bundles
            if name != control
        ]
    plain = {name: bundle for name, bundle in bundles if COMPILED_OPERATOR not in bundle}
    # Of conditions with the same operators the control stands for all, else the first.
    named = {bundle: name for name, bundle in reversed(plain.items())}
    if control in plain:
        named[plain[control]] = str(control)
    steps = []
    for name, bundle in plain.items():
        twins = {
            operator: twin
            for operator in dict.fromkeys(bundle)
            if (twin := named.get(tuple(part for part in bundle if part != operator))) is not None
        }
        contrasts += [
            _pair(TWIN, name, twin, operator) for operator, twin in twins.items() if twin != control
        ]
        below = None if twins or name == control else _largest_below(bundle, named)
        if below is not None and named[below] != control:
            added = "+".join(part for part in dict.fromkeys(bundle) if part not in below)
            steps.append(_pair(STEP, name, named[below], added))
    contrasts += steps
    sets = {frozenset(bundle): name for bundle, name in named.items()}
    factorials = complete_factorials(list(plain.values()))
    for base, varied in factorials:
        where = "+".join(sorted(base)) or "nothing"
        contrasts += _factorial(base, varied, sets, f" on top of {where}" if len(factorials) > 1 else "")
    return tuple(contrasts)


def _largest_below(bundle: Bundle, named: Mapping[Bundle, str]) -> Bundle | None:
    """The largest bundle of ``named`` that a bundle includes in its order; ``None`` for none, or several as large."""
    inside = [other for other in named if other != bundle and tuple(p for p in bundle if p in other) == other]
    inside.sort(key=len)
    if not inside or (len(inside) > 1 and len(inside[-2]) == len(inside[-1])):
        return None
    return inside[-1]


def _pair(kind: Kind, condition: str, baseline: str, operator: str) -> ConditionContrast:
    return ConditionContrast(kind, condition, baseline, operator, ((condition, 1.0), (baseline, -1.0)))


def _added(bundle: Bundle, other: Bundle) -> str:
    """The operator that ``bundle`` has and ``other`` lacks, where that is all the difference."""
    added = [name for name in dict.fromkeys(bundle) if name not in other]
    return added[0] if len(added) == 1 and tuple(n for n in bundle if n != added[0]) == other else ""


def complete_factorials(bundles: Sequence[Bundle]) -> list[tuple[frozenset[str], tuple[str, ...]]]:
    """The largest complete factorials among bundles: what all members share, and the operators that vary.

    All subsets of two or more varied operators must be there, on top of the shared ones.

    >>> complete_factorials([("G",), ("G", "A"), ("G", "B"), ("G", "A", "B")])
    [(frozenset({'G'}), ('A', 'B'))]
    """
    order = list(dict.fromkeys(itertools.chain.from_iterable(bundles)))
    sets = sorted({frozenset(bundle) for bundle in bundles}, key=len)
    candidates = [
        (low, high)
        for low, high in itertools.product(sets, reversed(sets))
        # Two members are a pair of twins; an interaction takes four.
        if low < high and 4 <= 2 ** len(high - low) <= len(sets)
    ]
    factorials: list[tuple[frozenset[str], frozenset[str]]] = []
    for low, high in sorted(candidates, key=lambda pair: -len(pair[1] - pair[0])):
        if any(base <= low and high <= top for base, top in factorials):
            continue
        if sum(low <= bundle <= high for bundle in sets) == 2 ** len(high - low):
            factorials.append((low, high))
    return [(low, tuple(name for name in order if name in high - low)) for low, high in factorials]


def _factorial(
    base: frozenset[str], varied: Sequence[str], named: Mapping[frozenset[str], str], context: str
) -> list[ConditionContrast]:
    members = [
        frozenset(chosen) for k in range(len(varied) + 1) for chosen in itertools.combinations(varied, k)
    ]
    contrasts = []
    # A main effect is a mean over half of the members less that over the other half; an interaction is the effect of
    # one operator with the other less that without it, each side of both a mean over a quarter.
    for name in varied:
        scale = 2 / len(members)
        weights = [(named[base | member], scale if name in member else -scale) for member in members]
        words = (f"with {name}{context}", f"without {name}", name)
        contrasts.append(ConditionContrast("main effect", *words, tuple(weights), context))
    for first, second in itertools.combinations(varied, 2):
        scale = 4 / len(members)
        weights = [
            (named[base | member], scale if (first in member) == (second in member) else -scale)
            for member in members
        ]
        words = (f"{first} with {second}{context}", f"{first} without {second}", f"{first} × {second}")
        contrasts.append(ConditionContrast("interaction", *words, tuple(weights), context))
    return contrasts


def group_contrasts(
    scores: ItemScores, keys: Sequence[CellKey], planned: Sequence[tuple[str, str]] = ()
) -> list[ConditionContrast]:
    """The contrasts of one group of cells (a task, model and regime), against its control where it has one.

    ``planned`` pairs of condition and baseline that are not among them come last.
    """
    control = scores.baseline(keys)
    bundles = {key.condition: scores.operators_in(key) for key in keys}
    contrasts = contrasts_of(bundles, control and control.condition)
    paired = {(contrast.condition, contrast.baseline) for contrast in contrasts}
    missing = [pair for pair in planned if pair not in paired and bundles.keys() >= set(pair)]
    return contrasts + [
        _pair(PLANNED, *pair, _added(*(tuple(bundles[name]) for name in pair))) for pair in missing
    ]


def item_matrix(scores: ItemScores, keys: Sequence[CellKey], metric: str) -> ItemValues:
    """Values of a metric, items by cells, on the items that every cell has.

    Of a task whose score is micro-F1 the values are linearised: their means are the cells' micro-F1
    (:func:`~pcsuite.stats.f1.linearised_f1`), so that sums of conditions can be formed item by item.
    """
    items, columns = on_common_items(*(scores.measured(key, metric) for key in keys))
    # An item's share in micro-F1 depends on the totals: it is that among the common items.
    pooled = scores.is_pooled(keys[0].task, metric)
    return ItemValues(
        items, np.column_stack([linearised_f1(counts) for counts in columns] if pooled else columns)
    )
