"""Files that people bring along: what they leave out is completed, and what would do nothing is refused with its line."""

from __future__ import annotations

import pytest
import yaml

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.errors import Exit
from pcsuite.runners.plan import build_plan
from support.profiles import write_profile

OPERATORS = {
    "ROLE": {"type": "prefix_block", "template": "You are exact."},
    "GOAL": {"type": "prefix_block", "template": "Your aim: {{task_goal}}"},
    "CONSTRAINTS": {"type": "block", "template": "Rules:\n- {{rules | join('\n- ')}}"},
    "SCHEMA": {"type": "block", "template": "JSON of this schema:\n{{schema_text}}"},
    "EXEMPLARS": {"type": "fewshot", "k": 2},
    "VERIFIER": {"type": "post_block", "template": "Check: {{checklist | join(', ')}}."},
    "ABSTAIN": {"type": "rule", "template": "If unsure, abstain."},
    "REACT_LOOP": {"type": "program", "engine": "react"},
    "JSON_CONSTRAIN": {"type": "constraint", "engine": "outlines_json"},
}


def profile(folder, operators, **selection):
    path = folder / "operators.yaml"
    path.write_text(
        yaml.safe_dump({"version": "1.0", "operators": operators}, sort_keys=False), encoding="utf-8"
    )
    return write_profile(
        folder,
        suite={"operators_ref": "operators.yaml"},
        integrations={"retrieval": {"enabled_for_tasks": ["fever_json"]}},
        **{"tasks": ("fever_json", "gsm8k"), "conditions": ("C0", "C3", "C4", "C5", "C6", "C7", "C4R")}
        | selection,
    )


def test_operators_without_a_text_have_the_bundled_ones(tmp_path):
    plan = build_plan(load_suite(str(profile(tmp_path, OPERATORS))))
    prompts = {(cell.task.id, cell.condition.id): cell.applied.prompt for cell in plan.cells}
    fever = {name: text for (task, name), text in prompts.items() if task == "fever_json"}
    assert "Examples:" in fever["C5"]
    assert "Action: search[your query]" in fever["C7"]
    assert len(set(fever.values())) == len(fever) - 2  # C6 and C4R ask as C4 does
    assert "JSON of this schema:\n{" in fever["C3"]
    assert "JSON of this schema" not in prompts["gsm8k", "C3"]  # it has none: the form of its answer is shown


@pytest.mark.parametrize(
    ("name", "entry", "condition"),
    [
        ("ROLE", {"type": "prefix_block", "template": "{# nothing #}"}, "C1"),
        ("CONSTRAINTS", {"type": "block", "template": "Grammar:\n{{ grammar }}"}, "C2"),
        ("VERIFIER", {"type": "post_block", "template": "{% if grammar %}Check.{% endif %}"}, "C4"),
    ],
)
def test_an_operator_that_adds_nothing_is_refused_with_its_line(name, entry, condition, tmp_path, capsys):
    path = profile(tmp_path, OPERATORS | {name: entry}, conditions=("C0", condition), tasks=("agnews_json",))
    assert main(["config", "check", str(path)]) == Exit.BAD_INPUT
    words = capsys.readouterr().err
    line = 1 + next(
        number
        for number, text in enumerate((tmp_path / "operators.yaml").read_text().splitlines())
        if text.strip().startswith(f"{name}:")
    )
    assert f"operators.yaml:{line}" in words
    assert f"{name} adds nothing to task 'agnews_json' in condition {condition}" in words
    assert main(["run", "--quiet", "--config", str(path)]) == Exit.BAD_INPUT


@pytest.mark.parametrize(
    ("repro", "seeds"),
    [
        ({"seeds": {"d1_sampled": list(range(1, 11))}}, 10),
        ({"seeds": {"D1": [4, 5]}}, 2),
        ({}, 3),
        ({"seeds": {"D1": list(range(1, 11))}, "seeds_per_task": {"default": 4}}, 4),
    ],
)
def test_listed_seeds_are_run(repro, seeds, tmp_path, capsys):
    path = write_profile(tmp_path, conditions=("C0",), regimes=("D1",), items=1)
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    values["repro"] = repro
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    suite = load_suite(str(path))
    task = suite.profile.selection.tasks[0]
    assert len(suite.seeds("D1", task)) == seeds
    said = suite.seeds_left_out([task], ["D1"])
    listed = len(suite.profile.repro.seeds["D1"])
    assert said == (
        []
        if seeds == listed
        else [f"D1: {task}: {seeds} of the {listed} seeds listed (repro.seeds_per_task)"]
    )
    assert main(["plan", "--config", str(path)]) == Exit.DONE
    assert ("seeds listed" in " ".join(capsys.readouterr().out.split())) == (seeds != listed)


def test_schemas_may_be_named_as_tasks_files_bring_them_along(tmp_path):
    tasks = {"agnews_json": {"kind": "classification", "dataset": "ag_news", "split": {"test": "test"},
                             "labels": ["World", "Sports", "Business", "Sci/Tech"],
                             "output_schema_ref": "schemas/agnews.json", "max_tokens": 120}}  # fmt: skip
    (tmp_path / "tasks.yaml").write_text(yaml.safe_dump({"version": "1.0", "tasks": tasks}), encoding="utf-8")
    path = write_profile(tmp_path, tasks=("agnews_json",), suite={"tasks_ref": "tasks.yaml"})
    schema = load_suite(str(path)).schema("agnews_json")
    assert set(schema["properties"]) >= {"label", "confidence", "rationale"}


def test_any_profile_can_be_rehearsed_on_the_bundled_simulated_model(tmp_path):
    models = {"large": {"provider": "openai", "family": "f", "size": "api", "model": "gpt-4.1"}}
    path = write_profile(tmp_path, models=models)
    assert "simulated" not in list(load_suite(str(path)).models)
    suite = load_suite(str(path), {"selection.models": ["simulated"]})
    assert suite.models["simulated"].provider == "simulated"
    named = {"simulated": {"provider": "openai", "family": "f", "size": "api", "model": "mine"}}
    suite = load_suite(str(write_profile(tmp_path, models=named)))
    assert suite.models["simulated"].provider_options()["model"] == "mine"  # the file's own goes first
