"""``pcsuite list``: what a profile can name, and the runs there are."""

import json

import pytest
import yaml

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.logging.manifest import ConditionNote, RunManifest, write_manifest
from support.profiles import write_profile
from support.synthetic_log import make_row, write_log


@pytest.fixture
def profile(tmp_path):
    path = write_profile(
        tmp_path,
        conditions=("C0", "abl:all"),
        suite={"models_ref": "models.yaml", "conditions_ref": "own.yaml"},
    )
    design = {"design": "leave_one_out", "operators": ["ROLE", "GOAL"]}
    content = {"version": "1.0", "conditions": {"C0": {"title": "bare", "operators": []}, "abl": design}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(content))
    return str(path)


def listed(capsys, *words):
    assert main(["list", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_tasks_with_the_items_that_are_here(profile, capsys):
    found = {record["id"]: record for record in listed(capsys, "tasks", "--config", profile)}
    assert set(found) == set(load_suite(profile).tasks)
    assert found["agnews_json"]["selected"] is True
    assert found["gsm8k"]["selected"] is False
    assert found["agnews_json"]["items"] > 0
    assert found["agnews_json"]["source"] == "bundled sample"


def test_conditions_with_the_members_of_designs(profile, capsys):
    found = listed(capsys, "conditions", "--config", profile)
    assert [(record["id"], record["operators"], record["selected"]) for record in found] == [
        ("C0", [], True),
        ("abl:all", ["ROLE", "GOAL"], True),
        ("abl:-ROLE", ["GOAL"], False),
        ("abl:-GOAL", ["ROLE"], False),
    ]


def test_operators_and_where_they_are_used(profile, capsys):
    found = {record["id"]: record["used_in"] for record in listed(capsys, "operators", "--config", profile)}
    assert found["ROLE"] == ["abl"]
    assert found["SCHEMA"] == []


def test_models(profile, capsys):
    [record] = listed(capsys, "models", "--config", profile)
    assert (record["id"], record["provider"], record["selected"]) == ("sim", "simulated", True)


@pytest.mark.slow
def test_runs_and_that_members_of_a_design_run(profile, tmp_path, capsys):
    assert main(["list", "runs", "--config", profile]) == 0
    assert "no runs in" in capsys.readouterr().out
    assert listed(capsys, "runs", "--config", profile) == []
    assert main(["run", "--config", profile, "--quiet", "--limit", "2"]) == 0
    capsys.readouterr()
    [record] = listed(capsys, "runs", "--config", profile)
    assert (record["name"], record["conditions"]) == ("t", ["C0", "abl:all"])
    assert record["planned_rows"] == 2 * 2 * 3  # items, conditions, one greedy and two sampled answers
    assert listed(capsys, "runs", "--output-dir", str(tmp_path / "outputs")) == [record]


def test_a_run_of_many_conditions_takes_a_line_or_two(tmp_path, capsys):
    names = [f"abl:-{number}" for number in range(30)]
    log = write_log(tmp_path / "runs" / "long.jsonl", [make_row(condition=name) for name in names])
    write_manifest(log, RunManifest(conditions={name: ConditionNote("", []) for name in names}))
    assert main(["list", "runs", "--output-dir", str(tmp_path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "abl:-4" in shown
    assert "25 more" in shown
    assert "abl:-5" not in shown
    [record] = listed(capsys, "runs", "--output-dir", str(tmp_path))
    assert record["conditions"] == names


@pytest.mark.parametrize("what", ["tasks", "conditions", "operators", "models"])
def test_a_table_for_people(what, profile, capsys):
    assert main(["list", what, "--config", profile]) == 0
    shown = capsys.readouterr().out
    first = next(iter(listed(capsys, what, "--config", profile)))
    assert first["id"] in shown
    assert shown.split()[0] == "id"
