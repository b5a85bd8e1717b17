"""Files of other tools and tables in memory, compared as they are."""

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import pcsuite as pcs
from pcsuite.api.runs import read_foreign
from pcsuite.errors import AnalysisError, ConfigError, DataError
from support.import_logs import FIXTURES

pytestmark = pytest.mark.slow

PROMPTFOO = FIXTURES / "promptfoo"
ITEMS = 30
BEFORE = {"id": list(range(ITEMS)), "ok": [1, 1, 0] * 10, "doc": [n // 3 for n in range(ITEMS)]}
# Ten of the twenty right answers become wrong, nothing else changes: the exact test has p = 2 / 2 ** 10.
AFTER = BEFORE | {"ok": [1, 0, 0] * 10}
KINDS = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "lazy polars": polars.LazyFrame,
    "Arrow": pyarrow.table,
}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_every_library_are_compared(kind):
    make = KINDS[kind]
    comparison = pcs.compare(make(BEFORE), make(AFTER), item="id", score="ok", margin=0.05)
    (record,) = comparison.table.records()
    assert (record["n_items"], record["delta"], record["p_value"]) == (30, pytest.approx(-1 / 3), 2 / 2**10)
    assert (comparison.standing, comparison.passes) == ("worse", False)
    assert [change.item_id for change in comparison.broke[:3]] == ["1", "10", "13"]
    assert comparison.fixed == []


def test_related_items_are_no_further_evidence():
    comparison = pcs.compare(
        pandas.DataFrame(BEFORE), pandas.DataFrame(AFTER), item="id", score="ok", cluster="doc"
    )
    (record,) = comparison.table.records()
    assert (record["n_items"], record["n_clusters"]) == (30, 10)


def test_an_item_without_a_score_is_missing_and_bounded():
    lost = pandas.DataFrame(BEFORE).astype({"ok": "Float64"})
    lost.loc[:9, "ok"] = pandas.NA
    comparison = pcs.compare(pandas.DataFrame(BEFORE), lost, item="id", score="ok", margin=0.05)
    assert len(comparison.missing_of("second")) == 10
    assert (comparison.standing, comparison.passes) == ("undecided", False)
    dropped = pcs.compare(pandas.DataFrame(BEFORE), lost, item="id", score="ok", margin=0.05, missing="drop")
    assert dropped.passes


def test_numbers_that_name_items_pair_whatever_their_type():
    floats = pandas.DataFrame(AFTER).astype({"id": float})
    assert pcs.compare(pandas.DataFrame(BEFORE), floats, item="id", score="ok").table.rows


def test_several_scores_are_one_family_under_holm():
    rng = np.random.default_rng(3)
    before = pandas.DataFrame(BEFORE | {name: rng.random(ITEMS) for name in ("tone", "length")})
    after = before.assign(ok=AFTER["ok"])
    comparison = pcs.compare(before, after, item="id", score=["ok", "tone", "length"])
    by_metric = {record["metric"]: record for record in comparison.table.records()}
    assert set(by_metric) == {"score", "table:tone", "table:length"}
    # Three tests: the smallest p-value counts three times, the others are 1.
    assert by_metric["score"]["p_holm"] == pytest.approx(3 * 2 / 2**10)
    assert by_metric["score"]["p_bh"] == pytest.approx(2 / 2**10)
    assert comparison.correction == "holm"


def test_repeated_runs_get_pass_at_k_and_pass_hat_k():
    rows = [(item, run) for item in range(12) for run in range(3)]
    frame = pandas.DataFrame(rows, columns=["id", "run"])
    before = frame.assign(ok=[int(run < item % 4) for item, run in rows])
    after = frame.assign(ok=[int(item % 4 > 0) for item, run in rows])
    comparison = pcs.compare(before, after, item="id", score="ok", repeat="run")
    levels = {record["metric"]: (record["first"], record["second"]) for record in comparison.table.records()}
    # Of every four items none, one, two and three of the three answers are right; then none, and all of them.
    assert levels == {
        "score": (pytest.approx(0.5), 0.75),
        "pass@3": (0.75, 0.75),
        "pass^3": (0.25, 0.75),
    }
    (described,) = [r for r in comparison.table.records() if r["metric"] == "pass^3"]
    assert (described["outcome"], described["p_value"]) == ("described", None)
    assert described["delta_low"] < 0.5 < described["delta_high"]


def test_arms_of_one_table_have_effects():
    frame = pandas.concat(
        [
            pandas.DataFrame(BEFORE).assign(prompt="v1"),
            pandas.DataFrame(AFTER).assign(prompt="v2"),
        ]
    )
    (record,) = pcs.effects(frame, arm="prompt", item="id", score="ok", baseline="v1").records()
    assert (record["condition"], record["baseline"], record["delta"]) == ("v2", "v1", pytest.approx(-1 / 3))
    comparison = pcs.compare(frame, frame, item="id", score="ok", arm="prompt", arms=("v1", "v2"))
    assert comparison.regressions
    with pytest.raises(AnalysisError, match="no condition is called 'v3'"):
        pcs.compare(frame, frame, item="id", score="ok", arm="prompt", arms=("v1", "v3"))


def test_a_scale_must_be_stated():
    before = pandas.DataFrame(BEFORE).assign(ok=[4.0, 5, 3] * 10)
    after = before.assign(ok=[4.0, 4, 3] * 10)
    with pytest.raises(ConfigError, match="--range LOW,HIGH"):
        pcs.compare(before, after, item="id", score="ok")
    comparison = pcs.compare(before, after, item="id", score="ok", range=(1, 5), margin=0.2)
    (record,) = comparison.table.records()
    assert record["delta"] == pytest.approx(-1 / 3)
    with pytest.raises(DataError, match="outside its range of 1 to 4"):
        pcs.compare(before, after, item="id", score="ok", range=(1, 4))


def test_two_results_of_promptfoo_are_compared_as_they_are():
    comparison = pcs.compare(PROMPTFOO / "base.json", PROMPTFOO / "new.json", margin=0.05)
    (record,) = [r for r in comparison.table.records() if r["metric"] == "score"]
    # 21 items answered in both: 15 right before, all 21 after; the call that failed is missing.
    assert (record["n_items"], record["first"], record["second"]) == (21, pytest.approx(15 / 21), 1.0)
    assert (record["p_value"], record["missing_second"]) == (2 / 2**6, 1)
    assert (len(comparison.fixed), len(comparison.broke), comparison.standing) == (6, 0, "no worse")


def test_an_edited_title_does_not_make_another_task(tmp_path):
    other = tmp_path / "new.json"
    text = (PROMPTFOO / "new.json").read_text()
    other.write_text(text.replace('"description": "triage"', '"description": "triage, second try"'))
    assert pcs.compare(PROMPTFOO / "base.json", other).table.rows


def test_files_of_other_tools_mix_with_imported_runs(tmp_path):
    before = read_foreign(PROMPTFOO / "base.json")
    assert pcs.compare(before, PROMPTFOO / "new.json").table.rows
    assert not before.log.is_relative_to(tmp_path)


@pytest.mark.parametrize(
    ("first", "problem"),
    [(object(), "nothing to compare in a object"), (pandas.DataFrame({"id": [], "ok": []}), "no rows")],
)
def test_what_is_no_table_is_told_in_one_line(first, problem):
    with pytest.raises((ConfigError, DataError), match=problem):
        pcs.compare(first, first, item="id", score="ok")


def test_an_unknown_word_is_told():
    frame = pandas.DataFrame(BEFORE)
    with pytest.raises(ConfigError, match="unknown word 'scores_'"):
        pcs.compare(frame, frame, item="id", scores_="ok")
