"""The journal of a search: every candidate with its lineage and score, and every text that was asked for.

It lies beside the log of the candidates' rows, one JSON object a line, append-only. The rows are what a score rests
on; the journal says which candidate was made of which, how, and in what order.
"""

from __future__ import annotations

import json
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pcsuite.config.load import digest
from pcsuite.logging.files import AppendFile, read_lines
from pcsuite.optimization.problem import CandidateScore


class Journal:
    """The journal file of one task and model; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._answers: dict[str, str] = {}
        self._known: set[str] = set()
        self._file = AppendFile(path)
        for line in read_lines(path):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("kind") == "ask":
                self._answers[entry["key"]] = entry["text"]
            elif entry.get("kind") == "candidate":
                self._known.add(entry["key"])

    def close(self) -> None:
        """Bring it to the disk and close it."""
        self._file.sync()
        self._file.close()

    def answer(self, key: str) -> str | None:
        """The text that was given to a question before."""
        return self._answers.get(key)

    def add_answer(self, key: str, text: str, facts: dict[str, Any]) -> None:
        """Keep what a model answered."""
        with self._lock:
            self._answers[key] = text
            self._write({"kind": "ask", "key": key, **facts, "text": text})

    def add_score(self, score: CandidateScore, *, seed: int) -> None:
        """Keep a candidate's score; the same score of the same candidate is kept once."""
        candidate = score.candidate
        entry = {
            "id": candidate.id,
            "method": candidate.method,
            "seed": seed,
            "origin": candidate.origin,
            "parents": list(candidate.parents),
            "prompt": candidate.prompt.as_dict(),
            "J": score.value,
            "parts": score.parts._asdict(),
            "items": len(score.item_parts),
            "complete": score.complete,
            "replicates": score.replicates,
            "crashed": score.crashed,
            "errors": list(score.errors),
        }
        key = digest([entry, list(score.item_parts.items)])
        with self._lock:
            if key not in self._known:
                self._known.add(key)
                self._write({"kind": "candidate", "key": key, **entry})

    def _write(self, entry: dict[str, Any]) -> None:
        stamped = {**entry, "timestamp_utc": datetime.now(timezone.utc).isoformat(timespec="milliseconds")}
        line = json.dumps(stamped, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self._file.write(line + b"\n")
