"""``<run>.spent.jsonl`` beside a log: what a run has spent, start by start, so that its limits hold over all of them.

Every start of a command that asks models for the log appends lines of its own. A line says what the start had spent
and what was under way, and is written before the calls that it covers: whatever ends the process, what it may have
used is in the file. A start that ends in order writes what it spent to the token, and that nothing is under way; of
one that was killed the last line counts as it stands. Lines carry a checksum (CRC-32) of what comes before it.
"""

from __future__ import annotations

import io
import logging
import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import msgspec

from pcsuite._util.append import AppendFile, read_lines
from pcsuite._util.text import utc_now
from pcsuite.config.profile import LimitsSection
from pcsuite.engines.limits import Budget
from pcsuite.errors import LogError
from pcsuite.logging.segments import Beside

_LOGGER = logging.getLogger("pcsuite")
_SLACK = 0.01
"""Share of what is spent by which a line is ahead of it: a long run writes a line a hundred times in all, not a call.
"""
_TIME_EVERY_S = 1.0


class SpentLine(msgspec.Struct, frozen=True, kw_only=True):
    """What one start had spent when the line was written."""

    start: int
    """Number of the start, from 1."""
    at_utc: str
    tokens: int = 0
    cost_usd: float = 0.0
    under_way_tokens: int = 0
    """What calls may take that were under way, and a little more; 0 at an orderly end."""
    under_way_cost_usd: float = 0.0
    calls: int = 0
    failed: int = 0
    """Those of the calls that failed; what they may have used counts."""
    estimated: int = 0
    """Those whose server reported no usage: their tokens are estimated."""
    unpriced: int = 0
    """Calls, those under way included, of which nobody knew what they cost or may cost."""
    dearest_usd: float | None = None
    """Most that a call without a price had said it cost."""
    seconds: float = 0.0
    """How long the start had lasted."""
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    """The limits that held."""
    ended: bool = False


class Spent(msgspec.Struct, frozen=True):
    """What all starts of a run have spent."""

    starts: list[SpentLine] = []
    """The last line of each."""
    damaged: int = 0
    """Lines that are not as they were written."""

    @property
    def tokens(self) -> int:
        """Tokens, those included that were under way where a start was killed."""
        return sum(line.tokens + line.under_way_tokens for line in self.starts)

    @property
    def cost_usd(self) -> float:
        """US dollars, likewise; calls of unknown cost count as much as the dearest that said what it cost."""
        known = sum(line.cost_usd + line.under_way_cost_usd for line in self.starts)
        return known + (self.dearest_usd or 0.0) * sum(line.unpriced for line in self.starts)

    @property
    def dearest_usd(self) -> float | None:
        """Most that a call without a price said it cost; ``None`` where none did."""
        said = [line.dearest_usd for line in self.starts if line.dearest_usd is not None]
        return max(said, default=None)

    @property
    def unpriced(self) -> int:
        """Calls that may have cost anything, since none has ever said what it cost."""
        return 0 if self.dearest_usd is not None else sum(line.unpriced for line in self.starts)

    @property
    def seconds(self) -> float:
        """How long all starts lasted together."""
        return sum(line.seconds for line in self.starts)

    def words(self) -> str:
        """``12,000 tokens, $0.2600, 340 calls (2 failed, 4 of estimated size) in 3 starts, 1 of them killed``."""
        calls, failed = (sum(getattr(line, name) for line in self.starts) for name in ("calls", "failed"))
        estimated = sum(line.estimated for line in self.starts)
        notes = [f"{failed} failed"] * bool(failed) + [f"{estimated} of estimated size"] * bool(estimated)
        notes += [f"{self.unpriced} of unknown cost"] * bool(self.unpriced)
        about = f" ({', '.join(notes)})" if notes else ""
        killed = sum(not line.ended for line in self.starts)
        starts = f"{len(self.starts)} start{'' if len(self.starts) == 1 else 's'}"
        starts += f", {killed} of them not ended in order" if killed else ""
        cost = f", ${self.cost_usd:.4f}" if self.cost_usd else ""
        return f"{self.tokens:,} tokens{cost}, {calls} calls{about} in {starts}"


def read_spent(log: Path) -> Spent:
    """What the starts of a log's run have spent; nothing where it has no ledger.

    Lines that are torn or altered are passed over and counted: each line repeats what those before it said.
    """
    newest: dict[int, SpentLine] = {}
    damaged = 0
    for line in read_lines(Beside.SPENT.of(log)):
        entry = _sound_line(line)
        if entry is None:
            damaged += 1
        else:
            newest[entry.start] = entry
    return Spent(list(newest.values()), damaged)


def _sound_line(line: bytes) -> SpentLine | None:
    """A line of a ledger; ``None`` where it is torn or altered."""
    body, _, rest = line.rpartition(b',"checksum":"')
    if rest != b'%08x"}' % zlib.crc32(body):
        return None
    try:
        return msgspec.json.decode(body + b"}", type=SpentLine)
    except msgspec.MsgspecError:
        return None


_TAIL_BYTES = 4096
"""More than a line of a ledger has."""


def last_start_ended(log: Path) -> bool:
    """Whether the last start of a log's run came to an orderly end, by the last line of its ledger alone.

    ``False`` while it goes on, where it was killed, and where there is no ledger that can be read.
    """
    try:
        with Beside.SPENT.of(log).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, io.SEEK_END) - _TAIL_BYTES))
            last = stream.read().rstrip(b"\n").rpartition(b"\n")[2]
    except OSError:
        return False
    entry = _sound_line(last)
    return entry is not None and entry.ended


class Ledger:
    """The ledger of a run, open for one start; it is told by the start's budget, before calls are made."""

    def __init__(self, log: Path, budget: Budget) -> None:
        self.earlier = read_spent(log)
        self._path = Beside.SPENT.of(log)
        self._budget = budget
        self._number = max((line.start for line in self.earlier.starts), default=0) + 1
        self._began = time.monotonic()
        self._written_at = self._began
        self._claimed = (0.0, 0.0)
        self._claimed_unpriced = 0
        self._writing = threading.Lock()
        self._file = AppendFile(self._path)
        if not self._file.is_alone():
            self._number += os.getpid()  # another start is under way and may not have written its number yet

    def claim(self, tokens: int, cost_usd: float, unpriced: int = 0) -> None:
        """See that the file covers what was spent and is under way now: tokens, US dollars, calls of unknown cost.

        Raises :class:`LogError` where it cannot be written: nothing is spent that nobody knows of.
        """
        now = time.monotonic()
        covered = tokens <= self._claimed[0] and cost_usd <= self._claimed[1] + 1e-12
        if covered and unpriced <= self._claimed_unpriced and now - self._written_at < _TIME_EVERY_S:
            return
        slack = 1.0 + _SLACK
        ahead = (int(tokens * slack), cost_usd * slack)
        # Never ahead of a limit: a start that is killed must not have used up what it did not.
        limits = (self._budget.max_tokens, self._budget.max_cost_usd)
        before = (self._budget.earlier_tokens, self._budget.earlier_cost_usd)
        with self._writing:
            self._claimed = tuple(  # type: ignore[assignment]
                max(exact, claimed if limit is None else min(claimed, limit - other))
                for exact, claimed, limit, other in zip(
                    (tokens, cost_usd), ahead, limits, before, strict=True
                )
            )
            self._claimed_unpriced = unpriced
            self._written_at = now
            self._write(ended=False)

    def beat(self) -> None:
        """Write how long the start has lasted, where that was not written for a while; from any thread.

        A call may take many minutes, and a start that is killed meanwhile has lasted as long as its last line says.
        """
        now = time.monotonic()
        if now - self._written_at >= max(_TIME_EVERY_S, _SLACK * (now - self._began)):
            with self._writing:  # no line may come after a newer one that says more
                self._written_at = now
                self._write(ended=False)

    def close(self) -> None:
        """Write what was spent to the token; what is still under way counts as spent."""
        spent = self._budget.spent_here
        self._claimed = (spent.tokens + spent.reserved_tokens, spent.cost_usd + spent.reserved_cost_usd)
        self._claimed_unpriced = spent.unpriced + spent.reserved_unpriced
        self._write(ended=True)
        self._file.sync()
        self._file.close()

    def _write(self, *, ended: bool) -> None:
        spent = self._budget.spent_here
        line = SpentLine(
            start=self._number,
            at_utc=utc_now(),
            tokens=spent.tokens,
            cost_usd=round(spent.cost_usd, 12),
            under_way_tokens=max(0, int(self._claimed[0]) - spent.tokens),
            under_way_cost_usd=round(max(0.0, self._claimed[1] - spent.cost_usd), 12),
            calls=spent.calls,
            failed=spent.failed,
            estimated=spent.estimated,
            unpriced=max(spent.unpriced, self._claimed_unpriced) if spent.dearest_usd is None else 0,
            dearest_usd=spent.dearest_usd,
            seconds=round(time.monotonic() - self._began, 3),
            max_tokens=self._budget.max_tokens,
            max_cost_usd=self._budget.max_cost_usd,
            ended=ended,
        )
        body = msgspec.json.encode(line)[:-1]
        self._file.write(b'%b,"checksum":"%08x"}\n' % (body, zlib.crc32(body)))


@contextmanager
def counting(log: Path, budget: Budget | None, limits: LimitsSection) -> Iterator[Ledger | None]:
    """Let a budget go on from what earlier starts of a log's run have spent, and write what this one spends.

    The limits are those of the profile (``limits``) as they are now; where one was changed since the last start, or
    lines of the ledger are damaged, a line says so in figures. Without a budget (calls are made elsewhere) nothing is
    written.
    """
    if budget is None:
        yield None
        return
    ledger = Ledger(log, budget)
    earlier = ledger.earlier
    budget.earlier_tokens, budget.earlier_cost_usd = earlier.tokens, earlier.cost_usd
    budget.dearest_usd, budget.earlier_unpriced = earlier.dearest_usd, earlier.unpriced
    if earlier.damaged:
        _LOGGER.warning(
            "%s: %d lines are not as written and count for nothing", Beside.SPENT.of(log), earlier.damaged
        )
    if earlier.starts:
        _say_changed(earlier, limits)
    budget.claim = ledger.claim
    try:
        with _beating(ledger) if limits.run_hours is not None else nullcontext():
            yield ledger
    finally:
        budget.claim = None
        ledger.close()


@contextmanager
def _beating(ledger: Ledger) -> Iterator[None]:
    """Have a ledger say every now and then how long its start has lasted, whatever holds up the calls."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_TIME_EVERY_S):
            try:
                ledger.beat()
            except LogError as error:
                _LOGGER.warning("%s; the time of this start may not count in full", error)
                return

    thread = threading.Thread(target=beat, name="ledger", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _say_changed(earlier: Spent, limits: LimitsSection) -> None:
    """Say in figures which limit is another than at the last start."""
    last = earlier.starts[-1]
    tokens, cost = limits.max_tokens_overall, limits.max_cost_usd
    if tokens != last.max_tokens and (last.max_tokens is not None or tokens is not None):
        _LOGGER.warning(
            "limits.max_tokens_overall was %s and is %s: earlier starts have spent %s tokens of it",
            _figure(last.max_tokens), _figure(tokens), f"{earlier.tokens:,}",
        )  # fmt: skip
    if cost != last.max_cost_usd and (last.max_cost_usd is not None or cost is not None):
        _LOGGER.warning(
            "limits.max_cost_usd was %s and is %s: earlier starts have spent $%.4f of it",
            _figure(last.max_cost_usd), _figure(cost), earlier.cost_usd,
        )  # fmt: skip


def _figure(limit: float | None) -> str:
    return "not set" if limit is None else f"{limit:,}"
