"""Prompts that begin alike are read as a tree: what several have in common is read once, and nothing is padded.

An experiment asks the same instruction of many items and the same item under many conditions, so most of what a batch
reads stands in several of its prompts. Here all that is new goes through the model as one row of tokens, each of which
sees those before it on its own way down the tree; what the model keeps of them is then laid out as rows, and the batch
is decoded as any other. A row that has to leave its batch takes along what was kept of it.

What is added up in another order rounds otherwise, so this is for batches whose rows depend on their neighbours anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from pcsuite.engines.adapters._hf_decoding import TokenIds, forward, supported_arguments
from pcsuite.engines.adapters._hf_sampler import BatchRow

if TYPE_CHECKING:
    import torch

ATTENTION = "pcsuite_tree"
"""Name under which transformers knows :func:`attend_along_tree`."""
ROOM = 64
"""Columns that a row's cache grows by, so that not every token copies it."""
ENDED = 1 / 6
"""Share of a batch's rows that may have ended and still be computed: to take them out copies the cache."""


Path = tuple[range, ...]
"""Where the tokens of a prompt stand in a tree, from its first."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The distinct beginnings of some prompts, one after the other."""

    tokens: list[int]
    positions: list[int]
    """Of each token the place in its prompts, from 0."""
    branches: list[Path]
    """The stretches of tokens that the same prompts share, each the last of its path."""
    paths: list[Path]
    """Of each prompt."""


def common_length(first: TokenIds, second: TokenIds) -> int:
    """Tokens that two prompts have in common at their beginnings.

    >>> common_length((5, 6, 7), (5, 6, 8, 9))
    2
    """
    most = min(len(first), len(second))
    if first[:most] == second[:most]:
        return most
    low, high = 0, most
    # Slices are compared faster than tokens one by one.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle)
    return low


def tree_of(prompts: Sequence[TokenIds]) -> Tree:
    """The tree of some prompts, in the order of their tokens, so that each branch stands before what follows it.

    >>> tree = tree_of([(1, 2, 3), (1, 2, 4, 5), (1, 2, 3)])
    >>> tree.tokens, tree.positions, tree.paths[1]
    ([1, 2, 3, 4, 5], [0, 1, 2, 2, 3], (range(0, 2), range(3, 5)))
    """
    ordered = sorted(set(prompts))
    shared = [common_length(first, second) for first, second in pairwise(ordered)]
    tree = Tree([], [], [], [])
    found: dict[TokenIds, Path] = {}
    # Prompts next to each other, how many tokens they have in common that are in the tree already, and where those are.
    waiting: list[tuple[range, int, Path]] = [(range(len(ordered)), 0, ())] if ordered else []
    while waiting:
        alike, depth, path = waiting.pop()
        sample, between = ordered[alike[0]], alike[:-1]
        until = min((shared[index] for index in between), default=len(sample))
        if until > depth:
            branch = range(len(tree.tokens), len(tree.tokens) + until - depth)
            path = (*path, branch)
            tree.tokens.extend(sample[depth:until])
            tree.positions.extend(range(depth, until))
            tree.branches.append(path)
        if len(sample) == until:  # all of it, which others may go on from
            found[sample] = path
            alike = alike[1:]
        ends = [index + 1 for index in alike[:-1] if shared[index] == until] + [alike.stop]
        begins = [alike.start, *ends[:-1]]
        parts = [range(*part) for part in zip(begins, ends, strict=True) if part[0] < part[1]]
        waiting.extend((part, until, path) for part in reversed(parts))
    tree.paths.extend(found[prompt] for prompt in prompts)
    return tree


def neighbours(rows: Sequence[BatchRow], size: int) -> list[int]:
    """Which of the rows make up a batch, by index: those that have been read, the first, and those that begin as it.

    The first, so that none waits for ever; the others one by one, whichever shares most with those that are chosen.
    """
    chosen = [index for index, row in enumerate(rows) if row.kept is not None][:size]
    fresh = sorted((row.read, index) for index, row in enumerate(rows) if row.kept is None)
    if not fresh or len(chosen) == size:
        return chosen
    oldest = min(index for _, index in fresh)
    left = right = next(place for place, (_, index) in enumerate(fresh) if index == oldest)
    while right - left + 1 < min(size - len(chosen), len(fresh)):
        before = common_length(fresh[left - 1][0], fresh[left][0]) if left else -1
        after = common_length(fresh[right][0], fresh[right + 1][0]) if right + 1 < len(fresh) else -1
        left, right = (left - 1, right) if before > after else (left, right + 1)
    return sorted([*chosen, *(index for _, index in fresh[left : right + 1])])


class Sight(NamedTuple):
    """What the tokens of a branch see, the same in all layers."""

    own: slice
    seen: torch.Tensor | slice
    """Where what they see stands, themselves included."""
    mask: torch.Tensor
    """To be added to scores (own x seen): no token sees those behind it."""


def attend_along_tree(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any,
    scaling: float | None = None, tree: Sequence[Sight] = (), **_: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Attention in which each branch sees what stands before it in its prompts; heads that share keys go together."""
    import torch

    _, heads, tokens, width = query.shape
    groups = key.shape[1]
    out = torch.empty((1, tokens, heads, width), dtype=query.dtype, device=query.device)
    for own, seen, mask in tree:
        found = torch.nn.functional.scaled_dot_product_attention(
            query[0, :, own].reshape(1, groups, -1, width),
            key[:, :, seen],
            value[:, :, seen],
            attn_mask=mask.repeat(heads // groups, 1),
            scale=scaling,
        )
        out[0, own] = found.reshape(heads, -1, width).transpose(0, 1)
    return out, None


def _sights(tree: Tree, model: Any) -> list[Sight]:
    import torch

    found = []
    for path in tree.branches:
        own, places = path[-1], _places(path)
        mask = torch.zeros((len(own), len(places)), dtype=model.dtype, device=model.device)
        behind = torch.ones((len(own), len(own)), dtype=torch.bool, device=model.device).triu(1)
        mask[:, -len(own) :].masked_fill_(behind, -torch.inf)
        # A slice copies nothing.
        straight = len(places) == own.stop
        seen = slice(own.stop) if straight else torch.tensor(places, device=model.device)
        found.append(Sight(slice(own.start, own.stop), seen, mask))
    return found


def _places(path: Path) -> list[int]:
    return [place for stretch in path for place in stretch]


@lru_cache(maxsize=1)
def _register() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, attend_along_tree)


def read_tree(model: Any, tree: Tree) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What the model keeps of a tree's tokens: of each layer the keys and the values (heads x tokens x width)."""
    import torch
    from transformers import DynamicCache

    _register()
    config = model.config.get_text_config()
    usual, cache = config._attn_implementation, DynamicCache()
    ids, positions = (
        torch.tensor([numbers], device=model.device) for numbers in (tree.tokens, tree.positions)
    )
    config._attn_implementation = ATTENTION
    try:
        model(
            input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True,
            tree=_sights(tree, model), **supported_arguments(model, {"logits_to_keep": 1}),
        )  # fmt: skip
    finally:
        config._attn_implementation = usual
    return [(layer.keys[0], layer.values[0]) for layer in cache.layers]


def reads_trees(model: Any) -> bool:
    """Whether a model can read a tree: it attends to all that stands before, by a function that can be exchanged.

    It is tried on a small one: what the model keeps must be what it keeps of the prompts alone, up to rounding.
    """
    import torch

    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    plain = kinds == {"full_attention"} and getattr(config, "_attn_implementation", "") == "sdpa"
    if not (plain and getattr(model, "_supports_attention_backend", False)):
        return False
    prompts = [tuple(range(2, 14)), (*range(2, 8), 15, 16, 17)]
    try:
        with torch.inference_mode():
            tree = tree_of(prompts)
            kept = read_tree(model, tree)
            for prompt, path in zip(prompts, tree.paths, strict=True):
                ids = torch.tensor([prompt], device=model.device)
                alone = forward(model, ids, torch.ones_like(ids), None).past_key_values
                for (keys, values), layer in zip(kept, alone.layers, strict=True):
                    for one, other in ((keys, layer.keys[0]), (values, layer.values[0])):
                        apart = (one[:, _places(path)].float() - other.float()).norm()
                        if not apart <= 0.05 * other.float().norm():
                            return False
    except (AssertionError, AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return False
    return True


@lru_cache(maxsize=1)
def _growing_layer() -> Any:
    """The class of a layer's cache that has room for more tokens, so that one more does not copy those before it."""
    import torch
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):  # type: ignore[misc]
        """Keys and values (rows x heads x columns x width) in buffers that are longer than what is in them."""

        def __init__(self, keys: torch.Tensor, values: torch.Tensor, columns: int) -> None:
            super().__init__()
            self.lazy_initialization(keys, values)
            self._buffers = keys, values
            self.keys, self.values = keys[:, :, :columns], values[:, :, :columns]

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            begin = self.keys.shape[2]
            end = begin + key_states.shape[2]
            if end > self._buffers[0].shape[2]:
                rows, heads, _, width = self.keys.shape
                room = self.keys.new_empty((rows, heads, end - begin + ROOM, width))
                self._buffers = torch.cat([self.keys, room], 2), torch.cat([self.values, room], 2)
            for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
                buffer[:, :, begin:end] = new
            self.keys, self.values = (buffer[:, :, :end] for buffer in self._buffers)
            return self.keys, self.values

        def take(self, rows: torch.Tensor, begin: int) -> None:
            """Keep some of the rows, from a column on."""
            self.keys, self.values = self._buffers = self.keys[rows, :, begin:], self.values[rows, :, begin:]

    return GrowingLayer


def _laid_out(
    model: Any, rows: Sequence[BatchRow], lengths: Sequence[int], columns: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
    """Of each layer the keys and the values of all rows (rows x heads x columns x width), and the columns in use.

    Rows are padded on the left. What was kept of a row is put into its place; the others are read.
    """
    import torch

    fresh = [slot for slot, row in enumerate(rows) if row.kept is None]
    carried = [(slot, row.kept) for slot, row in enumerate(rows) if row.kept is not None]
    tree = tree_of([rows[slot].read[:-1] for slot in fresh])
    read = read_tree(model, tree) if tree.tokens else []
    # What pads is any token at all: nothing sees it.
    places = [
        [0] * (columns - lengths[slot]) + _places(path) for slot, path in zip(fresh, tree.paths, strict=True)
    ]
    taken = torch.tensor(places, dtype=torch.long, device=model.device).flatten()
    for layer in range(len(read) or max((len(kept) for _, kept in carried), default=0)):
        sides = []
        for side in (0, 1):
            sample = read[layer][side] if read else carried[0][1][layer][side]
            heads, _, width = sample.shape
            buffer = sample.new_zeros((len(rows), heads, columns + ROOM, width))
            if read:
                found = sample.index_select(1, taken).view(heads, len(fresh), columns, width)
                buffer[fresh, :, :columns] = found.transpose(0, 1)
            for slot, kept in carried:
                buffer[slot, :, columns - lengths[slot] : columns] = kept[layer][side]
            sides.append(buffer)
        yield sides[0], sides[1], columns


class TreeSteps:
    """A batch on its way, as ``EagerSteps`` is, whose prompts were read as a tree.

    Rows that were kept from an earlier batch are not read again; :meth:`keep` is what keeps them.
    """

    def __init__(self, model: Any, rows: Sequence[BatchRow], pad_token: int) -> None:
        import torch
        from transformers import DynamicCache

        self._model, self._pad_token = model, pad_token
        lengths = [len(row.read) - 1 for row in rows]
        columns = max(lengths)
        visible = [[0] * (columns - length) + [1] * length for length in lengths]
        self._visible = torch.tensor(visible, device=model.device)
        self._slots = list(range(len(rows)))
        """Of each row that goes on where it stands among those that are computed."""
        self._cache: Any = DynamicCache()
        self._cache.layers = [_growing_layer()(*pair) for pair in _laid_out(model, rows, lengths, columns)]
        for row in rows:
            row.kept = None

    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """The scores of the next token (rows x vocabulary) after one more token of each row that goes on."""
        import torch

        new = torch.full((len(self._visible), 1), self._pad_token, device=self._model.device)
        new[self._slots, 0] = torch.tensor(tokens, device=self._model.device)
        self._visible = torch.cat([self._visible, torch.ones_like(new)], dim=1)
        logits = forward(self._model, new, self._visible, self._cache).logits[:, -1]
        return logits if len(self._slots) == len(logits) else logits[self._slots]

    def select(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows, by their indices among those that went on so far."""
        import torch

        self._slots = [self._slots[row] for row in rows]
        if len(self._visible) - len(self._slots) <= ENDED * len(self._visible):
            return
        chosen = torch.tensor(self._slots, device=self._model.device)
        visible = self._visible[chosen]
        begin = int(visible.any(0).long().argmax())
        for layer in self._cache.layers:
            layer.take(chosen, begin)
        self._visible = visible[:, begin:]
        self._slots = list(range(len(rows)))

    def keep(self, rows: Sequence[BatchRow]) -> None:
        """Give the rows that go on what is kept of them, for a later batch."""
        for row, slot in zip(rows, self._slots, strict=True):
            length = len(row.read) - 1
            row.kept = [
                (layer.keys[slot, :, -length:].clone(), layer.values[slot, :, -length:].clone())
                for layer in self._cache.layers
            ]
