"""A task of a plan: what is shown of the training split, and what is wrong with its items or options."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pcsuite.config.load import load_suite
from pcsuite.errors import ConfigError, DataError
from pcsuite.evaluation.base import Answer
from pcsuite.runners.task_plan import MAX_EXEMPLARS, check_items, plan_task, task_evaluator
from support.profiles import write_profile


def test_exemplars_are_solved_and_never_a_scored_input(tmp_path):
    task = plan_task(load_suite(write_profile(tmp_path)), "agnews_json")
    shown = task.prompting.exemplars
    assert 0 < len(shown) <= MAX_EXEMPLARS
    assert not {entry.input_text for entry in shown} & {item.input_text for item in task.items}
    assert all(json.loads(entry.output_text)["label"] in task.evaluator.labels for entry in shown)


def test_the_same_profile_takes_the_same_items_and_their_gold_answers_score_full(tmp_path):
    suite = load_suite(write_profile(tmp_path, items=3))
    task = plan_task(suite, "agnews_json")
    assert [item.item_id for item in task.items] == [
        item.item_id for item in plan_task(suite, "agnews_json").items
    ]
    assert len(task.items) == len(task.item_digests) == 3
    for item in task.items:
        assert (
            task.evaluator.evaluate(item, Answer(task.evaluator.gold_answer(item))).metrics["task_score"] == 1
        )


def test_a_truth_that_no_answer_meets_is_told_with_its_file(tmp_path):
    task = plan_task(load_suite(write_profile(tmp_path, items=1)), "agnews_json")
    wrong = replace(task.items[0], truth={"label": "Gardening"})
    with pytest.raises(DataError, match=r"items\.jsonl: item .*'Gardening'"):
        check_items(task.evaluator, [wrong], tmp_path / "items.jsonl")


def test_wrong_options_of_an_evaluator_are_told_with_their_line(tmp_path):
    path = write_profile(
        tmp_path, suite={"models_ref": "models.yaml", "tasks_ref": "tasks.yaml"}, tasks=("mine",)
    )
    (tmp_path / "tasks.yaml").write_text(
        "version: '1.0'\ntasks:\n  mine:\n    dataset: ag_news\n    kind: structured\n    title: T\n    goal: G\n"
        "    instruction: I\n    role: r\n    primary_metric: accuracy\n    evaluator: classification\n"
        "    evaluator_options: {answer_feild: x}\n"
    )
    with pytest.raises(ConfigError, match=r"tasks\.yaml:\d+.*answer_feild"):
        task_evaluator(load_suite(path), "mine")
