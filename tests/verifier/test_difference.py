"""What changed from one results document to another."""

from pcsuite.verifier.difference import compare_results
from support.results import document


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
