"""``simulated``: not a language model, but answers drawn from true effects that are set in YAML.

Every interval and test of the suite can be held against a truth that is known here, and runs of any length
can be rehearsed. An answer is right with probability

    logistic(logit(base_accuracy) + Σ operator effects + Σ interactions − perturbation penalty + item + noise),

where ``item`` ~ N(0, item_difficulty_sd²) belongs to (task, item), the same for all conditions and models,
and ``noise`` ~ N(0, seed_noise_sd²) to one call. All draws are hashes of names (model, task, item, condition,
perturbation, seed), so they depend on no order and no global state. The operators of a compiled free text are those
whose cues it shows; asked for an instruction, the model writes operator sentences without knowing their worth. Where it
is offered a tool it searches once, for what it was asked, and answers in the next turn.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from random import Random
from statistics import NormalDist
from typing import Annotated, ClassVar

from pydantic import BaseModel, Field

from pcsuite._util.hashing import sha256_hex
from pcsuite.config.bundled import bundled_operators
from pcsuite.config.definitions import Definition
from pcsuite.engines.adapters.base import (
    PAIR,
    PROPOSER_CONDITION,
    CallContext,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Request,
    Tool,
    token_usage,
)
from pcsuite.engines.canary import CANARY_TASK
from pcsuite.errors import EngineError

NOTHING_TO_SAY = "These are texts of one kind, and each calls for one answer."
OPENING = "Do the task for the input that follows."
Probability = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]

QUERY_CHARACTERS = 300
CONSTRAINT_BACKEND = "native:simulated"
PROVIDER = "simulated"
_STANDARD_NORMAL = NormalDist()
# An operator may carry arguments after its name, as ``EXEMPLARS(k=2)`` or ``EXEMPLARS:2``.
_AFTER_NAME = re.compile(r"\W")
_UNBRACED = str.maketrans("{}[]", "()()")


class SimulatedJudge(Definition):
    """How a simulated model judges. A rate is one number, or by condition with ``default`` for the rest."""

    sensitivity: Share | dict[str, Share] = 0.9
    """Chance that a good answer is judged good; of pairs, that the better one is said to be."""
    specificity: Share | dict[str, Share] = 0.9
    """Chance that a bad answer is judged bad."""
    unreadable: Share | dict[str, Share] = 0.0
    """Share of replies that hold no verdict."""
    first_bias: Share = 0.0
    """Share of pairs in which the answer shown first is preferred, whatever it is."""


class SimulatedOptions(Definition):
    """Keys of a model whose provider is ``simulated``. Effects are on the logit scale."""

    base_accuracy: Probability | dict[str, Probability] = 0.5
    """Chance of a right answer to an item of average difficulty with no operator: one number, or by task
    with ``default`` for the rest."""
    operator_effects: dict[str, float] = Field(default_factory=dict)
    """What each operator adds; by default the ``simulated.effect`` of the operators file."""
    task_effects: dict[str, dict[str, float]] = Field(default_factory=dict)
    """By task: operator effects that replace the general ones."""
    interaction_effects: dict[str, float] = Field(default_factory=dict)
    """What operators add together, beyond what each adds: ``A*B`` counts where both are there. Two that say the same
    have an interaction as large as their effects and negative."""
    item_difficulty_sd: float = Field(default=1.0, ge=0)
    """Spread of item difficulty."""
    seed_noise_sd: float = Field(default=0.0, ge=0)
    """Spread between calls on the same item and condition."""
    json_validity: Probability = 0.9
    """Chance that a JSON answer is well-formed with no operator and no constraint."""
    json_effects: dict[str, float] = Field(default_factory=dict)
    """What each operator adds to the logit of well-formedness; a hard constraint makes it certain."""
    operator_sentences: dict[str, str] = Field(default_factory=dict)
    """Sentences that do the work of operators besides the bundled ones, for instructions it is asked to write."""
    abstain_rate: Share = 0.0
    """Share of calls that abstain, whatever the item."""
    abstain_text: dict[str, str] = Field(default_factory=dict)
    """By task: the text of an abstention."""
    perturbation_penalties: dict[str, float] = Field(default_factory=dict)
    """By kind of perturbation: what it takes from the logit."""
    mean_completion_tokens: int = Field(default=60, ge=1)
    """Average completion length."""
    judging: SimulatedJudge = SimulatedJudge()
    """How well it judges where it is a task's judge."""
    latency_ms: float = Field(default=0.0, ge=0)
    """Time every call takes."""
    error_rate: Share = 0.0
    """Share of calls whose first attempt fails as an overloaded server would."""
    fatal_error_rate: Share = 0.0
    """Share of calls that fail at every attempt."""


class SimulatedAdapter(ModelAdapter):
    """A model whose true effects are known."""

    Options: ClassVar[type[BaseModel]] = SimulatedOptions
    native_constraints: frozenset[ConstraintKind] = frozenset({"json_schema", "regex", "cfg"})
    cacheable = False
    stands_in: ClassVar[bool] = True
    options: SimulatedOptions

    def __init__(self, model_id: str, options: BaseModel | None = None) -> None:
        super().__init__(model_id, options)
        self._failed_once: set[bytes] = set()
        # Partials of functions, not methods: a cache around a bound method would keep the adapter.
        self._right_logit = lru_cache(4096)(partial(accuracy_logit, self.options))
        self._json_chance = lru_cache(4096)(partial(json_probability, self.options))
        self._sentences = bundled_sentences() | self.options.operator_sentences

    def generate(self, prompt: str, decoding: Decoding, seed: int) -> Generation:
        """Refuse: without the call's context there is nothing to answer from."""
        raise EngineError(
            f"model '{self.model_id}' is simulated and answers only within a run",
            hint="use 'pcsuite run', or give the request a context",
        )

    async def agenerate(self, request: Request) -> Generation:
        """Draw an answer for the call that the request's ``context`` describes.

        Raises :class:`EngineError` where there is no context, and for the share of calls that are to fail.
        """
        prompt, context, options = request.prompt, request.context, self.options
        if context is None:
            return self.generate(prompt, request.decoding, request.seed)
        if options.latency_ms:
            await asyncio.sleep(options.latency_ms / 1000)
        digest, (failure, noise, right, valid, abstain, length) = _drawn(
            self.model_id,
            context.task_id,
            context.item_id,
            context.condition_id,
            context.perturbation,
            str(request.seed),
        )
        if context.task_id == CANARY_TASK:
            abstain = 1.0
        elif failure < options.fatal_error_rate:
            raise EngineError(f"model '{self.model_id}': simulated failure", status=400)
        elif failure < options.fatal_error_rate + options.error_rate and digest not in self._failed_once:
            self._failed_once.add(digest)
            raise EngineError(f"model '{self.model_id}': simulated overload", status=503, retryable=True)
        if context.condition_id == PROPOSER_CONDITION:
            rng = Random(digest + prompt.encode("utf-8", "surrogatepass"))
            text = propose_instruction(prompt, rng, self._sentences)
            valid = 0.0
        elif context.judged_good is not None:
            text = simulated_verdict(options.judging, context, (noise, right, abstain), Random(digest))
            valid = 0.0
        elif request.tools and request.step.endswith("-1"):
            text = first_search(request.tools[0], context.question)
            valid = 0.0
        elif abstain < options.abstain_rate:
            text = options.abstain_text.get(context.task_id, "")
            if not text:
                text = '{"abstained": true}' if context.gold().lstrip().startswith("{") else "I cannot tell."
        else:
            chance = self._right_logit(context.task_id, context.operators, context.perturbation)
            if options.item_difficulty_sd:
                chance += options.item_difficulty_sd * item_deviate(context.task_id, context.item_id)
            if options.seed_noise_sd:
                chance += options.seed_noise_sd * _STANDARD_NORMAL.inv_cdf(noise)
            text = context.gold() if right < logistic(chance) else context.wrong(Random(digest))
        malformed = request.constraint is None and valid >= self._json_chance(context.operators)
        if malformed and text.lstrip().startswith(("{", "[")):  # beyond repair: no brace is left
            text = "The answer is: " + text.translate(_UNBRACED)
        drawn = round(options.mean_completion_tokens * (0.5 + length))
        completion_tokens = max(1, min(drawn, request.decoding.max_tokens))
        generation: Generation = {
            "text": text,
            "finish_reason": "stop",
            "latency_ms": options.latency_ms,
            "usage": token_usage(self.count_tokens(prompt), completion_tokens),
            "seed_honoured": True,
        }
        if request.constraint is not None:
            generation["constraint_backend"] = CONSTRAINT_BACKEND
        return generation

    def count_tokens(self, text: str) -> int:
        """One token for four UTF-8 bytes, rounded up: a stand-in of plausible size."""
        return -(-len(text.encode("utf-8", "surrogatepass")) // 4)

    def identity(self) -> Mapping[str, str]:
        """The provider's name and a hash of the true effects."""
        # Left out where empty, so that a model without them keeps its identity.
        optional = ("operator_sentences", "interaction_effects")
        unset = {name for name in optional if not getattr(self.options, name)}
        if self.options.judging == SimulatedJudge():
            unset.add("judging")
        settings = self.options.model_dump_json(exclude=unset)
        return {"engine": PROVIDER, "options_sha256": sha256_hex(settings)}


def accuracy_logit(
    options: SimulatedOptions, task_id: str, operators: Iterable[str], perturbation: str = "none"
) -> float:
    """Logit of a right answer to an item of average difficulty.

    The base rate of the task, plus the effect of each operator (a task's own go before the general ones; an operator
    may carry arguments, as ``EXEMPLARS(k=2)``) and of those that are there together, minus the penalty of the
    perturbation's kind.
    """
    base = options.base_accuracy
    if isinstance(base, dict):
        base = base.get(task_id, base.get("default", 0.5))
    effects = {**options.operator_effects, **options.task_effects.get(task_id, {})}
    plain = {operator: _AFTER_NAME.split(operator, 1)[0] for operator in operators}
    names = list(plain.values())
    # One that is moved, repeated or blanked (``VERIFIER@start``) may have an effect of its own.
    total = sum(effects.get(operator, effects.get(name, 0.0)) for operator, name in plain.items())
    for together, effect in options.interaction_effects.items():
        if set(names).issuperset(together.split("*")):
            total += effect
    return math.log(base / (1 - base)) + total - options.perturbation_penalties.get(perturbation, 0.0)


def first_search(tool: Tool, question: str) -> str:
    """What the model writes in the first turn of a loop that searches: it looks for what it was asked.

    >>> print(first_search(Tool("search", "Find pages.", "query", "What."), 'Is "Soul Food" a film?'))
    Action: search["Is 'Soul Food' a film?"]
    """
    query = " ".join(question.replace('"', "'").split())[:QUERY_CHARACTERS]
    return f'Action: {tool.name}["{query}"]'


def simulated_verdict(
    judging: SimulatedJudge, context: CallContext, drawn: tuple[float, float, float], rng: Random
) -> str:
    """What a simulated judge replies: the true verdict as often as its rates for the condition say, else the other.

    ``drawn`` are three numbers between 0 and 1: for the bias to the first, for being right, for being readable.
    """

    def rate(setting: float | dict[str, float]) -> float:
        if isinstance(setting, dict):
            return setting.get(context.condition_id, setting.get("default", 0.9))
        return setting

    bias, right, readable = drawn
    if readable < rate(judging.unreadable):
        return "I would rather not say."
    if context.perturbation.startswith(PAIR) and bias < judging.first_bias:
        return '{"better": "A"}'
    is_right = right < rate(judging.sensitivity if context.judged_good else judging.specificity)
    return context.gold() if is_right else context.wrong(rng)


def json_probability(options: SimulatedOptions, operators: Iterable[str]) -> float:
    """Chance of a well-formed JSON answer without a hard constraint, which makes it certain."""
    total = sum(options.json_effects.get(_AFTER_NAME.split(operator, 1)[0], 0.0) for operator in operators)
    valid = options.json_validity
    return logistic(math.log(valid / (1 - valid)) + total)


@lru_cache(maxsize=200_000)
def item_deviate(task_id: str, item_id: str) -> float:
    """The item's standard normal deviate: how much easier than average it is, in standard deviations."""
    return _STANDARD_NORMAL.inv_cdf(_drawn("item", task_id, item_id)[1][0])


def logistic(value: float) -> float:
    """The probability of log odds, for any value."""
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    odds = math.exp(value)
    return odds / (1 + odds)


def propose_instruction(prompt: str, rng: Random, sentences: Mapping[str, str] | None = None) -> str:
    """What the model writes when it is asked for an instruction: sentences that do the work of operators.

    It knows a sentence for each operator (``sentences``, else the bundled ones) and nothing of what operators are
    worth. Asked without any of its sentences in the prompt, it takes each with chance one half; asked to vary an
    instruction that holds some, it puts one or two operators in or out. Of several instructions it varies the last one:
    lists of attempts end with the best. Asked for anything else (optimisers want the data described, say), it writes a
    line that does no operator's work.
    """
    sentences = bundled_sentences() if sentences is None else sentences
    request = prompt.rstrip().rpartition("\n\n")[2]
    if "instruction" not in request.casefold():
        return NOTHING_TO_SAY
    instruction = prompt.rpartition(OPENING)[2]
    held = {name for name, sentence in sentences.items() if sentence in instruction}
    if held:
        for name in rng.sample(list(sentences), 1 if rng.random() < 0.6 else 2):
            held ^= {name}
    else:
        held = {name for name in sentences if rng.random() < 0.5}
    return "\n".join([OPENING, *(sentence for name, sentence in sentences.items() if name in held)])


@lru_cache(maxsize=1)
def bundled_sentences() -> dict[str, str]:
    """One sentence for each bundled operator that words alone can do; each shows exactly its operator's cue."""
    operators = bundled_operators().items()
    sentences = {name: spec.simulated.sentence for name, spec in operators if spec.simulated}
    return {name: sentence for name, sentence in sentences.items() if sentence}


def _drawn(*names: str) -> tuple[bytes, list[float]]:
    """The hash of some names, and six independent numbers strictly between 0 and 1 made from it."""
    digest = hashlib.blake2b("\x1f".join(names).encode("utf-8", "surrogatepass"), digest_size=48).digest()
    return digest, [
        min(max(word * 2.0**-64, 2.0**-53), 1 - 2.0**-53) for word in struct.unpack("<6Q", digest)
    ]
