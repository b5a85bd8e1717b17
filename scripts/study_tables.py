"""The published tables of a study from the reports of its runs; what quotes items is left out.

    python scripts/study_tables.py --collect TABLES --replication TABLES --cache .cache --report index.html
                                                       # from the reports of the study and of its replication
    python scripts/study_tables.py --second-look outputs/runs/second_look.jsonl     # from the rows asked again
    python scripts/study_tables.py --rows outputs/runs/rows.jsonl                   # rows about items of our own
    python scripts/study_tables.py --sample                                         # some of those, to look at

`tables/` gets what the reports wrote, less what the page does not need, and `item_scores.csv.gz`: the mean score of
each item in each cell, from which effects can be computed again. What was asked again on other items is in
`replication_*`. `scripts/study_page.py` makes the page of them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from study_page import FOLDER, TASKS

from pcsuite.pages.words import json_data

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
    for source, name in ((report, "item_scores"), (again, "replication_scores")):
        found = duckdb.sql(
            f"""select task_id as task, model_id as model, decoding_id as decoding, condition_id as condition,
                    sha256(item_id)[:12] as item, count(*)::integer as replicates, avg(metric_task_score) as score,
                    avg(coalesce(json_valid, answer is not null)::integer) as readable,
                    avg((finish_reason = 'length')::integer) as truncated,
                    sum(metric_tp)::integer as tp, sum(metric_fp)::integer as fp, sum(metric_fn)::integer as fn
                from '{source / "runs.parquet"}' where perturbation_type is null group by all order by all"""
        )
        write_scores(folder / f"{name}.csv.gz", found.columns, found.fetchall())


def write_scores(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Item scores as compressed CSV, the same bytes for the same scores."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(f"{value:.10g}" if isinstance(value, float) else value for value in row)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def second_look(logs: Sequence[Path], folder: Path) -> None:
    """Scores and readings of the cells asked again, an item a row; of published items no text.

    The newest row of an item counts. ``answer`` is the label that was read.
    """
    rows: dict[tuple[str, ...], list[str]] = {}
    for log in logs:
        for line in log.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            item = hashlib.sha256(row["task"]["item_id"].encode()).hexdigest()[:12]
            key = (row["task"]["id"], row["model"]["id"], row["decoding"]["id"], row["condition"]["id"], item)
            metrics, parsed = row["metrics"], row["parsed"]
            rows[key] = [
                f"{metrics['task_score']:g}",
                f"{metrics['lenient_score']:g}",
                str(int(parsed["answer"] is not None)),
                str(int(metrics["abstained"])),
                str(parsed["answer"] or ""),
                row["prompt"]["prompt_hash"][:12],
            ]
    with (folder / "item_scores.csv").open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        names = (
            "task",
            "model",
            "decoding",
            "condition",
            "item",
            "score",
            "lenient",
            "readable",
            "abstained",
        )
        writer.writerow([*names, "answer", "prompt"])
        writer.writerows([*key, *values] for key, values in sorted(rows.items()))


def copy_rows(source: Path, target: Path, kept: Callable[[dict[str, str]], bool]) -> None:
    """The rows of a table that are kept, with its header."""
    with source.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        rows = [row for row in reader if kept(row)]
    with target.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, reader.fieldnames or (), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def publish_rows(log: Path, folder: Path) -> None:
    """Whole rows, with their manifest and prompts, of a run on items that may be published."""
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    manifest = json.loads(log.with_suffix(".manifest.json").read_text(encoding="utf-8"))
    foreign = {name for name, task in manifest["tasks"].items() if task["source"] != "bundled sample"}
    if foreign:
        raise SystemExit(
            f"{log}: items of {', '.join(sorted(foreign))} are not the bundled ones; their texts stay here"
        )
    newest = {row["run_id"]: row for row in rows}
    kept = [
        line
        for line, row in zip(log.read_bytes().splitlines(), rows, strict=True)
        if row is newest[row["run_id"]]
    ]
    for name, data in (
        ("rows.jsonl.gz", b"\n".join(kept) + b"\n"),
        ("rows.manifest.json.gz", log.with_suffix(".manifest.json").read_bytes()),
    ):
        with (folder / name).open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            packed.write(data)
    shutil.copyfile(log.with_suffix(".prompts.z"), folder / "rows.prompts.z")


SAMPLED = (6, "boolq", ("C0", "C2", "C5", "C6"))
"""The first items of a task under some conditions: what can be looked at in one small file."""


def publish_sample(folder: Path) -> None:
    """A page of some of the published rows, with the inputs and truths of their items."""
    from pcsuite.config.load import load_suite
    from pcsuite.view.bundle import write_bundle_file
    from pcsuite.view.viewer import Viewer

    count, task, conditions = SAMPLED
    lines = gzip.decompress((folder / "rows.jsonl.gz").read_bytes()).splitlines()
    rows = [(json.loads(line), line) for line in lines]
    items = sorted({row["task"]["item_id"] for row, _ in rows if row["task"]["id"] == task})[:count]
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name) / "runs"
        runs.mkdir()
        (runs / "rows.jsonl").write_bytes(
            b"".join(
                line + b"\n"
                for row, line in rows
                if row["task"]["item_id"] in items and row["condition"]["id"] in conditions
            )
        )
        manifest = gzip.decompress((folder / "rows.manifest.json.gz").read_bytes())
        (runs / "rows.manifest.json").write_bytes(manifest)
        shutil.copyfile(folder / "rows.prompts.z", runs / "rows.prompts.z")
        viewer = Viewer(Path(name), load_suite(str(folder / "rows.yaml")))
        try:
            write_bundle_file(viewer, "rows", folder / "rows.html")
        finally:
            viewer.close()


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
    parser.add_argument("--collect", type=Path, metavar="TABLES", help="tables folder of the study's report")
    parser.add_argument(
        "--replication", type=Path, metavar="TABLES", help="that of the replication's report, with --collect"
    )
    parser.add_argument(
        "--cache", type=Path, default=Path(".cache"), help="where the items are, with --collect"
    )
    parser.add_argument(
        "--report", type=Path, metavar="HTML", help="page of a report to publish without its rows"
    )
    parser.add_argument(
        "--second-look", type=Path, nargs="+", metavar="LOG", help="logs of cells asked again"
    )
    parser.add_argument("--rows", type=Path, metavar="LOG", help="log on bundled items, to publish whole")
    parser.add_argument("--sample", action="store_true", help="the page of some of the published rows")
    args = parser.parse_args()
    if args.collect:
        if args.replication is None:
            parser.error("--collect needs --replication")
        collect(args.collect, args.replication, args.cache, FOLDER / "tables")
    if args.report:
        publish(args.report, FOLDER / "report.html")
    if args.second_look:
        second_look(args.second_look, FOLDER / "second_look")
    if args.rows:
        publish_rows(args.rows, FOLDER / "second_look")
    if args.sample:
        publish_sample(FOLDER / "second_look")
    return 0


if __name__ == "__main__":
    sys.exit(main())
