"""Many records compared as one: sums, paths and places."""

import json

import pytest

from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.results import compare_results, results_document, rules_of, score_bytes
from pcsuite.verifier.truth import parse_truth

MAPPING = FieldMapping.model_validate(
    {
        "record_key": "doc",
        "tolerances": {"default": {"absolute": 0.005}},
        "fields": [{"path": "a", "type": "number"}, {"path": "b", "type": "text"}],
        "tables": [
            {
                "path": "rows",
                "key": "item",
                "columns": [{"path": "item", "type": "text"}, {"path": "n", "type": "integer"}],
            }
        ],
    }
)
TRUTH = [
    {"doc": "one", "a": 1, "b": "x", "rows": [{"item": "Tea", "n": 1}]},
    {"doc": "two", "a": 2, "b": "y", "rows": [{"item": "Tea", "n": 2}, {"item": "Cup", "n": 3}]},
    {"doc": "three", "a": 3},
]


def scored(extracted, strict=True):
    (rules,) = rules_of([parse_truth(json.dumps(TRUTH).encode(), MAPPING)], MAPPING)
    result = score_bytes(json.dumps(extracted).encode(), rules, "e.json", strict=strict)
    return result, results_document(result, rules, "set", None)


def test_records_are_summed_and_kept_apart():
    extracted = [
        {"doc": "two", "a": 2, "b": "y", "rows": [{"item": "Cup", "n": 3}]},
        {"doc": "one", "a": 1, "b": "z", "rows": [{"item": "Tea", "n": "1"}]},
    ]
    result, document = scored(extracted)
    # one: a, Tea right, b wrong, n mistyped; two: a, b, Cup 2 right, Tea 2 omitted; three: all omitted.
    assert result.comparison.counts.matches == 2 + 4
    assert result.comparison.counts.errors_by_type() == {
        "omission": 3,
        "hallucination": 0,
        "format_error": 1,
        "wrong_value": 1,
    }
    assert [(row["record"], row["correct_fields"], row["total_fields_gt"]) for row in document["records"]] == [
        ("one", 2, 4), ("two", 4, 6), ("three", 0, 1),
    ]  # fmt: skip
    places = {
        entry["field_path"]: place["pointer"]
        for entry, place in zip(document["discrepancies"], document["locations"], strict=True)
    }
    assert places == {
        "records[doc=one].b": "/1/b",
        "records[doc=one].rows[item=Tea].n": "/1/rows/0/n",
        "records[doc=two].rows[item=Tea].item": None,
        "records[doc=two].rows[item=Tea].n": None,
        "records[doc=three].a": None,
    }
    assert document["records"][2]["problem"] == "no such record in the extraction"
    assert document["over_records"]["macro_f1"] == pytest.approx((0.5 + 2 * 4 / (4 + 6) + 0) / 3)


def test_the_key_is_no_field_unless_the_mapping_has_it():
    _, document = scored([{**one, "doc": one["doc"].upper()} for one in TRUTH])
    assert document["metrics"]["f1"] == 1.0
    assert document["discrepancies"] == []


def test_a_file_without_a_record_scores_0_where_that_is_no_error():
    result, document = scored([1, 2], strict=False)
    assert result.comparison.counts.f1 == 0.0
    assert document["parse_error"].startswith("e.json: no record of the truth is in it")


def test_a_difference_is_by_record():
    before = scored([{**TRUTH[0], "a": 9}, *TRUTH[1:]])[1]
    after = scored([TRUTH[0], {**TRUTH[1], "a": 9}, TRUTH[2]])[1]
    difference = compare_results(before, after)
    assert [one.field_path for one in difference.fixed] == ["records[doc=one].a"]
    assert [one.field_path for one in difference.broken] == ["records[doc=two].a"]
