"""Which item of an extracted list stands for which item of the truth.

Lists are paired by name and content (``staged_pairing``), or, where their mapping names a key or asks for likeness of
texts (``fuzzy``), here. The stages are the same with the key in the place of the name: equal keys, keys equal but for
punctuation, a key within another, keys that are alike, and content of which about half agrees, where texts agree as far
as they are alike. What is left is missing or invented: a key tells things apart, so a position says nothing unless the
mapping has it so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pcsuite._util.hashing import canonical_json
from pcsuite.verifier.assignment import Matrix, best_assignment
from pcsuite.verifier.similarity import NEARLY, Record, comparable_value
from pcsuite.verifier.staged_pairing import BLOCK_CELLS, ItemPair, StagedPairing, components, letters
from pcsuite.verifier.text_similarity import name_similarity, plain_words
from pcsuite.verifier.tree import Leaf, ListNode
from pcsuite.verifier.values import is_blank, normalise_text

_SLACK = 1e-12
_LOOSE_KEY = 0.9
_TIE = 1e-4
"""Weight of the likeness of keys among pairs whose fields agree equally: it decides nothing else."""
_CANDIDATES = 40
"""Holders of a piece of text beyond which it says nothing about which item is meant."""
_PIECE = 4
_GROUP_CELLS = 40_000
"""Pairs that are compared at once among items with the same first field of their keys."""


def pair_items(node: ListNode, truth: Sequence[Record], extracted: Sequence[Record]) -> list[ItemPair]:
    """The pairs of two lists, by truth index; an item is in one pair at most.

    The order of the lists matters for the last stage alone. Up to about a thousand items of each list that no name
    decides are compared each with each; longer lists are divided by exactly equal fields first, so that time and
    memory grow with the length and not with its square.
    """
    if not truth or not extracted:
        return []
    pairing = KeyedPairing if node.is_keyed else StagedPairing
    return pairing(node, truth, extracted).run()


class KeyedPairing(StagedPairing):
    """As :class:`StagedPairing`, by the fields of the list's key."""

    def __init__(self, node: ListNode, truth: Sequence[Record], extracted: Sequence[Record]) -> None:
        self._key = list(zip(node.key, node.key_leaves, strict=True))
        self._likeness = node.pairing.fuzzy or 1.0
        super().__init__(node, truth, extracted)
        # The first field of a key is the most telling one: each further one weighs half as much.
        weights = [0.5**n for n in range(len(self._key))]
        self._weights = [weight / sum(weights) for weight in weights]
        self._parts = [[self._key_parts(item) for item in side] for side in self._items]

    def _key_parts(self, item: Record) -> tuple[str, ...]:
        """The fields of an item's key, each in the form it is compared by; empty where it is missing or mistyped."""
        return tuple(_key_text(item.get(name), leaf) for name, leaf in self._key)

    def _name(self, item: Record) -> str:
        parts = self._key_parts(item)
        return " \0 ".join(parts) if any(parts) else ""

    def _shown(self, item: Record) -> str:
        return ", ".join(str(item[name]).strip() for name, _ in self._key if not is_blank(item.get(name)))

    def run(self) -> list[ItemPair]:
        """The pairs, in the order of the truth."""
        if self._key and self._rules.name_weight > 0:
            words = " and ".join(name for name, _ in self._key)
            self._pair_within_first_key()
            self._pair_equal_names(lambda name: name, "key", 1.0, f"same {words}")
            self._pair_equal_names(letters, "similar key", _LOOSE_KEY, f"same {words} but for punctuation")
            self._pair_parts_of_names("similar key")
            self._pair_similar_keys()
        self._pair_equal_content()
        for pair in self._assigned(*map(list, self._free), needs_content=True):
            self._take(*pair, "content", 0.0, "")
        self._pair_by_position()
        return self._scored()

    def _pair_within_first_key(self) -> None:
        """Where several items share the first field of a longer key, the whole of key and content says which is which.

        Of two jobs at one employer whose starts changed places each still has its title and duties: a person goes by
        those. Items alone with their first field are left to the stages that follow.
        """
        if len(self._key) < 2:
            return
        groups: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
        for side in (0, 1):
            for index in self._free[side]:
                if first := self._parts[side][index][0]:
                    groups[side].setdefault(first, []).append(index)
        name = self._key[0][0]
        for first, left in groups[0].items():
            right = groups[1].get(first, [])
            if not right or len(left) + len(right) < 3 or len(left) * len(right) > _GROUP_CELLS:
                continue
            share = self._similarity.block(np.array(left), np.array(right)).share
            equal = np.array([[self._names[0][a] == self._names[1][b] for b in right] for a in left])
            weight = self._rules.name_weight
            total = (1 - weight) * share + weight * self._key_likeness(left, right)
            gains = np.where(equal | (share >= self._rules.gate - _SLACK), 1.0 + total, 0.0)
            # By content, so that the order of the lists cannot matter.
            rows, columns = (
                sorted(range(len(side)), key=lambda i: canonical_json(self._items[s][side[i]]))
                for s, side in enumerate((left, right))
            )
            for row, column in best_assignment(gains[np.ix_(rows, columns)]):
                a, b = left[rows[row]], right[columns[column]]
                if equal[rows[row], columns[column]]:
                    self._take(a, b, "key", 1.0, f"same {' and '.join(part for part, _ in self._key)}")
                else:
                    alike = float(self._key_likeness([a], [b])[0, 0])
                    self._take(a, b, "similar key", alike, f"same {name}, and most of the content")

    def _pair_similar_keys(self) -> None:
        """Pair items whose keys are alike, the total of likeness and agreeing fields as large as can be."""
        edges: dict[tuple[int, int], str] = {}
        for left, right in self._candidates():
            alike = self._key_likeness(left, right)
            for row, column in np.argwhere(alike >= self._likeness - _SLACK).tolist():
                edges[left[row], right[column]] = f"{alike[row, column]:.2f}"
        for left, right in components(edges):
            if len(left) * len(right) > BLOCK_CELLS:
                continue  # such keys tell nothing apart; the content may
            allowed = np.array([[(a, b) in edges for b in right] for a in left])
            for a, b in self._assigned(left, right, needs_content=False, allowed=allowed):
                first, second = (self._shown(self._items[s][i]) for s, i in ((0, a), (1, b)))
                self._take(
                    a,
                    b,
                    "similar key",
                    min(float(edges[a, b]), NEARLY),
                    f"'{first}' and '{second}' are {edges[a, b]} alike",
                )

    def _candidates(self) -> Iterator[tuple[list[int], list[int]]]:
        """Blocks of items whose keys are compared each with each.

        All of them, or of long lists each truth item with those that share a rare word or piece of a word with it.
        """
        free = [[i for i in side if self._names[s][i]] for s, side in enumerate(self._free)]
        if len(free[0]) * len(free[1]) <= BLOCK_CELLS // 4:
            if free[0] and free[1]:
                yield free[0], free[1]
            return
        holders: dict[str, list[int]] = {}
        for index in free[1]:
            for piece in _pieces(self._parts[1][index][0]):
                holders.setdefault(piece, []).append(index)
        for index in free[0]:
            lists = (holders.get(piece, ()) for piece in _pieces(self._parts[0][index][0]))
            rare = sorted((one for one in lists if 0 < len(one) <= _CANDIDATES), key=len)[:_PIECE]
            near = sorted({other for one in rare for other in one})
            if near:
                yield [index], near

    def _key_likeness(self, left: list[int], right: list[int]) -> Matrix:
        """How alike the keys of items are, 0 to 1: texts by likeness, other fields 1 where they are equal."""
        total: Matrix = np.zeros((len(left), len(right)))
        for position, (_, leaf) in enumerate(self._key):
            rows, columns = (
                [self._parts[s][i][position] for i in side] for s, side in enumerate((left, right))
            )
            if leaf.is_text:
                alike = name_similarity(rows, columns)
            else:
                alike = np.array([[float(a == b != "") for b in columns] for a in rows])
            total += self._weights[position] * alike.reshape(total.shape)
        return total

    def _gains(self, share: Matrix, left: list[int], right: list[int], *, needs_content: bool) -> Matrix:
        gains = super()._gains(share, left, right, needs_content=needs_content)
        if not self._key:
            return gains
        alike = self._key_likeness(left, right)
        # Among items with equally many agreeing fields the more telling fields decide, and then likeness.
        weight = self._rules.name_weight if needs_content else _TIE
        return np.where(gains > 0, gains + weight * alike, 0.0)


def _key_text(value: object, leaf: Leaf) -> str:
    """A field of a key in the form it is compared by, as text."""
    if is_blank(value):
        return ""
    if leaf.is_number and leaf.reader is None:
        return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else ""
    comparable = comparable_value(value, leaf)
    if comparable is None and isinstance(value, int | float) and not isinstance(value, bool):
        return normalise_text(str(value))  # a number where text belongs still says which item is meant
    return (
        "" if comparable is None else f"{comparable:g}" if isinstance(comparable, float) else str(comparable)
    )


def _pieces(text: str) -> set[str]:
    """Words of a text, and pieces of four characters, by which a misspelt one is still known."""
    words = plain_words(text).split()
    joined = " ".join(words)
    return {*words, *(joined[n : n + _PIECE] for n in range(len(joined) - _PIECE + 1))}
