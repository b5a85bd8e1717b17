import pytest

from pcsuite.analysis.compare import JudgedSide, compare_runs
from pcsuite.analysis.judging import CellGold, Gold
from pcsuite.analysis.load.item_scores import CellKey, item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.metrics import Metrics, bundled_metrics
from pcsuite.analysis.tables.judges import JudgeStatus
from pcsuite.errors import AnalysisError
from pcsuite.logging.manifest import JudgeNote
from pcsuite.reporting.markdown import comparison_text
from support.synthetic_log import make_row, write_log

SCORE_ONLY = Metrics({"score": bundled_metrics()["score"]})


@pytest.fixture
def scores_of(tmp_path):
    def load(name, rows):
        log = write_log(tmp_path / f"{name}.jsonl", rows)
        with RunTables([log], tmp_path / name) as tables:
            return item_scores(tables)

    return load


def rows_of(scores, prefix="i", **more):
    return [make_row(item=f"{prefix}{k:03d}", score=float(v), **more) for k, v in enumerate(scores)]


@pytest.mark.slow
def test_a_drop_is_a_regression(scores_of):
    before, after = [1] * 20, [0] * 12 + [1] * 8
    found = compare_runs(scores_of("a", rows_of(before)), scores_of("b", rows_of(after)), metrics=SCORE_ONLY)
    (record,) = found.table.records()
    assert (record["first"], record["second"], record["delta"]) == (1.0, 0.4, pytest.approx(-0.6))
    assert record["p_value"] == pytest.approx(2 * 0.5**12)
    assert record["outcome"] == "worse"
    assert [entry["metric"] for entry in found.regressions] == ["score"]


@pytest.mark.slow
def test_a_margin_forgives(scores_of):
    a, b = scores_of("a", rows_of([1] * 20)), scores_of("b", rows_of([0] * 12 + [1] * 8))
    assert compare_runs(a, b, metrics=SCORE_ONLY, margin=0.7).regressions == []


@pytest.mark.slow
def test_noise_is_no_regression(scores_of):
    a, b = scores_of("a", rows_of([1] * 20)), scores_of("b", rows_of([0] * 3 + [1] * 17))
    (record,) = compare_runs(a, b, metrics=SCORE_ONLY).table.records()
    assert record["outcome"] == "no reliable change"


@pytest.mark.slow
def test_more_truncation_is_worse_and_more_tokens_are_not_judged(scores_of):
    a = scores_of("a", rows_of([1] * 20))
    b = scores_of("b", rows_of([1] * 20, finish_reason="length", prompt_tokens=500))
    found = compare_runs(a, b)
    assert {entry["metric"] for entry in found.regressions} == {"truncated"}


@pytest.mark.slow
def test_items_are_paired_by_name_not_by_place(scores_of):
    a = scores_of("a", rows_of([0, 1, 0, 1]))
    rows = [make_row(item=f"i{k:03d}", score=v) for k, v in [(1, 1.0), (2, 0.0), (3, 1.0)]]
    b = scores_of("b", rows)
    (record,) = compare_runs(a, b, metrics=SCORE_ONLY, allow_different_items=True).table.records()
    assert (record["n_items"], record["delta"]) == (3, 0.0)
    with pytest.raises(AnalysisError, match="the first has 4, the second 3, and 3 are in common"):
        compare_runs(a, b, metrics=SCORE_ONLY)


@pytest.mark.slow
def test_one_model_on_each_side_is_paired(scores_of):
    a = scores_of("a", rows_of([0] * 8, model="small"))
    b = scores_of("b", rows_of([1] * 8, model="large"))
    found = compare_runs(a, b, metrics=SCORE_ONLY)
    assert found.renamed == {"model": ("small", "large")}
    assert len(found.improvements) == 1


@pytest.mark.slow
def test_cells_of_one_run_only_are_named(scores_of):
    a = scores_of("a", rows_of([1] * 4) + rows_of([1] * 4, condition="C1"))
    b = scores_of("b", rows_of([1] * 4) + rows_of([1] * 4, condition="C2"))
    found = compare_runs(a, b)
    assert [key.condition for key in found.only_first] == ["C1"]
    assert [key.condition for key in found.only_second] == ["C2"]


@pytest.mark.slow
def test_perturbed_cells_are_told_from_clean_ones(scores_of):
    clean, attacked = rows_of([1] * 12), rows_of([1] * 12, perturbation="injection")
    worse = rows_of([0] * 12, perturbation="injection")
    only = rows_of([1] * 12, perturbation="reorder")
    found = compare_runs(
        scores_of("a", clean + attacked + only), scores_of("b", clean + worse), metrics=SCORE_ONLY
    )
    text = comparison_text(found, "a", "b")
    assert "Worse: score of C0 (injection) on " in text
    assert "Not in b: C0 (reorder) × " in text
    told = [line.split("  ") for line in text.splitlines() if line.endswith(("worse", "no reliable change"))]
    assert sorted(cell for line in told for cell in line if cell.startswith("C0")) == ["C0", "C0 (injection)"]


@pytest.mark.slow
def test_nothing_in_common_is_an_error(scores_of):
    with pytest.raises(AnalysisError, match="no cell in common"):
        compare_runs(scores_of("a", rows_of([1, 1], task="x")), scores_of("b", rows_of([1, 1], task="y")))
    with pytest.raises(AnalysisError, match="no item in common"):
        compare_runs(scores_of("c", rows_of([1, 1])), scores_of("d", rows_of([1, 1], prefix="other")))


@pytest.mark.slow
def test_items_that_broke_come_first_and_mended_ones_are_told_apart(scores_of):
    a, b = scores_of("a", rows_of([1, 0.5, 0, 1])), scores_of("b", rows_of([0, 0.25, 1, 1]))
    found = compare_runs(a, b, metrics=SCORE_ONLY)
    assert [(change.item_id, change.first, change.second) for change in found.changes] == [
        ("i000", 1.0, 0.0),
        ("i001", 0.5, 0.25),
        ("i002", 0.0, 1.0),
    ]
    assert [change.item_id for change in found.broke] == ["i000", "i001"]


@pytest.mark.slow
def test_no_worse_is_said_only_where_non_inferiority_holds_at_the_margin(scores_of):
    a, same = scores_of("a", rows_of([1] * 60)), scores_of("b", rows_of([1] * 60))
    found = compare_runs(a, same, metrics=SCORE_ONLY, margin=0.05)
    (record,) = found.table.records()
    # Sixty items without a change: an unseen one may still be lost, to within 1 - 0.05^(1/60) = 0.0487.
    assert record["no_worse_p"] == pytest.approx(0.95**60)
    assert found.standing == "no worse"
    few = compare_runs(
        scores_of("c", rows_of([1] * 40)), scores_of("d", rows_of([1] * 40)), metrics=SCORE_ONLY, margin=0.05
    )
    assert few.standing == "undecided"
    assert (
        compare_runs(a, same, metrics=SCORE_ONLY).standing == "undecided"
    )  # without a margin nothing is claimed
    worse = scores_of("e", rows_of([0] * 12 + [1] * 48))
    assert compare_runs(a, worse, metrics=SCORE_ONLY, margin=0.05).standing == "worse"
    assert compare_runs(a, worse, metrics=SCORE_ONLY, margin=0.4).standing == "no worse"


def judged_by(prompt_hash, labels=None):
    """A side whose answers a judge scored, with gold scores beside the judge's where there are labels."""
    gold = Gold({"agnews_json": JudgeNote("judge", prompt_hash=prompt_hash)})
    if labels is not None:
        key = CellKey("agnews_json", "m1", "D0", "none", "C0")
        items = {f"i{k:03d}": value for k, value in enumerate(labels)}
        gold.cells[key] = CellGold(dict.fromkeys(items, 1.0), {item: (v, 1.0) for item, v in items.items()})
    return JudgedSide(gold, JudgeStatus())


@pytest.mark.slow
def test_scores_of_different_judges_show_nothing(scores_of):
    a, b = scores_of("a", rows_of([1] * 60)), scores_of("b", rows_of([1] * 60))
    sides = judged_by("one"), judged_by("another")
    found = compare_runs(a, b, metrics=SCORE_ONLY, margin=0.05, judged=sides)
    (record,) = found.table.records()
    assert (record["judge"], record["p_method"]) == ("the runs have different judges", "not tested")
    assert (record["p_value"], record["p_bh"], record["no_worse_p"]) == (None, None, None)
    assert found.standing == "undecided"


@pytest.mark.slow
def test_where_labels_correct_a_score_they_say_whether_it_is_no_worse(scores_of):
    """The judge passes everything; by the labels of all items the second run is right on half as many."""
    a, b = scores_of("a", rows_of([1] * 60)), scores_of("b", rows_of([1] * 60))
    sides = judged_by("one", [1.0] * 60), judged_by("one", [1.0, 0.0] * 30)
    found = compare_runs(a, b, metrics=SCORE_ONLY, margin=0.05, judged=sides)
    (record,) = found.table.records()
    assert record["delta"] == pytest.approx(-0.5)
    assert (record["outcome"], record["no_worse_p"], found.standing) == ("worse", None, "worse")
    same = compare_runs(a, b, metrics=SCORE_ONLY, margin=0.2, judged=(sides[0], judged_by("one", [1.0] * 60)))
    assert same.standing == "no worse"  # limits of 60 equal labels lie within 0.2


def test_of_graded_scores_a_drop_must_hold_whatever_its_shape_unless_symmetry_is_assumed(scores_of):
    """24 items that each lose 0.05: sign flips are sure, a rare item that gains it all back is not ruled out."""
    before, after = (scores_of(name, rows_of([score] * 24)) for name, score in (("a", 0.6), ("b", 0.55)))
    assert compare_runs(before, after).regressions == []
    bold = compare_runs(before, after, assume="symmetric")
    assert [record["metric"] for record in bold.regressions] == ["score"]


@pytest.mark.slow
def test_a_drop_that_only_the_strict_rules_see_is_one_of_the_form(scores_of):
    def rows(scores, lenient):
        return [
            make_row(item=f"i{k:03d}", score=float(a), metrics={"lenient_score": float(b)})
            for k, (a, b) in enumerate(zip(scores, lenient, strict=True))
        ]

    before = scores_of("a", rows([1] * 20, [1] * 20))
    formal = compare_runs(before, scores_of("b", rows([0] * 12 + [1] * 8, [1] * 20)), metrics=SCORE_ONLY)
    (record,) = formal.table.records()
    assert (record["outcome"], record["lenient_delta"]) == ("worse", 0.0)
    assert record["form"] == "the form, not the answer"
    told = comparison_text(formal, "a", "b")
    assert (
        told.count("the form, not the answer (+0.00 leniently read)") == 2
    )  # beside the sentence and in the table
    real = compare_runs(
        before, scores_of("c", rows([0] * 12 + [1] * 8, [0] * 12 + [1] * 8)), metrics=SCORE_ONLY
    )
    assert next(iter(real.table.records()))["form"] is None
    assert next(iter(real.table.records()))["ambiguous_second"] == 0
