from dataclasses import replace

import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.twins import (
    CONSTRAINT,
    SEARCH_LOOP,
    condition_pairs,
    constraints,
    doing,
    free_twin,
    ladder,
    operator_pairs,
    twin_without,
)
from pcsuite.logging.manifest import RunManifest, write_manifest
from support.synthetic_log import OPERATORS, make_row, write_log


@pytest.fixture
def scores(tmp_path):
    rows = [make_row(item=f"{k}", condition=c) for k in range(2) for c in ("C0", "C3", "C4", "C6", "C7")]
    rows += [make_row(item="0", condition="C6", model="other")]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        return item_scores(tables)


def twin_of(scores, condition, dropped, model="m1"):
    key = next(key for key in scores.cells if (key.condition, key.model) == (condition, model))
    twin = twin_without(scores, key, dropped, scores.cells)
    return twin and (twin.model, twin.condition)


def test_a_twin_lacks_only_what_is_dropped(scores):
    assert twin_of(scores, "C6", constraints(OPERATORS["C6"])) == ("m1", "C4")
    assert twin_of(scores, "C7", {"REACT_LOOP"}) == ("m1", "C3")


def test_without_something_to_drop_or_in_another_group_there_is_none(scores):
    assert twin_of(scores, "C4", constraints(OPERATORS["C4"])) is None
    assert twin_of(scores, "C4", {"VERIFIER", "ROLE"}) is None
    assert twin_of(scores, "C6", constraints(OPERATORS["C6"]), model="other") is None


def test_kinds_of_operators():
    assert constraints(["TYPE_CONSTRAIN", "CONSTRAINTS"]) == {"TYPE_CONSTRAIN"}


def test_the_types_of_the_manifest_come_first(tmp_path):
    rows = [
        make_row(item=f"{k}", condition=name, operators=operators)
        for k in range(2)
        for name, operators in (("own", ("SCHEMA", "MINE")), ("bare", ("SCHEMA",)))
    ]
    log = write_log(tmp_path / "a.jsonl", rows)
    write_manifest(log, RunManifest(operator_types={"MINE": "constraint", "OLD_CONSTRAIN": "block"}))
    with RunTables([log], tmp_path / "tables") as tables:
        scores = item_scores(tables)
    assert constraints(("MINE", "OLD_CONSTRAIN"), scores.operator_types) == {"MINE"}
    assert constraints(("MINE", "OLD_CONSTRAIN")) == {"OLD_CONSTRAIN"}
    own = next(key for key in scores.cells if key.condition == "own")
    assert free_twin(scores, own, scores.cells).condition == "bare"


def test_every_operator_that_has_a_twin(scores):
    found = {
        name: [(pair.treated.condition, pair.control.condition, pair.treated.model) for pair in pairs]
        for name, pairs in operator_pairs(scores).items()
    }
    assert found == {
        "VERIFIER": [("C4", "C3", "m1")],
        CONSTRAINT: [("C6", "C4", "m1")],
        "REACT_LOOP": [("C7", "C3", "m1")],
    }


def test_every_condition_beside_its_control(scores):
    found = condition_pairs(scores)
    assert list(found) == ["C3", "C4", "C6", "C7"]
    assert [pair.treated.model for pair in found["C6"]] == ["m1"]


def test_leave_one_out_conditions_beside_the_ladder_leave_it_the_ladder():
    steps = {f"C{n}": ["ROLE", "RULES", "SCHEMA", "CHECKS", "EXEMPLARS"][:n] for n in range(6)}
    without = {f"C5-{gone}": [name for name in steps["C5"] if name != gone] for gone in ("ROLE", "CHECKS")}
    beside = {"C6": [*steps["C4"], "TYPE_CONSTRAIN"], "S2": ["ROLE", "SHAM_RULES"]}
    assert ladder({**without, **steps, **beside}) == tuple(steps)


LADDER = {
    "C0": [],
    "C1": ["ROLE", "GOAL"],
    "C2": ["ROLE", "GOAL", "CONSTRAINTS"],
    "C4": ["ROLE", "GOAL", "CONSTRAINTS", "VERIFIER"],
}


@pytest.mark.parametrize(
    ("beside", "found"),
    [
        ({}, ("C0", "C1", "C2", "C4")),
        ({"C6": [*LADDER["C4"], "TYPE_CONSTRAIN"]}, ("C0", "C1", "C2", "C4")),
        (
            {"C7": [*LADDER["C2"], "REACT_LOOP"], "C4R": [*LADDER["C4"], "RETRY_ON_FAIL"]},
            ("C0", "C1", "C2", "C4"),
        ),
        ({"C4:-ROLE": ["GOAL", "CONSTRAINTS", "VERIFIER"]}, ("C0", "C1", "C2", "C4")),
        ({"C4:-VERIFIER": LADDER["C2"]}, ("C0", "C1", "C2", "C4")),
        ({"C2x": ["ROLE", "GOAL", "VERIFIER"]}, ("C0", "C1", "C2", "C4")),
    ],
)
def test_the_ladder_is_the_one_chain_of_conditions_that_build_on_one_another(beside, found):
    assert ladder(LADDER | beside) == found


def test_a_program_of_ones_own_stands_beside_the_ladder():
    beside = {"LOOPED": [*LADDER["C4"], "MY_LOOP"]}
    assert ladder(LADDER | beside) == (*LADDER, "LOOPED")
    assert ladder(LADDER | beside, {"MY_LOOP": "program"}) == tuple(LADDER)


def test_what_operators_do_is_said_by_the_manifest_or_the_suite(scores):
    names = ("MY_LOOP", "REACT_LOOP", "RETRY_ON_FAIL")
    assert doing(scores, names, SEARCH_LOOP) == ["REACT_LOOP"]
    told = replace(scores, operator_work={"MY_LOOP": "react"})
    assert doing(told, names, SEARCH_LOOP) == ["MY_LOOP", "REACT_LOOP"]


def test_a_factorial_and_single_conditions_have_no_ladder():
    assert ladder({"n": [], "a": ["A"], "b": ["B"], "ab": ["A", "B"]}) == ()
    assert ladder({"C3": ["SCHEMA"]}) == ladder({}) == ()


def test_what_a_run_declares_a_constraint_is_no_step():
    bundles = {"C0": [], "C1": ["ROLE"], "X": ["ROLE", "MINE"]}
    assert ladder(bundles) == ("C0", "C1", "X")
    assert ladder(bundles, {"MINE": "constraint"}) == ("C0", "C1")
