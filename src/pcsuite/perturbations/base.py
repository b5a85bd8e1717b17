"""What a perturbation is, and what it may know of the place it is applied to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from pcsuite.data.sampling import DEFAULT_HASH_SEED, rank_of
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.operators import Bundle
from pcsuite.prompts.tree import PromptTree

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Site:
    """An item under a condition: everything a perturbation may depend on besides the prompt itself."""

    ctx: PromptContext
    bundle: Bundle
    item_id: str
    gold: str
    """The text of a perfect answer; no perturbation may give it away."""
    wrong: Callable[[Random], str]
    """Draws a well-formed wrong answer."""
    is_right: Callable[[str], bool]
    """Whether an answer gets the full score."""
    salt: str = DEFAULT_HASH_SEED

    def rank(self, *names: object) -> bytes:
        """A hash of names that belongs to this task and item."""
        return rank_of(self.salt, "perturbation", self.ctx.task_id, self.item_id, *names)

    def pick(self, options: Sequence[T], *names: object) -> T:
        """One of the options, by hash: no generator, so the same on every machine."""
        return options[int.from_bytes(self.rank(*names)[:8], "big") % len(options)]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of perturbation with its numbered variants."""

    name: str
    summary: str
    variants: int
    apply: Callable[[PromptTree, Site, int], PromptTree]
    """Called with the prompt, the site and the variant's number, from 1."""
