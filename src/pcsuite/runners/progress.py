"""Live progress of whatever asks a model, and where finished rows go."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from pcsuite._util.text import underlying_stream
from pcsuite.engines.adapters.base import Generation
from pcsuite.engines.limits import check_error_rate
from pcsuite.errors import ErrorRateError, PcsuiteError, RunStoppedError
from pcsuite.logging.log import RunLog
from pcsuite.logging.stop_request import is_asked_to_stop, offering_to_stop
from pcsuite.runners.drafts import FinishedRow

_LIVE_EVERY_S, _PLAIN_EVERY_S = 0.2, 10.0
_REQUEST_EVERY_S = 0.25
"""Seconds between two looks whether somebody asked the run to stop."""


MOST_ERRORS = 1_000


@dataclass(slots=True)
class Tally:
    """What a run has done so far."""

    total: int | None
    """``None`` where nobody can say how much there is to do, as in a search."""
    done: int = 0
    failed: int = 0
    lost: int = 0
    """Those of the failed that the model's server failed, whatever was asked."""
    cache_hits: int = 0
    stopped_scorers: int = 0
    """Rows whose scorer was ended because it took too long or too much; they score 0."""
    tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    """Rows whose cost is not known, and not in ``cost_usd``."""
    errors: list[str] = field(default_factory=list)
    """Why rows failed: the first :data:`MOST_ERRORS` of them."""


class Progress:
    """Shows a tally: a bar on a terminal and in a notebook, lines elsewhere; ``quiet`` shows nothing.

    ``unit`` is what is counted: rows, or the calls of whoever writes no rows.
    """

    def __init__(
        self, total: int | None, *, unit: str = "rows", quiet: bool = False, stream: TextIO | None = None
    ) -> None:
        self.tally = Tally(total)
        self._unit = unit
        self._stream = stream or sys.stderr
        self._started = time.monotonic()
        self._shown = self._started
        self._bar: Any = None
        self._task: Any = None
        self._handle: Any = None
        # Progress is information: a profile whose log_level is WARNING or ERROR goes without it.
        self.quiet = quiet or logging.getLogger("pcsuite").level > logging.INFO

    def __enter__(self) -> Progress:
        self._started = self._shown = time.monotonic()
        if not self.quiet and self._stream.isatty():
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                progress.TextColumn("left"),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.fields[facts]}"),
                console=Console(file=underlying_stream(self._stream)),
            )
            self._bar.start()
            self._task = self._bar.add_task("running", total=self.tally.total, facts="")
        elif not self.quiet and (display := _notebook_display()) is not None:
            self._handle = display(_NotebookBar(self), display_id=True)
        elif not self.quiet and self.tally.total != 0:
            # The first row of a local model may take minutes; silence would look like a standstill.
            print(f"{self._count()}, running", file=self._stream, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_live or (not self.quiet and self.tally.done):
            self._show()
        if self._bar is not None:
            self._bar.stop()

    def refresh(self) -> None:
        """Show the tally, unless it was shown a moment ago; for lines of plain text that is 10 seconds."""
        now = time.monotonic()
        if now - self._shown > (_LIVE_EVERY_S if self._is_live else _PLAIN_EVERY_S):
            self._show()
            self._shown = now

    def count_call(self, answer: Generation | None, cost_usd: float | None) -> None:
        """Count a call that makes no row; ``answer`` is ``None`` where it failed.

        A stored answer costs nothing now. Give it to a session as its ``watch``.
        """
        tally = self.tally
        tally.done += 1
        tally.failed += answer is None
        if answer is not None and answer.get("cache_hit", False):
            tally.cache_hits += 1
        elif answer is not None:
            tally.tokens += answer["usage"]["total_tokens"]
            tally.cost_usd += cost_usd or 0.0
            tally.unpriced += cost_usd is None
        if not self.quiet:
            self.refresh()

    def facts(self) -> str:
        """Rate, tokens, cost and failures in words.

        What is zero is left out, but for rate and tokens.
        """
        tally = self.tally
        seconds = max(time.monotonic() - self._started, 1e-9)
        parts = [_pace(tally.done / seconds, self._unit), f"{_short(tally.tokens)} tokens"]
        if tally.cost_usd:
            parts.append(f"${tally.cost_usd:.4f}")
        if tally.unpriced:
            parts.append("price unknown")
        if tally.cache_hits:
            parts.append(f"{tally.cache_hits} cached")
        if tally.failed:
            parts.append(f"{tally.failed} failed")
        if tally.stopped_scorers:
            parts.append(f"{tally.stopped_scorers} scorer out of time")
        return ", ".join(parts)

    def eta_seconds(self) -> float | None:
        """Seconds left at the pace so far.

        ``None`` before the first row, and where the total is not known.
        """
        tally = self.tally
        if not tally.done or tally.total is None:
            return None
        return (time.monotonic() - self._started) / tally.done * (tally.total - tally.done)

    def line(self) -> str:
        """All of it in one line: rows, facts, and the time left at the pace so far.

        ``120/400 rows, 8.1 rows/s, 52.3k tokens, 2 failed, about 0 min 35 s left``
        """
        left, eta = "", self.eta_seconds()
        if eta:
            minutes, seconds = divmod(round(eta), 60)
            span = (
                f"{minutes // 60} h {minutes % 60:02d} min"
                if minutes >= 60
                else f"{minutes} min {seconds:02d} s"
            )
            left = f", about {span} left"
        return f"{self._count()}, {self.facts()}{left}"

    def _count(self) -> str:
        tally = self.tally
        return f"{tally.done}{'' if tally.total is None else f'/{tally.total}'} {self._unit}"

    @property
    def _is_live(self) -> bool:
        """Whether there is a bar, which is redrawn in its place."""
        return self._bar is not None or self._handle is not None

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.tally.done, facts=self.facts())
        elif self._handle is not None:
            self._handle.update(_NotebookBar(self))
        else:
            print(self.line(), file=self._stream, flush=True)


class _NotebookBar:
    """The tally of a moment as a notebook shows it: a bar, or a line where only text is shown."""

    def __init__(self, progress: Progress) -> None:
        self._line = progress.line()
        total = progress.tally.total
        self._value = progress.tally.done
        self._most = max(progress.tally.done + 1 if total is None else total, 1)

    def __repr__(self) -> str:
        return self._line

    def _repr_html_(self) -> str:
        return f'<progress value="{self._value}" max="{self._most}"></progress> {escape(self._line)}'


def _notebook_display() -> Any:
    """IPython's ``display`` inside a notebook's kernel, else ``None``; nothing is imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return ipython.display.display if ipython is not None and hasattr(shell, "kernel") else None


def _pace(per_second: float, unit: str) -> str:
    """A rate by the span of time that makes it readable."""
    for span, seconds in (("s", 1), ("min", 60)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:.1f} {unit}/{span}"
    return f"{per_second * 3600:.1f} {unit}/h"


def _short(number: int) -> str:
    for limit, suffix in ((1_000_000, "M"), (1_000, "k")):
        if number >= limit:
            return f"{number / limit:.1f}{suffix}"
    return str(number)


class RowSink:
    """Where finished rows go: into the log, onto the progress display, into the judgement whether to go on.

    Once ``stop`` is set no further row should be begun. The progress may go on from what came before; the error rate is
    that of this sink's own rows.
    """

    def __init__(self, log: RunLog, progress: Progress, stop_on_error_rate: float) -> None:
        self.progress = progress
        self.stop: PcsuiteError | None = None
        self._log = log
        self._most_failed = stop_on_error_rate
        self.done = self.failed = 0

    def accept(self, row: FinishedRow) -> None:
        """Log and count one row; a row that is done already is left out.

        Asks for the end of the run where more rows failed than ``stop_on_error_rate`` allows.
        """
        if row.run_id in self._log.index:
            return
        failed = row.error is not None
        prompt = (row.prompt_hash, row.prompt) if row.prompt_hash else None
        self._log.append_line(row.run_id, row.line, done=not failed, prompt=prompt)
        self.done += 1
        self.failed += failed
        tally = self.progress.tally
        tally.done += 1
        tally.failed += failed
        tally.lost += row.lost
        tally.cache_hits += row.cache_hit
        tally.stopped_scorers += row.stopped_scorer
        tally.tokens += row.tokens
        tally.cost_usd += row.cost_usd or 0.0
        tally.unpriced += row.cost_usd is None
        if not self.progress.quiet:
            self.progress.refresh()
        if row.error is not None:
            if len(tally.errors) < MOST_ERRORS:
                tally.errors.append(row.error)
            try:
                check_error_rate(self.done, self.failed, self._most_failed, row.error)
            except ErrorRateError as error:
                self.halt(error)

    def halt(self, reason: PcsuiteError) -> None:
        """Ask for the end of the run; the first reason stays."""
        self.stop = self.stop or reason


@contextmanager
def halting_on_request(log: Path, sink: RowSink) -> Iterator[None]:
    """Ask the sink for the end of the run when somebody asks the run to stop, from its page say.

    For the loop that the run is in. Rows that are under way are finished.
    """
    loop = asyncio.get_running_loop()
    alarm: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal alarm
        if is_asked_to_stop(log):
            hint = "finished rows are kept; the same command (without --overwrite) goes on from here"
            sink.halt(RunStoppedError(f"run '{log.stem}' was asked to stop", hint=hint))
        else:
            alarm = loop.call_later(_REQUEST_EVERY_S, look)

    with offering_to_stop(log):
        look()
        try:
            yield
        finally:
            if alarm is not None:
                alarm.cancel()
