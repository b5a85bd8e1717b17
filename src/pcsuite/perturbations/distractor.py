"""``distractor``: true-to-life but irrelevant context. It names no person, place, label or option."""

from __future__ import annotations

from dataclasses import replace

from pcsuite.perturbations.base import Kind, Site
from pcsuite.prompts.operators.operator import Slot
from pcsuite.prompts.tree import Block, PromptTree

OPERATOR = "perturbation:distractor"
_PASSAGES = (
    "The kettle in the hallway takes a while to boil, and whoever fills it last tends to forget it.",
    "A loaf rises best under a damp cloth, away from the draught of an open window.",
    "The stairs to the cellar creak on the third step, which wakes the cat.",
    "Umbrellas left in the stand for more than a season are given away.",
    "The clock above the door was wound on the first day of the month, as it always is.",
    "Tomato plants on the balcony lean towards the light and are turned once a week.",
    "The paint on the fence dries slowly in autumn, so nobody should lean against it.",
    "A drawer in the kitchen holds string, candles and keys that fit no lock.",
    "The bus shelter has a bench, a timetable behind glass, and a puddle when it rains.",
    "Socks are sorted by colour, except for those that have lost their pair.",
    "The bicycle in the shed needs a new chain before anyone rides it again.",
    "Tea leaves keep longest in a tin with a tight lid, well away from the stove.",
)
_FORMS: tuple[tuple[Slot, str], ...] = (
    ("block", "Background:\n{first}\n{second}"),
    ("post", "By the way: {first} {second}"),
    ("prefix", "From the notice board, unrelated to what follows:\n{first}\n{second}"),
)


def distract(tree: PromptTree, site: Site, number: int) -> PromptTree:
    """Add two irrelevant sentences, chosen by item."""
    slot, form = _FORMS[number - 1]
    ranked = sorted(_PASSAGES, key=lambda passage: site.rank("distractor", number, passage))
    block = Block(OPERATOR, slot, form.format(first=ranked[0], second=ranked[1]))
    return replace(tree, blocks=(*tree.blocks, block))


DISTRACTOR = Kind("distractor", "adds irrelevant context", len(_FORMS), distract)
