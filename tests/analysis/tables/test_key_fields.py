"""Fields of structured answers over replicates, by hand."""

import pytest

from support.analysed import tables_of
from support.synthetic_log import make_row


def rows(fields_of):
    """Two items, three seeds each; ``fields_of`` gives the answer's fields by item and seed."""
    return [
        make_row(item=f"{k}", decoding="D1", seed=seed, fields=fields_of(k, seed), answer="x")
        for k in range(2)
        for seed in (1, 2, 3)
    ]


@pytest.mark.slow
def test_a_label_that_agrees_is_told_from_a_rationale_that_does_not(tmp_path):
    found = tables_of(
        tmp_path,
        rows(lambda k, seed: {"label": " World" if seed == 2 else "world", "rationale": f"r{seed}", "confidence": 0.1 * seed}),
    )["key_fields"]  # fmt: skip
    by_field = {record["field"]: record for record in found}
    assert by_field["label"]["disagreement"] == 0.0
    assert by_field["rationale"]["disagreement"] == 1.0
    assert (by_field["confidence"]["kind"], by_field["confidence"]["variance"]) == (
        "number",
        pytest.approx(0.01),
    )
    assert {record["filled"] for record in found} == {1.0}


@pytest.mark.slow
def test_lists_are_sets_and_missing_fields_are_counted(tmp_path):
    def fields(k, seed):
        names = [{"text": "Ada", "type": "PER"}, {"text": "Paris", "type": "LOC"}]
        entities = {1: names, 2: names[::-1], 3: names[:1]}[seed]
        return {"entities": entities} | ({"note": "n"} if seed == 1 else {})

    by_field = {record["field"]: record for record in tables_of(tmp_path, rows(fields))["key_fields"]}
    # Of three pairs of replicates one agrees.
    assert by_field["entities"]["disagreement"] == pytest.approx(2 / 3)
    assert (by_field["entities"]["kind"], by_field["entities"]["n_items"]) == ("list", 2)
    assert by_field["note"]["filled"] == pytest.approx(1 / 3)
    assert by_field["note"]["disagreement"] is None


@pytest.mark.slow
def test_one_replicate_has_nothing_to_vary(tmp_path):
    one = [make_row(item=f"{k}", fields={"label": "a"}, answer="a") for k in range(3)]
    assert tables_of(tmp_path, one)["key_fields"] == []
