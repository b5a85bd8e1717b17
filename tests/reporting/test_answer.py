"""The answer in words: which block each contrast measures, what is result of it, and which prompt is called best."""

import pytest

from pcsuite.analysis.analyse import analyse, analyse_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.logging.manifest import RegisteredPlan, RunManifest, write_manifest
from pcsuite.reporting.answer import answer_of
from pcsuite.reporting.page import build_page
from support.synthetic_log import OPERATORS, make_row, write_log

pytestmark = pytest.mark.slow

RIGHT = {"C0": 8, "C1": 9, "C2": 9, "C3": 27, "C4": 15, "C5": 36}
"""Of 40 items, the first so many are right under each condition."""


def rows_of(right, *, operators=OPERATORS, models=("m1",), items=40, **given):
    return [
        make_row(
            item=f"{k:02d}",
            condition=name,
            operators=operators.get(name, ()),
            model=model,
            score=float(k < count),
            **given,
        )
        for model in models
        for name, count in right.items()
        for k in range(items)
    ]


def answer(folder, rows, manifest=None):
    log = write_log(folder / "a.jsonl", rows)
    if manifest is not None:
        write_manifest(log, manifest)
    with RunTables([log], folder / "tables") as tables:
        return answer_of(analyse_scores(tables))


def test_a_ladder_is_told_block_by_block_and_not_against_its_bottom(tmp_path):
    """40 items: schema wins 18 (0.45), checklist loses 12 (0.30), examples win 21 (0.525), the first steps 1 and none."""
    result = answer(tmp_path, rows_of(RIGHT))
    assert result.sentence == (
        "Examples +0.53, schema +0.45, checklist −0.30 (each holds after correction); role + goal and rules + leave to"
        " abstain: nothing shown; best prompt: all blocks (C5), 0.90."
    )
    assert [(row.label, row.contrast, round(row.value, 3)) for row in result.blocks] == [
        ("examples", "C5 − C4", 0.525),
        ("schema", "C3 − C2", 0.45),
        ("checklist", "C4 − C3", -0.3),
        ("role + goal", "C1 − C0", 0.025),
        ("rules + leave to abstain", "C2 − C1", 0.0),
    ]
    assert result.note == (
        "Change of the score by each block: agnews_json with m1, greedy decoding (D0), 40 items; lines are 95 % intervals."
    )


def test_what_a_prompt_loses_without_a_block_is_what_the_block_is_worth(tmp_path):
    """The control of a leave-one-out design is the full prompt: its members lack a block, and the sign turns."""
    bundles = {"x:full": ("A_BLOCK", "B"), "x:-A_BLOCK": ("B",), "x:-B": ("A_BLOCK",)}
    result = answer(tmp_path, rows_of({"x:full": 30, "x:-A_BLOCK": 10, "x:-B": 31}, operators=bundles))
    assert [(row.label, row.value, row.verdict, row.tone) for row in result.blocks] == [
        ("a block", 0.5, "helps", "good"),
        ("b", pytest.approx(-0.025), "nothing shown", ""),
    ]
    effect = result.blocks[0].effects[0]
    assert 0.2 < effect.low < 0.5 < effect.high < 0.8
    assert result.sentence.endswith("best prompt: none is shown to beat all blocks, 0.75.")


def test_several_models_are_counted_and_each_is_a_dot(tmp_path):
    rows = rows_of({"C2": 10, "C3": 30}, models=("m1", "m2")) + rows_of({"C2": 10, "C3": 11}, models=("m3",))
    result = answer(tmp_path, rows)
    (row,) = result.blocks
    assert (row.verdict, row.tone, len(row.effects)) == ("helps on 2 of 3", "good", 3)
    assert result.sentence == (
        "On 3 pairs of task and model: schema +0.50 (helps on 2) after correction; best prompt on 2 of 3: all blocks (C3)."
    )


def test_the_regime_is_the_least_random_one(tmp_path):
    rows = rows_of({"C2": 10, "C3": 30}, decoding="D1", seed=1) + rows_of({"C2": 10, "C3": 10})
    result = answer(tmp_path, rows)
    assert result.sentence.startswith("Schema: nothing shown")
    assert "greedy decoding (D0)" in result.note


def test_one_condition_is_no_comparison(tmp_path):
    result = answer(tmp_path, rows_of({"C3": 12}))
    assert result.sentence == "Nothing was compared: there is no condition that others could be set against."
    assert (result.blocks, result.note) == ([], "")


def test_whole_prompts_are_told_as_such(tmp_path):
    """Two wordings without operators: 20 of 40 items won, none lost."""
    result = answer(tmp_path, rows_of({"v1": 10, "v2": 30}, operators={}))
    assert result.sentence == "v2 against v1 +0.50 (holds after correction); best prompt: v2, 0.75."


def test_a_run_without_an_answer_says_so(tmp_path):
    rows = [
        make_row(item=f"{k}", condition=name, errors=["503"], score=None)
        for name in ("C0", "C1")
        for k in range(4)
    ]
    assert answer(tmp_path, rows).sentence == "Nothing was compared: every call failed."


def test_a_users_own_titles_are_used(tmp_path):
    bundles = {"bare": (), "tone": ("HOUSE_TONE",)}
    rows = rows_of({"bare": 10, "tone": 30}, operators=bundles)
    manifest = RunManifest(operator_titles={"HOUSE_TONE": "our tone of voice"})
    assert answer(tmp_path, rows, manifest).sentence.startswith(
        "Our tone of voice +0.50 (holds after correction)"
    )


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    """C5 against C4 and C4 against C2 were registered; the schema, which does most, was not."""
    folder = tmp_path_factory.mktemp("registered")
    contrasts = [("agnews_json", "m1", "D0", *pair) for pair in (("C5", "C4"), ("C4", "C2"))]
    plan = RegisteredPlan(
        hash="ab" * 32, plan={"metric": "task_score", "family": "all", "alpha": 0.05}, contrasts=contrasts
    )
    right = {"C0": 8, "C2": 9, "C3": 36, "C4": 11, "C5": 31}
    log = write_log(folder / "a.jsonl", rows_of(right))
    write_manifest(log, RunManifest(preregistration=plan))
    with RunTables([log], folder / "tables") as tables:
        return analyse(tables, embeddings="off")


def test_a_registered_run_is_headlined_by_what_was_registered(registered):
    result = answer_of(registered)
    assert result.sentence == (
        "Registered: examples (C5 against C4) +0.50 (holds within the plan); schema + checklist (C4 against C2): nothing"
        " shown."
    )
    assert result.exploring.startswith("Exploratory, not registered: schema +0.68, ")
    assert [row.label for row in result.planned] == [
        "schema + checklist (C4 against C2)",
        "examples (C5 against C4)",
    ]


def test_the_page_of_a_registered_run_marks_the_rest_as_exploratory(registered):
    from pcsuite.pages.render import render_page

    page = build_page(registered, [], [], title="t")
    assert page.headline.startswith("Registered: C4 − C2 +0.05 not shown; C5 − C4 +0.50 holds. Exploratory: ")
    html = render_page("reporting/templates/report.html.j2", page=page)
    planned, explored = (
        html.index("Registered before the first call"),
        html.index("none of these was registered"),
    )
    assert html.index("Registered: examples") < planned < explored
