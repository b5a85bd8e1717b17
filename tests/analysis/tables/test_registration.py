"""What was planned is told from what explores, corrected by itself, and goes by its looks."""

import pytest

from pcsuite.analysis.tables.registration import Registered, registration_notices, registration_tables
from pcsuite.logging.looks import Look
from pcsuite.logging.manifest import RegisteredPlan, RunManifest

CELL = ("t", "m", "D0")


def plan(family="task", **more):
    contrasts = [[*CELL, "C3", "C0"], [*CELL, "C6", "C4"]]
    content = {"metric": "task_score", "family": family, "alpha": 0.05}
    return RegisteredPlan("ab" * 32, content, contrasts, "2030-01-01T10:00:00+00:00", **more)


def registered(looks=(), **more):
    found = Registered.of(RunManifest(preregistration=plan(**more)), [])
    return Registered(found.plan, looks, found.arms, {look.arm: look for look in looks})


def effect(condition, baseline, metric="score", **more):
    names = dict(zip(("task", "model", "decoding"), CELL, strict=True))
    values = {
        "n_items": 20,
        "delta": 0.2,
        "delta_low": 0.1,
        "delta_high": 0.3,
        "p_value": 0.01,
        "p_holm": 0.02,
    }
    return {
        **names,
        "condition": condition,
        "baseline": baseline,
        "metric": metric,
        "kind": "control",
        "measure": "mean over items",
        **values,
        **more,
    }


def look(condition, baseline, **more):
    values = {"verdict": "better", "stopped": True, "low": 0.05, "high": 0.4, "p_value": 0.004, **more}
    return Look(*CELL, condition, baseline, "task_score", 10, 10, 0.2, level=0.975, margin=None, **values)


def test_planned_is_the_contrast_on_its_metric():
    told = registered()
    assert told.is_primary(effect("C3", "C0"))
    assert not told.is_primary(effect("C3", "C0", "json_valid"))
    assert not told.is_primary(effect("C4", "C0"))
    assert told.pairs(*CELL) == [("C3", "C0"), ("C6", "C4")]
    assert Registered().pairs(*CELL) == []


def test_families_do_not_mix():
    told = registered()
    assert told.family(effect("C3", "C0")) == told.family(effect("C6", "C4")) == ("registered", "t")
    assert told.family(effect("C4", "C0")) == ("explored", "t", "score", "control")
    assert registered(family="all").family(effect("C3", "C0")) == ("registered", None)


def test_an_arm_with_looks_goes_by_them():
    told = registered([look("C3", "C0")])
    by_looks = told.by_looks(effect("C3", "C0"))
    assert (by_looks["delta_low"], by_looks["delta_high"], by_looks["p_value"]) == (0.05, 0.4, 0.004)
    assert by_looks["p_method"] == "betting, anytime-valid"
    assert "delta" not in by_looks
    pooled = told.by_looks(effect("C3", "C0", measure="micro-F1"))
    assert (pooled["measure"], pooled["delta"]) == ("mean over items", look("C3", "C0").mean)
    assert told.by_looks(effect("C6", "C4")) == {}
    assert told.by_looks(effect("C3", "C0", "json_valid")) == {}


def test_the_effect_of_a_stopped_arm_is_the_one_without_the_bias_of_stopping():
    told = registered([look("C3", "C0", unbiased=0.15)])
    assert told.by_looks(effect("C3", "C0"))["delta"] == 0.15
    assert told.by_looks(effect("C3", "C0", measure="micro-F1"))["delta"] == 0.15


def test_every_planned_contrast_has_an_outcome():
    rows = [effect("C3", "C0"), effect("C4", "C0")]
    table, looks = registration_tables(registered(), rows)
    told = {row["condition"]: row for row in table.records()}
    assert told["C3"]["outcome"] == "holds"
    assert told["C6"]["outcome"] == "not run"
    assert len(looks) == 0
    table, _ = registration_tables(registered(), [effect("C3", "C0", p_holm=0.06)])
    assert next(iter(table.records()))["outcome"] == "not shown"


def test_looks_decide_where_they_were_taken():
    taken = [look("C3", "C0", verdict="undecided", stopped=False), look("C3", "C0")]
    table, looks = registration_tables(registered(taken), [effect("C3", "C0", p_holm=0.5)])
    told = next(iter(table.records()))
    assert (told["outcome"], told["looks"], told["stopped"]) == ("better", 2, "yes")
    assert [row["metric"] for row in looks.records()] == ["score", "score"]


def test_the_head_of_the_report():
    assert registration_notices(Registered()) == []
    entry = {"from": "", "to": "cd" * 32, "reason": "a slip", "rows": 480, "at_utc": ""}
    said = registration_notices(registered([look("C3", "C0")], deviations=[entry]))
    assert (
        "2 primary contrasts on task_score, registered 2030-01-01 10:00 UTC before the first call" in said[0]
    )
    assert (
        said[1] == f"Deviation from the plan after 480 rows: nothing became {'cd' * 6}. Reason given: a slip"
    )
    assert "1 looks were taken while the run went on, and 1 of 1 arms were stopped" in said[2]


@pytest.mark.parametrize("missing", [None, RegisteredPlan()])
def test_a_run_without_a_plan_flags_nothing(missing):
    told = Registered.of(RunManifest(preregistration=missing), [])
    assert not told.is_primary(effect("C3", "C0"))
    assert registration_notices(told) == []
