"""Which item of an extracted list stands for which item of the truth, as a person would say.

Items are paired in stages, each among what the earlier ones left: equal names (identical items first), names equal but
for punctuation, a name within another or at its beginning, content of which about half agrees, and last, where both
lists have equally many items, the position. Within a stage the total similarity is maximised.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcsuite._util.hashing import canonical_json
from pcsuite.verifier.assignment import Matrix, best_assignment, unique_best
from pcsuite.verifier.similarity import Record, Similarity
from pcsuite.verifier.tree import ListNode
from pcsuite.verifier.values import is_number, normalise_text

Stage = Literal["identical", "name", "similar name", "key", "similar key", "content", "position"]

_LOOSE_NAME = 0.9
"""Credit for names equal but for punctuation and blanks ("W-9", "W9")."""
_PART_OF_NAME = 0.8
"""Credit for a name whose words are all in the other ("D03", "D03 (8080)"), or that begins it ("Liv", "Living")."""
_SLACK = 1e-12
BLOCK_CELLS = 1_500_000
"""Pairs compared at once; longer lists are first divided by what their items have in common."""
_BUCKET_CELLS = 40_000
"""Pairs compared at once within a part of a list that was divided."""
_MAX_CANDIDATES = 50
"""A word that more names have than this says nothing about which item is meant."""
_WORD = re.compile(r"[^\W_]+")


class ItemPair(NamedTuple):
    """Two items taken for the same thing: their indices, how they were found, and how alike they are."""

    truth: int
    extracted: int
    stage: Stage
    score: float
    """Similarity, 0 to 1: name and agreeing fields, weighted by ``name_weight``, or the fields alone."""
    reason: str


class StagedPairing:
    """The stages, over the indices that are still free."""

    def __init__(self, node: ListNode, truth: Sequence[Record], extracted: Sequence[Record]) -> None:
        self._rules = node.pairing
        self._items = (truth, extracted)
        self._similarity = Similarity(node, truth, extracted)
        self._names = [[self._name(item) for item in side] for side in self._items]
        self._free = (dict.fromkeys(range(len(truth))), dict.fromkeys(range(len(extracted))))
        self._pairs: list[tuple[int, int, Stage, float, str]] = []

    def _name(self, item: Record) -> str:
        """What an item is known by: text, or a number, which still says which item is meant."""
        name = item.get("name")
        return normalise_text(str(name)) if isinstance(name, str) or is_number(name) else ""

    def _shown(self, item: Record) -> str:
        """What an item is known by, as it stands."""
        return str(item.get("name")).strip()

    def run(self) -> list[ItemPair]:
        """The pairs, in the order of the truth."""
        if self._rules.name_weight > 0:
            self._pair_equal_names(lambda name: name, "name", 1.0, "same name")
            self._pair_equal_names(letters, "similar name", _LOOSE_NAME, "same name but for punctuation")
            self._pair_parts_of_names("similar name")
        self._pair_equal_content()
        for pair in self._assigned(*map(list, self._free), needs_content=True):
            self._take(*pair, "content", 0.0, "")
        self._pair_by_position()
        return self._scored()

    def _pair_equal_content(self) -> None:
        # No other assignment has a larger total, and long lists become short ones.
        content = [
            {i: key for i in side if set(key := self._similarity.keys(s, i)) - {None}}
            for s, side in enumerate(self._free)
        ]
        for pair in _equal(*content):
            self._take(*pair, "content", 0.0, "")

    def _pair_by_position(self) -> None:
        if self._rules.position and len(self._free[0]) == len(self._free[1]):
            for left, right in zip(*(sorted(free) for free in self._free), strict=True):
                self._take(left, right, "position", 0.0, "left over in both lists, at the same position")

    def _take(self, left: int, right: int, stage: Stage, credit: float, reason: str) -> None:
        del self._free[0][left], self._free[1][right]
        self._pairs.append((left, right, stage, credit, reason))

    def _pair_equal_names(self, key: Callable[[str], str], stage: Stage, credit: float, reason: str) -> None:
        """Pair items whose names are equal under ``key``; several of one name are distinguished by content."""
        groups: list[dict[str, list[int]]] = [{}, {}]
        for side in (0, 1):
            for index in self._free[side]:
                groups[side].setdefault(key(self._names[side][index]), []).append(index)
        for name, left in groups[0].items():
            right = groups[1].get(name, [])
            if len(left) > 1 or len(right) > 1 or not name:
                # First those that are equal in every field.
                identity = [
                    {i: (self._names[s][i], self._similarity.keys(s, i)) for i in side}
                    for s, side in enumerate((left, right))
                ]
                for pair in _equal(*identity):
                    self._take(*pair, "identical", 1.0, "")
                left = [i for i in left if i in self._free[0]]
                right = [i for i in right if i in self._free[1]]
            for pair in self._assigned(left, right, needs_content=False) if name else ():
                self._take(*pair, stage, credit, reason)

    def _pair_parts_of_names(self, stage: Stage) -> None:
        """Pair names one of which is part of the other: all its words, or a beginning that no third name shares."""
        words = [{i: frozenset(_WORD.findall(self._names[s][i])) for i in self._free[s]} for s in (0, 1)]
        edges: dict[tuple[int, int], str] = {}
        for side in (0, 1):
            holders: dict[str, list[int]] = {}
            for index, own_words in words[1 - side].items():
                for word in own_words:
                    holders.setdefault(word, []).append(index)
            for index, own_words in words[side].items():
                rarest = min((holders.get(word, []) for word in own_words), key=len, default=[])
                for other in rarest if len(rarest) <= _MAX_CANDIDATES else ():
                    if own_words < words[1 - side][other]:
                        edges[(index, other) if side == 0 else (other, index)] = "is in"
        for pair in self._unique_beginnings():
            edges.setdefault(pair, "begins")
        for left, right in components(edges):
            if len(left) * len(right) > BLOCK_CELLS:
                continue  # such names tell nothing apart; the content may
            allowed = np.array([[(a, b) in edges for b in right] for a in left])
            for a, b in self._assigned(left, right, needs_content=False, allowed=allowed):
                names = (self._shown(self._items[s][i]) for s, i in ((0, a), (1, b)))
                short, long = sorted(names, key=len)
                self._take(a, b, stage, _PART_OF_NAME, f"'{short}' {edges[a, b]} '{long}'")

    def _unique_beginnings(self) -> Iterator[tuple[int, int]]:
        """Pairs of which one name begins the other, and neither begins or continues a third."""
        texts = [{i: letters(self._names[side][i]) for i in self._free[side]} for side in (0, 1)]
        begins: set[tuple[int, int]] = set()
        for side in (0, 1):
            ordered = sorted((text, index) for index, text in texts[1 - side].items())
            for index, text in texts[side].items():
                start = bisect_left(ordered, (text,)) if len(text) > 1 else len(ordered)
                for longer, other in ordered[start : start + 2]:
                    ending = longer[len(text) :]
                    # "W1" does not begin "W10": the number goes on.
                    if longer.startswith(text) and not (text[-1].isdigit() and ending[:1].isdigit()):
                        begins.add((index, other) if side == 0 else (other, index))
        used = [Counter(pair[side] for pair in begins) for side in (0, 1)]
        yield from sorted(pair for pair in begins if used[0][pair[0]] == used[1][pair[1]] == 1)

    def _assigned(
        self,
        left: list[int],
        right: list[int],
        *,
        needs_content: bool,
        allowed: NDArray[np.bool_] | None = None,
    ) -> list[tuple[int, int]]:
        """The pairs of largest total similarity; with ``needs_content`` none whose content falls below the gate."""
        if not left or not right:
            return []
        if len(left) == len(right) == 1 and not needs_content:
            return [(left[0], right[0])]
        if len(left) * len(right) > BLOCK_CELLS:
            return list(self._divided(left, right, needs_content))
        share = self._similarity.block(np.array(left), np.array(right)).share
        gains = self._gains(share, left, right, needs_content=needs_content)
        if allowed is not None:
            gains = np.where(allowed, gains, 0.0)
        plain = unique_best(gains)
        if plain is not None:
            return [(left[row], right[column]) for row, column in plain]
        # Several assignments may be equally good: choose by content, so that the order of a list cannot matter.
        rows, columns = (
            sorted(range(len(side)), key=lambda i: canonical_json(self._items[s][side[i]]))
            for s, side in enumerate((left, right))
        )
        pairs = best_assignment(gains[np.ix_(rows, columns)])
        return [(left[rows[row]], right[columns[column]]) for row, column in pairs]

    def _gains(self, share: Matrix, left: list[int], right: list[int], *, needs_content: bool) -> Matrix:
        """What each pair adds to the total, given the share of agreeing fields; 0 for what may not be paired."""
        if needs_content:
            return np.where(share >= self._rules.gate - _SLACK, share, 0.0)
        return 1.0 + share

    def _divided(self, left: list[int], right: list[int], needs_content: bool) -> Iterator[tuple[int, int]]:
        """As :meth:`_assigned` for long lists: part by part, where items of a part have exactly equal fields.

        First what is equal in all fields but one, then in a single field, the most telling first. Where a single
        field leaves a part too large, the next one may divide it.
        """
        keys = [{i: self._similarity.keys(s, i) for i in side} for s, side in enumerate((left, right))]
        fields = range(len(next(iter(keys[0].values()))))
        telling = sorted(fields, key=lambda f: -len({key[f] for key in keys[0].values()}))
        divisions = [tuple(f for f in fields if f != dropped) for dropped in fields]
        for chosen in (*divisions, *((field,) for field in telling)):
            parts: list[dict[Hashable, list[int]]] = [{}, {}]
            for s in (0, 1):
                for index, key in keys[s].items():
                    part = tuple(key[f] for f in chosen)
                    if any(value is not None for value in part):
                        parts[s].setdefault(part, []).append(index)
            for shared, some in parts[0].items():
                others = parts[1].get(shared, [])
                if len(some) * len(others) <= _BUCKET_CELLS:
                    pairs = self._assigned(some, others, needs_content=needs_content)
                elif len(chosen) > 1:  # all fields but one are equal, so any two are as good as any other two
                    pairs = list(zip(some, others, strict=False))
                else:
                    pairs = []
                for a, b in pairs:
                    del keys[0][a], keys[1][b]
                    yield a, b
        if not needs_content:
            yield from zip(keys[0], keys[1], strict=False)

    def _scored(self) -> list[ItemPair]:
        if not self._pairs:
            return []
        left, right = (np.array([entry[side] for entry in self._pairs]) for side in (0, 1))
        agreement = self._similarity.pairs(left, right)
        weight = self._rules.name_weight
        pairs = []
        columns = (agreement.agreeing, agreement.shared, agreement.either, agreement.share)
        for (a, b, stage, credit, reason), agreeing, shared, either, share in zip(
            self._pairs, *(column.tolist() for column in columns), strict=True
        ):
            named = bool(self._names[0][a] and self._names[1][b])
            if agreeing == either and (credit == 1.0 or not named):
                pairs.append(ItemPair(a, b, "identical", 1.0, "every field agrees"))
                continue
            content = f"{agreeing:.3g} of {shared:g} shared fields agree" if shared else "no field in common"
            score = weight * credit + (1 - weight) * share if credit else share
            pairs.append(
                ItemPair(a, b, stage, round(score, 4), f"{reason}; {content}" if reason else content)
            )
        return sorted(pairs)


def _equal(left: Mapping[int, Hashable], right: Mapping[int, Hashable]) -> list[tuple[int, int]]:
    """Pairs of indices with equal keys, in the order of both sides."""
    waiting: dict[Hashable, list[int]] = {}
    for index, key in reversed(list(right.items())):
        waiting.setdefault(key, []).append(index)
    return [(index, same.pop()) for index, key in left.items() if (same := waiting.get(key))]


def components(edges: Mapping[tuple[int, int], str]) -> Iterator[tuple[list[int], list[int]]]:
    """Groups of indices that edges join, as ``(truth, extracted)``, in the order of the truth."""
    near: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for a, b in edges:
        near.setdefault((0, a), []).append((1, b))
        near.setdefault((1, b), []).append((0, a))
    visited: set[tuple[int, int]] = set()
    for start in sorted(near):
        stack, members = [start], []
        while stack:
            node = stack.pop()
            if node not in visited:
                visited.add(node)
                members.append(node)
                stack += near[node]
        if members:
            yield sorted(i for side, i in members if side == 0), sorted(i for side, i in members if side == 1)


def letters(name: str) -> str:
    """A name without punctuation and blanks.

    >>> letters("w-9")
    'w9'
    """
    return "".join(filter(str.isalnum, name))
