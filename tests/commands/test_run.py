"""What ``run`` and its kin print, and that the command they name next can be pasted."""

import json
import shlex

import pytest

from pcsuite.api import runs
from pcsuite.cli import main
from pcsuite.commands import integrations, options
from pcsuite.errors import PcsuiteError
from support.profiles import write_profile


def pasted(shown):
    """The words of the ``next:`` line, without ``pcsuite``."""
    (line,) = [line for line in shown.splitlines() if line.startswith("next: ")]
    words = shlex.split(line.removeprefix("next: "))
    assert words[0] == "pcsuite"
    return words[1:]


@pytest.mark.slow
def test_run_says_where_the_log_is(tmp_path, capsys):
    path = write_profile(tmp_path, items=2)
    assert main(["run", "--config", str(path), "--quiet", "--limit", "1", "--conditions", "C0"]) == 0
    shown = capsys.readouterr().out
    assert "t: 3 rows in" in shown
    assert str(tmp_path / "outputs" / "runs" / "t.jsonl") in shown


@pytest.mark.slow
def test_run_task_and_set(tmp_path, capsys):
    path = write_profile(tmp_path, tasks=("agnews_json", "gsm8k"), items=1)
    arguments = [
        "run-task",
        "gsm8k",
        "--config",
        str(path),
        "--quiet",
        "--set",
        "repro.seeds_per_task={default: 1}",
    ]
    assert main(arguments) == 0
    assert "t: 6 rows in" in capsys.readouterr().out


@pytest.mark.slow
def test_next_is_short_where_nothing_was_overridden(tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=2)
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    assert pasted(capsys.readouterr().out) == ["report", "--config", str(path)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (["run"], ["--name", "trial", "--output-dir", "other results"]),
        (["run"], ["--set", "run.name=trial", "--set", "repro.seeds_per_task={default: 1}"]),
        (["run-task", "agnews_json"], ["--name", "trial"]),
    ],
    ids=["name and folder", "set", "one task"],
)
def test_next_reports_on_the_run_that_was_made(tmp_path, monkeypatch, capsys, command, flags):
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=2)
    assert main([*command, "--config", str(path), "--quiet", *flags]) == 0
    words = pasted(capsys.readouterr().out)
    assert "run.overwrite=true" not in words
    assert main([*words, "--no-plots", "--format", "md"]) == 0
    folder = tmp_path / ("other results" if "--output-dir" in flags else "outputs")
    printed = capsys.readouterr().out.splitlines()
    (report,) = [line.removeprefix("report  ") for line in printed if line.startswith("report  ")]
    assert (tmp_path / report).resolve() == folder / "reports" / "trial" / "report.md"
    assert (folder / "reports" / "report.md").resolve() == folder / "reports" / "trial" / "report.md"
    assert sorted(log.name for log in (folder / "runs").glob("*.jsonl")) == [
        "trial.jsonl",
        "trial.spent.jsonl",
    ]


def test_a_new_shared_flag_reaches_every_step_of_all(tmp_path, capsys, monkeypatch):
    """A flag that is declared once, in the group of the profile, is known to ``run`` and to all that ``--all`` does."""
    dummy = options.flag("--dummy", "a seed", "repro.global_seed", type=int, metavar="N")
    monkeypatch.setattr(options.PROFILE, "flags", [*options.PROFILE.flags, dummy])
    blocks = {"promptbench": {"enabled": True, "attack_types": ["reorder"]}, "helm": {"enabled": True}}
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=2, integrations=blocks)
    seeds = {}

    def ends(step, suite):
        seeds[step] = suite.profile.repro.global_seed
        raise PcsuiteError("far enough")

    def runs_nothing(suite, **calls):
        seeds["run"] = suite.profile.repro.global_seed
        assert calls["use_cache"] is False
        return runs.Run(tmp_path / "t.jsonl", suite, summary)

    summary = runs.run(str(path), quiet=True).summary
    monkeypatch.setattr(runs, "run", runs_nothing)
    monkeypatch.setattr(runs, "report", lambda found, **_: ends("report", found[0].suite))
    monkeypatch.setattr(integrations, "run_promptbench", lambda suite, **calls: ends("promptbench", suite))
    monkeypatch.setattr(integrations, "plan_helm", lambda suite, models: ends("helm", suite))
    monkeypatch.setattr("pcsuite.commands.run.SIMULATED", "none")  # HELM asks no simulated model
    words = ["run", "--config", str(path), "--quiet", "--no-cache", "--all", "--dummy", "77"]
    assert main(words) == 2
    assert seeds == dict.fromkeys(("run", "promptbench", "helm", "report"), 77)
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "--dummy N" in capsys.readouterr().out


def test_all_reads_the_words_of_run_by_the_flags_of_each_step(tmp_path, monkeypatch):
    """The block takes ``--limit``, ``--conditions``, ``--regimes`` and calls as its own; the report is not narrowed."""
    blocks = {
        "promptbench": {"enabled": True, "attack_types": ["reorder"], "conditions_subset": ["C0", "C3"]}
    }
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=3, integrations=blocks)
    heard = {}

    def block(suite, **calls):
        heard["block"] = (suite.profile.integrations.promptbench, calls)
        raise PcsuiteError("far enough")

    def report(found, **_):
        heard["report"] = found[0].suite.profile
        raise PcsuiteError("far enough")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(integrations, "run_promptbench", block)
    monkeypatch.setattr(runs, "report", report)
    narrowed = [
        "--conditions",
        "C3",
        "--limit",
        "2",
        "--regimes",
        "D1",
        "--set",
        "repro.seeds_per_task.default=1",
    ]
    assert main(["run", "--config", str(path), "--quiet", "--all", "--no-cache", *narrowed]) == 2
    settings, calls = heard["block"]
    assert (settings.conditions_subset, settings.max_items, settings.tasks) == (("C3",), 2, ("agnews_json",))
    assert (calls["regimes"], calls["use_cache"], calls["quiet"]) == (["D1"], False, True)
    assert heard["report"].selection.conditions == ("C0", "C3")
    assert heard["report"].limits.max_items_per_task == 3


@pytest.mark.slow
def test_rescore_counts_what_would_change(tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0",), items=2)
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["rescore", "--config", str(path), "--dry-run"]) == 0
    assert capsys.readouterr().out == "6 rows read, 0 would change, 0 without an answer or item\n"


@pytest.mark.slow
def test_a_run_ends_with_its_result_and_then_what_is_next(tmp_path, capsys):
    pytest.importorskip("duckdb")
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=4)
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("next: pcsuite report")
    assert any(line.split()[:2] == ["condition", "score"] for line in lines)
    assert any(line.startswith("! Nothing can hold on agnews_json: 4 items are too few") for line in lines)


@pytest.mark.slow
def test_run_json_is_all_that_is_printed(tmp_path, capsys):
    pytest.importorskip("duckdb")
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=4)
    assert main(["run", "--config", str(path), "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["done_before"], found["failed"]) == (found["result"]["answers"], 0, 0)
    assert main(["run", "--config", str(path), "--quiet", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["rows"], again["done_before"]) == (0, found["rows"])
    assert again["result"] == found["result"]


def test_a_result_that_cannot_be_had_does_not_fail_the_run(tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=2)
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "tables").write_text("in the way")
    assert main(["run", "--config", str(path), "--quiet", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["result"] is None
    assert "no result table" in printed.err
