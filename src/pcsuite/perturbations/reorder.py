"""``reorder``: the same parts in another order; wording fixed, structure altered.

A variant is one order for all items of a task and condition, so that its mean score is that of one format.
A prompt of two parts (C0) has one other order only, and all variants are it.
"""

from __future__ import annotations

from itertools import permutations

from pcsuite.data.sampling import rank_of
from pcsuite.perturbations.base import Kind, Site
from pcsuite.prompts.tree import PromptTree

_SHUFFLES = 64
"""Candidates a shuffle is chosen from; few parts have fewer orders."""


def reorder(tree: PromptTree, site: Site, number: int) -> PromptTree:
    """Variant 1 puts the input first, 2 reverses all parts, 3 shuffles them."""
    count = len(tree.parts())
    return tree.reordered(_orders(count, input_place(tree), site)[number - 1])


def input_place(tree: PromptTree) -> int:
    """Where the input stands among the parts."""
    return len(tree.texts("prefix")) + 1 + len(tree.texts("block")) + len(tree.texts("fewshot"))


def _orders(count: int, place: int, site: Site) -> tuple[tuple[int, ...], ...]:
    natural = tuple(range(count))
    input_first = (place, *(part for part in natural if part != place))
    reverse = natural[::-1]
    taken = {natural, input_first, reverse}
    left = [order for order in _candidates(count, site) if order not in taken]
    return input_first, reverse, left[0] if left else reverse


def _candidates(count: int, site: Site) -> list[tuple[int, ...]]:
    """Orders by hash: all of them for few parts, else a sample that is as good as shuffled."""
    names = (site.salt, "reorder", site.ctx.task_id, *site.bundle.names)
    if count <= 4:
        return sorted(permutations(range(count)), key=lambda order: rank_of(*names, *order))
    return [
        tuple(sorted(range(count), key=lambda part, draw=draw: rank_of(*names, draw, part)))  # type: ignore[misc]
        for draw in range(_SHUFFLES)
    ]


REORDER = Kind("reorder", "puts the blocks in another order", 3, reorder)
