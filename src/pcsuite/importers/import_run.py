"""Writing the samples of foreign logs into a run: whole, once, and with nothing left out in silence."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pcsuite import __version__
from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import sha256_hex
from pcsuite.errors import ConfigError, DataError, LogError, did_you_mean
from pcsuite.importers.base import FORMATS, UNKNOWN, ImportedSample, LogHeader, SourceLog, quoted_names
from pcsuite.logging.log import RunLog, RunPaths, iter_rows
from pcsuite.logging.row import (
    ConditionRef,
    DecodingRef,
    GenerationRecord,
    ModelRef,
    ParsedRecord,
    PerturbationRef,
    PromptRecord,
    RunRow,
    TaskRef,
    encode_row,
)

# From a sample of a foreign log to a row of ours.


MARK = "imported:"
"""What profile and provider of an imported row begin with; the format's name follows."""


class CellKey(NamedTuple):
    """What a set of rows is about; each item has one row in it."""

    task: str
    model: str
    condition: str
    decoding: str
    seed: int

    @classmethod
    def of(cls, row: RunRow) -> CellKey:
        """The key of a row in the log."""
        return cls(row.task.id, row.model.id, row.condition.id, row.decoding.id, row.seed)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is the same for all rows of one imported log."""

    format: str
    header: LogHeader
    measure: str
    """The measure that becomes the score."""
    condition: str
    family: str = UNKNOWN
    size: str = UNKNOWN
    first_seed: int = 1
    by_content: bool = False
    """Whether items are named by their content instead of their id."""

    @property
    def decoding(self) -> DecodingRef:
        """The decoding regime, named after what the log says of it."""
        header = self.header
        name = header.regime or regime_name(header.temperature, header.top_p)
        return DecodingRef(name, header.temperature, header.top_p, header.max_tokens)

    @property
    def keys(self) -> list[CellKey]:
        """What its rows will be about, one key for each seed: repetitions are numbered on."""
        header = self.header
        seeds = range(self.first_seed, self.first_seed + header.epochs)
        return [CellKey(header.task, header.model, self.condition, self.decoding.id, seed) for seed in seeds]

    def row(self, sample: ImportedSample) -> RunRow:
        """A sample's row; the same sample always gives the same row."""
        header = self.header
        item = sha256_hex(sample.content)[:16] if self.by_content else sample.item_id
        seed = self.first_seed + sample.epoch - 1
        errors = _errors(sample, self.measure, header.tool)
        usage = sample.usage
        defining = [header.tool, header.task, item, header.model, self.condition, self.decoding.id, str(seed)]
        return RunRow(
            run_id=sha256_hex(json.dumps(defining)),
            timestamp_utc=sample.finished_at or header.created,
            profile=f"{MARK}{self.format}",
            config_hash="",
            pcsuite_version=__version__,
            git_commit=header.commit,
            task=TaskRef(header.task, header.split, item),
            model=ModelRef(header.model, self.family, self.size, f"{MARK}{self.format}"),
            condition=ConditionRef(self.condition, ()),
            decoding=self.decoding,
            seed=seed,
            seed_honoured=False,
            perturbation=PerturbationRef(),
            prompt=PromptRecord(
                prompt_hash=sha256_hex(sample.prompt),
                schema_hash=None,
                template=f"{MARK}{self.format}",
                rendered_chars=len(sample.prompt),
                prompt_tokens=usage.prompt_tokens if usage is not None else None,
                padded=0,
            ),
            generation=_generation(sample),
            parsed=None if errors else _parsed(sample, self.measure),
            metrics={} if errors else self._metrics(sample),
            errors=errors,
            engine={"tool": header.tool, "tool_version": header.tool_version, "source": header.source},
        )

    def _metrics(self, sample: ImportedSample) -> dict[str, object]:
        """The chosen score, the other measures under the format's name, and the cost."""
        metrics: dict[str, object] = {"task_score": sample.scores[self.measure]}
        for name, value in sample.scores.items():
            if name != self.measure and value is not None:
                metrics[f"{self.format}:{name}"] = value
        if sample.usage is not None:
            metrics["token_cost"] = sample.usage.total_tokens
        if sample.cost_usd is not None:
            metrics["cost_usd"] = sample.cost_usd
        return metrics


def regime_name(temperature: float | None, top_p: float | None) -> str:
    """``t0.7-p0.95``; ``default`` where the log leaves it to the backend."""
    if temperature is None:
        return "default"
    name = f"t{temperature:g}"
    return name if top_p is None or top_p == 1 else f"{name}-p{top_p:g}"


def _errors(sample: ImportedSample, measure: str, tool: str) -> list[str]:
    if sample.error is not None:
        return [f"{tool}: {' '.join(sample.error.split())[:300]}"]
    if sample.scores.get(measure) is None:
        return [f"not scored by {measure}: {sample.unscored or 'no reason in the log'}"]
    return []


def _generation(sample: ImportedSample) -> GenerationRecord | None:
    if sample.text is None and sample.error is not None:
        return None
    return GenerationRecord(
        text=sample.text or "",
        finish_reason=sample.finish_reason,
        latency_ms=sample.latency_ms,
        usage=sample.usage,
        tool_calls=sample.tool_calls,
    )


def _parsed(sample: ImportedSample, measure: str) -> ParsedRecord:
    notes = list(sample.remarks)
    if measure in sample.unmapped:
        notes.append(f"the value '{sample.unmapped[measure]}' is no number; the tool counts it as 0")
    return ParsedRecord(None, None, "not_json", sample.answer, {}, notes)


# What an imported run is made of, written beside its log where the report looks for it.


def write_manifest(paths: RunPaths, *, imported_cells: Sequence[tuple[Cell, str, int]]) -> None:
    """Add the cells (with the name of their log and the number of items) to ``<run>.manifest.json``."""
    path = paths.log.with_suffix(".manifest.json")
    try:
        content: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        content = {}
    content |= {"run": paths.log.stem, "pcsuite_version": __version__, "length_control": "off"}
    for cell, file, items in imported_cells:
        header = cell.header
        content["profile"] = f"{MARK}{cell.format}"
        tool = f"{header.tool} {header.tool_version}"
        tasks, models = content.setdefault("tasks", {}), content.setdefault("models", {})
        source = f"imported from {tool} ({file})"
        earlier = tasks.get(header.task, {}).get("source", source)
        tasks[header.task] = {
            "title": header.task,
            "kind": "imported",
            "primary_metric": cell.measure,
            # A scorer may well log counts named tp, fp and fn; its own score counts all the same.
            "pooling": "mean",
            "items": items,
            "source": earlier if file in earlier else f"{earlier}; {source}",
            "max_tokens": header.max_tokens or 0,
        }
        models[header.model] = {"provider": f"{MARK}{cell.format}", "family": cell.family, "size": cell.size}
        content.setdefault("conditions", {})[cell.condition] = {"title": cell.condition, "operators": []}
        decoding = cell.decoding
        content.setdefault("regimes", {})[decoding.id] = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
        }
    replace_atomically(path, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


DEFAULT_CONDITION = "imported"
_LONGEST_NAME = 48


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user says about the logs."""

    measures: Sequence[str] = ()
    """Names of scores, of which each log must have exactly one; none where every log has only one."""
    condition: str | None = None
    condition_from: str | None = None
    """A key of the header, by dots, whose value names the condition."""
    model: str | None = None
    family: str = UNKNOWN
    size: str = UNKNOWN
    first_seed: int = 1
    by_content: bool = False
    replace: bool = False
    """Whether rows of another evaluation in the same cell may be replaced."""


@dataclass(slots=True)
class ImportedLog:
    """What became of one log."""

    path: Path
    cell: Cell
    samples: int = 0
    items: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Samples without a score by reason; each has a row that says so."""
    remarks: Counter[str] = field(default_factory=Counter)
    unmapped: Counter[str] = field(default_factory=Counter)
    """Values of the score that are no number."""
    mean: float | None = None
    """Mean of the score, repetitions averaged within the item first."""

    @property
    def reported(self) -> float | None:
        """The tool's own mean of the score."""
        return self.cell.header.reported.get(self.cell.measure)

    @property
    def agrees(self) -> bool | None:
        """Whether our mean is the tool's; ``None`` where it reports none."""
        if self.reported is None or self.mean is None:
            return None
        return math.isclose(self.mean, self.reported, rel_tol=1e-9, abs_tol=1e-12)

    @property
    def missing(self) -> int:
        """Samples that the evaluation should have had and the log has not."""
        return max(0, (self.cell.header.expected or 0) - self.samples)


def import_logs(
    format_name: str, logs: Sequence[Path], paths: RunPaths, options: ImportOptions | None = None
) -> list[ImportedLog]:
    """Write every sample of the logs as a row of the run; what is there already is left alone."""
    options = options or ImportOptions()
    opened: list[tuple[Path, SourceLog]] = []
    try:
        for path in _found(format_name, logs):
            opened.append((path, FORMATS.get(format_name).open(path, model=options.model)))
        opened.sort(key=lambda entry: entry[1].header.created)  # of several tries the newest row counts
        cells = [_cell(format_name, path, source.header, options) for path, source in opened]
        by_key = _cells_by_key([(path, cell) for (path, _), cell in zip(opened, cells, strict=True)])
        with RunLog(paths) as log:
            known = _known_rows(paths, by_key, options.replace)
            imported = [
                _import(path, source, cell, log, known)
                for (path, source), cell in zip(opened, cells, strict=True)
            ]
    finally:
        for _, source in opened:
            source.close()
    write_manifest(paths, imported_cells=[(entry.cell, entry.path.name, entry.items) for entry in imported])
    return imported


def _found(format_name: str, logs: Sequence[Path]) -> list[Path]:
    known = FORMATS.get(format_name)
    found: dict[Path, None] = {}
    for given in logs:
        if not given.exists():
            raise DataError(f"{given}: no such file or folder")
        matching = known.find(given)
        if not matching:
            raise DataError(f"{given}: no log of {format_name} in this folder")
        for path in matching:
            found.setdefault(path)
    return list(found)


def _cell(format_name: str, path: Path, header: LogHeader, options: ImportOptions) -> Cell:
    measure = choose_measure(path.name, header, options.measures)
    condition = options.condition or header.condition or DEFAULT_CONDITION
    if options.condition_from:
        condition = header_value(path.name, header.fields, options.condition_from)
    return Cell(
        format_name,
        header,
        measure,
        condition,
        options.family,
        options.size,
        options.first_seed,
        options.by_content,
    )


def choose_measure(file: str, header: LogHeader, wanted: Sequence[str]) -> str:
    """The score of a log: the only one, or the one the user named."""
    if not header.measures:
        raise DataError(f"{file}: no sample has a score", hint="score the log with its tool first")
    if not wanted and len(header.measures) > 1:
        raise ConfigError(
            f"{file} has several scores: {quoted_names(header.measures)}",
            hint="choose one with --metric NAME",
        )
    named = [name for word in wanted for name in _meant(word, header.measures)]
    chosen = named if wanted else list(header.measures)
    if not chosen:
        raise ConfigError(f"{file} has no score '{wanted[0]}'", hint=did_you_mean(wanted[0], header.measures))
    if len(set(chosen)) > 1:
        raise ConfigError(f"{file} has all of {quoted_names(chosen)}", hint="name one score for each log")
    if chosen[0] in header.lower_is_better:
        raise ConfigError(
            f"{file}: {chosen[0]} is better when lower, and comparisons take a higher score as better",
            hint="choose another score with --metric",
        )
    return chosen[0]


def _meant(word: str, measures: Sequence[str]) -> list[str]:
    """The measures a word stands for; a filter need not be named where a metric has only one."""
    return [word] if word in measures else [name for name in measures if name.rpartition(",")[0] == word]


def header_value(file: str, fields: Mapping[str, Any], path: str) -> str:
    """The value at a dotted key of a header, as the name of a condition; an empty one is called ``none``."""
    leaves = dict(_leaves(fields))
    if path not in leaves:
        raise ConfigError(f"{file}: the header has no value '{path}'", hint=did_you_mean(path, leaves))
    name = " ".join(str(leaves[path] if leaves[path] not in (None, "") else "none").split())
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}… {sha256_hex(name)[:8]}"


def _leaves(fields: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{key}.")
        elif value is None or isinstance(value, (str, int, float, bool)):
            yield f"{before}{key}", value


def _cells_by_key(cells: Sequence[tuple[Path, Cell]]) -> dict[CellKey, Cell]:
    """The cells to import; two logs in the same cell are a mistake unless they are tries of one evaluation."""
    taken: dict[CellKey, tuple[Path, Cell]] = {}
    for path, cell in cells:
        for key in cell.keys:
            other, earlier = taken.setdefault(key, (path, cell))
            if earlier.header.source != cell.header.source:
                raise _clash(key, f"{path.name} and {other.name} are")
    return {key: cell for key, (_, cell) in taken.items()}


def _clash(key: CellKey, what: str) -> ConfigError:
    return ConfigError(
        f"{what} different evaluations of the same cell ({key.task}, {key.model}, condition {key.condition},"
        f" {key.decoding})",
        hint="tell them apart with --condition or --condition-from, number repetitions on with --first-seed,"
        " or import one under another --name; --replace lets the new rows count",
    )


def _known_rows(paths: RunPaths, cells: Mapping[CellKey, Cell], replace: bool) -> dict[bytes, bytes]:
    """Digest of the newest row by run id; a run of our own, or another evaluation in the way, is refused."""
    known: dict[bytes, bytes] = {}
    if not paths.log.exists():
        return known
    for row in iter_rows(paths.log):
        if not row.profile.startswith(MARK):
            raise LogError(
                f"{paths.log} is a run of pcsuite itself", hint="import under another name with --name"
            )
        cell = None if replace else cells.get(CellKey.of(row))
        if cell is not None and row.engine.get("source") != cell.header.source:
            raise _clash(CellKey.of(row), f"rows of {paths.log.name} and the log to import are")
        known[bytes.fromhex(row.run_id[:32])] = _import_run_digest(row)
    return known


def _import_run_digest(row: RunRow) -> bytes:
    """What a row says, whichever version of the suite wrote it."""
    return hashlib.blake2b(
        encode_row(msgspec.structs.replace(row, pcsuite_version="")), digest_size=16
    ).digest()


def _import(path: Path, source: SourceLog, cell: Cell, log: RunLog, known: dict[bytes, bytes]) -> ImportedLog:
    outcome = ImportedLog(path, cell)
    sums: dict[str, list[float]] = {}
    seen: set[bytes] = set()
    for sample in source.samples(cell.measure):
        row = cell.row(sample)
        key = bytes.fromhex(row.run_id[:32])
        if key in seen:
            raise DataError(
                f"{path}: item {row.task.item_id}, repetition {sample.epoch} is there twice",
                hint="items with the same content need their ids" if cell.by_content else None,
            )
        seen.add(key)
        _count(outcome, sample, row)
        score = row.metrics.get("task_score")
        sums.setdefault(row.task.item_id, [])
        if score is not None:
            sums[row.task.item_id].append(score)
        digest = _import_run_digest(row)
        if known.get(key) == digest:
            outcome.unchanged += 1
            continue
        outcome.changed += key in known
        outcome.new += key not in known
        known[key] = digest
        log.append(row, sample.prompt)
    outcome.items = len(sums)
    means = [math.fsum(scores) / len(scores) for scores in sums.values() if scores]
    outcome.mean = math.fsum(means) / len(means) if means else None
    return outcome


def _count(outcome: ImportedLog, sample: ImportedSample, row: RunRow) -> None:
    outcome.samples += 1
    outcome.errors.update(row.errors)
    outcome.remarks.update(sample.remarks)
    if outcome.cell.measure in sample.unmapped:
        outcome.unmapped[sample.unmapped[outcome.cell.measure]] += 1
