"""The page of a study from its tables: every number on it comes from here.

    python scripts/study_page.py                       # writes docs/studies/2026-11-small-models/README.md
    python scripts/study_page.py --check               # exit status 1 where the page says something else
    python scripts/study_page.py --collect TABLES --replication TABLES --cache .cache --report index.html
                                                       # first, from the reports of the study and of its replication

`page.in` is its text with places for numbers. `tables/` holds what the report wrote, less what the page does not need,
and `item_scores.parquet`: the mean score of each item in each cell, from which effects can be computed again. What was
asked again on other items is in `replication_*`.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import shutil
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pcsuite.pages.words import json_data

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "studies" / "2026-11-small-models"
COPIED = (
    "registration.csv",
    "hypotheses.csv",
    "pooled.csv",
    "scale.csv",
    "summary_by_condition.csv",
    "best_condition.csv",
    "robustness_by_attack.csv",
    "robustness_worst_case.csv",
    "compiled.csv",
    "constraint_vs_retry.csv",
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
WITHDRAWN = ("H3", "H3L", "P3")
"""Verdicts that rest on a measure of unsupported evidence which differed between the arms, or has changed since."""


def collect(report: Path, again: Path, cache: Path, folder: Path) -> None:
    """Put the tables of two reports, and the item scores of their rows, where the page reads them.

    ``report`` is of the study, ``again`` of the same contrasts on other items. The share of the most frequent label
    comes from the items themselves, in ``cache``.
    """
    import duckdb

    from pcsuite.analysis.load.item_scores import truth_texts
    from pcsuite.config.load import load_suite

    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        shutil.copyfile(report / name, folder / name)
    for name in OF_SCORES:
        copy_rows(report / name, folder / name, lambda row: row["metric"] == "score")
    copy_rows(
        again / "registration.csv",
        folder / "replication_registration.csv",
        lambda row: row["metric"] == "score",
    )
    copy_rows(  # only the checklist's, which was not registered
        again / "effects.csv",
        folder / "replication_effects.csv",
        lambda row: row["metric"] == "score" and row["baseline"] == "C5-CHECKS",
    )
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
    columns = (
        "count(*) as rows, sum(prompt_tokens)::bigint as prompt_tokens, sum(completion_tokens)::bigint as"
    )
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as target:
        target.write("part,rows,prompt_tokens,completion_tokens\n")
        for part, source, which in (
            ("study", report, "perturbation_type is null"),
            ("perturbed", report, "perturbation_type is not null"),
            ("replication", again, "true"),
        ):
            counts = duckdb.sql(
                f"select {columns} completion_tokens from '{source / 'runs.parquet'}' where {which}"
            ).fetchall()[0]
            target.write(",".join(map(str, (part, *counts))) + "\n")
    for source, name in ((report, "item_scores.parquet"), (again, "replication_scores.parquet")):
        duckdb.sql(
            f"""copy (
                select task_id as task, model_id as model, decoding_id as decoding, condition_id as condition,
                    sha256(item_id)[:12] as item, count(*)::integer as replicates, avg(metric_task_score) as score,
                    avg(coalesce(json_valid, answer is not null)::integer) as readable,
                    avg((finish_reason = 'length')::integer) as truncated,
                    sum(metric_tp)::integer as tp, sum(metric_fp)::integer as fp, sum(metric_fn)::integer as fn
                from '{source / "runs.parquet"}' where perturbation_type is null group by all order by all
            ) to '{folder / name}' (format parquet, compression zstd, compression_level 19)"""
        )


def copy_rows(source: Path, target: Path, kept: Callable[[dict[str, str]], bool]) -> None:
    """The rows of a table that are kept, with its header."""
    with source.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        rows = [row for row in reader if kept(row)]
    with target.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, reader.fieldnames or (), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


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
        rows = self.rows("summary_by_condition")
        return {tuple(row[key] for key in keys): row for row in rows if row["perturbation"] in ("", "none")}

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a query over ``items``, the item scores, and ``again``, those of the replication."""
        import duckdb

        items, again = (self.folder / f"{name}_scores.parquet" for name in ("item", "replication"))
        with duckdb.connect() as database:
            return database.sql(
                f"with items as (from '{items}'), again as (from '{again}') {query}"
            ).fetchall()

    def sampled(self, task: str, model: str) -> int:
        """Sampled rows of a task and model."""
        ((rows,),) = self.sql(
            f"select sum(replicates) from items where task = '{task}' and model = '{model}' and decoding = 'D1'"
        )
        return int(rows)

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
            if holds(row):
                (up if float(row["delta"]) > 0 else down).append(f"{TASKS[task]} on {short(model)}")
        return up, down, cells


def holds(row: dict[str, str]) -> bool:
    """Whether an effect holds: its p-value after Benjamini–Hochberg, and its interval on one side of 0."""
    low, high = float(row["delta_low"]), float(row["delta_high"])
    return bool(row["p_bh"]) and float(row["p_bh"]) < 0.05 and (low > 0 or high < 0)


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
    ((items,),) = found.sql("select count(distinct (task, item)) from items")
    counted = {
        row["part"]: {key: int(row[key]) for key in row if key != "part"} for row in found.rows("rows")
    }
    every = {key: sum(part[key] for part in counted.values()) for key in counted["study"]}
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
                "withdrawn" if row["id"] in WITHDRAWN else row["verdict"],
                figure(row["effect"], row["effect_low"], row["effect_high"])
                if row["effect_low"] and row["id"] not in WITHDRAWN
                else "–",
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
    best = {
        (row["task"], row["model"]): row["condition"]
        for row in found.rows("best_condition")
        if row["decoding"] == "D0"
    }
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
        total=every["rows"], main_rows=counted["study"]["rows"], perturbed_rows=counted["perturbed"]["rows"],
        again_rows=counted["replication"]["rows"], items=items,
        prompts=every["prompt_tokens"] / 1e6, completions=every["completion_tokens"] / 1e6,
        gemma_gsm=f"{found.sampled('gsm8k', MODELS[1]):,}",
        **asked_again(found), **attacked(found), **compiled(found), **retried(found),
    )  # fmt: skip


def asked_again(found: Tables) -> dict[str, Any]:
    """What became of the registered greedy contrasts, and of the checklist's, on other items."""
    keys = ("task", "model", "decoding", "condition", "baseline")
    first, second = (
        {
            tuple(row[key] for key in keys): row
            for row in found.rows(name)
            if row["decoding"] == "D0" and row["delta"]
        }
        for name in ("registration", "replication_registration")
    )
    both = [key for key in first if key in second]
    pairs = {key: (float(first[key]["delta"]), float(second[key]["delta"])) for key in both}
    held = [key for key in both if first[key]["outcome"] == "holds"]
    agree = [key for key in held if pairs[key][0] * pairs[key][1] > 0]
    qwens = [
        row
        for row in found.rows("replication_effects")
        if "qwen" in row["model"] and row["condition"] == "C5"
    ]
    sure = [row for row in qwens if holds(row)]
    up = [row for row in sure if float(row["delta"]) > 0]
    trec = next(row for row in qwens if (row["task"], row["model"]) == ("trec", MODELS[3]))
    ((items,),) = found.sql("select count(distinct (task, item)) from again")
    return {
        "again_items": items,
        "held_again_of": len(held),
        "held_again": sum(second[key]["outcome"] == "holds" for key in agree),
        "same_sign": len(agree),
        "inside": sum(
            float(second[key]["delta_low"]) <= pairs[key][0] <= float(second[key]["delta_high"]) for key in held
        ),
        "compared": len(both),
        "correlation": f"{statistics.correlation(*zip(*pairs.values(), strict=True)):.2f}",
        "fresh": sum(second[key]["outcome"] == "holds" != first[key]["outcome"] for key in both),
        "again_of": len(qwens),
        "again_down": len(sure) - len(up),
        "again_up": len(up),
        "again_up_names": ", ".join(
            f"{TASKS[row['task']]} at {short(row['model']).removeprefix('Qwen-')}"
            f" {figure(row['delta'], row['delta_low'], row['delta_high'])}"
            for row in up
        ),
        "trec_checks_again": figure(trec["delta"], trec["delta_low"], trec["delta_high"]),
    }  # fmt: skip


def attacked(found: Tables) -> dict[str, Any]:
    """What perturbed prompts lose, by condition and kind, for the Qwen models."""
    rows = {
        (row["task"], row["model"], row["condition"], row["attack"]): row
        for row in found.rows("robustness_by_attack")
        if row["decoding"] == "D0"
    }
    kinds = list(dict.fromkeys(attack for *_, attack in rows))
    conditions = ("C0", "C2", "C4", "C6")

    def drop(*key: str) -> str:
        row = rows[key]
        sure = float(row["drop_low"]) > 0 or float(row["drop_high"]) < 0
        text = signed(float(row["drop"]) + 0.0)
        return f"**{text}**" if sure else text

    def reach(column: str) -> str:
        values = [float(rows["agnews_json", MODELS[3], name, "injection"][column]) for name in conditions]
        return f"{min(values):.2f}–{max(values):.2f}"

    paraphrased = rows["csqa_json", MODELS[3], "C0", "paraphrase"]
    return {
        "robustness": table(
            ["", "unperturbed", *(kind.replace("_", " ") for kind in kinds)],
            (
                [
                    f"{TASKS[task]}, {short(model)}, {condition}",
                    f"{float(rows[task, model, condition, kinds[0]]['clean']):.2f}",
                    *(drop(task, model, condition, kind) for kind in kinds),
                ]
                for model in (MODELS[3], MODELS[2])
                for task in ("agnews_json", "csqa_json")
                for condition in conditions
            ),
        )
        + "\n\nBold where the interval leaves out 0; `robustness_by_attack.csv` has intervals and other models.",
        "injection_clean": reach("clean"),
        "injection_attacked": reach("attacked"),
        "csqa_clean": f"{float(paraphrased['clean']):.2f}",
        "csqa_paraphrased": f"{float(paraphrased['attacked']):.2f}",
    }


def compiled(found: Tables) -> dict[str, Any]:
    """What the search over blocks came to."""
    rows = found.rows("compiled")
    qwens = [row for row in rows if "qwen" in row["model"]]
    kept = dict.fromkeys(name for row in qwens for name in row["makeup"].split(" + "))
    return {
        "compiled": table(
            ["compiled prompt (C8)", "blocks", "J against C0", "best of the others", "J against it"],
            (
                [
                    f"{TASKS[row['task']]}, {short(row['model'])}",
                    row["makeup"] or "none",
                    figure(row["test_gain"], row["test_gain_low"], row["test_gain_high"]),
                    row["best_other"],
                    figure(row["against_best"], row["against_best_low"], row["against_best_high"]),
                ]
                for row in sorted(rows, key=lambda row: (-MODELS.index(row["model"]), row["task"]))
            ),
        ),
        "kept_words": ", ".join(kept),
        "c8_not_better": sum(float(row["against_best_low"]) <= 0 for row in rows),
        "c8_of": len(rows),
    }


def retried(found: Tables) -> dict[str, Any]:
    """The hard constraint beside validation and retries, on the Qwen models."""
    rows = [row for row in found.rows("constraint_vs_retry") if "qwen" in row["model"] and row["score_delta"]]
    gain = statistics.median(float(row["validity_delta"]) for row in rows)
    return {
        "validity_gain": f"{gain:.2f}",
        "retry_cells": len(rows),
        "retry_up": sum(float(row["score_delta_low"]) > 0 for row in rows),
        "retry_down": sum(float(row["score_delta_high"]) < 0 for row in rows),
    }


def kind(row: dict[str, str]) -> str:
    return "open" if row["outcome"] != "holds" else "up" if float(row["delta"]) > 0 else "down"


def majority(found: Tables, task: str) -> str:
    """What always giving the most frequent label would score; a dash where answers are no labels."""
    share = next((row["share"] for row in found.rows("majority") if row["task"] == task), None)
    return f"{float(share):.2f}" if share else "–"


LEFT_OUT = ("rows", "behind", "tables")
"""Sections of a report that are not published: rows and answers, which quote the items, and tables that are files."""


def publish(source: Path, target: Path) -> None:
    """A copy of a report's page without some sections, and with effects on the score alone."""
    text = source.read_text(encoding="utf-8")
    for name in LEFT_OUT:
        if (start := text.find(f'<section id="{name}">')) >= 0:
            end = text.index("</section>", start) + len("</section>")
            text = text[:start] + text[end:]
            text = re.sub(rf'<a href="#{name}">[^<]*</a>', "", text)
    text = re.sub(
        r'(id="effects-table"[^>]*><script[^>]*>)(.*?)(</script>)',
        lambda match: match[1] + str(json_data(_on_the_score(json.loads(match[2])))) + match[3],
        text,
        flags=re.DOTALL,
    )
    target.write_text(text, encoding="utf-8")


def _on_the_score(table: dict[str, Any]) -> dict[str, Any]:
    """The rows of a table of effects whose metric is the score; a run that has no other is left as it is."""
    metrics = next((entry for entry in table["filters"] if entry[0] == "metric"), None)
    if metrics is None:
        return table
    kept = [index for index, at in enumerate(metrics[3]) if at >= 0 and metrics[2][at] == "score"]
    return {
        **table,
        "rows": [table["rows"][index] for index in kept],
        "filters": [[*entry[:3], [entry[3][index] for index in kept]] for entry in table["filters"]],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--collect", type=Path, metavar="TABLES", help="tables folder of a report to take over first"
    )
    parser.add_argument(
        "--replication",
        type=Path,
        metavar="TABLES",
        help="tables folder of the replication's report, with --collect",
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
        if args.replication is None:
            parser.error("--collect needs --replication")
        collect(args.collect, args.replication, args.cache, FOLDER / "tables")
    if args.report:
        publish(args.report, FOLDER / "report.html")
    text, path = page(FOLDER / "tables"), FOLDER / "README.md"
    if args.check:
        return int(path.read_text(encoding="utf-8") != text)
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
