"""Auditing a log: what is in it that should not be, what is missing, and a mended copy of it.

A row carries a checksum of its own line (:func:`pcsuite.logging.row.encode_row`), so a line that something changed is
known, and not only one that can no longer be read. A repair writes a new log of all that is sound and keeps the old
one beside it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path

import msgspec

from pcsuite._util.append import AppendFile
from pcsuite._util.changes import changing_files, settle_changes
from pcsuite._util.files import next_free
from pcsuite._util.hashing import sha256_hex
from pcsuite.errors import LogError
from pcsuite.logging import segments
from pcsuite.logging.log import PromptStore, RunPaths, read_prompts
from pcsuite.logging.manifest import read_manifest
from pcsuite.logging.row import IMPORTED, RunRow, decode_row, line_is_sound
from pcsuite.logging.segments import Beside

MAX_NAMED = 20
"""Places that are named of each kind; all are counted."""
TORN, ALTERED, FOREIGN, DOUBLED = "torn", "altered", "foreign", "doubled"
_MEANING = {
    TORN: "cut off while it was written",
    ALTERED: "not as it was written: the checksum differs",
    FOREIGN: "not a row",
    DOUBLED: "a row that is there already",
}


@dataclass(slots=True)
class LogAudit:
    """What an audit of a log found."""

    log: Path
    lines: int = 0
    rows: int = 0
    """Sound rows, rows that newer ones replace included."""
    run_ids: int = 0
    failed: int = 0
    """Run ids whose newest row has an error; they are tried again when the run goes on."""
    unchecked: int = 0
    """Sound rows without a checksum: written by an earlier version."""
    damaged: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in _MEANING})
    """Places (file and line) by what is wrong there, the first twenty of each."""
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_MEANING, 0))
    broken_files: list[str] = field(default_factory=list)
    """Files that cannot be read to their end, and why."""
    rescued: list[Path] = field(default_factory=list)
    """Files of a session whose log was deleted or replaced."""
    prompts_missing: int = 0
    """Prompts of rows whose text is not in the prompt store, or is damaged there."""
    rows_missing: int | None = None
    """Rows of the plan without a finished row; ``None`` where no plan is known."""

    @property
    def problems(self) -> list[str]:
        """Everything that is wrong, a line each; empty for a sound log.

        Rows that are missing or failed are not among them: the run goes on with those.
        """
        problems = []
        for kind, count in self.counts.items():
            if count:
                where = ", ".join(self.damaged[kind]) + (", …" if count > len(self.damaged[kind]) else "")
                problems.append(f"{count} {kind} ({_MEANING[kind]}): {where}")
        problems += [f"cannot be read to its end: {entry}" for entry in self.broken_files]
        problems += [f"rows of a session whose log was deleted or replaced: {path}" for path in self.rescued]
        if self.prompts_missing:
            problems.append(f"{self.prompts_missing} prompts without their text")
        return problems

    def add_damaged(self, kind: str, where: str) -> None:
        """Count a damaged line, and name it where not too many were named."""
        self.counts[kind] += 1
        if len(self.damaged[kind]) < MAX_NAMED:
            self.damaged[kind].append(where)


def audit_log(paths: RunPaths, planned: set[str] | None = None) -> LogAudit:
    """Read a log with all its files, its prompts and its manifest, and say what is wrong with it.

    ``planned`` are the run ids of the plan; without them the manifest's number of planned rows is taken. Raises
    :class:`LogError` where there is neither a log nor a rescue file.
    """
    audit = LogAudit(paths.log)
    audit.rescued = [path for path in astuple(paths.rescue) if path.exists()]
    if not segments.log_exists(paths.log) and not audit.rescued:
        raise LogError(f"{paths.log}: no such log", hint="pcsuite run --config PROFILE writes it")
    newest: dict[str, bool] = {}
    prompts: set[str] = set()
    for _, row in _sound_rows(paths.log, audit, _EarlierRows()):
        newest[row.run_id] = not row.errors
        if (
            row.prompt.prompt_hash and row.pcsuite_version
        ):  # plain rows come without the texts of their prompts
            prompts.add(row.prompt.prompt_hash)
    audit.run_ids = len(newest)
    audit.failed = sum(not done for done in newest.values())
    audit.prompts_missing = len(prompts - _stored_prompts(paths.prompts, prompts).keys())
    done = {run_id for run_id, finished in newest.items() if finished}
    if planned is not None:
        audit.rows_missing = len(planned - done)
    else:
        try:
            manifest = read_manifest(paths.log)
        except LogError as error:
            audit.broken_files.append(error.message)
            manifest = None
        if manifest is not None and manifest.planned_rows:
            audit.rows_missing = max(0, manifest.planned_rows - len(done))
    return audit


def repair_log(paths: RunPaths) -> tuple[LogAudit, RunPaths]:
    """Write the log anew from its sound rows and those of a rescue file; the old files are kept under another name.

    Rows that are left out (torn, altered, doubled) are asked for again when the run goes on, where no other copy of
    them is there; foreign lines that are whole and have a run id stay. Returns what was found and where the old files
    are. Raises :class:`RunLockedError` where a run is writing the log, and :class:`LogError` where the new files cannot
    be written.
    """
    # The lock keeps runs out; a torn line stays, for it is among what the audit tells.
    settle_changes(segments.changes_of(paths.log))
    held = AppendFile(paths.log, locked=True, repair=False)
    try:
        audit = audit_log(paths)
        aside = _free_name(paths)
        with changing_files(segments.changes_of(paths.log)) as changes:
            # Prompts first: a log whose prompts are not there yet would look damaged.
            fresh_prompts, fresh_log = changes.stage(paths.prompts), changes.stage(paths.log)
            _write_sound(paths, RunPaths(fresh_log, fresh_prompts))
            # Second names, no moves: the old files stay where they are until the new ones take their place.
            closed = segments.closed_segments(paths.log)
            for segment in closed:
                target = segments.closed_path(aside.log, segment.number)
                kept = target.with_name(target.name + segments.COMPRESSED * segment.compressed)
                _link_or_copy(segment.path, changes.stage(kept))
                changes.remove(segment.path)
            both = [*zip(astuple(paths), astuple(aside), strict=True)]
            both.append((Beside.MANIFEST.of(paths.log), Beside.MANIFEST.of(aside.log)))
            for old, kept in both:
                if old.exists():
                    _link_or_copy(old, changes.stage(kept))
            for rescued, kept in zip(astuple(paths.rescue), astuple(aside.rescue), strict=True):
                if rescued.exists():
                    changes.move(rescued, kept)
    except OSError as error:
        raise LogError(f"{paths.log}: cannot be repaired ({error.strerror or error})") from error
    finally:
        held.close()
    return audit, aside


def _write_sound(paths: RunPaths, fresh: RunPaths) -> None:
    log = AppendFile(fresh.log)
    prompts = PromptStore(fresh.prompts)
    earlier = _EarlierRows()
    prompt_hashes: set[str] = set()
    try:
        for source in (paths.log, paths.rescue.log):
            for line, row in _sound_rows(source, LogAudit(source), earlier, foreign=log.write):
                log.write(line + b"\n")
                prompt_hashes.add(row.prompt.prompt_hash)
        for store in (paths.prompts, paths.rescue.prompts):
            for prompt_hash, text in sorted(_stored_prompts(store, prompt_hashes).items()):
                prompts.add(prompt_hash, text)
        prompts.sync()
        log.sync()
    finally:
        log.close()
        prompts.close()


def _sound_rows(
    log: Path, audit: LogAudit, earlier: _EarlierRows, foreign: Callable[[bytes], object] | None = None
) -> Iterator[tuple[bytes, RunRow]]:
    """The lines of a log that are as they were written, with their rows, each once; all else is noted in the audit.

    ``earlier`` knows the rows that came before. ``foreign`` is handed lines that are whole, have a run id and are no
    row of any form known here: somebody wrote them, and a repair is not to lose them.
    """
    for file, number, line, whole in _lines(log, audit):
        audit.lines += 1
        where = f"{file}:{number}"
        sound = line_is_sound(line)
        try:
            row = decode_row(line)
        except msgspec.MsgspecError:
            is_torn = not whole or (line.startswith(b'{"run_id"') and not _is_object(line))
            audit.add_damaged(TORN if is_torn else FOREIGN, where)
            if foreign is not None and b'"run_id"' in line and _is_object(line):
                foreign(line + b"\n")
            continue
        if sound is False:
            audit.add_damaged(ALTERED, where)
        elif earlier.has(row, line):
            audit.add_damaged(DOUBLED, where)
        else:
            audit.rows += 1
            audit.unchecked += sound is None
            yield line, row


class _EarlierRows:
    """Which rows came before, in about a hundred bytes a run id."""

    def __init__(self) -> None:
        self._marks: dict[bytes, bytes] = {}

    def has(self, row: RunRow, line: bytes) -> bool:
        """Whether a row is there already; one that is not is remembered.

        Rows of one run id are several where the newer one is scored anew or follows a failure. The same line, the
        same answer with the same score, and a second answer under one run id (somebody paid twice) are doubles. An
        importer replaces rows that changed in the other tool's log, so there only the same line is.
        """
        key = _mark(row.run_id.encode())
        # Eight zero bytes stand for "no answer yet".
        known = self._marks.get(key, bytes(8))
        marks, answer = [_mark(line)], known[:8]
        if row.generation is not None and not row.errors and not row.profile.startswith(IMPORTED):
            generation = msgspec.json.encode(row.generation)
            marks.append(_mark(generation + msgspec.json.encode([row.parsed, row.metrics])))
            answer = _mark(generation)
            if known[:8] not in (bytes(8), answer):
                return True
        if any(mark == known[at : at + 8] for mark in marks for at in range(8, len(known), 8)):
            return True
        self._marks[key] = answer + known[8:] + b"".join(marks)
        return False


def _is_object(line: bytes) -> bool:
    """Whether a line is a whole JSON object: nothing of it was cut off, whatever it is."""
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def _mark(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8).digest()


def _lines(log: Path, audit: LogAudit) -> Iterator[tuple[str, int, bytes, bool]]:
    """File name, number and content of each line over all files of a log, and whether the line has its end."""
    for segment in segments.log_segments(log):
        number, rest = 0, b""
        try:
            with segment.open() as stream:
                while block := stream.read(1 << 20):
                    *lines, rest = (rest + block).split(b"\n")
                    for line in lines:
                        number += 1
                        yield segment.path.name, number, line, True
        except (OSError, EOFError, zlib.error) as error:
            audit.broken_files.append(f"{segment.path.name} ({error})")
        if rest:
            yield segment.path.name, number + 1, rest, False


def _stored_prompts(store: Path, hashes: set[str]) -> dict[str, str]:
    """Texts of the wanted prompts that are in a store and are what their hash says."""
    texts = read_prompts(store, hashes, skip_damaged=True)
    return {key: text for key, text in texts.items() if sha256_hex(text) == key}


def _free_name(paths: RunPaths) -> RunPaths:
    def occupied(log: Path) -> bool:
        files = RunPaths.beside(log)
        return segments.log_exists(log) or files.prompts.exists() or files.rescue.log.exists()

    return RunPaths.beside(
        next_free(lambda number: paths.log.with_name(f"{paths.log.stem}.old-{number}.jsonl"), occupied)
    )


def _link_or_copy(path: Path, target: Path) -> None:
    """A second name for a file, or a copy where the file system has no second names."""
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)
