"""Decoding steps as CUDA graphs: the GPU replays a step by itself instead of waiting for Python to launch it.

A step of a 7B model is a thousand small kernels, which Python launches more slowly than the GPU runs them. Recorded
once for a number of rows and a length of the cache, the step is one launch. Both are rounded up to a few sizes, so
that a study needs few recordings, and so that the kernels, and with them the rounding, depend on the batch alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pcsuite.engines.adapters._hf_decoding import (
    ReadPrompts,
    Steps,
    can_keep_prompts,
    layer_kinds,
    read_prompts,
    understood_by,
)

if TYPE_CHECKING:
    import torch

SHORTEST_CACHE = 256
STEPS_KEPT = 2
"""Recordings kept at a time; each holds the cache of a whole batch."""
WARM_UP_STEPS = 3
"""Steps before recording, in which libraries choose their kernels and take their memory."""


def why_not_recordable(model: Any) -> str | None:
    """Why the steps of a model cannot be recorded; ``None`` where they can, which a short recording proves.

    Running out of memory in it is no reason: that error is raised.
    """
    import torch

    if model.device.type != "cuda":
        return "the model is not on a GPU"
    if len({parameter.device for parameter in model.parameters()}) > 1:
        return "the model is spread over several devices"
    if not can_keep_prompts(model):
        return "the model is recurrent"
    reason = why_not_fixed(model)
    if reason is None:
        try:
            with torch.inference_mode():
                read = read_prompts(model, [(0, 0)], filler=0, share=True)
                Recorder(model).start(read, 1).scores([0])
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError, AttributeError) as error:
            reason = f"recording fails: {' '.join(str(error).split())[:200]}"
    return reason


def why_not_fixed(model: Any) -> str | None:
    """Why a model cannot decode from a cache of fixed length; ``None`` where it can.

    It needs full attention in every layer, computed by torch itself, and positions that no length rescales.
    """
    config = model.config.get_text_config()
    kinds = layer_kinds(model)
    if kinds != {"full_attention"}:
        return f"its layers are of kinds {', '.join(sorted(kinds))}"
    if getattr(config, "_attn_implementation", "") not in ("sdpa", "eager"):
        return f"its attention is {config._attn_implementation}"
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


class _FixedCache:
    """Keys and values in tensors that keep their place; a step writes one column of all rows.

    Models ask a cache for nothing but ``update`` once they are given positions and a four-dimensional mask.
    """

    def __init__(self, layers: Sequence[tuple[torch.Tensor, torch.Tensor]], column: torch.Tensor) -> None:
        self.layers = layers
        self._column = column

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        all_keys, all_values = self.layers[layer]
        all_keys.index_copy_(2, self._column, keys)
        all_values.index_copy_(2, self._column, values)
        return all_keys, all_values


class _RecordedSteps(Steps):
    """Steps of up to so many rows over a cache of so many columns, one batch after the other.

    They are one recorded step, replayed; not recorded where there is no GPU.
    """

    def __init__(self, model: Any, like: ReadPrompts, rows: int, columns: int) -> None:
        import torch

        self._model = model
        whole = {"dtype": torch.long, "device": model.device}
        real = {"dtype": model.dtype, "device": model.device}
        self._tokens = torch.zeros((rows, 1), **whole)
        self._positions = torch.zeros((rows, 1), **whole)
        self._column = torch.zeros(1, **whole)
        self._hidden = torch.finfo(model.dtype).min
        self._mask = torch.zeros((rows, 1, 1, columns), **real)

        def room_for(tensor: torch.Tensor) -> torch.Tensor:
            return torch.zeros((rows, tensor.shape[1], columns, tensor.shape[3]), **real)

        self._layers = [(room_for(layer.keys), room_for(layer.values)) for layer in like.kept.layers]
        self._live: list[int] = []
        self._cache = _FixedCache(self._layers, self._column)
        self._scores: torch.Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        if model.device.type != "cuda":
            return
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP_STEPS):
                self._step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._step()
        self._graph = graph

    def load(self, read: ReadPrompts) -> None:
        """Begin a batch: the prompts' keys and values on the left, nothing else to be seen."""
        rows, width = len(read.indices), read.width
        self._live = list(range(rows))
        for (keys, values), layer in zip(self._layers, read.kept.layers, strict=True):
            for target, source in ((keys, layer.keys), (values, layer.values)):
                target.zero_()  # what an earlier batch left could be infinite, which no mask hides
                target[:rows, :, :width].copy_(source[read.indices])
        self._mask.fill_(self._hidden)
        self._mask[:rows, 0, 0, :width].masked_fill_(read.visible.bool(), 0.0)
        self._column.fill_(width)
        self._positions.zero_()
        self._positions[:rows, 0] = read.visible.sum(-1)

    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        import torch

        new = torch.zeros(self._tokens.shape, dtype=torch.long)
        new[self._live, 0] = torch.tensor(tokens)
        self._tokens.copy_(new)
        if self._graph is None:
            self._step()
        else:
            self._graph.replay()
        assert self._scores is not None
        return self._scores[self._live]

    def keep(self, rows: Sequence[int]) -> None:
        # The rows that ended run on unread: the recorded step has a fixed number of them.
        self._live = [self._live[row] for row in rows]

    def _step(self) -> None:
        self._mask.index_fill_(3, self._column, 0.0)
        out = self._model(
            input_ids=self._tokens,
            attention_mask=self._mask,
            past_key_values=self._cache,
            use_cache=True,
            **understood_by(self._model, {"position_ids": self._positions}),
        )
        self._scores = out.logits[:, -1]
        self._column.add_(1)
        self._positions.add_(1)


class Recorder:
    """The recordings of a model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._steps: OrderedDict[tuple[int, int], _RecordedSteps] = OrderedDict()

    def start(self, read: ReadPrompts, new_tokens: int) -> Steps:
        """The steps of a batch that has been read, with room for ``new_tokens`` more tokens a row.

        They are valid until the next batch starts; a new shape is recorded first, and the oldest recording forgotten.
        """
        shape = (round_size(len(read.indices)), round_size(max(SHORTEST_CACHE, read.width + new_tokens)))
        steps = self._steps.pop(shape, None)
        if steps is None:
            while len(self._steps) >= STEPS_KEPT:
                self._steps.popitem(last=False)
            steps = _RecordedSteps(self._model, read, *shape)
        self._steps[shape] = steps
        steps.load(read)
        return steps
