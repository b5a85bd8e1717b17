"""The pages of the replications: what was registered, and, once it was run, what came of it.

    python scripts/replication_pages.py                              # every page from the rows that are published
    python scripts/replication_pages.py --check                      # exit status 1 where a page says something else
    python scripts/replication_pages.py prompt_twice                 # the rows of its log first, then its page
    python scripts/replication_pages.py prompt_twice --log FILE --to FOLDER --rows-to FOLDER
    python scripts/replication_pages.py --register --set run.cache_dir=FOLDER    # the published items are in FOLDER

`configs/replications/NAME.yaml` is what is asked, `configs/replications/registered.json` its hash as it was landed, and
for every task the hash of all its prompts: rows of any other prompt are refused. The rows are published as
`rows/NAME.csv.gz`, a line each (ids, scores and the answer as it was read: no text of an item or an answer), as long as
they take less than five megabytes; every number between the two marks of a page is computed from them. A verdict is
said by the rule that the page states, which is hashed too.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import yaml

from pcsuite._util.hashing import digest, named_rng, sha256_hex
from pcsuite.analysis.alarms import CONSTANT_SHARE
from pcsuite.config.load import Suite, load_suite
from pcsuite.contrasts import (
    FORM,
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
from pcsuite.evaluation.abstention import value_abstains
from pcsuite.logging.log import iter_newest_rows
from pcsuite.prompts.conditions.conditions import expand_conditions
from pcsuite.runners.plan import Plan, build_plan
from pcsuite.runners.registration import section_content

ROOT = Path(__file__).resolve().parents[1]
PROFILES = ROOT / "configs" / "replications"
PAGES = ROOT / "docs" / "studies" / "replications"
REGISTERED = PROFILES / "registered.json"
NAMES = ("prompt_twice", "expert_roles", "text_behind", "reading_artefact")
"""In the order in which they are run where compute is short."""
BEGIN, END = "<!-- results: written by scripts/replication_pages.py -->", "<!-- end of results -->"
LARGEST = 5_000_000
"""Bytes of rows that are published."""
CHANCE = {
    "agnews_json": 1 / 4,
    "trec": 1 / 6,
    "boolq": 1 / 2,
    "csqa_json": 1 / 5,
    "strategyqa": 1 / 2,
    "svamp": 0.0,
}
"""Score of labels drawn by lot."""
FLOOR = 0.10
"""A cell is dead, shown and not counted, where the mean lenient score over all its conditions has come less than this
share of the way from chance to 1. All conditions count alike: an item's scores in the two arms of a contrast could
be exchanged without a change of it, so counting live cells only does not favour one arm."""
COUNTED_BY_THE_PAPER = 0.1
"""P-value, uncorrected, below which the paper on repeated prompts counts a win or a loss."""
WHOLE = 0.98
"""Share of a cell's items below which its run is not whole, and no verdict is said."""
COLUMNS = (
    "model",
    "task",
    "item",
    "examples",
    "wording",
    "condition",
    "score",
    "lenient",
    "answer",
    "abstained",
    "outcome",
)
PUBLISHED_ANSWER = re.compile(r"[A-Za-z_/]{0,20}|-?\d[\d./]{0,20}")
"""Labels, letters and numbers: an answer of these tasks as it was read."""
STRICT, LENIENT = "score", "lenient"


class Answer(NamedTuple):
    """A row as it is published."""

    model: str
    task: str
    item: str
    examples: str
    wording: str
    condition: str
    score: float
    lenient: float
    answer: str
    abstained: bool
    outcome: str


# What is registered.


def design_of(name: str, suite: Suite) -> dict[str, object]:
    """Everything that a replication asks and how it is judged, of whatever files it comes."""
    selection = suite.profile.selection
    conditions = expand_conditions(selection.conditions, suite.conditions, suite.operators)
    used = {operator.name for bundle in conditions for step in bundle.steps for operator in step}
    profile = suite.profile
    return {
        "tasks": {
            name: [suite.tasks[name].model_dump(mode="json"), suite.schema(name)] for name in selection.tasks
        },
        "operators": {
            name: [spec.model_dump(mode="json"), list(spec.paraphrases or ())]
            for name, spec in sorted(suite.operators.items())
            if name in used
        },
        "conditions": {name: suite.conditions[name].model_dump(mode="json") for name in selection.conditions},
        "models": list(selection.models),
        "regimes": {name: suite.regimes[name].model_dump(mode="json") for name in selection.decoding_regimes},
        "wordings": dict(suite.wordings),
        "draw": None if profile.draw is None else profile.draw.model_dump(mode="json"),
        "items": [
            profile.limits.max_items_per_task,
            profile.repro.global_seed,
            profile.repro.deterministic_hash_seed,
        ],
        "preregistration": section_content(profile.preregistration) if profile.preregistration else None,
        "floor": [FLOOR, CONSTANT_SHARE, CHANCE],
        "rule": rule_of((PAGES / f"{name}.md").read_text(encoding="utf-8")),
    }


def rule_of(page: str) -> str:
    """The rule of the verdict as a page states it, white space aside; ``SystemExit`` where it states none."""
    start = page.find("**The rule of the verdict**")
    if start < 0:
        raise SystemExit("the page has no paragraph '**The rule of the verdict**'")
    return " ".join(page[start:].split("\n\n")[0].split())


def registration(name: str) -> str:
    """The hash of what a replication asks and how it is judged, by the files as they are now."""
    return digest(design_of(name, load_suite(str(PROFILES / f"{name}.yaml"))))


def landed(name: str) -> dict[str, object]:
    """What was landed of a replication: the hash of its design, and of the prompts of each task."""
    found: dict[str, object] = json.loads(REGISTERED.read_text(encoding="utf-8")).get(name, {})
    return found


def prompts_of(plan: Plan) -> dict[tuple[str, str, str], str]:
    """The hash of every prompt, as rows have it, by task, item and condition; they are the same for every model."""
    model = plan.cells[0].model_id
    return {
        (cell.task.id, item.item_id, cell.condition.id): sha256_hex(cell.tree(item).assemble())
        for cell in plan.cells
        if cell.model_id == model
        for item in cell.task.items
    }


def registered_prompts(name: str, suite: Suite) -> str:
    """What is to be said where the prompts of a suite are not all registered ones; empty where they are.

    A part of the tasks, items or conditions has other hashes; so have items that were exported from elsewhere.
    """
    known = landed(name)["prompts"]
    assert isinstance(known, dict)
    others = [
        task
        for task, found in prompt_digests(prompts_of(build_plan(suite))).items()
        if found != known.get(task)
    ]
    return f"{name}: other prompts than the registered ones: {', '.join(others)}" if others else ""


def prompt_digests(prompts: Mapping[tuple[str, str, str], str]) -> dict[str, str]:
    """Of each task one hash over all its prompts."""
    tasks = dict.fromkeys(task for task, _, _ in prompts)
    return {task: digest(sorted([*key, prompts[key]] for key in prompts if key[0] == task)) for task in tasks}


# Rows.


def rows_of_log(name: str, log: Path, suite: Suite) -> list[Answer]:
    """The rows of a replication's log, as they are published.

    ``SystemExit`` for a row of another prompt than the plan asks, or of other decoding; what a row was not registered
    for (a condition, an item) is left out.
    """
    plan = build_plan(suite)
    drawn = {
        (task.id, item.item_id): draw
        for task in plan.tasks.values()
        for item in task.items
        if (draw := task.drawn(item))
    }
    asked = prompts_of(plan)
    most = {task.id: task.spec.max_tokens for task in plan.tasks.values()}
    rows = []
    for row in iter_newest_rows(log):
        draw = drawn.get((row.task.id, row.task.item_id))
        prompt = asked.get((row.task.id, row.task.item_id, row.condition.id))
        if prompt is None or row.errors or draw is None or row.kind != "main":
            continue
        where = f"{log}: {row.condition.id} of item {row.task.item_id} ({row.model.id})"
        if row.prompt.prompt_hash != prompt:
            raise SystemExit(
                f"{where}: its prompt is not the one that is asked; ask it anew under another name"
            )
        if (row.decoding.temperature, row.decoding.max_tokens) != (0.0, most[row.task.id]):
            raise SystemExit(f"{where}: it was not asked greedily, or with another limit of tokens")
        answer = "" if row.parsed is None or row.parsed.answer is None else str(row.parsed.answer)
        if not PUBLISHED_ANSWER.fullmatch(answer):
            raise SystemExit(
                f"{where}: the answer as it was read is no label and no number, and not to be published"
            )
        score = float(row.metrics.get("task_score", 0.0))
        fixed = suite.conditions[row.condition.id].reworded
        rows.append(
            Answer(
                row.model.id, row.task.id, row.task.item_id, str(draw.example_set),
                str(draw.wording if fixed is None else fixed), row.condition.id, score,
                float(row.metrics.get("lenient_score", score)), answer, value_abstains(answer),
                row.outcome or "answered",
            )
        )  # fmt: skip
    return sorted(rows)


def write_rows(rows: Sequence[Answer], path: Path) -> bool:
    """Write rows, compressed; where they would take more than :data:`LARGEST` nothing is written, and ``False``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(
        [*row[:6], f"{row.score:g}", f"{row.lenient:g}", row.answer, int(row.abstained), row.outcome]
        for row in rows
    )
    content = gzip.compress(text.getvalue().encode("utf-8"), mtime=0)
    if len(content) > LARGEST:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return True


def read_rows(path: Path) -> list[Answer]:
    """The published rows."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        lines = csv.DictReader(stream)
        return [
            Answer(
                line["model"], line["task"], line["item"], line["examples"], line["wording"], line["condition"],
                float(line["score"]), float(line["lenient"]), line["answer"], line["abstained"] == "1", line["outcome"],
            )
            for line in lines
        ]  # fmt: skip


# Numbers.


@dataclass(frozen=True)
class Cells:
    """The rows of a replication by model, task and condition."""

    name: str
    suite: Suite
    rows: Sequence[Answer]

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

    @cached_property
    def counted(self) -> list[str]:
        """The models that verdicts are about: those of the registration; where none of them has rows, all."""
        registered = set(self.suite.profile.selection.models) & set(self.models)
        return [model for model in self.models if model in registered or not registered]

    def of_models(self, models: Iterable[str]) -> Cells:
        """The same with the rows of some models only."""
        kept = set(models)
        return Cells(self.name, self.suite, [row for row in self.rows if row.model in kept])

    @cached_property
    def missing(self) -> list[str]:
        """Models, tasks and conditions that lack more items than may fail, in words; empty for a whole run."""
        selection, found = self.suite.profile.selection, []
        for model in self.counted:
            for task in selection.tasks:
                wanted = self.suite.item_limit(task) or 0
                for condition in selection.conditions:
                    there = len(self.answers(model, task, condition))
                    if there < WHOLE * wanted:
                        found.append(f"{condition} on {task} × {model} ({there} of {wanted})")
        lacking = [model for model in selection.models if model not in self.models]
        return found + (
            [] if self.counted == self.models and len(lacking) == len(selection.models) else lacking
        )

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
    def by_task(self) -> list[Judged]:
        """The registered contrasts in every cell of model and task, judged."""
        return judged(self)

    @cached_property
    def pooled(self) -> list[Judged]:
        """The registered contrasts of every model over its live tasks, judged."""
        return judged(self, pooled=True)

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
    """A registered contrast in one cell, or pooled over the live tasks of a model."""

    model: str
    task: str
    first: str
    second: str
    strict: ContrastResult
    lenient: ContrastResult

    def by(self, reading: str) -> ContrastResult:
        """The contrast under a reading."""
        return self.strict if reading == STRICT else self.lenient

    @property
    def form(self) -> bool:
        """Whether the two readings disagree on it."""
        sides = [
            ReadEffect(one.estimate.value, one.verdict in ("better", "worse"), one.shown_no_worse)
            for one in (self.strict, self.lenient)
        ]
        return is_form(*sides)


def contrasts_of(suite: Suite) -> list[tuple[str, str]]:
    """The registered contrasts, as condition and baseline."""
    registered = suite.profile.preregistration
    assert registered is not None, "a replication is registered"
    return [(str(one.condition), str(one.baseline)) for one in registered.primary]


def judged(cells: Cells, *, pooled: bool = False) -> list[Judged]:
    """Every registered contrast in every cell, or of every model over its live tasks, corrected as registered."""
    registered = cells.suite.profile.preregistration
    assert registered is not None
    live = cells.alive
    where: list[tuple[str, str, list[str]]] = []
    for model in cells.models:
        if pooled:
            tasks = [task for one, task in live if one == model]
            where += [(model, "all live tasks", tasks)] if tasks else []
        else:
            where += [(model, task, [task]) for task in cells.tasks]
    pairs = [pair for pair in contrasts_of(cells.suite) if set(pair) <= set(cells.conditions)]
    families: dict[str, list[tuple[str, str, list[str], str, str]]] = {}
    for model, task, tasks in where:
        key = task if registered.family == "task" and not pooled else "all"
        families.setdefault(key, []).extend((model, task, tasks, *pair) for pair in pairs)
    found = []
    for members in families.values():
        sides = []
        for reading in (STRICT, LENIENT):
            measured = [
                one
                for model, task, tasks, first, second in members
                for one in measure(
                    cells.arms(model, tasks, reading, (first, second)),
                    [Contrast.of(first, second)],
                    rng=named_rng("replication", cells.name, model, task, first, second, reading),
                )
            ]
            sides.append(judge(measured, Family("holm", alpha=registered.alpha, margin=registered.margin)))
        found += [
            Judged(model, task, first, second, strict, lenient)
            for (model, task, _, first, second), strict, lenient in zip(members, *sides, strict=True)
        ]
    return found


# Verdicts, by the rules that the pages state.


def _within(result: ContrastResult) -> bool:
    """Whether a gain and a loss of the margin are both ruled out."""
    return result.no_worse is not None and result.no_worse.equivalent


def verdict_prompt_twice(cells: Cells, reading: str) -> tuple[str, str]:
    """Whether the prompt twice is better than once, and than filler of its length, pooled over live tasks."""
    pooled = cells.pooled
    once = [one for one in pooled if one.second in ("zero", "few")]
    better, worse = ([one for one in once if one.by(reading).verdict == word] for word in ("better", "worse"))
    than_filler = {
        (one.model, one.first)
        for one in pooled
        if one.second.endswith("_filler") and one.by(reading).verdict == "better"
    }
    beyond = [one for one in better if (one.model, one.first) in than_filler]
    live = set(cells.alive)
    alone = [one for one in cells.by_task if (one.model, one.task) in live and one.second in ("zero", "few")]
    counted = [one for one in alone if one.by(reading).measured.test.p_value < COUNTED_BY_THE_PAPER]
    wins = sum(one.by(reading).estimate.value > 0 for one in counted)
    told = (
        f"twice is better than once in {len(better)} and worse in {len(worse)} of {len(once)} pooled contrasts, and of"
        f" the better ones {len(beyond)} are better than filler of the same length too; counted task by task as the"
        f" paper counts (p < {COUNTED_BY_THE_PAPER:g}, uncorrected) there are {wins} wins and {len(counted) - wins}"
        f" losses in {len(alone)}"
    )
    if better and worse:
        return "mixed", told
    if worse:
        return "contradicted", told
    if better and 2 * len(better) >= len(once):
        enough = 2 * len(beyond) >= len(better)
        return ("supported" if enough else "supported, and not beyond length"), told
    if once and all(_within(one.by(reading)) for one in once):
        return "contradicted: no difference of the margin", told
    return "inconclusive", told


def verdict_expert_roles(cells: Cells, reading: str) -> tuple[str, str]:
    """Equivalence of each expert's role to none, pooled over the live tasks of each model."""
    pooled = cells.pooled
    roles = [one for one in pooled if one.second == "no_role" and one.first != "child"]
    moved = [one for one in roles if one.by(reading).verdict in ("better", "worse")]
    same = [one for one in roles if _within(one.by(reading))]
    told = f"{len(same)} of {len(roles)} pooled contrasts of expert roles are equivalent to none within the margin"
    if moved:
        told += "; " + ", ".join(f"{one.first} on {one.model} is {one.by(reading).verdict}" for one in moved)
    if roles and len(same) == len(roles):
        return "supported", told
    return ("contradicted" if moved else "inconclusive"), told


def verdict_text_behind(cells: Cells, reading: str) -> tuple[str, str]:
    """Whether any text behind the question costs score, or the checklist's words do; pooled over live tasks."""
    by_pair = {(one.model, one.first, one.second): one.by(reading) for one in cells.pooled}
    live = sorted({model for model, _ in cells.alive})

    def worse(first: str, second: str) -> int:
        return sum(by_pair[model, first, second].verdict == "worse" for model in live)

    moved = [(f"{content}_behind", f"{content}_before") for content in ("sham", "line", "checks")]
    anything = [worse(*pair) for pair in moved[:2]]
    words = worse("checks_behind", "sham_behind")
    demos = worse("demos_behind", "shots")
    told = (
        f"worse behind the question than before the examples: filler on {anything[0]}, one line on {anything[1]} of"
        f" {len(live)} models; the checklist worse than its filler on {words}; examples worse behind the question on"
        f" {demos}"
    )
    if live and min(anything) == len(live):
        return "any text behind the question costs score", told
    if live and words == len(live) and max(anything) == 0:
        return "the checklist's words cost score", told
    if live and all(by_pair[(model, *pair)].shown_no_worse for model in live for pair in moved):
        return "text behind the question does not cost the margin", told
    return "inconclusive", told


class Spread(NamedTuple):
    """How far a model's score varies over templates, what chance adds taken off."""

    model: str
    strict: float
    lenient: float
    difference: float
    """Lenient less strict, of the variances, with 95 % limits."""
    low: float
    high: float


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
        reach = float(special.stdtrit(error**2 / weights, 0.975)) * error**0.5 if error else 0.0
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


def verdict_reading_artefact(cells: Cells, reading: str) -> tuple[str, str]:
    """Whether the spread over twelve templates shrinks where answers are read leniently; both readings enter."""
    found = spreads(cells)
    told = "; ".join(
        f"{one.model}: spread {one.strict:.3f} strict, {one.lenient:.3f} lenient, difference of the variances"
        f" {one.difference:+.5f} [{one.low:+.5f}, {one.high:+.5f}]"
        for one in found
    )
    if found and all(one.high < 0 for one in found):
        return "supported", told
    if any(one.low > 0 for one in found):
        return "contradicted", told
    return "inconclusive", told


VERDICTS: Mapping[str, Callable[[Cells, str], tuple[str, str]]] = {
    "prompt_twice": verdict_prompt_twice,
    "expert_roles": verdict_expert_roles,
    "text_behind": verdict_text_behind,
    "reading_artefact": verdict_reading_artefact,
}


# Pages.


def results(name: str, rows: Sequence[Answer] | None) -> str:
    """What stands between the marks of a page: that nothing was run yet, or verdict, figures and tables."""
    suite = load_suite(str(PROFILES / f"{name}.yaml"))
    registered = f"registered as `{str(landed(name)['design'])[:12]}`"
    if rows is None:
        return (
            f"**Not yet run.** {registered.capitalize()}. The verdict, the figure and the tables will stand here,"
            " computed from published rows."
        )
    every = Cells(name, suite, rows)
    cells = every.of_models(every.counted)
    lines = [*_verdict(cells, every), "", f"{len(rows):,} [rows](rows/{name}.csv.gz), {registered}.", ""]
    lines += _tables(cells)
    others = [model for model in every.models if model not in every.counted]
    if others:
        lines += [f"Shown beside, and not counted in the verdict: {', '.join(others)}.", ""]
        lines += _tables(every.of_models(others))
    return "\n".join(lines).rstrip("\n")


def _verdict(cells: Cells, every: Cells) -> list[str]:
    if every.missing:
        what = "; ".join(every.missing[:4]) + (
            f" and {len(every.missing) - 4} more" if every.missing[4:] else ""
        )
        return [f"**No verdict: the run is not whole.** Missing: {what}."]
    verdict, told = VERDICTS[cells.name](cells, STRICT)
    lines = [f"**Verdict: {verdict}.** {told[:1].upper()}{told[1:]}."]
    if cells.name != "reading_artefact":
        leniently, told = VERDICTS[cells.name](cells, LENIENT)
        lines += ["", f"Read leniently: {leniently}. {told[:1].upper()}{told[1:]}."]
    return lines


def _tables(cells: Cells) -> list[str]:
    lines = []
    dead = [(m, t, why) for m in cells.models for t in cells.tasks if (why := cells.dead(m, t))]
    if dead:
        lines += [
            "Not counted: " + "; ".join(f"{task} on {model} ({why})" for model, task, why in dead) + ".",
            "",
        ]
    for model in cells.models:
        lines += _levels(cells, model)
    lines += _contrast_table(cells.by_task, cells)
    return [*lines, *_contrast_table(cells.pooled, cells, pooled=True)]


def _levels(cells: Cells, model: str) -> list[str]:
    head = ["condition", *cells.tasks, "commonest answer", "abstained", "unreadable", "cut off"]
    lines = [
        f"{model}, score read strictly / leniently:",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    for name in cells.conditions:
        figures = []
        for task in cells.tasks:
            pair = [cells.level(model, task, name, reading) for reading in (STRICT, LENIENT)]
            figures.append("–" if None in pair else f"{pair[0]:.2f} / {pair[1]:.2f}")
        answers = [one for task in cells.tasks for one in cells.answers(model, task, name)]
        constant = max((cells.constant(model, task, name) for task in cells.tasks), default=0.0)
        shares = [
            fmean(told) if answers else 0.0
            for told in (
                [one.abstained for one in answers],
                [not one.answer for one in answers],
                [one.outcome == "cut" for one in answers],
            )
        ]
        told = " | ".join(f"{share:.0%}" for share in shares)
        lines.append(f"| {name} | {' | '.join(figures)} | up to {constant:.0%} | {told} |")
    return [*lines, ""]


def _contrast_table(found: Sequence[Judged], cells: Cells, *, pooled: bool = False) -> list[str]:
    live = set(cells.alive)
    if pooled:
        head = ["over all live tasks", "model", "verdict", "strict", "lenient"]
        body = [
            f"| {one.first} − {one.second} | {one.model} | {one.strict.verdict}{f' ({FORM})' if one.form else ''} |"
            f" {_interval(one.strict)} | {_interval(one.lenient)} |"
            for one in found
        ]
    else:
        words = ("better", "worse", "no worse", "equivalent", "undecided", "not tested")
        head = ["contrast", *words, FORM, "live cells"]
        body = []
        for first, second in dict.fromkeys((one.first, one.second) for one in found):
            mine = [
                one
                for one in found
                if (one.first, one.second) == (first, second) and (one.model, one.task) in live
            ]
            counts = Counter(one.strict.verdict for one in mine)
            told = " | ".join(str(counts[word]) for word in words)
            form = sum(one.form for one in mine)
            body.append(f"| {first} − {second} | {told} | {form} | {len(mine)} |")
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *body, ""]


def _interval(result: ContrastResult) -> str:
    value = result.estimate
    return f"{value.value:+.3f} [{value.low:+.3f}, {value.high:+.3f}]" if value.defined else "–"


def draw_figure(cells: Cells, path: Path) -> None:
    """The registered contrasts over all live tasks, strict and lenient beside each other, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = cells.pooled
    labels = [f"{one.first} − {one.second}, {one.model}" for one in found]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.32 * max(1, len(found))), layout="constrained")
    for offset, side, colour in ((0.12, "strict", "#1b5e8c"), (-0.12, "lenient", "#c76b1e")):
        for index, one in enumerate(reversed(found)):
            value = getattr(one, side).estimate
            axes.plot([value.low, value.high], [index + offset] * 2, color=colour, lw=1.5)
            axes.plot(
                value.value, index + offset, "o", ms=3.5, color=colour, label=side if index == 0 else None
            )
    axes.axvline(0, color="#888888", lw=0.8)
    axes.set_yticks(range(len(found)), labels[::-1], fontsize=8)
    axes.set_xlabel("difference of the score, 95 % limits by example set")
    axes.legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=120, metadata={"Software": ""})
    pyplot.close(figure)


def written(page: str, content: str) -> str:
    """A page with other content between its marks; ``SystemExit`` where it has none."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise SystemExit(f"the page has no place for results: {BEGIN} … {END}")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{content}\n{END}{rest.split(END)[1]}"


def register(overrides: Mapping[str, object]) -> None:
    """Write the hash of every design and of all its prompts; ``SystemExit`` where the published items are not there."""
    found = {}
    for name in NAMES:
        plan = build_plan(load_suite(str(PROFILES / f"{name}.yaml"), dict(overrides)))
        for task in plan.tasks.values():
            if task.source.kind != "cache":
                raise SystemExit(
                    f"{task.id}: its published items are not in the cache (pcsuite export-datasets)"
                )
        found[name] = {"design": registration(name), "prompts": prompt_digests(prompts_of(plan))}
    REGISTERED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "name", nargs="?", choices=NAMES, help="read the rows of this replication's log first"
    )
    parser.add_argument("--log", type=Path, help="default: outputs/runs/replication_NAME.jsonl")
    parser.add_argument("--to", type=Path, default=PAGES, help="folder of the pages")
    parser.add_argument("--rows-to", type=Path, help="folder of the rows (default: rows beside the pages)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="as the run was given it"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where a page would change")
    parser.add_argument("--register", action="store_true", help="write the hashes of what is registered")
    args = parser.parse_args(words)
    rows_folder = args.rows_to or args.to / "rows"
    overrides = {key: yaml.safe_load(value) for key, value in (entry.split("=", 1) for entry in args.set)}
    if args.register:
        register(overrides)
        return 0
    if args.name:
        if registration(args.name) != landed(args.name)["design"]:
            raise SystemExit(f"{args.name}: what it asks is not what was registered; restore it")
        suite = load_suite(str(PROFILES / f"{args.name}.yaml"), overrides)
        log = args.log or Path("outputs/runs") / f"replication_{args.name}.jsonl"
        rows = rows_of_log(args.name, log, suite)
        other = registered_prompts(args.name, suite)
        if other and args.to == PAGES:
            raise SystemExit(f"{other}; for a page of them name another folder (--to)")
        if other:
            print(other, file=sys.stderr)
        if not write_rows(rows, rows_folder / f"{args.name}.csv.gz"):
            print(
                f"{args.name}: the rows take more than {LARGEST:,} bytes and are not published",
                file=sys.stderr,
            )
    changed = False
    for name in [args.name] if args.name else NAMES:
        path, table = args.to / f"{name}.md", rows_folder / f"{name}.csv.gz"
        rows = read_rows(table) if table.is_file() else None
        content = results(name, rows)
        if rows is not None:
            content += f"\n\n![The registered contrasts over all live tasks]({name}.png)"
            if not args.check:
                draw_figure(
                    Cells(name, load_suite(str(PROFILES / f"{name}.yaml")), rows), args.to / f"{name}.png"
                )
        before = path.read_text(encoding="utf-8")
        after = written(before, content)
        changed = changed or after != before
        if not args.check:
            path.write_text(after, encoding="utf-8")
    return int(args.check and changed)


if __name__ == "__main__":
    sys.exit(main())
