"""Asking a judge: a task's questions about an answer become calls through the session, and calls verdicts.

The judge is a model of the session like any other: its calls are limited, budgeted, retried and cached as every call
is. It is asked at temperature 0, and its reply is held to the schema where its engine can enforce one (and the canary
shows that it does).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence

from pcsuite._util.hashing import sha256_hex
from pcsuite.config.definitions import JudgeSpec
from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import CallContext, Constraint, Decoding, Request
from pcsuite.engines.constrained import choose_backend
from pcsuite.engines.limits import calls_cost
from pcsuite.engines.session import ModelClient
from pcsuite.errors import ConstraintUnavailableError
from pcsuite.evaluation.base import Answer, Evaluator, JudgeCall, JudgeQuestion
from pcsuite.evaluation.judged import read_reply, reply_schema, reply_tokens

ContextOf = Callable[[JudgeQuestion], CallContext]
"""What a question is for, which only a simulated judge looks at."""


class Judge:
    """A task's judge, opened."""

    def __init__(self, spec: JudgeSpec, client: ModelClient, *, counted: bool = False) -> None:
        """``counted`` judges the calls' error rate by the session, for whoever writes no rows."""
        self.spec = spec
        self.client = client
        self._ask = client.ask_counted if counted else client.ask
        self.decoding = Decoding("judge", temperature=0.0, top_p=1.0, max_tokens=reply_tokens(spec))
        self._constraint: Constraint | None = None
        self._proved = False
        self._proving = asyncio.Lock()

    async def verdicts(
        self,
        evaluator: Evaluator,
        item: Item,
        answer: Answer,
        control: Answer | None,
        context_of: ContextOf,
        seed: int = 0,
    ) -> list[JudgeCall]:
        """The judge's calls about an answer, in order, each with its verdict as far as it can be read.

        ``control`` is what a judge of pairs compares it with. Raises :class:`~pcsuite.errors.EngineError` where a call
        failed for good: then there is no verdict, and the row is tried again on resume.
        """
        questions: Sequence[JudgeQuestion | JudgeCall] = evaluator.questions(item, answer, control)
        return [
            question
            if isinstance(question, JudgeCall)
            else await self.ask(question, context_of(question), seed)
            for question in questions
        ]

    async def ask(self, question: JudgeQuestion, context: CallContext, seed: int = 0) -> JudgeCall:
        """One question asked and its reply read; ``seed`` other than 0 asks the same anew.

        The verdict is ``None`` where the reply holds none. Raises :class:`~pcsuite.errors.EngineError` where the call
        failed for good.
        """
        constraint = await self._enforced()
        reply = await self._ask(Request(question.prompt, self.decoding, seed, constraint, context))
        usage = reply["usage"]
        return read_reply(
            self.spec,
            JudgeCall(
                judge=self.client.model_id,
                verdict=None,
                text=reply["text"],
                finish_reason=reply["finish_reason"],
                prompt_hash=sha256_hex(question.prompt),
                order=question.order,
                other=question.other,
                constraint_backend=reply.get("constraint_backend"),
                prompt_tokens=usage["prompt_tokens"],
                completion_tokens=usage["completion_tokens"],
                cost_usd=calls_cost(self.client.price, [reply]),
                latency_ms=reply["latency_ms"],
                cache_hit=reply.get("cache_hit", False),
            ),
        )

    async def _enforced(self) -> Constraint | None:
        """The reply's schema as a constraint, where the judge's engine is shown to enforce it; found out once."""
        async with self._proving:
            if not self._proved:
                adapter = self.client.adapter
                schema = json.dumps(reply_schema(self.spec))
                try:
                    backend = choose_backend("auto", type(adapter), adapter.options, "json_schema")
                    constraint = Constraint("json_schema", schema, backend.name)
                    if await self.client.why_unenforced(constraint) is None:
                        self._constraint = constraint
                except ConstraintUnavailableError:
                    self._constraint = None
                self._proved = True
        return self._constraint
