"""Scoring stored answers again after a scorer changed, with no model call."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pcsuite import __version__
from pcsuite._util.text import utc_now
from pcsuite.config.load import Suite
from pcsuite.data.items import Item, task_items
from pcsuite.errors import LogError, MissingExtraError
from pcsuite.evaluation.answer_probability import LABEL_PROBABILITY, PERPLEXITY
from pcsuite.evaluation.base import Answer, Evaluator, score_answer
from pcsuite.logging.log import RunLog, RunPaths, iter_newest_rows
from pcsuite.logging.manifest import read_manifest, write_manifest
from pcsuite.logging.row import RunRow
from pcsuite.logging.segments import log_exists
from pcsuite.runners.pipeline import PROGRAM_METRIC, SCORING, unforeseen
from pcsuite.runners.task_plan import task_evaluator

_KEPT_METRICS = (
    "token_cost",
    "cost_usd",
    "constraint_failed",
    "constraint_broken",
    "retrieval",
    "entropy_cat",
    "judge_tokens",
    "judge_cost_usd",
    PERPLEXITY,
    LABEL_PROBABILITY,
)


@dataclass(slots=True)
class Rescored:
    """What a rescoring did."""

    rows: int = 0
    changed: int = 0
    skipped: int = 0
    failed: int = 0
    """Rows whose answer could not be scored; they stay as they were."""
    error: str = ""
    """Why the first of them could not."""


def rescore(suite: Suite, *, dry_run: bool = False) -> Rescored:
    """Evaluate the newest row of every run id again; append those whose parse or metrics changed.

    A row keeps the time of its answer; ``rescored_utc`` says when it was scored anew and ``pcsuite_version`` by which
    version. Rows of tasks or items that the profile no longer has are skipped, and a ``dry_run`` only counts. Raises
    :class:`LogError` where there is no log.
    """
    paths = RunPaths.of(suite.profile.run.output_dir, suite.profile.run.name)
    outcome = Rescored()
    rows = iter_newest_rows(paths.log)
    tasks: dict[str, tuple[Evaluator, dict[str, Item]] | None] = {}
    if dry_run:
        for row in rows:
            _rescored(suite, row, tasks, outcome)
        return outcome
    if not log_exists(paths.log):
        raise LogError(f"{paths.log}: no such log", hint="pcsuite run --config PROFILE writes it")
    with RunLog.of(suite.profile.run) as log:
        for row in rows:
            rescored = _rescored(suite, row, tasks, outcome)
            if rescored is not None:
                log.append(rescored)
    manifest = None if outcome.failed else read_manifest(paths.log)
    if manifest is not None:
        # The manifest says which text of a scorer of the user's own the rows are scored with now.
        for task_id, note in manifest.tasks.items():
            scorer = suite.scorer(task_id) if task_id in suite.tasks else None
            if scorer is not None and scorer.stamp != note.scorer:
                note.scorer, manifest.config_hash = scorer.stamp, suite.config_hash
        write_manifest(paths.log, manifest)
    return outcome


def _rescored(
    suite: Suite, row: RunRow, tasks: dict[str, tuple[Evaluator, dict[str, Item]] | None], outcome: Rescored
) -> RunRow | None:
    outcome.rows += 1
    if row.task.id not in tasks:
        tasks[row.task.id] = None
        if row.task.id in suite.tasks:
            folder = Path(suite.profile.run.cache_dir)
            items = task_items(suite.tasks[row.task.id], row.task.split, folder).items
            by_id = {item.item_id: item for item in items}
            tasks[row.task.id] = (task_evaluator(suite, row.task.id), by_id)
    task = tasks[row.task.id]
    item = task[1].get(row.task.item_id) if task is not None else None
    if row.generation is None or row.kind != "main" or task is None or item is None:
        outcome.skipped += 1
        return None
    try:
        verdicts = row.judge or ()
        answer = Answer(row.generation.text, row.generation.finish_reason, retrieved_of(row), verdicts)
        evaluation = score_answer(task[0], item, answer)
    # Not a fault of the answer: every other one would fail alike, and the remedy is an install.
    except MissingExtraError:
        raise
    except Exception as error:
        outcome.failed += 1
        outcome.error = outcome.error or f"item '{item.item_id}': {unforeseen(SCORING, error)}"
        return None
    other_metrics = {
        name: value
        for name, value in row.metrics.items()
        if name in _KEPT_METRICS or name.startswith(PROGRAM_METRIC)
    }
    rescored = msgspec.structs.replace(
        row,
        parsed=evaluation.parsed,
        metrics=evaluation.metrics | other_metrics,
        scores=evaluation.scores or msgspec.UNSET,
        errors=[error for error in row.errors if not error.startswith(f"{SCORING}: ")],
        rescored_utc=utc_now(),
        pcsuite_version=__version__,
    )
    if _scores(rescored) == _scores(row):
        return None
    outcome.changed += 1
    return rescored


def retrieved_of(row: RunRow) -> list[tuple[str, int, str]] | None:
    """The passages a loop was shown, from the transcript; ``None`` for a row that is not of such a loop.

    Triples of page, sentence number and text, in the order shown.
    """
    if row.generation is None or row.generation.react_steps == 0:
        return None
    passages: list[tuple[str, int, str]] = []
    for step in row.generation.transcript or ():
        for page, sentence, text in step.get("passages", ()):
            passages.append((str(page), int(sentence), str(text)))
    return passages


def _scores(row: RunRow) -> Any:
    """Parse, metrics and named scores as the log would hold them, for comparison."""
    return msgspec.json.decode(msgspec.json.encode([row.parsed, row.metrics, row.scores or {}, row.errors]))
