"""The runs of an output folder: which are there, how far each has come, and what came out of it.

An overview of thousands of runs must answer at once, so a folder is listed once, a manifest is read again only when its
file has changed, and what came out of a run is remembered in one file for all of them.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pcsuite._util.append import split_lines
from pcsuite._util.files import is_held, replace_atomically
from pcsuite.errors import LogError
from pcsuite.logging.ledger import last_start_ended
from pcsuite.logging.manifest import ModelNote, RunManifest
from pcsuite.logging.row import line_is_sound
from pcsuite.logging.scored_rows import ScoredRow
from pcsuite.logging.segments import Beside, log_segments

RUNNING_SECONDS = 15
"""A log written to this lately belongs to a run in progress."""
LARGEST_SUMMED = 64 << 20
"""Bytes of a log that the overview reads through; what came out of a larger one is known once it was opened."""
_FILE = re.compile(r"(?P<run>[^~]+(?:~rescue)?)(?:~(?P<part>\d{4,}))?\.jsonl(?P<gz>\.gz)?")


class RunNote(msgspec.Struct, frozen=True):
    """The part of a manifest that the overview shows; the rest is skipped, for there may be thousands."""

    profile: str = ""
    tasks: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    models: dict[str, ModelNote] = msgspec.field(default_factory=dict)
    conditions: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    planned_rows: int = 0
    blocks: dict[str, dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


_NOTES = msgspec.json.Decoder(RunNote)


class RunEntry(NamedTuple):
    """A run in the overview."""

    name: str
    log: Path
    manifest: RunNote
    size: int
    modified: datetime

    @property
    def ablation(self) -> Path | None:
        """What an ablation found (``ablation.json``), where the run is one that has ended."""
        result = self.log.parent.parent / "ablation.json"
        return result if self.log.parent.parent.parent.name == "ablations" and result.is_file() else None

    @property
    def is_live(self) -> bool:
        """Whether its ledger does not say that the run has ended, and the log was written to in the last seconds.

        A log that a process holds counts as written to, where the system says so: an answer may take minutes.
        """
        lately = (datetime.now(timezone.utc) - self.modified).total_seconds() < RUNNING_SECONDS
        return not last_start_ended(self.log) and (lately or is_held(self.log))

    @property
    def stamp(self) -> str:
        """Changes with the log."""
        return f"{self.size}:{self.modified.timestamp()}"


class RunTotals(msgspec.Struct, frozen=True):
    """What came out of a run as a whole: its main rows, the newest of each key."""

    rows: int = 0
    failed: int = 0
    score: float | None = None
    """Mean over the answered rows of all tasks, models and conditions."""
    tokens: int = 0
    cost_usd: float | None = None
    """``None`` where the price of a model is not known."""

    def state(self, entry: RunEntry) -> str:
        """Where a run stands: running, finished, stopped at a share of its plan, no rows, or ended (without a plan)."""
        planned = planned_rows(entry.manifest)
        share = self.rows / planned if planned else 1.0
        if entry.is_live:
            return f"running, {min(share, 1.0):.0%}" if planned else "running"
        if not self.rows:
            return "no rows"
        if not planned:
            return "ended"
        return "finished" if share >= 1 else f"stopped at {min(int(share * 100), 99)} %"

    def progress(self, entry: RunEntry) -> float | None:
        """The share of its plan that a run in progress has done; ``None`` where it has ended or has no plan."""
        planned = planned_rows(entry.manifest)
        return min(self.rows / planned, 1.0) if planned and entry.is_live else None


def planned_rows(manifest: RunManifest | RunNote) -> int:
    """Rows that a run is to have, its further blocks included; 0 where no manifest says so."""
    blocks = manifest.blocks if isinstance(manifest.blocks, dict) else {}
    return manifest.planned_rows + sum(int(block.get("planned_rows") or 0) for block in blocks.values())


def list_runs(output_dir: Path) -> list[RunEntry]:
    """The runs of an output folder, ablations among them, the newest first.

    One whose manifest cannot be read comes with an empty one. An ablation that shares its name with a run is called
    ``NAME~ablation``, which no run can be.
    """
    folder = Path(output_dir)
    entries: dict[str, RunEntry] = {}
    for runs in [folder / "runs", *folder.glob("ablations/*/runs")]:
        for log, note, size, newest in _logs(runs):
            name = log.stem if log.stem not in entries else f"{log.stem}~ablation"
            entries[name] = RunEntry(name, log, note, size, datetime.fromtimestamp(newest, timezone.utc))
    return sorted(entries.values(), key=lambda entry: (entry.modified, entry.name), reverse=True)


def refreshed(entry: RunEntry) -> RunEntry:
    """A run as its log stands now."""
    stats = [segment.path.stat() for segment in log_segments(entry.log)]
    newest = max((stat.st_mtime for stat in stats), default=0.0)
    size = sum(stat.st_size for stat in stats)
    return entry._replace(size=size, modified=datetime.fromtimestamp(newest, timezone.utc))


def _logs(folder: Path) -> Iterator[tuple[Path, RunNote, int, float]]:
    """The logs of a folder with what their manifests say, their size and when they were last written to.

    All files of a log count together; one look into the folder serves them all.
    """
    sizes: dict[str, dict[tuple[str, bool], tuple[int, float]]] = {}
    notes: dict[str, tuple[int, int, int]] = {}
    ending = Beside.MANIFEST.of(Path("x.jsonl")).name[1:]
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match = _FILE.fullmatch(entry.name)
                with suppress(OSError):  # a part that was just compressed
                    if entry.name.endswith(ending):
                        stat = entry.stat()
                        notes[entry.name.removesuffix(ending)] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
                    elif entry.name.endswith(Beside.SPENT.value):
                        continue
                    elif match is not None and (match["part"] or not match["gz"]):
                        stat = entry.stat()
                        files = sizes.setdefault(match["run"], {})
                        files[match["part"] or "", bool(match["gz"])] = (stat.st_size, stat.st_mtime)
    except OSError:
        return
    for name, files in sizes.items():
        # Of a part that is there both plain and compressed, the plain one counts.
        kept = [stat for (part, packed), stat in files.items() if not (packed and (part, False) in files)]
        log = folder / f"{name}.jsonl"
        note = _note_as_of(log, notes[name]) if name in notes else RunNote()
        yield log, note, sum(size for size, _ in kept), max(time for _, time in kept)


@lru_cache(maxsize=16384)
def _note_as_of(log: Path, stamp: tuple[int, int, int]) -> RunNote:
    """What a manifest says as its file stood at ``stamp``; nothing where it cannot be read."""
    try:
        return _NOTES.decode(Beside.MANIFEST.of(log).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return RunNote()


def cost_of(manifest: RunManifest | RunNote, tokens: Mapping[str, tuple[float, float]]) -> float | None:
    """US dollars of prompt and answer tokens by model; ``None`` where a model's price is not known.

    >>> from pcsuite.logging.manifest import ModelNote
    >>> cost_of(RunManifest(models={"m": ModelNote(price_in=1.0, price_out=2.0)}), {"m": (500_000, 250_000)})
    1.0
    """
    total = 0.0
    for model, (asked, answered) in tokens.items():
        note = manifest.models.get(model)
        if note is None or note.price_in is None or note.price_out is None:
            return None
        total += (asked * note.price_in + answered * note.price_out) / 1e6
    return total if tokens else None


class Summaries:
    """What came out of each run of a folder, remembered in ``view/summaries.json`` until its log changes."""

    def __init__(self, output_dir: Path) -> None:
        self._path = Path(output_dir) / "view" / "summaries.json"
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, RunTotals]] = {}
        with suppress(OSError, msgspec.MsgspecError):
            self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, tuple[str, RunTotals]])

    def get(self, entry: RunEntry) -> RunTotals | None:
        """What is known of a run as its log stands."""
        stamp, summary = self._known.get(entry.name, ("", None))
        return summary if stamp == entry.stamp else None

    def put(self, entry: RunEntry, summary: RunTotals) -> None:
        """Remember what came out of a run."""
        with self._lock:
            self._known[entry.name] = (entry.stamp, summary)
            self._write()

    def fill(self, entries: Sequence[RunEntry], seconds: float) -> None:
        """Read the logs of runs that nothing is known of, the smallest first, for about so many seconds."""
        until = time.monotonic() + seconds
        unknown = [entry for entry in entries if self.get(entry) is None and entry.size <= LARGEST_SUMMED]
        for entry in sorted(unknown, key=lambda entry: entry.size):
            if time.monotonic() > until:
                break
            with suppress(LogError, OSError):
                totals = sum_log(entry)
                with self._lock:
                    self._known[entry.name] = (entry.stamp, totals)
        if unknown:
            with self._lock:
                self._write()

    def _write(self) -> None:
        with suppress(OSError):  # a folder that may only be read: they are read again next time
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_atomically(self._path, msgspec.json.encode(self._known))


class _Named(msgspec.Struct):
    id: str = ""


class _SummedRow(ScoredRow):
    """The part of a row that a summary is made of; everything else is skipped without making objects."""

    model: _Named = msgspec.field(default_factory=_Named)
    kind: str = "main"


def sum_log(entry: RunEntry) -> RunTotals:
    """Read a log through for what came out of it; lines that cannot be read or were altered are passed over.

    Raises ``LogError`` where its files are not those of a log.
    """
    decode = msgspec.json.Decoder(_SummedRow).decode
    newest: dict[str, tuple[str, bool, float | None, int, int]] = {}
    for segment in log_segments(entry.log):
        with segment.open() as stream:
            for line in split_lines(stream):
                try:
                    row = decode(line)
                except msgspec.MsgspecError:
                    continue
                if line_is_sound(line) is False:
                    continue
                if row.kind != "main":
                    continue
                usage = row.generation.usage if row.generation else None
                value = row.metrics.get("task_score")
                score = float(value) if isinstance(value, (int, float)) and not row.errors else None
                spent = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
                newest[row.run_id] = (row.model.id, bool(row.errors), score, *spent)
    scores = [score for _, _, score, _, _ in newest.values() if score is not None]
    tokens: dict[str, tuple[float, float]] = {}
    for model, _, _, asked, answered in newest.values():
        before = tokens.get(model, (0, 0))
        tokens[model] = (before[0] + asked, before[1] + answered)
    return RunTotals(
        rows=len(newest),
        failed=sum(failed for _, failed, _, _, _ in newest.values()),
        score=sum(scores) / len(scores) if scores else None,
        tokens=int(sum(sum(pair) for pair in tokens.values())),
        cost_usd=cost_of(entry.manifest, tokens),
    )
