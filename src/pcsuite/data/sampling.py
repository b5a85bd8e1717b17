"""Choosing items by hash: the same everywhere, and nested (the first 10 of 500 are the 10).

Items are ranked by the SHA-256 of a name that includes their id, so a choice depends on no generator, no
platform and no order of the file, and adding items never reshuffles the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from pcsuite.data.items import Item
from pcsuite.errors import DataError

DEFAULT_HASH_SEED = "pcsuite-v1"
"""``repro.deterministic_hash_seed`` of the profiles that set none."""


def rank_of(*parts: object) -> bytes:
    """Rank of a name: the SHA-256 of its parts joined by ``|``."""
    return hashlib.sha256("|".join(str(part) for part in parts).encode("utf-8", "surrogatepass")).digest()


def sample_items(
    items: Iterable[Item], n: int | None, seed: int, task_id: str, hash_seed: str = DEFAULT_HASH_SEED
) -> list[Item]:
    """The first ``n`` items by hash rank, in rank order; ``None`` takes all of them."""
    if n is not None and n < 0:
        raise DataError(f"cannot sample {n} items of task '{task_id}'", hint="give a number of 0 or more")
    ranked = sorted(items, key=lambda item: (rank_of(hash_seed, seed, task_id, item.item_id), item.item_id))
    return ranked if n is None else ranked[:n]


def exemplars(train_items: Iterable[Item], k: int, hash_seed: str = DEFAULT_HASH_SEED) -> list[Item]:
    """The ``k`` fixed exemplars of a training split: the first by hash rank, whatever the run's seed."""
    ranked = sorted(
        train_items, key=lambda item: (rank_of(hash_seed, "exemplars", item.item_id), item.item_id)
    )
    if k > len(ranked):
        raise DataError(f"{k} exemplars asked for, but the training split has {len(ranked)} items")
    return ranked[:k]


def split_off(items: Sequence[Item], n: int, name: str, seed: int) -> tuple[list[Item], list[Item]]:
    """Part ``items`` into ``n`` for the split ``name`` and the rest, both in the given order.

    Items with the same input (case and spacing aside) always fall on the same side, so that a split-off
    development set shares no question with what remains. Groups are ranked by the hash of their text and
    taken while they fit, so the part has exactly ``n`` items unless only larger groups are left.
    """
    groups: dict[str, list[int]] = {}
    for position, item in enumerate(items):
        groups.setdefault(" ".join(item.input_text.casefold().split()), []).append(position)
    taken: set[int] = set()
    for text in sorted(groups, key=lambda text: rank_of(name, seed, text)):
        if len(taken) + len(groups[text]) <= n:
            taken.update(groups[text])
        if len(taken) == n:
            break
    part = [item for position, item in enumerate(items) if position in taken]
    rest = [item for position, item in enumerate(items) if position not in taken]
    return part, rest
