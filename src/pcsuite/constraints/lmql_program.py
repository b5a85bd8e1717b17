"""``lmql_program``: an LMQL query whose ``where`` clauses enforce the constraint.

The query is compiled from the schema, or the task's own (``lmql_ref``). LMQL runs in the model's thread and
shares the loaded model; it asks for one token at a time wherever a clause restricts it, because it would
otherwise decode ahead under a mask that no longer holds. Its masks are soft (a bias of 100); here what is
masked is impossible.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel

from pcsuite.constraints._steering import (
    LocalHfBackend,
    SteeredAnswer,
    TokenLimitReached,
    cannot_enforce,
    json_schema_of,
    llguidance_tokenizer,
)
from pcsuite.constraints.lmql_compile import compile_regex, compile_schema
from pcsuite.engines.adapters.base import Constraint, ConstraintKind, Generation, ModelAdapter, Request
from pcsuite.engines.adapters.local_hf import LocalHfAdapter
from pcsuite.errors import ConstraintUnavailableError, EngineError

AHEAD = 8
"""Tokens decoded per request where no clause restricts them."""


class LmqlBackend(LocalHfBackend):
    """JSON schemas, regular expressions, and queries of the user's own."""

    name: ClassVar[str] = "lmql_program"
    extra: ClassVar[str | None] = "lmql"
    libraries: ClassVar[tuple[str, ...]] = ("lmql", "llguidance")

    def steers(self, provider: type[ModelAdapter], options: BaseModel, kind: ConstraintKind) -> bool:
        """Models of provider ``hf``; LMQL has no context-free grammars."""
        return kind != "cfg" and super().steers(provider, options, kind)

    def generate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Run the query for one prompt, between the model's batches.

        An answer that is cut at its token limit has the finish reason ``length``. What the query would not enforce is
        a ``ConstraintUnavailableError``, any failure of LMQL an ``EngineError``.
        """
        model = self.steered(adapter)
        code = query_code(constraint)
        return model.run_alone(lambda: self._run(SteeredAnswer(model, request), code)).result()

    def _run(self, answer: SteeredAnswer, code: str) -> Generation:
        adapter, limit = answer.adapter, answer.decoding.max_tokens
        client = _TokenClient(answer)
        text = ""
        active = _ACTIVE.set((llguidance_tokenizer(adapter), _lmql_tokenizer(adapter).vocab_size))
        try:
            text = asyncio.run(_execute(client, code))
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


@lru_cache(maxsize=256)
def query_code(constraint: Constraint) -> str:
    """The body of the query that enforces a constraint: the task's own, or one compiled from schema or pattern.

    A schema with a keyword that the query would not enforce, and any grammar, is a ``ConstraintUnavailableError``.
    """
    if constraint.program:
        return constraint.program
    if constraint.kind == "json_schema":
        try:
            return compile_schema(json_schema_of(constraint))
        except ValueError as error:
            raise cannot_enforce("lmql_program", "this schema", error) from error
    if constraint.kind == "regex":
        return compile_regex(constraint.value)
    raise ConstraintUnavailableError("constraint backend 'lmql_program' cannot enforce a cfg constraint")


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
        max_len=1 << 20,
        **({} if greedy else {"temperature": answer.decoding.temperature}),
    )
    result = results[0] if isinstance(results, list) else results
    whole = str(result.prompt)
    if not whole.startswith(answer.prompt):
        raise EngineError("the query changed the prompt")
    return whole[len(answer.prompt) :]


@lru_cache(maxsize=256)
def _compiled(code: str) -> Any:
    import lmql

    _register_matches()
    return lmql.query('"{prompt}"\n' + code, input_variables=["prompt"], is_async=True)


class _TokenClient:
    """LMQL's view of the model: token streams from the loaded model, in this process."""

    def __init__(self, answer: SteeredAnswer) -> None:
        self.answer = answer
        self.cut: list[int] | None = None
        """The completion's tokens up to its limit, once it has gone beyond it."""

    async def generate(
        self, prompt: list[int], *, max_tokens: int, logit_bias: Mapping[int, float] | None = None, **_: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """Tokens after ``prompt``: one where a mask is given, else a few."""
        token_ids = [int(token) for token in prompt]
        wanted = 1 if logit_bias else max(1, min(max_tokens, AHEAD))
        for index in range(wanted):
            token = self._next_token(token_ids, logit_bias)
            token_ids.append(token)
            ended = token in self.answer.adapter.loaded.stop_tokens
            finish = "stop" if ended else "length" if index == wanted - 1 else None
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
        allowed = np.ones(width, dtype=bool)
        if bias:
            positive = next(iter(bias.values())) > 0
            allowed[:] = not positive
            indices = np.fromiter((token for token in bias if token < width), dtype=np.int64)
            allowed[indices] = positive
        return answer.draw(answer.forward.logits(token_ids)[:width], allowed, len(token_ids) - start)


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


_ACTIVE: ContextVar[tuple[Any, int]] = ContextVar("pcsuite_lmql_matching")
"""What MATCHES needs of the model that is being steered: llguidance's tokenizer and the size of LMQL's vocabulary."""


def _allowed_tokens(pattern: str, value: str) -> Any:
    """Which tokens may follow ``value`` so that it can still become a match: one boolean a token of LMQL's vocabulary.

    ``None`` where ``value`` itself cannot begin a match; a pattern that cannot be followed is refused.
    """
    import llguidance.numpy
    from llguidance import LLMatcher

    tokenizer, vocabulary = _ACTIVE.get()
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_regex(pattern))
    _raise_problem(matcher, pattern)
    tokens = tokenizer.tokenize_str(value) if value else []
    if tokens and not matcher.consume_tokens(tokens):
        return None
    mask = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    llguidance.numpy.fill_next_token_bitmask(matcher, mask, 0)
    _raise_problem(matcher, pattern)
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little").astype(bool)
    allowed = np.zeros(vocabulary, dtype=bool)
    size = min(len(bits), vocabulary, tokenizer.vocab_size)
    allowed[:size] = bits[:size]
    return allowed


def _raise_problem(matcher: Any, pattern: str) -> None:
    """A pattern that cannot be followed must not pass for one that nothing matches: the hole would stay empty."""
    problem = matcher.get_error()
    if problem:
        raise cannot_enforce("lmql_program", f"the pattern {pattern!r}", problem)


@lru_cache(maxsize=1)
def _register_matches() -> None:
    """Add ``MATCHES(VARIABLE, pattern)`` to LMQL's constraints.

    LMQL's own REGEX derives patterns in Python, token by token over the vocabulary, and only follows those
    that need no backtracking; llguidance does it exactly and at once.
    """
    from lmql.ops.follow_map import fmap
    from lmql.ops.node import Node
    from lmql.ops.ops import LMQLOp, strip_next_token
    from lmql.ops.token_set import TokenSetConcrete

    class MatchesOp(Node):  # type: ignore[misc]
        def forward(self, *args: Any, **_: Any) -> Any:
            if any(argument is None for argument in args):
                return None
            return re.fullmatch(args[1], args[0]) is not None

        def follow(self, *args: Any, **_: Any) -> Any:
            if any(argument is None for argument in args):
                return None
            value, pattern = strip_next_token(args[0]), args[1]
            if value == args[0]:
                return fmap(("*", re.fullmatch(pattern, value) is not None))
            allowed = _allowed_tokens(pattern, value)
            if allowed is None or not allowed.any():
                return False
            return fmap((TokenSetConcrete(mask=allowed), True))

        def final(self, finals: Any, **_: Any) -> str:
            return "fin" if finals[0] == "fin" else "var"

    LMQLOp("MATCHES")(MatchesOp)
