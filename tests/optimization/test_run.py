"""Compiling C8: measured like any run, on development items only, resumable, frozen, rendered."""

import csv
import json
import re

import pytest

from pcsuite.cli import main
from pcsuite.config.load import load_suite
from pcsuite.data.items import SAMPLES, read_items
from pcsuite.engines.adapters.simulated import SimulatedAdapter
from pcsuite.logging.log import iter_rows
from pcsuite.optimization.run import OptimizeSettings, estimate_optimization, optimize
from pcsuite.prompts.compiled import CompiledPrompt, compiled_path
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.reporting.build import build_report
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite
from support.optimizing import MODEL, hand_worked_j, settings, suite_in
from support.profiles import write_profile


@pytest.mark.slow
def test_no_text_of_a_test_item_reaches_an_optimiser(tmp_path, monkeypatch):
    sent = []
    answer = SimulatedAdapter.agenerate

    async def recording(self, request):
        sent.append(request.prompt)
        return await answer(self, request)

    monkeypatch.setattr(SimulatedAdapter, "agenerate", recording)
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


class Stopped(Exception):
    """Stands for whatever ends a search."""


@pytest.mark.slow
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


def test_c8_renders_the_frozen_prompt_and_its_rows_belong_to_it(tmp_path, capsys):
    path = write_profile(tmp_path, {"sim": MODEL}, conditions=("C0", "C8"), items=4)
    suite = load_suite(path)
    (missing,) = build_plan(suite).not_applicable
    assert missing.condition_id == "C8"
    assert re.search(r"pcsuite optimize --config .* --task agnews_json --model sim", missing.reason)
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


@pytest.mark.slow
def test_the_report_has_j_of_every_condition_and_what_compiling_brought(tmp_path):
    path = write_profile(tmp_path, {"sim": MODEL}, conditions=("C0", "C4", "C8"), regimes=("D1",), items=12)
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
