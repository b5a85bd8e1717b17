import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.verifier.paths import item_of, item_path, parse_path, pattern_of, set_path


def test_list_steps_by_index_and_by_name():
    assert parse_path("windows[1].u_factor") == ("windows", 1, "u_factor")
    assert parse_path("windows[name=101].u_factor") == ("windows", ("name", "101"), "u_factor")
    record = {"windows": [{"name": "101", "u_factor": 0.3}, {"name": "No", "u_factor": 0.2}]}
    set_path(record, "windows[1].u_factor", 0.25)
    set_path(record, "windows[name=101].u_factor", 0.35)
    assert record == {"windows": [{"name": "101", "u_factor": 0.35}, {"name": "No", "u_factor": 0.25}]}


def test_a_list_does_not_grow_without_end_and_a_named_item_is_no_value():
    with pytest.raises(ValueError, match="beyond 9999"):
        set_path({}, "windows[10000].u_factor", 1)
    with pytest.raises(ValueError, match="cannot end in a named item"):
        set_path({}, "windows[name=101]", 1)


def test_patterns_leave_list_steps_open():
    assert pattern_of(parse_path("a[0].b[name=x.y].c")) == "a[].b[].c"


@given(st.text(min_size=1).filter(lambda name: name.strip()))
def test_any_name_survives_being_written_into_a_path(name):
    path = item_path("windows", name, 3) + ".area"
    assert parse_path(path) == ("windows", ("name", name), "area")


def test_nameless_items_go_by_index():
    assert item_path("windows", "  ", 3) == "windows[3]"
    assert item_path("windows", 101, 3) == "windows[3]"


@pytest.mark.parametrize("path", ["", ".a", "a.", "a[", "a[x]", "a[0]b", "[0]"])
def test_malformed_paths(path):
    with pytest.raises(ValueError, match=r"expected|empty"):
        parse_path(path)


def test_setting_makes_what_is_missing():
    record = {}
    set_path(record, "a.b", 1)
    set_path(record, "items[1].x", 2)
    set_path(record, "items[name=k].y", 3)
    assert record == {"a": {"b": 1}, "items": [{}, {"x": 2}, {"name": "k", "y": 3}]}


def test_digits_after_a_dot_are_an_index():
    assert parse_path("windows.0.u_factor") == parse_path("windows[0].u_factor") == ("windows", 0, "u_factor")
    assert parse_path("0.a") == ("0", "a")
    record = {}
    assert set_path(record, "a.1.b", 2) == ("a", 1, "b")
    assert record == {"a": [{}, {"b": 2}]}


@pytest.mark.parametrize(
    ("path", "item"),
    [
        ("project.city", "project"),
        ("windows[3].area", "windows[3]"),
        ("windows[name=G02 (40.80) 2].area", "windows[name=G02 (40.80) 2]"),
        ('windows[name="a\\"]b"].area', 'windows[name="a\\"]b"]'),
        ("total", "total"),
        ("systems[name=x].heaters[0].volume", "systems[name=x]"),
    ],
)
def test_the_item_of_a_path(path, item):
    assert item_of(path) == item
