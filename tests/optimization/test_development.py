"""A task as a problem of optimisation: development items alone, measured like any run."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from pcsuite.errors import DataError, ErrorRateError
from pcsuite.logging.log import iter_rows
from pcsuite.optimization.development import plan_dev_task
from pcsuite.optimization.problem import Candidate
from pcsuite.prompts.compiled import BlockChoice, CompiledPrompt
from support.optimizing import MODEL, hand_worked_j, opened, suite_in


def test_j_of_a_candidate_is_the_figure_worked_out_from_its_rows(tmp_path):
    suite = suite_in(tmp_path)
    with opened(suite) as problem:
        score = problem.evaluate(Candidate.of_text("Sort it.\n{{input}}\nCheck your answer.", method="hand"))
    rows = list(iter_rows(tmp_path / "outputs" / "optimization" / "agnews_json__sim.jsonl"))
    own = [row for row in rows if row.condition.id == f"C8:{score.candidate.id}"]
    assert len(own) == 8 * 2
    assert {row.task.split for row in own} == {"dev"}
    assert own[0].condition.operators == ("COMPILED", "VERIFIER")
    # Four labels and anything else; 650 prompt tokens and 120 of the answer.
    assert score.value == pytest.approx(hand_worked_j(own, budget=650 + 120, answers=5), abs=1e-12)
    assert score.complete
    assert not score.crashed


def test_the_split_that_is_scored_is_refused(tmp_path):
    suite = suite_in(tmp_path)
    tasks = dict(suite.tasks)
    for split, message in (("test", "also the split that is scored"), (None, "has no dev_split")):
        tasks["agnews_json"] = suite.tasks["agnews_json"].model_copy(update={"dev_split": split})
        object.__setattr__(suite, "tasks", tasks)
        with pytest.raises(DataError, match=message):
            plan_dev_task(suite, "agnews_json", 4)


def test_candidates_that_fail_are_worst_and_a_dead_model_is_an_error(tmp_path):
    suite = suite_in(tmp_path)
    with opened(suite) as problem:
        retrieving = suite.operators["REACT_LOOP"]
        crashed = problem.evaluate(
            Candidate(CompiledPrompt(blocks=(BlockChoice("REACT_LOOP", 0, retrieving),)), "x")
        )
        assert crashed.crashed
        assert crashed.value == pytest.approx(-1.1)
        assert crashed.rescaled == 0.0
        assert crashed.rank < problem.baseline.rank
        assert "no corpus" in crashed.errors[0]
    (tmp_path / "dead").mkdir()
    dead = suite_in(tmp_path / "dead", MODEL | {"fatal_error_rate": 1.0})
    with pytest.raises(ErrorRateError, match="does not answer the bare instruction"), opened(dead):
        pass


def test_threads_that_measure_the_same_items_run_each_row_once(tmp_path):
    candidate = Candidate.of_text("Sort it.\n{{input}}", method="hand")
    with opened(suite_in(tmp_path)) as problem, ThreadPoolExecutor(4) as pool:
        single = [pool.submit(problem.evaluate, candidate, [item]) for item in problem.dev for _ in range(2)]
        whole = pool.submit(problem.evaluate, candidate)
        alone = {job.result().item_parts.items[0]: job.result().value for job in single}
        score = whole.result()
    assert score.complete
    assert [alone[item] for item in score.item_parts.items] == pytest.approx(list(score.item_values))
    rows = list(iter_rows(tmp_path / "outputs" / "optimization" / "agnews_json__sim.jsonl"))
    assert len({row.run_id for row in rows}) == len(rows) == 2 * 8 * 2


@pytest.mark.parametrize("task", ["conll03_ner_json", "gsm8k", "fever_json", "truthfulqa_gen"])
def test_other_kinds_of_tasks_have_a_j_too(tmp_path, task):
    suite = suite_in(tmp_path, tasks=(task,))
    with opened(suite, task=task, items=6) as problem:
        score = problem.baseline
    rows = list(iter_rows(tmp_path / "outputs" / "optimization" / f"{task}__sim.jsonl"))
    spec = suite.tasks[task]
    budget = problem.token_budget
    assert budget == (650 if spec.kind == "structured" else 500) + spec.max_tokens
    if task == "conll03_ner_json":
        found = {name: sum(row.metrics[name] for row in rows) for name in ("tp", "fp", "fn")}
        f1 = 2 * found["tp"] / (2 * found["tp"] + found["fp"] + found["fn"])
        assert score.parts.task == pytest.approx(f1)
    else:
        labels = {"fever_json": 4}.get(task)
        assert score.value == pytest.approx(hand_worked_j(rows, budget=budget, answers=labels), abs=1e-12)
    assert (score.parts.unsupported is None) == (task == "gsm8k")
