"""The page of a study from its tables: every number on it comes from here.

    python scripts/study_page.py                       # writes docs/studies/2026-11-small-models/README.md
    python scripts/study_page.py --check               # exit status 1 where the page says something else
    python scripts/study_page.py --collect TABLES --cache .cache --report index.html    # first, from a report

`page.in` is its text with places for numbers. `tables/` holds what the report wrote, less what the page does not need,
and `item_scores.parquet`: the mean score of each item in each cell, from which effects can be computed again.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "studies" / "2026-11-small-models"
COPIED = (
    "registration.csv",
    "hypotheses.csv",
    "pooled.csv",
    "scale.csv",
    "summary_by_condition.csv",
    "best_condition.csv",
)
OF_SCORES = ("effects.csv", "attribution.csv")
"""Tables of which only the rows about the score are kept."""
MODELS = ("smollm2-135m", "gemma-3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
LADDER = ("C0", "C1", "C2", "C3", "C4", "C5", "C6")
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


def collect(report: Path, cache: Path, folder: Path) -> None:
    """Put the tables of a report, and the item scores of its rows, where the page reads them.

    The share of the most frequent label comes from the items themselves, in ``cache``.
    """
    import duckdb

    from pcsuite.analysis.load.item_scores import truth_texts
    from pcsuite.config.load import load_suite

    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        shutil.copyfile(report / name, folder / name)
    for name in OF_SCORES:
        with (report / name).open(encoding="utf-8", newline="") as source:
            rows = [row for row in csv.DictReader(source) if row["metric"] == "score"]
        with (folder / name).open("w", encoding="utf-8", newline="") as target:
            writer = csv.DictWriter(target, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    labels = truth_texts(load_suite("study_small_models", {"run.cache_dir": str(cache)})).labels
    asked = duckdb.sql(f"select distinct task_id, item_id from '{report / 'runs.parquet'}'").fetchall()
    with (folder / "majority.csv").open("w", encoding="utf-8", newline="") as target:
        target.write("task,items,share\n")
        for task in TASKS:
            given = Counter(
                labels[task][item] for one, item in asked if one == task and item in labels.get(task, {})
            )
            if given and task not in ("gsm8k", "svamp"):
                target.write(f"{task},{given.total()},{max(given.values()) / given.total():.4f}\n")
    runs, scores = report / "runs.parquet", folder / "item_scores.parquet"
    duckdb.sql(
        f"""copy (
            select task_id as task, model_id as model, decoding_id as decoding, condition_id as condition,
                sha256(item_id)[:12] as item, count(*)::integer as replicates, avg(metric_task_score) as score,
                avg(coalesce(json_valid, answer is not null)::integer) as readable,
                avg((finish_reason = 'length')::integer) as truncated,
                sum(metric_tp)::integer as tp, sum(metric_fp)::integer as fp, sum(metric_fn)::integer as fn,
                sum(prompt_tokens)::integer as prompt_tokens, sum(completion_tokens)::integer as completion_tokens
            from '{runs}' where perturbation_type is null or perturbation_type = 'none' group by all order by all
        ) to '{scores}' (format parquet, compression zstd)"""
    )


def tables_hash(folder: Path) -> str:
    """sha256 over the names and contents of the stored tables."""
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


class Tables:
    """The stored tables, asked for what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.folder / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))

    @cached_property
    def effects(self) -> dict[tuple[str, ...], dict[str, str]]:
        """Effects on the score by task, model, regime, condition and baseline."""
        keys = ("task", "model", "decoding", "condition", "baseline")
        return {tuple(row[key] for key in keys): row for row in self.rows("effects")}

    @cached_property
    def summary(self) -> dict[tuple[str, ...], dict[str, str]]:
        keys = ("task", "model", "decoding", "condition")
        return {tuple(row[key] for key in keys): row for row in self.rows("summary_by_condition")}

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a query over ``items``, the item scores."""
        import duckdb

        items = self.folder / "item_scores.parquet"
        with duckdb.connect() as database:
            return database.sql(f"with items as (from '{items}') {query}").fetchall()

    def score(self, task: str, model: str, condition: str, regime: str = "D0") -> str:
        return f"{float(self.summary[task, model, regime, condition]['score']):.2f}"

    def effect(self, task: str, model: str, condition: str, baseline: str, regime: str = "D0") -> str:
        """``−0.42 [−0.50, −0.34]``: the effect on the score with its 95 % interval."""
        row = self.effects[task, model, regime, condition, baseline]
        return figure(row["delta"], row["delta_low"], row["delta_high"])

    def reliable(
        self, condition: str, baseline: str, models: Sequence[str]
    ) -> tuple[list[str], list[str], int]:
        """Greedy cells whose effect holds (p after Benjamini–Hochberg, and the interval): up, down, and of how many."""
        up, down, cells = [], [], 0
        for (task, model, regime, *pair), row in self.effects.items():
            if pair != [condition, baseline] or model not in models or regime != "D0":
                continue
            cells += 1
            low, high = float(row["delta_low"]), float(row["delta_high"])
            if row["p_bh"] and float(row["p_bh"]) < 0.05 and (low > 0 or high < 0):
                (up if low > 0 else down).append(f"{TASKS[task]} on {short(model)}")
        return up, down, cells


def figure(value: str, low: str, high: str) -> str:
    return f"{signed(value)} [{signed(low)}, {signed(high)}]"


def signed(value: str | float) -> str:
    return f"{float(value):+.2f}".replace("-", "−")


def short(model: str) -> str:
    names = {"smollm2-135m": "SmolLM2-135M", "gemma-3-270m": "Gemma-3-270m"}
    return names.get(model, model.replace("qwen2.5-coder-", "Qwen-").replace("b", "B"))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(folder: Path) -> str:
    """The page's text, with its numbers from the tables in ``folder``."""
    found = Tables(folder)
    facts = found.sql(
        "select sum(replicates), sum(prompt_tokens), sum(completion_tokens), count(distinct (task, item)) from items"
    )[0]
    large, small = MODELS[3], MODELS[2]
    qwens = (small, large)
    tiny = MODELS[:2]
    effect, score = found.effect, found.score
    checks_up, checks_down, checks_of = found.reliable("C5", "C5-CHECKS", qwens)
    rules_up, rules_down, rules_of = found.reliable("C2", "S2", qwens)
    hard_up, _, hard_of = found.reliable("C6", "C4", tiny)
    planned = found.rows("registration")
    held = [row for row in planned if row["outcome"] == "holds"]
    ladder = table(
        ["greedy, 200 items", *LADDER, "C5 without checklist", "majority class"],
        (
            [
                f"{name}, {short(model)}",
                *(score(task, model, condition) for condition in LADDER),
                score(task, model, "C5-CHECKS"),
                majority(found, task),
            ]
            for model in reversed(qwens)
            for task, name in TASKS.items()
        ),
    )
    trouble = table(
        ["", *LADDER],
        (
            [
                f"{what}, {short(model)}",
                *(
                    f"{value:.0%}".replace("%", " %")
                    for (value,) in found.sql(
                        f"select {column} from items where model = '{model}' and decoding = 'D0'"
                        f" and condition in {LADDER} group by condition order by condition"
                    )
                ),
            ]
            for model in reversed(MODELS)
            for what, column in (
                ("unreadable", "1 - avg(readable)"),
                ("cut at the token limit", "avg(truncated)"),
            )
        ),
    )
    verdicts = table(
        ["", "verdict", "effect", "what was said beforehand"],
        (
            [
                row["id"],
                row["verdict"],
                figure(row["effect"], row["effect_low"], row["effect_high"]) if row["effect_low"] else "–",
                row["statement"].partition(": ")[2],
            ]
            for row in found.rows("hypotheses")
        ),
    )
    outcomes = table(
        ["planned contrast", "holds: up", "holds: down", "not shown", "cells"],
        (
            [
                f"{condition} − {baseline}",
                *(
                    str(
                        sum(
                            kind(row) == wanted
                            for row in planned
                            if (row["condition"], row["baseline"]) == pair
                        )
                    )
                    for wanted in ("up", "down", "open")
                ),
                str(sum((row["condition"], row["baseline"]) == pair for row in planned)),
            ]
            for pair in dict.fromkeys((row["condition"], row["baseline"]) for row in planned)
            for condition, baseline in [pair]
        ),
    )
    best = {(row["task"], row["model"]): row["condition"] for row in found.rows("best_condition")}
    pooled = next(
        row
        for row in found.rows("pooled")
        if (row["decoding"], row["condition"], row["baseline"], row["metric"], row["over"])
        == ("D0", "C3", "C2", "score", "tasks")
    )
    text = (FOLDER / "page.in").read_text(encoding="utf-8")
    return text.format(
        hash=tables_hash(folder),
        n_checks_down=len(checks_down), n_checks_up=len(checks_up), checks_of=checks_of,
        trec_with=score("trec", large, "C5"), trec_without=score("trec", large, "C5-CHECKS"),
        trec_checks=effect("trec", large, "C5", "C5-CHECKS"), boolq_checks=effect("boolq", large, "C5", "C5-CHECKS"),
        conll_checks=effect("conll03_ner_json", large, "C5", "C5-CHECKS"),
        csqa_schema=effect("csqa_json", large, "C3", "C2"), boolq_schema=effect("boolq", large, "C3", "C2"),
        svamp_schema=effect("svamp", large, "C3", "C2"), gsm_schema=effect("gsm8k", large, "C3", "C2"),
        schema_pooled=figure(pooled["effect"], pooled["effect_low"], pooled["effect_high"]),
        n_hard_up=len(hard_up), hard_of=hard_of,
        tiny_levels=", ".join(
            f"{TASKS[task]} {score(task, MODELS[0], 'C6')} (most frequent class {majority(found, task)})"
            for task in ("agnews_json", "boolq", "strategyqa")
        ),
        n_rules=len(rules_up) + len(rules_down), rules_of=rules_of, n_rules_down=len(rules_down),
        svamp_rules=effect("svamp", large, "C2", "S2"),
        same_best=sum(best.get((task, small)) == best.get((task, large)) for task in TASKS),
        h4c=next(row["verdict"] for row in found.rows("hypotheses") if row["id"] == "H4C"),
        ladder=ladder, outcomes=outcomes, verdicts=verdicts, trouble=trouble,
        n_planned=len(planned), n_held=len(held),
        total=int(facts[0]), prompts=facts[1] / 1e6, completions=facts[2] / 1e6, items=facts[3],
    )  # fmt: skip


def kind(row: dict[str, str]) -> str:
    return "open" if row["outcome"] != "holds" else "up" if float(row["delta"]) > 0 else "down"


def majority(found: Tables, task: str) -> str:
    """What always giving the most frequent label would score; a dash where answers are no labels."""
    share = next((row["share"] for row in found.rows("majority") if row["task"] == task), None)
    return f"{float(share):.2f}" if share else "–"


def publish(source: Path, target: Path) -> None:
    """A copy of a report's page without its sample of rows, which quotes the items."""
    text = source.read_text(encoding="utf-8")
    start = text.index('<section id="rows">')
    end = text.index("</section>", start) + len("</section>")
    target.write_text(text[:start] + text[end:], encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--collect", type=Path, metavar="TABLES", help="tables folder of a report to take over first"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(".cache"), help="where the items are, with --collect"
    )
    parser.add_argument(
        "--report", type=Path, metavar="HTML", help="page of a report to publish without its rows"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page differs")
    args = parser.parse_args()
    if args.collect:
        collect(args.collect, args.cache, FOLDER / "tables")
    if args.report:
        publish(args.report, FOLDER / "report.html")
    text, path = page(FOLDER / "tables"), FOLDER / "README.md"
    if args.check:
        return int(path.read_text(encoding="utf-8") != text)
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
