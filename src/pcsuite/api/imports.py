"""Files of other tools and tables in memory as logs of runs, for ``compare`` and ``effects`` to read in passing."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pcsuite.config.spellings import column_names
from pcsuite.data.items import Row
from pcsuite.errors import ConfigError, DataError, did_you_mean
from pcsuite.importers.base import FORMATS, SourceLog, detect_format, open_log
from pcsuite.importers.import_run import ImportOptions, write_evaluations
from pcsuite.importers.table_rows import tabled_evaluations
from pcsuite.logging.log import RunPaths

_WORDS = {"score": "scores", "metric": "measures"}
"""Words of ``reading`` that take one name or several, and the option each stands for."""


class Scratch:
    """A folder for converted logs that goes with the last object that uses it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="pcsuite-run-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def import_in_passing(
    source: str | Path | Any,
    scratch: Scratch,
    *,
    format: str | None,
    cluster: Sequence[str] | str,
    name: str,
    task: str | None,
    reading: Mapping[str, Any],
) -> Path:
    """Write a file of another tool, or a table in memory, as the log of a run in a scratch folder; returns the log.

    The words are those of :func:`pcsuite.api.runs.read_foreign`, which says what they mean.
    """
    options = _options(reading, cluster)
    opened: list[tuple[Path, SourceLog, str]] = []
    try:
        if isinstance(source, (str, Path)):
            path = Path(source)
            known = format or detect_format(path)
            files = FORMATS.get(known).find(path) if path.exists() else [path]
            if not files:
                raise DataError(f"{path}: no log of {known} in this folder")
            for file in files:
                opened += [(file, log, known) for log in open_log(known, file, options)]
            label = path.stem or known
        else:
            label = name or "table"
            logs = tabled_evaluations(frame_rows(source), options, name=label, where=label)
            opened += [(Path(label), log, "table") for log in logs]
        paths = RunPaths.of(scratch.path / "outputs", re.sub(r"[^\w.-]+", "_", label).strip("._") or "run")
        if len({log.header.task for _, log, _ in opened}) == 1:
            options = replace(options, task=task)
        for outcome in write_evaluations(opened, paths, options):
            if outcome.open_range:
                raise ConfigError(f"{outcome.path}: {outcome.open_range}")
    finally:
        for _, log, _ in opened:
            log.close()
    return paths.log


def _options(reading: Mapping[str, Any], cluster: Sequence[str] | str) -> ImportOptions:
    """The options of an import from a caller's words."""
    known = {field.name for field in fields(ImportOptions)} - {"replace", "first_seed", "cluster", "task"}
    settings: dict[str, Any] = {}
    for word, value in reading.items():
        key = _WORDS.get(word, word)
        if word == "match_by":
            key, value = "by_content", value == "content"
        elif key not in known:
            words = [*known, *_WORDS, "match_by"]
            raise ConfigError(f"unknown word '{word}'", hint=did_you_mean(word, words))
        if key in ("scores", "measures", "also"):
            value = [value] if isinstance(value, str) else list(value or ())
        if value is not None:
            settings[key] = value
    # Columns of a table are named because they count.
    settings["also"] = [*settings.get("also", ()), *settings.get("scores", ())[1:]]
    return ImportOptions(**settings, cluster=column_names(cluster))


def frame_rows(frame: Any) -> list[Row]:
    """The rows of a frame of pandas or polars (lazy ones too), or of an Arrow table, each with its place.

    Raises :class:`ConfigError` for anything else and :class:`DataError` for an empty one.
    """
    if hasattr(frame, "collect") and not hasattr(frame, "to_dict"):  # a lazy frame of polars
        frame = frame.collect()
    columns: Mapping[Any, Sequence[Any]]
    if hasattr(frame, "to_pydict"):
        columns = frame.to_pydict()
    elif hasattr(frame, "get_column"):
        columns = frame.to_dict(as_series=False)
    elif hasattr(frame, "iloc") and hasattr(frame, "to_dict"):
        if not frame.columns.is_unique:
            raise ConfigError("two columns of the frame have the same name")
        columns = {name: frame[name].tolist() for name in frame.columns}
    else:
        kind = type(frame).__name__
        hint = "give a run, a file, a frame of pandas or polars, or an Arrow table"
        raise ConfigError(f"nothing to compare in a {kind}", hint=hint)
    names = [str(name) for name in columns]
    rows = [
        Row(f"row {number}", {name: _known(value) for name, value in zip(names, cells, strict=True)})
        for number, cells in enumerate(zip(*columns.values(), strict=True))
    ]
    if not rows:
        raise DataError("the table has no rows")
    return rows


def _known(value: Any) -> Any:
    """A cell's value, ``None`` where it is missing, however the frame's library says so."""
    try:
        return None if value != value else value
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return None


def is_own_log(path: Path) -> bool:
    """Whether a path is the log of a run of ours: by its first row, or by its name where there is none yet."""
    if path.is_dir() or path.suffix.lower() in (".yaml", ".yml"):
        return path.suffix.lower() in (".yaml", ".yml")
    with path.open("rb") as stream:
        head = stream.read(4096).lstrip()
    return path.suffix == ".jsonl" and (not head or (b'"run_id"' in head and b'"config_hash"' in head))
