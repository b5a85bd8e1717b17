"""Token-length control: prompts are brought into a band, so that "the longer prompt wins" is no confound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pcsuite.config.tasks import TaskKind
from pcsuite.prompts.tree import FILLER_LINE, PromptTree

LengthControl = Literal["off", "warn", "pad"]
BANDS: dict[TaskKind, tuple[int, int]] = {"structured": (350, 650), "reasoning": (200, 500)}
CHARACTERS_PER_TOKEN = 4.0
"""Estimate where a model's tokenizer cannot be asked; rows then say so."""


@dataclass(frozen=True, slots=True)
class MeasuredPrompt:
    """A prompt with its length."""

    text: str
    tokens: int
    padded: int
    """Filler lines added."""
    band: Literal["inside", "below", "above"]
    exact: bool
    """Whether the model's own tokenizer counted."""


def count(text: str, counter: Callable[[str], int | None]) -> tuple[int, bool]:
    """Tokens of a text and whether the count is the tokenizer's own."""
    tokens = counter(text)
    if tokens is not None:
        return tokens, True
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN), False


def fit(
    tree: PromptTree,
    band: tuple[int, int],
    control: LengthControl,
    counter: Callable[[str], int | None],
    templates_dir: Path | None = None,
) -> MeasuredPrompt:
    """Assemble a prompt and, under ``pad``, bring it up to the band with content-free filler."""
    low, high = band
    text = tree.assemble(templates_dir)
    tokens, exact = count(text, counter)
    padded = 0
    if control == "pad" and tokens < low:
        line_tokens = max(1, count(FILLER_LINE + "\n", counter)[0])
        padded = math.ceil((low - tokens) / line_tokens)
        while tokens < low:
            text = tree.padded(padded).assemble(templates_dir)
            tokens, _ = count(text, counter)
            padded += tokens < low
    place: Literal["inside", "below", "above"] = (
        "below" if tokens < low else "above" if tokens > high else "inside"
    )
    return MeasuredPrompt(text, tokens, padded, place, exact)
