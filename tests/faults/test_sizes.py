"""Things that are larger than they should be: one clear line each, and memory stays bounded."""

import json
import subprocess
import sys
import threading
import tracemalloc
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pcsuite._util.http import MAX_RESPONSE_BYTES
from pcsuite.ablation.study import prepare
from pcsuite.config.yaml_source import YamlSource
from pcsuite.data import table_files
from pcsuite.engines.adapters.base import Decoding
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.engines.weights import fetch_url
from pcsuite.errors import ConfigError, DataError, EngineError
from pcsuite.importers import documents
from pcsuite.importers.base import FORMATS, ReadOptions
from support.ablating import request_in, write_inputs
from support.import_logs import FIXTURES, repacked

D0 = Decoding("d0", 0.0, 1.0, 20)


class Flood(BaseHTTPRequestHandler):
    """Says how much it will send, or does not, and then sends without end."""

    declared: int | None = None
    most = 1 << 30

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_GET(self):
        self.send_response(200)
        if self.declared is not None:
            self.send_header("Content-Length", str(self.declared))
        self.end_headers()
        block, sent = b"x" * (1 << 20), 0
        try:
            while sent < self.most:
                self.wfile.write(block)
                sent += len(block)
        except OSError:
            pass  # the client has had enough
        type(self).sent = sent

    def log_message(self, *arguments):
        pass


@pytest.fixture
def flood(request):
    handler = type("Handler", (Flood,), {"declared": request.param})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", handler
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("flood", [None, 1 << 30], indirect=True, ids=["undeclared", "declared"])
def test_a_response_of_a_gigabyte(flood):
    url, _ = flood
    adapter = OpenAIAdapter("m", OpenAIOptions(base_url=f"{url}/v1"))
    tracemalloc.start()
    with pytest.raises(EngineError, match="more than 16 MiB and was not read") as caught:
        adapter.generate("hello", D0, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not caught.value.retryable
    assert peak < 6 * MAX_RESPONSE_BYTES


@pytest.mark.parametrize("flood", [None], indirect=True)
def test_a_download_past_its_stated_length(flood, tmp_path):
    url, _ = flood
    with pytest.raises(EngineError, match="sends more than the 3000000 bytes"):
        fetch_url(f"{url}/model.gguf", tmp_path / "whole", 3_000_000, lambda done, total: None)
    assert (tmp_path / "whole").stat().st_size <= 3_000_000


@pytest.mark.slow
def test_an_eval_log_that_unpacks_to_gigabytes(tmp_path, monkeypatch):
    bomb = tmp_path / "bomb.eval"

    def swell(name, data):
        return b" " * (8 << 20) if name.startswith("samples/") else data

    repacked(FIXTURES / "inspect_c0.eval", bomb, swell)
    assert bomb.stat().st_size < 1 << 20
    monkeypatch.setattr(documents, "LARGEST_PIECE", 4 << 20)
    with pytest.raises(DataError, match=r"has 8 MiB; more than 4 are not read"):
        FORMATS.get("inspect").open(bomb, ReadOptions())


def test_a_member_that_lies_about_its_size(tmp_path):
    path = tmp_path / "lie.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("header.json", b" " * (1 << 20))
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.index(mark) + offset
        data[at : at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    members = documents.ZipMembers(path)
    try:
        with pytest.raises(DataError, match="is damaged"):
            members.read("header.json")
    finally:
        members.close()


def test_a_json_log_whose_one_sample_is_everything(tmp_path, monkeypatch):
    content = json.loads((FIXTURES / "odd.json").read_text())
    content["samples"][0]["input"] = "x" * (5 << 20)
    (tmp_path / "big.json").write_text(json.dumps(content))
    monkeypatch.setattr(documents, "LARGEST_PIECE", 4 << 20)
    with pytest.raises(DataError, match="more than 4 are not read"):
        FORMATS.get("inspect").open(tmp_path / "big.json", ReadOptions())


def test_a_configuration_of_many_megabytes(tmp_path):
    path = tmp_path / "profile.yaml"
    path.write_bytes(b"a: b\n" + b"#" * (17 << 20))
    with pytest.raises(ConfigError, match="more than 16 MiB"):
        YamlSource.read(path)


# A large table of which few items are asked.


@pytest.mark.parametrize("by_id", [False, True])
def test_the_items_asked_of_a_large_table_are_those_of_the_whole_one(tmp_path, monkeypatch, by_id):
    request = request_in(tmp_path, 600, limit=20)
    if by_id:
        lines = (tmp_path / "tickets.csv").read_text().splitlines()
        numbered = [f"{line},n{number}" for number, line in enumerate(lines[1:])]
        (tmp_path / "tickets.csv").write_text("\n".join([f"{lines[0]},id", *numbered]) + "\n")
        request = replace(request, id_column="id")
    whole = [(item.item_id, item.input_text, item.truth) for item in prepare(request).items]
    monkeypatch.setattr(table_files, "LARGE_TABLE", 300)
    monkeypatch.setattr(table_files, "KEPT_ROWS", 200)
    few = prepare(request)
    assert [(item.item_id, item.input_text, item.truth) for item in few.items] == whole
    assert len(few.task.items) == 200
    assert "200 items drawn from the csv's rows" in few.task.reading
    assert len(prepare(replace(request, limit=100)).task.items) == 600  # too many to be sure of


def test_the_last_line_of_a_large_table_is_still_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "LARGE_TABLE", 100)
    request = request_in(tmp_path, 300, limit=10)
    with (tmp_path / "tickets.csv").open("a") as stream:
        stream.write("one,two,three\n")
    with pytest.raises(DataError, match="line 302: expected 2 columns, found 3"):
        prepare(request)


@pytest.mark.slow
def test_a_large_table_with_a_small_limit_takes_little_memory(tmp_path):
    """Of 300,000 rows 20 are asked: the rest costs reading, not keeping."""
    prompt, _ = write_inputs(tmp_path, 1)
    table = tmp_path / "large.csv"
    with table.open("w") as stream:
        stream.write("text,queue\n")
        for number in range(300_000):
            stream.write(
                f"ticket {number} with words enough to be a line of ordinary length {number * 7},{number % 3}\n"
            )
    words = [
        str(prompt),
        "--data",
        str(table),
        "--answer",
        "queue",
        "--model",
        "simulated",
        "--limit",
        "20",
        "--show",
    ]
    measured = subprocess.run(
        [sys.executable, "-c", MEASURED, "ablate", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert int(measured.stdout.split()[-1]) < 400_000, "kilobytes"  # all rows as items: more than 700,000


MEASURED = """
import sys
from pathlib import Path
from pcsuite.cli import main
assert main(sys.argv[1:]) == 0
# Not ru_maxrss: a child begins with that of the process that started it.
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().split("\\n") if line.startswith("VmHWM")))
"""
