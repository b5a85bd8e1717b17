"""The row: one call (or one loop of calls) with everything needed to check and re-score it.

The structs below are the one declaration of a row. The columns that DuckDB reads from the log and those of
``runs.parquet`` and ``runs.csv`` are derived from them (:mod:`pcsuite.analysis.load.schema`): a field added here is
a column there. ``Annotated[..., Column(...)]`` says where a column differs from its field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from pcsuite.evaluation.base import Parsed


@dataclass(frozen=True, slots=True)
class Column:
    """How a field stands in the flat tables, where that is not as itself in the order of the row."""

    name: str = ""
    """The column's name; by default the field's, after its record's where it is ``id`` or ``type``."""
    after: str = ""
    """The column it follows."""
    join: str = "; "
    """What stands between the values of a list."""
    count: str = ""
    """A further column, of this name, with the length of the list."""
    absent: bool = False
    """The field is left in the log and is no column."""


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
    operators: Annotated[tuple[str, ...], Column(join="+")]


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
    prompt_tokens: Annotated[int | None, Column("rendered_tokens")]
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
    transcript: Annotated[list[dict[str, Any]] | None, Column(absent=True)] = None


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
    parsed: Parsed | None
    metrics: Annotated[dict[str, Any], Column(after="n_errors")]
    errors: Annotated[list[str], Column(count="n_errors")]
    kind: Annotated[str, Column(after="git_commit")] = "main"
    """``main``, or the name of an auxiliary pass (a verifier pass) that main tables leave out."""
    engine: dict[str, str] = msgspec.field(default_factory=dict)
    """What determined the answer besides the prompt: engine version, weights hash."""


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RunRow)


def encode_row(row: RunRow) -> bytes:
    """A row as one line of JSON in UTF-8, newline included.

    Lone surrogates, which a model may emit and UTF-8 has not, are written out as ``\\udXXX``.
    """
    try:
        return _ENCODER.encode(row) + b"\n"
    except UnicodeEncodeError:
        return _ENCODER.encode(_without_surrogates(msgspec.to_builtins(row))) + b"\n"


def decode_row(line: bytes) -> RunRow:
    """A row from its line; raises :class:`msgspec.MsgspecError` on a malformed one.

    Keys that this version does not know are passed over, and missing ones get their defaults where they have
    one.
    """
    return _DECODER.decode(line)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(entry) for entry in value]
    return value
