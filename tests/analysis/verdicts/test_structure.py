"""H1: each structure block against its twin, validity told apart from success."""

import numpy as np
import pytest
from simulate_verdicts import CONDITIONS, LADDER, World, study

from pcsuite.analysis.load.item_scores import SCORE
from pcsuite.analysis.verdicts.evidence import (
    PROMPT_VARIANCE,
    READABLE,
    READABLE_SCORE,
    SEED_VARIANCE,
    Effect,
)
from pcsuite.analysis.verdicts.structure import INFORMATION, BlockEffects, structure_findings
from support.analysed import tables_of
from support.synthetic_log import make_row

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
    first, steady, telling = structure_findings([block("SCHEMA", DOWN), block("CONSTRAINTS", UP)])
    assert (first.verdict, first.effect) == ("contradicted", -0.2)
    assert (
        "SCHEMA contradicted: score -0.200 [-0.300, -0.100]; CONSTRAINTS supported: score +0.200"
        in first.evidence
    )
    assert (steady.verdict, telling.verdict) == ("not tested", "not tested")
    assert structure_findings([block("SCHEMA", UP), block("VERIFIER", OPEN)])[0].verdict == "inconclusive"
    assert "C3 beside C2" in structure_findings([])[0].evidence


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
