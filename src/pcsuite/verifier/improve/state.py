"""What an improvement loop remembers and learns from: failures, hand-written rules, and the state on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import sha256_hex
from pcsuite.config.definitions import Definition
from pcsuite.config.load import bundled_configs
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import DataError, did_you_mean
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.paths import parse_path, pattern_of
from pcsuite.verifier.results import Scored
from pcsuite.verifier.store import to_json

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """One kind of error on one field, how often it occurred, and a few examples."""

    field: str
    error_type: str
    count: int
    examples: tuple[dict[str, Any], ...]


def summarise_failures(scored: Iterable[tuple[str, Scored]]) -> list[Failure]:
    """Errors of several evals, given by eval id, by field and type: the raw material of a better prompt.

    Most frequent first, each with a few examples.
    """
    entries_by_kind: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for eval_id, one in scored:
        for entry in one.comparison.discrepancies:
            try:
                pattern = pattern_of(parse_path(entry.field_path))
            except ValueError:  # a key the model made up can hold any character
                pattern = entry.field_path
            entries_by_kind.setdefault((pattern, entry.error_type), []).append(
                {"eval_id": eval_id, **entry._asdict()}
            )
    failures = [
        Failure(*key, len(entries), tuple(entries[:_EXAMPLES])) for key, entries in entries_by_kind.items()
    ]
    return sorted(failures, key=lambda failure: (-failure.count, failure.field, failure.error_type))


STATE = "state.json"


class PromptVersion(NamedTuple):
    """A prompt, its number and the hash of its text."""

    version: int
    text: str

    @property
    def text_hash(self) -> str:
        """What answers to this prompt are filed under.

        Two versions of the same text share their answers, so nothing is asked twice.
        """
        return sha256_hex(self.text)


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
    """Texts of all prompts of the loop in ``folder``, tried or drafted, oldest first; the index is the version.

    An edit by hand counts: the files are read each time.
    """
    return [path.read_bytes().decode("utf-8") for path in sorted((folder / "prompts").glob("v*.txt"))]


class ImproveState:
    """The files of one loop, each whole or absent; a state made under other rules or other evals is refused.

    ``state.json`` lists the finished steps; ``prompts/v000.txt`` … the prompts; ``failures/`` what a prompt was drafted
    from; ``extractions/<prompt hash>/<eval>.json`` the answers.
    """

    def __init__(self, folder: Path, rules_hash: str, config_hash: str, evals_hash: str) -> None:
        self._folder = folder
        self.rules_hash = rules_hash
        self.config_hash = config_hash
        self._made_under = {"rules_hash": rules_hash, "config_hash": config_hash, "evals_hash": evals_hash}
        self._steps: list[StepRecord] = []

    def load(self) -> list[StepRecord]:
        """Finished steps, oldest first; none where the loop is new.

        Raises ``DataError`` for a damaged state and for one made under another mapping, configuration or evals.
        """
        path = self._folder / STATE
        if not path.exists():
            return []
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            # Keys that a later version wrote are passed over.
            names = {field.name for field in fields(StepRecord)}
            readable = [{key: step[key] for key in step if key in names} for step in document["steps"]]
            self._steps = [StepRecord(**step) for step in readable]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not the state of an improvement loop ({error})") from None
        for key, value in self._made_under.items():
            if document.get(key) != value:
                what = {"rules_hash": "another mapping", "config_hash": "another configuration"}
                under = what.get(key, "other evals")
                raise DataError(f"{path}: this loop was run under {under}", hint="choose another folder")
        return list(self._steps)

    def append(self, step: StepRecord) -> None:
        """Add a finished step; it is on disk when this returns.

        The file is replaced as a whole, so a process that is killed leaves the steps before it.
        """
        self._steps = [*self._steps, step]
        document = {**self._made_under, "steps": [asdict(one) for one in self._steps]}
        replace_atomically(self._folder / STATE, to_json(document))

    def save_prompt(self, version: int, text: str) -> PromptVersion:
        """Store a prompt; it counts from now on, whatever happens.

        A loop that is stopped before the prompt was tried takes it up again, edited or not.
        """
        _write(self._prompt_path(version), text)
        return self.prompt(version)

    def prompt(self, version: int) -> PromptVersion:
        """The stored prompt of a version, as its file reads now.

        Raises ``FileNotFoundError`` for a version that was never saved.
        """
        return PromptVersion(version, self._prompt_path(version).read_bytes().decode("utf-8"))

    def pending(self, version: int) -> PromptVersion | None:
        """A prompt that was drafted but not tried to the end, ``None`` where there is none.

        It is read from its file, so an edit by hand counts.
        """
        return self.prompt(version) if self._prompt_path(version).exists() else None

    def _prompt_path(self, version: int) -> Path:
        return self._folder / "prompts" / f"v{version:03d}.txt"

    def save_failures(self, version: int, failures: list[dict[str, Any]]) -> None:
        """Keep what a prompt was drafted from, for people to read: nothing reads it back."""
        _write(self._folder / "failures" / f"v{version:03d}.json", to_json({"failures": failures}))

    def extraction(self, prompt: PromptVersion, eval_id: str) -> bytes | None:
        """The bytes that were answered to an eval's document under a prompt, ``None`` where it was not asked yet.

        Answers are filed by the prompt's text, whatever its version.
        """
        path = self._extraction_path(prompt, eval_id)
        return path.read_bytes() if path.exists() else None

    def save_extraction(self, prompt: PromptVersion, eval_id: str, answer: Mapping[str, Any] | str) -> bytes:
        """Store an answer, a record as JSON and anything else unchanged, and return the bytes stored.

        An answer that is no record is stored too: it is scored unchanged, and not requested again.
        """
        data = (
            answer.encode("utf-8", "backslashreplace") if isinstance(answer, str) else to_json(dict(answer))
        )
        _write(self._extraction_path(prompt, eval_id), data)
        return data

    def _extraction_path(self, prompt: PromptVersion, eval_id: str) -> Path:
        return self._folder / "extractions" / prompt.text_hash[:16] / f"{eval_id}.json"


def _write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(path, data)


BUNDLED_RULES = "extraction_rules_v1.yaml"
_FIELD = "{field}"


class PromptRule(Definition):
    """One sentence that may help against some kinds of error."""

    id: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$")
    """Name; a simulated model can give it an effect."""
    error_types: tuple[str, ...]
    """Kinds of error it is meant for."""
    fields: tuple[str, ...] = ("*",)
    """Fields it is meant for: patterns over dotted paths without brackets."""
    text: str
    """The sentence; ``{field}`` stands for the failing field."""

    @field_validator("error_types")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in ERROR_TYPES:
                raise ValueError(f"unknown error type '{name}' ({did_you_mean(name, ERROR_TYPES)})")
        return names

    def meets(self, failure: Failure) -> bool:
        """Whether the rule is meant for a failure.

        Both its error types and one of its field patterns must fit; ``windows[].area`` is matched as
        ``windows.area``.
        """
        field, is_meant = failure.field.replace("[]", ""), failure.error_type in self.error_types
        return is_meant and any(fnmatchcase(field, pattern) for pattern in self.fields)

    def sentence(self, field: str) -> str:
        """The text as it goes into the prompt."""
        return self.text.replace(_FIELD, field)

    def stands_in(self, prompt: str) -> bool:
        """Whether a prompt has the rule, for any field.

        The sentence must be there word for word, except for what stands in place of ``{field}``.
        """
        if _FIELD not in self.text:
            return self.text in prompt
        return re.search(re.escape(self.text).replace(re.escape(_FIELD), ".+?"), prompt) is not None


class RuleCatalogue(Definition):
    """``extraction_rules_v1.yaml``: rules in order of preference."""

    version: str
    """Version of the definitions."""
    rules: tuple[PromptRule, ...]
    """Rules, the particular before the general."""

    def in_prompt(self, prompt: str) -> tuple[str, ...]:
        """Ids of the rules that a prompt has, in the catalogue's order.

        A simulated model gives them effects as it does operators.
        """
        return tuple(rule.id for rule in self.rules if rule.stands_in(prompt))


def load_rules(path: Path | None = None) -> RuleCatalogue:
    """Read a catalogue of rules, by default the bundled one.

    Raises ``ConfigError`` with file, line and key where it is wrong.
    """
    return YamlSource.read(path or bundled_configs() / BUNDLED_RULES).parse(RuleCatalogue)


class RuleProposer:
    """Adds the untried rule that is meant for most of the failures; of equals the first of the catalogue."""

    def __init__(self, catalogue: RuleCatalogue, tried: Callable[[], Iterable[str]]) -> None:
        self._catalogue = catalogue
        self._tried = tried

    def __call__(self, failures: Sequence[Failure], prompt: str) -> str:
        """The prompt with one more rule, or as it is where none is left."""
        tried = "\n".join([prompt, *self._tried()])
        weights: dict[str, int] = {}
        for rule in self._catalogue.rules:
            for failure in failures:
                sentence = rule.sentence(failure.field)
                if rule.meets(failure) and sentence not in tried:
                    weights[sentence] = weights.get(sentence, 0) + failure.count
        if not weights:
            return prompt
        return f"{prompt.rstrip()}\n- {max(weights, key=weights.__getitem__)}"
