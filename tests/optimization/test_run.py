"""Compiling C8: measured like any run, on development items only, resumable, frozen, rendered."""

import csv
import json
import math
from concurrent.futures import ThreadPoolExecutor

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.data.items import SAMPLES, read_items
from pcsuite.engines.adapters.simulated import SimulatedAdapter
from pcsuite.errors import DataError, ErrorRateError, PromptError
from pcsuite.logging.log import iter_rows
from pcsuite.optimization.development import plan_dev_task
from pcsuite.optimization.problem import Candidate
from pcsuite.optimization.run import OptimizeSettings, estimate_optimization, open_problem, optimize
from pcsuite.prompts.compiled import CompiledPrompt, compiled_path
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.report.build import build_report
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite
from pcsuite.stats.answer_variation import entropy
from support.profiles import SIMULATED, write_profile

MODEL = SIMULATED | {"base_accuracy": 0.4, "operator_effects": {"SCHEMA": 1.5, "ROLE": -1.0, "VERIFIER": 0.8}}


def suite_in(folder, model=MODEL, **options):
    return load_suite(write_profile(folder, {"sim": model}, **options))


def settings(method="blocks", task="agnews_json", **changes):
    return OptimizeSettings(task, "sim", method, **({"candidates": 6, "items": 8, "seed": 3} | changes))


def opened(suite, **changes):
    chosen = settings(**changes)
    return open_problem(suite, chosen, plan_dev_task(suite, chosen.task_id, chosen.items), seed=3)


def hand_worked_j(rows, *, budget, answers):
    """J from stored rows, with nothing but arithmetic and the entropy estimator."""
    items = {}
    for row in rows:
        items.setdefault(row.task.item_id, []).append(row)
    task = spread = cost = 0.0
    unsupported = []
    for group in items.values():
        task += sum(row.metrics["task_score"] for row in group) / len(group)
        rates = [
            row.metrics["unsupported_rate"] for row in group if row.metrics["unsupported_rate"] is not None
        ]
        unsupported += [sum(rates) / len(rates)] if rates else []
        given = [row.parsed.answer for row in group]
        counts = [given.count(answer) for answer in dict.fromkeys(given)]
        maximum = math.log(answers or len(group))
        spread += min(1.0, float(entropy([counts])[0]) / maximum)
        cost += sum(row.generation.usage.total_tokens for row in group) / len(group) / budget
    rate = sum(unsupported) / len(unsupported) if unsupported else 0.0
    return (1.0 * task - 0.3 * spread - 0.1 * cost) / len(items) - 0.7 * rate


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


def test_no_text_of_a_test_item_reaches_an_optimiser(tmp_path, monkeypatch):
    sent = []
    draw = SimulatedAdapter.draw

    def recording(self, request):
        sent.append(request.prompt)
        return draw(self, request)

    monkeypatch.setattr(SimulatedAdapter, "draw", recording)
    tested = read_items(SAMPLES / "ag_news_test.jsonl")
    # A leak laid on purpose: a test item among the development items, another among the training items.
    datasets = tmp_path / "cache" / "datasets"
    datasets.mkdir(parents=True)
    for name, leak in (("ag_news_dev", tested[0]), ("ag_news_train", tested[1])):
        leaked = {"item_id": "leak", "input_text": f" {leak.input_text.upper()} ", "truth": leak.truth}
        own = (SAMPLES / f"{name}.jsonl").read_text(encoding="utf-8")
        (datasets / f"{name}.jsonl").write_text(json.dumps(leaked) + "\n" + own, encoding="utf-8")
    suite = suite_in(tmp_path)
    for method in ("ape", "blocks"):
        optimize(suite, settings(method, items=30, candidates=4))
    assert len(sent) > 200
    everything = " ".join("\n".join(sent).casefold().split())
    for item in tested:
        assert " ".join(item.input_text.casefold().split()) not in everything


def test_the_split_that_is_scored_is_refused(tmp_path):
    suite = suite_in(tmp_path)
    tasks = dict(suite.tasks)
    for split, message in (("test", "also the split that is scored"), (None, "has no dev_split")):
        tasks["agnews_json"] = suite.tasks["agnews_json"].model_copy(update={"dev_split": split})
        object.__setattr__(suite, "tasks", tasks)
        with pytest.raises(DataError, match=message):
            plan_dev_task(suite, "agnews_json", 4)


class Stopped(Exception):
    """Stands for whatever ends a search."""


def test_a_stopped_search_goes_on_and_ends_as_if_it_had_not_been(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole = optimize(suite_in(tmp_path / "a"), settings("ape", items=6))

    def stop(problem, score, seconds):
        if problem.tried == 3:
            raise Stopped

    suite = suite_in(tmp_path / "b")
    with pytest.raises(Stopped):
        optimize(suite, settings("ape", items=6), on_score=stop)
    log = tmp_path / "b" / "outputs" / "optimization" / "agnews_json__sim.jsonl"
    before = len(list(iter_rows(log)))
    assert 0 < before < len(list(iter_rows(whole.log)))
    with log.open("ab") as stream:
        stream.write(b'{"run_id": "torn')
    resumed = optimize(suite, settings("ape", items=6))
    rows = list(iter_rows(log))
    assert len({row.run_id for row in rows}) == len(rows) == len(list(iter_rows(whole.log)))
    assert resumed.document["hash"] == whole.document["hash"]
    assert resumed.document["dev"] == whole.document["dev"]
    again = optimize(suite, settings("ape", items=6))
    assert again.spent_tokens == 0
    assert len(list(iter_rows(log))) == len(rows)


def test_candidates_that_fail_are_worst_and_a_dead_model_is_an_error(tmp_path):
    suite = suite_in(tmp_path)
    with opened(suite) as problem:
        retrieving = suite.operators["REACT_LOOP"]
        from pcsuite.prompts.compiled import BlockChoice

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


def test_proposals_are_asked_once_and_differ_by_seed(tmp_path):
    suite = suite_in(tmp_path)
    with opened(suite) as problem:
        texts = {problem.ask("Write an instruction.", seed=number) for number in range(6)}
        assert len(texts) > 1
        first = problem.ask("Write an instruction.", seed=0)
    journal = tmp_path / "outputs" / "optimization" / "agnews_json__sim.candidates.jsonl"
    asked = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert sum(entry["kind"] == "ask" for entry in asked) == 6
    with opened(suite) as problem:
        assert problem.ask("Write an instruction.", seed=0) == first
    assert journal.read_text(encoding="utf-8").count('"kind": "ask"') == 6


def test_c8_renders_the_frozen_prompt_and_its_rows_belong_to_it(tmp_path, capsys):
    path = write_profile(tmp_path, {"sim": MODEL}, conditions=("C0", "C8"), items=4)
    suite = load_suite(path)
    with pytest.raises(PromptError, match=r"pcsuite optimize --config .* --task agnews_json --model sim"):
        build_plan(suite)
    outcome = optimize(suite, settings(candidates=4))
    frozen = compiled_path(tmp_path / "outputs", "agnews_json", "sim")
    assert outcome.path == frozen
    plan = build_plan(suite)
    cell = next(cell for cell in plan.cells if cell.condition.id == "C8")
    shown = apply_condition(cell.condition, cell.task.prompting.context("An item.")).prompt
    winner = outcome.winner.score.candidate.prompt
    assert cell.condition.prompt == winner
    assert main(["prompt", "agnews_json", "C8", "--config", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == shown.splitlines()[0]
    ids = {unit.run_id for unit in plan.units("sim") if unit.cell.condition.id == "C8"}
    other = CompiledPrompt(template="Another text.\n{{input}}")
    document = {**outcome.document, "prompt": other.as_dict(), "hash": other.hash}
    frozen.write_text(json.dumps(document), encoding="utf-8")
    changed = {unit.run_id for unit in build_plan(suite).units("sim") if unit.cell.condition.id == "C8"}
    assert not ids & changed
    kept = optimize(suite, settings(candidates=4))
    assert kept.replaced == frozen.with_suffix(".old-1.json")
    assert {unit.run_id for unit in build_plan(suite).units("sim") if unit.cell.condition.id == "C8"} == ids


def test_the_frozen_file_says_where_the_prompt_comes_from(tmp_path):
    outcome = optimize(suite_in(tmp_path), settings("ape", candidates=6, items=12))
    document = json.loads(outcome.path.read_text(encoding="utf-8"))
    dev = document["dev"]
    assert (document["method"], document["candidates"], dev["items"], dev["split"]) == ("ape", 6, 12, "dev")
    assert dev["J_low"] <= dev["J"] <= dev["J_high"]
    assert dev["J_corrected"] == pytest.approx(dev["J"] - dev["optimism"])
    assert dev["baseline"]["J"] == outcome.scores[next(iter(outcome.scores))].value
    assert document["lineage"][-1]["id"] == document["hash"][:12]
    assert document["weights"] == {"task": 1.0, "unsupported": 0.7, "entropy": 0.3, "token_cost": 0.1}
    parents = set(document["lineage"][-1]["parents"])
    assert parents <= {entry["id"] for entry in document["lineage"]}


def test_the_report_has_j_of_every_condition_and_what_compiling_brought(tmp_path):
    path = write_profile(
        tmp_path, {"sim": MODEL}, conditions=("C0", "C4", "C8"), regimes=("d1_sampled",), items=12
    )
    suite = load_suite(path)
    outcome = optimize(suite, settings(candidates=8, items=24))
    summary = run_suite(suite, quiet=True)
    files = build_report([summary.paths.log], tmp_path / "outputs", plots=False)
    tables = tmp_path / "outputs" / "tables"
    with (tables / "objective.csv").open(encoding="utf-8") as stream:
        rows = {row["condition"]: row for row in csv.DictReader(stream)}
    stored = list(iter_rows(summary.paths.log))
    for condition in ("C0", "C4", "C8"):
        own = [row for row in stored if row.condition.id == condition]
        assert float(rows[condition]["J"]) == pytest.approx(
            hand_worked_j(own, budget=770, answers=5), abs=1e-9
        )
        parts = [float(rows[condition][name]) for name in ("task_score", "entropy", "token_cost")]
        assert float(rows[condition]["J"]) == pytest.approx(parts[0] - 0.3 * parts[1] - 0.1 * parts[2])
        assert rows[condition]["unsupported_rate"] == ""
    with (tables / "compiled.csv").open(encoding="utf-8") as stream:
        (compiled,) = csv.DictReader(stream)
    gain = float(rows["C8"]["J"]) - float(rows["C0"]["J"])
    assert float(compiled["test_gain"]) == pytest.approx(gain)
    assert float(compiled["dev_J"]) == pytest.approx(outcome.document["dev"]["J"])
    assert float(compiled["gain_survived"]) == pytest.approx(gain / outcome.document["dev"]["gain"])
    assert compiled["makeup"] == " + ".join(outcome.document["makeup"])
    page = files.index.read_text(encoding="utf-8")
    assert "The objective J" in page
    assert "What the compiled prompts are made of" in page
    assert "Which operators earned their tokens in the search" in page


def test_the_command_estimates_first_and_freezes(tmp_path, capsys):
    path = write_profile(tmp_path, {"sim": MODEL})
    command = ["optimize", "--config", str(path), "--method", "blocks", "--candidates", "3", "--limit", "4"]
    assert main([*command, "--dry-run"]) == 0
    # Three candidates and the bare instruction on four items with two replicates, each of 650 + 120 tokens at most.
    assert "at most 32 calls, 24,640 tokens" in capsys.readouterr().out
    assert not (tmp_path / "outputs" / "compiled").exists()
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "frozen: " in shown.out
    assert "3/3" in shown.err
    assert main([*command[:-4], "--method", "blokcs"]) == 2
    assert "did you mean 'blocks'?" in capsys.readouterr().err


def test_the_estimate_uses_the_contracts_numbers_of_items(tmp_path):
    suite = suite_in(tmp_path)
    estimate = estimate_optimization(suite, OptimizeSettings("agnews_json", "sim", "ape"))
    assert (estimate.dev_items, estimate.replicates) == (24, 2)  # the bundled sample has 24 of the 500 wanted
    assert estimate.calls == 41 * 24 * 2


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
