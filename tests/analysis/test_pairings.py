import itertools

import numpy as np
import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.pairings import (
    CONTROL,
    TWIN,
    complete_factorials,
    contrasts_of,
    group_contrasts,
    item_matrix,
)
from support.synthetic_log import OPERATORS, make_row, write_log


def pairs(found, kind):
    return {(c.condition, c.baseline): c.operator for c in found if c.kind == kind}


def scores_of(tmp_path, conditions, items=3, **more):
    rows = [
        make_row(item=f"{k}", condition=name, operators=operators, score=float(k % 2), **more)
        for k in range(items)
        for name, operators in conditions.items()
    ]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        return item_scores(tables)


def test_the_ladder_meets_its_control_and_its_twins():
    found = contrasts_of(OPERATORS, "C0")
    against_control = pairs(found, CONTROL)
    assert set(against_control) == {(name, "C0") for name in OPERATORS if name != "C0"}
    assert set(against_control.values()) == {""}
    assert pairs(found, TWIN) == {
        ("C3", "C2"): "SCHEMA",
        ("C4", "C3"): "VERIFIER",
        ("C5", "C4"): "EXEMPLARS",
        ("C6", "C4"): "TYPE_CONSTRAIN",
        ("C7", "C3"): "REACT_LOOP",
    }
    assert [c.name for c in found if c.kind == TWIN][3] == "C6 − C4"
    assert all(abs(sum(w for _, w in c.weights)) < 1e-12 for c in found)


def test_leave_one_out_members_meet_the_full_bundle(tmp_path):
    letters = ("A", "B", "D")
    design = {"x:all": letters} | {f"x:-{k}": tuple(o for o in letters if o != k) for k in letters}
    scores = scores_of(tmp_path, design)
    (keys,) = scores.groups().values()
    assert scores.baseline(keys).condition == "x:all"
    found = group_contrasts(scores, keys)
    assert pairs(found, CONTROL) == {(f"x:-{k}", "x:all"): "" for k in letters}
    assert pairs(found, TWIN) == {("x:all", f"x:-{k}"): k for k in letters}


def test_add_one_in_names_the_operator_it_adds():
    design = {"x:none": ("GOAL",), "x:+A": ("GOAL", "A"), "x:+B": ("GOAL", "B")}
    assert pairs(contrasts_of(design, "x:none"), CONTROL) == {
        ("x:+A", "x:none"): "A",
        ("x:+B", "x:none"): "B",
    }


def test_the_same_operators_in_another_order_are_no_twin():
    assert contrasts_of({"a": ("ROLE", "GOAL", "SCHEMA"), "b": ("GOAL", "ROLE")}) == []


def test_a_compiled_prompt_has_no_twin():
    found = contrasts_of({"C0": (), "s": ("SCHEMA",), "C8": ("COMPILED", "SCHEMA")}, "C0")
    assert {(c.kind, c.condition) for c in found} == {(CONTROL, "s"), (CONTROL, "C8")}


def test_a_factorial_has_main_effects_and_interactions():
    design = {
        "f:" + ("+".join(own) or "none"): ("GOAL", *own)
        for k in range(4)
        for own in itertools.combinations("ABD", k)
    }
    found = contrasts_of(design, "f:none")
    main = {c.operator: dict(c.weights) for c in found if c.kind == "main effect"}
    assert set(main) == set("ABD")
    # Eight conditions, four with A and four without: what a person would average.
    truth = dict.fromkeys(design, 0.0)
    for name in truth:
        own = design[name]
        truth[name] = 0.5 * ("A" in own) + 0.2 * ("B" in own) - 0.3 * ("A" in own and "B" in own)
    value = {k: sum(w * truth[name] for name, w in weights.items()) for k, weights in main.items()}
    assert value == pytest.approx({"A": 0.5 - 0.15, "B": 0.2 - 0.15, "D": 0.0})
    pairwise = {c.operator: c for c in found if c.kind == "interaction"}
    assert set(pairwise) == {"A × B", "A × D", "B × D"}
    found_ab = sum(w * truth[name] for name, w in pairwise["A × B"].weights)
    assert found_ab == pytest.approx(-0.3)
    assert pairwise["A × B"].name == "A × B"


def test_several_factorials_are_told_apart_by_what_they_stand_on():
    design = {"+".join(own) or "none": own for own in [(), ("A",), ("B",), ("A", "B")]}
    design |= {"+".join(own): own for own in [("A", "B", "D"), ("A", "B", "E"), ("A", "B", "D", "E")]}
    found = [c for c in contrasts_of(design, "none") if c.kind == "main effect"]
    assert [c.name for c in found] == [
        "main effect of A on top of nothing",
        "main effect of B on top of nothing",
        "main effect of D on top of A+B",
        "main effect of E on top of A+B",
    ]
    assert found[2].condition == "with D on top of A+B"


def test_factorials_are_found_by_their_bundles_and_only_whole():
    half = [(), ("A",), ("B",)]
    assert complete_factorials(half) == []
    assert complete_factorials([*half, ("A", "B"), ("A", "B", "D")]) == [(frozenset(), ("A", "B"))]
    eight = [own for k in range(9) for own in itertools.combinations("ABDEFGHI", k)]
    assert complete_factorials(eight) == [(frozenset(), tuple("ABDEFGHI"))]


def test_a_named_control_counts_alone(tmp_path):
    scores = scores_of(tmp_path, {name: OPERATORS[name] for name in ("C0", "C3", "C4", "C6")})
    scores.control = "C4"
    (keys,) = scores.groups().values()
    assert pairs(group_contrasts(scores, keys), CONTROL) == {
        ("C0", "C4"): "",
        ("C3", "C4"): "",
        ("C6", "C4"): "TYPE_CONSTRAIN",
    }


@pytest.mark.slow
def test_the_smallest_bundle_is_the_control_where_none_is_bare(tmp_path):
    scores = scores_of(tmp_path, {"mine": ("ROLE", "GOAL", "SCHEMA"), "base": ("ROLE", "GOAL")})
    (keys,) = scores.groups().values()
    assert scores.baseline(keys).condition == "base"
    assert scores.baseline(keys[1:]).condition == "mine"
    apart = scores_of(tmp_path / "b", {"a": ("ROLE",), "b": ("GOAL",)})
    (keys,) = apart.groups().values()
    assert apart.baseline(keys) is None


def test_items_by_conditions_are_those_that_all_have(tmp_path):
    rows = [make_row(item=i, condition="C0", score=s) for i, s in (("a", 0.1), ("b", 0.2), ("c", 0.3))]
    rows += [make_row(item=i, condition="C1", score=s) for i, s in (("c", 0.6), ("b", 0.5))]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        scores = item_scores(tables)
    assert item_matrix(scores, list(scores.cells), "score").values.tolist() == [[0.2, 0.5], [0.3, 0.6]]


@pytest.mark.slow
def test_of_pooled_counts_the_columns_average_to_micro_f1(tmp_path):
    counts = {"C0": [(1, 1, 2), (0, 0, 1), (3, 0, 0)], "C6": [(3, 0, 0), (1, 0, 0), (2, 1, 1)]}
    rows = [
        make_row(
            task="ner", item=f"{k}", condition=name, metrics=dict(zip(("tp", "fp", "fn"), row, strict=True))
        )
        for name, table in counts.items()
        for k, row in enumerate(table)
    ]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        scores = item_scores(tables)
    means = item_matrix(scores, list(scores.cells), "score").values.mean(axis=0)
    assert means == pytest.approx([8 / 12, 12 / 14])
    assert np.isfinite(means).all()


def test_what_comes_without_a_twin_is_a_step_up_from_the_largest_bundle_below():
    """C2 adds two blocks at once to C1; C3 has a twin, and what C1 adds is told against the control."""
    bundles = {"C0": (), "C1": ("ROLE", "GOAL"), "C2": ("ROLE", "GOAL", "RULES", "ABSTAIN")}
    bundles["C3"] = (*bundles["C2"], "SCHEMA")
    found = [
        (one.kind, one.name, one.operator) for one in contrasts_of(bundles, "C0") if one.kind != "control"
    ]
    assert found == [("twin", "C3 − C2", "SCHEMA"), ("step", "C2 − C1", "RULES+ABSTAIN")]


def test_of_two_bundles_below_that_are_as_large_neither_is_the_step():
    bundles = {"C0": (), "a": ("A", "B"), "b": ("C", "D"), "both": ("A", "B", "C", "D")}
    assert [one for one in contrasts_of(bundles, "C0") if one.kind == "step"] == []
