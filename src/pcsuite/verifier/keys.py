"""Keys of lists that a mapping does not name: concluded from the truth, once for all records, and kept in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from pcsuite._util.files import replace_atomically
from pcsuite.errors import ConfigError
from pcsuite.verifier.mapping import FieldMapping, bundled_mapping, load_mapping
from pcsuite.verifier.similarity import comparable_value
from pcsuite.verifier.tree import Leaf, ListNode, ObjectNode, compile_mapping
from pcsuite.verifier.values import is_blank

_TELLING = ("text", "identifier", "fuzzy", "enum")
"""Types of fields that can tell items apart by themselves: text-like ones."""
_FURTHER = (*_TELLING, "date", "integer")
"""Types that can tell items apart together with a text-like one."""


class ConcludedKey(NamedTuple):
    """The key of a list that was concluded from a truth, and the sentence that says so."""

    path: str
    key: tuple[str, ...]
    reason: str


def conclude_keys(mapping: FieldMapping, records: Sequence[Mapping[str, Any]]) -> list[ConcludedKey]:
    """Keys for the lists that have neither ``name`` nor a key, from all truth records together.

    A key is the first text-like field that every item has and that tells the items of every list apart; where there is
    none, the first two fields that do so together, one of them text-like. A list of which no record has two items, or
    that nothing tells apart, gets none and is paired by content.
    """
    concluded = []
    for node, lists in _lists(compile_mapping(mapping), records):
        key = _key_of(node, lists)
        if key is not None:
            path = node.pattern.removesuffix("[]")
            items = sum(map(len, lists))
            tell = "which tells" if len(key) == 1 else "which together tell"
            reason = f"list '{path}' is paired by {' and '.join(key)}, {tell} its {items} items apart"
            concluded.append(ConcludedKey(path, key, reason))
    return concluded


def with_keys(mapping: FieldMapping, concluded: Iterable[ConcludedKey]) -> FieldMapping:
    """The mapping with concluded keys in it, so that they are in its rules hash; itself where there are none."""
    keys = {one.path: one.key for one in concluded}
    return mapping.model_copy(update={"concluded": {**mapping.concluded, **keys}}) if keys else mapping


def _lists(
    root: ObjectNode, records: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[ListNode, Sequence[Sequence[Mapping[str, Any]]]]]:
    """Every list without a name or key, with its instances in the records that have items."""
    stack: list[tuple[ObjectNode, list[Mapping[str, Any]]]] = [(root, list(records))]
    while stack:
        node, objects = stack.pop(0)
        for key, child in node.children.items():
            parts = [part for one in objects if (part := one.get(key))]
            if isinstance(child, ObjectNode):
                stack.append((child, [part for part in parts if isinstance(part, dict)]))
            elif isinstance(child, ListNode):
                lists = [
                    [item for item in part if isinstance(item, dict)]
                    for part in parts
                    if isinstance(part, list)
                ]
                stack.append((child.item, [item for one in lists for item in one]))
                if not child.is_keyed and not isinstance(child.item.children.get("name"), Leaf):
                    yield child, lists


def _key_of(node: ListNode, lists: Sequence[Sequence[Mapping[str, Any]]]) -> tuple[str, ...] | None:
    if not any(len(items) > 1 for items in lists):
        return None
    leaves = {key: leaf for key, leaf in node.item.children.items() if isinstance(leaf, Leaf)}
    present = [
        key
        for key, leaf in leaves.items()
        if leaf.type in _FURTHER and all(not is_blank(item.get(key)) for items in lists for item in items)
    ]
    singles = [(key,) for key in present if leaves[key].type in _TELLING]
    pairs = [pair for pair in combinations(present, 2) if leaves[pair[0]].type in _TELLING]
    for candidate in (*singles, *pairs):
        if all(_distinct(items, candidate, leaves) for items in lists):
            return candidate
    return None


def _distinct(items: Sequence[Mapping[str, Any]], key: tuple[str, ...], leaves: Mapping[str, Leaf]) -> bool:
    values = {
        tuple(
            item[name] if leaves[name].is_number else comparable_value(item[name], leaves[name])
            for name in key
        )
        for item in items
    }
    return len(values) == len(items)


_SECTION = re.compile(r"(?m)^concluded:")


def keep_keys(path: Path | None, concluded: Sequence[ConcludedKey], source: str) -> str | None:
    """Append concluded keys to a mapping file, as its section ``concluded``; or say what to do by hand.

    Nothing else of the file changes. It is left alone where it has such a section already, is one that comes with the
    package, or cannot be written.
    """
    keys = {one.path: list(one.key) for one in concluded}
    line = "concluded: " + json.dumps(keys, ensure_ascii=False)
    by_hand = f"to keep {'it' if len(keys) == 1 else 'them'}, add to the mapping: {line}"
    if path is None or not path.is_file() or path.parent == bundled_mapping().parent:
        return by_hand
    text = path.read_text(encoding="utf-8-sig")
    if _SECTION.search(text):
        return by_hand
    about = f"# Concluded from {source}: what tells the items of each list apart. A key at the list itself comes first."
    kept = f"{text.rstrip()}\n\n{about}\n{line}\n"
    try:
        replace_atomically(path, kept)
        load_mapping(path)
    except OSError as error:
        return f"{path} cannot be written ({error.strerror or error}); {by_hand}"
    except ConfigError:  # a file in one pair of braces has no room for a further section
        replace_atomically(path, text)
        return by_hand
    return None
