"""The pytest plugin, run as its users run it: a folder with a prompt, a table, a scorer and a test."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points

# pytester forgets what its inner runs import, and compiled modules cannot be imported twice.
import duckdb  # noqa: F401
import pytest
import scipy.special
import scipy.stats  # noqa: F401

import pcsuite.api.prompts
import pcsuite.api.regression  # noqa: F401
from support.own_task import PROMPT, write_own_profile, write_own_table
from support.rejecting_server import REJECTED, RejectingServer

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

TEST = """
def test_triage(prompt_regression):
    prompt_regression(
        "prompt.md", data="tickets.csv", scorer="my_scorer.py:score", model="simulated", margin=0.1,
        effects={effects},
    )
"""


# An installation brings the plugin by its entry point, a source tree on the path does not.
INSTALLED = any(entry.name == "pcsuite" for entry in entry_points(group="pytest11"))
NAMED = () if INSTALLED else ("-p", "pcsuite.pytest_plugin")


@pytest.fixture
def run_pytest(pytester):
    """Runs pytest with the plugin on a folder, in this process: what it imports is imported already."""

    def run(folder, *words):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            ran = pytester.runpytest_inprocess(
                "-p",
                "no:cacheprovider",
                "-q",
                *NAMED,
                "--rootdir",
                str(folder),
                *words,
            )
        return ran.ret, ran.stdout.str() + ran.stderr.str()

    return run


@pytest.fixture
def project(tmp_path):
    write_own_table(tmp_path, count=80)
    (tmp_path / "test_prompt.py").write_text(TEST.replace("{effects}", "{'rules': 2}"))
    return tmp_path


def test_a_missing_baseline_is_told_before_anything_is_asked(project, run_pytest, monkeypatch):
    monkeypatch.setattr("pcsuite.api.runs.run", lambda *args, **given: pytest.exit("it asked the model"))
    status, said = run_pytest(project)
    assert status == 1
    assert "no baseline" in said


def test_a_baseline_is_written_held_and_broken_by_a_real_regression(project, run_pytest):
    status, said = run_pytest(project)
    assert status == 1
    assert "no baseline" in said
    assert "pytest --pcsuite-update writes it" in said
    status, said = run_pytest(project, "--pcsuite-update")
    assert status == 0
    assert "baseline written:" in said
    baseline = project / "baselines" / "test_prompt__test_triage.json"
    assert len(json.loads(baseline.read_text())["cells"][0]["items"]) == 80
    status, said = run_pytest(project)
    assert status == 0, said
    assert "no worse than test_prompt__test_triage.json (non-inferior at a margin of 0.1)" in said
    # The block that helps is lost: the model names the queue far less often.
    (project / "prompt.md").write_text(PROMPT.replace("# Rules\nAnswer with the name of the queue.\n\n", ""))
    (project / "test_prompt.py").write_text(TEST.replace("{effects}", "{}"))
    status, said = run_pytest(project)
    assert status == 1
    assert "worse than test_prompt__test_triage.json: reliably lower, and the loss seen is over 0.1" in said
    assert "broken: " in said
    assert "Traceback" not in said
    left = {path.name for path in project.iterdir()} - {"__pycache__"}
    assert left == {"baselines", "my_scorer.py", "prompt.md", "test_prompt.py", "tickets.csv"}


def test_a_small_change_is_no_regression_and_edited_items_are_left_out(project, run_pytest):
    assert run_pytest(project, "--pcsuite-update")[0] == 0
    (project / "prompt.md").write_text(PROMPT.replace("Be kind to everyone.", "Be brief."))
    table = (project / "tickets.csv").read_text().splitlines()
    table[1] = "another text about billing,billing"
    (project / "tickets.csv").write_text("\n".join(table) + "\n")
    status, said = run_pytest(project)
    assert status == 0, said
    assert "over 79 items" in said
    assert "1 item changed since and left out" in said


def test_undecided_passes_unless_it_is_told_to_fail(tmp_path, run_pytest):
    write_own_table(tmp_path, count=20)
    body = TEST.replace("{effects}", "{}").replace("margin=0.1", "margin=0.01")
    (tmp_path / "test_prompt.py").write_text(body)
    assert run_pytest(tmp_path, "--pcsuite-update")[0] == 0
    status, said = run_pytest(tmp_path)
    assert status == 0
    assert "neither worse nor shown to be no worse" in said
    (tmp_path / "test_prompt.py").write_text(body.replace("margin=0.01", "margin=0.01, undecided='fail'"))
    status, said = run_pytest(tmp_path)
    assert status == 1
    assert "over 20 items, 0 scores moved" in said


def test_a_profile_is_checked_with_its_replicates(tmp_path, run_pytest):
    write_own_profile(tmp_path, selection={"decoding_regimes": ["d1_sampled"]})
    (tmp_path / "test_profile.py").write_text(
        "def test_it(prompt_regression):\n"
        "    check = prompt_regression('profile.yaml', margin=0.2, baseline='mine.json')\n"
        "    assert check is None or check.standing == 'no worse'\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\npcsuite_baselines = committed\n")
    assert run_pytest(tmp_path, "--pcsuite-update")[0] == 0
    written = json.loads((tmp_path / "committed" / "mine.json").read_text())
    assert [cell["replicates"] for cell in written["cells"]] == [2.0, 2.0]
    status, said = run_pytest(tmp_path)
    assert status == 0, said


def test_an_error_is_one_line_not_a_traceback(project, run_pytest):
    (project / "my_scorer.py").write_text("def score(answer, item):\n    return item['nothing']\n")
    (project / "baselines").mkdir()
    (project / "baselines" / "test_prompt__test_triage.json").write_text("{}")
    status, said = run_pytest(project)
    assert status == 1
    assert "my_scorer.py:score (line 2) fails on item" in said
    assert "Traceback" not in said
    assert "another exception" not in said


def test_it_does_nothing_until_it_is_used(tmp_path):
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\ndef test_it():\n    assert 'pcsuite.api' not in sys.modules\n    assert 'numpy' not in sys.modules\n"
    )
    words = ["-p", "no:cacheprovider", "-q", "-p", "pcsuite.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 0, done.stdout
    assert "prompts against their baselines" not in done.stdout


def test_calls_that_failed_do_not_pass_and_related_items_are_counted_together(tmp_path, run_pytest):
    """Eight of eighty tickets fail: the others are no worse, and they could be. Copies are one piece of evidence."""
    (tmp_path / "prompt.md").write_text("# Rules\nSort it.\n\n# Ticket\n{{ text }}\n", encoding="utf-8")
    rows = [f"ticket number {n % 40},{'ab'[n % 2]},c{n % 10}" for n in range(80)]
    (tmp_path / "tickets.csv").write_text("\n".join(["text,queue,customer", *rows]) + "\n", encoding="utf-8")
    lost = set()

    def reply(prompt):
        number = int(prompt.split("ticket number ")[1].split()[0])
        return REJECTED if number in lost else "ab"[number % 2]

    (tmp_path / "lenient.yaml").write_text(
        "version: '1.0'\nrun: {name: x}\nlimits: {stop_on_error_rate: 1.0}\nselection: {tasks: [agnews_json],"
        " models: [smollm2-135m], conditions: [C0], decoding_regimes: [D0]}\n",
        encoding="utf-8",
    )
    with RejectingServer(reply) as server:
        settings = f'answer="queue", model="openai/parrot", base_url="{server.base_url}", cluster="customer"'
        call = f'prompt_regression("prompt.md", data="tickets.csv", config="lenient.yaml", margin=0.35, {settings}'
        (tmp_path / "test_it.py").write_text(
            f"def test_it(prompt_regression):\n    {call})\n\ndef test_dropping(prompt_regression):\n"
            f'    {call}, missing="drop", baseline="test_it__test_it.json")\n',
            encoding="utf-8",
        )
        assert run_pytest(tmp_path, "--pcsuite-update", "-k", "test_it")[0] == 0
        status, out = run_pytest(tmp_path)
        assert status == 0, out
        assert "over 80 items" in out
        lost.update({0, 10, 20, 30})
        status, out = run_pytest(tmp_path)
    assert status == 1
    assert "1 failed, 1 passed" in out
    assert "8 scores missing, which could hide a regression" in out
    kept = json.loads((tmp_path / "baselines" / "test_it__test_it.json").read_text())
    assert len(set(kept["clusters"]["tickets"].values())) == 10


AGENTS = """
def test_a_function(prompt_regression):
    prompt_regression("prompt.md", data="tickets.csv", answer="queue", target="app.py:answer", margin=0.1)

def test_a_command(prompt_regression):
    prompt_regression("prompt.md", data="tickets.csv", answer="queue", target={COMMAND!r}, margin=0.1)
"""


def test_a_target_lies_beside_its_test_and_a_baseline_without_scores_is_not_written(tmp_path, run_pytest):
    folder = tmp_path / "tests"
    folder.mkdir()
    write_own_table(folder)
    (folder / "prompt.md").write_text("Name the queue.\n")
    (folder / "app.py").write_text("def answer(prompt, item):\n    return 'billing'\n")
    (folder / "agent.py").write_text("raise SystemExit('no brain')\n")
    (folder / "test_agents.py").write_text(AGENTS.replace("{COMMAND!r}", repr(f"{sys.executable} agent.py")))
    status, said = run_pytest(tmp_path, "tests", "--pcsuite-update")
    assert status == 1
    assert (
        "no answer has a score, so nothing could be held against it; why calls failed, most often: target"
        in said
    )
    assert "exit status 1: no brain" in said
    written = [path.name for path in (folder / "baselines").iterdir()]
    assert written == ["test_agents__test_a_function.json"]
    status, said = run_pytest(tmp_path, "tests", "-k", "function")
    assert status == 0, said
