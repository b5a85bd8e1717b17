"""Scores and effects by model size, by hand."""

import pytest

from pcsuite.stats.shape_free import shape_free_test
from support.analysed import tables_of
from support.synthetic_log import make_row

SIZES = (("a", "7B"), ("b", "8B"), ("c", "32B"))


@pytest.mark.slow
def test_an_item_is_averaged_over_the_models_of_a_size(tmp_path):
    scores = {
        ("a", "C0"): 0.2,
        ("a", "C1"): 0.6,
        ("b", "C0"): 0.4,
        ("b", "C1"): 0.4,
        ("c", "C0"): 0.5,
        ("c", "C1"): 0.4,
    }
    rows = [
        make_row(task="t", item=f"{k}", model=model, size=size, condition=condition, score=scores[model, condition] + 0.01 * k)
        for k in range(8)
        for model, size in SIZES
        for condition in ("C0", "C1")
    ]  # fmt: skip
    found = {(r["condition"], r["level"]): r for r in tables_of(tmp_path, rows)["by_size"]}
    assert set(found) == {("C0", "S"), ("C0", "M"), ("C1", "S"), ("C1", "M")}
    assert found["C1", "S"]["score"] == pytest.approx(0.535)
    assert (found["C1", "S"]["models"], found["C1", "S"]["n_items"]) == (2, 8)
    assert found["C1", "S"]["effect"] == pytest.approx(0.2)
    assert found["C1", "M"]["effect"] == pytest.approx(-0.1)
    assert found["C0", "S"]["effect"] is None
    # Eight graded gains of 0.2: whatever their shape, one unseen item could lose it all.
    assert found["C1", "S"]["p_value"] == pytest.approx(shape_free_test([0.2] * 8, bounds=(-1, 1)).p_value)


@pytest.mark.slow
def test_sizes_of_one_class_are_told_apart_by_their_names(tmp_path):
    rows = [
        make_row(task="t", item=f"{k}", model=model, size=size, condition=condition, score=float(k % 2))
        for k in range(6)
        for model, size in (("a", "135M"), ("b", "1.5B"))
        for condition in ("C0", "C1")
    ]
    found = tables_of(tmp_path, rows)["by_size"]
    assert [r["level"] for r in found] == ["135M", "1.5B"] * 2
    assert {r["factor"] for r in found} == {"size"}


@pytest.mark.slow
def test_a_run_of_one_size_has_no_such_table(tmp_path):
    rows = [make_row(item=f"{k}", condition=c, score=0.5) for k in range(4) for c in ("C0", "C1")]
    assert tables_of(tmp_path, rows)["by_size"] == []
