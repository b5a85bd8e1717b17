"""Whether a report is still what its log says, so that asking again for the same one costs nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

import pcsuite
from pcsuite.logging.segments import log_segments

_BESIDE = (".manifest.json", ".prompts.z")


class _Remembered(msgspec.Struct):
    """A report that was written: from what, and the files it consists of."""

    inputs: str
    reports: list[str]
    tables: list[str]
    plots: list[str]
    stamps: dict[str, str]


class ReportMemory:
    """Remembers the last report in a folder.

    A report is remembered with the size and time of its log's files, of what else it reads (``also``) and of its
    own, with the options it was asked for with, and with the code that made it. Where any of these differs it is
    made anew.
    """

    def __init__(self, note: Path, logs: Sequence[Path], options: Any, also: Sequence[Path] = ()) -> None:
        self._note = note
        described = {
            "logs": [_log_stamps(log) for log in logs],
            "also": [f"{path.resolve()}:{_stamp(path)}" for path in also],
            "options": msgspec.to_builtins(options),
            "code": _tree_stamp(Path(pcsuite.__file__).parent),
            # Installing a package (an embedding model, say) touches the folder that packages lie in.
            "packages": _stamp(Path(msgspec.__file__).parent.parent),
        }
        self._inputs = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()

    def recall(self) -> tuple[list[Path], list[Path], list[Path]] | None:
        """Reports, tables and plots of the last report, if it is just the one that is asked for now."""
        try:
            found = msgspec.json.decode(self._note.read_bytes(), type=_Remembered)
        except (OSError, msgspec.MsgspecError):
            return None
        files = (
            [Path(name) for name in found.reports],
            [Path(name) for name in found.tables],
            [Path(name) for name in found.plots],
        )
        unchanged = all(_stamp(Path(name)) == stamp for name, stamp in found.stamps.items())
        return files if found.inputs == self._inputs and unchanged else None

    def keep(self, reports: Sequence[Path], tables: Sequence[Path], plots: Sequence[Path]) -> None:
        """Remember a report that was just written."""
        remembered = _Remembered(
            self._inputs,
            [str(path) for path in reports],
            [str(path) for path in tables],
            [str(path) for path in plots],
            {str(path): _stamp(path) for path in (*reports, *tables, *plots)},
        )
        self._note.parent.mkdir(parents=True, exist_ok=True)
        self._note.write_bytes(msgspec.json.encode(remembered))


def _log_stamps(log: Path) -> list[str]:
    files = [segment.path for segment in log_segments(log)] + [log.with_suffix(suffix) for suffix in _BESIDE]
    return [f"{path.resolve()}:{_stamp(path)}" for path in files]


def _tree_stamp(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".css", ".js", ".j2"))
    return hashlib.sha256("\n".join(f"{path}:{_stamp(path)}" for path in files).encode()).hexdigest()


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "absent"
    return f"{found.st_size}:{found.st_mtime_ns}"
