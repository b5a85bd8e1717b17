"""The tree of a mapping: its shape, and the part of a record that is compared."""

import pytest

from pcsuite.errors import ConfigError
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.tree import Ignored, Leaf, ListNode, compared_record, compile_mapping


def test_leaves_lists_and_what_counts_nowhere():
    root = compile_mapping(load_mapping())
    assert compile_mapping(load_mapping()) is root
    zone = root.children["project"].children["climate_zone"]
    assert isinstance(zone, Leaf)
    assert (zone.pattern, zone.section, zone.type) == ("project.climate_zone", "project", "integer")
    assert isinstance(root.children["project"].children["run_title"], Ignored)
    windows = root.children["windows"]
    assert isinstance(windows, ListNode)
    assert ("u_factor",) in [keys for keys, _ in windows.scalars]
    assert ("name",) not in [keys for keys, _ in windows.scalars]  # pairs are judged by the rest


def test_the_compared_part_of_a_record():
    record = {
        "project": {"city": "X", "run_title": "not extractable", "bedrooms": None},
        "windows": [{"name": "101", "height": 3}, "no item"],
        "conflicts": ["metadata"],
        "envelope": {},
    }
    assert compared_record(record, load_mapping()) == {"project": {"city": "X"}, "windows": [{"name": "101"}]}


def test_paths_that_do_not_fit_each_other_are_refused(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(
        "tolerances: {default: {}}\n"
        "fields: [{label: A, path: part, type: text}, {label: B, path: part.deeper, type: text}]\n"
    )
    with pytest.raises(ConfigError, match=r"'part\.deeper' does not fit the other paths at 'part'"):
        load_mapping(path)
