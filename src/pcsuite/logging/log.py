"""A run's log: appending without losing a row or writing it twice, reading it back, and knowing what is done."""

from __future__ import annotations

import base64
import hashlib
import logging
import math
import re
import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from pcsuite._util.append import AppendFile, read_lines
from pcsuite._util.changes import changing_files, settle_changes
from pcsuite._util.files import next_free
from pcsuite.config.profile import RunSection
from pcsuite.errors import CallOutcome, LogError
from pcsuite.logging import segments
from pcsuite.logging.row import RunRow, UsageRecord, decode_row, encode_row, line_is_sound, outcome_of

_LOGGER = logging.getLogger("pcsuite")
_HASH_CHARS = 64
_HEX_ID = re.compile(r"[0-9a-fA-F]{32}")
_STORED = re.compile(rb"[0-9a-f]{64} [A-Za-z0-9+/]+=*\Z")
_MAX_NAMED = 20
_MAX_BUCKET_BITS = 24
_SYNC_ROWS = 200
_SYNC_SECONDS = 1.0
ONE_FILE = segments.Rotation()


class PromptStore:
    """The prompt file of a run, open for appending: raw prompts, kept once per hash, compressed.

    The file has one line per prompt: its sha256, a blank, and the zlib-compressed text in base64. Like the log it
    only grows, and a line is one write, so whatever ends the process leaves whole lines behind.
    """

    def __init__(self, path: Path) -> None:
        self.file = AppendFile(path)
        # A line that is no prompt's is left alone: the log check names it, and its prompt is kept anew.
        self._known = {bytes.fromhex(line[:32].decode()) for line in read_lines(path) if _STORED.match(line)}

    def add(self, prompt_hash: str, text: str) -> None:
        """Keep a prompt, unless it is there already.

        ``prompt_hash`` is the sha256 (hex) of the text. Raises :class:`LogError` where it cannot be written.
        """
        key = bytes.fromhex(prompt_hash[:32])
        if key in self._known:
            return
        body = base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 3))
        self.file.write(prompt_hash.encode("ascii") + b" " + body + b"\n")
        self._known.add(key)

    def sync(self) -> None:
        self.file.sync()

    def close(self) -> None:
        self.file.close()


def read_prompts(path: Path, prompt_hashes: Iterable[str], *, skip_damaged: bool = False) -> dict[str, str]:
    """The texts of the wanted prompt hashes, by hash; those that the file does not have are left out.

    Raises :class:`LogError` where a wanted prompt is damaged, unless ``skip_damaged``: then it is left out as well.
    """
    hashes = {prompt_hash.encode("ascii") for prompt_hash in prompt_hashes}
    texts: dict[str, str] = {}
    for line in read_lines(path):
        if line[:_HASH_CHARS] in hashes:
            try:
                data = zlib.decompress(base64.b64decode(line[_HASH_CHARS + 1 :]))
                text = data.decode("utf-8", "surrogatepass")
            except (ValueError, zlib.error) as error:
                if skip_damaged:
                    continue
                raise LogError(f"{path}: a stored prompt is damaged ({error})") from error
            texts[line[:_HASH_CHARS].decode("ascii")] = text
            if len(texts) == len(hashes):
                break
    return texts


class RowKey(msgspec.Struct):
    """The part of a row that the index reads; everything else is skipped without making objects."""

    run_id: str
    errors: list[Any]


class _ScoredGeneration(msgspec.Struct):
    finish_reason: str = ""
    latency_ms: float | None = None
    usage: UsageRecord | None = None
    steps: int | None = None
    tool_calls: int = 0


class _ScoredAnswer(msgspec.Struct):
    answer: str | None = None
    reading: str = ""


class _ScoredCheck(msgspec.Struct, frozen=True):
    """Whether a check held, and of which block it is."""

    passed: bool = False
    block: str = ""


class _ScoredName(msgspec.Struct, frozen=True):
    """One of several scores that a scorer gave by name."""

    value: float = math.nan


class ScoredRow(RowKey):
    """The part of a row that it is judged by: a few hundred bytes, whatever was asked and answered."""

    generation: _ScoredGeneration | None = None
    parsed: _ScoredAnswer | None = None
    metrics: dict[str, Any] = msgspec.field(default_factory=dict)
    outcome: str = ""
    checks: dict[str, _ScoredCheck] = msgspec.field(default_factory=dict)
    scores: dict[str, _ScoredName] = msgspec.field(default_factory=dict)

    @property
    def became(self) -> CallOutcome:
        """What became of the call; of rows of earlier versions, which do not say it, concluded from how they ended."""
        if self.outcome:
            return cast(CallOutcome, self.outcome)
        if self.errors or self.generation is None:
            return "failed"
        return outcome_of(self.generation.finish_reason)


_ID_HEAD, _ERRORS = b'{"run_id":"', b'"errors":['
_KEY, _SCORED = msgspec.json.Decoder(RowKey), msgspec.json.Decoder(ScoredRow)


class LoggedScores:
    """A metric of a log's rows by run id, for who judges while the log is open.

    Given to a :class:`RunLog` it is handed every line once: those that the log has when it is opened, then each that
    is appended. The newest row of an id counts. Who needs more of the rows overrides :meth:`keep`.
    """

    def __init__(self, metric: str = "task_score") -> None:
        self.metric = metric
        self.values: dict[str, float] = {}
        """By run id; rows that failed or lack the metric have none."""

    def take(self, line: bytes) -> ScoredRow:
        """Decode a row and keep what is needed of it.

        Raises :class:`msgspec.MsgspecError` on a line that is no row.
        """
        row = _SCORED.decode(line)
        self.keep(row)
        return row

    def keep(self, row: ScoredRow) -> None:
        """Keep what is needed of a row, in place of what an earlier row of its id had."""
        value = row.metrics.get(self.metric)
        if isinstance(value, (bool, int, float)) and not row.errors:
            self.values[row.run_id] = float(value)
        else:
            self.values.pop(row.run_id, None)


class ResumeIndex:
    """Which rows of a plan are done: the run ids whose newest row has no error.

    16 bytes each, sorted, plus a set of what came since; ``run_id in index`` takes the same time at any size.
    """

    def __init__(self, keys: bytes | bytearray = b"", failed: frozenset[bytes] = frozenset()) -> None:
        pairs = np.frombuffer(keys, dtype=">u8").astype(np.uint64).reshape(-1, 2)
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
        if len(pairs):
            fresh = np.ones(len(pairs), dtype=bool)
            fresh[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
            pairs = pairs[fresh]
        self._count = len(pairs)
        self._sorted = pairs.astype(">u8").tobytes()
        # Ids are hashes, so their first bits spread them evenly: a bucket for each of those holds one or two.
        self._shift = 64 - max(1, min(_MAX_BUCKET_BITS, len(pairs).bit_length()))
        edges = np.arange((1 << (64 - self._shift)) + 1, dtype=np.uint64)
        buckets = pairs[:, 0] >> np.uint64(self._shift)
        self._starts = array("I", np.searchsorted(buckets, edges).astype(np.uintc).tobytes())
        self._failed = set(failed)
        self._added: set[bytes] = set()
        self.rows = 0
        """Rows read from the log."""
        self.malformed: list[int] = []
        """The first line numbers that could not be read."""
        self.malformed_count = 0
        self.altered: list[int] = []
        """The first line numbers of rows that are not as they were written; they count as not there."""
        self.altered_count = 0

    def __contains__(self, run_id: str) -> bool:
        key = _key_of(run_id)
        if key in self._added:
            return True
        if key in self._failed:
            return False
        if not self._count:
            return False
        bucket = int.from_bytes(key[:8], "big") >> self._shift
        for index in range(self._starts[bucket], self._starts[bucket + 1]):
            if self._sorted[16 * index : 16 * index + 16] == key:
                return True
        return False

    def __len__(self) -> int:
        return self._count + len(self._added)

    @property
    def failed(self) -> int:
        """Rows whose newest try ended in an error; they are tried again.

        Rows that were done since do not count.
        """
        return len(self._failed - self._added)

    def add(self, run_id: str) -> None:
        self._added.add(_key_of(run_id))

    @classmethod
    def read(cls, path: Path, decode: Callable[[bytes], RowKey] = _KEY.decode) -> ResumeIndex:
        """Index a log over all its files; malformed and altered lines are counted and named, never fatal.

        Two rows of one id count once; the newest decides whether it is done. ``decode`` reads a line, for who wants
        more of it than the index does.
        """
        keys = bytearray()
        failed: dict[bytes, bool] = {}
        rows = malformed_count = altered_count = 0
        malformed: list[int] = []
        altered: list[int] = []
        key_alone = decode == _KEY.decode
        for number, line in enumerate(segments.read_log_lines(path), start=1):
            sound = line_is_sound(line)
            if sound is False and _is_whole(line):
                altered_count += 1
                if len(altered) < _MAX_NAMED:
                    altered.append(number)
                continue
            # A line that has its checksum at its end is as our encoder wrote it: the id stands at its head, and no
            # record after the errors has a list of that name. This takes a quarter of the time of decoding the line.
            if key_alone and sound and line.startswith(_ID_HEAD) and (at := line.rfind(_ERRORS)) > 0:
                key, has_errors = bytes.fromhex(line[11:43].decode("ascii")), line[at + 10 : at + 11] != b"]"
            else:
                try:
                    row = decode(line)
                    key, has_errors = _key_of(row.run_id), bool(row.errors)
                except (msgspec.MsgspecError, ValueError, RecursionError):
                    malformed_count += 1
                    if len(malformed) < _MAX_NAMED:
                        malformed.append(number)
                    continue
            rows += 1
            if has_errors:
                failed[key] = True
            else:
                keys += key
                if key in failed:
                    failed[key] = False
        index = cls(keys, frozenset(key for key, state in failed.items() if state))
        index.rows, index.malformed, index.malformed_count = rows, malformed, malformed_count
        index.altered, index.altered_count = altered, altered_count
        return index


def _key_of(run_id: str) -> bytes:
    """The 16 bytes that an index knows a row by: the beginning of its hash, or a hash of an id that is none."""
    if _HEX_ID.match(run_id):
        return bytes.fromhex(run_id[:32])
    return hashlib.blake2b(run_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _is_whole(line: bytes) -> bool:
    """Whether a line whose checksum differs is a row at all, and no torn or foreign line."""
    try:
        _KEY.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False
    return True


def warn_of_altered(path: Path, count: int, lines: Sequence[int], consequence: str) -> None:
    """Say once that rows of a log are not as they were written, and what follows; nothing where there is none.

    ``lines`` are the first of their numbers, ``consequence`` what becomes of them (``left out``).
    """
    if count:
        named = ", ".join(map(str, lines)) + (", …" if count > len(lines) else "")
        what = "row is" if count == 1 else "rows are"
        _LOGGER.warning(
            "%s: %d %s not as written (the checksum differs; line %s): %s. pcsuite log check says more",
            path, count, what, named, consequence,
        )  # fmt: skip


def iter_rows(path: Path, malformed: list[int] | None = None) -> Iterator[RunRow]:
    """Every readable row in file order, rows that newer ones replace included.

    Rows that are not as they were written are left out, with a warning that counts them. Numbers of unreadable lines
    (from 1) are appended to ``malformed``. Raises :class:`LogError` where there is no log.
    """
    _check_log(path)
    altered: list[int] = []
    for number, line in enumerate(segments.read_log_lines(path), start=1):
        try:
            row = decode_row(line)
        except msgspec.MsgspecError:
            if malformed is not None:
                malformed.append(number)
            continue
        if line_is_sound(line) is False:
            altered.append(number)
        else:
            yield row
    warn_of_altered(path, len(altered), altered[:_MAX_NAMED], "left out")


def newest_rows(path: Path, malformed: list[int] | None = None) -> list[RunRow]:
    """The newest row of each run id, in order of first appearance; all of them in memory.

    Numbers of unreadable lines (from 1) are appended to ``malformed``. Raises :class:`LogError` where there is no
    log.
    """
    rows: dict[str, RunRow] = {}
    for row in iter_rows(path, malformed):
        rows[row.run_id] = row
    return list(rows.values())


def iter_newest_rows(path: Path) -> Iterator[RunRow]:
    """The newest row of each run id in file order, holding a few bytes a row: the log is read twice.

    Rows that are appended meanwhile are not seen, and those that are not as they were written are left out with a
    warning. Raises :class:`LogError` where there is no log.
    """
    _check_log(path)
    keys, numbers = bytearray(), array("Q")
    altered: list[int] = []
    for number, line in enumerate(segments.read_log_lines(path)):
        try:
            key = hashlib.blake2b(decode_row(line).run_id.encode(), digest_size=16).digest()
        except msgspec.MsgspecError:
            continue
        if line_is_sound(line) is False:
            altered.append(number + 1)
            continue
        keys += key
        numbers.append(number)
    warn_of_altered(path, len(altered), altered[:_MAX_NAMED], "left out")
    pairs = np.frombuffer(keys, dtype=np.uint64).reshape(-1, 2)
    lines = np.frombuffer(numbers, dtype=np.uint64)
    # By run id, then by line: the last of each id is its newest row.
    order = np.lexsort((lines, pairs[:, 1], pairs[:, 0]))
    ordered = pairs[order]
    is_last = np.ones(len(order), dtype=bool)
    is_last[:-1] = (ordered[1:] != ordered[:-1]).any(axis=1)
    newest = iter(np.sort(lines[order[is_last]]).tolist())
    upcoming = next(newest, None)
    for number, line in enumerate(segments.read_log_lines(path)):
        if upcoming is None:
            return
        if number == upcoming:
            upcoming = next(newest, None)
            yield decode_row(line)


def logged_rows(log: Path, run_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Rows by run id as the log has them, the newest of each; those that were altered are left out.

    Reads the log through, once for all of them; not at all for none.
    """
    ids, rows = {name.encode() for name in run_ids}, {}
    for segment in segments.log_segments(log) if ids else ():
        with segment.open() as stream:
            for line in stream:
                # A line begins {"run_id":"…; one that was altered is none of the rows that pages show.
                if line[11:75] in ids and line_is_sound(line.removesuffix(b"\n")) is not False:
                    with suppress(msgspec.DecodeError):
                        rows[line[11:75].decode("ascii")] = dict(msgspec.json.decode(line))
    return rows


def _check_log(path: Path) -> None:
    if not segments.log_exists(path):
        raise LogError(f"{path}: no such log", hint="pcsuite run --config PROFILE writes it")


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run."""

    log: Path
    prompts: Path

    @classmethod
    def of(cls, output_dir: str | Path, name: str) -> RunPaths:
        """Files of the run ``name`` under ``<output_dir>/runs``; none of them need be there.

        RunPaths.of("outputs", "quickstart").log  # outputs/runs/quickstart.jsonl
        """
        folder = Path(output_dir) / "runs"
        return cls.beside(folder / f"{name}.jsonl")

    @classmethod
    def beside(cls, log: Path) -> RunPaths:
        """The files of a log by its own path."""
        return cls(log, segments.Beside.PROMPTS.of(log))

    @property
    def rescue(self) -> RunPaths:
        """Where a run goes on whose files were deleted or replaced while it was writing them.

        ``pcsuite log check --repair`` puts the rows back from there.
        """
        return RunPaths.beside(self.log.with_name(f"{self.log.stem}{segments.PART_MARK}rescue.jsonl"))


class RunLog:
    """The append-only log of one run, locked for this process while open: a row is never lost or written twice.

    Rows are handed to the operating system at once, their prompts before them, so a killed process loses
    none; inside an event loop the rows of one turn of the loop go out as one write. Both files are synced to
    the disk at least every second or 200 rows; what a power cut takes with it is simply run again. With a
    ``rotation`` the file is closed at a size and goes on in a new one; readers see one log. ``overwrite`` moves an
    earlier log and all that lies beside it (:class:`~pcsuite.logging.segments.Beside`) aside under the next free
    number. ``scores`` are handed every row: those that are there, and each that is appended.

        with RunLog(RunPaths.of("outputs", "mine")) as log:
            if row.run_id not in log.index:
                log.append(row, prompt)
    """

    def __init__(
        self,
        paths: RunPaths,
        *,
        overwrite: bool = False,
        rotation: segments.Rotation = ONE_FILE,
        scores: LoggedScores | None = None,
    ) -> None:
        self.paths = paths
        self.scores = scores
        self._rotation = rotation
        self._overwrite = overwrite
        self._lines: list[bytes] = []
        self._failure: LogError | None = None
        self._rescued: list[Path] = []
        self._unsynced = 0
        self._synced_at = time.monotonic()
        self._syncer = ThreadPoolExecutor(1, "log-sync")
        self._syncing: Future[None] | None = None

    @classmethod
    def of(cls, run: RunSection, *, overwrite: bool = False, scores: LoggedScores | None = None) -> RunLog:
        """The log of a profile's run, rotated as the profile says.

        It is opened, and locked, when it is entered. ``overwrite`` sets an earlier log of the name aside; ``scores``
        are handed every row.
        """
        paths, rotation = RunPaths.of(run.output_dir, run.name), segments.Rotation.of(run)
        return cls(paths, overwrite=overwrite, rotation=rotation, scores=scores)

    def __enter__(self) -> RunLog:
        # Going on beside these would ask for their rows a second time.
        waiting = [str(path) for path in astuple(self.paths.rescue) if path.exists()]
        if waiting:
            raise LogError(
                f"{', '.join(waiting)}: rows of a session whose log was deleted or replaced",
                hint=f"pcsuite log check {self.paths.log} --repair puts them back; or delete the file",
            )
        with ExitStack() as opened:
            self._file = self._open_settled()
            opened.callback(lambda: self._file.close())
            # What a start that was killed offered is no word of this one.
            segments.Beside.STOP.of(self.paths.log).unlink(missing_ok=True)
            if self._overwrite:
                self._set_aside()
            self.repaired_bytes = self._file.repaired_bytes
            """Bytes of a torn last line that were cut off when the log was opened."""
            decode = _KEY.decode if self.scores is None else self.scores.take
            self.index = index = ResumeIndex.read(self.paths.log, decode)
            again = "counted as not there"
            warn_of_altered(self.paths.log, index.altered_count, index.altered, again)
            self.prompts = PromptStore(self.paths.prompts)
            opened.callback(self.prompts.close)
            self._rotator = segments.LogRotator(self.paths.log, self._rotation)
            # All is open: from here on it is closed by __exit__.
            opened.pop_all()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if self._failure is None:
                self.sync()
            elif error is None:
                raise self._failure
        finally:
            self._syncer.shutdown()
            self.prompts.close()
            self._rotator.close()
            self._file.close()  # last: with it the lock goes
        if error is None:
            self._rotator.check()
            if self._rescued:
                kept = " and ".join(str(path) for path in self._rescued)
                raise LogError(
                    f"{self.paths.log}: was deleted or replaced while the run wrote it; all its rows are in {kept}",
                    hint=f"pcsuite log check {self.paths.log} --repair puts them back",
                )

    def append(self, row: RunRow, prompt: str | None = None) -> None:
        """Write one row, and its prompt if it is new.

        Raises :class:`LogError` where it cannot be written; the log then ends with the last whole row.
        """
        text = None if prompt is None else (row.prompt.prompt_hash, prompt)
        self.append_line(row.run_id, encode_row(row), done=not row.errors, prompt=text)

    def append_line(
        self, run_id: str, line: bytes, *, done: bool, prompt: tuple[str, str] | None = None
    ) -> None:
        """Write one encoded row; ``done`` says that it has no error, ``prompt`` is its hash and text.

        For rows that another process encoded. Raises :class:`LogError` where an earlier write failed.
        """
        if self._failure is not None:
            raise self._failure
        if prompt is not None:
            self.prompts.add(*prompt)
        self._lines.append(line)
        if done:
            self.index.add(run_id)
        if len(self._lines) == 1:
            import asyncio  # a report reads logs and needs no event loop

            try:
                asyncio.get_running_loop().call_soon(partial(self._write, in_loop=True))
            except RuntimeError:
                self._write()
        if self.scores is not None:
            self.scores.take(line)

    def sync(self) -> None:
        """Bring everything appended so far to the disk.

        Called when the log is closed; while it is open a thread does it at least every second or 200 rows. Raises
        :class:`LogError` where the disk refuses.
        """
        self._write()
        self._start_sync()
        self._finish_sync()

    def _start_sync(self) -> None:
        """Sync in a thread: the disk may take long, and calls to models need not wait for it."""
        self._finish_sync()
        self._unsynced = 0
        self._synced_at = time.monotonic()
        file, prompts = self._file, self.prompts

        def both() -> None:
            prompts.sync()
            file.sync()

        self._syncing = self._syncer.submit(both)

    def _finish_sync(self) -> None:
        """Take what the sync under way found, if there is one; raises what it raised.

        Where the log or the prompts are no longer at their place the run goes on in other files.
        """
        syncing, self._syncing = self._syncing, None
        if syncing is None:
            return
        syncing.result()
        for file in (self._file, self.prompts.file):
            if file.displaced:
                lost, rescue = file.path, self.paths.rescue
                target = rescue.log if file is self._file else rescue.prompts
                file.move_to(target)
                self._rescued.append(target)
                _LOGGER.warning("%s was deleted or replaced: the run goes on in %s", lost, target)

    def _write(self, *, in_loop: bool = False) -> None:
        """Write what was appended since; ``in_loop`` nobody can take an error, so the next append raises it."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        try:
            if self._syncing is not None and self._syncing.done():
                self._finish_sync()
            self._file.write(b"".join(lines))
            self._unsynced += len(lines)
            if self._unsynced >= _SYNC_ROWS or time.monotonic() - self._synced_at >= _SYNC_SECONDS:
                self._start_sync()
            if self._file.size >= self._rotator.limit_bytes and not self._rescued:
                self.sync()  # every row so far is on the disk before the file is renamed
                if not self._rescued:
                    closed = self._file
                    self._rotator.close_live_file()
                    self._file = AppendFile(self.paths.log, locked=True)
                    closed.close()  # only now: until then its lock keeps others out
        except LogError as error:
            self._failure = error
            if not in_loop:
                raise

    def _open_settled(self) -> AppendFile:
        """The live file, locked at a moment when nobody is changing the log as a whole."""
        journal = segments.changes_of(self.paths.log)
        while True:
            settle_changes(journal)
            file = AppendFile(self.paths.log, locked=True)
            if not journal.exists():
                return file
            file.close()

    def _set_aside(self) -> None:
        """Give what the log has had so far, and all that lies beside it, the next free name; the log begins anew."""
        log = self.paths.log
        closed = segments.closed_segments(log)
        with_it = [what for what in segments.Beside if what.of(log).exists()]
        if not closed and not self._file.size and not with_it:
            return

        def occupied(path: Path) -> bool:
            return segments.log_exists(path) or any(what.of(path).exists() for what in segments.Beside)

        aside = next_free(lambda number: log.with_suffix(f".old-{number}.jsonl"), occupied)
        old = self._file
        try:
            with changing_files(segments.changes_of(log)) as changes:
                for segment in closed:
                    target = segments.closed_path(aside, segment.number)
                    ending = segments.COMPRESSED if segment.compressed else ""
                    changes.move(segment.path, target.with_name(target.name + ending))
                for what in with_it:
                    changes.move(what.of(log), what.of(aside))
                changes.move(log, aside)
        except OSError as error:
            raise LogError(f"{log}: cannot be set aside ({error.strerror})") from error
        self._file = AppendFile(log, locked=True)
        old.close()
