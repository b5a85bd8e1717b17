"""``pcsuite view``: what it refuses, and that it serves until it is stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from pcsuite.cli import main
from support.synthetic_log import make_row, write_log


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["view", "--output-dir", "DIR/none"], "there is no run in"),
        (["view", "nope", "--output-dir", "DIR"], "there is no run 'nope'"),
        (["view", "--host", "0.0.0.0", "--output-dir", "DIR"], "say --token SECRET too"),
        (["view", "--port", "1", "--host", "127.0.0.1", "--output-dir", "DIR", "--port", "99999999"], "port"),
    ],
)
def test_what_cannot_be_served_is_one_line(words, problem, tmp_path, capsys):
    pytest.importorskip("uvicorn", reason="the extra 'view' is not installed")
    write_log(tmp_path / "runs" / "mine.jsonl", [make_row()])
    assert main([word.replace("DIR", str(tmp_path)) for word in words]) == 2
    assert problem in capsys.readouterr().err


def test_it_serves_a_run_until_it_is_interrupted(tmp_path):
    pytest.importorskip("uvicorn", reason="the extra 'view' is not installed")
    write_log(tmp_path / "runs" / "mine.jsonl", [make_row(item="the-item")])
    code = "import sys; from pcsuite.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "view", "mine", "--output-dir", str(tmp_path), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=60) as answer:
            assert "the-item" in answer.read().decode()
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) in (0, 130)
