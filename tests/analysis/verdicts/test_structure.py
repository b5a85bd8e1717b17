"""H1 and P1: each structure block against its twin, validity told apart from success; and where that replicates."""

import json

import numpy as np
import pytest
from simulate_verdicts import CONDITIONS, LADDER, Model, World, study

from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.analysis.verdicts.evidence import (
    PROMPT_VARIANCE,
    READABLE,
    READABLE_SCORE,
    SEED_VARIANCE,
    Effect,
)
from pcsuite.analysis.verdicts.structure import (
    INFORMATION,
    BlockEffects,
    _partial_conjunction,
    move_measures,
    raise_success,
)
from support.analysed import tables_of
from support.synthetic_log import make_row

THREE = (Model("s", "f", "8B"), Model("m", "f", "32B"), Model("l", "f", "235B"))
STEP = {name: LADDER[name] for name in ("C2", "C3")}
UP, DOWN, OPEN, NONE = (
    Effect(0.2, 0.1, 0.3, 0.001, 40.0, 41),
    Effect(-0.2, -0.3, -0.1, 0.001, 40.0, 41),
    Effect(0.0, -0.1, 0.1, 0.9, 40.0, 41),
    Effect(untested="no item has a readable answer on both sides"),
)


@pytest.mark.parametrize(
    ("score", "readable", "verdict"),
    [
        (UP, UP, "supported"),
        (UP, OPEN, "inconclusive"),
        (UP, DOWN, "inconclusive"),
        (UP, NONE, "not tested"),
        (DOWN, DOWN, "contradicted"),
        (DOWN, OPEN, "contradicted"),
        (DOWN, NONE, "contradicted"),
        (DOWN, UP, "inconclusive"),
        (OPEN, UP, "inconclusive"),
        (NONE, UP, "not tested"),
    ],
)
def test_success_must_rise_among_readable_answers_too(score, readable, verdict):
    assert BlockEffects("SCHEMA", {SCORE: score, READABLE_SCORE: readable}).success() == verdict


def block(operator, score):
    others = {READABLE: NONE, SEED_VARIANCE: NONE, PROMPT_VARIANCE: NONE, INFORMATION: NONE}
    return BlockEffects(operator, {SCORE: score, READABLE_SCORE: score, **others})


def test_a_claim_on_all_blocks():
    blocks = [block("SCHEMA", DOWN), block("CONSTRAINTS", UP)]
    first = raise_success(blocks)
    assert (first.verdict, first.effect.value) == ("contradicted", -0.2)
    assert (
        "SCHEMA contradicted: score -0.200 [-0.300, -0.100]; CONSTRAINTS supported: score +0.200"
        in first.evidence
    )
    steady, telling = (
        move_measures(blocks, SEED_VARIANCE, PROMPT_VARIANCE),
        move_measures(blocks, INFORMATION),
    )
    assert (steady.verdict, telling.verdict) == ("not tested", "not tested")
    assert raise_success([block("SCHEMA", UP), block("VERIFIER", OPEN)]).verdict == "inconclusive"


def test_a_block_is_not_credited_with_what_another_did():
    """SCHEMA −1 and CONSTRAINTS +2 logits: against the bare prompt SCHEMA's condition wins, against its twin it loses."""
    for conditions in (LADDER, CONDITIONS["rules and schema"]):
        effects = {"SCHEMA": -1.0, "CONSTRAINTS": 2.0}
        world = World("", "H1", ("supported",), conditions, effects, items=80)
        said = [study(world, seed) for seed in range(6)]
        assert "supported" not in said
        assert said.count("contradicted") >= 4


@pytest.mark.parametrize("items", [10, 16])
def test_guesses_that_become_readable_are_no_success(items):
    two = {name: LADDER[name] for name in ("C2", "C3")}
    for says in ("H1", "H1I"):
        world = World(
            "", says, (), two, items=items, replicates=1, readable={"C2": 0.05, "C3": 1.0}, guess=True
        )
        assert {study(world, seed) for seed in range(12)} <= {"not tested", "inconclusive"}


def rows_of(condition, answers, true, scores):
    return [
        make_row(
            item=f"{k:02d}", condition=condition, decoding="D1", seed=seed, answer=answer,
            score=float(answer == true[k]) if scores is None else scores,
        )
        for k, given in enumerate(answers)
        for seed, answer in enumerate(given, start=1)
    ]  # fmt: skip


@pytest.mark.slow
def test_the_table_of_a_log(tmp_path):
    true = [("World", "Sports")[k % 2] for k in range(20)]
    truths = {"agnews_json": {f"{k:02d}": label for k, label in enumerate(true)}}
    guesses = [("World", "Sports") if k % 4 < 2 else ("Sports", "World") for k in range(20)]
    rows = rows_of("C2", guesses, true, None) + rows_of("C3", [(label, label) for label in true], true, None)
    found = {row["measure"]: row for row in tables_of(tmp_path, rows, truths)["structure"]}
    assert found["score"]["effect"] == pytest.approx(0.5)
    assert found["score"]["verdict"] == "supported"
    # One right and one wrong answer on each item have variance 1/2, two right ones none.
    assert (found["variance over seeds"]["effect"], found["variance over seeds"]["verdict"]) == (
        pytest.approx(-0.5), "supported",
    )  # fmt: skip
    assert found["readable"]["note"] == "every answer has the same value, 1, on both sides"
    assert found["information"]["verdict"] == "supported"
    assert found["information"]["effect"] == pytest.approx(np.log(2), abs=0.05)
    assert found["variance over prompts"]["verdict"] == "not tested"


@pytest.mark.slow
def test_one_answer_to_every_item_is_no_test_of_information(tmp_path):
    true = [("World", "Sports")[k % 2] for k in range(20)]
    truths = {"agnews_json": {f"{k:02d}": label for k, label in enumerate(true)}}
    rows = rows_of("C2", [("World", "World")] * 20, true, None) + rows_of(
        "C3", [(t, t) for t in true], true, None
    )
    found = {row["measure"]: row for row in tables_of(tmp_path, rows, truths)["structure"]}
    assert found["information"]["note"] == "one side answers the same to every item"


def said(world, studies):
    return [study(world, seed) for seed in range(studies)]


def test_at_least_three_of_four():
    effects = {
        name: Effect(value, 0, 0, p_value, 10.0, 20)
        for name, value, p_value in (("a", 0.2, 0.002), ("b", 0.1, 0.004), ("c", 0.3, 0.01), ("d", -0.1, 0.3))
    }
    # One-sided: 0.001, 0.002, 0.005 and 0.85; the third of four, twice.
    assert _partial_conjunction(effects, 1, 3) == pytest.approx(2 * 0.005)
    assert _partial_conjunction(effects, -1, 1) == pytest.approx(4 * 0.15)
    assert _partial_conjunction(effects, 1, 5) == 1.0
    assert _partial_conjunction(effects | {"d": Effect(untested="no")}, 1, 4) == 1.0


@pytest.mark.slow
def test_replication_needs_domains_and_sizes():
    common = {"items": 60, "tasks": ("a", "b", "c"), "models": THREE}
    assert set(said(World("", "P1", (), STEP, {"SCHEMA": 1.5}, **common), 3)) == {"supported"}
    # No effect found is no evidence of none.
    assert set(said(World("", "P1", (), STEP, **common), 5)) == {"inconclusive"}
    both = {"a": {"SCHEMA": 2.5}, "b": {"SCHEMA": -2.5}}
    assert set(said(World("", "P1", (), STEP, task_effects=both, **common), 3)) == {"contradicted"}
    # Three tasks of two domains are two domains.
    assert set(
        said(World("", "P1", (), STEP, {"SCHEMA": 1.5}, domains={"a": "x", "b": "x"}, **common), 2)
    ) == {"not tested"}


@pytest.mark.slow
def test_domains_come_from_the_manifest(tmp_path):
    rows = [
        make_row(task=task, item=f"{k}", condition=condition, model=f"m{size}", size=size, score=float(condition == "C3"))
        for task in ("a", "b", "c")
        for size in ("8B", "32B", "70B")
        for condition in ("C2", "C3")
        for k in range(12)
    ]  # fmt: skip
    evidence = {row["id"]: row for row in tables_of(tmp_path, rows)["hypotheses"]}["P1"]
    assert evidence["verdict"] == "supported"
    (tmp_path / "told").mkdir()
    note = {"tasks": {task: {"domain": "news"} for task in "abc"}}
    (tmp_path / "told" / "a.manifest.json").write_text(json.dumps(note))
    told = {row["id"]: row for row in tables_of(tmp_path / "told", rows)["hypotheses"]}["P1"]
    assert (told["verdict"], told["evidence"]) == (
        "not tested", "domains in the run: 1 (news); model sizes: 3 (S, M, L).",
    )  # fmt: skip
