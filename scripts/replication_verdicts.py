"""What came of the replications, by the rules that their pages state: a verdict for each model.

A model is a study of its own: its contrasts are corrected together, and its rows are looked at after the first 60, 120
and 200 items of every task, in registered order, with an α of 0.01, 0.015 and 0.025, which are registered too. The
first look with a verdict ends it; what is asked afterwards is shown and changes none. So a study may stop early, and be
run in sittings, and a false verdict stays as rare as at one look: the parts of α add up to 0.05.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

import numpy as np
from replication_rows import CHANCE, FLOOR, LOOKS, Answer

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.alarms import CONSTANT_SHARE
from pcsuite.config.load import Suite
from pcsuite.contrasts import (
    ArmScores,
    Contrast,
    ContrastResult,
    Family,
    ReadEffect,
    is_form,
    judge,
    measure,
)
from pcsuite.errors import require
from pcsuite.prompts.conditions.conditions import expand_conditions
from pcsuite.stats.clustered import cluster_mean
from pcsuite.stats.estimate import Estimate, t_interval

COUNTED_BY_THE_PAPER = 0.1
"""P-value, uncorrected, below which the paper on repeated prompts counts a win or a loss."""
WHOLE = 0.98
"""Share of a cell's items below which a look cannot be taken."""
STRICT, LENIENT = "score", "lenient"
SHOWN = 0.05
"""α of limits and verdicts in tables, where no look has its own."""
UNDECIDED = "inconclusive"


@dataclass(frozen=True)
class Cells:
    """The rows of a replication by model, task and condition."""

    name: str
    suite: Suite
    rows: Sequence[Answer]
    alpha: float = SHOWN
    _judged: dict[tuple[str, ...], dict[tuple[str, str], ContrastResult]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def by_cell(self) -> dict[tuple[str, str, str], dict[str, Answer]]:
        """By model, task and condition: the row of each item."""
        found: dict[tuple[str, str, str], dict[str, Answer]] = {}
        for row in self.rows:
            found.setdefault((row.model, row.task, row.condition), {})[row.item] = row
        return found

    @cached_property
    def models(self) -> list[str]:
        """In the order of the registration, others after them."""
        there = {row.model for row in self.rows}
        known = [model for model in self.suite.profile.selection.models if model in there]
        return known + sorted(there - set(known))

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks that have rows, in the order of the registration."""
        there = {row.task for row in self.rows}
        return [task for task in self.suite.profile.selection.tasks if task in there]

    @cached_property
    def conditions(self) -> list[str]:
        """Conditions that have rows, in the order of the registration."""
        there = {row.condition for row in self.rows}
        return [name for name in self.suite.profile.selection.conditions if name in there]

    def of_model(self, model: str) -> Cells:
        """The same with the rows of one model only."""
        return replace(self, rows=[row for row in self.rows if row.model == model])

    def at_look(self, items: int, alpha: float) -> Cells:
        """The same with the first items of each task only, judged at the look's part of α."""
        return replace(self, rows=[row for row in self.rows if row.place < items], alpha=alpha)

    def missing(self, items: int) -> list[str]:
        """Tasks and conditions that lack more of so many items than may fail, by model, in words."""
        found = []
        for model in self.models:
            for task in self.suite.profile.selection.tasks:
                wanted = min(items, self.suite.item_limit(task) or items)
                for condition in self.suite.profile.selection.conditions:
                    there = len(self.answers(model, task, condition))
                    if there < WHOLE * wanted:
                        found.append(f"{condition} on {task} ({there} of {wanted})")
        return found

    def answers(self, model: str, task: str, condition: str) -> list[Answer]:
        """The rows of a cell."""
        return list(self.by_cell.get((model, task, condition), {}).values())

    def level(self, model: str, task: str, condition: str, reading: str) -> float | None:
        """Mean score of a cell under a reading; ``None`` where it has no rows."""
        answers = self.answers(model, task, condition)
        return fmean(getattr(one, reading) for one in answers) if answers else None

    def constant(self, model: str, task: str, condition: str) -> float:
        """Share of a cell's readable answers that are the commonest one."""
        counts = Counter(one.answer for one in self.answers(model, task, condition) if one.answer)
        return counts.most_common(1)[0][1] / counts.total() if counts else 0.0

    def dead(self, model: str, task: str) -> str:
        """Why a cell is not counted; empty where it is."""
        answers = [one for name in self.conditions for one in self.answers(model, task, name)]
        if not answers:
            return "not run"
        chance, level = CHANCE[task], fmean(one.lenient for one in answers)
        if (level - chance) / (1 - chance) < FLOOR:
            return f"over all conditions {level:.2f} read leniently, with {chance:.2f} by chance"
        counts = Counter(one.answer for one in answers if one.answer)
        constant = counts.most_common(1)[0][1] / counts.total() if counts else 0.0
        return f"{constant:.0%} of all readable answers are one" if constant >= CONSTANT_SHARE else ""

    @cached_property
    def alive(self) -> list[tuple[str, str]]:
        """Models and tasks that count."""
        return [(model, task) for model in self.models for task in self.tasks if not self.dead(model, task)]

    @cached_property
    def model(self) -> str:
        """The one model of these rows."""
        (model,) = self.models
        return model

    @cached_property
    def live(self) -> list[str]:
        """Tasks that count for the one model."""
        return [task for _, task in self.alive]

    def judged(self, reading: str, tasks: Sequence[str]) -> dict[tuple[str, str], ContrastResult]:
        """The registered contrasts over some tasks together, by condition and baseline, corrected together by Holm."""
        key = reading, *tasks
        if key not in self._judged:
            registered = self.suite.profile.preregistration
            assert registered is not None
            pairs = (
                [pair for pair in contrasts_of(self.suite) if set(pair) <= set(self.conditions)]
                if tasks
                else []
            )
            measured = [
                one
                for pair in pairs
                for one in measure(
                    self.arms(self.model, tasks, reading, pair),
                    [Contrast.of(*pair)],
                    rng=named_rng("replication", self.name, self.model, *tasks, *pair, reading),
                )
            ]
            found = judge(measured, Family("holm", alpha=self.alpha, margin=registered.margin))
            self._judged[key] = dict(zip(pairs, found, strict=True))
        return self._judged[key]

    def limits(self, reading: str, tasks: Sequence[str], pair: tuple[str, str], level: float) -> Estimate:
        """Limits of a contrast over some tasks: Student's by cluster-robust standard errors (CR2).

        Hundreds of items in some hundred clusters bear the normal approximation, which `pcsuite` does not rely on
        elsewhere: limits that hold for any shape are four times as wide here. Items that lack an arm count as whatever
        is farthest off.
        """
        first, second = self.arms(self.model, tasks, reading, pair).values()
        differences = first.values - second.values
        clusters = np.arange(len(differences)) if first.clusters is None else first.clusters
        _, codes = np.unique(clusters, return_inverse=True)
        sides = []
        for missing in (-1.0, 1.0):
            mean = cluster_mean(np.where(np.isnan(differences), missing, differences), codes)
            sides.append(t_interval(mean.value, mean.se, mean.df, level=level, n=len(differences)))
        value = float(np.nanmean(differences))
        return replace(sides[0], value=value, low=sides[0].low, high=sides[1].high)

    def rules_out(self, reading: str, pair: tuple[str, str], *, gain: bool = False) -> bool:
        """Whether a loss of the margin over live tasks is ruled out at these cells' α, with ``gain`` a gain too."""
        registered = self.suite.profile.preregistration
        assert registered is not None
        limits = self.limits(reading, self.live, pair, 1 - 2 * self.alpha)
        return limits.low > -registered.margin and (not gain or limits.high < registered.margin)

    def word(self, reading: str, pair: tuple[str, str]) -> str:
        """What is said of a contrast over live tasks at the α of these cells."""
        verdict = self.judged(reading, self.live)[pair].verdict
        if verdict in ("better", "worse", "not tested"):
            return verdict
        if self.rules_out(reading, pair, gain=True):
            return "equivalent"
        return "no worse" if self.rules_out(reading, pair) else "undecided"

    def both(self, tasks: Sequence[str]) -> list[Judged]:
        """The registered contrasts over some tasks together, under both readings."""
        lenient = self.judged(LENIENT, tasks)
        return [
            Judged(self.model, *pair, strict, lenient[pair])
            for pair, strict in self.judged(STRICT, tasks).items()
        ]

    @cached_property
    def items(self) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """By model and task: every item with its example set."""
        found: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for row in self.rows:
            found.setdefault((row.model, row.task), set()).add((row.item, row.examples))
        return {key: sorted(values) for key, values in found.items()}

    def arms(
        self, model: str, tasks: Sequence[str], reading: str, names: Iterable[str]
    ) -> dict[str, ArmScores]:
        """Item scores of some conditions over one or several tasks.

        Where one of the conditions shows examples, items of one example set are one cluster.
        """
        names = list(names)
        clustered = self.examples_shown(names)
        items = [(task, *one) for task in tasks for one in self.items.get((model, task), [])]
        clusters = np.array([f"{task} {examples}" for task, _, examples in items], dtype=object)
        arms = {}
        for name in names:
            found = [self.by_cell.get((model, task, name), {}).get(item) for task, item, _ in items]
            values = np.array([np.nan if one is None else getattr(one, reading) for one in found])
            arms[name] = ArmScores(
                values,
                failed=np.isnan(values).astype(float),
                bounds=(0.0, 1.0),
                clusters=clusters if clustered else None,
            )
        return arms

    def examples_shown(self, names: Iterable[str]) -> bool:
        """Whether one of the conditions shows examples, which items of a set then have in common."""
        bundles = expand_conditions(list(names), self.suite.conditions, self.suite.operators)
        return any(one.spec.type == "fewshot" for bundle in bundles for step in bundle.steps for one in step)


class Judged(NamedTuple):
    """A registered contrast under both readings."""

    model: str
    first: str
    second: str
    strict: ContrastResult
    lenient: ContrastResult

    @property
    def form(self) -> bool:
        """Whether the two readings disagree on it."""
        sides = [
            ReadEffect(
                one.estimate.value, one.verdict in ("better", "worse"), one.shown_no_worse, one.measured
            )
            for one in (self.strict, self.lenient)
        ]
        return is_form(*sides)


def contrasts_of(suite: Suite) -> list[tuple[str, str]]:
    """The registered contrasts, as condition and baseline."""
    registered = suite.profile.preregistration
    assert registered is not None, "a replication is registered"
    return [(str(one.condition), str(one.baseline)) for one in registered.primary]


# Verdicts, by the rules that the pages state: each of one model at one look.


class Said(NamedTuple):
    """What a rule says at a look."""

    verdict: str
    told: str
    """The counts that it rests on."""
    settled: bool = True
    """Whether it ends the study; what rests on something not being shown is said at the last look only."""


def verdict_prompt_twice(cells: Cells, reading: str) -> Said:
    """Whether the prompt twice is better than once, and than filler of its length, over live tasks."""
    found = cells.judged(reading, cells.live)
    once = {pair: result for pair, result in found.items() if pair[1] in ("zero", "few")}
    better, worse = (
        [pair for pair, result in once.items() if result.verdict == word] for word in ("better", "worse")
    )
    beyond = [pair for pair in better if found[pair[0], f"{pair[1]}_filler"].verdict == "better"]
    told = (
        f"twice is better than once in {len(better)} and worse in {len(worse)} of {len(once)} contrasts over live"
        f" tasks, and of the better ones {len(beyond)} are better than filler of the same length too"
    )
    if better and worse:
        return Said("mixed", told)
    if worse:
        return Said("contradicted", told)
    if beyond:
        return Said("supported", told)
    if better:
        return Said("supported, and not shown beyond length", told, settled=False)
    if once and all(cells.rules_out(reading, pair, gain=True) for pair in once):
        return Said("contradicted: no difference of the margin", told)
    return Said(UNDECIDED, told, settled=False)


def wins_and_losses(cells: Cells, reading: str) -> tuple[int, int, int]:
    """Wins, losses and contrasts of the prompt twice with once, task by task as the paper counts them."""
    alone = [
        result
        for task in cells.live
        for (_, second), result in cells.judged(reading, [task]).items()
        if second in ("zero", "few")
    ]
    counted = [one for one in alone if one.measured.test.p_value < COUNTED_BY_THE_PAPER]
    wins = sum(one.estimate.value > 0 for one in counted)
    return wins, len(counted) - wins, len(alone)


def verdict_expert_roles(cells: Cells, reading: str) -> Said:
    """Equivalence of each expert's role to none, over live tasks."""
    found = cells.judged(reading, cells.live)
    roles = {
        first: result for (first, second), result in found.items() if second == "no_role" and first != "child"
    }
    moved = {
        first: result.verdict for first, result in roles.items() if result.verdict in ("better", "worse")
    }
    same = sum(cells.rules_out(reading, (first, "no_role"), gain=True) for first in roles)
    told = f"{same} of {len(roles)} expert roles are equivalent to none within the margin, over live tasks"
    told += "".join(f"; {first} is {verdict}" for first, verdict in moved.items())
    if roles and same == len(roles):
        return Said("supported", told)
    return Said("contradicted", told) if moved else Said(UNDECIDED, told, settled=False)


def verdict_text_behind(cells: Cells, reading: str) -> Said:
    """Whether any text behind the question costs score, or the checklist's words do; pooled over live tasks."""
    by_pair = cells.judged(reading, cells.live)
    if not by_pair:
        return Said(UNDECIDED, "no task is live", settled=False)
    moved = {
        name: cells.word(reading, (f"{name}_behind", f"{name}_before")) for name in ("sham", "line", "checks")
    }
    costs = {name for name, verdict in moved.items() if verdict == "worse"}
    free = {name for name in moved if cells.rules_out(reading, (f"{name}_behind", f"{name}_before"))}
    words = by_pair["checks_behind", "sham_behind"].verdict == "worse"
    told = (
        f"behind the question, not before the examples: filler {moved['sham']}, one line {moved['line']}, the checklist"
        f" {moved['checks']}; the checklist {'worse' if words else 'not shown to be worse'} than its filler there;"
        f" examples behind the question {cells.word(reading, ('demos_behind', 'shots'))}"
    )
    if {"sham", "line"} <= costs:
        return Said("any text behind the question costs score", told)
    if words and {"sham", "line"} <= free:
        return Said("the checklist's words cost score", told)
    if len(free) == len(moved):
        return Said("text behind the question does not cost the margin", told)
    return Said(UNDECIDED, told, settled=False)


class Spread(NamedTuple):
    """How far a model's score varies over templates, what chance adds taken off."""

    model: str
    strict: float
    lenient: float
    difference: float
    """Lenient less strict, of the variances, with limits at the α of the cells."""
    low: float
    high: float

    @property
    def told(self) -> str:
        """In words."""
        share = f", {self.difference / self.strict**2:+.0%} of the strict one" if self.strict else ""
        return (
            f"the spread is {self.strict:.3f} strict and {self.lenient:.3f} lenient, the difference of the variances"
            f" {self.difference:+.5f} [{self.low:+.5f}, {self.high:+.5f}]{share}"
        )


def spreads(cells: Cells) -> list[Spread]:
    """By model with live tasks: the standard deviation of the score over the templates, strictly and leniently read.

    It is the root of a variance, on average over live tasks, of which the part is taken off that the choice of items
    leaves by chance: else the reading with the noisier scores would seem to be the more sensitive one. Limits of the
    difference of the variances are Student's by the jackknife over example sets.
    """
    special = require("scipy.special", "stats")
    found = []
    for model in cells.models:
        tasks = [task for one, task in cells.alive if one == model]
        if not tasks:
            continue
        totals, error, weights = {STRICT: 0.0, LENIENT: 0.0}, 0.0, 0.0
        for task in tasks:
            sets = np.array([examples for _, examples in cells.items[model, task]])
            scores = {
                reading: np.column_stack(
                    [arm.values for arm in cells.arms(model, [task], reading, cells.conditions).values()]
                )
                for reading in (STRICT, LENIENT)
            }
            whole = np.isfinite(scores[STRICT]).all(axis=1)
            sets = sets[whole]
            variances = {reading: _variance(values[whole], sets) for reading, values in scores.items()}
            for reading, value in variances.items():
                totals[reading] += value / len(tasks)
            names = sorted(set(sets))
            without = np.array(
                [
                    _variance(scores[LENIENT][whole][sets != name], sets[sets != name])
                    - _variance(scores[STRICT][whole][sets != name], sets[sets != name])
                    for name in names
                ]
            )
            squared = (len(names) - 1) * float(without.var()) / len(tasks) ** 2
            error, weights = error + squared, weights + squared**2 / (len(names) - 1)
        difference = totals[LENIENT] - totals[STRICT]
        reach = float(special.stdtrit(error**2 / weights, 1 - cells.alpha / 2)) * error**0.5 if error else 0.0
        strict, lenient = (max(totals[reading], 0.0) ** 0.5 for reading in (STRICT, LENIENT))
        found.append(Spread(model, strict, lenient, difference, difference - reach, difference + reach))
    return found


def _variance(scores: np.ndarray, sets: np.ndarray) -> float:
    """Variance of the templates' mean scores (columns), less the noise that items in example sets leave in it."""
    means = scores.mean(axis=0)
    _, codes = np.unique(sets, return_inverse=True)
    count, templates = int(codes.max()) + 1, scores.shape[1]
    apart = np.zeros((count, templates))
    np.add.at(apart, codes, (scores - means) / len(scores))
    covariance = count / (count - 1) * apart.T @ apart
    noise = (np.trace(covariance) - covariance.sum() / templates) / (templates - 1)
    return float(means.var(ddof=1) - noise)


def verdict_reading_artefact(cells: Cells, reading: str) -> Said:
    """Whether the spread over twelve templates shrinks where answers are read leniently; both readings enter."""
    found = spreads(cells)
    told = "; ".join(one.told for one in found)
    if found and all(one.high < 0 for one in found):
        return Said("supported", told)
    if any(one.low > 0 for one in found):
        return Said("contradicted", told)
    return Said(UNDECIDED, told or "no task is live", settled=False)


VERDICTS: Mapping[str, Callable[[Cells, str], Said]] = {
    "prompt_twice": verdict_prompt_twice,
    "expert_roles": verdict_expert_roles,
    "text_behind": verdict_text_behind,
    "reading_artefact": verdict_reading_artefact,
}


class Ended(NamedTuple):
    """What a model's rows came to."""

    verdict: str
    """Empty where a look is still to come."""
    told: str
    items: int
    """Items a task at the look that said it."""
    cells: Cells
    """As they were at that look."""
    missing: Sequence[str] = ()
    """What the next look lacks."""


def ended(cells: Cells) -> Ended:
    """The verdict on the rows of one model, strictly read: that of the first look that settles it, else of the last.

    A look is taken where all its tasks and conditions have their items; where one is not, none after it is.
    """
    before = Ended("", "", 0, cells)
    for number, (items, alpha) in enumerate(LOOKS, 1):
        part = cells.at_look(items, alpha)
        if missing := part.missing(items):
            return before._replace(missing=missing)
        said = VERDICTS[cells.name](part, STRICT)
        last = number == len(LOOKS)
        if said.settled or last:
            return Ended(said.verdict, said.told, items, part)
        before = Ended("", said.told, items, part)
    raise AssertionError("the last look says something")
