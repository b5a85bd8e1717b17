"""Each diagnosis from errors that were put in on purpose, and none from those that have nothing in common."""

import copy

import pytest

from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.diagnoses import _abbreviates, diagnose
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.tree import compared_record
from pcsuite.verifier.truth import parse_truth
from support.buildings import RAW

MAPPING = load_mapping()
TRUTH = parse_truth(RAW.encode(), MAPPING)


@pytest.fixture
def record():
    return copy.deepcopy(compared_record(TRUTH.record, MAPPING))


def diagnoses(record):
    found = diagnose(compare_records(TRUTH.record, record, MAPPING, TRUTH))
    return {one.kind: one for one in found}


def test_a_perfect_record_has_none(record):
    assert diagnoses(record) == {}


def test_values_exchanged_within_an_item(record):
    window = record["windows"][0]
    window["name"] = "D03"
    window["u_factor"], window["shgc"] = window["shgc"], window["u_factor"]
    one = diagnoses(record)["values exchanged"]
    assert one.message == "u_factor and shgc are exchanged in windows[name=D03 (8080)]"
    assert (one.items, one.errors) == (("windows[name=D03 (8080)]",), 2)


def test_items_that_hold_each_others_values(record):
    first, second = record["windows"][1], record["windows"][5]
    for key in ("wall", "azimuth", "area"):
        first[key], second[key] = second[key], first[key]
    one = diagnoses(record)["items exchanged"]
    assert one.items == ("windows[name=101]", "windows[name=W-9]")
    assert set(one.fields) == {"wall", "azimuth", "area"}


def test_a_building_that_was_turned(record):
    for window in record["windows"]:
        window["azimuth"] = (window["azimuth"] + 90) % 360
    one = diagnoses(record)["constant offset"]
    assert one.message == "windows[].azimuth: 6 of 6 wrong values are off by +90 degrees"
    assert len(one.items) == 6
    assert "items exchanged" not in diagnoses(record)


def test_a_unit(record):
    for item in (*record["walls"], *record["slab_floors"]):
        item["area"] = round(item["area"] * 0.092903, 1)
    one = diagnoses(record)["unit factor"]
    assert one.message.startswith("square feet given as square metres: 6 values")
    assert set(one.fields) == {"walls[].area", "slab_floors[].area"}


def test_a_factor_that_is_no_unit(record):
    for wall in record["walls"]:
        wall["area"] *= 1.37
    assert "1.37 times the truth" in diagnoses(record)["unit factor"].message


def test_items_merged(record):
    record["slab_floors"] = [record["slab_floors"][0] | {"area": 860.0}]
    one = diagnoses(record)["items merged"]
    assert one.items == ("slab_floors[name=Slab A]", "slab_floors[name=Slab B]")
    assert one.errors == 9  # the area, and the eight fields of the slab that is missing


def test_items_split(record):
    window = record["windows"][2]
    record["windows"].append({**window, "name": "6068 b", "area": 15.0})
    window["area"] = 25.0
    one = diagnoses(record)["items split"]
    assert one.items == ("windows[name=6068]", "windows[name=6068 b]")
    assert one.message.endswith("it adds up to 40")


def test_abbreviations(record):
    for window in record["windows"][3:]:
        window["exterior_shade"] = "Insect Scr."
    one = diagnoses(record)["abbreviation"]
    assert one.message == "windows[].exterior_shade: 'Insect Scr.' for 'Insect Screen (default)' in 3 items"


@pytest.mark.parametrize(
    ("short", "long", "wanted"),
    [
        ("HP", "Heat Pump", True),
        ("Wood Fr. Wall", "Wood Framed Wall", True),
        ("D03", "D03 (8080)", True),
        ("Heat Pump", "HP", False),
        ("Gas", "Natural Gas", True),
        ("Tile", "Asphalt", False),
        ("Heat Pump", "Heat Pump", False),
        ("", "Heat Pump", False),
    ],
)
def test_what_shortens_what(short, long, wanted):
    assert _abbreviates(short, long) is wanted


def test_numbers_as_text(record):
    for wall in record["walls"]:
        wall["area"] = f"{wall['area']:g} sq ft"
    one = diagnoses(record)["numbers as text"]
    assert one.message == "walls[].area: 4 numbers written as text (“580 sq ft”)"


def test_unrelated_errors_have_no_diagnosis(record):
    record["walls"][0]["area"] = 333.0
    record["windows"][1]["shgc"] = 0.71
    record["project"]["city"] = "Elsewhere"
    record["zones"][0]["volume"] = 10000.0
    assert diagnoses(record) == {}
