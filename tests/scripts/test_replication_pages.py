"""The replications: what is registered is what is asked, and their pages are what their rows say."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import replication_pages as pages

from pcsuite.config.load import load_suite
from pcsuite.contrasts import Contrast as Difference
from pcsuite.contrasts import Family, judge, measure
from pcsuite.prompts.conditions.conditions import expand_conditions
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite

LANDED = json.loads(pages.REGISTERED.read_text(encoding="utf-8"))
MODEL = "qwen2.5-coder-0.5b"


@pytest.mark.parametrize("name", pages.NAMES)
def test_what_is_registered_is_what_is_asked(name):
    assert pages.registration(name) == LANDED[name]


@pytest.mark.parametrize("name", pages.NAMES)
def test_a_profile_is_complete_and_of_the_size_that_its_page_says(name):
    suite = load_suite(f"replications/{name}")
    profile, selection = suite.profile, suite.profile.selection
    assert (len(selection.tasks), profile.limits.max_items_per_task) == (6, 200)
    assert profile.draw.example_sets >= 10
    conditions = set(selection.conditions)
    assert all(set(pair) <= conditions for pair in pages.contrasts_of(suite))
    rows = len(conditions) * 6 * 200 * 2
    text = (pages.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert f"{len(conditions)} conditions × 6 tasks × 200 items × 2 models: {rows:,} rows" in text
    assert f"{rows:,} |" in (pages.PAGES / "README.md").read_text(encoding="utf-8")


def test_all_of_them_take_some_hundred_thousand_rows():
    conditions = [
        len(load_suite(f"replications/{name}").profile.selection.conditions) for name in pages.NAMES
    ]
    assert sum(conditions) * 2400 == 100_800


@pytest.mark.parametrize("name", pages.NAMES)
def test_conditions_render_pairwise_distinct_and_shams_have_the_length_of_what_they_stand_for(name):
    suite = load_suite(f"replications/{name}", {"limits.max_items_per_task": 4})
    plan = build_plan(suite)
    assert not plan.not_applicable
    cells = [cell for cell in plan.cells if cell.model_id == MODEL]
    for task in plan.tasks.values():
        for item in task.items:
            text = {cell.condition.id: cell.tree(item).assemble() for cell in cells if cell.task is task}
            assert len(set(text.values())) == len(text)
            for full, sham in (
                ("zero_twice", "zero_filler"), ("few_twice", "few_filler"), ("expert", "role_filler"),
                ("checks_before", "sham_before"), ("checks_behind", "sham_behind"),
                ("checks_behind_turns", "sham_behind_turns"),
            ):  # fmt: skip
                if full in text:
                    assert len(text[full]) == len(text[sham])
                    assert text[full] != text[sham]
            if "few_filler" in text:
                assert text["few_filler"].count(item.input_text) == 1
                assert text["few_twice"].count(item.input_text) == 2


@pytest.mark.parametrize("name", pages.NAMES)
def test_pages_without_rows_say_that_nothing_was_run(name):
    text = (pages.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert text == pages.written(text, pages.results(name, None))
    assert f"**Not yet run.** Registered as `{LANDED[name][:12]}`" in text
    assert not (pages.PAGES / "rows").exists()


# With rows of a simulated model.


def simulated_rows(name, folder, effects):
    """The rows of a replication on a simulated model with these effects, and where its page then is."""
    models = folder / "models.yaml"
    models.write_text(
        json.dumps(
            {
                "models": {
                    "sim": {
                        "provider": "simulated", "family": "s", "size": "1B", "base_accuracy": 0.5,
                        "operator_effects": effects, "json_validity": 0.99,
                    }
                }
            }
        ),
        encoding="utf-8",
    )  # fmt: skip
    overrides = {
        "selection.models": ["sim"],
        "selection.tasks": ["trec", "svamp"],
        "suite.models_ref": str(models),
        "run.output_dir": str(folder / "outputs"),
        "run.cache_dir": str(folder / "cache"),
    }
    suite = load_suite(f"replications/{name}", overrides)
    run_suite(suite, quiet=True)
    return suite, folder / "outputs" / "runs" / f"replication_{name}.jsonl", overrides


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """A model on which the second copy does great harm."""
    folder = tmp_path_factory.mktemp("twice")
    suite, log, overrides = simulated_rows("prompt_twice", folder, {"PROMPT.x2": -4.0})
    return folder, suite, log, overrides


@pytest.mark.slow
def test_rows_are_published_compressed_and_read_back_as_they_were(twice):
    folder, suite, log, _ = twice
    rows = pages.rows_of_log("prompt_twice", log, suite)
    plan = build_plan(suite)
    assert len(rows) == plan.calls
    drawn = {item.item_id: task.drawn(item) for task in plan.tasks.values() for item in task.items}
    assert all((row.examples, row.wording) == tuple(map(str, drawn[row.item])) for row in rows)
    path = folder / "rows" / "prompt_twice.csv.gz"
    assert pages.write_rows(rows, path)
    assert pages.read_rows(path) == rows
    first = path.read_bytes()
    assert pages.write_rows(rows, path)
    assert path.read_bytes() == first
    assert gzip.decompress(first).decode().splitlines()[0] == ",".join(pages.COLUMNS)


def test_rows_that_are_too_large_are_not_published(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "LARGEST", 100)
    row = pages.Answer("m", "t", "i", "0", "0", "c", 1.0, 1.0, "x", False, "answered")
    rows = [row._replace(item=f"item-{number * 7919 % 1000}") for number in range(300)]
    assert not pages.write_rows(rows, tmp_path / "rows.csv.gz")
    assert not (tmp_path / "rows.csv.gz").exists()


@pytest.mark.slow
def test_a_page_is_written_from_a_log_and_again_from_its_rows(twice, tmp_path):
    folder, _, log, overrides = twice
    for name in pages.NAMES:
        (tmp_path / f"{name}.md").write_text(
            (pages.PAGES / f"{name}.md").read_text(encoding="utf-8"), "utf-8"
        )
    words = ["--log", str(log), "--to", str(tmp_path)]
    for key, value in overrides.items():
        words += ["--set", f"{key}={json.dumps(value)}"]
    assert pages.main(["prompt_twice", *words]) == 0
    text = (tmp_path / "prompt_twice.md").read_text(encoding="utf-8")
    assert "**Verdict: contradicted.**" in text
    assert "0 wins, " in text
    assert "| zero_twice − zero | 0 | " in text
    assert (tmp_path / "prompt_twice.png").stat().st_size > 5000
    assert "commonest answer | abstained |" in text
    assert pages.main(["--check", "--to", str(tmp_path)]) == 0
    rows = tmp_path / "rows" / "prompt_twice.csv.gz"
    kept = [row for row in pages.read_rows(rows) if row.task == "trec"]
    pages.write_rows(kept, rows)
    assert pages.main(["--check", "--to", str(tmp_path)]) == 1
    assert folder != tmp_path


@pytest.mark.slow
def test_a_registered_contrast_is_that_of_the_items_clustered_by_example_set(twice):
    _, suite, log, _ = twice
    rows = pages.rows_of_log("prompt_twice", log, suite)
    cells = pages.Cells("prompt_twice", suite, rows)
    found = next(
        one
        for one in pages.judged(cells)
        if (one.task, one.first, one.second) == ("trec", "zero_twice", "zero")
    )
    by_item = {(row.condition, row.item): row for row in rows if row.task == "trec"}
    items = sorted({item for _, item in by_item})
    differences = [by_item["zero_twice", item].score - by_item["zero", item].score for item in items]
    assert found.strict.estimate.value == pytest.approx(np.mean(differences))
    arms = cells.arms("sim", ["trec"], pages.STRICT, ("zero_twice", "zero"))
    assert list(arms["zero"].clusters) == [f"trec {by_item['zero', item].examples}" for item in items]
    (alone,) = judge(
        measure(arms, [Difference.of("zero_twice", "zero")], rng=np.random.default_rng(0)), Family("holm")
    )
    assert alone.estimate.value == found.strict.estimate.value
    assert found.strict.p_adjusted >= alone.p_adjusted


def made(
    name,
    table,
    *,
    items=200,
    models=("m",),
    tasks=("trec", "boolq", "svamp", "agnews_json", "csqa_json", "strategyqa"),
):
    """Rows with these scores: by condition a function of (item, task) to the strict and the lenient score."""
    rows = []
    for model in models:
        for task in tasks:
            for item in range(items):
                for condition, score in table.items():
                    strict, lenient = score(item, task)
                    answer = f"a{item % 4}"
                    rows.append(
                        pages.Answer(model, task, f"i{item}", str(item // 10), "0", condition, strict, lenient, answer, False, "answered")
                    )  # fmt: skip
    return pages.Cells(name, load_suite(f"replications/{name}"), rows)


def half(item, task):
    return (float(item % 2),) * 2


def most(item, task):
    return (float(item % 2 or item % 10 < 6),) * 2


def test_the_verdict_on_the_prompt_twice_asks_for_wins_beyond_length():
    conditions = dict.fromkeys(("zero", "zero_filler", "few", "few_filler"), half)
    wins = {**conditions, "zero_twice": most, "few_twice": most}
    assert pages.verdict_prompt_twice(made("prompt_twice", wins))[0] == "supported"
    as_long = {**wins, "zero_filler": most, "few_filler": most}
    assert pages.verdict_prompt_twice(made("prompt_twice", as_long))[0] == "supported, and not beyond length"
    nothing = {**conditions, "zero_twice": half, "few_twice": half}
    assert pages.verdict_prompt_twice(made("prompt_twice", nothing))[0] == "inconclusive"
    losses = {**dict.fromkeys(conditions, most), "zero_twice": half, "few_twice": half}
    assert pages.verdict_prompt_twice(made("prompt_twice", losses))[0] == "contradicted"


def test_the_verdict_on_expert_roles_needs_equivalence_shown():
    roles = ("no_role", "expert", "any_expert", "other_expert", "child", "role_filler")
    same = dict.fromkeys(roles, half)
    assert pages.verdict_expert_roles(made("expert_roles", same))[0] == "supported"
    # A child's role that does harm takes nothing back; an expert's that helps does.
    assert (
        pages.verdict_expert_roles(made("expert_roles", {**same, "child": lambda i, t: (0.0, 0.0)}))[0]
        == "supported"
    )
    assert pages.verdict_expert_roles(made("expert_roles", {**same, "expert": most}))[0] == "contradicted"
    # Of few items nothing is shown: not significant is not equivalent.
    few = made("expert_roles", {**same, "expert": lambda i, t: (float((i + 1) % 2),) * 2}, items=24)
    assert pages.verdict_expert_roles(few)[0] == "inconclusive"


def test_the_verdict_on_text_behind_tells_any_text_from_the_checklist():
    names = load_suite("replications/text_behind").profile.selection.conditions
    good = dict.fromkeys(names, most)
    behind = {name: half for name in names if name.endswith("_behind")}
    assert (
        pages.verdict_text_behind(made("text_behind", good | behind))[0]
        == "any text behind the question costs score"
    )
    words = {"checks_behind": half}
    assert (
        pages.verdict_text_behind(made("text_behind", good | words))[0] == "the checklist's words cost score"
    )
    assert pages.verdict_text_behind(made("text_behind", good))[0] == "inconclusive"


def test_the_verdict_on_reading_compares_the_spreads_over_templates():
    names = load_suite("replications/reading_artefact").profile.selection.conditions

    def spread_out(number, *, lenient_too):
        def score(item, task):
            strict = float((item * 7 + 3) % 12 < number)
            return strict, strict if lenient_too else float(item % 2)

        return score

    artefact = {name: spread_out(n, lenient_too=False) for n, name in enumerate(names)}
    cells = made("reading_artefact", {**artefact, "bare_0": half})
    assert pages.verdict_reading_artefact(cells)[0] == "supported"
    ((model, strict, lenient, low, high),) = pages.spreads(cells)
    assert (model, lenient) == ("m", 0.0)
    assert strict > 0.2
    assert low < high < 0
    real = {name: spread_out(n, lenient_too=True) for n, name in enumerate(names)}
    assert (
        pages.verdict_reading_artefact(made("reading_artefact", {**real, "bare_0": half}))[0]
        == "inconclusive"
    )


def test_dead_cells_are_shown_and_not_counted():
    table = dict.fromkeys(("zero", "zero_twice", "zero_filler", "few", "few_twice", "few_filler"), half)

    def floor(item, task):
        return (0.0, 0.0) if task == "boolq" else half(item, task)

    cells = made("prompt_twice", {**table, "zero": floor}, tasks=("trec", "boolq"))
    assert cells.alive() == [("m", "trec")]
    assert cells.dead("m", "boolq") == "zero scores 0.00 read leniently, below 0.1"
    constant = replace(cells, rows=[row._replace(answer="yes") for row in cells.rows])
    assert constant.dead("m", "trec") == "100% of zero's answers are one"
    assert "Not counted: boolq on m" in pages.results("prompt_twice", cells.rows)


def test_every_condition_has_its_title():
    suite = load_suite("replications/text_behind")
    bundles = expand_conditions(suite.profile.selection.conditions, suite.conditions, suite.operators)
    assert all(bundle.title for bundle in bundles)
