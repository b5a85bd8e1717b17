"""The row: one call (or one loop of calls) with everything needed to check and re-score it."""

from __future__ import annotations

from typing import Any

import msgspec


class TaskRef(msgspec.Struct, frozen=True):
    """Which item."""

    id: str
    split: str
    item_id: str


class ModelRef(msgspec.Struct, frozen=True):
    """Which model."""

    id: str
    family: str
    size: str
    provider: str


class ConditionRef(msgspec.Struct, frozen=True):
    """Which prompt condition."""

    id: str
    operators: tuple[str, ...]


class DecodingRef(msgspec.Struct, frozen=True):
    """Which decoding regime; ``None`` where an imported log does not say what the backend used."""

    id: str
    temperature: float | None
    top_p: float | None
    max_tokens: int | None


class PerturbationRef(msgspec.Struct, frozen=True):
    """Which perturbation; ``none`` for the clean prompt."""

    type: str = "none"
    id: str = "none"


class PromptRecord(msgspec.Struct, frozen=True):
    """What was sent; the text itself is in the prompt store under ``prompt_hash``."""

    prompt_hash: str
    schema_hash: str | None
    template: str
    rendered_chars: int
    prompt_tokens: int | None
    padded: int
    band: str = "inside"
    tokens_exact: bool = True


class UsageRecord(msgspec.Struct, frozen=True):
    """Tokens of the row, all calls added up."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class GenerationRecord(msgspec.Struct, frozen=True):
    """What came back."""

    text: str
    finish_reason: str
    latency_ms: float | None
    usage: UsageRecord | None
    """``None``, as the latency, where an imported log has no such figure."""
    constraint_backend: str | None = None
    cache_hit: bool = False
    react_steps: int = 0
    tool_calls: int = 0
    attempts: int = 1
    transcript: list[dict[str, Any]] | None = None


class ParsedRecord(msgspec.Struct, frozen=True):
    """What could be read from the answer."""

    json_valid: bool | None
    schema_valid: bool | None
    json_mode: str
    answer: str | None
    fields: dict[str, Any]
    parse_errors: list[str]


class RunRow(msgspec.Struct, frozen=True):
    """One line of the log."""

    run_id: str
    timestamp_utc: str
    profile: str
    config_hash: str
    pcsuite_version: str
    git_commit: str | None
    task: TaskRef
    model: ModelRef
    condition: ConditionRef
    decoding: DecodingRef
    seed: int
    seed_honoured: bool
    perturbation: PerturbationRef
    prompt: PromptRecord
    generation: GenerationRecord | None
    parsed: ParsedRecord | None
    metrics: dict[str, Any]
    errors: list[str]
    kind: str = "main"
    """``main``, or the name of an auxiliary pass (a verifier pass) that main tables leave out."""
    engine: dict[str, str] = msgspec.field(default_factory=dict)
    """What determined the answer besides the prompt: engine version, weights hash."""


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RunRow)


def encode_row(row: RunRow) -> bytes:
    """A row as one line of JSON, newline included."""
    try:
        return _ENCODER.encode(row) + b"\n"
    except UnicodeEncodeError:  # lone surrogates from a model: kept readable rather than lost
        return _ENCODER.encode(_without_surrogates(msgspec.to_builtins(row))) + b"\n"


def decode_row(line: bytes) -> RunRow:
    """A row from its line; raises :class:`msgspec.MsgspecError` on a malformed one."""
    return _DECODER.decode(line)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(entry) for entry in value]
    return value
