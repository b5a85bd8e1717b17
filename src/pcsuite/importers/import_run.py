"""Writing the samples of foreign logs into a run's log: whole, once, and with nothing left out in silence."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pcsuite.errors import ConfigError, DataError, LogError, did_you_mean
from pcsuite.importers.base import FORMATS, UNKNOWN, ImportedSample, LogHeader, SourceLog, quoted_names
from pcsuite.importers.manifest import write_manifest
from pcsuite.importers.rows import MARK, Cell, CellKey
from pcsuite.logging.reader import iter_rows
from pcsuite.logging.row import RunRow, encode_row
from pcsuite.logging.writer import RunLog, RunPaths

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
    return f"{name[:_LONGEST_NAME]}… {hashlib.sha256(name.encode()).hexdigest()[:8]}"


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
        known[bytes.fromhex(row.run_id[:32])] = _digest(row)
    return known


def _digest(row: RunRow) -> bytes:
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
        digest = _digest(row)
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
