"""Appending to a run's log so that no finished row is lost and none is written twice."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pcsuite.config.profile import RunSection
from pcsuite.errors import LogError
from pcsuite.logging.files import AppendFile
from pcsuite.logging.index import ResumeIndex
from pcsuite.logging.lock import RunLock
from pcsuite.logging.prompt_store import PromptStore
from pcsuite.logging.rotation import LogRotator, Rotation
from pcsuite.logging.row import RunRow, encode_row
from pcsuite.logging.segments import COMPRESSED, closed_path, closed_segments, log_exists

_SYNC_ROWS = 200
_SYNC_SECONDS = 1.0
ONE_FILE = Rotation()


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run."""

    log: Path
    prompts: Path
    lock: Path

    @classmethod
    def of(cls, output_dir: str | Path, name: str) -> RunPaths:
        """Files of the run ``name`` under ``<output_dir>/runs``."""
        folder = Path(output_dir) / "runs"
        return cls(folder / f"{name}.jsonl", folder / f"{name}.prompts.z", folder / f"{name}.jsonl.lock")


class RunLog:
    """The append-only log of one run, locked for this process while open.

    Rows are handed to the operating system at once, their prompts before them, so a killed process loses
    none; inside an event loop the rows of one turn of the loop go out as one write. Both files are synced to
    the disk at least every second or 200 rows; what a power cut takes with it is simply run again. With a
    ``rotation`` the file is closed at a size and goes on in a new one; readers see one log.
    """

    def __init__(self, paths: RunPaths, *, overwrite: bool = False, rotation: Rotation = ONE_FILE) -> None:
        self.paths = paths
        self._rotation = rotation
        self._overwrite = overwrite
        self._lock = RunLock(paths.lock)
        self._lines: list[bytes] = []
        self._failure: LogError | None = None
        self._unsynced = 0
        self._synced_at = time.monotonic()

    @classmethod
    def of(cls, run: RunSection, *, overwrite: bool = False) -> RunLog:
        """The log of a profile's run, rotated as the profile says."""
        return cls(RunPaths.of(run.output_dir, run.name), overwrite=overwrite, rotation=Rotation.of(run))

    def __enter__(self) -> RunLog:
        self._lock.__enter__()
        try:
            if self._overwrite:
                self._set_aside()
            self._file = AppendFile(self.paths.log)
            self._repaired_bytes = self._file.repaired_bytes
            self.index = ResumeIndex.read(self.paths.log)
            self.prompts = PromptStore(self.paths.prompts)
            self._rotator = LogRotator(self.paths.log, self._rotation)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._failure is None:
                self.sync()
            elif error is None:
                raise self._failure
        finally:
            self.prompts.close()
            self._file.close()
            self._rotator.close()
            self._lock.__exit__(kind, error, trace)
        if error is None:
            self._rotator.check()

    @property
    def repaired_bytes(self) -> int:
        """Bytes of a torn last line that were cut off when the log was opened."""
        return self._repaired_bytes

    def append(self, row: RunRow, prompt: str | None = None) -> None:
        """Write one row, and its prompt if it is new."""
        text = None if prompt is None else (row.prompt.prompt_hash, prompt)
        self.append_line(row.run_id, encode_row(row), done=not row.errors, prompt=text)

    def append_line(
        self, run_id: str, line: bytes, *, done: bool, prompt: tuple[str, str] | None = None
    ) -> None:
        """Write one encoded row; ``done`` says that it has no error, ``prompt`` is its hash and text."""
        if self._failure is not None:
            raise self._failure
        if prompt is not None:
            self.prompts.add(*prompt)
        self._lines.append(line)
        if done:
            self.index.add(run_id)
        if len(self._lines) == 1:
            try:
                asyncio.get_running_loop().call_soon(self._write_in_loop)
            except RuntimeError:
                self._write()

    def sync(self) -> None:
        """Bring everything appended so far to the disk."""
        self._write()
        self.prompts.sync()
        self._file.sync()
        self._unsynced = 0
        self._synced_at = time.monotonic()

    def _write_in_loop(self) -> None:
        """Write what one turn of the event loop appended; a failure is raised by the next append."""
        try:
            self._write()
        except LogError as error:
            self._failure = error

    def _write(self) -> None:
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        self._file.write(b"".join(lines))
        self._unsynced += len(lines)
        if self._unsynced >= _SYNC_ROWS or time.monotonic() - self._synced_at >= _SYNC_SECONDS:
            self.sync()
        if self._rotator.is_due(self._file.size):
            self._rotate()

    def _rotate(self) -> None:
        """Close the live file and go on in a new one; every row so far is on the disk before it is renamed."""
        self.sync()
        self._file.close()
        try:
            self._rotator.close_live_file()
        finally:
            self._file = AppendFile(self.paths.log)

    def _set_aside(self) -> None:
        """Move an earlier log and its prompts out of the way under the next free number."""
        log = self.paths.log
        if not log_exists(log):
            return
        number = 1
        while log_exists(aside := log.with_suffix(f".old-{number}.jsonl")):
            number += 1
        for segment in closed_segments(log):
            target = closed_path(aside, segment.number)
            segment.path.rename(target.with_name(target.name + COMPRESSED) if segment.compressed else target)
        if log.exists():
            log.rename(aside)
        if self.paths.prompts.exists():
            self.paths.prompts.rename(aside.with_suffix(".prompts.z"))
