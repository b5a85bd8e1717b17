"""What a JSON schema asks of the values of one type, as values that can be intersected.

A :class:`Case` is one way to conform: for each JSON type that is left, one record of all that is asked of it. Two cases
are intersected type by type, and a type whose record is empty is gone. What a record cannot say (an array with some
invalid item, say) is :class:`Unsayable`: it is refused only if it is still there when the schema is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

TYPES = ("null", "boolean", "number", "string", "array", "object")
Member = tuple[int, bool]
Demand = tuple[Member, ...]
"""Schemas that a value must conform to, or must not (``False``), by their numbers; sorted, without repetition."""
ANYTHING: Demand = ()
NOTHING: Demand = ((-1, True),)


def both(*demands: Demand) -> Demand:
    """All that several demands ask for.

    >>> both(((2, True),), ((1, False), (2, True)))
    ((1, False), (2, True))
    """
    members = sorted(set().union(*demands))
    if NOTHING[0] in members or any((number, not sign) in members for number, sign in members):
        return NOTHING
    return tuple(members)


def exact_number(value: float) -> Fraction:
    """A JSON number as the fraction that its text says.

    >>> exact_number(0.1)
    Fraction(1, 10)
    """
    return Fraction(value) if isinstance(value, int) else Fraction(Decimal(repr(value)))


@dataclass(frozen=True, slots=True)
class Unsayable:
    """What is asked of a type and cannot be written for an engine: the keyword and the reason."""

    keyword: str
    reason: str

    def intersect(self, other: Any) -> Unsayable:
        return self

    def is_empty(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Plain:
    """``null``, or booleans: the values that are left."""

    values: frozenset[bool | None]

    def intersect(self, other: Plain) -> Plain:
        return Plain(self.values & other.values)

    def is_empty(self) -> bool:
        return not self.values


@dataclass(frozen=True, slots=True)
class Numbers:
    """Bounds are pairs of the value and whether it is itself excluded."""

    integer: bool = False
    low: tuple[Fraction, bool] | None = None
    high: tuple[Fraction, bool] | None = None
    step: Fraction | None = None
    fractional: bool = False
    """No integer is allowed."""

    def intersect(self, other: Numbers) -> Numbers:
        lows = [bound for bound in (self.low, other.low) if bound is not None]
        highs = [bound for bound in (self.high, other.high) if bound is not None]
        steps = [step for step in (self.step, other.step) if step is not None]
        step = steps[0] if steps else None
        if len(steps) == 2:
            numerator = math.lcm(
                steps[0].numerator * steps[1].denominator, steps[1].numerator * steps[0].denominator
            )
            step = Fraction(numerator, steps[0].denominator * steps[1].denominator)
        return Numbers(
            self.integer or other.integer,
            max(lows, default=None),
            min(highs, key=lambda bound: (bound[0], not bound[1]), default=None),
            step,
            self.fractional or other.fractional,
        )

    def whole_bounds(self) -> tuple[int | None, int | None]:
        """The least and the greatest integer within the bounds."""
        low = high = None
        if self.low is not None:
            low = math.floor(self.low[0]) + 1 if self.low[1] else math.ceil(self.low[0])
        if self.high is not None:
            high = math.ceil(self.high[0]) - 1 if self.high[1] else math.floor(self.high[0])
        return low, high

    def is_empty(self) -> bool:
        if self.integer and self.fractional:
            return True
        if self.low is None or self.high is None:
            return False
        if self.integer:
            low, high = self.whole_bounds()
            assert low is not None
            assert high is not None
            return low > high
        closed = not (self.low[1] or self.high[1])
        return self.low[0] > self.high[0] or (self.low[0] == self.high[0] and not closed)


@dataclass(frozen=True, slots=True)
class Strings:
    """Lengths count code points; ``patterns`` are as Python reads them, ``without`` are words that are excluded."""

    low: int = 0
    high: int | None = None
    patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()

    def intersect(self, other: Strings) -> Strings:
        return Strings(
            max(self.low, other.low),
            least(self.high, other.high),
            tuple(dict.fromkeys((*self.patterns, *other.patterns))),
            tuple(dict.fromkeys((*self.formats, *other.formats))),
            self.without | other.without,
        )

    def is_empty(self) -> bool:
        return self.high is not None and self.low > self.high


@dataclass(frozen=True, slots=True)
class Contains:
    """How many items must conform to a demand."""

    demand: Demand
    low: int = 1
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Arrays:
    """``prefix`` has the demands of the first items, ``rest`` that of all others."""

    prefix: tuple[Demand, ...] = ()
    rest: Demand = ANYTHING
    low: int = 0
    high: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: bool = False

    def intersect(self, other: Arrays) -> Arrays:
        length = max(len(self.prefix), len(other.prefix))
        prefix = tuple(both(self.at(index), other.at(index)) for index in range(length))
        return Arrays(
            prefix,
            both(self.rest, other.rest),
            max(self.low, other.low),
            least(self.high, other.high),
            tuple(dict.fromkeys((*self.contains, *other.contains))),
            self.unique or other.unique,
        )

    def at(self, index: int) -> Demand:
        return self.prefix[index] if index < len(self.prefix) else self.rest

    def is_empty(self) -> bool:
        if self.high is not None and self.low > self.high:
            return True
        return any(self.at(index) == NOTHING for index in range(min(self.low, len(self.prefix) + 1)))


@dataclass(frozen=True, slots=True)
class Fields:
    """``properties``, ``patternProperties`` and ``additionalProperties`` that stand side by side in one schema."""

    names: Mapping[str, Demand] = field(default_factory=dict)
    patterns: Mapping[str, Demand] = field(default_factory=dict)
    rest: Demand = ANYTHING


@dataclass(frozen=True, slots=True)
class Objects:
    """``parts`` all hold; ``keys`` is asked of every key."""

    parts: tuple[Fields, ...] = ()
    required: tuple[str, ...] = ()
    low: int = 0
    high: int | None = None
    keys: Demand = ANYTHING

    def intersect(self, other: Objects) -> Objects:
        return Objects(
            self.parts + tuple(part for part in other.parts if part not in self.parts),
            tuple(dict.fromkeys((*self.required, *other.required))),
            max(self.low, other.low),
            least(self.high, other.high),
            both(self.keys, other.keys),
        )

    def is_empty(self) -> bool:
        return self.high is not None and max(self.low, len(self.required)) > self.high


Record = Unsayable | Plain | Numbers | Strings | Arrays | Objects
UNLIMITED: dict[str, Record] = {
    "null": Plain(frozenset((None,))),
    "boolean": Plain(frozenset((True, False))),
    "number": Numbers(),
    "string": Strings(),
    "array": Arrays(),
    "object": Objects(),
}


def least(first: int | None, second: int | None) -> int | None:
    """The smaller of two limits, either of which may be missing."""
    return second if first is None else first if second is None else min(first, second)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Which keys and items the schemas of a case have looked at: what ``unevaluated…`` leaves alone."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    all_keys: bool = False
    items: int = 0
    all_items: bool = False
    some_items: bool = False
    """Whether ``contains`` looked at items that are not known beforehand."""

    def join(self, other: Evaluated) -> Evaluated:
        return Evaluated(
            self.names | other.names,
            self.patterns | other.patterns,
            self.all_keys or other.all_keys,
            max(self.items, other.items),
            self.all_items or other.all_items,
            self.some_items or other.some_items,
        )


@dataclass(frozen=True, slots=True)
class Case:
    """One way to conform: a record for each type that may come, or a list of values of which some conform."""

    records: Mapping[str, Record] = field(default_factory=lambda: UNLIMITED)
    values: tuple[Any, ...] | None = None
    evaluated: Evaluated = Evaluated()

    def intersect(self, other: Case) -> Case | None:
        """What conforms to both; ``None`` where nothing does.

        Listed values are kept as they are: whoever lists them judges each of them by all schemas.
        """
        evaluated = self.evaluated.join(other.evaluated)
        if self.values is not None or other.values is not None:
            return Case({}, self.values if self.values is not None else other.values, evaluated)
        records: dict[str, Record] = {}
        for kind, mine in self.records.items():
            theirs = other.records.get(kind)
            if theirs is None:
                continue
            first, second = (theirs, mine) if isinstance(theirs, Unsayable) else (mine, theirs)
            record: Record = first.intersect(second)  # type: ignore[arg-type]  # of one type, or unsayable
            if not record.is_empty():
                records[kind] = record
        return Case(records, None, evaluated) if records else None

    def unseen(self) -> Case:
        """The same, as a schema that is only tried (``not``) tells nothing of what it looked at."""
        return replace(self, evaluated=Evaluated())


def only(kind: str, record: Record) -> list[Case]:
    """Values of one type alone; none where the record is empty."""
    return [] if record.is_empty() else [Case({kind: record})]


def except_for(kind: str, record: Record | None) -> Case:
    """Everything, but of one type only what a record says (nothing where there is none)."""
    records = {name: entry for name, entry in UNLIMITED.items() if name != kind}
    if record is not None and not record.is_empty():
        records[kind] = record
    return Case(records)
