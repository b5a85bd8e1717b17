"""Records of one type: what is left of two."""

from fractions import Fraction

from pcsuite.engines.schema_shapes import (
    ANYTHING,
    NOTHING,
    Arrays,
    Case,
    Fields,
    Numbers,
    Objects,
    Plain,
    Strings,
    Unsayable,
    both,
    except_for,
    only,
)


def test_bounds_are_the_stricter_ones_and_steps_the_least_common_multiple():
    first = Numbers(low=(Fraction(1), False), high=(Fraction(9), True), step=Fraction(3, 2))
    second = Numbers(integer=True, low=(Fraction(1), True), high=(Fraction(9), False), step=Fraction(2))
    merged = first.intersect(second)
    assert merged == Numbers(True, (Fraction(1), True), (Fraction(9), True), Fraction(6))
    assert merged.whole_bounds() == (2, 8)


def test_empty_ranges_are_seen():
    assert Numbers(low=(Fraction(2), False), high=(Fraction(2), True)).is_empty()
    assert not Numbers(low=(Fraction(2), False), high=(Fraction(2), False)).is_empty()
    assert Numbers(True, (Fraction(1, 4), False), (Fraction(3, 4), False)).is_empty()
    assert Numbers(integer=True).intersect(Numbers(fractional=True)).is_empty()
    assert Strings(low=3).intersect(Strings(high=2)).is_empty()
    assert Arrays(prefix=(NOTHING,), low=1).is_empty()
    assert not Arrays(prefix=(NOTHING,)).is_empty()
    assert Objects(required=("a", "b"), high=1).is_empty()


def test_arrays_pad_the_shorter_prefix_with_the_rest():
    merged = Arrays(prefix=(((1, True),),)).intersect(Arrays(rest=((2, True),)))
    assert merged.prefix == (((1, True), (2, True)),)
    assert merged.rest == ((2, True),)


def test_objects_keep_their_parts_apart_so_that_each_says_what_its_further_keys_are():
    closed, named = Fields(rest=NOTHING), Fields({"a": ANYTHING})
    assert Objects((closed,)).intersect(Objects((named, closed))).parts == (closed, named)


def test_a_demand_and_its_contrary_are_nothing():
    assert both(((1, True),), ((1, False),)) == NOTHING
    assert both(NOTHING, ((1, True),)) == NOTHING


def test_what_cannot_be_said_goes_with_its_type():
    unsayable = only("array", Unsayable("items", "some item"))[0]
    assert unsayable.intersect(Case({"string": Strings()})) is None
    kept = unsayable.intersect(Case({"array": Arrays(low=1)}))
    assert isinstance(kept.records["array"], Unsayable)
    assert except_for("boolean", Plain(frozenset((True,)))).records["boolean"].values == {True}
