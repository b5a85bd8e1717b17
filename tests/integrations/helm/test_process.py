"""HELM's run entries and their data; its commands read to the end, and gone whatever ends the wait."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from pcsuite.errors import ConfigError, DataError, IntegrationError
from pcsuite.integrations.helm import process as helm_process
from pcsuite.integrations.helm.process import HelmProgress, copy_data, parse_scenarios, reason_of, run_tool

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('set', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
print(os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Stands in for HELM's environment: a folder with an interpreter and one command."""
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(helm_process, "environment_python", lambda tool: python)
    monkeypatch.setattr(helm_process, "STOP_SECONDS", 0.5)

    def write(code):
        (folder / "helm-run").write_text(code, encoding="utf-8")
        return tmp_path / "logs" / "helm.log"

    return write


def test_words_are_kept_and_told_and_the_status_is_returned(tool, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "example.org")
    log = tool(
        "import os, sys; print(os.environ['NO_PROXY']); print(sys.argv[1], file=sys.stderr); sys.exit(3)"
    )
    told = []
    assert run_tool("helm-run", ["x y"], log, told.append) == 3
    assert sorted(told) == ["example.org,127.0.0.1,localhost", "x y"]
    assert sorted(log.read_text().splitlines()) == sorted(told)


@pytest.mark.parametrize("ending", ["interrupt", "terminate"])
def test_whatever_ends_the_wait_ends_the_whole_group(tool, ending):
    log = tool(STUBBORN)
    started = []

    def feed(line):
        started.extend(int(number) for number in line.split())
        if ending == "interrupt":
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt if ending == "interrupt" else SystemExit) as raised:
        run_tool("helm-run", [], log, feed)
    if ending == "terminate":
        assert raised.value.code == 143
    assert len(started) == 2
    deadline = time.monotonic() + 60
    while any(map(alive, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, started))
    assert signal.getsignal(signal.SIGTERM) is before


def alive(number):
    """Whether a process still does anything; an orphan may wait for a while to be collected."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_log_that_cannot_be_written_is_one_line(tool, tmp_path):
    tool("print(1)")
    (tmp_path / "file").write_text("")
    with pytest.raises(IntegrationError, match="helm-run cannot be run: "):
        run_tool("helm-run", [], tmp_path / "file" / "helm.log", print)


def test_scenarios_are_told_apart_from_their_arguments():
    found = parse_scenarios("truthful_qa, gsm,mmlu:subject=anatomy,method=x,gsm")
    assert [one.entry for one in found] == [
        "truthful_qa:task=mc_single",
        "gsm",
        "mmlu:subject=anatomy,method=x",
    ]
    assert parse_scenarios(["a:x=1", "b,y=2"])[1].entry == "b:y=2"
    assert found[1].for_model("simple/model1", "simple/model1") == "gsm:model=simple/model1"
    assert found[0].for_model("pcsuite/m", "pcsuite-1/m") == (
        "truthful_qa:task=mc_single,model=pcsuite/m,model_deployment=pcsuite-1/m"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mmlu", "scenario 'mmlu' needs a subject"),
        ("gsm:model=x", "models are chosen by --models"),
        ("gsm:x", "'x' is not KEY=VALUE"),
    ],
)
def test_a_wrong_scenario_is_one_line(text, told):
    with pytest.raises(ConfigError, match=told):
        parse_scenarios(text)


def test_data_is_placed_where_helm_looks_and_hashed(tmp_path):
    data, output = tmp_path / "data", tmp_path / "out"
    (data / "gsm8k").mkdir(parents=True)
    (data / "gsm8k" / "train.jsonl").write_text("1\n")
    gsm = parse_scenarios("gsm")
    with pytest.raises(
        DataError, match="scenario 'gsm': .*data has no test.jsonl .looked for gsm8k/test.jsonl"
    ):
        copy_data(gsm, data, output)
    (data / "gsm8k" / "test.jsonl").write_text("2\n")
    first = copy_data(gsm, data, output)
    assert (output / "scenarios/gsm/gsm_data_train").read_text() == "1\n"
    assert (output / "scenarios/gsm/gsm_data_test").read_text() == "2\n"
    assert copy_data(gsm, None, output) == first
    (data / "gsm8k" / "test.jsonl").write_text("3\n")
    assert copy_data(gsm, data, output) != first
    with pytest.raises(
        DataError, match="needs econometrics_dev.csv, and no folder .* was named .give --data"
    ):
        copy_data(parse_scenarios("mmlu:subject=econometrics"), None, output)
    assert copy_data(parse_scenarios("boolq"), None, output)


STAMP = "2026-01-02 03:04:05,678 INFO     "


LOG = f"""{STAMP}  2 entries produced 2 run specs
{STAMP}  Running in local mode with base path: prod_env
{STAMP}  Running gsm:model=simple_model1 {{
{STAMP}  }} [0.02s]
{STAMP}  Error when running gsm:model=simple_model1:
Traceback (most recent call last):
  File "scenario.py", line 1, in get_instances
    example = json.loads(line)
ValueError: inner

The above exception was the direct cause of the following exception:

helm.benchmark.executor.ExecutorError: Failed after 5 times. Error: refused. Request: Request(model='x')
{STAMP}  Running truthful_qa:task=mc_single,model=m {{
{STAMP}      7 requests
{STAMP}      The answer is an Error: nothing of the kind"""


def test_helms_words_become_progress_and_reasons():
    told = []
    progress = HelmProgress(told.append)
    for line in LOG.splitlines():
        progress.feed(line)
    assert told == ["1/2 gsm:model=simple_model1", "2/2 truthful_qa:task=mc_single,model=m", "  7 requests"]
    assert progress.failures == {
        "gsm:model=simple_model1": "ExecutorError: Failed after 5 times. Error: refused."
    }
    assert progress.unfinished == "truthful_qa:task=mc_single,model=m"


def test_a_long_reason_is_shortened():
    assert reason_of("a.b.ValueError: " + "x" * 400) == "ValueError: " + "x" * 287 + "…"
    assert reason_of("KeyboardInterrupt") == "KeyboardInterrupt"
