"""Dataclasses read as mappings."""

from dataclasses import dataclass

import pytest

from pcsuite._util.mappings import DataclassMapping, flatten


@dataclass(frozen=True, slots=True)
class Point(DataclassMapping):
    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        return self.x + self.y


def test_fields_are_keys_and_nothing_else_is():
    point = Point(1)
    assert dict(point) == {"x": 1, "y": 2}
    assert (point["x"], point.get("y"), point.get("sum"), len(point)) == (1, 2, None, 2)
    assert "sum" not in point
    with pytest.raises(KeyError):
        point["sum"]


def test_equality_is_that_of_the_dataclass():
    assert Point(1) == Point(1, 2)
    assert Point(1) != {"x": 1, "y": 2}
    assert len({Point(1), Point(1)}) == 1


def test_leaves_have_dotted_names_and_empty_mappings_and_lists_are_leaves():
    nested = {"a": {"b": {"c": 1}, "d": {}}, "e": [{"f": 2}]}
    assert dict(flatten(nested)) == {"a.b.c": 1, "a.d": {}, "e": [{"f": 2}]}
