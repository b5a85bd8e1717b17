"""The log of candidates' rows: an ordinary run log that also keeps in memory what the objective reads."""

from __future__ import annotations

import threading
from pathlib import Path

from pcsuite.analysis.objective import Replicate
from pcsuite.logging.reader import iter_rows
from pcsuite.logging.row import RunRow, decode_row
from pcsuite.logging.writer import RunLog, RunPaths
from pcsuite.prompts.compiled import compiled_path

FOLDER = "optimization"


def candidate_paths(output_dir: str | Path, task_id: str, model_id: str) -> RunPaths:
    """Files of the search for a task and a model, under ``<output_dir>/optimization``."""
    stem = compiled_path(output_dir, task_id, model_id).stem
    folder = Path(output_dir) / FOLDER
    return RunPaths(folder / f"{stem}.jsonl", folder / f"{stem}.prompts.z", folder / f"{stem}.jsonl.lock")


def replicate_of(row: RunRow) -> Replicate | None:
    """What the objective reads of a row; ``None`` for a row that failed."""
    if row.errors or row.generation is None or row.generation.usage is None:
        return None
    metrics = row.metrics
    rate = metrics.get("unsupported_rate")
    counts = tuple(metrics.get(name) for name in ("tp", "fp", "fn"))
    return Replicate(
        task_score=float(metrics.get("task_score") or 0.0),
        unsupported=None if rate is None else float(rate),
        answer=row.parsed.answer if row.parsed is not None else None,
        tokens=float(row.generation.usage.total_tokens),
        counts=None if None in counts else (float(counts[0]), float(counts[1]), float(counts[2])),  # type: ignore[arg-type]
    )


class CandidateLog(RunLog):
    """A run log whose finished rows are at hand by run id."""

    def __init__(self, paths: RunPaths) -> None:
        super().__init__(paths)
        self._records: dict[str, Replicate] = {}
        self._errors: dict[str, str] = {}
        self._guard = threading.Lock()

    def __enter__(self) -> CandidateLog:
        super().__enter__()
        if self.paths.log.exists():
            for row in iter_rows(self.paths.log):
                self._note(row)
        return self

    def append_line(
        self, run_id: str, line: bytes, *, done: bool, prompt: tuple[str, str] | None = None
    ) -> None:
        """Write one row, and keep what the objective reads."""
        super().append_line(run_id, line, done=done, prompt=prompt)
        self._note(decode_row(line))

    def replicate(self, run_id: str) -> Replicate | None:
        """A finished row, ``None`` where it failed or was not run."""
        with self._guard:
            return self._records.get(run_id)

    def error(self, run_id: str) -> str | None:
        """The error of a row that failed."""
        with self._guard:
            return self._errors.get(run_id)

    def _note(self, row: RunRow) -> None:
        found = replicate_of(row)
        with self._guard:
            if found is None:
                self._errors[row.run_id] = row.errors[0] if row.errors else "no answer"
            else:
                self._records[row.run_id] = found
                self._errors.pop(row.run_id, None)
