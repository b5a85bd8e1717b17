import itertools

import numpy as np
import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.tables.attribution import (
    ALL_CONDITIONS,
    DIVIDED,
    NOT_IDENTIFIED,
    attribution,
    mark_divided,
)
from pcsuite.analysis.tables.effects import effects
from support.synthetic_log import OPERATORS, make_row, write_log


def compute(tmp_path, conditions, level, items=10, **more):
    rows = [
        make_row(item=f"{k}", condition=name, operators=own, score=level(frozenset(own), k), **more)
        for name, own in conditions.items()
        for k in range(items)
    ]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        chosen = Metrics({"score": bundled_metrics()["score"]})
        return list(attribution(item_scores(tables), chosen).records())


def by_method(records, design=ALL_CONDITIONS):
    found = {}
    for record in records:
        if record["design"] == design and record["method"] != NOT_IDENTIFIED:
            found.setdefault(record["method"], {})[record["operator"]] = record["effect"]
    return found


def test_a_factorial_gives_every_method(tmp_path):
    design = {
        "f:" + ("+".join(own) or "none"): own for k in range(3) for own in itertools.combinations("AB", k)
    }
    records = compute(
        tmp_path, design, lambda own, k: 0.01 * k + 0.2 * ("A" in own) + 0.3 * (own >= {"A", "B"})
    )
    found = by_method(records)
    assert found["leave-one-out"] == pytest.approx({"A": 0.5, "B": 0.3})
    assert found["add-one-in"] == pytest.approx({"A": 0.2, "B": 0.0})
    assert found["least squares"] == pytest.approx({"A": 0.35, "B": 0.15})
    assert found["shapley"] == pytest.approx({"A": 0.35, "B": 0.15})
    (record,) = [r for r in records if (r["method"], r["operator"]) == ("shapley", "A")]
    # Ten items that all gained: the smallest p of a sign test, twice itself over two operators.
    assert record["p_value"] == pytest.approx(2 / 1024)
    assert (record["p_bh"], record["p_holm"]) == pytest.approx((2 / 1024, 4 / 1024))
    assert (record["n_items"], record["n_conditions"], record["orders"], record["note"]) == (10, 4, 2, None)


@pytest.mark.slow
def test_what_the_ladder_cannot_tell_is_said(tmp_path):
    rng = np.random.default_rng(0)
    noise = rng.random((10, 9))
    records = compute(tmp_path, OPERATORS, lambda own, k: float(noise[k, len(own)]))
    untold = [r["note"] for r in records if r["method"] == NOT_IDENTIFIED]
    assert untold == [
        "ROLE and GOAL always come together: only their joint effect can be told.",
        "CONSTRAINTS and ABSTAIN always come together: only their joint effect can be told.",
    ]
    found = by_method(records)
    # Eight conditions for seven blocks: each is the difference of two rungs.
    assert set(found) == {"add-one-in", "least squares"}
    assert found["least squares"]["SCHEMA"] == pytest.approx(float((noise[:, 5] - noise[:, 4]).mean()))
    assert found["add-one-in"].keys() == {"ROLE+GOAL"}


def test_a_design_among_other_conditions_is_analysed_by_itself(tmp_path):
    letters = ("A", "B", "D")
    design = {"x:all": letters} | {f"x:-{n}": tuple(o for o in letters if o != n) for n in letters}
    records = compute(
        tmp_path, {"C0": (), "other": ("Z",)} | design, lambda own, k: 0.1 * len(own) + 0.001 * k
    )
    assert by_method(records)["add-one-in"].keys() == {"Z"}
    assert by_method(records, "x")["leave-one-out"] == pytest.approx(dict.fromkeys(letters, 0.1))


def test_two_conditions_share_out_nothing(tmp_path):
    assert compute(tmp_path, {"C0": (), "C1": ("A", "B")}, lambda own, k: 0.1 * k) == []


DEPENDENT = {
    "C3": ("SCHEMA",),
    "C4": ("SCHEMA", "VERIFIER"),
    "few": ("SCHEMA", "EXEMPLARS"),
    "C5": ("SCHEMA", "VERIFIER", "EXEMPLARS"),
}


def marks(tmp_path, level):
    rows = [
        make_row(item=f"{k:03}", condition=name, operators=own, score=level(frozenset(own), k))
        for name, own in {"C0": (), **DEPENDENT}.items()
        for k in range(80)
    ]
    chosen = Metrics({"score": bundled_metrics()["score"]})
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        scores = item_scores(tables)
        table = mark_divided(attribution(scores, chosen), effects(scores, chosen))
    return {(r["method"], r["operator"]): r["depends"] for r in table.records() if r["operator"]}


@pytest.mark.slow
def test_a_share_of_a_combination_is_marked_and_an_effect_of_two_conditions_is_not(tmp_path):
    """The checklist takes nothing from the schema, and all from the examples, as in the first study."""

    def level(own, k):
        return float(k < (20 if {"VERIFIER", "EXEMPLARS"} <= own else 70))

    found = marks(tmp_path, level)
    assert found["least squares", "VERIFIER"] == found["least squares", "EXEMPLARS"] == DIVIDED
    assert found["least squares", "SCHEMA"] is None
    assert found["leave-one-out", "VERIFIER"] is None


@pytest.mark.slow
def test_effects_that_add_up_are_nobody_elses(tmp_path):
    found = marks(
        tmp_path, lambda own, k: float(k < 20 + 20 * ("EXEMPLARS" in own) + 10 * ("VERIFIER" in own))
    )
    assert found["least squares", "VERIFIER"] is found["least squares", "EXEMPLARS"] is None
