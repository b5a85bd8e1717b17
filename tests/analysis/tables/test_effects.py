import pytest
from scipy import stats

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.tables.effects import effects, stars
from support.synthetic_log import make_row, write_log


def compute(tmp_path, rows, metrics=None, **options):
    known = bundled_metrics()
    chosen = known if metrics is None else Metrics({name: known[name] for name in metrics})
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        return list(effects(item_scores(tables), chosen, **options).records())


def paired_rows(condition, scores, **more):
    return [
        make_row(item=f"i{k:03d}", condition=condition, score=float(v), **more) for k, v in enumerate(scores)
    ]


def test_difference_is_paired_and_its_p_value_is_mcnemars(tmp_path):
    control = [0] * 12 + [1] * 8
    treated = [1] * 9 + [0] * 3 + [1] * 7 + [0]
    records = compute(tmp_path, paired_rows("C0", control) + paired_rows("C4", treated), metrics=("score",))
    (record,) = records
    assert (record["control"], record["treated"]) == (0.4, 0.8)
    assert record["delta"] == pytest.approx(0.4)
    assert record["delta_low"] < 0.4 < record["delta_high"]
    # 9 items won, 1 lost: exact two-sided binomial test.
    assert record["p_value"] == pytest.approx(stats.binomtest(1, 10).pvalue)
    assert record["p_bh"] == record["p_value"]
    assert record["risk_reduction"] == pytest.approx(0.4)
    assert record["number_needed"] == pytest.approx(2.5)
    assert record["odds_ratio"] == pytest.approx((0.8 / 0.2) / (0.4 / 0.6))


def test_adjustment_is_over_the_conditions_of_a_dataset(tmp_path):
    rows = paired_rows("C0", [0] * 20)
    rows += paired_rows("C1", [1] * 10 + [0] * 10) + paired_rows("C2", [1] * 4 + [0] * 16)
    first, second, step = compute(tmp_path, rows, metrics=("score",))
    # the step C2 − C1 is of another kind, so that nothing pays for it: 6 items lost, none won
    assert (step["kind"], step["delta"], step["p_bh"]) == (
        "step",
        pytest.approx(-0.3),
        pytest.approx(2 * 0.5**6),
    )
    p_one, p_two = 2 * 0.5**10, 2 * 0.5**4
    assert (first["p_value"], second["p_value"]) == pytest.approx((p_one, p_two))
    assert (first["p_bh"], second["p_bh"]) == pytest.approx((2 * p_one, p_two))
    assert (first["p_holm"], second["p_holm"]) == pytest.approx((2 * p_one, p_two))
    assert (first["stars"], second["stars"]) == ("**", "")


def test_only_common_items_are_compared(tmp_path):
    rows = paired_rows("C0", [0, 0, 0]) + paired_rows("C1", [1, 1])
    (record,) = compute(tmp_path, rows, metrics=("score",))
    assert record["n_items"] == 2


def test_pooled_tasks_compare_micro_f1(tmp_path):
    rows = []
    for k in range(30):
        rows.append(make_row(task="ner", item=f"{k}", condition="C0", metrics={"tp": 1, "fp": 1, "fn": 2}))
        rows.append(
            make_row(task="ner", item=f"{k}", condition="C6", metrics={"tp": 3, "fp": k % 2, "fn": 0})
        )
    (record,) = compute(tmp_path, rows, metrics=("score",))
    assert record["measure"] == "micro-F1"
    assert record["control"] == pytest.approx(2 / 5)
    assert record["treated"] == pytest.approx(180 / 195)
    assert record["delta_low"] > 0.4


def test_without_a_control_there_is_nothing_to_compare(tmp_path):
    rows = paired_rows("a", [1, 1], operators=("ROLE",)) + paired_rows("b", [1, 0], operators=("GOAL",))
    assert compute(tmp_path, rows) == []


def test_a_condition_is_set_against_its_twin_too(tmp_path):
    rows = paired_rows("C0", [0] * 10) + paired_rows("C4", [0] * 5 + [1] * 5)
    rows += paired_rows("C6", [0] + [1] * 9)
    found = {(r["condition"], r["baseline"]): r for r in compute(tmp_path, rows, metrics=("score",))}
    assert set(found) == {("C4", "C0"), ("C6", "C0"), ("C6", "C4")}
    twin = found["C6", "C4"]
    assert (twin["kind"], twin["operator"], twin["contrast"]) == ("twin", "TYPE_CONSTRAIN", "C6 − C4")
    assert (twin["control"], twin["treated"], twin["delta"]) == pytest.approx((0.5, 0.9, 0.4))
    # One twin is a family of its own: nothing to correct for.
    assert twin["p_bh"] == twin["p_value"] == pytest.approx(0.125)
    assert found["C4", "C0"]["kind"] == "control"
    assert found["C4", "C0"]["operator"] is None


def test_leave_one_out_alone_is_analysed(tmp_path):
    rows = paired_rows("x:all", [1] * 8, operators=("A", "B"))
    rows += paired_rows("x:-A", [0] * 6 + [1] * 2, operators=("B",))
    rows += paired_rows("x:-B", [1] * 8, operators=("A",))
    found = {
        (r["kind"], r["operator"] or r["condition"]): r for r in compute(tmp_path, rows, metrics=("score",))
    }
    assert {key: r["delta"] for key, r in found.items()} == {
        ("control", "x:-A"): -0.75,
        ("control", "x:-B"): 0.0,
        ("twin", "A"): 0.75,
        ("twin", "B"): 0.0,
    }
    assert found["twin", "A"]["p_value"] == pytest.approx(2 / 64)


def test_factorial_main_effects_and_interactions(tmp_path):
    cells = {(): 0.1, ("A",): 0.3, ("B",): 0.2, ("A", "B"): 0.9}
    rows = []
    for own, level in cells.items():
        rows += paired_rows(
            f"f:{'+'.join(own) or 'none'}", [level - 0.01 * k for k in range(10)], operators=own
        )
    found = {
        r["contrast"]: r
        for r in compute(tmp_path, rows, metrics=("score",))
        if "effect" in r["kind"] or "×" in r["contrast"]
    }
    a, pair = found["main effect of A"], found["A × B"]
    assert (a["condition"], a["baseline"], a["operator"]) == ("with A", "without A", "A")
    assert (a["treated"] - a["control"], a["delta"]) == pytest.approx((0.45, 0.45))
    # A alone adds 0.2, beside B 0.7.
    assert (pair["control"], pair["treated"], pair["delta"]) == pytest.approx((0.2, 0.7, 0.5))
    assert (pair["kind"], pair["operator"]) == ("interaction", "A × B")


@pytest.mark.parametrize(
    ("p", "mark"), [(0.0009, "***"), (0.009, "**"), (0.049, "*"), (0.05, ""), (None, "")]
)
def test_stars(p, mark):
    assert stars(p) == mark


def test_unequal_replicates_are_not_tested_by_flipping_signs(tmp_path):
    control = [make_row(item=f"i{k}", condition="C0", score=1.0) for k in range(30)]
    treated = [
        make_row(item=f"i{k}", condition="C1", seed=seed, score=float(seed != 0 or k > 12))
        for k in range(30)
        for seed in range(10)
    ]
    (record,) = compute(tmp_path, control + treated, metrics=("score",))
    # 13 items lost a tenth each: signs all one way, but a single wrong answer of the control would undo them.
    assert record["delta"] == pytest.approx(-1.3 / 30)
    assert record["p_method"] == "mean with end item"
    assert record["p_value"] > 0.05
    assert record["delta_low"] < -0.05
    assert record["delta_high"] > 0


def test_failures_are_counted_tested_and_bounded(tmp_path):
    rows = paired_rows("C0", [1] * 10 + [0] * 10)
    rows += paired_rows("C1", [1] * 12)
    rows += [make_row(item=f"i{k:03d}", condition="C1", errors=["timeout"]) for k in range(12, 20)]
    (record,) = compute(tmp_path, rows, metrics=("score",))
    assert record["n_items"] == 12
    assert (record["failed_control"], record["failed_treated"]) == (0.0, 0.4)
    # 8 items failed on one side alone: exact sign test.
    assert record["p_failures"] == pytest.approx(2 * 0.5**8)
    assert record["caution"].startswith("unequal failures")
    # All 20 items: control 10/20; the condition 12/20 with the failures wrong, 20/20 with them right.
    assert record["delta_least"] == pytest.approx(0.1)
    assert record["delta_most"] == pytest.approx(0.5)


def test_partly_failed_replicates_move_the_bounds_by_their_share(tmp_path):
    rows = paired_rows("C0", [1, 0], seed=0) + paired_rows("C0", [1, 0], seed=1)
    rows += paired_rows("C1", [1, 1], seed=0)
    rows += [
        make_row(item="i000", condition="C1", seed=1, errors=["x"]),
        *paired_rows("C1", [1, 1], seed=1)[1:],
    ]
    (record,) = compute(tmp_path, rows, metrics=("score",))
    # Control 1 and 0; the condition's first item is 1 with half of it unknown, its second 1.
    assert (record["delta_least"], record["delta_most"]) == pytest.approx((0.75 - 0.5, 1.0 - 0.5))
    assert record["p_failures"] == 1.0
    assert record["caution"] is None


def test_failures_of_pooled_tasks_bound_micro_f1(tmp_path):
    counts = {"tp": 1.0, "fp": 0.0, "fn": 1.0}
    rows = [make_row(item=f"i{k}", condition="C0", score=0.67, metrics=counts) for k in range(4)]
    rows += [make_row(item=f"i{k}", condition="C1", score=0.67, metrics=counts) for k in range(2)]
    rows += [make_row(item=f"i{k}", condition="C1", errors=["x"]) for k in range(2, 4)]
    (record,) = compute(tmp_path, rows, metrics=("score",))
    assert record["measure"] == "micro-F1"
    # F1 of the control 8/12. With two items missed: tp 2, fn 6: 4/10; with both found: tp 6, fn 2: 12/14.
    assert record["delta_least"] == pytest.approx(4 / 10 - 8 / 12)
    assert record["delta_most"] == pytest.approx(12 / 14 - 8 / 12)


def test_a_loss_has_no_negative_number_needed(tmp_path):
    (record,) = compute(
        tmp_path, paired_rows("C0", [1] * 10) + paired_rows("C1", [0] * 5 + [1] * 5), metrics=("score",)
    )
    assert record["number_needed"] is None
    assert record["number_harmed"] == pytest.approx(2.0)


@pytest.mark.slow
def test_limits_go_by_the_range_that_the_metric_declares(tmp_path):
    same = [1.0] * 20
    rows = [
        make_row(item=f"i{k}", condition=condition, score=score, prompt_tokens=tokens, completion_tokens=10)
        for condition, tokens in (("C0", 100), ("C1", 100), ("C2", 185))
        for k, score in enumerate(same)
    ]
    records = compute(tmp_path, rows, metrics=("score", "total_tokens"))
    found = {(row["metric"], row["condition"]): row for row in records}
    for condition, delta in (("C1", 0.0), ("C2", 85.0)):
        row = found["total_tokens", condition]
        assert row["delta"] == delta
        # twenty equal differences of an amount say nothing of how much the rare other one would be
        assert (row["delta_low"], row["delta_high"]) == (None, None)
        assert row["interval_method"] == "all equal, no bounds"
    # Nothing changed in 20 pairs of 0/1 scores: Tango's limit, z² / (n + z²).
    assert found["score", "C1"]["delta_high"] == pytest.approx(3.8415 / 23.8415, abs=1e-4)
    grades = Metrics({"score": bundled_metrics()["score"].model_copy(update={"range": (1.0, 5.0)})})
    log = write_log(tmp_path / "b.jsonl", rows * 1)
    with RunTables([log], tmp_path / "other") as tables:
        row = next(effects(item_scores(tables), grades).records())
    assert row["delta_high"] > 0.4
