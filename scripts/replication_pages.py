"""The pages of the replications: what was registered, and, once it was run, what came of it.

    python scripts/replication_pages.py                              # every page from the rows that are published
    python scripts/replication_pages.py --check                      # exit status 1 where a page says something else
    python scripts/replication_pages.py prompt_twice                 # the rows of its log first, then its page
    python scripts/replication_pages.py prompt_twice --log FILE --to FOLDER --rows-to FOLDER

`configs/replications/NAME.yaml` is what is asked, `configs/replications/registered.json` its hash as it was landed. The
rows are published as `rows/NAME.csv.gz`, a line each, as long as they take less than five megabytes; every number
between the two marks of a page is computed from them. A verdict is said by the rule that the page states.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
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

from pcsuite._util.hashing import digest, named_rng
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
from pcsuite.evaluation.abstention import value_abstains
from pcsuite.logging.log import iter_newest_rows
from pcsuite.prompts.conditions.conditions import expand_conditions
from pcsuite.runners.plan import build_plan
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
FLOOR = 0.10
"""Lenient score of a cell's control below which the cell is dead: shown, and not counted."""
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
RESAMPLES = 2000
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


def design_of(suite: Suite) -> dict[str, object]:
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
        "floor": FLOOR,
    }


def registration(name: str) -> str:
    """The hash of what a replication asks and how it is judged, by the files as they are now."""
    return digest(design_of(load_suite(str(PROFILES / f"{name}.yaml"))))


# Rows.


def rows_of_log(name: str, log: Path, suite: Suite) -> list[Answer]:
    """The rows of a replication's log that it registered, as they are published."""
    plan = build_plan(suite)
    drawn = {
        (task.id, item.item_id): draw
        for task in plan.tasks.values()
        for item in task.items
        if (draw := task.drawn(item))
    }
    wanted = set(suite.profile.selection.conditions)
    rows = []
    for row in iter_newest_rows(log):
        draw = drawn.get((row.task.id, row.task.item_id))
        if row.condition.id not in wanted or row.errors or draw is None:
            continue
        answer = "" if row.parsed is None or row.parsed.answer is None else str(row.parsed.answer)
        score = float(row.metrics.get("task_score", 0.0))
        fixed = suite.conditions[row.condition.id].reworded
        rows.append(
            Answer(
                row.model.id, row.task.id, row.task.item_id, str(draw.example_set),
                str(draw.wording if fixed is None else fixed), row.condition.id, score,
                float(row.metrics.get("lenient_score", score)), answer[:80], value_abstains(answer),
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

    @property
    def models(self) -> list[str]:
        """In the order of the registration, others after them."""
        there = {row.model for row in self.rows}
        known = [model for model in self.suite.profile.selection.models if model in there]
        return known + sorted(there - set(known))

    @property
    def tasks(self) -> list[str]:
        """Tasks that have rows, in the order of the registration."""
        there = {row.task for row in self.rows}
        return [task for task in self.suite.profile.selection.tasks if task in there]

    @property
    def conditions(self) -> list[str]:
        """Conditions that have rows, in the order of the registration."""
        there = {row.condition for row in self.rows}
        return [name for name in self.suite.profile.selection.conditions if name in there]

    @property
    def control(self) -> str:
        """The condition by which a cell is alive or dead: the first of the registration."""
        return self.suite.profile.selection.conditions[0]

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
        level = self.level(model, task, self.control, LENIENT)
        if level is None:
            return "not run"
        if level < FLOOR:
            return f"{self.control} scores {level:.2f} read leniently, below {FLOOR:g}"
        constant = self.constant(model, task, self.control)
        return f"{constant:.0%} of {self.control}'s answers are one" if constant >= CONSTANT_SHARE else ""

    def alive(self) -> list[tuple[str, str]]:
        """Models and tasks that count."""
        return [(model, task) for model in self.models for task in self.tasks if not self.dead(model, task)]

    def arms(
        self, model: str, tasks: Sequence[str], reading: str, names: Iterable[str]
    ) -> dict[str, ArmScores]:
        """Item scores of some conditions over one or several tasks, items of one example set in one cluster."""
        items = sorted(
            {(task, item, row.examples) for task in tasks for name in self.conditions
             for item, row in self.by_cell.get((model, task, name), {}).items()}
        )  # fmt: skip
        clusters = np.array([f"{task} {examples}" for task, _, examples in items], dtype=object)
        arms = {}
        for name in names:
            found = [self.by_cell.get((model, task, name), {}).get(item) for task, item, _ in items]
            values = np.array([np.nan if one is None else getattr(one, reading) for one in found])
            arms[name] = ArmScores(
                values, failed=np.isnan(values).astype(float), bounds=(0.0, 1.0), clusters=clusters
            )
        return arms


class Judged(NamedTuple):
    """A registered contrast in one cell, or pooled over the live tasks of a model."""

    model: str
    task: str
    first: str
    second: str
    strict: ContrastResult
    lenient: ContrastResult

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
    live = cells.alive()
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


def verdict_prompt_twice(cells: Cells) -> tuple[str, str]:
    """Wins, losses, and wins beyond filler of the same length, over the live cells."""
    live = set(cells.alive())
    in_live = [one for one in judged(cells) if (one.model, one.task) in live]
    once = [one for one in in_live if one.second in ("zero", "few")]
    filler = [one for one in in_live if one.second.endswith("_filler")]
    wins, losses = (sum(one.strict.verdict == word for one in once) for word in ("better", "worse"))
    beyond = sum(one.strict.verdict == "better" for one in filler)
    form = sum(one.form and one.strict.verdict in ("better", "worse") for one in once)
    told = f"{wins} wins, {losses} losses in {len(once)} live contrasts; {beyond} of {len(filler)} better than filler"
    told += f" of the same length; {form} wins or losses are {FORM}"
    if losses:
        return "contradicted", told
    if once and wins >= len(once) / 3:
        return ("supported" if beyond >= wins / 2 else "supported, and not beyond length"), told
    return "inconclusive", told


def verdict_expert_roles(cells: Cells) -> tuple[str, str]:
    """Equivalence of each expert's role to none, pooled over the live tasks of each model."""
    pooled = judged(cells, pooled=True)
    roles = [one for one in pooled if one.second == "no_role" and one.first != "child"]
    moved = [one for one in roles if one.strict.verdict in ("better", "worse")]
    same = [one for one in roles if one.strict.verdict == "equivalent"]
    told = f"{len(same)} of {len(roles)} pooled contrasts of expert roles are equivalent to none within the margin"
    if moved:
        told += "; " + ", ".join(f"{one.first} on {one.model} {one.strict.verdict}" for one in moved)
        return "contradicted", told
    return ("supported" if roles and len(same) == len(roles) else "inconclusive"), told


def verdict_text_behind(cells: Cells) -> tuple[str, str]:
    """Whether any text behind the question costs score, or the checklist's words do; pooled over live tasks."""
    by_pair = {(one.model, one.first, one.second): one.strict.verdict for one in judged(cells, pooled=True)}
    live = sorted({model for model, _ in cells.alive()})

    def worse(first: str, second: str) -> int:
        return sum(by_pair.get((model, first, second)) == "worse" for model in live)

    anything = [worse(f"{content}_behind", f"{content}_before") for content in ("sham", "line")]
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
    return "inconclusive", told


def spreads(cells: Cells) -> list[tuple[str, float, float, float, float]]:
    """By model: standard deviation of the score over the templates, on average over live tasks, strictly and leniently
    read, and the limits of the difference from resampled example sets."""
    found = []
    for model in cells.models:
        tasks = [task for one, task in cells.alive() if one == model]
        if not tasks:
            continue
        scores, groups = {}, {}
        for task in tasks:
            for reading in (STRICT, LENIENT):
                arms = cells.arms(model, [task], reading, cells.conditions)
                scores[task, reading] = np.column_stack([arm.values for arm in arms.values()])
                labels = arms[cells.conditions[0]].clusters
            groups[task] = [np.flatnonzero(labels == name) for name in sorted(set(labels))]

        everything = {task: np.concatenate(groups[task]) for task in tasks}
        rng, differences = named_rng("spread", cells.name, model), []
        for _ in range(RESAMPLES):
            drawn = {
                task: np.concatenate(
                    [groups[task][n] for n in rng.integers(0, len(groups[task]), len(groups[task]))]
                )
                for task in tasks
            }
            differences.append(_spread(scores, LENIENT, drawn) - _spread(scores, STRICT, drawn))
        low, high = np.quantile(differences, (0.025, 0.975)).tolist()
        strict, lenient = (_spread(scores, reading, everything) for reading in (STRICT, LENIENT))
        found.append((model, strict, lenient, low, high))
    return found


def _spread(
    scores: Mapping[tuple[str, str], np.ndarray], reading: str, rows: Mapping[str, np.ndarray]
) -> float:
    return fmean(
        float(np.std(np.nanmean(scores[task, reading][rows[task]], axis=0), ddof=1)) for task in rows
    )


def verdict_reading_artefact(cells: Cells) -> tuple[str, str]:
    """Whether the spread over twelve templates shrinks where answers are read leniently."""
    found = spreads(cells)
    told = "; ".join(
        f"{model}: spread {strict:.3f} strict, {lenient:.3f} lenient, difference [{low:+.3f}, {high:+.3f}]"
        for model, strict, lenient, low, high in found
    )
    if found and all(high < 0 for *_, high in found):
        return "supported", told
    if any(low > 0 for *_, low, _ in found):
        return "contradicted", told
    return "inconclusive", told


VERDICTS: Mapping[str, Callable[[Cells], tuple[str, str]]] = {
    "prompt_twice": verdict_prompt_twice,
    "expert_roles": verdict_expert_roles,
    "text_behind": verdict_text_behind,
    "reading_artefact": verdict_reading_artefact,
}


# Pages.


def results(name: str, rows: Sequence[Answer] | None) -> str:
    """What stands between the marks of a page: that nothing was run yet, or verdict, figures and tables."""
    suite = load_suite(str(PROFILES / f"{name}.yaml"))
    landed = json.loads(REGISTERED.read_text(encoding="utf-8")).get(name, "")
    if rows is None:
        return (
            f"**Not yet run.** Registered as `{landed[:12]}`. The verdict, the figure and the tables will stand here,"
            " computed from published rows."
        )
    cells = Cells(name, suite, rows)
    verdict, told = VERDICTS[name](cells)
    lines = [
        f"**Verdict: {verdict}.** {told[:1].upper()}{told[1:]}.",
        "",
        f"{len(rows):,} [rows](rows/{name}.csv.gz), registered as `{landed[:12]}`.",
        "",
    ]
    dead = [(m, t, why) for m in cells.models for t in cells.tasks if (why := cells.dead(m, t))]
    if dead:
        lines += [
            "Not counted: " + "; ".join(f"{task} on {model} ({why})" for model, task, why in dead) + ".",
            "",
        ]
    for model in cells.models:
        lines += _levels(cells, model)
    lines += _contrast_table(judged(cells), cells)
    lines += _contrast_table(judged(cells, pooled=True), cells, pooled=True)
    return "\n".join(lines).rstrip("\n")


def _levels(cells: Cells, model: str) -> list[str]:
    head = ["condition", *cells.tasks, "commonest answer", "abstained"]
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
        abstained = fmean(one.abstained for one in answers) if answers else 0.0
        lines.append(f"| {name} | {' | '.join(figures)} | up to {constant:.0%} | {abstained:.0%} |")
    return [*lines, ""]


def _contrast_table(found: Sequence[Judged], cells: Cells, *, pooled: bool = False) -> list[str]:
    live = set(cells.alive())
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

    found = judged(cells, pooled=True)
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
    if args.register:
        landed = {name: registration(name) for name in NAMES}
        REGISTERED.write_text(json.dumps(landed, indent=1) + "\n", encoding="utf-8")
        return 0
    rows_folder = args.rows_to or args.to / "rows"
    overrides = {key: yaml.safe_load(value) for key, value in (entry.split("=", 1) for entry in args.set)}
    if args.name:
        if registration(args.name) != json.loads(REGISTERED.read_text(encoding="utf-8")).get(args.name):
            raise SystemExit(f"{args.name}: what it asks is not what was registered; restore it")
        suite = load_suite(str(PROFILES / f"{args.name}.yaml"), overrides)
        log = args.log or Path("outputs/runs") / f"replication_{args.name}.jsonl"
        rows = rows_of_log(args.name, log, suite)
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
