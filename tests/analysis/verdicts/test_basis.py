"""P4 in worlds whose truth is known, and in logs whose shares are known."""

import pytest
from simulate_verdicts import CONDITIONS, LADDER, Model, World, study

from support.analysed import tables_of
from support.synthetic_log import make_row

THREE = (Model("s", "f", "8B"), Model("m", "f", "32B"), Model("l", "f", "235B"))
RUNGS = {name: LADDER[name] for name in ("C0", "C1", "C2", "C3", "C4")}


def said(world, studies):
    return [study(world, seed) for seed in range(studies)]


@pytest.mark.slow
def test_one_operator_that_carries_everything_at_every_size_is_a_small_basis():
    """It was contradicted: the bundle that holds it was the largest."""
    common = {"items": 2000, "base": 0.2, "models": THREE, "item_sd": 0.5, "replicates": 5}
    assert set(said(World("", "P4", (), CONDITIONS["six operators"], {"OP2": 3.0}, **common), 3)) == {
        "supported"
    }
    assert set(said(World("", "P4", (), RUNGS, {"SCHEMA": 3.0}, **common), 3)) == {"supported"}


@pytest.mark.slow
def test_a_set_that_was_seen_at_one_size_is_not_known_to_be_invariant():
    one = World("", "P4", (), CONDITIONS["six operators"], {"OP2": 4.0}, items=500, base=0.2)
    assert set(said(one, 3)) == {"inconclusive"}
    fading = (Model("s", "f", "8B"), Model("m", "f", "32B", 0.6), Model("l", "f", "235B", 0.3))
    depends = World(
        "", "P4", (), CONDITIONS["six operators"], {"OP2": 2.0}, items=800, base=0.3, models=fading
    )
    assert set(said(depends, 3)) == {"inconclusive"}


def test_operators_that_share_the_gain_are_no_small_basis():
    every = {f"OP{index}": 0.55 for index in range(6)}
    assert set(said(World("", "P4", (), CONDITIONS["six operators"], every, items=400, base=0.15), 3)) == {
        "contradicted"
    }
    # In steps of two, either operator of a step may carry it: nothing to contradict.
    hidden = World("", "P4", (), RUNGS, {"ROLE": 1.5, "CONSTRAINTS": 1.5}, items=300, base=0.2)
    assert set(said(hidden, 4)) == {"inconclusive"}


@pytest.mark.slow
def test_shares_are_those_of_the_attribution_table(tmp_path):
    """The total that P4 shares out is the sum of the operators' effects in attribution.csv, over models and tasks."""
    bundles = {"C0": (), "A": ("A",), "B": ("B",), "AB": ("A", "B")}
    lift = {"C0": 0.1, "A": 0.68, "B": 0.12, "AB": 0.7}
    rows = [
        make_row(
            task=task, item=f"{k}", model=model, size=size, condition=name, operators=own,
            score=lift[name] + 0.02 * (k % 4) - (0.05 if task == "u" else 0) * len(own) + 0.01 * ((k + len(name)) % 3),
        )
        for task in ("t", "u")
        for model, size in (("m1", "8B"), ("m2", "70B"))
        for k in range(60)
        for name, own in bundles.items()
    ]  # fmt: skip
    found = tables_of(tmp_path, rows)
    shapley = [
        row
        for row in found["attribution"]
        if (row["method"], row["metric"], row["design"]) == ("shapley", "score", "all conditions")
    ]
    groups = {(row["task"], row["model"]) for row in shapley}
    whole = sum(row["effect"] for row in shapley) / len(groups)
    fourth = {row["id"]: row for row in found["hypotheses"]}["P4"]
    assert fourth["effect"] == pytest.approx(whole, abs=1e-6)
    assert "(shapley)" in fourth["evidence"]
    # A carries 0.58 of 0.6 on t and 0.53 of 0.5 on u: 101 % of the whole, alike at both sizes.
    assert fourth["verdict"] == "supported", fourth["evidence"]
    assert "A (1 of 2 operators) carries 101% of it and adds the same at every size" in fourth["evidence"]


@pytest.mark.slow
def test_what_the_conditions_do_not_tell_apart_is_not_tested(tmp_path):
    rows = [
        make_row(item=f"{k}", condition=name, operators=own, score=0.1 * len(own) + 0.01 * (k % 5))
        for k in range(12)
        for name, own in (("C0", ()), ("X", ("A", "B")))
    ]
    fourth = {row["id"]: row for row in tables_of(tmp_path, rows)["hypotheses"]}["P4"]
    assert fourth["verdict"] in ("inconclusive", "not tested")
