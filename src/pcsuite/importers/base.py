"""What every foreign log format gives: a header, and samples one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from pcsuite._util.text import read_json
from pcsuite.errors import DataError
from pcsuite.logging.row import UsageRecord
from pcsuite.registry import Registry

T = TypeVar("T")
UNKNOWN = "unknown"
"""What a log does not say."""


@dataclass(frozen=True, slots=True)
class LogHeader:
    """What a foreign log says about the whole evaluation."""

    tool: str
    """Name of the tool as its package is called."""
    tool_version: str
    source: str
    """Names the evaluation; a retry of it keeps the name, so that its samples replace those of the first try."""
    task: str
    split: str
    model: str
    measures: tuple[str, ...]
    """Names under which samples carry a number, each of which can become the score."""
    regime: str | None = None
    """Name of the decoding regime, where it is not one of temperature and top_p."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    epochs: int = 1
    expected: int | None = None
    """Samples that a whole evaluation would have, epochs counted."""
    condition: str | None = None
    """The condition's name, where the header has one."""
    created: str = ""
    commit: str | None = None
    reported: Mapping[str, float] = field(default_factory=dict)
    """The tool's own mean of a measure, where it reports one."""
    lower_is_better: frozenset[str] = frozenset()
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The header as nested values, from which a condition can be named."""
    remarks: tuple[str, ...] = ()
    """What a reader should know before trusting the samples."""


@dataclass(frozen=True, slots=True)
class ImportedSample:
    """One sample of a foreign log."""

    item_id: str
    epoch: int
    content: str
    """What identifies the item whatever its id: the question and its target."""
    prompt: str
    text: str | None
    """The answer; ``None`` where there is none."""
    answer: str | None
    """What the tool read from the answer."""
    scores: Mapping[str, float | None]
    """Numbers by measure; ``None`` where the tool left the sample unscored."""
    finish_reason: str = "unknown"
    latency_ms: float | None = None
    usage: UsageRecord | None = None
    cost_usd: float | None = None
    tool_calls: int = 0
    error: str | None = None
    unscored: str | None = None
    """Why there is no score, where the log says so."""
    remarks: tuple[str, ...] = ()
    unmapped: Mapping[str, str] = field(default_factory=dict)
    """Values by measure that are no number; the tool counts them as 0."""
    finished_at: str = ""


class SourceLog(Protocol):
    """A foreign log that is open for reading."""

    header: LogHeader

    def samples(self, measure: str) -> Iterator[ImportedSample]:
        """Every sample that could carry the measure, one at a time, so that memory holds one.

        Raises :class:`DataError`, with the place, on a sample that cannot be read.
        """

    def close(self) -> None:
        """Close the file."""


class LogFormat(Protocol):
    """A format that can be imported."""

    def find(self, path: Path) -> list[Path]:
        """The logs of this format that a file or folder stands for.

        ``path`` itself where it is a file; of a folder those that look like logs, sorted.
        """

    def open(self, path: Path, *, model: str | None) -> SourceLog:
        """Read a log's header; ``model`` is the user's word where the log has none.

        The log stays open until it is closed. Raises :class:`DataError` where it is no log of this format.
        """


FORMATS: Registry[LogFormat] = Registry(
    "log format",
    "pcsuite.importers",
    {
        "inspect": "pcsuite.importers.inspect_ai_log:FORMAT",
        "lm-eval": "pcsuite.importers.lm_eval_samples:FORMAT",
    },
)


def decode_json(data: bytes | memoryview, shape: type[T], problem: str) -> T:
    """JSON as ``shape``; ``NaN`` and ``Infinity``, which strict JSON has not, are read as well.

    Keys that the shape does not name cost no objects, which is most of a log with transcripts. Raises
    :class:`DataError` with the words ``problem`` where it is no JSON or of another shape.
    """
    try:
        try:
            return msgspec.json.decode(data, type=shape)
        # JSON of another shape, which the lenient reader would not mend.
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.convert(read_json(bytes(data)), type=shape)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise DataError(f"{problem} ({error})") from error


def as_number(value: object) -> float | None:
    """A finite number, or ``None``; truth values count as 1 and 0.

    Text is no number, however it looks: a tool's own rules decide about that.
    """
    if isinstance(value, (bool, int, float)) and abs(value) < float("inf"):
        return float(value)
    return None


def quoted_names(names: Sequence[str]) -> str:
    """Names for a message, the first dozen of them; they may hold commas themselves.

    >>> quoted_names(["exact_match,strict", "f1"])
    "'exact_match,strict', 'f1'"
    """
    return ", ".join(f"'{name}'" for name in names[:12]) + (", …" if len(names) > 12 else "")
