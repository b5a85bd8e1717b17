"""The row: one call (or one loop of calls) with everything needed to check and re-score it.

The structs below are the one declaration of a row. The columns that DuckDB reads from the log and those of
``runs.parquet`` and ``runs.csv`` are derived from them (:mod:`pcsuite.analysis.load.schema`): a field added here is
a column there. ``Annotated[..., FlatColumn(...)]`` says where a column differs from its field.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from pcsuite.engines.targets.changed import FolderChanges
from pcsuite.errors import CallOutcome
from pcsuite.evaluation.base import CheckResult, JudgeCall, NamedScore, Parsed
from pcsuite.logging.plain_rows import plain_row


@dataclass(frozen=True, slots=True)
class FlatColumn:
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
    cluster: str = ""
    """Items of one cluster are related; empty in rows of earlier versions, whose items stand for themselves."""


class ModelRef(msgspec.Struct, frozen=True):
    """Which model."""

    id: str
    family: str
    size: str
    provider: str


class ConditionRef(msgspec.Struct, frozen=True):
    """Which prompt condition."""

    id: str
    operators: Annotated[tuple[str, ...], FlatColumn(join="+")]


class DecodingRef(msgspec.Struct, frozen=True):
    """Which decoding regime; ``None`` where an imported log does not say what the backend used."""

    id: str
    temperature: float | None
    top_p: float | None
    max_tokens: int | None


IMPORTED = "imported:"
"""What the profile of a row begins with that came from another tool's log; the format's name follows."""


class PerturbationRef(msgspec.Struct, frozen=True):
    """Which perturbation; both are null for the clean prompt, which tables call ``none``."""

    type: str | None = None
    id: str | None = None

    @property
    def kind(self) -> str:
        """The kind as tables and models' contexts name it: ``none`` for the clean prompt.

        >>> PerturbationRef().kind, PerturbationRef("reorder", "reorder-2").kind
        ('none', 'reorder')
        """
        return self.type or "none"

    @property
    def variant(self) -> str:
        """The id as it enters rows' ids and tables: ``none`` for the clean prompt.

        >>> PerturbationRef("reorder", "reorder-2").variant
        'reorder-2'
        """
        return self.id or "none"


class PromptRecord(msgspec.Struct, frozen=True):
    """What was sent; the text itself is in the prompt store under ``prompt_hash``."""

    prompt_hash: str
    schema_hash: str | None
    template: str
    rendered_chars: int
    prompt_tokens: Annotated[int | None, FlatColumn("rendered_tokens")]
    padded: int
    band: str = "inside"
    tokens_exact: bool = True
    cut: Annotated[int | None, FlatColumn("prompt_cut")] = None
    """Characters of the beginning that the engine read by itself before the rest; ``None``: all was read at once."""


class UsageRecord(msgspec.Struct, frozen=True):
    """Tokens of the row, all calls added up."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: int | None = None
    """Those of the prompt tokens that servers had cached; ``None`` where none said."""
    reasoning_tokens: Annotated[int | None, FlatColumn(after="outcome")] = None
    """Tokens of thought, which are billed as completion and no part of the answer; ``None`` where no server said."""


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
    transcript: Annotated[list[dict[str, Any]] | None, FlatColumn(absent=True)] = None
    batch: Annotated[str | None, FlatColumn("batch_id")] = None
    """Id of the provider's batch that the answer came in, where it came in one."""
    steps: Annotated[int | None, FlatColumn(after="reasoning_tokens")] = None
    """Steps that a target says it took; ``None`` where none was said."""
    loaded: Annotated[list[dict[str, Any]] | msgspec.UnsetType, FlatColumn(absent=True)] = msgspec.UNSET
    """Sources that a target says it read, each with ``source`` and perhaps ``sha256``; only in rows of targets."""
    artifacts: Annotated[Any, FlatColumn(absent=True)] = msgspec.UNSET
    """What else a target made; only in rows of targets that say so."""
    stderr: Annotated[str | msgspec.UnsetType, FlatColumn(absent=True)] = msgspec.UNSET
    """The end of what a command wrote to its standard error, without secrets."""


class RowLabel(msgspec.Struct, frozen=True):
    """What a person or a judge said of an answer that no rule could read for certain, and that its score now is."""

    label: str
    """``pass`` or ``fail``."""
    source: str
    """``person``, or ``judge`` and the model's id."""
    made_utc: str


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
    metrics: Annotated[dict[str, Any], FlatColumn(after="n_errors")]
    errors: Annotated[list[str], FlatColumn(count="n_errors")]
    kind: Annotated[str, FlatColumn(after="git_commit")] = "main"
    """``main``, or the name of an auxiliary pass (a verifier pass) that main tables leave out."""
    engine: dict[str, str] = msgspec.field(default_factory=dict)
    """What determined the answer besides the prompt: engine version, weights hash."""
    judge: Annotated[list[JudgeCall] | msgspec.UnsetType, FlatColumn(absent=True)] = msgspec.UNSET
    """Of a judged task: every call of the judge with its verdict and raw reply, in order."""
    outcome: str = ""
    """What became of the call, one of :data:`~pcsuite.errors.CallOutcome`."""
    scores: Annotated[dict[str, NamedScore] | msgspec.UnsetType, FlatColumn(absent=True)] = msgspec.UNSET
    """Further scores that the scorer gave by name, each with its reason; the values are metrics too."""
    rescored_utc: Annotated[str | msgspec.UnsetType, FlatColumn(absent=True)] = msgspec.UNSET
    """When the stored answer was last scored anew; ``timestamp_utc`` stays the time of the answer."""
    label: Annotated[RowLabel | msgspec.UnsetType, FlatColumn(absent=True)] = msgspec.UNSET
    """Who decided the score of an answer that could be read in two ways; no other row has it."""
    changed: Annotated[FolderChanges | msgspec.UnsetType, FlatColumn(absent=True)] = msgspec.UNSET
    """Of a target that worked in a copy of a folder: what it changed there."""
    checks: Annotated[dict[str, CheckResult] | msgspec.UnsetType, FlatColumn(absent=True)] = msgspec.UNSET
    """What became of the task's checks in that folder, by name: scoring anew goes by it, the folder is gone."""


FINISH_OUTCOMES: Mapping[str, CallOutcome] = {
    "length": "cut",
    "out_of_time": "out_of_time",
    "refusal": "refused",
    "too_long": "too_long",
    **dict.fromkeys(
        ("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii", "image_safety"),
        "filtered",
    ),
    "model_armor": "filtered",
}
"""What an answer's end says of the call, by the backends' own words; any other end is an answer."""
BLOCKED = "blocked: "
"""What the end of an answer begins with that the provider held back altogether, before its reason."""


OUTCOME_ENDS: Mapping[CallOutcome, str] = {
    "filtered": "content_filter",
    "refused": "refusal",
    "cut": "length",
    "too_long": "too_long",
    "out_of_time": "out_of_time",
}
"""How an answer ended that never came because of the item itself: a word of :data:`FINISH_OUTCOMES`."""


def outcome_of(finish_reason: str) -> CallOutcome:
    """What became of a call that came back.

    >>> outcome_of("stop"), outcome_of("length"), outcome_of("blocked: SAFETY")
    ('answered', 'cut', 'filtered')
    """
    return "filtered" if finish_reason.startswith(BLOCKED) else FINISH_OUTCOMES.get(finish_reason, "answered")


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RunRow)


def encode_row(row: RunRow) -> bytes:
    """A row as one line of JSON in UTF-8, newline included; its last key is ``checksum``.

    Lone surrogates, which a model may emit and UTF-8 has not, are written out as ``\\udXXX``. The checksum (CRC-32, in
    hexadecimal) is that of the line before it, and no field of the row: who reads one need not know. It is verified on
    every read, so it is the fastest one there is: it shows what a hand or a disk changed, and proves nothing against
    who writes it anew.
    """
    try:
        body = _ENCODER.encode(row)
    except UnicodeEncodeError:
        body = _ENCODER.encode(_without_surrogates(msgspec.to_builtins(row)))
    return b'%b,"checksum":"%08x"}\n' % (body[:-1], zlib.crc32(body[:-1]))


def line_is_sound(line: bytes) -> bool | None:
    """Whether a line (without its newline) says what was written; ``None`` for one that has no checksum.

    Logs of the first versions have none. A line that another program wrote anew (other blanks, other escapes) is sound
    where its values, written as ours are, have the checksum that it carries.
    """
    # Every row of every log passes here: places are written out, the key before 8 digits, or 16 in earlier versions.
    if line[-23:-10] == b',"checksum":"':
        return b"%08x" % zlib.crc32(line[:-23]) == line[-10:-2]
    if line[-31:-18] == b',"checksum":"':
        return _digest(line[:-31] + b"}") == line[-18:-2]
    if b'"checksum"' not in line:
        return None
    try:
        values = msgspec.json.decode(line)
        checksum = values.pop("checksum", None) if isinstance(values, dict) else None
        body = _ENCODER.encode(values)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False  # it has one, and cannot even be read
    if checksum is None:
        return None
    return checksum in (f"{zlib.crc32(body[:-1]):08x}", _digest(body).decode())


def _digest(body: bytes) -> bytes:
    """The checksum of earlier versions: of the line without its key, 8 bytes of BLAKE2b."""
    return hashlib.blake2b(body, digest_size=8).hexdigest().encode()


def decode_row(line: bytes) -> RunRow:
    """A row from its line; raises :class:`msgspec.MsgspecError` on a malformed one, and nothing else.

    Keys that this version does not know are passed over; missing ones get their defaults where they have one. A row in
    the specification's plain form (:mod:`~pcsuite.logging.plain_rows`) is read as one of the suite's.
    """
    try:
        row = _DECODER.decode(line)
    except (RecursionError, UnicodeDecodeError) as error:  # a line that no row's writer wrote
        raise msgspec.DecodeError(str(error)) from None
    except msgspec.ValidationError:
        values = plain_row(line)
        if values is None:
            raise
        row = msgspec.convert(values, RunRow)
    if not row.outcome:  # of an earlier version, which wrote neither this nor how the answer was read
        ended = outcome_of(row.generation.finish_reason) if row.generation is not None else "failed"
        row = msgspec.structs.replace(row, outcome="failed" if row.errors else ended)
        if row.parsed is not None:
            row.parsed.settle_reading()
    return row


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(entry) for entry in value]
    return value
