"""Seeded sampling that does not depend on what else is in the batch.

Each draw is a pure function of (prompt, seed, position): a row of a batch, the same row alone, and a row that
a library decodes ahead and throws away all see the same random numbers (a counter-based generator in the
sense of Salmon et al. 2011, with BLAKE2b as the mixing function).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pcsuite.engines.adapters.base import Decoding

if TYPE_CHECKING:
    import torch

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy: dividing by them overflows."""
SHORTLIST = 256
"""Tokens that are ranked first; the whole vocabulary only where their mass is below top_p."""

RowMask = Callable[[Any, Any], Any]
"""A Hugging Face logits processor for one row: (ids of shape 1 x n, logits of shape 1 x vocabulary) to logits."""


def draw_key(prompt: str, seed: int) -> bytes:
    """The key of a row's random numbers."""
    return hashlib.blake2b(f"{seed}\n{prompt}".encode("utf-8", "surrogatepass"), digest_size=32).digest()


def uniform(key: bytes, position: int) -> float:
    """The number in [0, 1) of a row at a position of its completion."""
    digest = hashlib.blake2b(position.to_bytes(8, "little"), key=key, digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


def choose(probabilities: np.ndarray, tokens: np.ndarray, top_p: float, draw: float) -> int:
    """The token of the nucleus that a draw in [0, 1) falls on, by inverse CDF.

    The nucleus is the smallest set of most likely tokens whose mass reaches ``top_p`` (Holtzman et al. 2020,
    eq. 2), all tokens given where theirs does not; ties are ordered by token id. Within it the tokens stand in
    the order of their ids: ordered by probability, two that rounding swaps would swap the draw as well.
    """
    order = np.lexsort((tokens, -probabilities))
    if top_p < 1.0:
        mass = np.cumsum(probabilities[order])
        order = order[: int(np.searchsorted(mass, top_p, side="left")) + 1]
    order = order[np.argsort(tokens[order])]
    mass = np.cumsum(probabilities[order])
    place = int(np.searchsorted(mass, draw * mass[-1], side="right"))
    return int(tokens[order[min(place, len(order) - 1)]])


def sample_token(logits: np.ndarray, decoding: Decoding, key: bytes, position: int) -> int:
    """The next token from one row of logits (masked tokens are ``-inf``)."""
    if decoding.temperature < GREEDY_BELOW:
        return int(np.argmax(logits))
    scaled = logits.astype(np.float64) / decoding.temperature
    weights = np.exp(scaled - scaled.max())
    probabilities = weights / weights.sum()
    draw = uniform(key, position)
    tokens = np.flatnonzero(probabilities)
    if decoding.top_p < 1.0 and len(tokens) > SHORTLIST:
        likely = np.argpartition(probabilities, -SHORTLIST)[-SHORTLIST:]
        if probabilities[likely].sum() >= decoding.top_p:
            tokens = likely
    return choose(probabilities[tokens], tokens, decoding.top_p, draw)


@dataclass(slots=True)
class Row:
    """One sequence of a batch: how to decode it, and what came of it so far."""

    decoding: Decoding
    key: bytes
    mask: RowMask | None = None
    tokens: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    error: Exception | None = None


class SeededRows:
    """The last logits processor of a batch: masks and samples every row by itself.

    It leaves one finite score per row, so that the greedy search around it has no choice.
    """

    def __init__(self, rows: Sequence[Row], stop_tokens: frozenset[int], filler: int) -> None:
        self._rows = rows
        self._stop_tokens = stop_tokens
        self._filler = filler

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Choose the next token of every row."""
        import torch

        chosen = [self._next(index, row, input_ids, scores) for index, row in enumerate(self._rows)]
        forced = torch.full_like(scores, float("-inf"))
        forced[torch.arange(len(chosen)), torch.tensor(chosen, device=scores.device)] = 0.0
        return forced

    def finished(self) -> bool:
        """Whether every row has ended."""
        return all(row.finish_reason is not None for row in self._rows)

    def _next(self, index: int, row: Row, input_ids: torch.Tensor, scores: torch.Tensor) -> int:
        if row.finish_reason is not None:
            return self._filler
        try:
            logits = scores[index : index + 1]
            if row.mask is not None:
                logits = row.mask(input_ids[index : index + 1], logits.clone())
            token = sample_token(logits[0].float().cpu().numpy(), row.decoding, row.key, len(row.tokens))
        except Exception as error:  # one row's grammar must not take the others down
            row.error, row.finish_reason = error, "error"
            return self._filler
        row.tokens.append(token)
        if token in self._stop_tokens:
            row.finish_reason = "stop"
        elif len(row.tokens) >= row.decoding.max_tokens:
            row.finish_reason = "length"
        return token
