"""``reorder``: the same parts in another order; wording fixed, structure altered.

A variant is one order for all items of a task and condition, so that its mean score is that of one format.
A prompt of two parts (C0) has one other order only, and all variants are it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import permutations

from pcsuite.data.sampling import rank_of
from pcsuite.perturbations.base import Kind, Site
from pcsuite.prompts.tree import PromptTree

_FEW = 4
"""So many parts have few enough orders to look at all of them."""
_DRAWS = 64


def reorder(tree: PromptTree, site: Site, number: int) -> PromptTree:
    """Variant 1 puts the input first, 2 reverses all parts, 3 shuffles them."""
    names = (site.salt, "reorder", site.ctx.task_id, *site.bundle.names)
    return tree.reordered(_orders(len(tree.parts()), input_place(tree), names)[number - 1])


def input_place(tree: PromptTree) -> int:
    """Where the input stands among the parts."""
    return len(tree.texts("prefix")) + 1 + len(tree.texts("block")) + len(tree.texts("fewshot"))


@lru_cache(maxsize=1024)
def _orders(count: int, place: int, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    natural = tuple(range(count))
    input_first = (place, *(part for part in natural if part != place))
    reverse = natural[::-1]
    taken = {natural, input_first, reverse}
    shuffled = next((order for order in _shuffles(count, names) if order not in taken), reverse)
    return input_first, reverse, shuffled


def _shuffles(count: int, names: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    """Orders by hash: all of them for few parts, else draw after draw."""
    if count <= _FEW:
        yield from sorted(permutations(range(count)), key=lambda order: rank_of(*names, *order))
        return
    for draw in range(_DRAWS):
        ranks = [rank_of(*names, draw, part) for part in range(count)]
        yield tuple(sorted(range(count), key=ranks.__getitem__))


REORDER = Kind("reorder", "puts the blocks in another order", 3, reorder)
