"""Lists whose mapping names a key: who is paired with whom, each case as a person would say it."""

import random

import pytest

from pcsuite.verifier import pairing, staged_pairing
from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.mapping import FieldMapping
from pcsuite.verifier.pairing import pair_items
from pcsuite.verifier.tree import compile_mapping


def mapping_of(key, columns, **table):
    types = {
        "path": "items",
        "columns": [{"path": name, "type": kind} for name, kind in columns.items()],
        **table,
    }
    if key:
        types["key"] = key
    return FieldMapping.model_validate({"tolerances": {"default": {"absolute": 0.005}}, "tables": [types]})


GOODS = mapping_of("item", {"item": "text", "qty": "integer", "price": "number"})
JOBS = mapping_of(
    ["employer", "start"],
    {"employer": "text", "start": "date", "title": "text", "city": "text", "end": "date"},
)


def pairs(mapping, truth, extracted):
    node = compile_mapping(mapping).children["items"]
    return {(pair.truth, pair.extracted): pair.stage for pair in pair_items(node, truth, extracted)}


def good(item, qty=1, price=5.0):
    return {"item": item, "qty": qty, "price": price}


def job(employer, start, title="Cook", city="Kiel", end="2020-01"):
    return {"employer": employer, "start": start, "title": title, "city": city, "end": end}


def test_the_counter_example_of_the_juice():
    truth = [good("Apple juice"), good("Zinc tablets")]
    assert pairs(GOODS, truth, [good("Zinc tablets 30 pcs")]) == {(1, 0): "similar key"}


@pytest.mark.parametrize(
    ("item", "stage"),
    [
        ("zinc  TABLETS", "identical"),
        ("Zinc-tablets", "similar key"),
        ("Zink tablets", "similar key"),
        ("Tablets (zinc)", "similar key"),
    ],
)
def test_spellings_of_one_item(item, stage):
    truth = [good("Apple juice", 2), good("Zinc tablets", 7)]
    assert pairs(GOODS, truth, [good(item, 7)])[1, 0] == stage


def test_numbers_tell_items_apart():
    truth = [good("Line 10", 3, 1.0), good("Line 11", 4, 2.0)]
    assert pairs(GOODS, truth, [good("Line 12", 8, 9.0)]) == {}
    assert pairs(GOODS, truth, [good("Line 12", 4, 2.0)]) == {(1, 0): "content"}


def test_what_is_left_over_is_not_paired_by_position_unless_the_mapping_says_so():
    truth, extracted = [good("Tea", 1, 1.0)], [good("Granite", 8, 90.0)]
    assert pairs(GOODS, truth, extracted) == {}
    by_position = GOODS.model_copy(
        update={"pairing": GOODS.pairing.model_validate({"lists": {"items": {"position": True}}})}
    )
    assert pairs(by_position, truth, extracted) == {(0, 0): "position"}


def test_the_first_field_of_a_key_weighs_more_than_the_second():
    # Both differ from the extracted job in one field; the employer says more than the start.
    truth = [job("Acme", "2010-01"), job("Beta", "2015-06")]
    assert pairs(JOBS, truth, [job("Acme", "2015-06")]) == {(0, 0): "content"}


def test_two_jobs_at_one_employer_are_told_apart_by_all_there_is():
    truth = [
        job("Acme", "2010-01", "Trainee", "Kiel", "2012-01"),
        job("Acme", "2012-02", "Engineer", "Bonn", "2020-01"),
    ]
    swapped = [truth[0] | {"start": "2012-02"}, truth[1] | {"start": "2010-01"}]
    assert set(pairs(JOBS, truth, swapped)) == {(0, 0), (1, 1)}
    assert set(pairs(JOBS, truth, swapped[::-1])) == {(0, 1), (1, 0)}
    # With nothing but the key to go by, the key decides.
    bare = [{"employer": "Acme", "start": "2012-02"}, {"employer": "Acme", "start": "2010-01"}]
    assert set(pairs(JOBS, truth, bare)) == {(0, 1), (1, 0)}


def test_dates_of_a_key_are_dates():
    assert pairs(
        JOBS, [job("Acme", "2010-01-02")], [job("ACME", "02.01.2010", "Smith", "Bonn", "1999-01")]
    ) == {(0, 0): "key"}


def test_keys_that_are_missing_or_mistyped():
    truth = [good("Tea", 2, 3.0), good("Cup", 5, 9.0)]
    assert pairs(GOODS, truth, [{"item": None, "qty": 5, "price": 9.0}]) == {(1, 0): "content"}
    assert pairs(GOODS, truth, [{"item": ["Cup"], "qty": 5, "price": 9.0}]) == {(1, 0): "content"}
    assert pairs(GOODS, [good("101"), good("102")], [{"item": 102}]) == {(1, 0): "key"}


def test_fuzzy_without_a_key_compares_content_by_likeness():
    columns = {"text": "text", "place": "text"}
    truth = [{"text": "Repair of the roof", "place": "Hall"}, {"text": "Painting of doors", "place": "Attic"}]
    extracted = [
        {"text": "Paintings of doors", "place": "Atic"},
        {"text": "Repairs of the roof", "place": "Halls"},
    ]
    assert set(pairs(mapping_of(None, columns, fuzzy=True), truth, extracted)) == {(0, 1), (1, 0)}
    # Without it no text agrees, and the position decides.
    assert set(pairs(mapping_of(None, columns), truth, extracted)) == {(0, 0), (1, 1)}


def test_the_order_of_either_list_does_not_matter():
    rng = random.Random(5)
    truth = [
        good(f"{one} {n}", n % 3, float(n % 4))
        for n, one in enumerate(["Tea", "Tea bag", "Cup", "Cup red"] * 3)
    ]
    extracted = [{**one, "item": one["item"].replace("Cup", "Cups")} for one in truth[2:]] + [
        good("Spoon", 9, 9.0)
    ]
    expected = {(truth[a]["item"], extracted[b]["item"]) for a, b in pairs(GOODS, truth, extracted)}
    for _ in range(5):
        left, right = rng.sample(truth, len(truth)), rng.sample(extracted, len(extracted))
        assert {(left[a]["item"], right[b]["item"]) for a, b in pairs(GOODS, left, right)} == expected


def test_long_lists_pair_as_short_ones_do(monkeypatch):
    rng = random.Random(2)
    words = [
        "barley",
        "cedar",
        "copper",
        "linen",
        "marble",
        "oyster",
        "pewter",
        "saffron",
        "timber",
        "walnut",
    ]
    truth = [good(f"{rng.choice(words)} {rng.choice(words)} {n}", n, n / 4) for n in range(60)]
    extracted = [{**one, "item": one["item"].replace("a", "", 1)} for one in truth]
    rng.shuffle(extracted)
    short = pairs(GOODS, truth, extracted)
    assert len(short) == 60
    for module in (pairing, staged_pairing):
        monkeypatch.setattr(module, "BLOCK_CELLS", 400)
    assert set(pairs(GOODS, truth, extracted)) == set(short)


def test_paths_name_items_by_their_key():
    truth = {"items": [good("Tea"), good("Cup")]}
    (entry,) = compare_records(truth, {"items": [good("Tea"), good("Cup", 2)]}, GOODS).discrepancies
    assert entry.field_path == "items[item=Cup].qty"
