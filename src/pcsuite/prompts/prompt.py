"""The prompt as a tree of blocks: composed from operators, open to perturbation, brought into a band of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pcsuite.config.definitions import TaskKind
from pcsuite.errors import PromptError
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.operators import Bundle, Slot, render_file

# The prompt as a tree of blocks: composed from operators, open to perturbation, then assembled to text.


BASE_TEMPLATE: dict[TaskKind, str] = {"structured": "json_base.j2", "reasoning": "reasoning_base.j2"}
FILLER_LINE = "This line is filler; it says nothing about the task."


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of prompt text that one operator put there."""

    operator: str
    slot: Slot
    text: str


@dataclass(frozen=True, slots=True)
class PromptTree:
    """A prompt before it is text."""

    template: str
    instruction: str
    input_label: str
    input_text: str
    blocks: tuple[Block, ...] = ()
    filler: int = 0
    order: tuple[int, ...] = ()
    """A permutation of :meth:`parts`; empty for the base template's own order."""
    around: tuple[str, str] | None = None
    """Of a compiled free text: the white space before the input, and everything after it. No base template is
    used then, and ``instruction`` is all that stands before."""

    def texts(self, slot: Slot) -> list[str]:
        """Texts of the blocks in one slot, in order."""
        return [block.text for block in self.blocks if block.slot == slot]

    def padded(self, lines: int) -> PromptTree:
        """The same prompt with content-free filler lines."""
        return replace(self, filler=lines)

    def parts(self, templates_dir: Path | None = None) -> list[str]:
        """The prompt's parts as the base template orders them: prefix, instruction, blocks, input, post."""
        middle = [*self.texts("block"), *self.texts("fewshot")]
        if self.around is not None:
            rest = (self.around[0].lstrip("\n") + self.input_text + self.around[1]).rstrip("\n")
            return [*self.texts("prefix"), self.instruction, *middle, rest, *self.texts("post")]
        bare = replace(self, instruction="", blocks=(), filler=0, order=())
        trailing = len(self.input_text) - len(self.input_text.rstrip("\n"))
        shown_input = bare.assemble(templates_dir) + "\n" * trailing
        return [*self.texts("prefix"), self.instruction, *middle, shown_input, *self.texts("post")]

    def reordered(self, order: Sequence[int]) -> PromptTree:
        """The same parts in another order; filler stays in front."""
        if sorted(order) != list(range(len(self.parts()))):
            raise PromptError(f"{list(order)} is not an order of {len(self.parts())} parts")
        return replace(self, order=tuple(order))

    def assemble(self, templates_dir: Path | None = None) -> str:
        """The text a model gets."""
        filler = ["\n".join([FILLER_LINE] * self.filler)] if self.filler else []
        if self.order:
            parts = self.parts(templates_dir)
            return "\n\n".join(filler + [parts[place] for place in self.order]).strip("\n")
        if self.around is not None:
            # What a perturbation adds stands before or after; the compiled text itself stays as it was found.
            text = self.instruction + self.around[0] + self.input_text + self.around[1]
            front = [*filler, *self.texts("prefix"), *self.texts("block"), *self.texts("fewshot")]
            return "\n\n".join([*front, text, *self.texts("post")])
        variables = {
            "filler": filler,
            "prefix": self.texts("prefix"),
            "instruction": self.instruction,
            "blocks": self.texts("block"),
            "fewshot": self.texts("fewshot"),
            "input_label": self.input_label,
            "input_text": self.input_text,
            "post": self.texts("post"),
        }
        return render_file(self.template, variables, templates_dir)


def compose(bundle: Bundle, ctx: PromptContext) -> PromptTree:
    """Render each operator of a bundle into its block."""
    blocks = []
    for operator in bundle:
        text = operator.render(ctx)
        if text:
            blocks.append(Block(operator.name, operator.slot, text))
    return PromptTree(
        template=BASE_TEMPLATE[ctx.task_kind],
        instruction=ctx.instruction,
        input_label=ctx.input_label,
        input_text=ctx.input_text,
        blocks=tuple(blocks),
    )


# Token-length control: prompts are brought into a band, so that "the longer prompt wins" is no confound.


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
