"""How alike the items of two lists are: agreeing fields, for single pairs and for whole blocks of pairs at once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcsuite.verifier.assignment import Matrix
from pcsuite.verifier.text_similarity import name_similarity, names_alike
from pcsuite.verifier.tree import Leaf, ListNode, Node, ObjectNode
from pcsuite.verifier.values import ROUNDING_SLACK, as_boolean, as_float, is_blank, is_number, normalise_text

Record = dict[str, Any]
Indices = NDArray[np.int64]

EVIDENCE = 3
"""One field in common says little where an item has several: a share is taken of this many at least, if it has them."""


NEARLY = 0.99
"""The most that texts count which are alike and not equal."""


class FieldAgreement(NamedTuple):
    """Of pairs of items: fields that agree, fields that both give, fields that either gives."""

    agreeing: Matrix
    shared: Matrix
    either: Matrix
    richer: Matrix
    """Fields that the item with more of them gives."""

    @property
    def share(self) -> Matrix:
        """Agreeing fields as a share (0..1) of those both give, or of :data:`EVIDENCE` where that is more.

        So one equal field of an item with many is not a similarity of 1.
        """
        floor = np.minimum(EVIDENCE, self.richer)
        share: Matrix = self.agreeing / np.maximum(np.maximum(self.shared, floor), 1.0)
        return share


class Similarity:
    """Two lists laid out by field, so that many pairs are compared in a few array operations.

    A value of the wrong type counts as given and agrees with nothing. The name is no part of it: names have their own
    stages. A list inside an item (layers, water heaters) counts as one field that agrees as far as it overlaps. Where a
    list is paired by likeness (``fuzzy``) texts agree as far as they are alike.
    """

    def __init__(self, node: ListNode, truth: Sequence[Record], extracted: Sequence[Record]) -> None:
        likeness = node.pairing.fuzzy
        self._fields = [_Column(leaf, keys, truth, extracted, likeness) for keys, leaf in node.scalars]
        self._lists = [_Texts(keys, truth, extracted, _label_key(node, keys)) for keys in node.lists]
        self._columns: list[_Column | _Texts] = [*self._fields, *self._lists]
        self._counts = [np.zeros(len(items)) for items in (truth, extracted)]
        for column in self._columns:
            for side in (0, 1):
                self._counts[side] += column.present[side]

    def pairs(self, truth: Indices, extracted: Indices) -> FieldAgreement:
        """The agreement of ``truth[i]`` with ``extracted[i]``, for every i.

        Both arrays have the same length, and so has each matrix of the result.
        """
        return self._agreement(truth, extracted, block=False)

    def block(self, truth: Indices, extracted: Indices) -> FieldAgreement:
        """The agreement of each truth item (rows) with each extracted one (columns).

        The result's matrices have a row for each of ``truth`` and a column for each of ``extracted``.
        """
        return self._agreement(truth[:, None], extracted[None, :], block=True)

    def _agreement(self, truth: Indices, extracted: Indices, *, block: bool) -> FieldAgreement:
        shape = np.broadcast_shapes(truth.shape, extracted.shape)
        agreeing, shared = np.zeros(shape), np.zeros(shape)
        for column in self._fields:
            agreeing += column.agrees(truth, extracted, block=block)
            shared += column.present[0][truth] & column.present[1][extracted]
        for texts in self._lists:
            agreeing += texts.overlap(truth, extracted, block=block)
            shared += texts.present[0][truth] & texts.present[1][extracted]
        left, right = self._counts[0][truth], self._counts[1][extracted]
        return FieldAgreement(
            agreeing, shared, left + right - shared, np.maximum(left, right) + np.zeros(shape)
        )

    def keys(self, side: int, index: int) -> tuple[Hashable, ...]:
        """What items are exactly equal by, field for field: 0 is the truth's side, 1 the extraction's.

        Items with equal keys agree in every field; a value of the wrong type equals nothing, not even itself
        elsewhere.
        """
        return tuple(column.key(side, index) for column in self._columns)


class _Column:
    """One scalar field of both lists."""

    def __init__(
        self,
        leaf: Leaf,
        keys: tuple[str, ...],
        truth: Sequence[Record],
        extracted: Sequence[Record],
        likeness: float | None = None,
    ) -> None:
        self._leaf = leaf
        self._is_number = leaf.is_number
        self._likeness = likeness if leaf.is_text else None
        values = [[nested_value(item, keys) for item in side] for side in (truth, extracted)]
        self.present = [np.array([not is_blank(value) for value in side], dtype=bool) for side in values]
        if self._is_number:
            is_integer = leaf.type == "integer"
            self._values: list[NDArray[Any]] = []
            for side in values:  # NaN, unequal to everything, for what is no such number
                numbers = [_number(value, leaf) for value in side]
                usable = [math.isfinite(one) and (not is_integer or one == round(one)) for one in numbers]
                self._values.append(np.where(usable, numbers, math.nan))
            return
        codes: dict[Any, int] = {}
        self._values = []
        # Two marks for "no value", so that what is missing on both sides never agrees.
        for nothing, side in zip((-1, -2), values, strict=True):
            comparable = [None if is_blank(value) else comparable_value(value, leaf) for value in side]
            coded = [nothing if key is None else codes.setdefault(key, len(codes)) for key in comparable]
            self._values.append(np.array(coded, dtype=np.int64))
        self._texts = list(codes) if self._likeness is not None else []

    def agrees(self, truth: Indices, extracted: Indices, *, block: bool) -> NDArray[Any]:
        expected, actual = self._values[0][truth], self._values[1][extracted]
        if not self._is_number:
            equal = np.asarray(expected == actual)
            if self._likeness is None or equal.all():
                return equal
            alike = self._alike(expected, actual) if block else self._alike_in_pairs(expected, actual)
            # However alike, what is not equal never makes two items identical.
            return np.where(equal, 1.0, np.where(alike >= self._likeness, np.minimum(alike, NEARLY), 0.0))
        leaf = self._leaf
        difference = np.abs(expected - actual)
        if leaf.modulo is not None:
            difference = np.mod(difference, leaf.modulo)
            difference = np.minimum(difference, leaf.modulo - difference)
        allowed = np.maximum(leaf.relative * np.abs(expected), leaf.absolute)
        return np.asarray(difference <= allowed + ROUNDING_SLACK * (np.abs(expected) + np.abs(actual)))

    def _alike(self, expected: Indices, actual: Indices) -> Matrix:
        """Likeness of each text of a column of codes with each of a row of codes."""
        sides = [np.unique(codes.ravel(), return_inverse=True) for codes in (expected, actual)]
        rows, columns = ([self._text(code) for code in codes.tolist()] for codes, _ in sides)
        alike: Matrix = name_similarity(rows, columns)[np.ix_(sides[0][1].ravel(), sides[1][1].ravel())]
        return alike

    def _alike_in_pairs(self, expected: Indices, actual: Indices) -> Matrix:
        texts = (
            (self._text(a), self._text(b)) for a, b in zip(expected.tolist(), actual.tolist(), strict=True)
        )
        left, right = zip(*texts, strict=True)
        return names_alike(left, right)

    def _text(self, code: int) -> str:
        return self._texts[code] if code >= 0 else ""

    def key(self, side: int, index: int) -> Hashable:
        if not self.present[side][index]:
            return None
        value = self._values[side][index].item()
        # NaN equals nothing, so that a mistyped value never makes two items equal.
        return (side, index) if value != value or (value in (-1, -2) and not self._is_number) else value


def comparable_value(value: Any, leaf: Leaf) -> Hashable:
    """What a value that is no number is compared by: equal for values that match, ``None`` for another type."""
    if leaf.reader is not None:
        return leaf.reader.comparable(value)
    if leaf.type == "boolean":
        return as_boolean(value)
    return normalise_text(value) if isinstance(value, str) else None


def _number(value: Any, leaf: Leaf) -> float:
    """The number that a value is compared by, NaN where it is none."""
    if leaf.reader is None:
        return as_float(value) if is_number(value) else math.nan
    number = None if is_blank(value) else leaf.reader.comparable(value)
    return number if isinstance(number, float) else math.nan


def _label_key(node: ListNode, keys: tuple[str, ...]) -> str:
    """The field by which items of a list inside an item are told apart."""
    inner: Node | None = node.item
    for key in keys:
        inner = inner.children.get(key) if isinstance(inner, ObjectNode) else None
    return inner.label_key if isinstance(inner, ListNode) else "name"


class _Texts:
    """The names (or texts) in a list inside the items."""

    def __init__(
        self, keys: tuple[str, ...], truth: Sequence[Record], extracted: Sequence[Record], label: str = "name"
    ) -> None:
        self._sets: list[list[frozenset[str]]] = [[], []]
        for side, items in enumerate((truth, extracted)):
            for item in items:
                value = nested_value(item, keys)
                elements = value if isinstance(value, list) else []
                names = [entry.get(label) if isinstance(entry, dict) else entry for entry in elements]
                texts = frozenset(
                    normalise_text(name) if isinstance(name, str) else f"{name:g}"
                    for name in names
                    if (isinstance(name, str) and name.strip()) or (is_number(name) and label != "name")
                )
                self._sets[side].append(texts)
        self.present = [np.array([bool(texts) for texts in side], dtype=bool) for side in self._sets]

    def overlap(self, truth: Indices, extracted: Indices, *, block: bool) -> Matrix:
        left = [self._sets[0][index] for index in truth.ravel()]
        right = [self._sets[1][index] for index in extracted.ravel()]
        if block:
            return dice(left, right)
        return np.array([_dice(a, b) for a, b in zip(left, right, strict=True)])

    def key(self, side: int, index: int) -> Hashable:
        return self._sets[side][index]


def dice(rows: Sequence[frozenset[str]], columns: Sequence[frozenset[str]]) -> Matrix:
    """Overlap of sets, 0 (also of two empty ones) to 1: twice the common part over the sum of the sizes (Dice 1945)."""
    return np.array([[_dice(a, b) for b in columns] for a in rows]).reshape(len(rows), len(columns))


def _dice(left: frozenset[str], right: frozenset[str]) -> float:
    return 2 * len(left & right) / max(1, len(left) + len(right))


def nested_value(item: Record, keys: tuple[str, ...]) -> Any:
    """The value that a chain of keys leads to, ``None`` where it breaks off.

    >>> nested_value({"a": {"b": 1}}, ("a", "b")), nested_value({"a": 1}, ("a", "b"))
    (1, None)
    """
    value: Any = item
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
