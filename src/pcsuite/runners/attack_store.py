"""Attacked prompts that were found, kept beside the log: a search is done once and goes on after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pcsuite.errors import LogError
from pcsuite.logging.row import PerturbationRef
from pcsuite.logging.writer import RunPaths


class AttackRecord(msgspec.Struct, frozen=True):
    """One attacked prompt and how it was found."""

    attack: str
    task: str
    model: str
    condition: str
    parts: list[str]
    """The attacked parts of the prompt."""
    original: list[str]
    """The same parts before."""
    original_score: float | None
    attacked_score: float | None
    """Scores on the items of the search (never the scored ones); ``None`` where nothing was searched."""
    queries: int
    budget: int
    seed: int
    ranking: str
    """How deepwordbug ranked the words: ``unk`` by asking, ``random`` where the budget was too small."""
    search_items: list[str]
    version: str
    """Of PromptBench, or the model that wrote a paraphrase."""
    perturbation: PerturbationRef


class AttackStore:
    """The file of attacked prompts of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, AttackRecord] = {}
        if path.exists():
            try:
                self.records = msgspec.json.decode(path.read_bytes(), type=dict[str, AttackRecord])
            except (OSError, msgspec.MsgspecError) as error:
                raise LogError(
                    f"{path}: attacked prompts cannot be read ({error})",
                    hint="move the file away to search anew",
                ) from error

    @classmethod
    def of(cls, paths: RunPaths) -> AttackStore:
        """``<run>.attacks.json`` beside the log."""
        return cls(paths.log.with_suffix(".attacks.json"))

    def put(self, key: str, record: AttackRecord) -> None:
        """Add a record; the file is replaced whole."""
        self.records[key] = record
        content: Any = msgspec.json.format(msgspec.json.encode(self.records), indent=1)
        temporary = self.path.with_suffix(".tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content + b"\n")
            temporary.replace(self.path)
        except OSError as error:
            raise LogError(f"{self.path}: cannot be written ({error.strerror})") from error
