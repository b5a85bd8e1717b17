"""Clusters: which items are related, and so are no independent pieces of evidence.

Items whose inputs read the same are one cluster by themselves; columns of the user's (a customer, a document) make
larger ones. Nothing here changes what is asked: a cluster is no part of an item's content nor of a row's id.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pcsuite._util.text import counted
from pcsuite.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from pcsuite.data.items import Item

_LONGEST_LABEL = 80


def text_key(text: str) -> str:
    """What two texts are the same by: their words, case and spacing aside.

    >>> text_key("Who  wrote\\nIt?") == text_key("who wrote it?")
    True
    """
    return " ".join(text.casefold().split())


def input_cluster(text: str, columns: Mapping[str, str], *, ignored: Sequence[str] = ()) -> str:
    """The cluster of an item by its input alone: 16 hexadecimal digits, the same for inputs that read the same.

    White space and case are folded, over the text and every column but those ``ignored``, which number the rows.

    >>> input_cluster("Where is  Oslo?", {}) == input_cluster("where is oslo? ", {})
    True
    """
    named = [(name, str(columns[name])) for name in sorted(columns) if name not in ignored]
    parts = [text, *(part for entry in named for part in entry)]
    folded = "\x1f".join(" ".join(part.split()).casefold() for part in parts)
    return _short_hash(folded)


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def clustered(items: Sequence[Item], columns: Sequence[str], where: str) -> list[Item]:
    """The items with clusters by the values of some columns; items with equal inputs stay together whatever these say.

    A column is one of the item's row (``attributes``, ``columns``) or a key of its truth; values are compared as texts,
    white space and case folded. An item whose columns are all empty stands with its input alone. Raises
    :class:`DataError`, with ``where`` the items are from, for a column that no item has.

        clustered(task_items(spec, "test", cache).items, ["customer"], "tickets.csv")
    """
    values = [{**_scalars(item.truth), **item.columns, **item.attributes} for item in items]
    known = {name for cells in values for name in cells}
    for name in columns:
        if name not in known:
            hint = did_you_mean(name, known) if known else "the items keep no column of their table"
            raise DataError(f"{where}: no column '{name}' to cluster items by (--cluster)", hint=hint)
    labels = []
    for cells in values:
        parts = [text_key(str(cells.get(name, ""))) for name in columns]
        labels.append(" · ".join(parts) if any(parts) else "")
    joined = joined_labels([item.cluster for item in items], labels)
    return [
        item if label == item.cluster else replace(item, cluster=label)
        for item, label in zip(items, joined, strict=True)
    ]


def _scalars(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in values.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool)
    }


def joined_labels(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The label of each item where two labellings hold at once: items that either puts together are one cluster.

    An empty label of ``second`` puts an item together with nothing. A cluster is called what ``second`` calls it, with
    all its names where there are several; where it has none, what ``first`` does.

    >>> joined_labels(["x", "x", "y", "z"], ["ann", "bob", "bob", ""])
    ['ann + bob', 'ann + bob', 'ann + bob', 'z']
    """
    parent: dict[tuple[int, str], tuple[int, str]] = {}

    def root(node: tuple[int, str]) -> tuple[int, str]:
        path = []
        while (above := parent.setdefault(node, node)) != node:
            path.append(node)
            node = above
        for passed in path:
            parent[passed] = node
        return node

    for label, other in zip(first, second, strict=True):
        if other:
            parent[root((0, label))] = root((1, other))
    names: dict[tuple[int, str], dict[str, None]] = {}
    for label, other in zip(first, second, strict=True):
        of_cluster = names.setdefault(root((0, label)), {})
        if other:
            of_cluster[other] = None
    called = {}
    for node, of_cluster in names.items():
        name = " + ".join(of_cluster)
        called[node] = name if len(name) <= _LONGEST_LABEL else f"{name[:40]}… {_short_hash(name)}"
    return [called[root((0, label))] or label for label in first]


# Which columns of a table tell rows apart without being part of what is asked.

_NUMBERING = re.compile(
    r"(?:.*[_\W])?(?:id|ids|uid|uuid|guid|idx|index|nr|no|num|number|row|key|ref|hash|timestamp|datetime)",
    re.I,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COUNTER = re.compile(r"(?P<prefix>[A-Za-z#_:./-]{0,16})(?P<number>[0-9]{1,18})")
_UNIQUE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,64}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
    re.I,
)


def numbers_rows(name: str, values: Sequence[str]) -> bool:
    """Whether a column only tells rows apart (ids, row numbers, hashes, times), so that copies look different by it.

    Its values all differ, and either its name says so (``id``, ``ticket_id``, ``rowNumber``) and they are single words,
    or they count up in the order of the rows (``1, 2, 3``; ``T-001, T-002``), or each is a UUID, a hash or a time.

    >>> numbers_rows("ticket_id", ["a7", "b9"]), numbers_rows("n", ["1", "2", "3"]), numbers_rows("a", ["3", "1"])
    (True, True, False)
    """
    cells = [str(value).strip() for value in values]
    if len(cells) < 2 or len(set(cells)) < len(cells) or any(not cell or len(cell) > 64 for cell in cells):
        return False
    if all(_UNIQUE.fullmatch(cell) for cell in cells):
        return True
    if any(" " in cell for cell in cells):
        return False
    if _NUMBERING.fullmatch(_CAMEL.sub("_", name)):
        return True
    counters = [_COUNTER.fullmatch(cell) for cell in cells]
    if any(match is None for match in counters):
        return False
    prefixes = {match["prefix"] for match in counters if match is not None}
    numbers = [int(match["number"]) for match in counters if match is not None]
    return len(prefixes) == 1 and all(after - before == 1 for before, after in itertools.pairwise(numbers))


# What is said of clusters.


def count_clusters(items: Sequence[Item]) -> int:
    """How many clusters some items are in."""
    return len({item.cluster for item in items})


def items_in_clusters(items: Sequence[Item], columns: Sequence[str] = ()) -> str:
    """``100 items in 20 clusters``, with the columns that make them; ``100 items`` where no two are related."""
    count, clusters = counted(len(items), "item"), count_clusters(items)
    if clusters == len(items):
        return count
    return f"{count} in {counted(clusters, 'cluster')}{f' by {_named(columns)}' if columns else ''}"


def cluster_sentence(items: Sequence[Item], columns: Sequence[str] = (), ignored: Sequence[str] = ()) -> str:
    """One line that says which items are related and what follows; empty where each stands for itself.

    ``columns`` are those that the user named, ``ignored`` those that were left aside when inputs were compared.
    """
    from pcsuite.stats.clustered import (
        too_few_clusters,
    )  # numpy, which listing a command's flags does not need

    sizes = Counter(item.cluster for item in items)
    aside = f" ({_named(ignored)} left aside)" if ignored else ""
    if len(sizes) == len(items):
        return f"no two items are related by {_named(columns)}" if columns else ""
    repeated = [size for size in sizes.values() if size > 1]
    reason = too_few_clusters(len(sizes))
    few = f"; {reason}" if reason else ""
    whole = items_in_clusters(items, columns)
    if columns:
        return f"{whole}: splits, limits and verdicts go by cluster{few}"
    if len(set(sizes.values())) == 1:
        copies = f"{counted(len(sizes), 'text')} stand {repeated[0]} times each{aside}"
    else:
        copies = f"{counted(len(repeated), 'text')} stand more than once{aside}"
    if len(repeated) == 1:
        copies = copies.replace(" stand ", " stands ")
    return (
        f"{copies}: {whole}; copies are no further evidence, splits, limits and verdicts go by cluster{few}"
    )


def _named(columns: Sequence[str]) -> str:
    return " and ".join(columns)
