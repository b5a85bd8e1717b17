"""A run's answer for a terminal and for programs: the result table, its alarms, and one sentence.

``run`` and ``report`` end with it, ``result.json`` and ``--json`` hold it (``docs/reference/json.md``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pcsuite import __version__
from pcsuite._util.text import counted, figure_text, signed
from pcsuite.analysis.alarms import Alarm
from pcsuite.analysis.analyse import Analysis, analyse_scores
from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.table import number
from pcsuite.contrasts import CLAUSE, verdict_of_change
from pcsuite.logging.segments import log_segments
from pcsuite.reporting.folders import record_owner, report_folders
from pcsuite.reporting.verdicts import TOKENS, headline
from pcsuite.reporting.wording import MOST_ALARMS, planned_lines

if TYPE_CHECKING:
    from rich.console import Console

FORMAT = 1
MOST_GROUPS = 8
"""Groups of task, model and regime whose tables are printed; the files have all of them."""
LARGEST_LOG = 1_000_000_000
"""Bytes of log up to which a run computes its results at its end; reading more takes minutes."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run says."""

    run: str
    logs: list[str]
    sentence: str
    alarms: list[Alarm]
    rows: list[dict[str, Any]]
    """One for each cell of clean prompts: its level, its effect against the control, the verdict, its tokens."""
    facts: dict[str, Any]
    """Answers, items, tasks, models, conditions, tokens, failed calls and the time of the last row."""
    planned: list[dict[str, Any]] = field(default_factory=list)
    """The rows of ``registration.csv``: what came of each contrast that was registered."""

    @classmethod
    def read(cls, path: Path) -> Result:
        """The result that a report wrote to its ``result.json``."""
        document = json.loads(path.read_text(encoding="utf-8"))
        alarms = [Alarm(**alarm) for alarm in document.pop("alarms")]
        run, logs, sentence, rows = (document.pop(name) for name in ("run", "logs", "sentence", "results"))
        planned = document.pop("planned", [])  # not there in what was written before it was
        facts = {name: value for name, value in document.items() if name not in ("format", "pcsuite_version")}
        return cls(run, logs, sentence, alarms, rows, facts, planned)

    def document(self, **more: Any) -> dict[str, Any]:
        """The result as JSON values; ``more`` are further keys."""
        return {
            "format": FORMAT,
            "pcsuite_version": __version__,
            "run": self.run,
            "logs": self.logs,
            **self.facts,
            "sentence": self.sentence,
            "alarms": [alarm._asdict() for alarm in self.alarms],
            "results": self.rows,
            "planned": self.planned,
            **more,
        }


def result_of(analysis: Analysis, logs: Sequence[Path]) -> Result:
    """The answer of an analysis that has the tables ``summary_by_condition``, ``effects`` and ``registration``."""
    effects = analysis.effects
    by_cell: dict[tuple[str, ...], dict[str, Row]] = {}
    for record in effects:
        by_cell.setdefault(_cell(record), {})[record["metric"]] = record
    baselines = {(*_cell(record)[:3], record["baseline"]) for record in effects}
    health = analysis.health
    planned = [dict(record) for record in analysis.tables["registration"].records()]
    return Result(
        run="+".join(log.stem for log in logs),
        logs=[str(log) for log in logs],
        sentence=headline(effects, analysis.scores.temperature, analysis.metrics, planned),
        alarms=analysis.alarms,
        rows=[
            _row(record, by_cell.get(_cell(record), {}), _cell(record) in baselines, analysis)
            for record in analysis.levels
        ],
        facts={
            "answers": health.rows,
            "items": sum(len(names) for names in analysis.scores.item_names.values()),
            "tasks": analysis.scores.tasks,
            "models": sorted(analysis.scores.models),
            "conditions": list(dict.fromkeys(key.condition for key in analysis.scores.cell_keys())),
            "tokens": analysis.total_tokens,
            "failed_calls": health.error_rows,
            "last_row": health.last,
            "simulated": bool(health.simulated_models),
        },
        planned=planned,
    )


def _cell(record: Row) -> tuple[str, ...]:
    return tuple(record[name] for name in ("task", "model", "decoding", "condition"))


def _row(level: Row, effects: Mapping[str, Row], is_control: bool, analysis: Analysis) -> dict[str, Any]:
    effect = effects.get(SCORE)
    verdict = "control" if is_control else "not compared"
    if effect is not None:
        judged = verdict_of_change(effect["delta"], effect["p_bh"], better=analysis.metrics.better(SCORE))
        verdict = "no reliable change" if judged == "undecided" else judged
    change = effect or {}
    tentative = None
    if effect is not None and effect["clause"]:
        tentative = verdict_of_change(
            effect["delta"], effect["p_symmetric_bh"], better=analysis.metrics.better(SCORE)
        )
    return {
        **{name: level[name] for name in ("task", "model", "decoding", "condition")},
        "baseline": change.get("baseline"),
        "n_items": level["n_items"],
        "n_clusters": level["n_clusters"],
        **{name: level[name] for name in ("score", "score_low", "score_high")},
        "effect": change.get("delta"),
        "effect_low": change.get("delta_low"),
        "effect_high": change.get("delta_high"),
        "p_adjusted": change.get("p_bh"),
        "labelled_items": change.get("labelled_items"),
        "verdict": verdict,
        "tentative": tentative,
        "lenient_effect": change.get("lenient_delta"),
        "form": change.get("form"),
        "reason": change.get("caution") if verdict == "not tested" else None,
        "joint_low": change.get("joint_low"),
        "joint_high": change.get("joint_high"),
        "tokens": number(level[TOKENS]),
        "majority_class": level["majority_class"],
    }


def _verdict_words(row: Row) -> str:
    """A verdict with what it cannot be taken without."""
    words = str(row["verdict"])
    if row.get("tentative"):
        words += f" ({row['tentative']} {CLAUSE})"
    if row.get("form"):
        words += f": {row['form']} ({signed(row['lenient_effect'])} leniently read)"
    return words


def results_at_end(log: Path, output_dir: Path) -> Result | None:
    """The result of a log that a run has just written; ``None`` for one of more than :data:`LARGEST_LOG` bytes.

    What is read is kept in the run's tables folder, where ``report`` finds it. Raises ``AnalysisError`` for a log
    without a readable row, and ``DependencyError`` where the extra ``stats`` is not installed.
    """
    if sum(segment.path.stat().st_size for segment in log_segments(log)) > LARGEST_LOG:
        return None
    folders = report_folders([log], output_dir)
    with RunTables([log], folders.tables) as tables:
        record_owner(folders, [log])
        return result_of(analyse_scores(tables), [log])


def print_result(result: Result, console: Console) -> None:
    """Print alarms, the table of each group, what came of planned contrasts, and the sentence."""
    from rich.table import Table

    for alarm in result.alarms[:MOST_ALARMS]:
        console.print(f"! {alarm.text}", style="bold yellow", soft_wrap=True)
    if (more := len(result.alarms) - MOST_ALARMS) > 0:
        console.print(f"! and {counted(more, 'more alarm')}: the report has them all", style="bold yellow")
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in result.rows:
        groups.setdefault(_cell(row)[:3], []).append(row)
    for names, rows in list(groups.items())[:MOST_GROUPS]:
        against = next((row["baseline"] for row in rows if row["baseline"]), None)
        largest = max(rows, key=lambda row: row["n_items"])
        items = counted(largest["n_items"], "item")
        if largest.get("n_clusters"):
            items += f" in {counted(largest['n_clusters'], 'cluster')}"
        console.print(f"\n{' × '.join(names)} ({items})", style="bold")
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("condition", "score", f"against {against}" if against else "effect", "95 % interval"):
            table.add_column(heading, justify="left" if heading == "condition" else "right", overflow="fold")
        table.add_column("verdict")
        table.add_column("tokens", justify="right")
        uneven = len({row["n_items"] for row in rows}) > 1
        if uneven:
            table.add_column("items", justify="right")
        # The control first: all other lines are read against it.
        for row in sorted(rows, key=lambda row: row["verdict"] != "control"):
            interval = f"{signed(row['effect_low'])} to {signed(row['effect_high'])}"
            table.add_row(
                row["condition"],
                figure_text(row["score"]),
                "" if row["effect"] is None else signed(row["effect"]),
                "" if row["effect_low"] is None else interval,
                _verdict_words(row),
                figure_text(row["tokens"], 0),
                *([f"{row['n_items']:,}"] if uneven else []),
                style="" if row.get("form") else {"better": "green", "worse": "red"}.get(row["verdict"], ""),
            )
        if rows[0]["majority_class"] is not None:
            table.add_row("(majority class)", figure_text(rows[0]["majority_class"]), style="dim")
        console.print(table)
        for reason in dict.fromkeys(row["reason"] for row in rows if row.get("reason")):
            console.print(reason, soft_wrap=True, highlight=False)
        if uneven and against:
            console.print(
                "Not every condition has all items: an effect is that on the items both sides have, and need not be the"
                " difference of the two scores.",
                soft_wrap=True,
            )
        if labelled := max((row.get("labelled_items") or 0 for row in rows), default=0):
            console.print(
                f"A judge's scores and effects, corrected by labels of {counted(labelled, 'item')}, each by itself:"
                " an effect need not be the difference of two scores.",
                soft_wrap=True,
            )
    if len(groups) > MOST_GROUPS:
        console.print(f"… and {len(groups) - MOST_GROUPS} more groups of task, model and regime")
    if planned := planned_lines(result.planned):
        console.print("\nplanned (registration.csv)", style="bold")
        for line in planned:
            console.print(f"  {line}", soft_wrap=True, highlight=False)
    console.print(f"\n{result.sentence}", style="bold", soft_wrap=True)
