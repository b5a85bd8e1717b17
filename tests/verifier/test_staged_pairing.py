"""Which item stands for which: the stages, in the order a person would go through them."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.errors import ConfigError
from pcsuite.verifier import staged_pairing
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.pairing import pair_items
from pcsuite.verifier.tree import compile_mapping
from pcsuite.verifier.value_lists import pair_texts

WINDOWS = compile_mapping(load_mapping()).children["windows"]


def window(name, **values):
    given = {
        "wall": "Front",
        "status": "New",
        "azimuth": 0.0,
        "area": 20.0,
        "u_factor": 0.3,
        "shgc": 0.2,
    } | values
    return ({"name": name} if name is not None else {}) | given


def found(truth, extracted, node=WINDOWS):
    return {(pair.truth, pair.extracted): pair.stage for pair in pair_items(node, truth, extracted)}


def test_equal_names_whatever_the_content():
    truth = [window("A", area=1.0), window("B", area=2.0)]
    others = [{"name": "b", "area": 1.0}, {"name": "a", "area": 2.0}]
    assert found(truth, others) == {(0, 1): "name", (1, 0): "name"}


def test_identical_items_always_pair():
    truth = [{"area": 3.0}, window("A"), {}]
    assert found(truth, [window("A"), {}, {"area": 3.0}]) == {
        (0, 2): "identical", (1, 0): "identical", (2, 1): "identical"
    }  # fmt: skip


def test_several_of_one_name_are_told_apart_by_content():
    truth = [window("W", area=1.0), window("W", area=2.0), window("W", area=3.0)]
    others = [window("W", area=3.0, shgc=0.9), window("W", area=1.0, shgc=0.9)]
    assert found(truth, others) == {(2, 0): "name", (0, 1): "name"}


def test_names_equal_but_for_punctuation():
    assert found([window("W-9", area=1.0)], [window("w 9", area=2.0)]) == {(0, 0): "similar name"}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("D03 (8080)", "D03"),
        ("D03", "D03 (8080)"),
        ("Living Room", "living"),
        ("Living", "Liv"),
        ("Bedroom 2", "2"),
    ],
)
def test_a_name_that_is_part_of_the_other(name, given):
    other = {"name": given, "area": 999.0}
    (pair,) = pair_items(WINDOWS, [window(name), window("Unlike")], [other])
    assert (pair.truth, pair.stage) == (0, "similar name")
    assert pair.reason.startswith(f"'{min(name, given, key=len)}'")


@pytest.mark.parametrize(
    ("name", "given"), [("W1", "W10"), ("Window 1", "Window 11"), ("A", "Attic"), ("101", "10")]
)
def test_names_that_only_look_like_parts(name, given):
    assert found([window(name), window("Unlike")], [{"name": given, "area": 999.0}]) == {}


def test_a_part_that_several_names_have_is_decided_by_content():
    truth = [window("G02 (4080) 2", area=10.0), window("G02 (4080) 3", area=6.0)]
    assert found(truth, [window("G02 (4080)", area=6.0)]) == {(1, 0): "similar name"}


def test_a_beginning_that_two_names_have_decides_nothing():
    truth = [window("Livingroom", area=10.0), window("Livery", area=6.0), window("Hall", area=1.0)]
    assert found(truth, [{"name": "Liv", "area": 77.0, "shgc": 0.9}]) == {}


def test_content_needs_about_half_of_what_both_give():
    truth = [window("A"), window("B", wall="Back", azimuth=90.0, area=9.0, u_factor=0.9, shgc=0.9)]
    half = window("X", wall="Q", azimuth=45.0, area=7.0)  # status, U-factor and SHGC of A: 3 of 6
    assert found(truth, [half]) == {(0, 0): "content"}
    less = window("X", wall="Q", azimuth=45.0, area=7.0, u_factor=0.7)  # 2 of 6
    assert found(truth, [less]) == {}


def test_one_field_in_common_is_enough_only_where_there_is_but_one():
    assert found([{"area": 3.0}, {"area": 4.0}, {}], [{"area": 4.0}]) == {(1, 0): "identical"}
    assert found([window("A"), window("B")], [{"name": "X", "status": "New"}]) == {}


def test_what_is_left_pairs_by_position_where_both_have_equally_many():
    truth = [window("A"), window("B", area=5.0), window("C", area=6.0)]
    others = [{"name": "X", "area": 71.0}, window("A"), {"name": "Y", "area": 72.0}]
    assert found(truth, others) == {(0, 1): "identical", (1, 0): "position", (2, 2): "position"}
    assert found(truth, others[:2]) == {(0, 1): "identical"}


def test_every_pair_says_how_alike_and_why():
    truth = [window("D03 (8080)"), window("B", area=5.0)]
    others = [window("D03", shgc=0.9), window("B", area=5.0)]
    first, second = pair_items(WINDOWS, truth, others)
    assert first.reason == "'D03' is in 'D03 (8080)'; 5 of 6 shared fields agree"
    assert first.score == pytest.approx(0.5 * 0.8 + 0.5 * 5 / 6, abs=1e-4)
    assert (second.score, second.reason) == (1.0, "every field agrees")


def test_the_order_does_not_matter_before_the_last_stage():
    rng = random.Random(5)
    truth = [window(f"W{n}", area=float(n), wall=f"Wall {n % 3}") for n in range(12)]
    others = [window(f"Q{n}", area=float(n), wall=f"Wall {n % 3}", shgc=0.9) for n in range(10)]
    wanted = {(pair.truth, others[pair.extracted]["name"]) for pair in pair_items(WINDOWS, truth, others)}
    assert wanted == {(n, f"Q{n}") for n in range(10)}
    for _ in range(5):
        shuffled = rng.sample(others, len(others))
        assert {
            (p.truth, shuffled[p.extracted]["name"]) for p in pair_items(WINDOWS, truth, shuffled)
        } == wanted


def with_pairing(tmp_path, text):
    path = tmp_path / "m.yaml"
    path.write_text(
        f"tolerances: {{default: {{}}}}\npairing: {text}\n"
        "tables:\n"
        "  - {path: lines, columns: [{path: name, type: text}, {path: a, type: number}, {path: b, type: number}]}\n"
        "  - {path: others, columns: [{path: name, type: text}, {path: a, type: number}, {path: b, type: number}]}\n"
    )
    return compile_mapping(load_mapping(path)).children


def test_a_list_may_have_rules_of_its_own(tmp_path):
    nodes = with_pairing(tmp_path, "{gate: 0.5, lists: {lines: {gate: 1.0, position: false}}}")
    truth, others = [{"name": "A", "a": 1, "b": 2}], [{"name": "X", "a": 1, "b": 9}]
    assert found(truth, others, nodes["lines"]) == {}
    assert found(truth, others, nodes["others"]) == {(0, 0): "content"}


def test_names_can_be_left_out(tmp_path):
    nodes = with_pairing(tmp_path, "{name_weight: 0}")
    truth = [{"name": "A", "a": 1, "b": 2}, {"name": "B", "a": 3, "b": 4}]
    others = [{"name": "A", "a": 3, "b": 4}, {"name": "B", "a": 1, "b": 2}]
    assert found(truth, others, nodes["lines"]) == {(0, 1): "content", (1, 0): "content"}


def test_rules_for_a_list_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"no list 'line' \(did you mean 'lines'"):
        with_pairing(tmp_path, "{lists: {line: {gate: 1.0}}}")


@pytest.mark.parametrize("renamed", [False, True])
def test_long_lists_pair_as_short_ones_do(monkeypatch, renamed):
    rng = random.Random(2)
    truth = [window(f"W{n}", area=round(4 + n * 0.37, 2), wall=f"Wall {n % 7}") for n in range(120)]
    others = [dict(item) for item in truth]
    for item in others:
        item["name"] = f"Q{item['name']}z" if renamed else item["name"]
    for item in rng.sample(others, 30):
        item["shgc"] = 0.9
    rng.shuffle(others)
    short = {(pair.truth, pair.extracted) for pair in pair_items(WINDOWS, truth, others)}
    monkeypatch.setattr(staged_pairing, "BLOCK_CELLS", 50)
    monkeypatch.setattr(staged_pairing, "_BUCKET_CELLS", 50)
    assert {(pair.truth, pair.extracted) for pair in pair_items(WINDOWS, truth, others)} == short
    assert len(short) == 120


def test_a_large_part_of_which_all_fields_but_one_agree_is_not_left_over(monkeypatch):
    truth = [window(f"W{n}", area=float(n)) for n in range(40)]
    others = [window(f"Q{n}z", area=1000.0 + n) for n in range(39)]
    monkeypatch.setattr(staged_pairing, "BLOCK_CELLS", 50)
    monkeypatch.setattr(staged_pairing, "_BUCKET_CELLS", 50)
    pairs = pair_items(WINDOWS, truth, others)
    assert Counter(pair.stage for pair in pairs) == {"content": 39}


@pytest.mark.slow
@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from("abcde")))
def test_an_item_is_in_one_pair_at_most(left, right):
    truth, others = ([{"name": letter, "area": 1.0} for letter in side] for side in (left, right))
    pairs = pair_items(WINDOWS, truth, others)
    assert len({pair.truth for pair in pairs}) == len({pair.extracted for pair in pairs}) == len(pairs)


def verdicts(truth, given_values):
    return Counter(verdict for verdict, *_ in pair_texts(truth, given_values))


def test_order_does_not_matter():
    truth = ["Inside Finish: Gypsum Board", "Cavity / Frame: R-21 / 2x6", "Exterior Finish: Wood Siding"]
    assert verdicts(truth, truth[::-1]) == {"match": 3}


def test_a_text_misread_is_a_wrong_value_and_another_text_is_not():
    found = list(
        pair_texts(
            ["Inside Finish: Gypsum Board", "Roofing: Tile"],
            ["Inside Finish: Plaster Board", "Vapor Retarder"],
        )
    )
    assert ("wrong_value", 0, "Inside Finish: Gypsum Board", "Inside Finish: Plaster Board") in found
    assert ("omission", 1, "Roofing: Tile", None) in found
    assert ("hallucination", 1, None, "Vapor Retarder") in found
    assert len(found) == 3


def test_values_that_are_no_text():
    assert verdicts(["a", "b"], ["a", 7]) == {"match": 1, "format_error": 1}
    assert verdicts(["a"], ["a", 7, None]) == {"match": 1, "hallucination": 1}


@given(
    st.lists(st.sampled_from(["a b", "a c", "b c", "x"])),
    st.lists(st.sampled_from(["a b", "A  B", "c d", "x"])),
)
def test_every_text_is_counted_once(truth, given_values):
    counts = verdicts(truth, given_values)
    shared = counts["match"] + counts["wrong_value"] + counts["format_error"]
    assert shared + counts["omission"] == len(truth)
    assert shared + counts["hallucination"] == len(given_values)
    assert verdicts(truth, given_values[::-1]) == counts
