"""What ``prompt``, ``plan`` and ``config`` print."""

import json
import shlex

import pytest

from pcsuite.cli import main
from support.profiles import write_profile


def test_prompt_shows_what_a_model_gets(capsys):
    assert main(["prompt", "agnews_json", "C1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "You are a news editor who files incoming items under one of four desks.\n\nClassify"
    )
    assert "Goal:\nName the one desk" in shown


def test_prompt_diff_shows_only_what_changes(capsys):
    assert main(["prompt", "agnews_json", "C4", "--diff", "C3"]) == 0
    added = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("+") and line[1:2] != "+"
    ]
    assert added[1] == "+Before you answer, check silently:"
    assert main(["prompt", "agnews_json", "C6", "--diff", "C4"]) == 0
    shown = capsys.readouterr().out
    assert "C4 and C6 have the same prompt" in shown
    assert "json_schema enforced" in shown


def test_prompt_names_unknown_things(capsys):
    assert main(["prompt", "agnews", "C1"]) == 2
    assert "unknown task 'agnews' (did you mean 'agnews_json'?)" in capsys.readouterr().err
    assert main(["prompt", "agnews_json", "C11"]) == 2
    assert "unknown condition 'C11'" in capsys.readouterr().err
    assert main(["prompt", "agnews_json", "C1", "--item", "ag_news-test-1"]) == 2
    assert "has no item 'ag_news-test-1'" in capsys.readouterr().err
    assert main(["prompt", "agnews_json", "C8"]) == 2
    assert "pcsuite optimize" in capsys.readouterr().err


@pytest.mark.slow
def test_plan_counts_calls_and_says_what_is_not_applicable(tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0", "C6", "C7"), items=4)
    assert main(["plan", "--config", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "24 rows, 24 to run" in shown
    assert "C7 × agnews_json × sim" in shown
    assert main(["run", "--config", str(path), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["plan", "--config", str(path)]) == 0
    assert "24 rows, 0 to run" in capsys.readouterr().out


def test_config_check_and_schema(tmp_path, capsys):
    assert main(["config", "check", "quickstart"]) == 0
    assert "fine" in capsys.readouterr().out
    assert main(["config", "schema", "profile"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["properties"]["limits"]["description"] == "How much is run."
    assert main(["config", "schema", "--out", str(tmp_path / "schemas")]) == 0
    assert len(list((tmp_path / "schemas").glob("*.schema.json"))) == 7


def test_config_check_reaches_evaluators_and_models(tmp_path, capsys):
    model = {"m": {"provider": "simulated", "family": "f", "size": "s", "base_acuracy": 0.5}}
    assert main(["config", "check", str(write_profile(tmp_path, model))]) == 2
    assert "base_acuracy: unknown key (did you mean 'base_accuracy'?)" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nonsense", "limits.max_itmes=3"])
def test_a_bad_override_is_named(tmp_path, capsys, value):
    assert main(["plan", "--config", str(write_profile(tmp_path)), "--set", value]) == 2
    assert value.partition("=")[0].split(".")[-1] in capsys.readouterr().err


def test_the_hint_for_a_missing_compiled_prompt_can_be_pasted(tmp_path, capsys):
    path = write_profile(tmp_path, items=2)
    shown = [
        "prompt",
        "agnews_json",
        "C8",
        "--config",
        str(path),
        "--set",
        f"run.output_dir={tmp_path / 'other results'}",
    ]
    assert main(shown) == 2
    hint = capsys.readouterr().err.rpartition("(pcsuite ")[2].removesuffix(")\n")
    search = ["--method", "blocks", "--candidates", "2", "--limit", "4", "--quiet"]
    assert main([*shlex.split(hint), *search]) == 0
    assert main(shown) == 0


def test_plan_says_which_price_is_assumed_and_that_one_is_unknown(capsys):
    words = ["plan", "--config", "quickstart", "--limit", "2", "--models"]
    assert main([*words, "openai/gpt-4.1-mini"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "openai/gpt-4.1-mini: $0.4 in, $1.6 out per million tokens" in said
    assert "openai price list, 20" in said
    assert main([*words, "openrouter/some/model"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "openrouter/some/model: price unknown" in said
    assert "and what openrouter/some/model costs" in said
    assert (
        main(
            [*words, "openrouter/some/model", "--model-option", "price_in=1", "--model-option", "price_out=2"]
        )
        == 0
    )
    assert "$1 in, $2 out per million tokens (as configured)" in " ".join(capsys.readouterr().out.split())


def test_a_model_by_name_can_be_shown_a_prompt(capsys):
    assert main(["prompt", "agnews_json", "C1", "--model", "ollama/llama3.2"]) == 0
    assert main(["prompt", "agnews_json", "C1", "--model", "olama/llama3.2"]) == 2
    assert "did you mean 'ollama'" in capsys.readouterr().err


def test_plan_json_is_all_that_is_printed(tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0", "C3"), items=4)
    assert main(["plan", "--config", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tasks"]["agnews_json"]["items"] == 4
    assert found["rows"] == found["rows_left"] == sum(cell["rows"] for cell in found["cells"])
    assert found["power"] is None
    assert main(["plan", "--config", str(path), "--json", "--power"]) == 0
    (first, *_) = json.loads(capsys.readouterr().out)["power"]
    assert (first["items"], first["can_hold"]) == (4, False)


@pytest.mark.slow
def test_operators_in_the_system_message_are_shown_as_such_and_reach_the_model(tmp_path, capsys):
    conditions = tmp_path / "conditions.yaml"
    conditions.write_text(
        "version: '1.0'\nconditions:\n  C0: []\n  apart: [{ROLE: {role: system}}, GOAL]\n  together: [ROLE, GOAL]\n"
    )
    path = write_profile(
        tmp_path, conditions=("apart", "together"), suite={"models_ref": "models.yaml", "conditions_ref": "conditions.yaml"}
    )  # fmt: skip
    assert main(["prompt", "agnews_json", "apart", "--config", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "[system]\nYou are a news editor who files incoming items under one of four desks.\n\n[user]\n"
    )
    assert main(["prompt", "agnews_json", "apart", "--diff", "together", "--config", str(path)]) == 0
    assert "+[system]" in capsys.readouterr().out
    assert main(["run", "--config", str(path), "--limit", "2", "--regimes", "D0", "--quiet"]) == 0
    log = tmp_path / "outputs" / "runs" / "t.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert {row["condition"]["id"] for row in rows} == {"apart", "together"}
    assert not [row for row in rows if row["errors"]]
    conditions.write_text(conditions.read_text().replace("role: system", "role: assistant"))
    assert main(["prompt", "agnews_json", "apart", "--config", str(path)]) == 2
    assert (
        "operator ROLE: the role assistant is for verbatim pieces (system or user)" in capsys.readouterr().err
    )
