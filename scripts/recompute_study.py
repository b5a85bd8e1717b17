"""Every number of the first study's page and of its findings in README.md, computed again from the published files.

    python scripts/recompute_study.py            # compares; prints what differs, exit status 1 where anything does
    python scripts/recompute_study.py --show     # prints every number by its name

A second opinion: nothing of pcsuite is imported, and nothing that is not in Python itself. Scores, differences, exact
tests and corrections come from the items' scores in `tables/*.csv.gz`; what only a summary tells (lenient scores,
abstentions, what the answers were) from that. Numbers of the page are found by its template, so a number that this
script does not give is an error; what it says in words stands in `in_words`.

Limits of a difference are here those of Student's t over items (for micro-F1 of the jackknife over items), on the page
those of the report, drawn by a bootstrap: they may differ by 0.01. Everything else must be the same to the last digit.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import html
import io
import math
import random
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "studies" / "2026-11-small-models"
TABLES = FOLDER / "tables"
SMOL, GEMMA, SMALL, LARGE = MODELS = (
    "smollm2-135m",
    "gemma-3-270m",
    "qwen2.5-coder-0.5b",
    "qwen2.5-coder-1.5b",
)
QWENS, TINY = (LARGE, SMALL), (SMOL, GEMMA)
SHORT = {SMOL: "SmolLM2-135M", GEMMA: "Gemma-3-270m", SMALL: "Qwen-0.5B", LARGE: "Qwen-1.5B"}
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
DEAD = 0.02
Cell = tuple[str, str, str, str]
Item = tuple[float, float, float, int, int, int]
"""Score, readable, truncated; entities found right, found wrong, missed."""


def rows_of(name: str, folder: Path = TABLES) -> list[dict[str, str]]:
    data = (folder / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


class Scores:
    """Item scores by cell, and what follows from them."""

    def __init__(self, name: str) -> None:
        self.cells: dict[Cell, dict[str, Item]] = defaultdict(dict)
        self.rows = 0
        for row in rows_of(name):
            key = (row["task"], row["model"], row["decoding"], row["condition"])
            self.rows += int(row["replicates"])
            self.cells[key][row["item"]] = (
                float(row["score"]),
                float(row["readable"]),
                float(row["truncated"]),
                *(int(row[part] or 0) for part in ("tp", "fp", "fn")),
            )

    def level(self, cell: Cell) -> float:
        """The cell's score by the task's own measure: the mean over items, of CoNLL micro-F1."""
        items = self.cells[cell].values()
        return f1(items) if cell[0] == POOLED else sum(item[0] for item in items) / len(items)


def f1(items: Iterable[Item]) -> float:
    tp, fp, fn = (sum(column) for column in zip(*(item[3:] for item in items), strict=True))
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0


class Difference:
    """One condition less another on the items that both have: estimate, limits, exact p."""

    def __init__(self, scores: Scores, cell: Cell, baseline: str) -> None:
        task, model, regime, _ = cell
        mine, other = scores.cells[cell], scores.cells[task, model, regime, baseline]
        self.items = sorted(mine.keys() & other.keys())
        pairs = [(mine[item], other[item]) for item in self.items]
        if task == POOLED:
            self._pooled(pairs)
        else:
            self._mean([a[0] - b[0] for a, b in pairs])
        self.live = max(scores.level(cell), scores.level((*cell[:3], baseline))) > DEAD - 1e-9

    def _mean(self, deltas: Sequence[float]) -> None:
        n = len(deltas)
        self.value = sum(deltas) / n
        half = t_quantile(n - 1) * statistics.stdev(deltas) / math.sqrt(n)
        self.low, self.high = self.value - half, self.value + half
        self.p = sign_flip(deltas)

    def _pooled(self, pairs: Sequence[tuple[Item, Item]]) -> None:
        n = len(pairs)
        ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
        self.value = f1(ours) - f1(theirs)
        totals = [[sum(item[k] for item in arm) for k in (3, 4, 5)] for arm in (ours, theirs)]

        def without(k: int) -> float:
            values = []
            for arm, total in zip((ours, theirs), totals, strict=True):
                tp, fp, fn = (total[c] - arm[k][c + 3] for c in range(3))
                values.append(2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0)
            return values[0] - values[1]

        left = [without(k) for k in range(n)]
        middle = sum(left) / n
        half = t_quantile(n - 1) * math.sqrt((n - 1) / n * sum((value - middle) ** 2 for value in left))
        self.low, self.high = self.value - half, self.value + half
        self.p = label_swap(pairs, self.value)

    def held(self, p: float) -> str:
        """Up or down where ``p``, corrected, is below 0.05 and the limits lie on the same side, else not shown."""
        if p < 0.05 and self.low > 0:
            return "up"
        return "down" if p < 0.05 and self.high < 0 else "not shown"


def sign_flip(deltas: Sequence[float]) -> float:
    """The exact two-sided p-value of the sum where each sign is as likely; differences are multiples of a third."""
    steps = [round(3 * delta) for delta in deltas]
    assert all(abs(step - 3 * delta) < 1e-6 for step, delta in zip(steps, deltas, strict=True))
    seen, reach = abs(sum(steps)), sum(abs(step) for step in steps)
    if not reach:
        return 1.0
    chances = [1.0]
    for size in (1, 2, 3):
        times = sum(abs(step) == size for step in steps)
        # The sum of `times` signs of this size, shifted so that it begins at 0 and goes in steps of 2 * size.
        coins = [math.comb(times, k) / 2**times for k in range(times + 1)]
        wider = [0.0] * (len(chances) + 2 * size * times)
        for position, chance in enumerate(chances):
            if chance:
                for k, coin in enumerate(coins):
                    wider[position + 2 * size * k] += chance * coin
        chances = wider
    return min(1.0, sum(chance for position, chance in enumerate(chances) if abs(position - reach) >= seen))


def label_swap(pairs: Sequence[tuple[Item, Item]], seen: float, draws: int = 10_000) -> float:
    """The p-value of a difference of micro-F1 where the two answers to an item may be exchanged, by draws."""
    gold = sum(a[3] + a[5] for a, _ in pairs)
    moves = [((b[3] - a[3]), (b[3] + b[4]) - (a[3] + a[4])) for a, b in pairs]
    moves = [move for move in moves if move != (0, 0)]
    if not moves:
        return 1.0
    tp, found = sum(a[3] for a, _ in pairs), sum(a[3] + a[4] for a, _ in pairs)
    tp_both = tp + sum(b[3] for _, b in pairs)
    found_both = found + sum(b[3] + b[4] for _, b in pairs)
    # Sums of eight items at a time, by which of them are exchanged.
    tables = []
    for start in range(0, len(moves), 8):
        group = moves[start : start + 8]
        tables.append(
            [
                tuple(sum(move[c] for k, move in enumerate(group) if bits >> k & 1) for c in (0, 1))
                for bits in range(1 << len(group))
            ]
        )

    def measure(right: int, given: int) -> float:
        return 2 * right / (given + gold) if given + gold else 0.0

    rng, extreme = random.Random(len(moves)), 0
    for _ in range(draws):
        right, given = tp, found
        for table in tables:
            more = table[rng.randrange(len(table))]
            right, given = right + more[0], given + more[1]
        drawn = measure(right, given) - measure(tp_both - right, found_both - given)
        extreme += abs(drawn) >= abs(seen) - 1e-12
    return (extreme + 1) / (draws + 1)


def holm(values: Mapping[object, float]) -> dict[object, float]:
    """Holm's correction of one family of p-values."""
    corrected: dict[object, float] = {}
    least = 0.0
    for rank, (key, p) in enumerate(sorted(values.items(), key=lambda pair: pair[1])):
        least = max(least, min(1.0, p * (len(values) - rank)))
        corrected[key] = least
    return corrected


@cache
def t_quantile(df: int, level: float = 0.975) -> float:
    """The quantile of Student's t, by bisection of its density summed by Simpson's rule."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)

    def below(t: float, parts: int = 2000) -> float:
        width = t / parts
        heights = [scale * (1 + (k * width) ** 2 / df) ** (-(df + 1) / 2) for k in range(parts + 1)]
        return 0.5 + width / 3 * (
            heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
        )

    low, high = 0.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < level else (low, middle)
    return (low + high) / 2


# What the page says, by the names in its template. A difference is given with its limits.


class Published:
    """The published files of the study."""

    def __init__(self) -> None:
        self.first, self.again = Scores("item_scores.csv.gz"), Scores("replication_scores.csv.gz")
        self.summary = {
            (row["task"], row["model"], row["decoding"], row["condition"]): row
            for row in rows_of("summary_by_condition.csv")
            if row["perturbation"] in ("", "none")
        }
        self.majority = {row["task"]: float(row["share"]) for row in rows_of("majority.csv")}
        self.second = rows_of("item_scores.csv", FOLDER / "second_look")
        self.constant: dict[tuple[str, str, str], tuple[str, str]] = {}
        for text in re.findall(
            r"Nearly constant: [^<]*", (FOLDER / "report.html").read_text(encoding="utf-8")
        ):
            where, _, rest = html.unescape(text).removeprefix("Nearly constant: ").partition(": ")
            conditions, _, cell = where.partition(" on ")
            task, _, model = cell.partition(" × ")
            share = "100%" if rest.startswith("all") else rest.partition(" of the answers")[0]
            answer = rest.partition("“")[2].partition("”")[0]
            for condition in conditions.split(", "):
                self.constant[task, model, condition] = (share.replace("%", " %"), answer)

    def number(self, task: str, model: str, condition: str, column: str) -> float:
        return float(self.summary[task, model, "D0", condition][column])

    def sides(
        self, condition: str, baseline: str, models: Sequence[str], *, regime: str = "D0", again: bool = False
    ) -> dict[tuple[str, str], tuple[Difference, str]]:
        scores = self.again if again else self.first
        found = {}
        for model in models:
            for task in TASKS:
                cell = (task, model, regime, condition)
                if cell in scores.cells and (*cell[:3], baseline) in scores.cells:
                    found[task, model] = Difference(scores, cell, baseline)
        corrected = holm({cell: difference.p for cell, difference in found.items()})
        return {
            cell: (difference, difference.held(corrected[cell]) if difference.live else "dead")
            for cell, difference in found.items()
        }

    def difference(
        self, task: str, model: str, condition: str, baseline: str, regime: str = "D0"
    ) -> Difference:
        return Difference(self.first, (task, model, regime, condition), baseline)

    def level(self, task: str, model: str, condition: str, regime: str = "D0") -> float:
        return self.first.level((task, model, regime, condition))


def signed(value: float) -> str:
    # Halves are rounded as Python rounds the number's own digits; a zero has no minus.
    return f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def with_limits(difference: Difference) -> str:
    return f"{signed(difference.value)} [{signed(difference.low)}, {signed(difference.high)}]"


def lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    every = [list(header), ["---"] * len(header), *map(list, rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in every)


def recomputed() -> dict[str, str]:
    """Every number and table by its name in `page.in` and `findings.in`; the hash of the files is not one."""
    files = Published()
    return {
        **_forms(files),
        **_checklist(files),
        **_registered(files),
        **_abstentions(files),
        **_counts(files),
        **_second_look(files),
        **_levels(files),
        **_compiled(files),
        **_sizes(files),
        "verdicts": "\n".join(f"{row['id']} | {row['verdict']}" for row in rows_of("hypotheses.csv")),
    }


def _forms(files: Published) -> dict[str, str]:
    found = {}
    for name, task in (("csqa", "csqa_json"), ("boolq", "boolq")):
        found[f"{name}_strict"] = with_limits(files.difference(task, LARGE, "C3", "C2"))
        for when, condition in (("before", "C2"), ("after", "C3")):
            found[f"{name}_strict_{when}"] = f"{files.level(task, LARGE, condition):.2f}"
            found[f"{name}_lenient_{when}"] = f"{files.number(task, LARGE, condition, 'lenient_score'):.2f}"
    hard = files.sides("C6", "C4", TINY)
    raised = [cell for cell, (_, side) in hard.items() if side == "up"]
    for name, task in (("agnews", "agnews_json"), ("boolq", "boolq"), ("strategyqa", "strategyqa")):
        found[f"hard_{name}"] = f"{files.level(task, SMOL, 'C6'):.2f}"
        found[f"majority_{name}"] = f"{files.majority[task]:.2f}"
    found["hard_up"] = str(len(raised))
    found["hard_live"] = str(len([side for _, side in hard.values() if side != "dead"]))
    found["hard_constant"] = str(len([cell for cell in raised if (*cell, "C6") in files.constant]))
    rows = []
    for (task, model), (difference, side) in files.sides("C3", "C2", QWENS).items():
        lenient = [files.number(task, model, condition, "lenient_score") for condition in ("C2", "C3")]
        text = with_limits(difference)
        rows.append(
            [
                f"{TASKS[task]}, {SHORT[model]}" + (r"\*" if side == "dead" else ""),
                f"{files.level(task, model, 'C2'):.2f}",
                f"{files.level(task, model, 'C3'):.2f}",
                {"up": f"**{text}**", "down": f"**{text}**", "dead": "dead"}.get(side, text),
                f"{lenient[0]:.2f}",
                f"{lenient[1]:.2f}",
                signed(lenient[1] - lenient[0]),
            ]
        )
    header = ["", "C2", "C3", "C3 − C2, strict", "C2, lenient", "C3, lenient", "C3 − C2, lenient"]
    return found | {"form": lines(header, rows)}


def _checklist(files: Published) -> dict[str, str]:
    found = {}
    for name, again in (("checks", False), ("again", True)):
        cells = files.sides("C5", "C5-CHECKS", QWENS, again=again)
        sides = [side for _, side in cells.values()]
        up = [
            f"{TASKS[task]} on {SHORT[model]}" for (task, model), (_, side) in cells.items() if side == "up"
        ]
        found[f"{name}_up_names"] = ", ".join(up) or "none"
        found[f"{name}_down"], found[f"{name}_up"] = str(sides.count("down")), str(sides.count("up"))
        found[f"{name}_of"] = str(len(sides))
    for name, condition in (("with", "C5"), ("without", "C5-CHECKS"), ("zero", "C3")):
        found[f"trec_{name}"] = f"{files.level('trec', LARGE, condition):.2f}"
    for task in ("trec", "boolq"):
        found[f"{task}_share"], found[f"{task}_answer"] = files.constant[task, LARGE, "C5"]
    checks, zero = (
        files.difference("trec", LARGE, "C5", "C5-CHECKS"),
        files.difference("trec", LARGE, "C4", "C3"),
    )
    named = [item[3] + item[4] for item in files.first.cells[POOLED, LARGE, "D0", "C5"].values()]
    share = {
        row["operator"]: float(row["effect"])
        for row in rows_of("attribution.csv")
        if row["task"] == "trec" and row["model"] == LARGE and row["decoding"] == "D0" and row["effect"]
    }
    return found | {
        "trec_checks": with_limits(checks),
        "trec_checks_value": signed(checks.value),
        "checks_zero": signed(zero.value),
        "checks_interaction": signed(checks.value - zero.value),
        "conll_empty": str(named.count(0)),
        "conll_items": str(len(named)),
        "share_examples": signed(share["EXEMPLARS"]),
        "share_checks": signed(share["VERIFIER"]),
    }


def _registered(files: Published) -> dict[str, str]:
    def judged(name: str, scores: Scores) -> dict[tuple[str, ...], tuple[Difference, str]]:
        """The registered contrasts with what became of each, corrected by Holm within the task."""
        keys = [
            (row["task"], row["model"], row["decoding"], row["condition"], row["baseline"])
            for row in rows_of(name)
            if row["delta"]
        ]
        found = {key: Difference(scores, key[:4], key[4]) for key in keys}
        corrected: dict[object, float] = {}
        for task in TASKS:
            corrected |= holm({key: found[key].p for key in keys if key[0] == task})
        return {key: (found[key], found[key].held(corrected[key])) for key in keys}

    first = judged("registration.csv", files.first)
    second = judged("replication_registration.csv", files.again)
    sides = {key: side if difference.live else "dead" for key, (difference, side) in first.items()}
    rows = []
    for pair in dict.fromkeys(key[3:] for key in first):
        mine = [side for key, side in sides.items() if key[3:] == pair]
        rows.append(
            [
                f"{pair[0]} − {pair[1]}",
                *(str(mine.count(s)) for s in ("up", "down", "not shown", "dead")),
                str(len(mine)),
            ]
        )
    both = [key for key in first if key in second]
    held = [key for key in both if first[key][1] != "not shown"]
    alike = [key for key in held if first[key][0].value * second[key][0].value > 0]
    alive = [key for key in both if first[key][0].live or second[key][0].live]
    fresh = [key for key in both if second[key][1] != "not shown" and first[key][1] == "not shown"]
    every = list(sides.values())
    r = statistics.correlation(*([side[key][0].value for key in alive] for side in (first, second)))
    return {
        "planned": str(len(first)),
        "dead": str(every.count("dead")),
        "live": str(len(every) - every.count("dead")),
        "held": str(every.count("up") + every.count("down")),
        "outcomes": lines(
            ["planned contrast", "holds: up", "holds: down", "not shown", "dead", "cells"], rows
        ),
        "again_items": f"{len({(cell[0], item) for cell, items in files.again.cells.items() for item in items}):,}",
        "again_held_of": str(len(held)),
        "again_held": str(len([key for key in alike if second[key][1] != "not shown"])),
        "again_sign": str(len(alike)),
        "again_fresh": str(len(fresh)),
        "again_both": str(len(both)),
        "again_live": str(len(alive)),
        "again_r": f"{r:.2f}",
    }


def _abstentions(files: Published) -> dict[str, str]:
    task = "truthfulqa_gen"
    conditions = [
        key[3]
        for key, row in files.summary.items()
        if key[:3] == (task, LARGE, "D0") and row["abstained"] != ""
    ]
    found = {}
    for name, of in (("gsm", "gsm8k"), ("svamp", "svamp")):
        for size, model in (("large", LARGE), ("small", SMALL)):
            found[f"abstain_{name}_{size}"] = percent(files.number(of, model, "C2", "abstained"))
    for size, model in (("large", LARGE), ("small", SMALL)):
        found[f"svamp_rules_{size}"] = with_limits(files.difference("svamp", model, "C2", "S2"))
    rows = []
    for condition in conditions:
        row = [condition]
        for model in QWENS:
            row.append(f"{files.level(task, model, condition):.2f}")
            row.append(percent(files.number(task, model, condition, "abstained")))
        rows.append(row)
    header = ["TruthfulQA, greedy"]
    for model in QWENS:
        header += [f"{SHORT[model]}: score", f"{SHORT[model]}: abstains"]
    for size, model in (("large", LARGE), ("small", SMALL)):
        both = [
            (files.level(task, model, name), files.number(task, model, name, "abstained"))
            for name in conditions
        ]
        found[f"truthful_r_{size}"] = f"{statistics.correlation(*zip(*both, strict=True)):.2f}"
    return found | {
        "truthful_conditions": str(len(conditions)),
        "truthful": lines(header, rows),
    }


def _counts(files: Published) -> dict[str, str]:
    retries = files.sides("C6", "C4R", QWENS, regime="D1")
    sides = [side for _, side in retries.values()]
    afforded = [
        float(row["retries_afforded"]) for row in rows_of("constraint_vs_retry.csv") if row["model"] in QWENS
    ]
    assert max(afforded) < 1
    then = [
        row["condition"]
        for row in rows_of("best_condition.csv")
        if row["decoding"] == "D0" and row["model"] in QWENS
    ]
    best: dict[tuple[str, str], set[str]] = {}
    for task in TASKS:
        for model in QWENS:
            scores = {
                cell[3]: files.first.level(cell)
                for cell in files.first.cells
                if cell[:3] == (task, model, "D0") and cell[3] not in ("S2", "S4")
            }
            most = max(scores.values())
            best[task, model] = {name for name, score in scores.items() if most - score < 1e-9}
    same = [task for task in TASKS if best[task, SMALL] & best[task, LARGE]]
    (truthful,) = best["truthfulqa_gen", SMALL] & best["truthfulqa_gen", LARGE]
    return {
        "retry_up": str(sides.count("up")),
        "retry_down": str(sides.count("down")),
        "retry_of": str(len(sides)),
        "retry_conll": with_limits(retries[POOLED, LARGE][0]),
        "retry_none": str(afforded.count(0)),
        "retry_cells": str(len(afforded)),
        "best_shams": str(sum(name in ("S2", "S4") for name in then)),
        "best_of": str(len(then)),
        "best_same": str(len(same)),
        "best_same_names": ", ".join(TASKS[task] for task in same),
        "best_truthful_large": percent(files.number("truthfulqa_gen", LARGE, truthful, "abstained")),
        "best_truthful_small": percent(files.number("truthfulqa_gen", SMALL, truthful, "abstained")),
    }


SECOND = {
    "C3": "no examples",
    "C5-CHECKS": "examples, nothing behind the question",
    "C5-BEFORE": "examples, the checklist before them",
    "C5-LINE": "examples, one line that says nothing behind the question",
    "S5": "examples, a sham behind the question",
    "C5": "examples, the checklist behind the question",
}


def _second_look(files: Published) -> dict[str, str]:
    scores = Scores.__new__(Scores)
    scores.cells, readings, answers = defaultdict(dict), defaultdict(list), defaultdict(list)
    for row in files.second:
        cell = (row["task"], row["model"], row["decoding"], row["condition"])
        scores.cells[cell][row["item"]] = (float(row["score"]), float(row["readable"]), 0.0, 0, 0, 0)
        readings[cell].append(float(row["lenient"]))
        if row["answer"]:
            answers[cell].append(row["answer"])
    cells = [
        (task, SMALL, "D0", condition)
        for task in TASKS
        for condition in SECOND
        if (task, SMALL, "D0", condition) in scores.cells
    ]
    moved: dict[int, dict[Cell, list[float]]] = {0: {}, 1: {}}
    for cell in cells:
        mine, other = scores.cells[cell], scores.cells[(*cell[:3], "C5-CHECKS")]
        both = sorted(mine.keys() & other.keys())
        if cell[3] != "C5-CHECKS":
            for column, deltas in moved.items():
                deltas[cell] = [mine[item][column] - other[item][column] for item in both]
    corrected = {
        column: holm({cell: sign_flip(steps) for cell, steps in deltas.items()})
        for column, deltas in moved.items()
    }
    rows = []
    for cell in cells:
        readable, most, text = f"{len(answers[cell])} of {len(readings[cell])}", "–", "–"
        if cell in moved[0]:
            up, down = (sum(delta * side > 0 for delta in moved[0][cell]) for side in (1, -1))
            text = f"{up} and {down} of {len(moved[0][cell])}"
            text = f"**{text}**" if corrected[0][cell] < 0.05 else text
            readable = f"**{readable}**" if corrected[1][cell] < 0.05 else readable
        if answers[cell]:
            common = max(set(answers[cell]), key=answers[cell].count)
            most = f"{answers[cell].count(common)} “{common}”"
        rows.append(
            [
                f"{TASKS[cell[0]]}, {SECOND[cell[3]]} ({cell[3]})",
                readable,
                f"{scores.level(cell):.2f}",
                f"{statistics.fmean(readings[cell]):.2f}",
                most,
                text,
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
    return {"second_look": lines(header, rows), "second_rows": str(len(files.second))}


def _levels(files: Published) -> dict[str, str]:
    ladder = ["C0", "C1", "C2", "C3", "C4", "C5", "C6"]
    found = {}
    for name, model in (("large", LARGE), ("small", SMALL), ("gemma", GEMMA), ("smol", SMOL)):
        rows = []
        for task, words in TASKS.items():
            row = [words]
            for condition in [*ladder, "C5-CHECKS"]:
                strict = files.level(task, model, condition)
                lenient = f"{files.number(task, model, condition, 'lenient_score'):.2f}"
                text = f"{strict:.2f}"
                if lenient != text:
                    text += f" / {lenient}"
                text += "!" if (task, model, condition) in files.constant else ""
                row.append(text + (r"\*" if strict < DEAD - 1e-9 else ""))
            rows.append([*row, f"{files.majority[task]:.2f}" if task in files.majority else "–"])
        found[f"ladder_{name}"] = lines([SHORT[model], *ladder, "C5 without checklist", "majority"], rows)
    rows = []
    for model in reversed(MODELS):
        for what, column in (("unreadable", 1), ("cut", 2)):
            row = [f"{what}, {SHORT[model]}"]
            for condition in ladder:
                shares = [
                    item[column]
                    for cell, items in files.first.cells.items()
                    if cell[1:] == (model, "D0", condition)
                    for item in items.values()
                ]
                share = sum(shares) / len(shares)
                row.append(percent(1 - share if column == 1 else share))
            rows.append(row)
    found["trouble"] = lines(["", *ladder], rows)
    (items,) = {len(files.first.cells[task, LARGE, "D0", "C0"]) for task in TASKS}
    return found | {"study_items": str(items)}


def _compiled(files: Published) -> dict[str, str]:
    ladder = ["C0", "C1", "C2", "C3", "C4", "C5", "C6"]
    rows = []
    for row in sorted(rows_of("compiled.csv"), key=lambda row: (-MODELS.index(row["model"]), row["task"])):
        cell = (row["task"], row["model"])
        levels = [files.level(*cell, condition, "D1") for condition in ladder]
        best = next(k for k, level in enumerate(levels) if max(levels) - level < 1e-9)
        against = [files.difference(*cell, "C8", other, "D1") for other in ("C0", ladder[best])]
        texts = [with_limits(difference) if difference.live else "dead" for difference in against]
        blocks, score = row["makeup"] or "none", f"{files.level(*cell, 'C8', 'D1'):.2f}"
        level = f"{ladder[best]} {round(levels[best], 9):.2f}"
        rows.append([f"{TASKS[cell[0]]}, {SHORT[cell[1]]}", blocks, score, texts[0], level, texts[1]])
    header = ["compiled prompt (C8)", "blocks", "score", "C8 − C0", "best of C0–C6", "C8 less it"]
    return {"compiled": lines(header, rows)}


def _sizes(files: Published) -> dict[str, str]:
    perturbed = sum(
        int(row["n_rows"])
        for row in rows_of("summary_by_condition.csv")
        if row["perturbation"] not in ("", "none")
    )
    gemma = sum(
        int(row["replicates"])
        for row in rows_of("item_scores.csv.gz")
        if (row["task"], row["model"], row["decoding"]) == ("gsm8k", GEMMA, "D1")
    )
    total = files.first.rows + files.again.rows + perturbed
    return {
        "rows_total": f"{total:,}",
        "rows_thousand": str(total // 1000),
        "rows_study": f"{files.first.rows:,}",
        "rows_perturbed": f"{perturbed:,}",
        "rows_again": f"{files.again.rows:,}",
        "gemma_gsm": f"{gemma:,}",
        "shown_rows": str(
            gzip.decompress((FOLDER / "second_look" / "rows.jsonl.gz").read_bytes()).count(b"\n")
        ),
    }


def on_page(template: str, page: str) -> dict[str, str]:
    """What stands in a page at each place of its template; ``ValueError`` where their other text is not the same."""
    pieces = re.split(r"\{(\w+)\}", template)
    found: dict[str, str] = {}
    if not page.startswith(pieces[0]):
        raise ValueError(f"the page does not begin as its template: {pieces[0][:60]!r}")
    position = len(pieces[0])
    for name, after in zip(pieces[1::2], pieces[2::2], strict=True):
        end = page.find(after, position) if after else len(page)
        if end < 0:
            raise ValueError(f"after {{{name}}} the page goes on otherwise than its template: {after[:60]!r}")
        value = page[position:end]
        if found.setdefault(name, value) != value:
            raise ValueError(f"{{{name}}} stands on the page with two values: {found[name]!r} and {value!r}")
        position = end + len(after)
    if page[position:].strip():
        raise ValueError(f"the page goes on after its template: {page[position : position + 60]!r}")
    return found


def in_words(files: Published) -> dict[str, bool]:
    """What page and findings say in words and not in a number of their templates, and whether it is so."""
    first = files.first.cells
    second: dict[str, dict[str, dict[str, str]]] = {}
    for row in files.second:
        second.setdefault(row["condition"], {})[row["item"]] = row
    four_and_ten = [len({cell[k] for cell in first}) for k in (1, 0)] == [4, 10]
    silent = [row for name in ("S5", "C5-LINE") for row in second[name].values()]
    shots, before = second["C5-CHECKS"], second["C5-BEFORE"]
    seeds = {
        int(row["replicates"])
        for row in rows_of("item_scores.csv.gz")
        if row["decoding"] == "D1" and row["model"] in QWENS
    }
    again = {cell[0] for cell in files.again.cells}
    tasks_of: dict[tuple[str, str], set[str]] = {}
    for task, _, regime, name in first:
        tasks_of.setdefault((regime, name), set()).add(task)
    greedy, sampled = ({name for regime, name in tasks_of if regime == one} for one in ("D0", "D1"))
    everywhere = {"C0", "C1", "C2", "C3", "C4", "C5", "C6", "S2", "S4", "C4R"}
    less = {f"C5-{name}" for name in ("ROLE", "GOAL", "RULES", "ABSTAIN", "SCHEMA", "CHECKS")}
    somewhere = {"C7": {"fever_json"}, "C7L": {"fever_json", "truthfulqa_gen"}, "C8": {"agnews_json", "trec"}}
    attacked = {row["condition"] for row in rows_of("robustness_by_attack.csv")}
    return {
        "Four small models, ten published tasks": four_and_ten,
        "on four small models and ten published tasks": four_and_ten,
        "on {best_same} of 10 tasks": len(TASKS) == 10,
        "other items of nine of the tasks (StrategyQA has too few left)": again
        == TASKS.keys() - {"strategyqa"},
        "levels are sampled, three seeds": seeds == {3},
        "C0–C6, C5 less each operator, two shams, retries (C4R)": all(
            tasks_of["D0", name] == TASKS.keys() for name in everywhere | less
        ),
        "on FEVER the loop with search (C7), on FEVER and TruthfulQA that without (C7L), on AG News and TREC"
        " compiled prompts (C8)": all(tasks_of["D0", name] == tasks for name, tasks in somewhere.items())
        and greedy == everywhere | less | somewhere.keys(),
        "three seeds): the same, but for C5 less each operator": sampled == greedy - less
        and all(tasks_of["D1", name] == tasks_of["D0", name] for name in sampled),
        "none of the four conditions was written as one": len(attacked) == 4,
        "this is one model and one task": len({(row["task"], row["model"]) for row in files.second}) == 1,
        "a line or a sham that says nothing left no answer readable": not any(
            float(row["readable"]) for row in silent
        ),
        # By a page of which `recompute_replications.py` gives every line.
        "any text there costs score on the smaller of the two models": (
            "### qwen2.5-coder-0.5b: any text behind the question costs score\n"
            in (FOLDER.parent / "replications" / "text_behind.md").read_text(encoding="utf-8")
        ),
        "the checklist before the examples lost no item": all(
            float(before[item]["score"]) >= float(shots[item]["score"]) for item in shots
        ),
    }


LIMITS = re.compile(r"\[([+−]\d\.\d\d), ([+−]\d\.\d\d)\]")


def agree(said: str, mine: str) -> bool:
    """Whether two texts are the same but for limits of differences that are 0.01 apart."""
    if LIMITS.sub("[]", said) != LIMITS.sub("[]", mine):
        return False
    ends = (
        [float(end.replace("−", "-")) for pair in LIMITS.findall(text) for end in pair]
        for text in (said, mine)
    )
    return all(abs(a - b) < 0.011 for a, b in zip(*ends, strict=True))


def differences() -> list[str]:
    """What page and findings say otherwise than the published files."""
    page = on_page(
        (FOLDER / "page.in").read_text(encoding="utf-8"), (FOLDER / "README.md").read_text(encoding="utf-8")
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    findings = readme.partition("study_page.py -->\n")[2].partition("<!-- /findings -->")[0]
    said = page | on_page((FOLDER / "findings.in").read_text(encoding="utf-8"), findings)
    mine, found = recomputed(), []
    for name, text in said.items():
        if name == "hash":  # of the bytes, not of what they say
            continue
        if name == "verdicts":  # each with its verdict; why it is not on the page is no number
            cut = [" | ".join(line.strip(" |").split(" | ")[:2]) for line in text.splitlines()[2:]]
            text = "\n".join(cut)
        if name not in mine:
            found.append(f"{name}: this script has no such number")
        elif not agree(text, mine[name]):
            pairs = zip(text.splitlines(), mine[name].splitlines(), strict=False)
            where = [(a, b) for a, b in pairs if not agree(a, b)] or [(text, mine[name])]
            found += [f"{name}: the page says {a!r}, the files {b!r}" for a, b in where]
    return found


def wrong_words() -> list[str]:
    """What page and findings say in words otherwise than the published files."""
    texts = [(FOLDER / name).read_text(encoding="utf-8") for name in ("page.in", "findings.in")]
    said, found = " ".join(" ".join(texts).split()), []
    for phrase, holds in in_words(Published()).items():
        if phrase not in said:
            found.append(f"no longer said: {phrase!r}")
        elif not holds:
            found.append(f"said, and not so by the files: {phrase!r}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--show", action="store_true", help="print every number by its name, compare nothing")
    if parser.parse_args().show:
        for name, text in recomputed().items():
            print(f"{name}:{' ' if chr(10) not in text else chr(10)}{text}")
        return 0
    found = [*differences(), *wrong_words()]
    print("\n".join(found) or "every number of the page and of the findings is what the published files say")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
