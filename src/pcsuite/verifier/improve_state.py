"""The state of an improvement loop on disk.

``state.json`` lists the finished steps; ``prompts/v000.txt`` … the prompts; ``failures/`` what a prompt was drafted
from; ``extractions/<prompt hash>/<eval>.json`` the answers. Each file is whole or absent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pcsuite.errors import DataError
from pcsuite.verifier.locking import replace_atomically
from pcsuite.verifier.store import to_json

STATE = "state.json"


@dataclass(frozen=True, slots=True)
class PromptVersion:
    """A prompt, its number and the hash of its text."""

    version: int
    text: str

    @property
    def text_hash(self) -> str:
        """What answers to this prompt are filed under."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One finished step: a prompt, the scores under it, and what was decided."""

    iteration: int
    timestamp: str
    prompt_version: int
    prompt_hash: str
    rules_hash: str
    config_hash: str
    scores: dict[str, float]
    train_f1: float
    held_out_f1: float
    held_out_change: float
    held_out_low: float | None
    held_out_high: float | None
    decision: str
    reason: str


def stored_prompts(folder: Path) -> list[str]:
    """Texts of all prompts of a loop, tried or drafted, oldest first."""
    return [path.read_bytes().decode("utf-8") for path in sorted((folder / "prompts").glob("v*.txt"))]


class ImproveState:
    """Reads and writes the files of one loop; refuses a state made under other rules or other evals."""

    def __init__(self, folder: Path, rules_hash: str, config_hash: str, evals_hash: str) -> None:
        self._folder = folder
        self.rules_hash = rules_hash
        self.config_hash = config_hash
        self._made_under = {"rules_hash": rules_hash, "config_hash": config_hash, "evals_hash": evals_hash}
        self._steps: list[StepRecord] = []

    def load(self) -> list[StepRecord]:
        """Finished steps, oldest first; none where the loop is new."""
        path = self._folder / STATE
        if not path.exists():
            return []
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            names = {field.name for field in fields(StepRecord)}
            steps = [
                StepRecord(**{k: v for k, v in step.items() if k in names}) for step in document["steps"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not the state of an improvement loop ({error})") from None
        for key, value in self._made_under.items():
            if document.get(key) != value:
                what = {"rules_hash": "another mapping", "config_hash": "another configuration"}.get(
                    key, "other evals"
                )
                raise DataError(f"{path}: this loop was run under {what}", hint="choose another folder")
        self._steps = steps
        return list(steps)

    def append(self, step: StepRecord) -> None:
        """Add a finished step."""
        self._steps = [*self._steps, step]
        document = {**self._made_under, "steps": [asdict(one) for one in self._steps]}
        replace_atomically(self._folder / STATE, to_json(document))

    def save_prompt(self, version: int, text: str) -> PromptVersion:
        """Store a prompt; it counts from now on, whatever happens."""
        path = self._prompt_path(version)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, text.encode("utf-8", "backslashreplace"))
        return self.prompt(version)

    def prompt(self, version: int) -> PromptVersion:
        """A stored prompt."""
        return PromptVersion(version, self._prompt_path(version).read_bytes().decode("utf-8"))

    def pending(self, version: int) -> PromptVersion | None:
        """A prompt that was drafted but not tried to the end."""
        return self.prompt(version) if self._prompt_path(version).exists() else None

    def _prompt_path(self, version: int) -> Path:
        return self._folder / "prompts" / f"v{version:03d}.txt"

    def save_failures(self, version: int, failures: list[dict[str, Any]]) -> None:
        """Store what a prompt was drafted from."""
        path = self._folder / "failures" / f"v{version:03d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, to_json({"failures": failures}))

    def extraction(self, prompt: PromptVersion, eval_id: str) -> bytes | None:
        """A stored answer."""
        path = self._extraction_path(prompt, eval_id)
        return path.read_bytes() if path.exists() else None

    def save_extraction(self, prompt: PromptVersion, eval_id: str, answer: Mapping[str, Any] | str) -> bytes:
        """Store an answer and return its bytes."""
        data = (
            answer.encode("utf-8", "backslashreplace") if isinstance(answer, str) else to_json(dict(answer))
        )
        path = self._extraction_path(prompt, eval_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, data)
        return data

    def _extraction_path(self, prompt: PromptVersion, eval_id: str) -> Path:
        return self._folder / "extractions" / prompt.text_hash[:16] / f"{eval_id}.json"
