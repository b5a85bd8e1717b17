"""``guidance_cfg``: the guidance library decodes within a grammar, a regular expression or a JSON schema.

guidance has its own decoding loop, which forces tokens forward where the grammar leaves no choice. Two of its
parts are replaced: its key–value cache (it calls ``crop`` in a way that transformers 5.20 no longer accepts)
and its sampler (which draws from NumPy's global state and cannot be seeded). One answer at a time.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pcsuite.constraints._steering import LocalHfBackend, SteeredAnswer, TokenLimitReached
from pcsuite.engines.adapters.base import Constraint, Generation, ModelAdapter, Request
from pcsuite.engines.adapters.local_hf import LocalHfAdapter
from pcsuite.errors import EngineError


class GuidanceBackend(LocalHfBackend):
    """Grammars and regular expressions first of all; JSON schemas too."""

    name: ClassVar[str] = "guidance_cfg"
    extra: ClassVar[str | None] = "guidance"
    libraries: ClassVar[tuple[str, ...]] = ("guidance", "llguidance")

    def generate_constrained(
        self, adapter: ModelAdapter, request: Request, constraint: Constraint
    ) -> Generation:
        """Answer one prompt within the constraint, between the model's batches.

        An answer that is cut at its token limit has the finish reason ``length``; a constraint that guidance or
        llguidance cannot enforce is a ``ConstraintUnavailableError``, any failure of guidance an ``EngineError``.
        """
        model = self.steered(adapter)
        grammar = self.grammar(constraint, model)
        return model.run_alone(lambda: self._decode(SteeredAnswer(model, request), grammar)).result()

    def _decode(self, answer: SteeredAnswer, grammar: str) -> Generation:
        from guidance.models._engine._state import EngineState

        engine = _engine(answer.adapter)
        engine.start(answer)
        state = EngineState()
        state.prompt = answer.prompt
        text = bytearray()
        finish_reason = "stop"
        try:
            for part in engine(state, grammar, ensure_bos_token=False):
                if part.backtrack_bytes and text.endswith(part.backtrack_bytes):
                    del text[-len(part.backtrack_bytes) :]
                text += part.new_bytes
        except TokenLimitReached as limit:
            finish_reason = "length"
            # Forced tokens come several at once, so the limit may have been passed.
            engine.completion_tokens = answer.decoding.max_tokens
            token_ids, decode = limit.token_ids, engine.tokenizer.decode
            written = decode(token_ids[: len(answer.prompt_ids) + answer.decoding.max_tokens])
            text = bytearray(written[len(decode(answer.prompt_ids)) :])
        except Exception as error:
            raise EngineError(f"guidance failed: {type(error).__name__}: {error}") from error
        decoded = text.decode("utf-8", "replace")
        # Tokens that the grammar forces at the end never pass the engine's counter.
        tokens = max(engine.completion_tokens, answer.adapter.count_tokens(decoded))
        tokens = min(tokens, answer.decoding.max_tokens)
        return answer.generation(decoded, tokens, finish_reason, self.label())


def _engine(adapter: LocalHfAdapter) -> Any:
    """guidance's engine on the model, with a seeded sampler and a cache that transformers 5 accepts.

    It indexes the vocabulary, so it is made once per model.
    """
    if "guidance" in adapter.backend_state:
        return adapter.backend_state["guidance"]
    from guidance._schema import GenTokenExtra
    from guidance.chat import ChatMLTemplate
    from guidance.models._transformers import TransformersEngine

    class SeededEngine(TransformersEngine):  # type: ignore[misc]
        def __init__(self, model: Any, tokenizer: Any) -> None:
            # The prompt comes rendered; a template is named only so that guidance does not look for one.
            super().__init__(model, tokenizer, chat_template=ChatMLTemplate, enable_monitoring=False)
            self.completion_tokens = 0

        def start(self, answer: SteeredAnswer) -> None:
            self._answer = answer
            self._draws = 0
            self.completion_tokens = 0

        def get_logits(self, token_ids: list[int], include_all_uncached_tokens: bool = False) -> Any:
            self.completion_tokens = len(token_ids) - len(self._answer.prompt_ids)
            if self.completion_tokens >= self._answer.decoding.max_tokens:
                raise TokenLimitReached(token_ids)
            logits = self._answer.forward.logits(list(token_ids))[None, : self.tokenizer._vocab_size]
            return {"logits": logits, "n_tokens": len(token_ids), "n_cached": len(token_ids) - 1}

        def get_next_token_with_top_k(self, *, logits: Any, mask: bytes | None, **_: Any) -> Any:
            allowed = np.ones(len(logits), dtype=bool)
            if mask is not None:
                allowed = np.frombuffer(mask, dtype=np.uint8)[: len(logits)] != 0
            token = self._answer.draw(logits, allowed, self._draws)
            self._draws += 1
            self.completion_tokens += 1
            return GenTokenExtra(
                token_id=token,
                bytes=self.tokenizer.decode([token]),
                prob=float("nan"),
                latency_ms=0.0,
                is_generated=True,
                top_k=[],
            )

    engine = SeededEngine(adapter.loaded.model, adapter.loaded.tokenizer)
    return adapter.backend_state.setdefault("guidance", engine)
