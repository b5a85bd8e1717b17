"""A profile from a stranger brings a program along: it is said, can be left alone, and is asked about once."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from pcsuite._util import code
from pcsuite.cli import main
from pcsuite.errors import Exit
from support.own_task import SCORER, write_own_profile

LOOKING = (
    ("config", "check", "{profile}"),
    ("plan", "--config", "{profile}"),
    ("prompt", "tickets", "C0", "--config", "{profile}"),
)


@pytest.fixture
def stranger(tmp_path):
    """A profile whose scorer leaves a trace when it is executed."""
    profile = write_own_profile(tmp_path, count=12)
    (tmp_path / "my_scorer.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'trace')!r}).write_text('x')\n{SCORER}"
    )
    return profile


def trace(profile):
    path = profile.with_name("trace")
    content = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return content


@pytest.mark.parametrize("words", LOOKING, ids=lambda words: words[0])
def test_what_looks_at_a_profile_says_what_it_executes(stranger, capsys, words):
    typed = [word.format(profile=stranger) for word in words]
    assert main(typed) == Exit.DONE
    shown = capsys.readouterr()
    line = f"pcsuite: executes {stranger.with_name('my_scorer.py')} (--no-code does without)"
    assert shown.err.splitlines().count(line) == 1
    assert line not in shown.out
    assert trace(stranger)
    assert main([*typed, "--no-code"]) == Exit.DONE
    without = capsys.readouterr()
    assert not trace(stranger)
    assert "executes" not in without.err
    assert without.out == shown.out  # what is printed does not depend on it


def test_a_mistake_in_the_code_is_no_matter_without_it(stranger, capsys):
    stranger.with_name("my_scorer.py").write_text("this is no Python")
    assert main(["plan", "--config", str(stranger)]) == Exit.BAD_INPUT
    assert main(["plan", "--config", str(stranger), "--no-code"]) == Exit.DONE


def on_a_terminal(words, answer, folder, home):
    """Run a command with a terminal of its own, answering its question; its status and all it printed."""
    main_end, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pcsuite", *words],
        stdin=other_end, stdout=subprocess.DEVNULL, stderr=other_end, cwd=folder,
        env={**os.environ, "XDG_CONFIG_HOME": str(home)},
    )  # fmt: skip
    os.close(other_end)
    told, answered, deadline = b"", False, time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([main_end], [], [], 0.1)[0]:
            try:
                block = os.read(main_end, 4096)
            except OSError:  # the other end is closed
                break
            told += block
        if b"[y/N]" in told and not answered:
            os.write(main_end, answer + b"\n")
            answered = True
        if process.poll() is not None and not select.select([main_end], [], [], 0.2)[0]:
            break
    status = process.wait(timeout=30)
    os.close(main_end)
    return status, told.decode(), answered


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_code_from_outside_the_project_is_asked_about_once(stranger, tmp_path_factory):
    mine, home = tmp_path_factory.mktemp("mine"), tmp_path_factory.mktemp("home")
    words = ["plan", "--config", str(stranger)]
    status, told, asked = on_a_terminal(words, b"n", mine, home)
    assert (status, asked) == (Exit.BAD_INPUT, True)
    assert "was not executed" in told
    assert not trace(stranger)
    status, told, asked = on_a_terminal(words, b"y", mine, home)
    assert (status, asked) == (Exit.DONE, True), told
    assert trace(stranger)
    assert on_a_terminal(words, b"n", mine, home)[0::2] == (Exit.DONE, False)
    scorer = stranger.with_name("my_scorer.py")
    scorer.write_text(scorer.read_text() + "\n# another text\n")
    trace(stranger)
    assert on_a_terminal(words, b"n", mine, home)[0::2] == (Exit.BAD_INPUT, True)
    assert not trace(stranger)
    # In the project's own folder nobody is asked, nor where nobody sits at a terminal.
    assert on_a_terminal(words, b"n", stranger.parent, home)[0::2] == (Exit.DONE, False)
    done = subprocess.run(
        [sys.executable, "-m", "pcsuite", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=mine, check=False,
        env={**os.environ, "XDG_CONFIG_HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == Exit.DONE
    assert "pcsuite: executes" in done.stderr


def test_a_file_that_is_long_in_loading_is_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(code, "SLOW_S", 0.1)
    path = tmp_path / "slow.py"
    code.execute(path, "import time\ntime.sleep(0.5)\n", "slow_scorer")
    assert f"{path} has been loading for 0.1 s and is waited for (Ctrl-C ends it)" in capfd.readouterr().err
    code.execute(path, "done = True\n", "slow_scorer")
    time.sleep(0.3)
    assert capfd.readouterr().err == ""
