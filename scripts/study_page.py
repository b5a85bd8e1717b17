"""The page of the first study, and what README.md says of it, from the published tables.

    python scripts/study_page.py             # writes the study's README.md, and the findings in README.md
    python scripts/study_page.py --figure    # draws the figure of additive shares again too
    python scripts/study_page.py --check     # exit status 1 where page or findings say something else

`page.in` and `findings.in` are the texts with places for numbers; no number of a result is written in them. Differences
are measured by `pcsuite.contrasts` from the items' scores; `scripts/recompute_study.py` computes every number again in
its own way. `scripts/study_tables.py` made the tables.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import html
import re
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.analysis.alarms import DEAD
from pcsuite.analysis.tables.attribution import DIVIDED
from pcsuite.contrasts import ArmScores, Contrast, measure
from pcsuite.stats.permutation import holm, sign_flip_test

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "studies" / "2026-11-small-models"
SMOL, GEMMA, SMALL, LARGE = MODELS = (
    "smollm2-135m",
    "gemma-3-270m",
    "qwen2.5-coder-0.5b",
    "qwen2.5-coder-1.5b",
)
QWENS, TINY = (LARGE, SMALL), (SMOL, GEMMA)
LADDER = ("C0", "C1", "C2", "C3", "C4", "C5", "C6")
SHAMS = ("S2", "S4")
TASKS = {
    "conll03_ner_json": "CoNLL-2003",
    "agnews_json": "AG News",
    "gsm8k": "GSM8K",
    "csqa_json": "CommonsenseQA",
    "truthfulqa_gen": "TruthfulQA",
    "fever_json": "FEVER",
    "svamp": "SVAMP",
    "boolq": "BoolQ",
    "trec": "TREC",
    "strategyqa": "StrategyQA",
}
POOLED = "conll03_ner_json"
"""The task whose score is micro-F1 of all its items."""
MARKS = ("<!-- findings: written by scripts/study_page.py -->", "<!-- /findings -->")
NOT_HERE = {
    "H1": "counts cells in which nothing can be gained",
    "H1V": "rests on perturbed prompts, whose items are not published",
    "H1I": "rests on the answers, which are gone",
    "H2": "rests on the answers, which are gone",
    "H2E": "rests on the answers, which are gone",
    "H2U": "rests on the answers, which are gone",
    "H2R": "rests on the answers, which are gone",
    "H3": "rests on two yardsticks",
    "H3L": "rests on two yardsticks",
    "H4": "names a sham as an operator with a stable effect",
    "H4C": "rests on conditions of two tasks, and on sizes of different families",
    "P1": "counts cells in which nothing can be gained",
    "P2": "rests on the answers, which are gone",
    "P3": "rests on two yardsticks",
    "P4": "was not tested",
}
"""Why a verdict of `hypotheses.csv` is not on the page."""
ASKED_AGAIN = {
    "C3": "no examples",
    "C5-CHECKS": "examples, nothing behind the question",
    "C5-BEFORE": "examples, the checklist before them",
    "C5-LINE": "examples, one line that says nothing behind the question",
    "S5": "examples, a sham behind the question",
    "C5": "examples, the checklist behind the question",
}
"""Conditions of the second look, in the order of its table."""


class Change(NamedTuple):
    """One condition less another on the same items."""

    value: float
    low: float
    high: float
    p: float
    live: bool
    """Whether either side scores anything worth the name."""

    @property
    def text(self) -> str:
        return f"{signed(self.value)} [{signed(self.low)}, {signed(self.high)}]"

    def side(self, corrected: float) -> str:
        """``up`` or ``down`` where the corrected p-value and the limits say so, ``dead``, or ``not shown``."""
        if not self.live:
            return "dead"
        if corrected >= 0.05 or self.low <= 0 <= self.high:
            return "not shown"
        return "up" if self.value > 0 else "down"


class Study:
    """The published tables, asked for what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cache  # noqa: B019
    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))

    @cached_property
    def database(self) -> Any:
        """Tables ``items`` (item scores), ``again`` (the replication's) and ``second`` (those of the second look)."""
        import duckdb

        database = duckdb.connect()
        scores = {"items": "tables/item_scores.csv.gz", "again": "tables/replication_scores.csv.gz"}
        for name, path in (scores | {"second": "second_look/item_scores.csv"}).items():
            database.sql(f"create table {name} as from read_csv('{self.folder / path}')")
        return database

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        return list(self.database.sql(query).fetchall())

    @cache  # noqa: B019
    def arms(self, source: str, task: str, model: str, regime: str) -> dict[str, ArmScores]:
        """The scores of every condition of a task, model and regime, by item."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for condition, item, *values in self.sql(
            "select condition, item, score::double"
            + (", tp, fp, fn" if task == POOLED else "")
            + f" from {source} where task = '{task}' and model = '{model}' and decoding = '{regime}' order by all"
        ):
            found.setdefault(condition, []).append((item, *(values[1:] or values)))
        columns = slice(1, None) if task == POOLED else 1
        return {
            condition: ArmScores(
                np.array([row[columns] for row in rows], dtype=float),
                items=[row[0] for row in rows],
                bounds=(0.0, 1.0),
                replicates=3 if regime == "D1" else 1,
            )
            for condition, rows in found.items()
        }

    @cache  # noqa: B019
    def change(
        self,
        task: str,
        model: str,
        condition: str,
        baseline: str,
        *,
        regime: str = "D0",
        source: str = "items",
    ) -> Change:
        arms = self.arms(source, task, model, regime)
        contrast = Contrast.of(condition, baseline)
        (found,) = measure(
            arms, [contrast], rng=named_rng("study", source, task, model, regime, contrast.name)
        )
        live = round(max(found.levels.values()), 9) >= DEAD
        return Change(found.estimate.value, found.estimate.low, found.estimate.high, found.test.p_value, live)

    def tally(
        self,
        condition: str,
        baseline: str,
        models: Sequence[str],
        *,
        regime: str = "D0",
        source: str = "items",
    ) -> dict[tuple[str, str], tuple[Change, str]]:
        """A contrast in every cell that has it, with its side after Holm over these cells."""
        cells = [
            (task, model)
            for model in models
            for task in TASKS
            if {condition, baseline} <= self.arms(source, task, model, regime).keys()
        ]
        changes = [self.change(*cell, condition, baseline, regime=regime, source=source) for cell in cells]
        corrected = holm([change.p for change in changes])
        return {
            cell: (change, change.side(p)) for cell, change, p in zip(cells, changes, corrected, strict=True)
        }

    def level(self, task: str, model: str, condition: str, regime: str = "D0") -> float:
        """The score by the task's own measure."""
        values = self.arms("items", task, model, regime)[condition].values
        if task != POOLED:
            return float(values.mean())
        tp, fp, fn = values.sum(axis=0)
        return float(2 * tp / (2 * tp + fp + fn)) if tp + fp + fn else 0.0

    @cached_property
    def summary(self) -> dict[tuple[str, ...], dict[str, str]]:
        keys = ("task", "model", "decoding", "condition")
        rows = self.rows("summary_by_condition")
        return {tuple(row[key] for key in keys): row for row in rows if row["perturbation"] in ("", "none")}

    def lenient(self, task: str, model: str, condition: str) -> float:
        return float(self.summary[task, model, "D0", condition]["lenient_score"])

    def abstained(self, task: str, model: str, condition: str) -> float:
        return float(self.summary[task, model, "D0", condition]["abstained"])

    @cached_property
    def majority(self) -> dict[str, float]:
        return {row["task"]: float(row["share"]) for row in self.rows("majority")}

    @cached_property
    def constant(self) -> dict[tuple[str, str, str], tuple[str, str]]:
        """By task, model and condition: the share and the text of nearly constant answers, as the report warned."""
        page = html.unescape((self.folder / "report.html").read_text(encoding="utf-8"))
        pattern = re.compile(
            r"Nearly constant: ([^<]*?) on (\S+) × (\S+): (all|(?:at least )?\d+%) of the answers that could be read"
            r" are “([^”]*)”"
        )
        return {
            (task, model, condition): (share.replace("all", "100%"), answer)
            for conditions, task, model, share, answer in pattern.findall(page)
            for condition in conditions.split(", ")
        }


def signed(value: str | float) -> str:
    # No minus before a zero.
    return f"{round(float(value), 2) + 0.0:+.2f}".replace("-", "−")


def percent(value: float) -> str:
    return f"{value:.0%}".replace("%", " %")


def short(model: str) -> str:
    names = {SMOL: "SmolLM2-135M", GEMMA: "Gemma-3-270m"}
    return names.get(model, model.replace("qwen2.5-coder-", "Qwen-").replace("b", "B"))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def files_hash(folder: Path) -> str:
    """sha256 over the names and contents of what the page is computed from."""
    found = hashlib.sha256()
    paths = [*(folder / "tables").iterdir(), *(folder / "second_look").glob("*.csv"), folder / "report.html"]
    for path in sorted(paths):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def values(folder: Path) -> dict[str, str]:
    """Every number and table of the page and of the findings, by its name in the templates."""
    study = Study(folder)
    return {
        "hash": files_hash(folder)[:16],
        **forms(study),
        **checklist(study),
        **registered(study),
        **abstentions(study),
        **counts(study),
        **second_look(study),
        **levels(study),
        **compiled(study),
        **sizes(study),
    }


def forms(study: Study) -> dict[str, str]:
    """Showing and forcing the form of the answer, under both readings."""
    found: dict[str, str] = {}
    for name, task in (("csqa", "csqa_json"), ("boolq", "boolq")):
        found[f"{name}_strict"] = study.change(task, LARGE, "C3", "C2").text
        for when, condition in (("before", "C2"), ("after", "C3")):
            found[f"{name}_strict_{when}"] = f"{study.level(task, LARGE, condition):.2f}"
            found[f"{name}_lenient_{when}"] = f"{study.lenient(task, LARGE, condition):.2f}"
    hard = study.tally("C6", "C4", TINY)
    up = [cell for cell, (_, side) in hard.items() if side == "up"]
    for name, task in (("agnews", "agnews_json"), ("boolq", "boolq"), ("strategyqa", "strategyqa")):
        found[f"hard_{name}"] = f"{study.level(task, SMOL, 'C6'):.2f}"
        found[f"majority_{name}"] = f"{study.majority[task]:.2f}"
    rows = []
    for (task, model), (change, side) in study.tally("C3", "C2", QWENS).items():
        readings = [study.lenient(task, model, name) for name in ("C2", "C3")]
        dead = r"\*" if side == "dead" else ""
        rows.append(
            [
                f"{TASKS[task]}, {short(model)}{dead}",
                *(f"{study.level(task, model, name):.2f}" for name in ("C2", "C3")),
                "dead" if dead else f"**{change.text}**" if side in ("up", "down") else change.text,
                *(f"{reading:.2f}" for reading in readings),
                signed(readings[1] - readings[0]),
            ]
        )
    header = ["", "C2", "C3", "C3 − C2, strict", "C2, lenient", "C3, lenient", "C3 − C2, lenient"]
    return found | {
        "hard_up": str(len(up)),
        "hard_live": str(sum(side != "dead" for _, side in hard.values())),
        "hard_constant": str(sum((*cell, "C6") in study.constant for cell in up)),
        "form": table(header, rows),
    }


def checklist(study: Study) -> dict[str, str]:
    """C5 with and without its checklist."""
    found: dict[str, str] = {}
    for name, source in (("checks", "items"), ("again", "again")):
        cells = study.tally("C5", "C5-CHECKS", QWENS, source=source)
        sides = Counter(side for _, side in cells.values())
        worse = [
            f"{TASKS[task]} on {short(model)}" for (task, model), (_, side) in cells.items() if side == "up"
        ]
        found[f"{name}_up_names"] = ", ".join(worse) or "none"
        found |= {f"{name}_down": str(sides["down"]), f"{name}_up": str(sides["up"])}
        found[f"{name}_of"] = str(sides.total())
    for name, condition in (("with", "C5"), ("without", "C5-CHECKS"), ("zero", "C3")):
        found[f"trec_{name}"] = f"{study.level('trec', LARGE, condition):.2f}"
    for task in ("trec", "boolq"):
        share, answer = study.constant[task, LARGE, "C5"]
        found |= {f"{task}_share": share.replace("%", " %"), f"{task}_answer": answer}
    counted = study.arms("items", POOLED, LARGE, "D0")["C5"].values
    interaction = statistics.fmean(
        a + d - b - c
        for a, b, c, d in zip(
            *(
                study.arms("items", "trec", LARGE, "D0")[name].values
                for name in ("C5", "C5-CHECKS", "C4", "C3")
            ),
            strict=True,
        )
    )
    shares = {
        row["operator"]: row
        for row in study.rows("attribution")
        if (row["task"], row["model"], row["decoding"], row["method"])
        == ("trec", LARGE, "D0", "least squares")
    }
    return found | {
        "trec_checks": study.change("trec", LARGE, "C5", "C5-CHECKS").text,
        "trec_checks_value": signed(study.change("trec", LARGE, "C5", "C5-CHECKS").value),
        "checks_zero": signed(study.change("trec", LARGE, "C4", "C3").value),
        "checks_interaction": signed(interaction),
        "conll_empty": str(int((counted[:, 0] + counted[:, 1] == 0).sum())),
        "conll_items": str(len(counted)),
        "share_examples": signed(shares["EXEMPLARS"]["effect"]),
        "share_checks": signed(shares["VERIFIER"]["effect"]),
    }


def registered(study: Study) -> dict[str, str]:
    """What came of the registered contrasts, at first and on other items."""
    keys = ("task", "model", "decoding", "condition", "baseline")
    first, second = (
        {tuple(row[key] for key in keys): row for row in study.rows(name)}
        for name in ("registration", "replication_registration")
    )

    def live(key: Sequence[str], source: str = "items") -> bool:
        task, model, regime, condition, baseline = key
        return study.change(task, model, condition, baseline, regime=regime, source=source).live

    def side(key: tuple[str, ...]) -> str:
        row = first[key]
        if not live(key):
            return "dead"
        return "not shown" if row["outcome"] != "holds" else "up" if float(row["delta"]) > 0 else "down"

    sides = {key: side(key) for key in first}
    pairs = dict.fromkeys(key[3:] for key in first)
    rows = []
    for pair in pairs:
        of_pair = Counter(side for key, side in sides.items() if key[3:] == pair)
        row = [str(of_pair[wanted]) for wanted in ("up", "down", "not shown", "dead")]
        rows.append([f"{pair[0]} − {pair[1]}", *row, str(of_pair.total())])
    both = [key for key in first if second.get(key, {}).get("delta") and first[key]["delta"]]
    deltas = {key: (float(first[key]["delta"]), float(second[key]["delta"])) for key in both}
    held = [key for key in both if first[key]["outcome"] == "holds"]
    alive = [key for key in both if live(key) or live(key, "again")]
    ((items,),) = study.sql("select count(distinct (task, item)) from again")
    return {
        "planned": str(len(first)),
        "dead": str(sum(side == "dead" for side in sides.values())),
        "live": str(sum(side != "dead" for side in sides.values())),
        "held": str(sum(side in ("up", "down") for side in sides.values())),
        "outcomes": table(
            ["planned contrast", "holds: up", "holds: down", "not shown", "dead", "cells"], rows
        ),
        "again_items": f"{items:,}",
        "again_held_of": str(len(held)),
        "again_held": str(
            sum(second[key]["outcome"] == "holds" and deltas[key][0] * deltas[key][1] > 0 for key in held)
        ),
        "again_sign": str(sum(deltas[key][0] * deltas[key][1] > 0 for key in held)),
        "again_fresh": str(sum(second[key]["outcome"] == "holds" != first[key]["outcome"] for key in both)),
        "again_both": str(len(both)),
        "again_live": str(len(alive)),
        "again_r": f"{statistics.correlation(*zip(*(deltas[key] for key in alive), strict=True)):.2f}",
    }


def abstentions(study: Study) -> dict[str, str]:
    """Where answers decline though there is an answer, and what TruthfulQA makes of declining."""
    conditions = [
        key[3]
        for key, row in study.summary.items()
        if key[:3] == ("truthfulqa_gen", LARGE, "D0") and row["abstained"]
    ]

    def pair(model: str, condition: str) -> list[str]:
        score = study.level("truthfulqa_gen", model, condition)
        return [f"{score:.2f}", percent(study.abstained("truthfulqa_gen", model, condition))]

    found = {
        f"abstain_{name}_{size}": percent(study.abstained(task, model, "C2"))
        for name, task in (("gsm", "gsm8k"), ("svamp", "svamp"))
        for size, model in (("large", LARGE), ("small", SMALL))
    }
    for size, model in (("large", LARGE), ("small", SMALL)):
        levels = [study.level("truthfulqa_gen", model, name) for name in conditions]
        shares = [study.abstained("truthfulqa_gen", model, name) for name in conditions]
        found[f"truthful_r_{size}"] = f"{statistics.correlation(levels, shares):.2f}"
    return found | {
        "svamp_rules_large": study.change("svamp", LARGE, "C2", "S2").text,
        "svamp_rules_small": study.change("svamp", SMALL, "C2", "S2").text,
        "truthful_conditions": str(len(conditions)),
        "truthful": table(
            [
                "TruthfulQA, greedy",
                *(f"{short(model)}: {what}" for model in QWENS for what in ("score", "abstains")),
            ],
            ([name, *pair(LARGE, name), *pair(SMALL, name)] for name in conditions),
        ),
    }


def counts(study: Study) -> dict[str, str]:
    """Counts of the old page that did not stand, as they are."""
    retries = study.tally("C6", "C4R", QWENS, regime="D1")
    sides = Counter(side for _, side in retries.values())
    afforded = [row for row in study.rows("constraint_vs_retry") if row["model"] in QWENS]
    then = [row for row in study.rows("best_condition") if row["decoding"] == "D0" and row["model"] in QWENS]
    best: dict[tuple[str, str], set[str]] = {}
    for model in QWENS:
        for task in TASKS:
            scores = {
                name: round(study.level(task, model, name), 9)
                for name in study.arms("items", task, model, "D0")
                if name not in SHAMS
            }
            best[task, model] = {name for name in scores if scores[name] == max(scores.values())}
    same = [task for task in TASKS if best[task, SMALL] & best[task, LARGE]]
    (truthful,) = best["truthfulqa_gen", SMALL] & best["truthfulqa_gen", LARGE]
    withdrawn = [[row["id"], row["verdict"], NOT_HERE[row["id"]]] for row in study.rows("hypotheses")]
    lines = table(["", "said then", "not on this page, since it"], withdrawn).splitlines()
    return {
        "retry_up": str(sides["up"]),
        "retry_down": str(sides["down"]),
        "retry_of": str(sides.total()),
        "retry_conll": retries[POOLED, LARGE][0].text,
        "retry_none": str(sum(float(row["retries_afforded"]) == 0 for row in afforded)),
        "retry_cells": str(len(afforded)),
        "best_shams": str(sum(row["condition"] in SHAMS for row in then)),
        "best_of": str(len(then)),
        "best_same": str(len(same)),
        "best_same_names": ", ".join(TASKS[task] for task in same),
        "best_truthful_large": percent(study.abstained("truthfulqa_gen", LARGE, truthful)),
        "best_truthful_small": percent(study.abstained("truthfulqa_gen", SMALL, truthful)),
        "verdicts": "\n".join(f"  {line}" for line in lines),
    }


def second_look(study: Study) -> dict[str, str]:
    """The cells that were asked again, with other text behind the question."""
    found = study.sql(
        "select task, condition, count(*), avg(score), avg(lenient), mode(answer), count(answer)"
        " from second group by all"
    )
    cells = {(task, condition): rest for task, condition, *rest in found}
    tasks = [task for task in TASKS if (task, "C5") in cells]
    compared = [
        cell for cell in cells if cell[1] in ASKED_AGAIN and cell[1] != "C5-CHECKS" and cell[0] in tasks
    ]

    def changed(column: str) -> tuple[dict[tuple[str, str], tuple[int, int, int]], set[tuple[str, str]]]:
        """Items that rose and fell against C5 without checklist, of how many; and where that holds, by Holm."""
        moved = {
            (task, condition): study.sql(
                f"select count(*) filter (a.{column} > b.{column}), count(*) filter (a.{column} < b.{column}), count(*)"
                f" from second a join second b using (task, item) where task = '{task}'"
                f" and a.condition = '{condition}' and b.condition = 'C5-CHECKS'"
            )[0]
            for task, condition in compared
        }
        flips = [[1.0] * up + [-1.0] * down or [0.0] for up, down, _ in moved.values()]
        corrected = holm([sign_flip_test(flip, rng=named_rng("second")).p_value for flip in flips])
        return moved, {cell for cell, p in zip(moved, corrected, strict=True) if p < 0.05}

    (moved, sure), (_, read) = changed("score"), changed("readable")
    rows = []
    for task in tasks:
        for condition, words in ASKED_AGAIN.items():
            cell = (task, condition)
            if cell not in cells:
                continue
            items, strict, lenient, answer, readable = cells[cell]
            ((most,),) = study.sql(
                f"select count(*) from second where task = '{task}' and condition = '{condition}'"
                f" and answer = '{answer}'"
            )
            text = "–" if cell not in moved else "{} and {} of {}".format(*moved[cell])
            readable_words = f"{readable} of {items}"
            rows.append(
                [
                    f"{TASKS[task]}, {words} ({condition})",
                    f"**{readable_words}**" if cell in read else readable_words,
                    f"{strict:.2f}",
                    f"{lenient:.2f}",
                    f"{most} “{answer}”" if readable else "–",
                    f"**{text}**" if cell in sure else text,
                ]
            )
    header = [
        "Qwen-0.5B, greedy",
        "readable",
        "strict",
        "lenient",
        "most frequent",
        "right instead, wrong instead",
    ]
    ((total,),) = study.sql("select count(*) from second")
    return {"second_look": table(header, rows), "second_rows": str(total)}


def levels(study: Study) -> dict[str, str]:
    """The scores along the ladder, strict beside lenient, and what could not be read."""
    shown = [*LADDER, "C5-CHECKS"]

    def cell(task: str, model: str, condition: str) -> str:
        strict, lenient = study.level(task, model, condition), study.lenient(task, model, condition)
        both = f"{strict:.2f}" if f"{strict:.2f}" == f"{lenient:.2f}" else f"{strict:.2f} / {lenient:.2f}"
        return both + "!" * ((task, model, condition) in study.constant) + r"\*" * (round(strict, 9) < DEAD)

    found = {
        f"ladder_{name}": table(
            [short(model), *LADDER, "C5 without checklist", "majority"],
            (
                [
                    words,
                    *(cell(task, model, condition) for condition in shown),
                    f"{study.majority[task]:.2f}" if task in study.majority else "–",
                ]
                for task, words in TASKS.items()
            ),
        )
        for name, model in (("large", LARGE), ("small", SMALL), ("gemma", GEMMA), ("smol", SMOL))
    }
    rows = []
    for model in reversed(MODELS):
        for what, column in (("unreadable", "1 - avg(readable)"), ("cut", "avg(truncated)")):
            shares = study.sql(
                f"select {column} from items where model = '{model}' and decoding = 'D0' and condition in {LADDER}"
                " group by condition order by condition"
            )
            rows.append([f"{what}, {short(model)}", *(percent(share) for (share,) in shares)])
    ((items,),) = study.sql("select count(distinct item) from items where task = 'trec'")
    return found | {"trouble": table(["", *LADDER], rows), "study_items": str(items)}


def compiled(study: Study) -> dict[str, str]:
    """What the search over blocks came to, by the score."""
    rows = []
    for row in sorted(study.rows("compiled"), key=lambda row: (-MODELS.index(row["model"]), row["task"])):
        task, model = row["task"], row["model"]
        scores = {name: round(study.level(task, model, name, "D1"), 9) for name in LADDER}
        best = max(scores, key=lambda name: scores[name])
        changes = {name: study.change(task, model, "C8", name, regime="D1") for name in ("C0", best)}
        rows.append(
            [
                f"{TASKS[task]}, {short(model)}",
                row["makeup"] or "none",
                f"{study.level(task, model, 'C8', 'D1'):.2f}",
                changes["C0"].text if changes["C0"].live else "dead",
                f"{best} {scores[best]:.2f}",
                changes[best].text if changes[best].live else "dead",
            ]
        )
    header = ["compiled prompt (C8)", "blocks", "score", "C8 − C0", "best of C0–C6", "C8 less it"]
    return {"compiled": table(header, rows)}


def sizes(study: Study) -> dict[str, str]:
    """How many answers there were."""
    ((study_rows,),) = study.sql("select sum(replicates)::bigint from items")
    ((again,),) = study.sql("select sum(replicates)::bigint from again")
    perturbed = sum(
        int(row["n_rows"])
        for row in study.rows("summary_by_condition")
        if row["perturbation"] not in ("", "none")
    )
    ((gemma,),) = study.sql(
        f"select sum(replicates)::bigint from items where task = 'gsm8k' and model = '{GEMMA}' and decoding = 'D1'"
    )
    total = study_rows + again + perturbed
    shown = study.folder / "second_look" / "rows.jsonl.gz"
    return {
        "rows_total": f"{total:,}",
        "rows_thousand": str(total // 1000),
        "rows_study": f"{study_rows:,}",
        "rows_perturbed": f"{perturbed:,}",
        "rows_again": f"{again:,}",
        "gemma_gsm": f"{gemma:,}",
        "shown_rows": str(len(gzip.decompress(shown.read_bytes()).splitlines())),
    }


def filled(template: str, found: dict[str, str]) -> str:
    """A template with its numbers; a name that nothing gives is an error."""
    return re.sub(r"\{(\w+)\}", lambda match: found[match[1]], template)


def pages(folder: Path) -> dict[Path, str]:
    """The study's page, and README.md with its findings."""
    found = values(folder)
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    findings = filled((folder / "findings.in").read_text(encoding="utf-8"), found)
    return {
        folder / "README.md": filled((folder / "page.in").read_text(encoding="utf-8"), found),
        readme: f"{before}{MARKS[0]}\n{findings}{MARKS[1]}{after}",
    }


def draw_shares(folder: Path) -> None:
    """The additive shares on TREC at 1.5B, with those marked that divide a combination."""
    from pcsuite.pages.figures.declare import draw_figures

    study = Study(folder)
    cell = ("trec", LARGE, "D0")
    interaction = next(
        row for row in study.rows("effects") if row["kind"] == "interaction" and row["task"] == cell[0]
        and row["model"] == cell[1] and row["decoding"] == cell[2]
    )  # fmt: skip
    combined = interaction["operator"].split(" × ") if float(interaction["p_bh"]) < 0.05 else []
    rows: list[dict[str, Any]] = [
        {
            **row,
            **{name: float(row[name]) for name in ("effect", "effect_low", "effect_high")},
            "depends": DIVIDED if row["operator"] in combined else None,
        }
        for row in study.rows("attribution")
        if (row["task"], row["model"], row["decoding"]) == cell and row["effect"]
    ]
    with tempfile.TemporaryDirectory() as drawn:
        draw_figures({"attribution": rows}, folder=Path(drawn))
        (picture,) = Path(drawn).glob("*.png")
        shutil.copyfile(picture, folder / "attribution_trec.png")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page differs")
    parser.add_argument("--figure", action="store_true", help="draw the figure of additive shares again too")
    args = parser.parse_args()
    written = pages(FOLDER)
    if args.check:
        return int(any(path.read_text(encoding="utf-8") != text for path, text in written.items()))
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    if args.figure:
        draw_shares(FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
