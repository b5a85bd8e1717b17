"""The decoding loop of the hf provider: read the prompts once, then one token of every row at a time.

Every batch goes the same way, with or without repeated prompts: all but the last token of each distinct prompt in
one pass, then the last token of every row beside those of its neighbours. A row's text in float32 on the CPU is
therefore the same whether its replicates stand beside it or not. Rows that have ended leave the batch; the few that go
on after all others may go on beside the next ones. Of more rows than a batch takes, those of about the same length run
together, since what pads a short prompt is computed for nothing; or those that begin alike (``_hf_tree``).
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
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from pcsuite.engines.adapters._hf_sampler import BatchRow, draw_next
from pcsuite.errors import EngineError

if TYPE_CHECKING:
    import torch

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")


@dataclass(slots=True)
class _Entry(Generic[RequestT]):
    """A request for a batch, or a job that runs alone."""

    request: RequestT | None = None
    job: Callable[[], Any] | None = None
    future: Future[Any] = field(default_factory=Future)


class BatchingThread(Generic[RequestT, AnswerT]):
    """The one thread that owns a model: it gathers requests for a moment and runs them as a batch.

    Everything that touches the model goes through it, so that no two computations share the cores or the memory of a
    device. ``answer_batch`` gets up to ``batch_size`` requests and returns the answer of each; an exception among them
    is raised where that answer is awaited, and ``None`` lets the request wait for the next batch, before new ones. An
    incomplete batch waits ``wait_s`` seconds for more; where more wait than it takes, ``choose`` says which it takes,
    by their indices: it gets all that wait, in their order, and how many to choose.
    """

    def __init__(
        self,
        answer_batch: Callable[[list[RequestT]], Sequence[AnswerT | Exception | None]],
        batch_size: int,
        wait_s: float,
        choose: Callable[[Sequence[RequestT], int], Sequence[int]] = lambda waiting, size: range(size),
    ) -> None:
        self._answer_batch = answer_batch
        self._batch_size = batch_size
        self._wait_s = wait_s
        self._choose = choose
        self._waiting: list[_Entry[RequestT]] = []
        self._queue: queue.Queue[_Entry[RequestT] | None] = queue.Queue()
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="pcsuite-hf", daemon=True)
        self._thread.start()

    def submit(self, request: RequestT) -> Future[AnswerT]:
        """Queue a request; its future gets the answer, or the exception that ended it.

        Raises ``EngineError`` once the thread is closed.
        """
        return self._put(_Entry(request))

    def alone(self, job: Callable[[], AnswerT]) -> Future[AnswerT]:
        """Queue a job that needs the model for itself, such as another library's decoding loop.

        No batch runs beside it. Raises ``EngineError`` once the thread is closed.
        """
        return self._put(_Entry(job=job))

    def fills_batch(self, beside: int) -> bool:
        """Whether so many requests wait that they make up a whole batch with ``beside`` that are under way."""
        return len(self._waiting) + self._queue.qsize() >= self._batch_size - beside and not self._closed

    def close(self) -> None:
        """End the thread after what is running.

        What still waits fails with an ``EngineError``. May be called twice, and from the thread itself.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            # Ends the thread, after what was queued before it.
            self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _put(self, entry: _Entry[RequestT]) -> Future[Any]:
        with self._lock:
            if self._closed:
                raise EngineError("the model was closed")
            self._queue.put(entry)
        return entry.future

    def _work(self) -> None:
        # What came after those that wait: a job, or the end. Nothing behind it is taken before it.
        after: list[_Entry[RequestT] | None] = []
        while True:
            self._gather(after)
            if self._waiting:
                self._waiting[:0] = self._run(self._taken())
            elif (job := after.pop()) is None:
                break
            else:
                self._run([job])
        while not self._queue.empty():
            waiting = self._queue.get_nowait()
            if waiting is not None and waiting.future.set_running_or_notify_cancel():
                waiting.future.set_exception(EngineError("the model was closed"))

    def _gather(self, after: list[_Entry[RequestT] | None]) -> None:
        """Take on all that is queued, up to a job or the end; a batch that is not full waits a moment for more."""
        deadline = time.monotonic() + self._wait_s if self._waiting else None
        while not after:
            full = len(self._waiting) >= self._batch_size
            left = None if deadline is None else 0.0 if full else max(0.0, deadline - time.monotonic())
            try:
                entry = self._queue.get(timeout=left)
            except queue.Empty:
                return
            if entry is None or entry.job is not None:
                after.append(entry)
            else:
                self._waiting.append(entry)
            if deadline is None:
                deadline = time.monotonic() + self._wait_s

    def _taken(self) -> list[_Entry[RequestT]]:
        """Take a batch out of what waits, in its order."""
        if len(self._waiting) <= self._batch_size:
            batch, self._waiting = self._waiting, []
            return batch
        waiting = [cast(RequestT, entry.request) for entry in self._waiting]
        chosen = set(self._choose(waiting, self._batch_size))
        batch = [entry for index, entry in enumerate(self._waiting) if index in chosen]
        self._waiting = [entry for index, entry in enumerate(self._waiting) if index not in chosen]
        return batch

    def _run(self, entries: Sequence[_Entry[RequestT]]) -> list[_Entry[RequestT]]:
        """Answer the requests of a batch, or do a job; the requests that are to go on in the next batch."""
        entries = [
            entry
            for entry in entries
            if entry.future.running() or entry.future.set_running_or_notify_cancel()
        ]
        if not entries:
            return []
        job = entries[0].job
        answers: Sequence[Any]
        try:
            if job is not None:
                answers = [job()]
            else:
                answers = self._answer_batch([cast(RequestT, entry.request) for entry in entries])
        except Exception as error:
            answers = [error] * len(entries)
        unfinished = []
        for entry, answer in zip(entries, answers, strict=True):
            if isinstance(answer, Exception):
                entry.future.set_exception(answer)
            elif answer is None and job is None:
                unfinished.append(entry)
            else:
                entry.future.set_result(answer)
        return unfinished


def nearest(
    sizes: Callable[[RequestT], tuple[int, ...]],
) -> Callable[[Sequence[RequestT], int], Sequence[int]]:
    """Choose the request that waits longest, so that none waits for ever, and those whose sizes are nearest to its own.

    Sizes are tokens to read and to write, say.
    """

    def chosen(waiting: Sequence[RequestT], size: int) -> Sequence[int]:
        first = sizes(waiting[0])
        apart = [
            sum(abs(one - other) for one, other in zip(sizes(request), first, strict=True))
            for request in waiting
        ]
        return sorted(range(len(apart)), key=apart.__getitem__)[:size]

    return chosen


TokenIds = tuple[int, ...]


class Steps(Protocol):
    """A batch whose prompts have been read, on its way."""

    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """The scores of the next token (rows x vocabulary) after one more token of each row that goes on."""

    def select(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows, by their indices among those that went on so far."""

    def keep(self, rows: Sequence[BatchRow]) -> None:
        """The rows that go on leave before their ends: give them what spares a later batch reading them again."""


def layer_kinds(model: Any) -> set[str]:
    """The kinds of a model's layers, as transformers names them; attention to all before where it names none."""
    return set(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"])


def can_share_cache(model: Any) -> bool:
    """Whether what the model keeps of a prompt can be handed to several rows.

    True where all its layers are attention of a known kind; a recurrent state cannot be handed on.
    """
    attention_alone = layer_kinds(model) <= {"full_attention", "sliding_attention", "chunked_attention"}
    return attention_alone and not getattr(model, "_is_stateful", False)


def decode(
    rows: Sequence[BatchRow],
    steps: Steps,
    stop_tokens: frozenset[int],
    leave: Callable[[int], bool] = lambda live: False,
) -> None:
    """Fill the rows to their ends: each step draws one token of every row that goes on.

    A row that meets a stop token or its limit leaves the batch, and ``steps`` goes on with the others: with so many
    rows that ``leave`` says yes to, no longer. Those are unfinished then, and go on from what they have.
    """
    live = list(rows)
    tokens = [row.read[-1] for row in rows]
    while live and not leave(len(live)):
        tokens = draw_next(steps.scores(tokens), live, stop_tokens)
        unfinished = [index for index, row in enumerate(live) if row.finish_reason is None]
        if unfinished and len(unfinished) < len(live):
            steps.select(unfinished)
        live = [live[index] for index in unfinished]
        tokens = [tokens[index] for index in unfinished]
    if live:
        steps.keep(live)


def forward(model: Any, token_ids: Any, visible: Any, cache: Any) -> Any:
    """The model's output on new tokens after what it has kept, with the positions that left padding asks for.

    ``visible`` has a 1 for each column, old and new, that a row may see; only the last position's scores are computed.
    """
    positions = (visible.cumsum(-1) - 1).clamp(min=0)[:, -token_ids.shape[1] :]
    # The scores of the other positions would fill the memory, unread.
    supported = supported_arguments(model, {"position_ids": positions, "logits_to_keep": 1})
    return model(
        input_ids=token_ids, attention_mask=visible, past_key_values=cache, use_cache=True, **supported
    )


def supported_arguments(model: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that the model's forward pass accepts.

    Models differ in them: some count positions by themselves, some always score every position.
    """
    accepted = _arguments(model.__class__)
    return {name: value for name, value in arguments.items() if name in accepted}


@lru_cache(maxsize=8)
def _arguments(kind: Any) -> frozenset[str]:
    return frozenset(inspect.signature(kind.forward).parameters)


class EagerSteps:
    """A batch on its way through transformers' growing cache: any device, any kind of attention.

    To begin with, the prompts (token ids) are read but for their last tokens, each distinct one once where ``share`` is
    set. Shorter ones are padded on the left with the token ``pad_token``, which nothing sees.
    """

    def __init__(self, model: Any, prompts: Sequence[TokenIds], pad_token: int, share: bool) -> None:
        import torch

        distinct = list(dict.fromkeys(prompts)) if share else list(prompts)
        index_of = {prompt: index for index, prompt in enumerate(distinct)}
        indices = [index_of[prompt] for prompt in prompts] if share else list(range(len(prompts)))
        width = max(map(len, distinct)) - 1
        padding = [width + 1 - len(prompt) for prompt in distinct]
        token_ids = [
            [pad_token] * pad + list(prompt[:-1]) for pad, prompt in zip(padding, distinct, strict=True)
        ]
        columns = torch.tensor(
            [[0] * pad + [1] * (width - pad) for pad in padding], dtype=torch.long, device=model.device
        )
        rows = torch.tensor(indices, device=model.device)
        self._model = model
        self._visible = columns[rows]
        self.cache: Any = None
        """What the model keeps of the rows so far; ``None`` where no prompt has more than one token."""
        if width:
            output = forward(model, torch.tensor(token_ids, device=model.device), columns, None)
            self.cache = output.past_key_values
            # Only where prompts repeat: selecting copies the whole cache.
            if len(distinct) < len(prompts):
                self.cache.batch_select_indices(rows)

    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """The scores of the next token (rows x vocabulary) after one more token of each row.

        ``tokens`` has one token id for each row that goes on, in their order.
        """
        import torch

        new = torch.tensor(tokens, device=self._model.device)[:, None]
        self._visible = torch.cat([self._visible, torch.ones_like(new)], dim=1)
        out = forward(self._model, new, self._visible, self.cache)
        self.cache = out.past_key_values
        return out.logits[:, -1]

    def select(self, rows: Sequence[int]) -> None:
        """Go on with some of the rows, by their indices among those that went on so far.

        The others have ended and are not asked for again.
        """
        import torch

        chosen = torch.tensor(rows, device=self._model.device)
        self.cache.batch_select_indices(chosen)
        self._visible = self._visible[chosen]

    def keep(self, rows: Sequence[BatchRow]) -> None:
        """Nothing is kept: rows that leave are read again."""


def generate_recurrent(
    model: Any, rows: Sequence[BatchRow], pad_token: int, stop_tokens: frozenset[int]
) -> None:
    """Fill the rows by transformers' own loop, which knows how each recurrent model keeps its state.

    Our sampler chooses the tokens, as a logits processor that leaves one possible. Prompts are padded on the left with
    the token ``pad_token``, and so is what follows a row's end.
    """
    import torch

    padding = [max(len(row.prompt) for row in rows) - len(row.prompt) for row in rows]

    def drawn(_ids: Any, scores: torch.Tensor) -> torch.Tensor:
        live = [index for index, row in enumerate(rows) if row.finish_reason is None]
        tokens = draw_next(scores[live], [rows[index] for index in live], stop_tokens)
        forced = torch.full_like(scores, float("-inf"))
        forced[:, pad_token] = 0.0
        forced[live, pad_token] = float("-inf")
        forced[live, tokens] = 0.0
        return forced

    def ended(ids: torch.Tensor, _scores: Any, **_: Any) -> torch.Tensor:
        finished = all(row.finish_reason is not None for row in rows)
        return torch.full((ids.shape[0],), finished, dtype=torch.bool, device=ids.device)

    padded = [[pad_token] * pad + list(row.prompt) for pad, row in zip(padding, rows, strict=True)]
    visible = [[0] * pad + [1] * len(row.prompt) for pad, row in zip(padding, rows, strict=True)]
    model.generate(
        input_ids=torch.tensor(padded, device=model.device),
        attention_mask=torch.tensor(visible, device=model.device),
        max_new_tokens=max(row.decoding.max_tokens for row in rows),
        logits_processor=[drawn],
        stopping_criteria=[ended],
    )
