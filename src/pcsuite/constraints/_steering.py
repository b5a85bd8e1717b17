"""What the backends that steer a transformers model share."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any, cast

from pcsuite.engines.adapters._hf_decoding import can_keep_prompts, read_prompts
from pcsuite.engines.adapters.base import Constraint, Generation, ModelAdapter
from pcsuite.engines.adapters.local_hf import LocalHfAdapter
from pcsuite.errors import ConstraintUnavailableError


class TokenLimitReached(Exception):
    """The completion has as many tokens as it may; raised out of a library's own decoding loop."""

    def __init__(self, token_ids: Sequence[int] = ()) -> None:
        super().__init__("token limit reached")
        self.token_ids = list(token_ids)


def cannot_enforce(backend: str, what: str, problem: object) -> ConstraintUnavailableError:
    """The refusal of a constraint, with a library's words for the reason on one line (300 characters at most)."""
    reason = " ".join(str(problem).split())[:300]
    return ConstraintUnavailableError(f"constraint backend '{backend}' cannot enforce {what}: {reason}")


def as_local_hf(adapter: ModelAdapter, backend: str) -> LocalHfAdapter:
    """The adapter as one whose model can be steered; a ``ConstraintUnavailableError`` for any other provider's."""
    if not isinstance(adapter, LocalHfAdapter):
        raise ConstraintUnavailableError(
            f"constraint backend '{backend}' steers models of provider hf; '{adapter.model_id}' is none"
        )
    return adapter


def json_schema_of(constraint: Constraint) -> dict[str, Any]:
    """The schema as an object; the boolean schemas have equivalents that are objects."""
    schema = json.loads(constraint.value)
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return cast(dict[str, Any], schema)


def llguidance_tokenizer(adapter: LocalHfAdapter) -> Any:
    """The model's vocabulary as llguidance reads it; made once per model."""
    if "llguidance" not in adapter.backend_state:
        import llguidance.hf

        adapter.backend_state["llguidance"] = llguidance.hf.from_tokenizer(adapter.loaded.tokenizer)
    return adapter.backend_state["llguidance"]


def refuse_uncompilable(grammar: str, adapter: LocalHfAdapter, constraint: Constraint, backend: str) -> None:
    """Raise a ``ConstraintUnavailableError`` for a grammar that llguidance cannot enforce in full.

    The reason names the keyword. Each grammar is checked once per model.
    """
    checked: set[str] = adapter.backend_state.setdefault("compilable", set())
    if grammar in checked:
        return
    from llguidance import LLMatcher

    problem = LLMatcher.validate_grammar(grammar, llguidance_tokenizer(adapter))
    if problem:
        raise cannot_enforce(backend, f"this {constraint.kind}", problem)
    checked.add(grammar)


def completion(
    *,
    text: str,
    finish_reason: str,
    prompt_tokens: int,
    completion_tokens: int,
    latency_ms: float,
    backend: str,
) -> Generation:
    """The result of a decoding loop that ran alone, so that its seed is honoured in any precision.

    ``backend`` is the label that the row shows: the backend's name with the versions of its libraries.
    """
    return {
        "text": text,
        "finish_reason": finish_reason,
        "latency_ms": latency_ms,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
        "seed_honoured": True,
        "constraint_backend": backend,
    }


class PrefixForward:
    """The model's logits after a growing sequence, with the work on its prefix kept.

    A sequence that shares a prefix with the last one pays for the rest only. Each answer starts from its prompt, read
    all but the last token in one pass: what another answer left behind would change rounding, and with it, rarely,
    the text. The prompt read last is kept for the replicates that follow.
    """

    def __init__(self, adapter: LocalHfAdapter, prompt_ids: Sequence[int]) -> None:
        self._model = adapter.loaded.model
        self._cache: Any = None
        self._seen: list[int] = []
        self._logits: Any = None
        if adapter.options.prefix_reuse and can_keep_prompts(self._model) and len(prompt_ids) > 1:
            self._seen = list(prompt_ids[:-1])
            self._cache = copy.deepcopy(self._read(adapter, tuple(prompt_ids)))

    @staticmethod
    def _read(adapter: LocalHfAdapter, prompt: tuple[int, ...]) -> Any:
        """What the model keeps of a prompt but its last token; read anew unless it was the last one asked."""
        import torch

        kept: dict[tuple[int, ...], Any] = adapter.backend_state.setdefault("prompt", {})
        if prompt not in kept:
            kept.clear()
            loaded = adapter.loaded
            with torch.inference_mode():
                kept[prompt] = read_prompts(loaded.model, [prompt], loaded.filler, share=True).kept
        return kept[prompt]

    def logits(self, token_ids: list[int]) -> Any:
        """Logits (float32 on the CPU, one a token of the vocabulary) of the token after ``token_ids``.

        ``token_ids`` is the whole sequence from the prompt's first token on; only what is new is computed.
        """
        import torch

        shared = 0
        for old, new in zip(self._seen, token_ids, strict=False):
            if old != new:
                break
            shared += 1
        if self._logits is not None and shared == len(token_ids) == len(self._seen):
            return self._logits
        shared = min(shared, len(token_ids) - 1)
        if self._cache is not None and shared < len(self._seen):
            if shared == 0:
                self._cache = None
            else:
                # transformers 5.20 and later: negative means "remove that many".
                self._cache.crop(shared - len(self._seen))
        fresh = torch.tensor([token_ids[shared:]], device=self._model.device)
        with torch.inference_mode():
            out = self._model(input_ids=fresh, past_key_values=self._cache, use_cache=True)
        self._cache = out.past_key_values
        self._seen = list(token_ids)
        self._logits = out.logits[0, -1].float().cpu().numpy()
        return self._logits
