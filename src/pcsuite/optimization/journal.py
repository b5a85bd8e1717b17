"""Files of a search, from which a killed one resumes.

``<task>__<model>.jsonl`` is an ordinary run log with the rows of every candidate, which is what scores rest on. Beside
it ``….candidates.jsonl`` (one JSON object a line, append-only) has every candidate with its parents and score, in the
order they were measured, and every text that a model was asked for besides.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from pcsuite._util.append import AppendFile, read_lines
from pcsuite._util.hashing import digest
from pcsuite._util.text import utc_now
from pcsuite.logging.log import RunPaths
from pcsuite.logging.scored_rows import LoggedScores, ScoredRow
from pcsuite.optimization.problem import CandidateScore
from pcsuite.prompts.compiled import compiled_path
from pcsuite.stats.objective import Replicate

FOLDER = "optimization"


def candidate_paths(output_dir: str | Path, task_id: str, model_id: str) -> RunPaths:
    """Files of the log of candidates for a task and a model, under ``<output_dir>/optimization``.

    The names are those of the compiled prompt's file, so ids with slashes are no folders.
    """
    stem = compiled_path(output_dir, task_id, model_id).stem
    return RunPaths.beside(Path(output_dir) / FOLDER / f"{stem}.jsonl")


def replicate_of(row: ScoredRow) -> Replicate | None:
    """What the objective reads of a row; ``None`` for a row that failed.

    An answer without a score counts 0; what a task has no measure of (unsupported claims, counts) is ``None``. A server
    that does not say what calls take says it of no candidate: then none of them costs any tokens.
    """
    if row.errors or row.generation is None:
        return None
    usage = row.generation.usage
    metrics = row.metrics
    rate = metrics.get("unsupported_rate")
    counts = tuple(metrics.get(name) for name in ("tp", "fp", "fn"))
    return Replicate(
        task_score=float(metrics.get("task_score") or 0.0),
        unsupported=None if rate is None else float(rate),
        answer=row.parsed.answer if row.parsed is not None else None,
        tokens=float(usage.total_tokens) if usage is not None else 0.0,
        counts=None if None in counts else (float(counts[0]), float(counts[1]), float(counts[2])),  # type: ignore[arg-type]
    )


class CandidateRows(LoggedScores):
    """As much of a log's rows as the objective reads, by run id; rows of earlier searches count as well."""

    def __init__(self) -> None:
        super().__init__()
        self.replicates: dict[str, Replicate] = {}
        """Rows that are finished."""
        self.errors: dict[str, str] = {}
        """The first error of each row that failed and was not finished since."""

    def keep(self, row: ScoredRow) -> None:
        """Keep what the objective reads of a row, or why it failed."""
        replicate = replicate_of(row)
        if replicate is None:
            self.errors[row.run_id] = row.errors[0] if row.errors else "no answer"
        else:
            self.replicates[row.run_id] = replicate
            self.errors.pop(row.run_id, None)


class Journal:
    """The candidates file of one task and model; safe to use from several threads.

    Opening it reads what earlier searches left: their texts are not asked for again, their scores not kept twice.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, str] = {}
        self._score_keys: set[str] = set()
        self._file = AppendFile(path)
        for line in read_lines(path):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
                continue
            if entry.get("kind") == "ask" and isinstance(entry.get("text"), str):
                self._answers[entry["key"]] = entry["text"]
            elif entry.get("kind") == "candidate":
                self._score_keys.add(entry["key"])

    def close(self) -> None:
        """Bring it to the disk and close it."""
        self._file.sync()
        self._file.close()

    def answer(self, key: str) -> str | None:
        """The text that was given to a question before, ``None`` where it was never asked.

        ``key`` is a hash of all that determines the answer: model, prompt, seed and decoding.
        """
        return self._answers.get(key)

    def add_answer(self, key: str, text: str, facts: dict[str, Any]) -> None:
        """Keep what a model answered; ``facts`` (role, model, seed, …) are written for people to read.

        It is on its way to the disk when this returns, and found by :meth:`answer` at once.
        """
        with self._lock:
            self._answers[key] = text
            self._write({"kind": "ask", "key": key, **facts, "text": text})

    def add_score(self, score: CandidateScore, *, seed: int) -> None:
        """Keep a candidate's score under a search of this seed.

        The same score of the same candidate on the same items is kept once.
        """
        entry = {
            **score.facts(),
            "seed": seed,
            "prompt": score.candidate.prompt.as_dict(),
            "parts": score.parts._asdict(),
            "complete": score.complete,
            "replicates": score.replicates,
            "crashed": score.crashed,
            "errors": list(score.errors),
        }
        key = digest([entry, list(score.item_parts.items)])
        with self._lock:
            if key not in self._score_keys:
                self._score_keys.add(key)
                self._write({"kind": "candidate", "key": key, **entry})

    def _write(self, entry: dict[str, Any]) -> None:
        stamped = {**entry, "timestamp_utc": utc_now()}
        line = json.dumps(stamped, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self._file.write(line + b"\n")
