import json
import math

import pytest

from pcsuite.analysis.analyse import analyse
from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.tables.entropy import answer_counts_by_cell, entropy_tables
from pcsuite.stats.shape_free import shape_free_test
from support.synthetic_log import make_row, write_log


def compute(tmp_path, rows):
    log = write_log(tmp_path / "a.jsonl", rows)
    with RunTables([log], tmp_path / "tables") as tables:
        scores = item_scores(tables)
        per_item, by_condition = entropy_tables(tables, scores, answer_counts_by_cell(tables, scores))
        return list(per_item.records()), list(by_condition.records())


def replicates(item, condition, answers, **more):
    return [
        make_row(item=item, condition=condition, decoding="D1", seed=seed, answer=answer, **more)
        for seed, answer in enumerate(answers, start=1)
    ]


def test_disagreement_counts_pairs_and_missing_answers(tmp_path):
    rows = replicates("a", "C0", ["x", "x", "y", None]) + replicates("b", "C0", ["x"] * 4)
    per_item, (record,) = compute(tmp_path, rows)
    # a: one agreeing pair of six.
    assert [row["disagreement"] for row in per_item] == pytest.approx([5 / 6, 0.0])
    assert [row["distinct_answers"] for row in per_item] == [3, 1]
    assert record["disagreement"] == pytest.approx(5 / 12)
    assert record["replicates"] == 4
    assert record["answers"] == "3 choices"
    # Of the readable ones of a, one agreeing pair of three.
    assert [row["readable"] for row in per_item] == [3, 4]
    assert [row["readable_disagreement"] for row in per_item] == pytest.approx([2 / 3, 0.0])
    assert (record["readable"], record["readable_disagreement"]) == (
        pytest.approx(7 / 8),
        pytest.approx(1 / 3),
    )


def test_greedy_rows_have_no_entropy(tmp_path):
    per_item, by_condition = compute(
        tmp_path, [make_row(item="a", answer="x"), make_row(item="b", answer="y")]
    )
    assert per_item == []
    assert by_condition == []


def test_conditions_are_compared_item_by_item(tmp_path):
    rows = []
    for k in range(20):
        rows += replicates(f"i{k}", "C0", ["x", "y", "z"] if k % 2 else ["x", "y", "x"])
        rows += replicates(f"i{k}", "C6", ["x", "x", "x"])
    _, (control, treated) = compute(tmp_path, rows)
    assert control["delta"] is None
    assert treated["baseline"] == "C0"
    assert treated["delta"] == pytest.approx(-(1 + 2 / 3) / 2)
    # Every item is steadier; of any shape within -1..1 an unseen item could still be the least steady there is.
    differences = [-1.0 if k % 2 else -2 / 3 for k in range(20)]
    assert treated["p_value"] == shape_free_test(differences, bounds=(-1, 1)).p_value < 1e-4


def test_answers_that_cannot_be_read_are_not_compared(tmp_path):
    """A control that is hardly ever readable is not steady, and one that is half readable is not unsteady."""
    rows = []
    for k in range(20):
        rows += replicates(f"i{k}", "C0", ["x", None, None, "y"] if k else [None, None, None, "x"])
        rows += replicates(f"i{k}", "C6", ["x", "y", "x", "y"])
    _, (control, treated) = compute(tmp_path, rows)
    assert (control["readable_items"], treated["readable_items"]) == (19, 20)
    assert treated["delta"] == pytest.approx(2 / 3 - 1)


def test_long_answers_are_compared_by_their_facts(tmp_path):
    long = "The tower in Paris was finished in 1889 and it stands beside the river Seine today."
    other = long.replace("1889", "1887")
    per_item, (record,) = compute(tmp_path, replicates("a", "C0", [long, long, other], task="open"))
    # Facts: Paris, 1889 or 1887, Seine: two of four shared in two of three pairs.
    assert per_item[0]["fact_disagreement"] == pytest.approx((0 + 0.5 + 0.5) / 3)
    assert record["fact_disagreement"] == per_item[0]["fact_disagreement"]


def test_the_manifest_says_which_answers_are_closed(tmp_path):
    rows = [row for k in range(4) for row in replicates(f"i{k}", "C0", ["x", "y", None])]
    log = write_log(tmp_path / "a.jsonl", rows)
    task = {"answers": 5, "max_tokens": 100, "length_band": [50, 100]}
    log.with_suffix(".manifest.json").write_text(json.dumps({"tasks": {"agnews_json": task}}))
    with RunTables([log], tmp_path / "tables") as tables:
        found = analyse(tables, embeddings="off").tables
    (entropy,), (objective,) = (list(found[name].records()) for name in ("entropy_by_condition", "objective"))
    # Three answers were seen; the task allows four labels and one for anything else.
    assert entropy["answers"] == "5 choices"
    assert entropy["entropy_normalised"] == pytest.approx(min(1.0, entropy["entropy_nats"] / math.log(5)))
    assert objective["entropy"] == pytest.approx(entropy["entropy_normalised"])


def test_no_interval_reaches_past_the_largest_entropy_there_can_be(tmp_path):
    """Three labels: nothing is above log 3, however few the items, and the share says the same in 0..1."""
    rows = [
        row
        for k in range(6)
        for row in replicates(f"i{k}", "C0", ["x", "y", "z"] if k % 3 else ["x", "x", "x"])
    ]
    _, (record,) = compute(tmp_path, rows)
    assert record["answers"] == "3 choices"
    assert record["entropy_nats"] < record["entropy_nats_high"] <= math.log(3)
    assert record["entropy_nats"] == pytest.approx(record["entropy_normalised"] * math.log(3))
    assert 0 <= record["entropy_normalised_low"] < record["entropy_normalised_high"] <= 1


@pytest.mark.slow
def test_a_task_the_manifest_calls_open_stays_open(tmp_path):
    log = write_log(tmp_path / "a.jsonl", replicates("a", "C0", ["x", "y", "x"]))
    log.with_suffix(".manifest.json").write_text(json.dumps({"tasks": {"agnews_json": {"answers": None}}}))
    with RunTables([log], tmp_path / "tables") as tables:
        (record,) = analyse(tables, embeddings="off").tables["entropy_by_condition"].records()
    assert record["answers"] == "open"
