"""``pcsuite`` alone: three questions on a terminal, the help everywhere else."""

import os
import pty
import select
import shlex
import subprocess
import sys
import time

import pytest

from pcsuite.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]
PATIENCE_S = 60


def talk(folder, answers):
    """What a terminal shows when each of the answers is typed at a question; and the exit status."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(sys.executable, [sys.executable, "-m", "pcsuite"], os.environ | {"TERM": "dumb"})
    shown, waiting, deadline = "", list(answers), time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.2)[0]:
            if waiting and shown.endswith(": "):
                os.write(terminal, waiting.pop(0).encode())
                shown += "|"
            continue
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # the terminal is gone with its process
            break
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    return shown.replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


@pytest.fixture
def desk(tmp_path):
    rows = [f"Ticket {n},{'ab'[n % 2]}" for n in range(40)]
    (tmp_path / "my tickets.csv").write_text("\n".join(["text,queue", *rows]) + "\n")
    (tmp_path / "triage.md").write_text("Name the queue.\n\nOne word.\n\n{{ text }}\n")
    return tmp_path


def test_three_answers_give_commands_that_run(desk, monkeypatch, capsys):
    shown, status = talk(desk, ["trage.md\n", "triage.md\n", "my tickets.csv\n", "simulated\n"])
    assert status == 0, shown
    assert "trage.md: no such file" in shown  # and it was asked for again
    commands = [line for line in shown.splitlines() if line.startswith("pcsuite ") and "--data" in line]
    assert commands == [
        "pcsuite ablate triage.md --data 'my tickets.csv' --model simulated --show",
        "pcsuite ablate triage.md --data 'my tickets.csv' --model simulated",
        "pcsuite init triage --prompt triage.md --data 'my tickets.csv' --model simulated",
    ]
    assert sorted(path.name for path in desk.iterdir()) == ["my tickets.csv", "triage.md"]
    monkeypatch.chdir(desk)
    for command in (commands[0], commands[2]):
        assert main(shlex.split(command)[1:]) == 0
    assert (desk / "triage" / "profile.yaml").is_file()


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["\n"], "pcsuite ablate example "),
        (["\x04"], "pcsuite --help lists the commands"),
        (["triage.md\n", "\x04"], "pcsuite --help"),
    ],
)
def test_an_empty_answer_is_the_example_and_the_end_of_input_an_end(answers, words, desk):
    shown, status = talk(desk, answers)
    assert status == 0, shown
    assert words in shown


def test_ctrl_c_ends_it(desk):
    shown, status = talk(desk, ["\x03"])
    assert status == 130, shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("given", [subprocess.DEVNULL, subprocess.PIPE])
def test_a_script_is_never_waited_for(given, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "pcsuite"],
        stdin=given,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert ran.returncode == 0
    assert ran.stdout.startswith("usage: pcsuite ")
    assert ran.stderr == ""
