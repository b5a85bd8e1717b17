"""What the backends that steer a transformers model share."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel

from pcsuite.engines.adapters._hf_decoding import EagerSteps, can_share_cache
from pcsuite.engines.adapters._hf_loading import quiet_libraries
from pcsuite.engines.adapters._hf_sampler import draw_key, sample_token
from pcsuite.engines.adapters.base import (
    Constraint,
    ConstraintKind,
    Decoding,
    Generation,
    ModelAdapter,
    Request,
    token_usage,
)
from pcsuite.engines.adapters.local_hf import LocalHfAdapter
from pcsuite.engines.constrained import ConstraintBackend
from pcsuite.engines.grammar import llguidance_grammar
from pcsuite.errors import ConstraintUnavailableError, require


class TokenLimitReached(Exception):
    """The completion has as many tokens as it may; raised out of a library's own decoding loop."""

    def __init__(self, token_ids: Sequence[int] = ()) -> None:
        super().__init__("token limit reached")
        self.token_ids = list(token_ids)


class LocalHfBackend(ConstraintBackend):
    """A backend that steers the decoding of models of provider ``hf``."""

    writes_grammars: ClassVar[bool] = True

    def steers(self, provider: type[ModelAdapter], options: BaseModel, kind: ConstraintKind) -> bool:
        """Whether the provider is ``hf`` or derived from it; every kind of constraint is taken on.

        What a library cannot enforce of a single constraint is refused when it is asked for.
        """
        return issubclass(provider, LocalHfAdapter)

    def grammar(self, constraint: Constraint, adapter: LocalHfAdapter) -> str:
        """The constraint as a grammar that llguidance enforces in full on the model; checked once per model.

        What no grammar can say or llguidance cannot enforce is a ``ConstraintUnavailableError`` in this backend's name,
        whose reason names the keyword.
        """
        try:
            grammar = llguidance_grammar(constraint)
        except ConstraintUnavailableError as error:
            refusal = f"constraint backend '{self.name}': {error.message}"
            raise ConstraintUnavailableError(refusal, hint=error.hint) from error
        checked: set[str] = adapter.backend_state.setdefault("compilable", set())
        if grammar not in checked:
            from llguidance import LLMatcher

            if problem := LLMatcher.validate_grammar(grammar, llguidance_tokenizer(adapter)):
                raise cannot_enforce(self.name, f"this {constraint.kind}", problem)
            checked.add(grammar)
        return grammar

    def steered(self, adapter: ModelAdapter) -> LocalHfAdapter:
        """The adapter as one whose model can be steered, once the backend's library is there.

        Another provider's adapter is a ``ConstraintUnavailableError``, a missing library a ``MissingExtraError``.
        """
        if not isinstance(adapter, LocalHfAdapter):
            raise ConstraintUnavailableError(
                f"constraint backend '{self.name}' steers models of provider hf; '{adapter.model_id}' is none"
            )
        with quiet_libraries():  # LMQL imports modules that Python has deprecated
            require(self.libraries[0], self.extra or self.name)
        return adapter


def cannot_enforce(backend: str, what: str, problem: object) -> ConstraintUnavailableError:
    """The refusal of a constraint, to be raised by the caller.

    ``what`` names the constraint, ``problem`` is the library's whole reason, put on one line.
    """
    reason = " ".join(str(problem).split())
    return ConstraintUnavailableError(f"constraint backend '{backend}' cannot enforce {what}: {reason}")


def llguidance_tokenizer(adapter: LocalHfAdapter) -> Any:
    """The model's vocabulary as llguidance reads it.

    Indexing it takes a while, so it is made once and kept in the adapter's ``backend_state``.
    """
    if "llguidance" not in adapter.backend_state:
        import llguidance.hf

        adapter.backend_state["llguidance"] = llguidance.hf.from_tokenizer(adapter.loaded.tokenizer)
    return adapter.backend_state["llguidance"]


def end_preferred_from(constraint: Constraint | None, decoding: Decoding) -> int:
    """The number of tokens from which on an answer ends wherever its grammar allows an end, so as not to be cut.

    Schemas and patterns are bounded by those who write them, and mostly allow an end in one place: theirs is never.
    """
    ends = constraint is not None and constraint.kind == "cfg"
    return decoding.max_tokens * 3 // 4 if ends else decoding.max_tokens + 1


class SteeredAnswer:
    """One answer on its way through a library's own decoding loop: its prompt, its limits and its random numbers.

    It runs alone (``LocalHfAdapter.run_alone``), so that its seed is honoured in any precision.
    """

    def __init__(self, adapter: LocalHfAdapter, request: Request) -> None:
        self._started = time.perf_counter()
        self._key = draw_key(request.prompt, request.seed)
        self.adapter = adapter
        self.prompt_ids = adapter.prompt_tokens(request.prompt)
        self.decoding = adapter.fitted(request.decoding, len(self.prompt_ids))
        self.prompt = adapter.loaded.tokenizer.decode(self.prompt_ids, clean_up_tokenization_spaces=False)
        """The rendered prompt as text."""
        self.forward = PrefixForward(adapter, self.prompt_ids)
        self._end_from = end_preferred_from(request.constraint, self.decoding)

    def draw(self, logits: np.ndarray, allowed: np.ndarray, position: int) -> int:
        """The next token by the answer's decoding, among those that are ``allowed`` (a boolean for each logit).

        ``position`` numbers the draws of the answer from 0 and selects its random number. Under a grammar the last
        quarter of the tokens ends the answer wherever it may.
        """
        if position >= self._end_from:
            for token in self.adapter.loaded.stop_tokens:
                if token < len(allowed) and allowed[token]:
                    return int(token)
        return sample_token(np.where(allowed, logits, -np.inf), self.decoding, self._key, position)

    def generation(self, text: str, completion_tokens: int, finish_reason: str, label: str) -> Generation:
        """The finished answer, with the wall time since this object was made as its latency (ms).

        ``label`` is what the row shows: the backend's name with the versions of its libraries.
        """
        return {
            "text": text,
            "finish_reason": finish_reason,
            "latency_ms": (time.perf_counter() - self._started) * 1000,
            "usage": token_usage(len(self.prompt_ids), completion_tokens),
            "seed_honoured": True,
            "constraint_backend": label,
        }


class PrefixForward:
    """The model's logits after a growing sequence, with the work on its prefix kept.

    A sequence that shares a prefix with the last one pays for what follows it only. Each answer starts from its prompt,
    read all but the last token in one pass: what another answer left behind would change rounding, and with it,
    rarely, the text. The prompt read last is kept for the replicates that follow.
    """

    def __init__(self, adapter: LocalHfAdapter, prompt_ids: Sequence[int]) -> None:
        self._model = adapter.loaded.model
        self._cache: Any = None
        self._read: list[int] = []
        self._logits: Any = None
        if adapter.options.prefix_reuse and can_share_cache(self._model) and len(prompt_ids) > 1:
            import torch

            self._read = list(prompt_ids[:-1])
            # The cache of a prompt but its last token; read anew unless it was the last one asked.
            caches: dict[tuple[int, ...], Any] = adapter.backend_state.setdefault("prompt", {})
            prompt = tuple(prompt_ids)
            if prompt not in caches:
                caches.clear()
                with torch.inference_mode():
                    caches[prompt] = EagerSteps(self._model, [prompt], adapter.loaded.pad_token, True).cache
            self._cache = copy.deepcopy(caches[prompt])

    def logits(self, token_ids: list[int]) -> Any:
        """Logits (float32 on the CPU, one a token of the vocabulary) of the token after ``token_ids``.

        ``token_ids`` is the whole sequence from the prompt's first token on; only what is new is computed.
        """
        import torch

        pairs = zip(self._read, token_ids, strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if self._logits is not None and shared == len(token_ids) == len(self._read):
            return self._logits
        shared = min(shared, len(token_ids) - 1)
        if self._cache is not None and shared < len(self._read):
            if shared:
                # transformers 5.20 and later: negative means "remove that many".
                self._cache.crop(shared - len(self._read))
            else:
                self._cache = None
        fresh = torch.tensor([token_ids[shared:]], device=self._model.device)
        with torch.inference_mode():
            out = self._model(input_ids=fresh, past_key_values=self._cache, use_cache=True)
        self._cache = out.past_key_values
        self._read = list(token_ids)
        self._logits = out.logits[0, -1].float().cpu().numpy()
        return self._logits
