"""H4, H4C and ``scale.csv``: whether the effect of a condition or operator is the same at every size and family.

Models answer the same items, so the difference between two levels is a difference of differences item by item. An
effect is stable where every pair of levels is equivalent within the bound (two one-sided tests at 5 %, Schuirmann 1987;
of all pairs, Berger 1982), and depends on scale only where the interval of a pair, at 5 % divided by the number of
pairs, lies wholly beyond the bound. A difference that is reliably not zero but small is no dependence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal

from pcsuite.analysis.load.item_scores import SCORE, natural_key, on_common_items
from pcsuite.analysis.load.sizes import Levels
from pcsuite.analysis.table import Column, Table, TableSpec, estimate_columns, interval, number
from pcsuite.analysis.twins import CellPair
from pcsuite.analysis.verdicts.evidence import Deltas, Effect, Evidence, pool_deltas
from pcsuite.analysis.verdicts.findings import Finding, Hypothesis, Verdict
from pcsuite.contrasts import ALPHA
from pcsuite.errors import require
from pcsuite.stats.equivalence import tost_paired
from pcsuite.stats.related_rows import cluster_rows

Kind = Literal["condition", "operator"]
Call = Literal["stable", "scale-dependent", "undecided", "not tested"]
SCALE = TableSpec(
    "scale",
    "Effects by size and family",
    "condition (against its control) and operator (against its twin); effect_LEVEL follows for each size and family",
    (
        Column("kind", "condition or operator"),
        Column("name", "the condition, or the operator"),
        Column("call", "stable, scale-dependent or undecided over sizes, within the profile's analysis.scale_bound"),
        Column("direction", "positive or negative where the effect at every size reliably is"),
        Column("factor", "size class of the profile, or the size itself where all are of one class", shown=False),
        *interval("size_difference", "the largest difference of the effect between two sizes"),
        Column("sizes", "the two sizes"),
        Column("size_p", "p-value of equivalence over sizes, the largest over their pairs", form="p"),
        Column("family_call", "the same over families"),
        *interval("family_difference", "the largest difference of the effect between two families", form="number"),
        Column("families", "the two families", shown=False),
        Column("family_p", "p-value of equivalence over families", form="p"),
        Column("items", "items with both sides", shown=False),
        Column("tasks", "tasks among them", shown=False),
        Column("note", "what the design cannot tell apart, or why it was not tested"),
    ),
    note=(
        "Effects on the score. Stable: every pair of sizes is equivalent; scale-dependent: a pair differs by more than"
        " the bound."
    ),
    folded=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LevelComparison:
    """The levels of one factor compared in one effect."""

    effects: Mapping[str, Effect]
    """Effect at each level."""
    widest: Effect = field(default_factory=Effect)
    between: tuple[str, str] = ("", "")
    p_value: float = float("nan")
    """Of "every pair of levels is within the bound"."""
    beyond: float = 1.0
    """The smallest level at which a pair lies wholly beyond the bound, times the number of pairs."""
    untested: str = ""

    @property
    def call(self) -> Call:
        """``stable``, ``scale-dependent``, ``undecided`` or ``not tested``."""
        if self.untested:
            return "not tested"
        return (
            "scale-dependent" if self.beyond <= ALPHA else "stable" if self.p_value <= ALPHA else "undecided"
        )

    @property
    def direction(self) -> str:
        """``positive`` or ``negative`` where the effect at every level reliably is, else empty."""
        signs = {effect.sign() for effect in self.effects.values()}
        return {1: "positive", -1: "negative"}.get(signs.pop(), "") if len(signs) == 1 else ""


@dataclass(frozen=True, slots=True)
class ScaleRow:
    """A condition or operator with its effect by size and by family."""

    kind: Kind
    name: str
    sizes: LevelComparison
    families: LevelComparison
    items: int
    tasks: int
    note: str


def scale_rows(evidence: Evidence) -> list[ScaleRow]:
    """The effect of every condition against its control and of every operator against its twin, by size and family.

    Empty for a run of one size and one family, in which nothing can depend on them.
    """
    models = evidence.scores.models
    names = list(dict.fromkeys(info.family for info in models.values()))
    families = Levels("family", {model: info.family for model, info in models.items()}, names)
    if len(evidence.sizes.order) < 2 and len(names) < 2:
        return []
    rows = []
    kinds: tuple[tuple[Kind, Mapping[str, Sequence[CellPair]]], ...] = (
        ("condition", evidence.conditions),
        ("operator", evidence.operators),
    )
    for kind, by_name in kinds:
        for name in sorted(by_name, key=natural_key):
            pairs, by_task = by_name[name], evidence.deltas(by_name[name], SCORE).by_task
            # Families by size: where they differ, the two cannot be told apart.
            by_size: dict[str, set[str]] = {}
            for pair in pairs:
                model = pair.treated.model
                by_size.setdefault(evidence.sizes.of[model], set()).add(families.of[model])
            confounded = len(set(map(frozenset, by_size.values()))) > 1
            rows.append(
                ScaleRow(
                    kind,
                    name,
                    _compare(evidence, pairs, evidence.sizes, name),
                    _compare(evidence, pairs, families, name),
                    sum(len(measured.items) for measured in by_task.values()),
                    len(by_task),
                    "the sizes have different families: a difference may be either's" if confounded else "",
                )
            )
    return rows


def _compare(evidence: Evidence, pairs: Sequence[CellPair], levels: Levels, name: str) -> LevelComparison:
    """Effects by level and every pair of levels set against each other, on the items that both answered."""
    by_level = {
        level: evidence.deltas([pair for pair in pairs if levels.of[pair.treated.model] == level], SCORE)
        for level in levels.order
    }
    by_level = {level: deltas for level, deltas in by_level.items() if deltas.pairs}
    if len(by_level) < 2:
        return LevelComparison({}, untested=f"one {levels.factor} only")
    effects = {level: pool_deltas(deltas, name, levels.factor, level) for level, deltas in by_level.items()}
    bound, compared = evidence.analysis.scale_bound, []
    for first, second in combinations(by_level, 2):
        gap = _between(by_level[first], by_level[second])
        effect = pool_deltas(gap, name, levels.factor, first, second, reason="no item that both answered")
        if effect.untested:
            return LevelComparison(effects, untested=f"{first} and {second}: {effect.untested}")
        same = p_within(effect, bound)
        if effect.tasks == 1:
            ((task, measured),) = gap.by_task.items()
            clusters = gap.clusters_of(task, measured.items)
            # Clusters of one size are as good as items that are their means.
            values = cluster_rows(measured.values, clusters)
            same = max(same, tost_paired(values, bound=bound, bounds=(-2.0, 2.0)).p_value)
        compared.append((effect, (first, second), same, _p_beyond(effect, bound)))
    # Every pair must be within the bound (the largest p-value); one beyond it is enough (the smallest, Bonferroni).
    widest = max(compared, key=lambda entry: abs(entry[0].value))
    beyond = min(entry[3] for entry in compared) * len(compared)
    return LevelComparison(effects, widest[0], widest[1], max(entry[2] for entry in compared), beyond)


def _between(first: Deltas, second: Deltas) -> Deltas:
    """The effect at one level less that at another, one difference per item, task by task."""
    gap = Deltas(levels=first.levels | second.levels, clusters=first.clusters)
    for task in (task for task in first.by_task if task in second.by_task):
        items, (at_first, at_second) = on_common_items(first.by_task[task], second.by_task[task])
        pair = next(pair for pair, _, _ in first.pairs if pair.treated.task == task)
        if len(items):
            gap.pairs.append((pair, items, at_first - at_second))
    return gap


def p_within(effect: Effect, bound: float) -> float:
    """Of two one-sided tests, the larger p-value: is the effect within ±bound?"""
    up, down = _errors(effect)
    tail = require("scipy.special", "stats").stdtr
    return float(
        max(tail(effect.df, (effect.value - bound) / up), tail(effect.df, -(effect.value + bound) / down))
    )


def _p_beyond(effect: Effect, bound: float) -> float:
    """Two-sided level at which the whole interval lies beyond ±bound, 1 where the effect itself does not.

    The exact test must reject too: what is not reliably different from zero is not beyond anything.
    """
    if abs(effect.value) <= bound:
        return 1.0
    up, down = _errors(effect)
    error = down if effect.value > 0 else up
    tail = require("scipy.special", "stats").stdtr
    return float(max(2 * tail(effect.df, -(abs(effect.value) - bound) / error), effect.p_value))


def _errors(effect: Effect) -> tuple[float, float]:
    """Standard errors upwards and downwards, from the interval's own arms."""
    reach = float(require("scipy.special", "stats").stdtrit(effect.df, 0.975))
    up, down = (effect.high - effect.value) / reach, (effect.value - effect.low) / reach
    return max(up, 1e-12), max(down, 1e-12)


def scale_table(rows: Sequence[ScaleRow], sizes: Levels) -> Table:
    """``scale.csv`` with a column of effects for each size and each family that a row has."""
    levels = list(sizes.order)
    families = list(dict.fromkeys(family for row in rows for family in row.families.effects))
    spec = SCALE.extended(
        column
        for level in (*levels, *(name for name in families if name not in levels))
        for column in interval(f"effect_{level}", f"effect at {level}")
    )
    records = []
    for row in rows:
        record: dict[str, Any] = {
            "kind": row.kind,
            "name": row.name,
            "call": row.sizes.call,
            "direction": row.sizes.direction,
            "factor": sizes.factor,
            "sizes": " and ".join(filter(None, row.sizes.between)),
            "size_p": number(row.sizes.p_value),
            "family_call": row.families.call,
            "families": " and ".join(filter(None, row.families.between)),
            "family_p": number(row.families.p_value),
            "items": row.items,
            "tasks": row.tasks,
            "note": "; ".join(filter(None, (row.sizes.untested, row.note))),
            **estimate_columns("size_difference", row.sizes.widest),
            **estimate_columns("family_difference", row.families.widest),
        }
        for compared in (row.families, row.sizes):
            for level, effect in compared.effects.items():
                record |= estimate_columns(f"effect_{level}", effect)
        records.append(record)
    return Table.of(spec, records)


def same_everywhere(rows: Sequence[ScaleRow]) -> Finding | None:
    """Supported where every condition is stable; contradicted where one is not, at 5 % over all of them."""
    if not rows:
        return None
    differing = [row for row in rows if row.sizes.beyond * len(rows) <= ALPHA]
    stable = [row for row in rows if row.sizes.call == "stable"]
    verdict: Verdict = (
        "contradicted" if differing else "supported" if len(stable) == len(rows) else "inconclusive"
    )
    widest = max(rows, key=lambda row: abs(row.sizes.widest.value))
    effect = widest.sizes.widest
    words = (
        f"{_named(rows)}. The widest difference is that of {widest.name} between {' and '.join(widest.sizes.between)}:"
        f" {effect.words()}; scale.csv has them all."
    )
    largest: dict[str, Any] = {name: max(getattr(row, name) for row in rows) for name in ("items", "tasks")}
    p_value = max(row.sizes.p_value for row in rows)
    largest |= {"task_names": _tasks_of(rows)}
    return Finding(
        words, verdict, replace(effect, p_value=p_value, cells=len(rows), models=0, studies=(), **largest)
    )


def some_and_others(rows: Sequence[ScaleRow]) -> Finding | None:
    """Supported where one operator is stable and helps and another depends on size, each at 5 % over all of them."""
    if len(rows) < 2:
        return None
    level = ALPHA / len(rows)
    helping = [
        row
        for row in rows
        if row.sizes.p_value <= level
        and all(effect.sign(level) == 1 for effect in row.sizes.effects.values())
    ]
    depending = [row for row in rows if row.sizes.beyond <= level]
    alike = len({row.sizes.call for row in rows}) == 1 and rows[0].sizes.call in ("stable", "scale-dependent")
    verdict: Verdict = "supported" if helping and depending else "contradicted" if alike else "inconclusive"
    scope = Effect(cells=len(rows), task_names=_tasks_of(rows))
    return Finding(f"{_named(rows)}; scale.csv has them all.", verdict, scope)


def _tasks_of(rows: Sequence[ScaleRow]) -> tuple[str, ...]:
    """The tasks that the differences between sizes are over, each once."""
    return tuple(dict.fromkeys(name for row in rows for name in row.sizes.widest.task_names))


def _named(rows: Sequence[ScaleRow]) -> str:
    """``stable: C1, C2 (positive); undecided: C3``."""
    parts = []
    for call in ("stable", "scale-dependent", "undecided"):
        names = [
            f"{row.name} ({row.sizes.direction})" if row.sizes.direction else row.name
            for row in rows
            if row.sizes.call == call
        ]
        if names:
            parts.append(f"{call}: {', '.join(names)}")
    return "; ".join(parts)


def _over_sizes(
    kind: Kind, judge: Callable[[Sequence[ScaleRow]], Finding | None]
) -> Callable[[Evidence], Finding | None]:
    """A claim on the rows of ``scale.csv`` of one kind that could be tested over sizes."""

    def criterion(evidence: Evidence) -> Finding | None:
        sizes = evidence.sizes
        if len(sizes.order) < 2:
            return Finding(f"the run has one {sizes.factor} only ({', '.join(sizes.order)}).")
        rows = evidence.once(scale_rows)
        return judge([row for row in rows if row.kind == kind and not row.sizes.untested])

    return criterion


H4 = Hypothesis(
    "H4",
    "some operators have a stable positive effect at every model size, others depend on it (operator × size"
    " interaction).",
    "the operators' rows of `scale.csv`",
    "it needs two operators with their twins on two sizes, with scores that vary",
    _over_sizes("operator", some_and_others),
)
H4C = Hypothesis(
    "H4C",
    "effects of conditions are the same at every model size (within ±{analysis.scale_bound:g}).",
    "every pair of size classes equivalent within `analysis.scale_bound`; contradicted only where a difference lies"
    " wholly beyond it",
    "no condition beside its control on two sizes, with scores that vary",
    _over_sizes("condition", same_everywhere),
)
