"""What several commands share."""

import argparse
import json
import logging
from argparse import Namespace

import pytest
import yaml

from pcsuite.cli import COMMANDS, command_parser, main
from pcsuite.commands.options import listed, next_line, not_applicable_lines
from pcsuite.runners.plan import NotApplicable
from support.ablating import request_in, words_of
from support.loopback import LoopbackServer
from support.profiles import SIMULATED, write_profile


def test_tasks_that_share_a_reason_share_a_line():
    entries = [
        NotApplicable("boolq", "m1", "C6", "no mask"),
        NotApplicable("trec", "m1", "C6", "no mask"),
        NotApplicable("trec", "m1", "C7", "no retrieval"),
        NotApplicable("boolq", "m2", "C6", "no mask"),
    ]
    assert not_applicable_lines(entries) == [
        "C6 × boolq, trec × m1: no mask",
        "C7 × trec × m1: no retrieval",
        "C6 × boolq × m2: no mask",
    ]


@pytest.fixture
def profile(tmp_path):
    """A profile of one simulated model, and the level of messages as it was afterwards."""
    model = {"provider": "simulated", "family": "sim", "size": "1B"}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"version": "1.0", "models": {"sim": model}}))
    content = {
        "version": "1.0",
        "run": {"name": "r", "output_dir": str(tmp_path / "out"), "cache_dir": str(tmp_path / "cache")},
        "suite": {"models_ref": "models.yaml"},
        "selection": {
            "tasks": ["agnews_json"],
            "models": ["sim"],
            "conditions": ["C0"],
            "decoding_regimes": ["D0"],
        },
        "limits": {"max_items_per_task": 2},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    logger = logging.getLogger("pcsuite")
    kept = logger.level, logger.handlers
    yield path
    logger.level, logger.handlers = kept


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "shown"), [("DEBUG", True), ("INFO", True), ("WARNING", False), ("ERROR", False)]
)
def test_log_level_says_what_goes_to_standard_error(profile, capsys, level, shown):
    assert main(["run", "--config", str(profile), "--set", f"run.log_level={level}"]) == 0
    assert ("0/2 rows, running" in capsys.readouterr().err) == shown
    logger = logging.getLogger("pcsuite.somewhere")
    grades = [getattr(logging, name) for name in ("DEBUG", "INFO", "WARNING", "ERROR")]
    for grade in grades:
        logger.log(grade, "%s message", logging.getLevelName(grade))
    heard = [f"{logging.getLevelName(grade)} message" for grade in grades if grade >= getattr(logging, level)]
    assert capsys.readouterr().err.splitlines() == heard


@pytest.mark.parametrize("command", ["helm", "promptbench"])
def test_an_integration_that_the_profile_turns_off_is_refused_with_a_remedy(profile, capsys, command):
    off = f"integrations.{command}.enabled=false"
    assert main([command, "--config", str(profile), "--set", off]) == 2
    assert capsys.readouterr().err == (
        f"pcsuite: the profile turns it off: integrations.{command}.enabled is false"
        f" (add --set integrations.{command}.enabled=true)\n"
    )


def test_an_integration_that_the_profile_says_nothing_of_runs(profile, capsys):
    block = [
        "--tasks",
        "agnews_json",
        "--conditions",
        "C0",
        "--attacks",
        "reorder",
        "--limit",
        "1",
        "--no-tables",
    ]
    assert main(["promptbench", "--config", str(profile), *block]) == 0
    assert "rows in" in capsys.readouterr().out


def test_lists_of_names():
    assert listed(" a, b,,c ") == ["a", "b", "c"]
    assert listed(None) == listed("") == []


def test_what_comes_next_repeats_what_was_given_for_a_shell():
    bare = Namespace(config="quickstart", name=None, output_dir=None, set=[])
    assert next_line(bare, "report") == "next: pcsuite report --config quickstart"
    given = Namespace(
        config="my profile.yaml", name="t", output_dir="out", set=["limits.max_cost_usd=5", "a={b: 1}"]
    )
    assert next_line(given, "run", "--conditions", "C0,C8") == (
        "next: pcsuite run --config 'my profile.yaml' --name t --output-dir out"
        " --set limits.max_cost_usd=5 --set 'a={b: 1}' --conditions C0,C8"
    )


def _parsers(parser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _parsers(sub)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_tasks_and_models_are_spelled_either_way(command):
    for parser in _parsers(command_parser(command)):
        for one, many in (("--task", "--tasks"), ("--model", "--models")):
            flags = parser._option_string_actions
            assert (one in flags) == (many in flags)
            assert flags.get(one) is flags.get(many)


@pytest.mark.slow
def test_where_one_is_wanted_two_are_refused(profile, capsys):
    with pytest.raises(SystemExit):
        main(["prompt", "agnews_json", "C0", "--config", str(profile), "--models", "sim,other"])
    assert "one model is taken here, not 2" in capsys.readouterr().err
    assert main(["prompt", "agnews_json", "C0", "--config", str(profile), "--models", "sim"]) == 0
    assert main(["run", "--config", str(profile), "--model", "sim", "--task", "agnews_json", "-q"]) == 0


SELECTING = {
    "run": ["run", "--models", "sim", "--quiet"],
    "run-task": ["run-task", "agnews_json", "--model", "sim", "--quiet"],
    "plan": ["plan", "--models", "sim"],
    "verifier-pass": ["verifier-pass", "--models", "sim", "--quiet"],
    "optimize": ["optimize", "--models", "sim", "--method", "blocks", "--dry-run"],
    "promptbench": ["promptbench", "--models", "sim", "--attacks", "reorder", "--tasks", "agnews_json"],
    "prompt": ["prompt", "agnews_json", "C0", "--model", "sim"],
    "helm": ["helm", "--models", "simple/model1", "--import-only", "HERE"],
    "judge": ["judge", "sample", "--models", "sim"],
}
"""Commands that take models, naming one that the models file has."""


@pytest.mark.slow
@pytest.mark.parametrize("command", SELECTING)
def test_models_that_a_command_names_take_the_place_of_those_the_profile_selects(tmp_path, capsys, command):
    path = write_profile(tmp_path, conditions=("C0", "C3"), regimes=("D0",), items=2)
    content = yaml.safe_load(path.read_text())
    content["selection"]["models"] = ["not-pulled-yet", "sim"]
    path.write_text(yaml.safe_dump(content))
    words = [str(tmp_path) if word == "HERE" else word for word in SELECTING[command]]
    if command == "verifier-pass":
        assert main(["run", "--models", "sim", "--quiet", "--config", str(path)]) == 0
    main([*words, "--config", str(path)])
    assert "not-pulled-yet" not in capsys.readouterr().err
    # without the flag the profile's own list is what is meant, and its mistake is told
    main(["plan", "--config", str(path)])
    assert "unknown model 'not-pulled-yet'" in capsys.readouterr().err


def test_ablate_and_improve_take_their_own_model_whatever_the_profile_selects(tmp_path, capsys):
    path = write_profile(tmp_path, {"sim": SIMULATED}, conditions=("C0",))
    content = yaml.safe_load(path.read_text())
    content["selection"] |= {"models": ["not-pulled-yet"], "tasks": ["not-written-yet"]}
    path.write_text(yaml.safe_dump(content))
    assert main(words_of(request_in(tmp_path, config=str(path)), "--show")) == 0
    assert main(["improve", str(tmp_path / "none"), "--config", str(path), "--model", "sim"]) == 2
    assert "not-" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "optimize", "promptbench"])
def test_a_model_that_is_not_there_is_told_by_the_flag_that_named_it(tmp_path, capsys, command):
    path = write_profile(tmp_path, conditions=("C0",))
    assert main([command, "--config", str(path), "--models", "simm"]) == 2
    assert "--models: unknown model 'simm' (did you mean 'sim'?)" in capsys.readouterr().err


@pytest.fixture
def remote_profile(tmp_path, monkeypatch):
    """A profile of a model at OpenAI's own address, and one that is simulated."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-0123456789")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    remote = {"provider": "openai", "family": "f", "size": "1B", "model": "m"}
    models = {"remote": remote, "sim": SIMULATED}
    return write_profile(tmp_path, models, conditions=("C0", "C1"), regimes=("D0",), items=3)


@pytest.mark.slow
def test_run_plan_and_report_ask_the_models_at_another_address_and_send_it_no_key(
    remote_profile, tmp_path, capsys
):
    with LoopbackServer() as server:
        words = ["--config", str(remote_profile), "--base-url", server.base_url]
        assert main(["plan", *words, "--json"]) == 0
        priced = json.loads(capsys.readouterr().out)
        assert main(["run", *words, "--quiet", "--no-cache"]) == 0
        told = capsys.readouterr().out
        assert len(server.bodies) == 6
        assert "sk-of-openai" not in str(server.headers)
        assert f"next: pcsuite report --config {remote_profile} --base-url {server.base_url}" in told
        assert main(["report", *words, "--no-plots"]) == 0
        assert main(["run", *words, "--quiet", "--no-cache"]) == 0
        assert len(server.bodies) == 6, "the same words find the same rows"
    assert "remote" in str(priced)
    assert list((tmp_path / "outputs" / "reports").rglob("*.html"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["run", "--base-url", ""], "--base-url: it is empty"),
        (["run", "--base-url", "nonsense", "--models", "remote"], "base_url: an address such as"),
        (["run", "--base-url", "http://127.0.0.1:1/v1", "--models", "sim"], "model 'sim' (provider simulated) is not asked at an address"),
        (["plan", "--base-url", "http://user:pw@127.0.0.1:1/v1", "--models", "remote"], "no credentials or query in the address"),
    ],
)  # fmt: skip
def test_an_address_that_nobody_can_be_asked_at_is_one_line(remote_profile, capsys, words, problem):
    assert main([words[0], "--config", str(remote_profile), *words[1:]]) == 2
    shown = capsys.readouterr().err
    assert problem in shown
    assert len(shown.strip().splitlines()) <= 2


def test_a_report_of_logs_alone_takes_no_address(capsys):
    assert main(["report", "some.jsonl", "--base-url", "http://127.0.0.1:1/v1"]) == 2
    assert "--base-url goes with --config" in capsys.readouterr().err
