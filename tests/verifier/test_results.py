"""Extractions read and scored, and what changed from one results document to another."""

import pytest

from pcsuite.errors import DataError
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.results import Rules, compare_results, parse_extraction, require_fields
from pcsuite.verifier.truth import parse_truth
from support.results import document

MAPPING = load_mapping()


def test_a_key_given_twice_is_noted_and_the_last_value_counts():
    notes = []
    record = parse_extraction(b'{"project": {"city": "A", "city": "B"}, "project2": 1}', "x.json", notes)
    assert record["project"] == {"city": "B"}
    assert notes == ["x.json: an object gives 'city' more than once; the last value counts"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": ' + b"9" * 5000 + b"}", "x.json: row 1: a number of 5,000 digits is out of range"),
        (b'{\n"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "out of range"),
    ],
)
def test_numbers_that_are_none(data, words):
    with pytest.raises(DataError) as caught:
        parse_extraction(data, "x.json")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_truth_without_a_compared_value_is_refused():
    rules = Rules(parse_truth(b",Run Title,Only this,\n", MAPPING), MAPPING)
    with pytest.raises(DataError, match="no value that is compared") as caught:
        require_fields(rules, "t.csv")
    # The truth of another domain is the likeliest reason, and what is missing is its mapping.
    assert "--init-mapping SAMPLE --truth t.csv" in str(caught.value)


def test_the_ceiling_is_what_the_mapping_leaves_out():
    data = b",City,X,\n,Bedrooms,3,\n,Stories,1,\n,Colour,red,\n,Run Title,excluded,\n"
    ceiling = Rules(parse_truth(data, MAPPING), MAPPING).ceiling
    assert (ceiling["values_in_mapping"], ceiling["values_outside"]) == (3, 1)
    assert ceiling["recall"] == 0.75
    assert ceiling["f1"] == pytest.approx(2 * 0.75 / 1.75)


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


@pytest.mark.parametrize("data", [b'{"a": 1}\n{"a": 2}\n', b"number,total\n1,2\n"], ids=["JSON lines", "CSV"])
def test_an_extraction_of_another_form_is_told_what_one_is(data):
    with pytest.raises(DataError, match=r"not JSON: .*\(a file holds one record, as a JSON object\)"):
        parse_extraction(data, "given")
