"""The download script against a stand-in for curl: nothing of it needs the network."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "download_datasets.sh"


@pytest.fixture
def download(tmp_path: Path):
    """Run the script (with replaced text, if given) with a curl that writes ``content`` to its output."""

    def run(
        content: str, *arguments: str, replace: tuple[str, str] = ("", "")
    ) -> subprocess.CompletedProcess[str]:
        tools = tmp_path / "bin"
        tools.mkdir(exist_ok=True)
        curl = tools / "curl"
        curl.write_text(
            "#!/bin/sh\n"
            'echo "$@" >> "$CALLS"\n'
            '[ "$CONTENT" = refuse ] && exit 22\n'
            'while [ "$1" != --output ]; do shift; done\n'
            'printf %s "$CONTENT" > "$2"\n',
            encoding="utf-8",
        )
        curl.chmod(0o755)
        script = tmp_path / "download.sh"
        text = SCRIPT.read_text(encoding="utf-8")
        script.write_text(text.replace(*replace) if replace[0] else text, encoding="utf-8")
        environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "CONTENT": content,
            "CALLS": str(tmp_path / "calls"),
        }
        return subprocess.run(
            ["bash", str(script), str(tmp_path / "originals"), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_a_file_that_is_not_the_published_one_is_named_and_thrown_away(download, tmp_path):
    done = download("other content", "svamp")
    assert done.returncode == 1
    assert "missing: svamp/SVAMP.json" in done.stderr
    assert "its sha256 differs" in done.stderr
    assert list((tmp_path / "originals" / "svamp").iterdir()) == []


def test_a_refused_download_is_named(download):
    done = download("refuse", "gsm8k")
    assert done.returncode == 1
    assert done.stderr.count("missing: gsm8k/") == 2


def test_a_short_answer_is_named(download):
    done = download("tiny", "nq_open")
    assert "answered with less than 5000000 bytes" in done.stderr


def test_a_checked_file_is_kept_and_not_fetched_twice(download, tmp_path):
    pinned = re.search(r"SVAMP\.json\" \\\n +([0-9a-f]{64})", SCRIPT.read_text(encoding="utf-8"))
    assert pinned is not None
    replace = (pinned[1], hashlib.sha256(b"the file").hexdigest())
    first = download("the file", "svamp", replace=replace)
    assert (first.returncode, first.stderr) == (0, "")
    assert (tmp_path / "originals" / "svamp" / "SVAMP.json").read_text(encoding="utf-8") == "the file"
    second = download("the file", "svamp", replace=replace)
    assert "have   svamp/SVAMP.json" in second.stdout
    assert len((tmp_path / "calls").read_text(encoding="utf-8").splitlines()) == 1


def test_unknown_datasets_are_refused(download):
    done = download("x", "swamp")
    assert done.returncode == 2
    assert "unknown dataset 'swamp'" in done.stderr
