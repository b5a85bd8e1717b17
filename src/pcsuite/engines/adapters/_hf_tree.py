"""Prompts that begin alike are read as a tree: what several have in common is read once, and nothing is padded.

An experiment asks the same instruction of many items and the same item under many conditions, so most of what a batch
reads stands in several of its prompts. Here all that is new goes through the model as one row of tokens, each of which
sees those before it on its span way down the tree; what the model keeps of them is then laid out as rows, and the batch
is decoded as any other. A row that has to leave its batch takes along what was kept of it.

What is added up in another order rounds otherwise, so this is for batches whose rows depend on their neighbours anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from pcsuite.engines.adapters._hf_decoding import TokenIds, forward, layer_kinds, supported_arguments
from pcsuite.engines.adapters._hf_sampler import BatchRow

if TYPE_CHECKING:
    import torch

PART = 4096
"""Tokens of a tree that are read at a time: what is computed of more does not stay in a processor's caches."""
BAND = 32
"""Rows of about the same length that attend together, so that what pads the others is not computed."""
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
    path_of: dict[TokenIds, Path] = {}
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
            path_of[sample] = path
            alike = alike[1:]
        ends = [index + 1 for index in alike[:-1] if shared[index] == until] + [alike.stop]
        begins = [alike.start, *ends[:-1]]
        parts = [range(*part) for part in zip(begins, ends, strict=True) if part[0] < part[1]]
        waiting.extend((part, until, path) for part in reversed(parts))
    tree.paths.extend(path_of[prompt] for prompt in prompts)
    return tree


def neighbours(rows: Sequence[BatchRow], size: int) -> list[int]:
    """Which of the rows make up a batch, by index: those that have been read, the first, and those that begin as it.

    The first, so that none waits for ever; the others one by one, whichever shares most with those that are chosen.
    """
    chosen = [index for index, row in enumerate(rows) if row.cache is not None][:size]
    fresh = sorted((row.read, index) for index, row in enumerate(rows) if row.cache is None)
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

    span: slice
    before: torch.Tensor | slice
    """Where what they see stands, themselves included."""
    mask: torch.Tensor
    """To be added to scores (span x before): no token sees those behind it."""


def attend_along_tree(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any,
    *, scaling: float, scope: Sequence[Sight], **_: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Attention in which each branch sees what stands before it in its prompts; heads that share keys go together."""
    import torch

    _, heads, tokens, width = query.shape
    groups = key.shape[1]
    out = torch.empty((1, tokens, heads, width), dtype=query.dtype, device=query.device)
    for span, before, mask in scope:
        attended = torch.nn.functional.scaled_dot_product_attention(
            query[0, :, span].reshape(1, groups, -1, width),
            key[:, :, before],
            value[:, :, before],
            attn_mask=mask.repeat(heads // groups, 1),
            scale=scaling,
        )
        out[0, span] = attended.reshape(heads, -1, width).transpose(0, 1)
    return out, None


def _sights(tree: Tree, part: range, model: Any) -> list[Sight]:
    """What the branches see of which tokens stand in a part of the tree, by their places in it."""
    import torch

    sights = []
    for *path, branch in tree.branches:
        span = range(max(branch.start, part.start), min(branch.stop, part.stop))
        if not span:
            continue
        places = _places((*path, range(branch.start, span.stop)))
        mask = torch.zeros((len(span), len(places)), dtype=model.dtype, device=model.device)
        behind = torch.ones((len(span), len(span)), dtype=torch.bool, device=model.device).triu(1)
        mask[:, -len(span) :].masked_fill_(behind, -torch.inf)
        # A slice copies nothing.
        straight = len(places) == span.stop
        before = slice(span.stop) if straight else torch.tensor(places, device=model.device)
        sights.append(Sight(slice(span.start - part.start, span.stop - part.start), before, mask))
    return sights


def _places(path: Path) -> list[int]:
    return [place for stretch in path for place in stretch]


def _forward(
    model: Any, attention: Callable[..., Any], scope: Any, token_ids: Any, positions: Any, cache: Any
) -> Any:
    """The model's output on new tokens, with an attention of ours that gets ``scope``: what each token is to see."""
    from transformers import AttentionInterface

    config = model.config.get_text_config()
    usual = config._attn_implementation
    AttentionInterface.register(attention.__name__, attention)
    # No mask is made for a name that transformers knows no mask of.
    config._attn_implementation = attention.__name__
    try:
        return model(
            input_ids=token_ids, position_ids=positions, past_key_values=cache, use_cache=True, scope=scope,
            **supported_arguments(model, {"logits_to_keep": 1}),
        )  # fmt: skip
    finally:
        config._attn_implementation = usual


def read_tree(model: Any, tree: Tree) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What the model keeps of a tree's tokens: of each layer the keys and the values (heads x tokens x width)."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache()
    ids, positions = (
        torch.tensor([numbers], device=model.device) for numbers in (tree.tokens, tree.positions)
    )
    for begin in range(0, len(tree.tokens), PART):
        span = slice(begin, begin + PART)
        sights = _sights(tree, range(begin, begin + PART), model)
        _forward(model, attend_along_tree, sights, ids[:, span], positions[:, span], cache)
    return [(layer.keys[0], layer.values[0]) for layer in cache.layers]


def reads_trees(model: Any) -> bool:
    """Whether a model can read a tree: it attends to all that stands before, by a function that can be exchanged.

    It is tried on a small one: what the model keeps must be what it keeps of the prompts alone, up to rounding.
    """
    import torch

    usual = getattr(model.config.get_text_config(), "_attn_implementation", "")
    plain = layer_kinds(model) == {"full_attention"} and usual == "sdpa"
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
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return False
    return True


class Band(NamedTuple):
    """Rows that attend together."""

    rows: slice
    begin: int
    """The first column that one of them sees."""
    bias: torch.Tensor
    """To be added to scores (rows x 1 x 1 x columns from there on): no row sees what pads it."""


def attend_in_bands(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any,
    *, scaling: float, scope: Sequence[Band], **_: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Attention of one token a row, with keys that stand column by column; heads that share keys go together."""
    import torch

    rows, heads, _, width = query.shape
    groups = key.shape[1]
    asked = query.reshape(rows, groups, heads // groups, width)
    out = query.new_empty((rows, groups, heads // groups, width))
    for span, begin, bias in scope:
        scores = torch.add(bias, asked[span] @ key[span, :, :, begin:], alpha=scaling)
        out[span] = scores.softmax(-1).to(value.dtype) @ value[span, :, begin:]
    return out.reshape(rows, 1, heads, width), None


@lru_cache(maxsize=1)
def _growing_layer() -> Any:
    """The class of a layer's cache that has room for more tokens, so that one more does not copy those before it."""
    import torch
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):  # type: ignore[misc]
        """Keys (rows x heads x width x columns) and values (rows x heads x columns x width) with columns to spare."""

        def __init__(self, keys: torch.Tensor, values: torch.Tensor, columns: int) -> None:
            super().__init__()
            self.lazy_initialization(keys, values)
            self._use(keys, values, columns)

        def _use(self, keys: torch.Tensor, values: torch.Tensor, columns: int) -> None:
            self._buffers, self._columns = (keys, values), columns
            self.keys, self.values = keys[..., :columns], values[:, :, :columns]

        def get_seq_length(self) -> int:
            return self._columns

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            begin, keys, values = self._columns, *self._buffers
            if begin == keys.shape[-1]:
                rows, heads, _, width = values.shape
                keys = torch.cat([keys, keys.new_empty((rows, heads, width, ROOM))], -1)
                values = torch.cat([values, values.new_empty((rows, heads, ROOM, width))], 2)
            keys[..., begin], values[:, :, begin] = key_states[:, :, 0], value_states[:, :, 0]
            self._use(keys, values, begin + 1)
            return self.keys, self.values

        def take(self, rows: torch.Tensor, begin: int) -> None:
            """Keep some of the rows, from a column on."""
            end = self._columns + ROOM
            keys, values = self._buffers
            self._use(keys[rows, :, :, begin:end], values[rows, :, begin:end], self._columns - begin)

    return GrowingLayer


def _laid_out(
    model: Any, rows: Sequence[BatchRow], lengths: Sequence[int], columns: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Of each layer the keys and the values of all rows, as a growing layer has them, padded on the left.

    What was kept of a row is put into its place; the others are read.
    """
    import torch

    fresh = [slot for slot, row in enumerate(rows) if row.cache is None]
    carried = [(slot, row.cache) for slot, row in enumerate(rows) if row.cache is not None]
    tree = tree_of([rows[slot].read[:-1] for slot in fresh])
    read = read_tree(model, tree) if tree.tokens else []
    # What pads is any token at all: nothing sees it.
    places = [
        [0] * (columns - lengths[slot]) + _places(path) for slot, path in zip(fresh, tree.paths, strict=True)
    ]
    taken = torch.tensor(places, dtype=torch.long, device=model.device).flatten()
    for layer in range(len(read) or max((len(layers) for _, layers in carried), default=0)):
        sides = []
        for side in (0, 1):
            sample = read[layer][side] if read else carried[0][1][layer][side]
            heads, _, width = sample.shape
            buffer = sample.new_zeros((len(rows), heads, columns + ROOM, width))
            if read:
                gathered = sample.index_select(1, taken).view(heads, len(fresh), columns, width)
                buffer[fresh, :, :columns] = gathered.transpose(0, 1)
            for slot, layers in carried:
                buffer[slot, :, columns - lengths[slot] : columns] = layers[layer][side]
            sides.append(buffer)
        yield sides[0].transpose(2, 3).contiguous(), sides[1]


class TreeSteps:
    """A batch on its way, as ``EagerSteps`` is, whose prompts were read as a tree.

    Rows that were kept from an earlier batch are not read again; :meth:`keep` is what keeps them. They stand in the
    order of their lengths, in slots, of which some may have ended and are still computed.
    """

    def __init__(self, model: Any, rows: Sequence[BatchRow], pad_token: int) -> None:
        from transformers import DynamicCache

        self._model, self._pad_token = model, pad_token
        by_length = sorted(range(len(rows)), key=lambda index: len(rows[index].read))
        self._slots = [0] * len(rows)
        """The slot of each row that goes on."""
        for slot, index in enumerate(by_length):
            self._slots[index] = slot
        ordered = [rows[index] for index in by_length]
        lengths = [len(row.read) - 1 for row in ordered]
        self._columns = max(lengths)
        self._begins = [self._columns - length for length in lengths]
        """The first column that each slot sees."""
        self._cache: Any = DynamicCache()
        self._cache.layers = [
            _growing_layer()(*pair, self._columns)
            for pair in _laid_out(model, ordered, lengths, self._columns)
        ]
        for row in rows:
            row.cache = None

    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """The scores of the next token (rows x vocabulary) after one more token of each row that goes on."""
        import torch

        device = self._model.device
        new = torch.full((len(self._begins), 1), self._pad_token, device=device)
        new[self._slots, 0] = torch.tensor(tokens, device=device)
        begins = torch.tensor(self._begins, device=device)[:, None]
        out = _forward(
            self._model, attend_in_bands, self._bands(begins), new, self._columns - begins, self._cache
        )
        self._columns += 1
        return out.logits[self._slots, -1]

    def _bands(self, begins: torch.Tensor) -> list[Band]:
        import torch

        bands = []
        for first in range(0, len(begins), BAND):
            begin = self._begins[min(first + BAND, len(begins)) - 1]
            span = slice(first, first + BAND)
            columns = torch.arange(begin, self._columns + 1, device=begins.device)
            bias = torch.zeros((), device=begins.device).where(columns >= begins[span], -torch.inf)
            bands.append(Band(span, begin, bias[:, None, None]))
        return bands

    def select(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows, by their indices among those that went on so far."""
        import torch

        self._slots = [self._slots[row] for row in rows]
        if len(self._begins) - len(self._slots) <= ENDED * len(self._begins):
            return
        left = sorted(self._slots)
        begin = self._begins[left[-1]]
        for layer in self._cache.layers:
            layer.take(torch.tensor(left, device=self._model.device), begin)
        self._begins = [self._begins[slot] - begin for slot in left]
        self._columns -= begin
        rank = {slot: place for place, slot in enumerate(left)}
        self._slots = [rank[slot] for slot in self._slots]

    def keep(self, rows: Sequence[BatchRow]) -> None:
        """Give the rows that go on what is kept of them, for a later batch."""
        for row, slot in zip(rows, self._slots, strict=True):
            begin = self._begins[slot]
            row.cache = [
                (
                    layer.keys[slot, :, :, begin:].transpose(1, 2).clone(),
                    layer.values[slot, :, begin:].clone(),
                )
                for layer in self._cache.layers
            ]
