"""Seeded sampling that does not depend on what else is in the batch.

Each draw is a pure function of (prompt, seed, position): a row of a batch, the same row alone, and a row that
a library decodes ahead and throws away all see the same random numbers (a counter-based generator in the
sense of Salmon et al. 2011, with BLAKE2b as the mixing function).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pcsuite.engines.adapters.base import Decoding

if TYPE_CHECKING:
    import torch

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy: dividing by them overflows."""
SHORTLIST = 256
"""Tokens that are ranked first; the whole vocabulary only where they may not hold the nucleus."""
WHOLE_AT_ONCE = 64
"""Rows whose whole vocabulary is ranked on a device at a time."""

RowMask = Callable[[Sequence[int]], np.ndarray]
"""From a row's completion so far to the tokens that may follow it, a bit each, packed into 32-bit words."""


def draw_key(prompt: str, seed: int) -> bytes:
    """The key (32 bytes) of the random numbers of a row: a hash of its prompt, as the user wrote it, and its seed.

    Equal for equal prompt and seed, whatever else runs beside the row.
    """
    return hashlib.blake2b(f"{seed}\n{prompt}".encode("utf-8", "surrogatepass"), digest_size=32).digest()


def uniform(key: bytes, position: int) -> float:
    """The number in [0, 1) of a row at a position (from 0) of its completion.

    A keyed hash, so that any position can be asked for in any order.
    """
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
    index = int(np.searchsorted(mass, draw * mass[-1], side="right"))
    return int(tokens[order[min(index, len(order) - 1)]])


def sample_token(logits: np.ndarray, decoding: Decoding, key: bytes, position: int) -> int:
    """The next token from one row of logits (masked tokens are ``-inf``), by temperature, then nucleus.

    A temperature below 1e-5 takes the likeliest token; else ``key`` and ``position`` give the random number. The
    shortlist only saves time: the token is that of the whole vocabulary.
    """
    if decoding.temperature < GREEDY_BELOW:
        return int(np.argmax(logits))
    scaled = logits.astype(np.float64) / decoding.temperature
    weights = np.exp(scaled - scaled.max())
    probabilities = weights / weights.sum()
    draw = uniform(key, position)
    tokens = np.flatnonzero(probabilities)
    if decoding.top_p < 1.0 and len(tokens) > SHORTLIST:
        likely = np.argpartition(probabilities, -SHORTLIST)[-SHORTLIST:]
        ranked = probabilities[likely]
        # Of tokens as likely as the last of the list, others may have been left out.
        if ranked[ranked > ranked.min()].sum() >= decoding.top_p:
            tokens = likely
    return choose(probabilities[tokens], tokens, decoding.top_p, draw)


@dataclass(slots=True)
class BatchRow:
    """One sequence of a batch: how to decode it, and what came of it so far."""

    decoding: Decoding
    key: bytes
    prompt: tuple[int, ...] = ()
    """Token ids of the rendered prompt."""
    mask: RowMask | None = None
    tokens: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    error: Exception | None = None
    ms: float = 0.0
    """Milliseconds of the batches that it was in so far."""
    cache: list[tuple[torch.Tensor, torch.Tensor]] | None = None
    """What the model keeps of it, layer by layer, where it has left a batch before its end."""

    @property
    def read(self) -> tuple[int, ...]:
        """What the model reads before the row's next token: the prompt, and the completion so far."""
        return (*self.prompt, *self.tokens)


def draw_next(scores: torch.Tensor, rows: Sequence[BatchRow], stop_tokens: frozenset[int]) -> list[int]:
    """Choose the next token of every row, each by its own mask and its own random numbers.

    ``scores`` has a row of logits for each of ``rows``. The token is added to its row, which ends with a stop token or
    at its limit; a row whose mask fails ends with that error and gets token 0.
    """
    logits = _masked(scores, rows)
    sound = [index for index, row in enumerate(rows) if row.error is None]
    if scores.device.type == "cpu":
        drawn = [
            sample_token(logits[index].float().cpu().numpy(), row.decoding, row.key, len(row.tokens))
            for index, row in enumerate(rows)
            if row.error is None
        ]
    else:
        drawn = _draw_on_device(logits, rows, sound)
    chosen = [0] * len(rows)
    for index, token in zip(sound, drawn, strict=True):
        row, chosen[index] = rows[index], token
        row.tokens.append(token)
        if token in stop_tokens:
            row.finish_reason = "stop"
        elif len(row.tokens) >= row.decoding.max_tokens:
            row.finish_reason = "length"
    return chosen


def _masked(scores: torch.Tensor, rows: Sequence[BatchRow]) -> torch.Tensor:
    """The scores without the tokens that the rows' masks forbid, all masks in one pass over the device."""
    import torch

    allowed: dict[int, np.ndarray] = {}
    for index, row in enumerate(rows):
        if row.mask is not None:
            try:
                allowed[index] = row.mask(row.tokens)
            except Exception as error:  # one row's grammar must not take the others down
                row.error, row.finish_reason = error, "error"
    if not allowed:
        return scores
    words = torch.from_numpy(np.stack(list(allowed.values()))).to(scores.device)
    bits = torch.arange(32, dtype=words.dtype, device=words.device)
    possible = ((words[:, :, None] >> bits) & 1).flatten(1)[:, : scores.shape[1]].bool()
    possible = torch.nn.functional.pad(possible, (0, scores.shape[1] - possible.shape[1]), value=False)
    chosen = torch.tensor(list(allowed), device=scores.device)
    logits = scores.clone()
    logits[chosen] = scores[chosen].masked_fill(~possible, -torch.inf)
    return logits


def _draw_on_device(logits: torch.Tensor, rows: Sequence[BatchRow], live: Sequence[int]) -> list[int]:
    """The next token of the live rows, worked out where the scores are; only the tokens leave the device.

    The draw is that of ``choose``: the shortlist holds the whole nucleus, or the row is worked out in full.
    """
    import torch

    if not live:
        return []
    chosen = logits if len(live) == len(rows) else logits[list(live)]
    likeliest: list[int] = chosen.argmax(dim=-1).tolist()
    sampled = [n for n, index in enumerate(live) if rows[index].decoding.temperature >= GREEDY_BELOW]
    if not sampled:
        return likeliest
    if len(sampled) < len(live):
        chosen = chosen[sampled]
    drawing = [rows[live[n]] for n in sampled]
    wide = {"dtype": torch.float64, "device": logits.device}
    temperature = torch.tensor([[row.decoding.temperature] for row in drawing], **wide)
    top_p = torch.tensor([[row.decoding.top_p] for row in drawing], **wide)
    draw = torch.tensor([[uniform(row.key, len(row.tokens))] for row in drawing], **wide)
    scaled = chosen.double() / temperature
    total = scaled.logsumexp(dim=-1, keepdim=True)
    tokens = chosen.topk(min(SHORTLIST, chosen.shape[-1]), dim=-1).indices.sort(dim=-1).values
    likely = (scaled.gather(-1, tokens) - total).exp()
    drawn = tokens.gather(-1, _choose_on_device(likely, top_p, draw))[:, 0]
    beyond_last = likely > likely.min(dim=-1, keepdim=True).values  # see sample_token
    insufficient = ((likely * beyond_last).sum(dim=-1) < top_p[:, 0]) | (top_p[:, 0] >= 1.0)
    # In one tensor: each copy from the device waits for it.
    choices = torch.stack([drawn, insufficient.long()], dim=1).tolist()
    unranked = [number for number, (_, in_full) in enumerate(choices) if in_full]
    for start in range(0, len(unranked), WHOLE_AT_ONCE):
        part = unranked[start : start + WHOLE_AT_ONCE]
        choice = _choose_on_device((scaled[part] - total[part]).exp(), top_p[part], draw[part])
        for number, token in zip(part, choice[:, 0].tolist(), strict=True):
            choices[number][0] = token
    for n, (token, _) in zip(sampled, choices, strict=True):
        likeliest[n] = token
    return likeliest


def _choose_on_device(likely: torch.Tensor, top_p: torch.Tensor, draw: torch.Tensor) -> torch.Tensor:
    """For each row the index, in a list of probabilities in the order of their tokens, that ``choose`` would draw."""
    import torch

    ranked = likely.sort(dim=-1, descending=True, stable=True)
    mass_before = ranked.values.cumsum(dim=-1) - ranked.values
    within = (mass_before < top_p) | (top_p >= 1.0)
    nucleus = torch.zeros_like(likely).scatter(-1, ranked.indices, within.double())
    mass = (likely * nucleus).cumsum(dim=-1)
    indices = torch.arange(nucleus.shape[-1], dtype=torch.float64, device=likely.device)
    last = (nucleus * indices).argmax(dim=-1, keepdim=True)
    return torch.minimum((mass <= draw * mass[:, -1:]).sum(dim=-1, keepdim=True), last)
