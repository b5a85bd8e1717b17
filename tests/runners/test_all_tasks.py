"""Every task of ``tasks_v1.yaml`` runs end to end: simulated, with the embedded model, and on published data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pcsuite.config.definitions import TasksFile
from pcsuite.config.load import Suite, bundled_configs, load_suite
from pcsuite.config.yaml_source import YamlSource
from pcsuite.data.export.base import ExportOptions
from pcsuite.data.export.pipeline import export_datasets
from pcsuite.engines.weights import catalogue_entry, pull_weights
from pcsuite.evaluation.base import Answer
from pcsuite.evaluation.schema_check import schema_error
from pcsuite.logging.log import iter_rows
from pcsuite.logging.row import RunRow
from pcsuite.runners.plan import Plan, build_plan
from pcsuite.runners.run_suite import run_suite
from pcsuite.runners.task_plan import plan_task
from support.profiles import SIMULATED, SMOLLM, write_profile
from support.tiny_gguf import tiny_model

TASKS = YamlSource.read(bundled_configs() / "tasks_v1.yaml").parse(TasksFile).tasks
PUBLISHED = tuple(task_id for task_id in TASKS if task_id != "buildingspec_json")
"""Building records are our own: there is no published set, and their documents are too long for a quick round."""
AT_HAND = tuple(task_id for task_id in PUBLISHED if not task_id.endswith("_relations_json"))
"""Tasks whose published files lie beside the checkout."""
CONDITIONS = ("C0", "C3", "C6")
CONSTRAINT_KINDS = {"gsm8k": "regex", "svamp": "regex", "spider_sql": "cfg"}
DATA = Path(os.environ.get("PCS_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the published files are not at {DATA} (PCS_SHARED_DATA)"
)


def profile_of_all_tasks(folder: Path, tasks: tuple[str, ...] = PUBLISHED, **options: object) -> Path:
    settings: dict[str, object] = {"regimes": ("D0",), "conditions": CONDITIONS, **options}
    return write_profile(folder, tasks=tasks, **settings)


def run_all(path: Path) -> tuple[Plan, list[RunRow]]:
    suite = load_suite(path)
    summary = run_suite(suite, quiet=True)
    assert summary.tally.failed == 0
    assert summary.not_applicable == ()
    return build_plan(suite), list(iter_rows(summary.paths.log))


def assert_constraint_held(plan: Plan, row: RunRow) -> None:
    """A finished answer under a hard constraint conforms; the row says who enforced it."""
    assert row.generation is not None
    assert row.generation.constraint_backend == "native:llama.cpp"
    if row.generation.finish_reason == "length":
        return
    schema = plan.tasks[row.task.id].prompting.schema
    if schema is not None:
        assert row.parsed.json_valid is True, row.generation.text
        assert schema_error(row.parsed.fields, schema) is None, row.generation.text
    elif row.task.id == "spider_sql":
        assert row.generation.text.lower().startswith(("select", "insufficient_info")), row.generation.text
    else:
        assert "\n#### " in row.generation.text


def test_all_tasks_of_the_contract_are_there() -> None:
    assert set(TASKS) >= {
        "conll03_ner_json",
        "agnews_json",
        "gsm8k",
        "csqa_json",
        "truthfulqa_gen",
        "truthfulqa_mc",
        "fever_json",
        "spider_sql",
        "svamp",
        "strategyqa",
        "boolq",
        "trec",
        "nq_open",
        "buildingspec_json",
    }


@pytest.mark.parametrize("task_id", TASKS)
def test_what_c6_enforces(task_id: str, tmp_path: Path) -> None:
    suite = load_suite(write_profile(tmp_path, tasks=(task_id,), conditions=("C6",)))
    (cell, *_) = build_plan(suite).cells
    operator = {"regex": "REGEX_CONSTRAIN", "cfg": "CFG_CONSTRAIN", "json_schema": "TYPE_CONSTRAIN"}
    assert cell.operators[-1] == operator[CONSTRAINT_KINDS.get(task_id, "json_schema")]


@pytest.mark.parametrize("task_id", TASKS)
def test_optimiser_items_are_bundled_and_apart_from_the_scored_ones(task_id: str, tmp_path: Path) -> None:
    suite = load_suite(write_profile(tmp_path, tasks=(task_id,)))
    spec = suite.tasks[task_id]
    assert spec.dev_split is not None
    scored = {item.input_text for item in plan_task(suite, task_id).items}
    dev = load_suite_items(suite, task_id, spec.dev_split)
    assert len(dev) >= (2 if task_id == "buildingspec_json" else 12)
    assert not scored & dev


def load_suite_items(suite: Suite, task_id: str, split: str) -> set[str]:
    from pcsuite.data.items import load_items

    loaded = load_items(suite.tasks[task_id].dataset, split, Path(suite.profile.run.cache_dir))
    assert loaded.source.kind == "sample"
    return {item.input_text for item in loaded.items}


@pytest.mark.slow
def test_simulated_answers_of_every_task_score_as_they_were_drawn(tmp_path: Path) -> None:
    always_json = {"sim": SIMULATED | {"json_validity": 0.999999}}
    plan, rows = run_all(profile_of_all_tasks(tmp_path, tuple(TASKS), models=always_json, items=4))
    assert len(rows) == len(TASKS) * len(CONDITIONS) * 4
    outcomes: dict[str, set[bool]] = {task_id: set() for task_id in TASKS}
    for row in rows:
        assert row.generation is not None
        task = plan.tasks[row.task.id]
        item = next(item for item in task.items if item.item_id == row.task.item_id)
        drawn_right = row.generation.text == task.evaluator.gold_answer(item)
        score = row.metrics["task_score"]
        assert (score == 1.0) is drawn_right, (row.task, row.generation.text)
        assert row.metrics["answered"] is True
        outcomes[row.task.id].add(drawn_right)
        assert (row.generation.constraint_backend is not None) is (row.condition.id == "C6")
    assert [task_id for task_id, seen in outcomes.items() if seen != {True, False}] == []


@pytest.mark.model
@pytest.mark.parametrize(("model", "conditions"), [("embedded", ("C6",)), ("tiny", CONDITIONS)])
def test_the_embedded_engine_runs_every_task(model: str, conditions: tuple[str, ...], tmp_path: Path) -> None:
    """The model answers under the constraint; without one, only that it answers is asked, which a tiny one shows."""
    pytest.importorskip("xllamacpp")
    pull_weights(catalogue_entry("smollm2-135m-instruct-q4_1"))
    models = SMOLLM if model == "embedded" else {"tiny": tiny_model()}
    plan, rows = run_all(profile_of_all_tasks(tmp_path, models=models, items=1, conditions=conditions))
    assert len(rows) == len(PUBLISHED) * len(conditions)
    for row in rows:
        assert row.generation is not None
        assert row.errors == []
        assert row.generation.usage.completion_tokens > 0
        assert 0.0 <= row.metrics["task_score"] <= 1.0
        if row.condition.id == "C6":
            assert_constraint_held(plan, row)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All datasets exported once."""
    folder = tmp_path_factory.mktemp("published")
    results = export_datasets(folder, from_dir=DATA, options=ExportOptions(allow_partial=True))
    assert [(result.dataset, result.error) for result in results if result.error] == []
    return folder


@pytest.mark.realdata
@needs_data
def test_every_published_dataset_makes_a_plan(published: Path, tmp_path: Path) -> None:
    run = {"name": "t", "cache_dir": str(published)}
    path = profile_of_all_tasks(tmp_path, AT_HAND, items=10, run=run)
    plan = build_plan(load_suite(path, {"selection.conditions": ["C0", "C3", "C5", "C6"]}))
    assert plan.not_applicable == ()
    assert plan.calls == len(AT_HAND) * 4 * 10
    for task in plan.tasks.values():
        assert (task.source.kind, len(task.items)) == ("cache", 10), task.id
        # No training file is published beside most of these sets: exemplars are then the bundled ones.
        assert len(task.prompting.exemplars) == 4, task.id
        for item in task.items:
            gold = task.evaluator.evaluate(item, Answer(task.evaluator.gold_answer(item)))
            assert gold.metrics["task_score"] == 1.0, (task.id, item.item_id)


@pytest.mark.realdata
@needs_data
def test_a_moved_cache_keeps_run_ids(published: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.symlink_to(published)
    ids = []
    for cache in (published, elsewhere):
        run = {"name": "t", "cache_dir": str(cache)}
        path = write_profile(tmp_path, tasks=("spider_sql",), items=3, run=run)
        ids.append([unit.run_id for unit in build_plan(load_suite(path)).units("sim")])
    assert ids[0] == ids[1]


@pytest.mark.realdata
@pytest.mark.model
@needs_data
def test_the_embedded_engine_runs_every_published_dataset(published: Path, tmp_path: Path) -> None:
    run = {"name": "t", "output_dir": str(tmp_path / "outputs"), "cache_dir": str(published)}
    one = {"models": {"tiny": tiny_model()}, "items": 1, "conditions": ("C6",), "run": run}
    plan, rows = run_all(profile_of_all_tasks(tmp_path, AT_HAND, **one))
    assert {row.task.id for row in rows} == set(AT_HAND)
    for row in rows:
        assert plan.tasks[row.task.id].source.kind == "cache"
        assert_constraint_held(plan, row)
    # An answer that was cut shows nothing of its constraint: these weights end nearly all of theirs.
    assert sum(row.generation is not None and row.generation.finish_reason == "stop" for row in rows) >= 11
