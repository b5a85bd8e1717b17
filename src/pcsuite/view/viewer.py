"""The runs of an output folder, opened as pages ask for them; opening a large log does not keep a page waiting."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from pcsuite.analysis.load.parts import written_bytes
from pcsuite.config.load import Suite
from pcsuite.errors import ConfigError, PcsuiteError, did_you_mean
from pcsuite.logging.segments import log_segments
from pcsuite.view.data import OpenRun
from pcsuite.view.runs import RunEntry, Summaries, list_runs, refreshed

MAX_WAIT_S = 1.5
"""Seconds after which a page says that a log is still being read, instead of letting a browser wait."""
LOOKED_INTO = 64 << 20
"""Bytes of a log from which on its beginning is shown while the rest is read for the first time."""
BEGINNING = 8 << 20
"""Bytes of log that are its beginning."""


class StillReading(PcsuiteError):
    """A log is being read for the first time, and it takes longer than a page should wait."""

    def __init__(self, entry: RunEntry, seconds: float, share: float | None = None) -> None:
        super().__init__(f"run '{entry.name}' is being read for the first time")
        self.entry, self.seconds = entry, seconds
        self.share = share
        """About how much of the log has been read, where that is known."""


class Viewer:
    """The runs of an output folder, opened as they are asked for.

    With ``max_wait`` (seconds) :meth:`run` raises :class:`StillReading` where opening takes longer, and goes on in a
    thread of its own.
    """

    def __init__(
        self,
        output_dir: Path,
        suite: Suite | None = None,
        evals: Path | None = None,
        *,
        max_wait: float | None = None,
    ) -> None:
        self.output_dir = Path(output_dir)
        self.evals = evals
        """Folder of the verifier's evals, where there is one to look at."""
        self.summaries = Summaries(self.output_dir)
        self._suite = suite
        self._max_wait = max_wait
        self._closed = False
        self._lock = threading.Lock()
        self._known: dict[str, RunEntry] = {}
        self._open: dict[str, OpenRun] = {}
        self._reading: dict[str, tuple[float, Future[OpenRun]]] = {}
        self._beginnings: dict[str, OpenRun] = {}
        self._looked = threading.Condition(self._lock)
        self._places: list[TemporaryDirectory[str]] = []
        """Where the tables of beginnings lie; they go with the viewer."""

    def entries(self) -> list[RunEntry]:
        """The runs that are there now, the newest first."""
        entries = list_runs(self.output_dir)
        self._known = {entry.name: entry for entry in entries}
        return entries

    def entry(self, name: str) -> RunEntry:
        """A run by name as it stood when the folder was last listed; a ``ConfigError`` where it is not there now."""
        entry = self._known.get(name)
        if entry is None or not log_segments(entry.log):
            self.entries()
            entry = self._known.get(name)
        if entry is None:
            with self._lock:
                gone = self._open.pop(name, None)
            if gone is not None:
                gone.close()
            raise ConfigError(
                f"there is no run '{name}' in {self.output_dir}", hint=did_you_mean(name, list(self._known))
            )
        return entry

    def run(self, name: str) -> OpenRun:
        """A run by name, read on where its log has grown; a ``ConfigError`` where there is none.

        While more is read of a run that is open, it is shown as it was.
        """
        entry = self.entry(name)
        with self._lock:
            opened = self._open.get(name)
            if name not in self._reading and (opened is None or opened.is_behind):
                self._reading[name] = (time.monotonic(), self._start_reading(entry, opened))
            started, future = self._reading.get(name, (0.0, None))
        if future is not None:
            try:
                opened = future.result(self._max_wait)
            except StillWaiting:
                if opened is None:
                    raise StillReading(entry, time.monotonic() - started, self.read_share(entry)) from None
                return opened
            except BaseException:
                self._reading.pop(name, None)
                raise
            self._reading.pop(name, None)
        assert opened is not None
        return opened

    def beginning(self, name: str) -> OpenRun:
        """A run as :meth:`run` gives it, or the beginning of a large log while that is read for the first time."""
        entry, until = self.entry(name), time.monotonic() + (self._max_wait or 0.0)
        with self._looked:
            if self._max_wait is not None and name not in self._open:
                if name not in self._reading:
                    self._reading[name] = (time.monotonic(), self._start_reading(entry, None))
                future = self._reading[name][1]
                while name not in self._beginnings and not future.done():
                    if (left := until - time.monotonic()) <= 0:
                        break
                    self._looked.wait(left)
                if not future.done() and name in self._beginnings:
                    return self._beginnings[name]
        return self.run(name)

    def read_share(self, entry: RunEntry) -> float | None:
        """About how much of a log has become Parquet, judged by what its beginning became."""
        first = self._beginnings.get(entry.name)
        if first is None:
            return None
        whole = written_bytes(first.folder, entry.log) / first.share
        return min(written_bytes(self._folder(entry), entry.log) / whole, 0.99) if whole else None

    def _folder(self, entry: RunEntry) -> Path:
        return self.output_dir / "view" / entry.name

    def _look_into(self, entry: RunEntry) -> None:
        """Open the beginning of a large log of which nothing was read yet; where that fails, reading all says why."""
        if entry.size < LOOKED_INTO or (self._folder(entry) / "runs.parquet").is_file():
            return
        place = TemporaryDirectory(prefix="pcsuite-view-")
        first = None
        with suppress(Exception):  # a full disk, say
            first = OpenRun(entry, Path(place.name), self._suite, beginning=BEGINNING)
        with self._looked:
            if first is not None and not self._closed:
                self._beginnings[entry.name] = first
                self._places.append(place)
                self._looked.notify_all()
                return
        if first is not None:
            first.close()
        place.cleanup()

    def _start_reading(self, entry: RunEntry, opened: OpenRun | None) -> Future[OpenRun]:
        """Open a run, or read on, in a thread that does not keep the process alive: Ctrl-C may come at any time."""
        future: Future[OpenRun] = Future()

        def work() -> None:
            try:
                if opened is None and self._max_wait is not None:
                    self._look_into(entry)
                future.set_result(self._read(entry, opened))
            except BaseException as error:  # whoever waits for it gets it
                future.set_exception(error)
            with self._looked:
                self._looked.notify_all()

        threading.Thread(target=work, name=f"pcsuite-view-{entry.name}", daemon=True).start()
        return future

    def _read(self, entry: RunEntry, opened: OpenRun | None) -> OpenRun:
        # The stamp of before: what is written meanwhile is no part of the summary.
        before = refreshed(entry)
        if opened is None:
            opened = OpenRun(entry, self._folder(entry), self._suite)
            with self._lock:
                self._open[entry.name] = opened
        else:
            opened.refresh()
        if self._closed:
            opened.close()
            raise ConfigError(f"run '{entry.name}' was closed")
        self.summaries.put(before, opened.summary())
        return opened

    def close(self) -> None:
        """Close what is open; what is still being read is not waited for."""
        self._closed = True
        with self._lock:
            runs, self._open = list(self._open.values()), {}
            first, self._beginnings = list(self._beginnings.values()), {}
        for run in (*runs, *first):
            run.close()
        while self._places:
            self._places.pop().cleanup()
