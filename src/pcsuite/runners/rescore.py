"""Scoring stored answers again after a scorer changed, with no model call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec

from pcsuite import __version__
from pcsuite._util.text import utc_now
from pcsuite._util.workers import MOST_JOBS
from pcsuite.analysis.ambiguous import settle
from pcsuite.config.load import Suite
from pcsuite.data.items import Item, task_items
from pcsuite.errors import LogError, MissingExtraError
from pcsuite.evaluation.answer_probability import LABEL_PROBABILITY, PERPLEXITY
from pcsuite.evaluation.base import Answer, Evaluation, Evaluator
from pcsuite.evaluation.isolation import ScoringAhead, scoring_ahead
from pcsuite.logging.labels import GoldLabel, Labels
from pcsuite.logging.log import RunLog, RunPaths, iter_newest_rows
from pcsuite.logging.manifest import read_manifest, write_manifest
from pcsuite.logging.row import RunRow
from pcsuite.logging.segments import log_exists
from pcsuite.runners.drafts import PROGRAM_METRIC, SCORING, unforeseen
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

_AHEAD = 3 * MOST_JOBS
"""Rows that are handed in ahead of the one that is compared and written."""


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
    labelled: int = 0
    """Rows whose answer can be read in two ways, and whose score is a person's or a judge's label."""


def rescore(suite: Suite, *, dry_run: bool = False) -> Rescored:
    """Evaluate the newest row of every run id again; append those whose parse or metrics changed.

    A row keeps the time of its answer; ``rescored_utc`` says when it was scored anew and ``pcsuite_version`` by which
    version. Rows of tasks or items that the profile no longer has are skipped, and a ``dry_run`` only counts. An answer
    that can be read in two ways gets the score of its label, where a person or a judge gave one
    (:mod:`pcsuite.analysis.ambiguous`), and its row says who. Raises :class:`LogError` where there is no log.
    """
    paths = RunPaths.of(suite.profile.run.output_dir, suite.profile.run.name)
    outcome = Rescored()
    rows = iter_newest_rows(paths.log)
    tasks: dict[str, tuple[Evaluator, dict[str, Item]] | None] = {}
    if dry_run:
        for _ in _rescored_rows(suite, rows, tasks, outcome):
            pass
        return outcome
    if not log_exists(paths.log):
        raise LogError(f"{paths.log}: no such log", hint="pcsuite run --config PROFILE writes it")
    with RunLog.of(suite.profile.run) as log:
        for rescored in _rescored_rows(suite, rows, tasks, outcome):
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


def _rescored_rows(
    suite: Suite,
    rows: Iterator[RunRow],
    tasks: dict[str, tuple[Evaluator, dict[str, Item]] | None],
    outcome: Rescored,
) -> Iterator[RunRow]:
    """The rows whose scores changed, as they are now; a user's own scorer is asked for many at a time."""
    labels = Labels(RunPaths.of(suite.profile.run.output_dir, suite.profile.run.name).log).read()
    with scoring_ahead() as scoring:
        begun = _begun(suite, rows, tasks, outcome, scoring)
        # Some rows ahead: workers score the next ones while these are compared and written.
        upcoming = deque(islice(begun, _AHEAD))
        while upcoming:
            rescored = _rescored(*upcoming.popleft(), outcome, labels)
            upcoming.extend(islice(begun, 1))
            if rescored is not None:
                yield rescored


def _begun(
    suite: Suite,
    rows: Iterator[RunRow],
    tasks: dict[str, tuple[Evaluator, dict[str, Item]] | None],
    outcome: Rescored,
    scoring: ScoringAhead,
) -> Iterator[tuple[RunRow, Item, Callable[[], Evaluation]]]:
    """Rows that can be scored anew, with their items and what returns their evaluations."""
    for row in rows:
        outcome.rows += 1
        item = _item_of(suite, row, tasks)
        task = tasks[row.task.id]
        if row.generation is None or row.kind != "main" or item is None or task is None:
            outcome.skipped += 1
            continue
        if row.generation.finish_reason == "out_of_time":
            continue  # there is no answer, and the score of that is 0 by any scorer
        text, finish = row.generation.text, row.generation.finish_reason
        changed, checks = row.changed or None, row.checks or {}
        answer = Answer(text, finish, retrieved_of(row), row.judge or (), None, changed, checks)
        yield row, item, scoring.begin(task[0], item, answer)


def _item_of(
    suite: Suite, row: RunRow, tasks: dict[str, tuple[Evaluator, dict[str, Item]] | None]
) -> Item | None:
    """The item of a row, ``None`` where the profile has it no longer; tasks are opened as they come."""
    if row.task.id not in tasks:
        tasks[row.task.id] = None
        if row.task.id in suite.tasks:
            folder = Path(suite.profile.run.cache_dir)
            items = task_items(suite.tasks[row.task.id], row.task.split, folder).items
            by_id = {item.item_id: item for item in items}
            tasks[row.task.id] = (task_evaluator(suite, row.task.id), by_id)
    task = tasks[row.task.id]
    return task[1].get(row.task.item_id) if task is not None else None


def _rescored(
    row: RunRow,
    item: Item,
    evaluate: Callable[[], Evaluation],
    outcome: Rescored,
    labels: Mapping[str, GoldLabel],
) -> RunRow | None:
    """A row with its answer's evaluation, ``None`` where nothing has changed or it could not be scored."""
    try:
        evaluation = evaluate()
    # Not a fault of the answer: every other one would fail alike, and the remedy is an install.
    except MissingExtraError:
        raise
    except Exception as error:
        outcome.failed += 1
        outcome.error = outcome.error or f"item '{item.item_id}': {unforeseen(SCORING, error)}"
        return None
    label = None
    if row.generation is not None and not row.judge:
        label = settle(evaluation, row.task.id, item.item_id, row.generation.text, labels)
        outcome.labelled += label is not None
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
        label=label or msgspec.UNSET,
        errors=[error for error in row.errors if not error.startswith(f"{SCORING}: ")],
        rescored_utc=utc_now(),
        pcsuite_version=__version__,
    )
    if _has_equal_scores(rescored, row):
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


def _has_equal_scores(one: RunRow, other: RunRow) -> bool:
    """Whether parse, metrics and named scores of two rows are equal as the log would hold them."""
    first, second = (
        msgspec.json.encode([row.parsed, row.metrics, row.scores or {}, row.errors, row.label or None])
        for row in (one, other)
    )
    # Mostly nothing has changed, and the texts are equal; what is equal may also stand in another order.
    return first == second or bool(msgspec.json.decode(first) == msgspec.json.decode(second))
