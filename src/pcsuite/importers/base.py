"""What every foreign log format gives: a header, and samples one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pcsuite._util.text import describe
from pcsuite.errors import DataError
from pcsuite.importers.shapes import FileShape
from pcsuite.logging.row import UsageRecord
from pcsuite.registry import Registry

Entry = TypeVar("Entry")

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
    primary: str | None = None
    """The measure that the tool itself passes or fails by: the score where nobody names another."""
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The least and largest value of a measure, where the tool or the user says so."""
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
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What the log says of the item beside its question (variables, metadata), by which items can be clustered."""
    cluster: str = ""
    """The item's cluster, where the log itself has one."""


class SourceLog(Protocol):
    """One evaluation of a foreign log (one model, one condition), open for reading."""

    @property
    def header(self) -> LogHeader:
        """What the log says about the whole evaluation."""

    def samples(self, measure: str) -> Iterator[ImportedSample]:
        """Every sample that could carry the measure, one at a time, so that memory holds one.

        Raises :class:`DataError`, with the place, on a sample that cannot be read.
        """

    def close(self) -> None:
        """Close the file."""


@dataclass(frozen=True, slots=True)
class SampleList:
    """An evaluation whose samples were read with its file: all but the formats of very large logs."""

    header: LogHeader
    listed: Sequence[ImportedSample]

    def samples(self, measure: str) -> Iterator[ImportedSample]:
        """Every sample, whichever measure is asked for: each carries all of them."""
        return iter(self.listed)

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the user says about files before they are read."""

    model: str | None = None
    """The model's name, where a file has none or another is meant."""
    item: str = ""
    """Of a table: the column that names the item."""
    arm: str = ""
    """Of a table: the column that names the condition; without it a file is one condition."""
    scores: Sequence[str] = ()
    """Of a table: the columns of numbers, the score first."""
    repeat: str = ""
    """Of a table: the column that tells repetitions of an item apart; without it an item has one row."""
    range: tuple[float, float] | None = None
    """The least and largest value of the score, where it does not lie within 0..1; infinite for an amount."""


def by_epoch(entries: Iterable[Entry], name_of: Callable[[Entry], str]) -> Iterator[tuple[Entry, str, int]]:
    """Entries with the name of their item and their epoch: which time, from 1, that item comes.

    >>> [(name, epoch) for _, name, epoch in by_epoch(["a", "b", "a"], str)]
    [('a', 1), ('b', 1), ('a', 2)]
    """
    counts: Counter[str] = Counter()
    for entry in entries:
        name = name_of(entry)
        counts[name] += 1
        yield entry, name, counts[name]


def measures_of(samples: Iterable[ImportedSample]) -> tuple[str, ...]:
    """The names under which any of the samples carries a number, the first that comes first."""
    return tuple(dict.fromkeys(name for sample in samples for name in sample.scores))


def epochs_of(samples: Iterable[ImportedSample]) -> int:
    """How often an item comes at most; 1 where there is no sample."""
    return max((sample.epoch for sample in samples), default=1)


class LogFormat(Protocol):
    """A format that can be imported."""

    def recognises(self, shape: FileShape) -> bool:
        """Whether a file is of this format, by its name and its first keys."""

    def find(self, path: Path) -> list[Path]:
        """The logs of this format that a file or folder stands for.

        ``path`` itself where it is a file; of a folder those that look like logs, sorted.
        """

    def open(self, path: Path, options: ReadOptions) -> Sequence[SourceLog]:
        """The evaluations of a log, headers read: one for each model and condition that it has.

        They stay open until they are closed. Raises :class:`DataError` where it is no log of this format.
        """


FORMATS: Registry[LogFormat] = Registry(
    "log format",
    "pcsuite.importers",
    {
        "inspect": "pcsuite.importers.inspect_ai_log:FORMAT",
        "lm-eval": "pcsuite.importers.lm_eval_samples:FORMAT",
        "helm": "pcsuite.integrations.helm.log_format:FORMAT",
        "promptfoo": "pcsuite.importers.promptfoo_results:FORMAT",
        "deepeval": "pcsuite.importers.deepeval_results:FORMAT",
        "langfuse": "pcsuite.importers.langfuse_export:FORMAT",
        "phoenix": "pcsuite.importers.phoenix_experiment:FORMAT",
        "mlflow": "pcsuite.importers.mlflow_results:FORMAT",
        "openai-evals": "pcsuite.importers.openai_evals:FORMAT",
        "otel": "pcsuite.importers.otel_spans:FORMAT",
        "table": "pcsuite.importers.table_rows:FORMAT",
    },
)


def open_log(name: str, path: Path, options: ReadOptions) -> Sequence[SourceLog]:
    """The evaluations of a file of a named format.

    Raises :class:`DataError` where it is none, or where a value in it is of another kind than the format has there.
    """
    try:
        return FORMATS.get(name).open(path, options)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{path}: not a whole file of {name} ({describe(error)})") from error


def detect_format(path: Path) -> str:
    """The name of the format that a file, or the files of a folder, are of.

    A table is never guessed: it has to be told which columns count. Raises :class:`DataError` where no format or
    several know the file.

        detect_format(Path("results.json"))
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder")
    names = [name for name in FORMATS if name != "table"]
    if path.is_dir():
        matching = [name for name in names if _any_recognised(FORMATS.get(name), path)]
    else:
        shape = FileShape.of(path)
        matching = [name for name in names if FORMATS.get(name).recognises(shape)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise DataError(f"{path}: could be of {' or '.join(matching)}", hint="say which with --from")
    hint = f"say which with --from: {', '.join(FORMATS)}"
    if path.suffix.lower() in (".csv", ".tsv", ".jsonl", ".ndjson", ".json"):
        hint = "a plain table is read with --from table --item COL --score COL [--arm COL]; else " + hint
    raise DataError(f"{path}: of no format that is known here", hint=hint)


def _any_recognised(form: LogFormat, folder: Path) -> bool:
    for path in form.find(folder):
        try:
            if form.recognises(FileShape.of(path)):
                return True
        except DataError:
            continue
    return False
