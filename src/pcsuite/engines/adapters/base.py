"""The interface between the suite and a model.

To plug a model in, subclass :class:`ModelAdapter` and write ``generate``. Everything else is optional and
has an honest default: no batching, no async, no tokenizer, no constraints.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, Literal, TypedDict

import msgspec
from pydantic import BaseModel, ConfigDict
from typing_extensions import NotRequired

from pcsuite._util.hashing import seed_from
from pcsuite._util.mappings import DataclassMapping
from pcsuite.config.spellings import hashed_regime_id
from pcsuite.engines.targets.workspaces import Workspace
from pcsuite.errors import ConstraintUnavailableError
from pcsuite.prompts.verbatim import decode_chat

ConstraintKind = Literal["json_schema", "regex", "cfg"]
JSON_ITEM_SEPARATOR, JSON_KEY_SEPARATOR = ", ", ": "
"""How enforced JSON is laid out: on one line with single spaces, as models have mostly read it.

Without any space a mask takes a model off its usual path: it ends lists empty and abstains, where it answers well
with them. With free white space a small model spends its whole budget on blank lines.
"""
LLGUIDANCE_JSON_LAYOUT: Mapping[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": JSON_ITEM_SEPARATOR,
    "key_separator": JSON_KEY_SEPARATOR,
}
LOCAL_TOKEN_COUNTS_KEPT = 20_000
"""Texts whose token counts a local model remembers."""
PAIR = "pair|"
"""What the perturbation of a judge's call begins with where it compares two answers."""
PROPOSER_CONDITION = "proposer"
"""Condition id of a call that asks for a prompt's text instead of an answer to an item."""


class Usage(TypedDict):
    """Tokens of one call."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cached_tokens: NotRequired[int]
    """Those of the prompt tokens that the server had cached; missing where it does not say."""
    reasoning_tokens: NotRequired[int]
    """Tokens of thought, which are billed as completion and no part of the answer; missing where it does not say."""


def token_usage(prompt: int, completion: int, cached: int | None = None) -> Usage:
    """The usage of a call from its two token counts, in their sum the whole; ``cached`` is part of ``prompt``.

    >>> token_usage(10, 5)
    {'prompt_tokens': 10, 'completion_tokens': 5, 'total_tokens': 15}
    """
    usage: Usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if cached is not None:
        usage["cached_tokens"] = cached
    return usage


class Generation(TypedDict):
    """What a call returns. ``finish_reason`` is the backend's own word (``stop``, ``length``, …)."""

    text: str
    finish_reason: str
    latency_ms: float | None
    """``None`` for the answer of a batch."""
    usage: Usage
    seed_honoured: NotRequired[bool]
    constraint_backend: NotRequired[str]
    usage_reported: NotRequired[bool]
    """False where the server counted no tokens: ``usage`` is then 0 and not a measurement."""
    usage_estimated: NotRequired[bool]
    """True where the server said that the call took no tokens: ``usage`` is then an estimate, set by the session."""
    cache_hit: NotRequired[bool]
    """True for a stored answer: ``usage`` is what it cost when it was generated, nothing is billed now."""
    attempts: NotRequired[int]
    """Tries it took, set by the session: 0 for a stored answer."""
    logprobs: NotRequired[list[tuple[str, float]]]
    """The answer's tokens and their log probabilities (natural), where the server was asked for them and gave them."""
    batch: NotRequired[str]
    """Id of the batch that the answer came in; such a call has no latency."""
    cost_usd: NotRequired[float]
    """What the server says that the call cost; it goes before any price list."""
    prompt_cut: NotRequired[int]
    """Characters of the prompt's beginning, where it was read by itself before the rest."""
    workspace: NotRequired[Workspace]
    """Of a target: the copy of a folder that it worked in. Whoever scores the answer removes it."""
    steps: NotRequired[int]
    """Steps that a target says it took."""
    tool_calls: NotRequired[int]
    """Calls of tools that a target says it made."""
    transcript: NotRequired[list[dict[str, Any]]]
    """What a target says it did, step by step."""
    loaded: NotRequired[list[dict[str, Any]]]
    """Sources that a target says it read, each with ``source`` and, where it says so, ``sha256``."""
    artifacts: NotRequired[Any]
    """What else a target made, as JSON."""
    stderr: NotRequired[str]
    """The end of what a command wrote to its standard error."""


@dataclass(frozen=True, slots=True)
class Decoding(DataclassMapping):
    """How to decode: the regime's parameters and the task's completion limit.

    An adapter may read it by attribute or as a mapping.

    >>> decoding = Decoding("D1", 0.7, 0.95, 64)
    >>> decoding.temperature, decoding["top_p"], decoding.get("max_tokens"), decoding.get("stop")
    (0.7, 0.95, 64, None)
    """

    id: str
    temperature: float
    top_p: float
    max_tokens: int

    def hashed(self) -> dict[str, Any]:
        """What rows' ids are made of; the regime by the name it has always had there.

        >>> Decoding("D0", 0.0, 1.0, 64).hashed()["id"]
        'd0_greedy'
        """
        return {**self, "id": hashed_regime_id(self.id)}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A hard constraint on the output, enforced while decoding.

    ``value`` is canonical JSON for ``json_schema``, a pattern for ``regex`` and a Lark grammar for ``cfg``.
    """

    kind: ConstraintKind
    value: str
    backend: str = "auto"
    """Who enforces it, by name in the registry of constraint backends; ``auto`` prefers the model's own."""
    program: str = ""
    """An LMQL query of the user's own, for the backend that runs such."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool with one text argument that a call offers to the model."""

    name: str
    description: str
    argument: str
    argument_description: str


class CallContext(msgspec.Struct, frozen=True):
    """What a call is for. A simulated model answers from it, a target gets item and files; models never see it."""

    task_id: str
    item_id: str
    condition_id: str
    operators: tuple[str, ...]
    perturbation: str
    gold: Callable[[], str]
    """The text of a perfect answer."""
    wrong: Callable[[Random], str]
    """The text of a well-formed but wrong answer."""
    judged_good: bool | None = None
    """Of a judge's call: whether the answer it judges is a good one; ``None`` for every other call."""
    question: str = ""
    """The item's input, which a model that may search looks for."""
    given: Mapping[str, Any] = {}
    """The item as a target gets it, without its truth (:meth:`pcsuite.data.items.Item.given`)."""
    files: Mapping[str, str] = {}
    """Files that a target works on, by name, and where they are."""
    folder: str = ""
    """Where a target's command is run; empty for its own folder."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model: all that determines the answer, and what it is for.

    The same value goes from a program through the session (cache, budget, retries, limits) to the adapter.
    """

    prompt: str
    decoding: Decoding
    seed: int = 0
    constraint: Constraint | None = None
    context: CallContext | None = None
    tools: tuple[Tool, ...] = ()
    """Tools the prompt offers in words. An adapter may offer them to its server natively as well; calls that
    come back that way are written into the text as ``Action: name["argument"]`` lines."""
    prompt_tokens: int | None = None
    """Length of the prompt by the model's own tokenizer, where it was counted."""
    step: str = ""
    """Name of the call within a program; empty for a row's first and only question."""
    row: str = ""
    """Id of the row that the call is for, by which a batch's answers find their way; empty for calls beside rows."""
    shared_chars: int = 0
    """Characters at the beginning that prompts of the same cell share, where that is known."""

    def then(
        self, step: str, prompt: str, *, max_tokens: int | None = None, tools: tuple[Tool, ...] = ()
    ) -> Request:
        """The next question of the same row.

        Its seed is derived from the row's seed and ``step``, so no two calls of any two replicates share a
        stream. ``max_tokens`` lowers the completion limit, for programs that share one between calls.

        >>> Request("Hi", Decoding("D0", 0.0, 1.0, 64)).then("retry-1", "Again", max_tokens=16).decoding.max_tokens
        16
        """
        decoding = self.decoding
        if max_tokens is not None and max_tokens < decoding.max_tokens:
            decoding = replace(decoding, max_tokens=max_tokens)
        # The very text that was counted: an equal one made anew is rare and not worth a comparison.
        same = prompt is self.prompt
        return replace(
            self,
            prompt=prompt,
            decoding=decoding,
            seed=derived_seed(self.seed, step),
            tools=tools,
            prompt_tokens=self.prompt_tokens if same else None,
            step=step,
            shared_chars=self.shared_chars if same else 0,
        )


def derived_seed(seed: int, step: str) -> int:
    """The seed of a named step of a row: a hash of the row's seed and the name (31 bits).

    Steps of one row thus sample independently, and the same step of the same row alike in every run.
    """
    return seed_from(f"{seed}|{step}")


def chat_messages(system: str | None, prompt: str) -> list[dict[str, str]]:
    """The prompt as the user's message of a chat, after the system message where there is one.

    Without it none is sent: the model's chat template may then put its own. A prompt that is a chat itself
    (:mod:`pcsuite.prompts.verbatim`) keeps its messages; its own system message goes before the model's.
    """
    messages = decode_chat(prompt) or [{"role": "user", "content": prompt}]
    if system is None or any(message["role"] == "system" for message in messages):
        return messages
    return [{"role": "system", "content": system}, *messages]


def system_apart(messages: list[dict[str, str]]) -> tuple[list[str], list[dict[str, str]]]:
    """A chat's standing instructions and its other messages, for wires that take the former beside the latter.

    ``developer`` is OpenAI's newer word for a system message, which other services refuse.

    >>> system_apart([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    (['Be brief.'], [{'role': 'user', 'content': 'Hi'}])
    """
    standing = [entry["content"] for entry in messages if entry["role"] in ("system", "developer")]
    return standing, [entry for entry in messages if entry["role"] not in ("system", "developer")]


class NoAdapterOptions(BaseModel):
    """Options of a provider that takes none."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True)
class Replica:
    """The smallest copy of a model that a cluster can place, and what it takes there."""

    options: BaseModel
    """The model's options as this copy uses them; they change no answer."""
    cpus: float = 1.0
    gpus: float = 0.0
    """GPUs, where the cluster has any; without them the copy runs on the CPU."""


def counted_generation(generation: Generation) -> Generation:
    """A generation whose token counts are numbers: where a backend left them empty they are 0 and not a measurement.

    >>> empty = {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None}
    >>> answer = {"text": "a", "finish_reason": "stop", "latency_ms": 1.0, "usage": empty}
    >>> counted_generation(answer)["usage"]["total_tokens"], answer["usage_reported"]
    (0, False)
    """
    counts: Mapping[str, Any] = generation.get("usage") or {}
    if any(counts.get(key) is None for key in ("prompt_tokens", "completion_tokens", "total_tokens")):
        generation["usage"] = token_usage(0, 0)
        generation["usage_reported"] = False
    return generation


class ModelAdapter(ABC):
    """A model that can be asked for text.

    ``Options`` validates the provider's own keys of a model entry; the adapter is built with them.
    """

    Options: ClassVar[type[BaseModel]] = NoAdapterOptions
    native_constraints: frozenset[ConstraintKind] = frozenset()
    """Kinds of constraint the model's own server or engine enforces."""
    writes_grammars: ClassVar[bool] = False
    """Whether its engine gets schemas as a grammar of :mod:`pcsuite.engines.grammar`."""
    service: ClassVar[str | None] = None
    """The service of ``schema_limits_v1.yaml`` that alone speaks this wire."""
    max_concurrency: int | None = None
    """How many calls may be in flight at once; ``None`` leaves it to the profile."""
    exclusive: ClassVar[bool] = False
    """Whether the model computes on this machine, so that such models run one after the other."""
    counts_remotely: bool = False
    """Whether :meth:`count_tokens` asks a server, so that it may block or fail as a call does."""
    stands_in: ClassVar[bool] = False
    """Whether it stands in for models that are not there: then it enforces what any backend would."""
    cacheable: bool = True
    """Whether the prompt, decoding, seed and constraint determine the answer, so that it may be reused."""
    takes_items: ClassVar[bool] = False
    """Whether it gets the item beside the prompt, which then need not show it."""
    own_costs: ClassVar[bool] = False
    """Whether it says itself what a call costs, so that a cost limit can hold without a price."""

    def __init__(
        self,
        model_id: str = "",
        options: BaseModel | None = None,
        *,
        id: str = "",
        family: str = "",
        size: str = "",
        provider: str = "",
    ) -> None:
        """``id`` is a second name of ``model_id``; what else an adapter may be told of its model, it is known by.

        A subclass whose own constructor takes ``(model_id, spec)`` gets the model's entry as a mapping.
        """
        self.model_id = self.id = model_id or id
        self.family, self.size, self.provider = family, size, provider
        self.options = options if options is not None else self.Options()

    @classmethod
    def takes_spec(cls) -> bool:
        """Whether the constructor wants the model's entry as a mapping (``spec``) and not validated options."""
        parameters = inspect.signature(cls.__init__).parameters
        return "spec" in parameters and "options" not in parameters

    @classmethod
    def enforceable(cls, options: BaseModel) -> frozenset[ConstraintKind]:
        """Kinds of constraint a model with these options would enforce, known without building it.

        By default :attr:`native_constraints`; a provider whose servers differ looks into the options.
        """
        return cls.native_constraints

    @classmethod
    def replica(cls, options: BaseModel) -> Replica:
        """One of the copies in which a cluster runs a model that computes where it is called.

        By default the model as configured, on one CPU; its answers are those of the model itself.
        """
        return Replica(options)

    @abstractmethod
    def generate(self, prompt: str, decoding: Decoding, seed: int) -> Generation:
        """Answer one prompt, within ``decoding``'s token limit; may block, and is called from threads.

        ``seed`` selects the random stream: where the backend takes one, equal arguments give equal text. A call that
        fails raises ``EngineError``, ``retryable`` where another try can help.
        """

    def generate_constrained(
        self, prompt: str, decoding: Decoding, seed: int, constraint: Constraint
    ) -> Generation:
        """Answer one prompt under a constraint the engine itself enforces; sets ``constraint_backend``.

        What it cannot enforce in full is a ``ConstraintUnavailableError``, as every constraint is by default.
        """
        raise ConstraintUnavailableError(
            f"model '{self.model_id}' cannot enforce a {constraint.kind} constraint while decoding"
        )

    async def agenerate(self, request: Request) -> Generation:
        """Answer one request without blocking the event loop.

        By default ``generate`` or, under a constraint, ``generate_constrained`` runs in a thread; adapters with
        connections or batches of their own override this.
        """
        arguments = (request.prompt, request.decoding, request.seed)
        if request.constraint is None:
            return counted_generation(await asyncio.to_thread(self.generate, *arguments))
        return await asyncio.to_thread(self.generate_constrained, *arguments, request.constraint)

    def count_tokens(self, text: str) -> int | None:
        """Tokens of ``text`` under the model's own tokenizer, or ``None`` where it cannot be asked.

        The text itself is counted; what a chat template adds is in ``usage`` only.
        """
        return None

    def identity(self) -> Mapping[str, str]:
        """What determines the model's answers: engine version, hash of the weights, options that change text.

        It is part of cache keys and of the manifest; what is not in it must change no answer.
        """
        return {}

    async def aclose(self) -> None:
        """Give back what the adapter holds (connections, processes) without blocking the event loop.

        By default :meth:`close` runs in a thread. No call may be made afterwards.
        """
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Give back what the adapter holds. By default nothing."""
