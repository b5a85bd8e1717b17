"""``lmql_program``: an LMQL query whose ``where`` clauses enforce the constraint.

By default the query is one hole with one clause, ``CONFORMS``: what is written in it conforms to the schema, pattern
or grammar. A task may bring a query of its own (``lmql_ref``). LMQL runs in the model's thread and shares the loaded
model; it asks for one token at a time wherever a clause restricts it, because it would otherwise decode ahead under a
mask that no longer holds. Its masks are soft (a bias of 100); here what is masked is impossible.

LMQL follows the text of a hole, which a token that holds part of a character does not change: its own masks are lost
there. The clauses that are added here, ``CONFORMS`` and ``MATCHES``, are therefore followed by the tokens themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from pcsuite._util.patterns import read_pattern
from pcsuite.constraints._steering import (
    LocalHfBackend,
    SteeredAnswer,
    TokenLimitReached,
    cannot_enforce,
    llguidance_tokenizer,
)
from pcsuite.engines.adapters.base import Constraint, Generation, ModelAdapter, Request
from pcsuite.engines.adapters.local_hf import LocalHfAdapter
from pcsuite.engines.grammar import llguidance_grammar
from pcsuite.errors import ConstraintUnavailableError, EngineError

AHEAD = 8
"""Tokens decoded per request where no clause restricts them."""


class LmqlBackend(LocalHfBackend):
    """JSON schemas, regular expressions, and queries of the user's own."""

    name: ClassVar[str] = "lmql_program"
    extra: ClassVar[str | None] = "lmql"
    libraries: ClassVar[tuple[str, ...]] = ("lmql", "llguidance")

    def generate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Run the query for one prompt, between the model's batches.

        An answer that is cut at its token limit has the finish reason ``length``. What the query would not enforce is
        a ``ConstraintUnavailableError``, any failure of LMQL an ``EngineError``.
        """
        model = self.steered(adapter)
        grammar = None if constraint.program else self.grammar(constraint, model)
        code = constraint.program or '"[ANSWER]" where CONFORMS(ANSWER)'
        return model.run_alone(lambda: self._run(SteeredAnswer(model, request), code, grammar)).result()

    def _run(self, answer: SteeredAnswer, code: str, grammar: str | None) -> Generation:
        adapter, limit = answer.adapter, answer.decoding.max_tokens
        client = _TokenClient(answer, grammar)
        text = ""
        active = _ACTIVE.set(client)
        try:
            text = asyncio.run(_execute(client, code))
            if grammar is not None:  # the one hole's own tokens: LMQL's text has no part of a character
                text = adapter.decode(client.hole_tokens)
        except ConstraintUnavailableError:
            raise
        except Exception as error:
            if client.cut is None:
                raise EngineError(f"LMQL failed: {type(error).__name__}: {error}") from error
        finally:
            _ACTIVE.reset(active)
        tokens = adapter.loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        finish_reason = "stop"
        if client.cut is not None or len(tokens) > limit:
            finish_reason = "length"
            tokens = client.cut if client.cut is not None else tokens[:limit]
            text = adapter.decode(tokens)
        return answer.generation(text, len(tokens), finish_reason, self.label())


async def _execute(client: _TokenClient, code: str) -> str:
    """Run the query and return what it wrote after the prompt."""
    from lmql.api.llm import LLM

    answer = client.answer
    query = _compiled(code)
    endpoint = _endpoint_class()(client)
    greedy = answer.decoding.temperature <= 0
    results = await query(
        prompt=answer.prompt,
        model=LLM(endpoint.model_identifier, adapter=endpoint),
        decoder="argmax" if greedy else "sample",
        # Our own token limit ends an answer, never LMQL's.
        max_len=1 << 20,
        **({} if greedy else {"temperature": answer.decoding.temperature}),
    )
    result = results[0] if isinstance(results, list) else results
    text = str(result.prompt)
    if not text.startswith(answer.prompt):
        raise EngineError("the query changed the prompt")
    return text[len(answer.prompt) :]


@lru_cache(maxsize=256)
def _compiled(code: str) -> Any:
    import lmql

    _register_clauses()
    return lmql.query('"{prompt}"\n' + code, input_variables=["prompt"], is_async=True)


class _TokenClient:
    """LMQL's view of the model: token streams from the loaded model, in this process."""

    def __init__(self, answer: SteeredAnswer, grammar: str | None) -> None:
        self.answer = answer
        self.grammar = grammar
        """What the whole answer conforms to, where the query is not the task's own."""
        self.cut: list[int] | None = None
        """The completion's tokens up to its limit, once it has gone beyond it."""
        self.hole_tokens: list[int] = []
        """The tokens of the hole that is being filled, or was last."""
        self._clause: str | None = None
        """The grammar that the next token has to follow."""
        self._begins = False
        self._matcher: Any = None
        self._written: list[int] | None = None

    def follow(self, grammar: str, *, begins: bool) -> None:
        """Mask the next token so that the hole can still conform to a grammar.

        ``begins`` says that the hole looks empty.
        """
        self._clause, self._begins = grammar, begins

    async def generate(
        self, prompt: list[int], *, max_tokens: int, logit_bias: Mapping[int, float] | None = None, **_: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Tokens after ``prompt``: one where a mask is given, else a few."""
        token_ids = [int(token) for token in prompt]
        count = 1 if logit_bias or self._clause else max(1, min(max_tokens, AHEAD))
        for index in range(count):
            token = self._next_token(token_ids, logit_bias)
            token_ids.append(token)
            ended = token in self.answer.adapter.loaded.stop_tokens
            finish = "stop" if ended else "length" if index == count - 1 else None
            # LMQL orders alternatives by score; there is one, and its value is not used.
            yield {"token": token, "logprob": 0.0, "top_logprobs": {token: 0.0}, "finish_reason": finish}
            if ended:
                return

    async def score(self, prompt: list[int], scored: list[int], **_: Any) -> AsyncIterator[dict[str, Any]]:
        """Scores of given tokens, which only ``distribution`` clauses and beam search would use."""
        raise EngineError("this LMQL backend decodes by argmax or sample only")
        yield {}

    async def close(self) -> None:
        """Nothing is held."""

    def _next_token(self, token_ids: list[int], bias: Mapping[int, float] | None) -> int:
        answer, start = self.answer, len(self.answer.prompt_ids)
        limit = start + answer.decoding.max_tokens
        if len(token_ids) >= limit:
            if self.cut is None:
                self.cut = token_ids[start:limit]
            raise TokenLimitReached
        width = answer.adapter.loaded.model.config.get_text_config().vocab_size
        allowed = self._conforming(token_ids, width)
        if bias:
            positive = next(iter(bias.values())) > 0
            biased = np.full(width, not positive)
            biased[np.fromiter((token for token in bias if token < width), dtype=np.int64)] = positive
            allowed &= biased
        token = answer.draw(answer.forward.logits(token_ids)[:width], allowed, len(token_ids) - start)
        if self._matcher is not None:
            ended = token in answer.adapter.loaded.stop_tokens
            self._written = None if ended else [*token_ids, token]
            if not ended:
                self.hole_tokens.append(token)
                self._matcher.consume_token(token)
        return token

    def _conforming(self, token_ids: list[int], width: int) -> np.ndarray:
        """Which tokens may come next by the clause that was asked last; all where there is none."""
        grammar, self._clause = self._clause, None
        if grammar is None:
            self._matcher = None
            return np.ones(width, dtype=bool)
        import llguidance.numpy
        from llguidance import LLMatcher

        tokenizer = llguidance_tokenizer(self.answer.adapter)
        # A hole that looks empty may hold part of a character: it is a new one only where text came between.
        if self._matcher is None or (self._begins and token_ids != self._written):
            self.hole_tokens = []
            self._matcher = LLMatcher(tokenizer, grammar)
        mask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
        llguidance.numpy.fill_next_token_bitmask(self._matcher, mask, 0)
        if problem := self._matcher.get_error():
            raise cannot_enforce("lmql_program", "this clause", problem)
        bits = np.unpackbits(mask.view(np.uint8), bitorder="little").astype(bool)
        allowed = np.zeros(width, dtype=bool)
        allowed[: min(len(bits), width)] = bits[:width]
        return allowed


@lru_cache(maxsize=1)
def _endpoint_class() -> type[Any]:
    """LMQL's model adapter around a :class:`_TokenClient`."""
    from lmql.api.llm import ModelAPIAdapter
    from lmql.models.lmtp.lmtp_dcmodel import LMTPDcModel

    class SharedModelEndpoint(ModelAPIAdapter):  # type: ignore[misc]
        def __init__(self, client: _TokenClient) -> None:
            self._tokenizer = _lmql_tokenizer(client.answer.adapter)
            self._client = client
            self.model_identifier = self._tokenizer.model_identifier
            self.decoder_args: dict[str, Any] = {}
            self.num_queries = 0
            self.served_model = self

        def get_tokenizer(self) -> Any:
            return self._tokenizer

        def get_dclib_model(self) -> Any:
            arguments = {key: value for key, value in self.decoder_args.items() if key != "model"}
            return LMTPDcModel(
                self,
                self._tokenizer,
                endpoint=None,
                inprocess=True,
                lmtp_server_kwargs={},
                inprocess_client_constructor=lambda _identifier: self._client,
                **arguments,
            )

        async def tokenize(self, text: str) -> Any:
            return self._tokenizer.tokenize(text, asbytes=True)

        async def detokenize(self, input_ids: Any) -> Any:
            return self._tokenizer.decode(input_ids)

    return SharedModelEndpoint


def _lmql_tokenizer(adapter: LocalHfAdapter) -> Any:
    """The model's tokenizer as LMQL takes it; named by the weights, since LMQL caches by name."""
    if "lmql" not in adapter.backend_state:
        from lmql.runtime.tokenizer import LMQLTokenizer
        from lmql.runtime.tokenizers.hf_tokenizer import TransformersTokenizer

        name = f"pcsuite-{adapter.loaded.weights_sha256[:16]}"
        implementation = TransformersTokenizer(name, adapter.loaded.tokenizer)
        adapter.backend_state["lmql"] = LMQLTokenizer(name, tokenizer_impl=implementation)
    return adapter.backend_state["lmql"]


_ACTIVE: ContextVar[_TokenClient] = ContextVar("pcsuite_lmql_client")
"""Who fills the holes of the query that is running."""


@lru_cache(maxsize=1)
def _register_clauses() -> None:
    """Add ``MATCHES(VARIABLE, pattern)`` and ``CONFORMS(VARIABLE)`` to LMQL's clauses.

    LMQL's own REGEX derives patterns in Python, token by token over the vocabulary, and only follows those that need no
    backtracking; llguidance does it exactly and at once.
    """
    from lmql.ops.follow_map import fmap
    from lmql.ops.node import Node
    from lmql.ops.ops import LMQLOp, strip_next_token

    class MatchesOp(Node):  # type: ignore[misc]
        def forward(self, *args: Any, **_: Any) -> Any:
            if any(argument is None for argument in args):
                return None
            return read_pattern(args[1], "answer").fullmatch(args[0])

        def follow(self, *args: Any, **_: Any) -> Any:
            if any(argument is None for argument in args):
                return None
            value = strip_next_token(args[0])
            if value == args[0]:
                return fmap(("*", self.forward(*args)))
            _ACTIVE.get().follow(self.grammar(*args[1:]), begins=not value)
            return fmap(("*", True))

        def grammar(self, *pattern: str) -> str:
            return llguidance_grammar(Constraint("regex", *pattern))

        def final(self, finals: Any, **_: Any) -> str:
            return "fin" if finals[0] == "fin" else "var"

    class ConformsOp(MatchesOp):
        def forward(self, *args: Any, **_: Any) -> Any:
            # The mask alone decides: it ends a hole only where it conforms.
            return None if args[0] is None else True

        def grammar(self, *_: str) -> str:
            grammar = _ACTIVE.get().grammar
            assert grammar is not None, "queries of the task's own have MATCHES"
            return grammar

    LMQLOp("MATCHES")(MatchesOp)
    LMQLOp("CONFORMS")(ConformsOp)
