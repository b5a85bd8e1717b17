"""Continuous batches on a GPU: rows that end leave their slot to the next request, and steps are recorded.

A slot is one row of a cache of fixed size in which every row writes at its own position. A step of a 7B model is a
thousand small kernels, which Python launches more slowly than the GPU runs them: recorded once as a CUDA graph for a
number of rows and of cache columns, it is one launch. Both are rounded up to a few sizes, so that few recordings are
needed and a step reads little more of the cache than the rows have filled. What new prompts have in common at their
beginning, as the prompts of one condition have, is read once and kept for those that follow.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pcsuite.engines.adapters._hf_decoding import (
    RunningBatch,
    TokenIds,
    can_share_cache,
    layer_kinds,
    supported_arguments,
)
from pcsuite.engines.adapters._hf_sampler import BatchRow, draw_next

if TYPE_CHECKING:
    import torch

AnswerT = TypeVar("AnswerT")
_LOGGER = logging.getLogger("pcsuite")

SHORTEST_CACHE = 256
USUAL_CACHE = 1024
"""Columns up to which every slot has room; where rows need more, fewer slots share the same memory."""
RECORDINGS_KEPT = 64
WARM_UP_STEPS = 3
"""Steps before recording, in which libraries choose their kernels and take their memory."""
MIN_SHARED = 64
"""Tokens that prompts must have in common for these to be read apart; prefixes are cut to multiples of half."""
PREFIXES_KEPT = 16
TOKENS_READ_AT_ONCE = 16_384
FOLDED = "pcsuite_folded"
"""Name under which transformers knows our attention of one new token a row."""


def why_not_recordable(model: Any) -> str | None:
    """Why the steps of a model cannot be recorded; ``None`` where they can, which a short recording proves.

    Running out of memory in it is no reason: that error is raised.
    """
    import torch

    if model.device.type != "cuda":
        return "the model is not on a GPU"
    if len({parameter.device for parameter in model.parameters()}) > 1:
        return "the model is spread over several devices"
    if not can_share_cache(model):
        return "the model is recurrent"
    reason = why_not_fixed(model)
    if reason is None:
        try:
            with torch.inference_mode():
                Slots(model, rows=1, pad_token=0, share=False).try_recording()
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, AttributeError) as error:
            reason = f"recording fails: {' '.join(str(error).split())[:200]}"
    return reason


def why_not_fixed(model: Any) -> str | None:
    """Why a model cannot decode from a cache of fixed size; ``None`` where it can.

    It needs full or sliding attention in every layer, computed by torch itself, and positions that no length rescales.
    """
    config = model.config.get_text_config()
    kinds = layer_kinds(model)
    if not kinds <= {"full_attention", "sliding_attention"}:
        return f"its layers are of kinds {', '.join(sorted(kinds))}"
    if getattr(config, "_attn_implementation", "") != "sdpa":
        return f"its attention is {getattr(config, '_attn_implementation', 'unknown')}"
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type", "default") in ("dynamic", "longrope"):
        return f"its positions are scaled by the length of the text ({rope['rope_type']})"
    return None


def round_size(least: int) -> int:
    """The smallest of 1, 2, 3, 4, 6, 8, 12, 16, 24 … that is not less: powers of two and the middles between.

    >>> round_size(5), round_size(9)
    (6, 12)
    """
    power = 1 << max(0, least - 1).bit_length()
    middle = power // 4 * 3
    return middle if middle >= least else power


def folded_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one new token a row, in which the query heads that share keys stand as if one after the other.

    Keys and values are read as they lie in the cache, where the usual way first copies them for every query head.
    """
    from torch.nn.functional import scaled_dot_product_attention

    rows, heads, _new, width = query.shape
    shared = query.reshape(rows, key.shape[1], heads // key.shape[1], width)
    out = scaled_dot_product_attention(shared, key, value, attn_mask=attention_mask, scale=scaling)
    return out.reshape(rows, 1, heads, width), None


@contextmanager
def _folded(model: Any) -> Iterator[None]:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(FOLDED, folded_attention)
    config = model.config.get_text_config()
    usual = config._attn_implementation
    config._attn_implementation = FOLDED
    try:
        yield
    finally:
        config._attn_implementation = usual


def shared_prefixes(prompts: Sequence[TokenIds]) -> list[tuple[int, list[int]]]:
    """Groups of prompts (by index) with the number of tokens that each group has in common at its beginning.

    0 where that is less than 64 or the group is a prompt alone. Every prompt is in one group, and keeps at least one
    token of its own.

    >>> same = tuple(range(70))
    >>> shared_prefixes([(*same, 1, 2), (5, 6), (*same, 3, 4)])
    [(64, [0, 2]), (0, [1])]
    """
    unit = MIN_SHARED // 2
    groups: list[tuple[int, list[int]]] = []
    for index in sorted(range(len(prompts)), key=lambda number: prompts[number]):
        prompt = prompts[index]
        if groups:
            length, members = groups[-1]
            common = _common(prompts[members[-1]], prompt) // unit * unit
            common = min(common, (len(prompt) - 1) // unit * unit)
            shared = common if len(members) == 1 else min(common, length)
            if shared >= MIN_SHARED and (len(members) == 1 or shared >= length * 3 // 4):
                groups[-1] = (min(shared, (len(prompts[members[0]]) - 1) // unit * unit), [*members, index])
                continue
        groups.append((0, [index]))
    return groups


def _common(first: TokenIds, second: TokenIds) -> int:
    differing = (index for index, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differing, min(len(first), len(second)))


class _FixedCache:
    """Keys and values in tensors that keep their place; a step writes one column of each row, its own.

    Models ask a cache for nothing but ``update`` once they are given positions and four-dimensional masks.
    """

    def __init__(
        self, layers: Sequence[tuple[torch.Tensor, torch.Tensor]], rows: torch.Tensor, column: torch.Tensor
    ) -> None:
        self._layers = layers
        self._rows, self._column = rows, column

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        all_keys, all_values = self._layers[layer]
        all_keys[self._rows, :, self._column] = keys[:, :, 0]
        all_values[self._rows, :, self._column] = values[:, :, 0]
        return all_keys, all_values


@dataclass(slots=True)
class _Slot:
    """A slot that is taken: its row, and where that has got to."""

    row: BatchRow
    position: int
    """Column of the next token."""
    token: int
    since: float


LayerCache = list[tuple[Any, Any]]


class Slots:
    """The slots of one model: requests go in as slots come free, and each is answered when it ends."""

    def __init__(self, model: Any, *, rows: int, pad_token: int, share: bool) -> None:
        self._model = model
        self._pad_token = pad_token
        self._share = share
        self._most = rows
        self._rows = rows
        self._columns = 0
        self._layers: LayerCache = []
        self._busy: dict[int, _Slot] = {}
        """The slots that are taken, by index."""
        self._recordings: OrderedDict[tuple[int, int], tuple[Any, Any]] = OrderedDict()
        self._prefixes: OrderedDict[TokenIds, LayerCache] = OrderedDict()
        self._pool: Any = None
        self._state: Any = None

    def try_recording(self) -> None:
        """Take one step, so that a model which cannot be recorded fails here."""
        import torch

        self._grow(SHORTEST_CACHE)
        self._busy[0] = _Slot(BatchRow(None, b""), 0, 0, 0.0)  # type: ignore[arg-type]
        self._scores([0])
        torch.cuda.synchronize()

    def run(
        self,
        batch: RunningBatch[BatchRow, AnswerT],
        stop_tokens: frozenset[int],
        answer: Callable[[BatchRow, float], AnswerT | Exception],
    ) -> None:
        """Answer the batch and whatever else is asked meanwhile, until nothing is left.

        ``answer`` makes the answer of a row that has ended from it and its milliseconds since it got its slot. Where
        the device runs out of memory (others may use it too) half as many slots go on from the tokens that their rows
        have; with a single slot it is raised. An error leaves the slots empty.
        """
        import torch

        waiting = deque(batch.requests)
        while True:
            try:
                return self._answer(batch, waiting, stop_tokens, answer)
            except torch.OutOfMemoryError:
                if self._most == 1:
                    self._empty(self._most)
                    raise
            except BaseException:
                self._empty(self._most)
                raise
            # Outside the except clause: the error holds on to the tensors of the step that failed.
            waiting.extendleft(self._busy[index].row for index in sorted(self._busy, reverse=True))
            self._empty(self._most // 2)
            _LOGGER.warning("the device is out of memory; going on with up to %d rows at a time", self._most)

    def _answer(
        self,
        batch: RunningBatch[BatchRow, AnswerT],
        waiting: deque[BatchRow],
        stop_tokens: frozenset[int],
        answer: Callable[[BatchRow, float], AnswerT | Exception],
    ) -> None:
        while True:
            free = self._rows - len(self._busy)
            # Prompts are read an eighth of the slots at a time: reading them one by one would hold up the others'
            # steps.
            if free >= max(1, self._rows // 8) or not self._busy:
                if len(waiting) < self._most:
                    waiting.extend(batch.more(self._most - len(waiting)))
                if waiting and self._fits(waiting):
                    self._admit(waiting)
            if not self._busy:
                return
            indices = sorted(self._busy)
            slots = [self._busy[index] for index in indices]
            tokens = draw_next(self._scores(indices), [slot.row for slot in slots], stop_tokens)
            for index, slot, token in zip(indices, slots, tokens, strict=True):
                slot.token, slot.position = token, slot.position + 1
                if slot.row.finish_reason is not None:
                    del self._busy[index]
                    batch.done(slot.row, answer(slot.row, (time.perf_counter() - slot.since) * 1000))

    def _empty(self, rows: int) -> None:
        """Up to so many slots from now on, none of them taken; the cache is made anew for the next rows."""
        import torch

        self._most = self._rows = rows
        self._busy.clear()
        self._columns, self._layers, self._pool, self._state = 0, [], None, None
        self._recordings.clear()
        self._prefixes.clear()
        if self._model.device.type == "cuda":
            torch.cuda.empty_cache()

    def _fits(self, waiting: Sequence[BatchRow]) -> bool:
        """Whether waiting rows may take slots now: not while the cache must become longer, or could be far shorter.

        It can change only when all slots are empty, and then does.
        """
        longest = max(_columns_of(row) for row in waiting)
        needed = round_size(max(SHORTEST_CACHE, longest))
        used = [_columns_of(slot.row) for slot in self._busy.values()]
        spare = self._rows < self._most and 2 * max(needed, *used, 0) <= self._columns
        if needed <= self._columns and not spare:
            return True
        if not self._busy:
            self._grow(needed)
            return True
        return not spare and _columns_of(waiting[0]) <= self._columns

    def _admit(self, waiting: deque[BatchRow]) -> None:
        """Give slots to waiting rows, in their order, up to one that needs a longer cache."""
        admitted: dict[int, BatchRow] = {}
        started = time.perf_counter()
        for index in range(self._rows):
            if not waiting or _columns_of(waiting[0]) > self._columns:
                break
            if index not in self._busy:
                row = admitted[index] = waiting.popleft()
                text = _text_of(row)
                self._busy[index] = _Slot(row, len(text) - 1, text[-1], started)
        self._read(admitted)

    def _grow(self, columns: int) -> None:
        """A cache of so many columns, in as many slots as fit; what was recorded for the old one is forgotten."""
        import torch

        self._recordings.clear()
        self._layers, self._pool = [], None
        device, kind = self._model.device, self._model.dtype
        if device.type == "cuda":
            torch.cuda.empty_cache()
        self._rows = max(1, min(self._most, self._most * USUAL_CACHE // columns))
        single = self._forward(torch.zeros((1, 1), dtype=torch.long, device=device), None)
        self._layers = [
            tuple(
                torch.zeros((self._rows, part.shape[1], columns, part.shape[3]), dtype=kind, device=device)
                for part in layer
            )
            for layer in single
        ]
        self._columns = columns
        self._state = torch.zeros((2, self._rows), dtype=torch.long, device=device)

    def _forward(self, token_ids: torch.Tensor, prefix: LayerCache | None) -> LayerCache:
        """Keys and values of each layer after reading right-padded prompts, behind a prefix that all share."""
        from transformers import DynamicCache

        # Without the model's configuration it keeps every column of every layer, sliding ones included.
        cache = DynamicCache()
        for number, (keys, values) in enumerate(prefix or []):
            rows = token_ids.shape[0]
            cache.update(keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1), number)
        self._model(
            input_ids=token_ids,
            past_key_values=cache,
            use_cache=True,
            **supported_arguments(self._model, {"logits_to_keep": 1}),
        )
        return [(layer.keys, layer.values) for layer in cache.layers]

    def _read(self, rows: Mapping[int, BatchRow]) -> None:
        """Read the prompts but their last tokens into the rows' slots: each distinct one, and each shared prefix, once.

        ``rows`` are by the index of their slot.
        """
        import torch

        slots_of: dict[tuple[TokenIds, int], list[int]] = {}
        for slot, row in rows.items():
            slots_of.setdefault((_text_of(row)[:-1], 0 if self._share else slot), []).append(slot)
        prompts = [prompt for prompt, _ in slots_of]
        targets = list(slots_of.values())
        everyone = torch.tensor(list(rows), device=self._model.device)
        for layer in self._layers:
            for part in layer:
                part[everyone] = 0  # what an earlier row left could be infinite, which no mask hides
        by_prefix: dict[TokenIds, list[int]] = {}
        groups = shared_prefixes(prompts) if self._share else [(0, list(range(len(prompts))))]
        for length, members in groups:
            for index in members:
                prompt = prompts[index]
                shared = prompt[:length]
                if not length:  # the longest prefix in memory; without sharing there is none
                    shorter = (prefix for prefix in self._prefixes if len(prefix) < len(prompt))
                    matching = (prefix for prefix in shorter if prompt[: len(prefix)] == prefix)
                    shared = max(matching, key=len, default=())
                by_prefix.setdefault(shared, []).append(index)
        for shared, members in by_prefix.items():
            length = len(shared)
            cache = self._prefix(shared) if shared else None
            for chunk in _chunks(members, [len(prompts[index]) - length for index in members]):
                self._fill(
                    [prompts[index] for index in chunk], [targets[index] for index in chunk], length, cache
                )

    def _prefix(self, tokens: TokenIds) -> LayerCache:
        import torch

        cache = self._prefixes.pop(tokens, None)
        if cache is None:
            cache = self._forward(torch.tensor([tokens], device=self._model.device), None)
            while len(self._prefixes) >= PREFIXES_KEPT:
                self._prefixes.popitem(last=False)
        self._prefixes[tokens] = cache
        return cache

    def _fill(
        self,
        prompts: Sequence[TokenIds],
        targets: Sequence[Sequence[int]],
        shared: int,
        prefix: LayerCache | None,
    ) -> None:
        import torch

        device = self._model.device
        width = max(len(prompt) for prompt in prompts) - shared
        filled = prefix
        if width > 0:
            padded = [
                [*prompt[shared:], *[self._pad_token] * (width + shared - len(prompt))] for prompt in prompts
            ]
            filled = self._forward(torch.tensor(padded, device=device), prefix)
        if filled is None:
            return  # prompts of a single token, which the first step reads
        # Padding on the right is never seen: a row's own tokens take its columns before they come into view.
        source = [index if width > 0 else 0 for index, slots in enumerate(targets) for _ in slots]
        target = torch.tensor([slot for slots in targets for slot in slots], device=device)
        chosen = torch.tensor(source, device=device)
        for (keys, values), (new_keys, new_values) in zip(self._layers, filled, strict=True):
            end = min(new_keys.shape[2], self._columns)
            keys[target, :, :end] = new_keys[chosen, :, :end]
            values[target, :, :end] = new_values[chosen, :, :end]

    def _scores(self, indices: Sequence[int]) -> torch.Tensor:
        """The scores of the next token (rows x vocabulary) of the busy slots, after one step of them all.

        ``indices`` are theirs, in order.
        """
        import torch

        state = torch.zeros((2, self._rows), dtype=torch.long)
        slots = [self._busy[index] for index in indices]
        state[:, indices] = torch.tensor([[slot.token, slot.position] for slot in slots]).T
        self._state.copy_(state)
        longest = 1 + int(state[1].max())
        rows = self._rows
        while rows // 4 > indices[-1]:  # a step of few rows is quick anyhow: few sizes, few recordings
            rows //= 4
        shape = (rows, min(self._columns, round_size(max(SHORTEST_CACHE, longest))))
        if self._model.device.type != "cuda":
            return self._step(*shape)[indices]
        recording = self._recordings.pop(shape, None)
        if recording is None:
            while len(self._recordings) >= RECORDINGS_KEPT:
                self._recordings.popitem(last=False)
            recording = self._record(*shape)
        self._recordings[shape] = recording
        graph, scores = recording
        graph.replay()
        return scores[torch.tensor(indices, device=scores.device)] if len(indices) < shape[0] else scores

    def _record(self, rows: int, columns: int) -> tuple[Any, Any]:
        import torch

        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP_STEPS):
                self._step(rows, columns)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the device while this one records.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            scores = self._step(rows, columns)
        if self._pool is None:
            self._pool = graph.pool()
        return graph, scores

    def _step(self, rows: int, columns: int) -> torch.Tensor:
        import torch

        tokens, positions = self._state[0, :rows, None], self._state[1, :rows, None]
        slots = torch.arange(rows, device=positions.device)
        layers = [(keys[:rows, :, :columns], values[:rows, :, :columns]) for keys, values in self._layers]
        with _folded(self._model):
            out = self._model(
                input_ids=tokens,
                attention_mask=self._masks(positions, columns),
                past_key_values=_FixedCache(layers, slots, positions[:, 0]),
                use_cache=True,
                **supported_arguments(self._model, {"position_ids": positions}),
            )
        return out.logits[:, -1]

    def _masks(self, positions: torch.Tensor, columns: int) -> Any:
        """What each row may see of the cache: a mask, or one for each kind of layer."""
        import torch

        config = self._model.config.get_text_config()
        column = torch.arange(columns, device=positions.device)[None, None, None, :]
        position = positions[:, None, None, :]

        def mask(visible: torch.Tensor) -> torch.Tensor:
            scores = torch.zeros(visible.shape, dtype=self._model.dtype, device=visible.device)
            return scores.masked_fill(~visible, torch.finfo(self._model.dtype).min)

        full = mask(column <= position)
        if layer_kinds(self._model) == {"full_attention"}:
            return full
        window = mask((column <= position) & (column > position - config.sliding_window))
        return {"full_attention": full, "sliding_attention": window}


def _text_of(row: BatchRow) -> TokenIds:
    """What a row reads when it gets its slot: its prompt, and what it has answered where it lost one before."""
    return (*row.prompt, *row.tokens)


def _columns_of(row: BatchRow) -> int:
    return len(row.prompt) + row.decoding.max_tokens


def _chunks(members: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """The members, shortest first, in chunks whose padded tokens fit into one pass."""
    chunk: list[int] = []
    for length, member in sorted(zip(lengths, members, strict=True)):
        if chunk and (len(chunk) + 1) * max(1, length) > TOKENS_READ_AT_ONCE:
            yield chunk
            chunk = []
        chunk.append(member)
    if chunk:
        yield chunk
