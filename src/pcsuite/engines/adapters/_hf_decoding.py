"""The decoding loop of the hf provider: read the prompts once, then one token of every row at a time.

Every batch goes the same way, with or without repeated prompts: all but the last token of each distinct prompt in
one pass, then the last token of every row beside those of its neighbours. A row's text in float32 on the CPU is
therefore the same whether its replicates stand beside it or not. Rows that have ended leave the batch.
"""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pcsuite.engines.adapters._hf_sampler import Row, draw_next
from pcsuite.errors import EngineError

if TYPE_CHECKING:
    import torch

# One thread that owns the model: it gathers requests for a moment and runs them as a batch.
#
# Everything that touches the model goes through it, so that no two computations share the cores or the memory
# of a device. A job that needs the model for itself (another library's decoding loop) is run alone.


Request = TypeVar("Request")
Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Waiting(Generic[Request]):
    request: Request
    future: Future[Any] = field(default_factory=Future)


@dataclass(slots=True)
class _Alone:
    job: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class BatchingThread(Generic[Request, Answer]):
    """Runs ``answer_batch`` on up to ``batch_size`` requests at a time."""

    def __init__(
        self,
        answer_batch: Callable[[Sequence[Request]], Sequence[Answer | Exception]],
        batch_size: int,
        wait_s: float,
    ) -> None:
        self._answer_batch = answer_batch
        self._batch_size = batch_size
        self._wait_s = wait_s
        self._queue: queue.Queue[_Waiting[Request] | _Alone | None] = queue.Queue()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="pcsuite-hf", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> Future[Answer]:
        """Queue a request."""
        waiting = _Waiting(request)
        self._put(waiting)
        return waiting.future

    def alone(self, job: Callable[[], Answer]) -> Future[Answer]:
        """Queue a job that runs with no batch beside it."""
        waiting = _Alone(job)
        self._put(waiting)
        return waiting.future

    def close(self) -> None:
        """End the thread after what is running; what still waits fails."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _put(self, entry: _Waiting[Request] | _Alone) -> None:
        with self._lock:
            if self._closed:
                raise EngineError("the model was closed")
            self._queue.put(entry)

    def _work(self) -> None:
        held: list[_Waiting[Request] | _Alone | None] = []
        while True:
            entry = held.pop() if held else self._queue.get()
            if entry is None:
                break
            if isinstance(entry, _Waiting):
                self._run(self._gather(entry, held))
            elif entry.future.set_running_or_notify_cancel():
                try:
                    entry.future.set_result(entry.job())
                except Exception as error:
                    entry.future.set_exception(error)
        while not self._queue.empty():
            entry = self._queue.get_nowait()
            if entry is not None and entry.future.set_running_or_notify_cancel():
                entry.future.set_exception(EngineError("the model was closed"))

    def _gather(
        self, first: _Waiting[Request], held: list[_Waiting[Request] | _Alone | None]
    ) -> list[_Waiting[Request]]:
        """A batch that starts with ``first``; an entry that cannot join it is put into ``held``."""
        batch = [first]
        deadline = time.monotonic() + self._wait_s
        while len(batch) < self._batch_size:
            try:
                entry = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if not isinstance(entry, _Waiting):
                held.append(entry)
                break
            batch.append(entry)
        return batch

    def _run(self, batch: list[_Waiting[Request]]) -> None:
        live = [entry for entry in batch if entry.future.set_running_or_notify_cancel()]
        if not live:
            return
        try:
            answers = self._answer_batch([entry.request for entry in live])
        except Exception as error:
            for entry in live:
                entry.future.set_exception(error)
            return
        for entry, answer in zip(live, answers, strict=True):
            if isinstance(answer, Exception):
                entry.future.set_exception(answer)
            else:
                entry.future.set_result(answer)


Prompt = tuple[int, ...]


@dataclass(slots=True)
class ReadPrompts:
    """What a model keeps of the prompts of a batch, without the last token of each."""

    kept: Any
    """The cache of the distinct prompts; none where no prompt has more than one token."""
    indices: torch.Tensor
    """For each row, its prompt's index in the cache."""
    visible: torch.Tensor
    """For each row, which columns of the cache are its own; the rest is padding on the left."""

    @property
    def width(self) -> int:
        """Columns of the cache."""
        return int(self.visible.shape[1])


class Steps(Protocol):
    """A batch on its way: scores of the next token of every row that goes on."""

    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """The scores (rows x vocabulary) after one more token of each row."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows."""


def can_keep_prompts(model: Any) -> bool:
    """Whether what the model keeps of a prompt can be handed to several rows; a recurrent state cannot."""
    attention_alone = layer_kinds(model) <= {"full_attention", "sliding_attention", "chunked_attention"}
    return attention_alone and not getattr(model, "_is_stateful", False)


def layer_kinds(model: Any) -> set[str]:
    """The kinds of a model's layers; full attention where its configuration names none."""
    return set(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"])


def decode(rows: Sequence[Row], prompts: Sequence[Prompt], steps: Steps, stop_tokens: frozenset[int]) -> None:
    """Fill the rows to their ends: each step draws one token of every row that goes on.

    A row that meets a stop token or its limit leaves the batch, and ``steps`` goes on with the rest.
    """
    live = list(range(len(rows)))
    tokens = [prompt[-1] for prompt in prompts]
    while live:
        scores = steps.scores(tokens)
        going = [rows[index] for index in live]
        tokens = draw_next(scores, going, [prompts[index] for index in live], stop_tokens)
        still = [index for index, row in enumerate(going) if row.finish_reason is None]
        if still and len(still) < len(live):
            steps.keep(still)
        live = [live[index] for index in still]
        tokens = [tokens[index] for index in still]


def read_prompts(model: Any, prompts: Sequence[Prompt], filler: int, share: bool) -> ReadPrompts:
    """Read a batch of prompts (token ids) but their last tokens, each distinct one once where ``share`` is set.

    Shorter ones are padded on the left with the token ``filler``, which nothing sees.
    """
    import torch

    read = list(dict.fromkeys(prompts)) if share else list(prompts)
    index_of = {prompt: index for index, prompt in enumerate(read)}
    indices = [index_of[prompt] for prompt in prompts] if share else list(range(len(prompts)))
    width = max(map(len, read)) - 1
    padding = [width + 1 - len(prompt) for prompt in read]
    token_ids = [[filler] * pad + list(prompt[:-1]) for pad, prompt in zip(padding, read, strict=True)]
    columns = torch.tensor(
        [[0] * pad + [1] * (width - pad) for pad in padding], dtype=torch.long, device=model.device
    )
    kept = None
    if width:
        kept = forward(model, torch.tensor(token_ids, device=model.device), columns, None).past_key_values
    rows = torch.tensor(indices, device=model.device)
    return ReadPrompts(kept, rows, columns[rows])


def forward(model: Any, token_ids: Any, visible: Any, kept: Any) -> Any:
    """The model on new tokens after what it has kept, with the positions that left padding asks for."""
    positions = (visible.cumsum(-1) - 1).clamp(min=0)[:, -token_ids.shape[1] :]
    wishes = {
        "position_ids": positions,
        "logits_to_keep": 1,  # the scores of the other positions would fill the memory, unread
    }
    understood = understood_by(model, wishes)
    return model(
        input_ids=token_ids, attention_mask=visible, past_key_values=kept, use_cache=True, **understood
    )


def understood_by(model: Any, wishes: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a model's forward pass knows."""
    known = _arguments(model.__class__)
    return {name: value for name, value in wishes.items() if name in known}


@lru_cache(maxsize=8)
def _arguments(kind: Any) -> frozenset[str]:
    """The arguments of a kind of model; looked up once, not at every step."""
    return frozenset(inspect.signature(kind.forward).parameters)


class EagerSteps:
    """Steps through transformers' growing cache: any device, any kind of attention."""

    def __init__(self, model: Any, read: ReadPrompts) -> None:
        self._model = model
        self._kept = read.kept
        self._visible = read.visible
        if read.kept is not None and len(read.indices) != len(set(read.indices.tolist())):
            read.kept.batch_select_indices(read.indices)

    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """The scores after one more token of each row."""
        import torch

        new = torch.tensor(tokens, device=self._model.device)[:, None]
        self._visible = torch.cat([self._visible, torch.ones_like(new)], dim=1)
        out = forward(self._model, new, self._visible, self._kept)
        self._kept = out.past_key_values
        return out.logits[:, -1]

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows."""
        import torch

        chosen = torch.tensor(rows, device=self._model.device)
        self._kept.batch_select_indices(chosen)
        self._visible = self._visible[chosen]


def generate_recurrent(
    model: Any, rows: Sequence[Row], prompts: Sequence[Prompt], filler: int, stop_tokens: frozenset[int]
) -> None:
    """Fill the rows by transformers' own loop, which knows how each recurrent model keeps its state."""
    import torch

    width = max(map(len, prompts))

    def drawn(_ids: Any, scores: torch.Tensor) -> torch.Tensor:
        live = [index for index, row in enumerate(rows) if row.finish_reason is None]
        tokens = draw_next(
            scores[live], [rows[index] for index in live], [prompts[index] for index in live], stop_tokens
        )
        forced = torch.full_like(scores, float("-inf"))
        forced[:, filler] = 0.0
        forced[live, filler] = float("-inf")
        forced[live, tokens] = 0.0
        return forced

    def ended(ids: torch.Tensor, _scores: Any, **_: Any) -> torch.Tensor:
        over = all(row.finish_reason is not None for row in rows)
        return torch.full((ids.shape[0],), over, dtype=torch.bool, device=ids.device)

    model.generate(
        input_ids=torch.tensor([[filler] * (width - len(p)) + list(p) for p in prompts], device=model.device),
        attention_mask=torch.tensor(
            [[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device
        ),
        max_new_tokens=max(row.decoding.max_tokens for row in rows),
        logits_processor=[drawn],
        stopping_criteria=[ended],
    )
