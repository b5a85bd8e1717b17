from pcsuite.verifier.history import compare_results, field_trends
from pcsuite.verifier.store import rebuild_aggregate


def document(*found, f1=0.5, rules="r", eval_id="house"):
    keys = ("field_path", "expected", "actual", "error_type")
    return {
        "eval_id": eval_id,
        "rules_hash": rules,
        "truth_hash": "t",
        "metrics": {"f1": f1},
        "discrepancies": [dict(zip(keys, entry, strict=True)) for entry in found],
    }


def paths(changes):
    return [change.field_path for change in changes]


def test_fixed_broken_changed():
    before = document(
        ("a", 1, 2, "wrong_value"), ("b", 1, None, "omission"), ("c", 1, "1", "format_error"), f1=0.4
    )
    after = document(
        ("b", 1, 5, "wrong_value"), ("c", 1, "1", "format_error"), ("d", None, 3, "hallucination"), f1=0.6
    )
    difference = compare_results(before, after)
    assert paths(difference.fixed) == ["a"]
    assert paths(difference.broken) == ["d"]
    assert paths(difference.changed) == ["b"]
    assert difference.unchanged == 1
    assert (difference.f1_before, difference.f1_after) == (0.4, 0.6)
    assert difference.warnings == ()


def test_an_invented_item_is_not_the_missing_one_of_the_same_path():
    before = document(("windows[1].area", 3, None, "omission"))
    after = document(("windows[1].area", None, 3, "hallucination"))
    difference = compare_results(before, after)
    assert paths(difference.fixed) == paths(difference.broken) == ["windows[1].area"]


def test_other_rules_are_never_silent():
    warnings = compare_results(document(rules="x"), document(rules="y", eval_id="barn")).warnings
    assert len(warnings) == 2
    assert any("rules" in warning for warning in warnings)


def test_field_trends(tmp_path):
    import json

    for number, f1 in ((1, 0.0), (2, 0.5), (3, 1.0)):
        folder = tmp_path / "results" / f"iteration-{number:03d}"
        folder.mkdir(parents=True)
        entry = document() | {
            "iteration": number,
            "metrics": {"f1": f1, "precision": f1, "recall": f1, "errors_by_type": {}},
            "by_field": {"windows[].area": {"f1": f1}, "project.city": {"f1": 1.0}},
        }
        (folder / "eval-results.json").write_text(json.dumps(entry))
    trends = field_trends(tmp_path, rebuild_aggregate(tmp_path, None))
    assert [(trend.field, trend.scores) for trend in trends] == [
        ("windows[].area", (0.0, 0.5, 1.0)),
        ("project.city", (1.0, 1.0, 1.0)),
    ]
    assert trends[0].change == 1.0
