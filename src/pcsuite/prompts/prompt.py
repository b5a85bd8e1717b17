"""A prompt: a tree of blocks, composed from operators and open to perturbation, then a text of known length."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from jinja2 import TemplateError, meta

from pcsuite.config.definitions import TaskKind
from pcsuite.config.operator_definitions import PromptForm, PromptRepeat
from pcsuite.errors import PromptError
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.filler import sham_text
from pcsuite.prompts.named_blocks import NAMED, block_variables
from pcsuite.prompts.operators import (
    Bundle,
    Operator,
    OperatorBlock,
    Slot,
    base_template,
    environment,
    shown_question,
)
from pcsuite.prompts.verbatim import chat_piece, decode_chat

FILLER_LINE = "This line is filler; it says nothing about the task."


@dataclass(frozen=True, slots=True)
class PromptTree:
    """A prompt before it is text: what operators put into each slot, the instruction and the input."""

    template: str
    instruction: str
    input_label: str
    input_text: str
    blocks: tuple[OperatorBlock, ...] = ()
    filler: int = 0
    """Content-free lines in front."""
    order: tuple[int, ...] = ()
    """A permutation of :meth:`parts`; empty for the base template's own order."""
    around: tuple[str, str] | None = None
    """Of a compiled free text: the white space before the input, and everything after it. No base template is
    used then, and ``instruction`` is all that stands before."""
    task: tuple[str, str] = field(default=("", ""), compare=False)
    """Title and goal of the task, for base templates that show them."""
    closing: str = ""
    """Last line of the prompt: the cue after which exemplars show their answers."""
    turns: tuple[tuple[str, str], ...] = ()
    """Exemplars that are turns of a chat, not a block: what the user asks and what is answered."""
    repeat: PromptRepeat | None = None
    """The whole prompt more than once, or its sham before it."""

    def texts(self, slot: Slot) -> list[str]:
        """Texts of the blocks in one slot, in order."""
        return [block.text for block in self.blocks if block.slot == slot]

    def parts(self, templates_dir: Path | None = None) -> list[str]:
        """The prompt's parts as the base template orders them: prefix, instruction, blocks, input, post.

        Of a verbatim prompt they are its pieces. They are what :meth:`reordered` permutes and what an attack may
        rewrite; filler is not among them.
        """
        if any(block.role is not None for block in self.blocks):
            return replace(self, blocks=self.spoken).parts(templates_dir)
        if exact := self.texts("verbatim"):
            return [*self.texts("prefix"), *exact, *self.texts("post")]
        if self.around is not None:
            shown_input = (self.around[0].lstrip("\n") + self.input_text + self.around[1]).rstrip("\n")
        else:
            bare = PromptTree(self.template, "", self.input_label, self.input_text)
            trailing = len(self.input_text) - len(self.input_text.rstrip("\n"))
            shown_input = bare.assemble(templates_dir) + "\n" * trailing
        middle = [*self.texts("block"), *self.texts("fewshot"), *self.texts("before")]
        return [*self.texts("prefix"), self.instruction, *middle, shown_input, *self.texts("post")]

    @property
    def spoken(self) -> tuple[OperatorBlock, ...]:
        """Blocks of the user's message, without roles; the system's stand apart and are neither moved nor counted.

        Of a verbatim prompt they are all pieces: there every message is one of its parts.
        """
        kept = (block for block in self.blocks if block.slot == "verbatim" or block.role != "system")
        return tuple(replace(block, role=None) for block in kept)

    def reordered(self, order: Sequence[int]) -> PromptTree:
        """The same parts in another order; filler stays in front.

        ``order`` is a permutation of the indices of :meth:`parts`; anything else is a ``PromptError``.
        """
        if sorted(order) != list(range(len(self.parts()))):
            raise PromptError(f"{list(order)} is not an order of {len(self.parts())} parts")
        return replace(self, order=tuple(order))

    def assemble(self, templates_dir: Path | None = None) -> str:
        """The text a model gets: the base template filled, or the parts joined where their order was changed.

        ``templates_dir`` is searched for the base template before the bundled ones; one that is missing or cannot be
        rendered is a ``PromptError``. Blocks with a role make it a chat (:mod:`pcsuite.prompts.verbatim`).
        """
        text = self._assemble_turns(templates_dir) if self.turns else self._closed(templates_dir)
        return text if self.repeat is None else _repeated(text, self.repeat)

    def _closed(self, templates_dir: Path | None) -> str:
        """The prompt once, with its cue at the end."""
        if not self.closing or any(block.role is not None for block in self.blocks):
            return self._assemble(templates_dir)
        # Right below the question as in the exemplars; behind a block that follows the question it stands apart.
        apart = bool(self.texts("post") or self.order)
        opened = replace(self, closing="")._assemble(templates_dir)
        return opened + ("\n\n" if apart else "\n") + self.closing

    def _assemble_turns(self, templates_dir: Path | None) -> str:
        """A chat: what stands before the exemplars opens the first turn, the item's own question is in the last."""
        system = "\n\n".join(block.text for block in self.blocks if block.role == "system")
        spoken = replace(self, blocks=self.spoken, turns=(), repeat=None)
        parts = spoken.parts(templates_dir)
        behind = 0 if self.order else 1 + len(spoken.texts("before")) + len(spoken.texts("post"))
        last = [parts[index] for index in self.order] if self.order else parts[len(parts) - behind :]
        head = [] if self.order else parts[: len(parts) - behind]
        if self.filler:
            head.insert(0, "\n".join([FILLER_LINE] * self.filler))
        (first, answer), *others = self.turns
        messages = [("user", "\n\n".join([*head, first])), ("assistant", answer)]
        messages += [turn for asked, solved in others for turn in (("user", asked), ("assistant", solved))]
        messages.append(("user", "\n\n".join(last)))
        messages = [("system", system), *messages] if system else messages
        return "".join(chat_piece(number, role, content) for number, (role, content) in enumerate(messages))

    def _assemble(self, templates_dir: Path | None) -> str:
        texts: defaultdict[Slot, list[str]] = defaultdict(list)
        for block in self.blocks:
            if block.role is not None:
                return self._assemble_chat(templates_dir)
            texts[block.slot].append(block.text)
        filler = ["\n".join([FILLER_LINE] * self.filler)] if self.filler else []
        if self.order:
            parts = self.parts(templates_dir)
            return "\n\n".join(filler + [parts[index] for index in self.order]).strip("\n")
        if texts["verbatim"]:
            return "\n\n".join([*filler, *texts["prefix"], "".join(texts["verbatim"]), *texts["post"]])
        if self.around is not None:
            # What a perturbation adds stands before or after; the compiled text itself stays as it was found.
            text = self.instruction + self.around[0] + self.input_text + self.around[1]
            front = [*filler, *texts["prefix"], *texts["block"], *texts["fewshot"], *texts["before"]]
            return "\n\n".join([*front, text, *texts["post"]])
        variables = {
            "filler": filler,
            "prefix": texts["prefix"],
            "instruction": self.instruction,
            "blocks": texts["block"],
            "fewshot": [*texts["fewshot"], *texts["before"]],
            "input_label": self.input_label,
            "input_text": self.input_text,
            "post": texts["post"],
        }
        try:
            jinja = environment(templates_dir)
            used = _variables_of(templates_dir, self.template)
            if not used & NAMED:
                return jinja.get_template(self.template).render(variables).strip("\n")
            title, goal = self.task
            named = block_variables(self.blocks, used, title=title, goal=goal, instruction=self.instruction)
            text = jinja.get_template(self.template).render(variables | named).strip("\n")
            return "\n\n".join([*filler, text]) if "filler" not in used else text
        except TemplateError as error:
            raise PromptError(f"{self.template}: template cannot be rendered: {error}") from error

    def _assemble_chat(self, templates_dir: Path | None) -> str:
        """The messages: the system's and the rest as the user's, or each stretch of one role of a verbatim prompt."""
        exact = [(block.role or "user", block.text) for block in self.blocks if block.slot == "verbatim"]
        if not exact:
            system_text = "\n\n".join(block.text for block in self.blocks if block.role == "system")
            spoken = replace(self, blocks=self.spoken, repeat=None).assemble(templates_dir)
            return (chat_piece(0, "system", system_text) if system_text else "") + chat_piece(
                1, "user", spoken
            )
        pieces = [("user", f"{text}\n\n") for text in self.texts("prefix")] + exact
        pieces += [("user", f"\n\n{text}") for text in self.texts("post")]
        pieces = [pieces[index] for index in self.order] if self.order else pieces
        if self.filler:
            pieces.insert(0, ("user", "\n".join([FILLER_LINE] * self.filler) + "\n\n"))
        turn, before, messages = -1, "", []
        for role, text in pieces:
            turn += role != before
            messages.append(chat_piece(turn, role, text))
            before = role
        return "".join(messages)


def _repeated(text: str, repeat: PromptRepeat) -> str:
    """A prompt with copies of itself before it, or with filler of their length; of a chat its last message."""
    messages = decode_chat(text)
    if messages is None:
        copy = sham_text(text, filled=True) if repeat.filler else text
        return "\n\n".join([copy] * (repeat.times - 1) + [text])
    messages[-1]["content"] = _repeated(messages[-1]["content"], repeat)
    return "".join(
        chat_piece(number, message["role"], message["content"]) for number, message in enumerate(messages)
    )


@lru_cache(maxsize=32)
def _variables_of(templates_dir: Path | None, name: str) -> frozenset[str]:
    """The variables that a base template of a user's folder has; of the bundled ones none is asked for."""
    if templates_dir is None or not (templates_dir / name).is_file():
        return frozenset()
    source = (templates_dir / name).read_text(encoding="utf-8")
    return frozenset(meta.find_undeclared_variables(environment(templates_dir).parse(source)))


def compose(
    bundle: Bundle, ctx: PromptContext, form: PromptForm = "message", repeat: PromptRepeat | None = None
) -> PromptTree:
    """The prompt of one item under a bundle: each operator rendered into its blocks, empty ones left out.

    A template that uses a name the context lacks is a ``PromptError``, and so are verbatim pieces beside other text:
    they are the whole prompt.
    """
    slots = {operator.slot for operator in bundle}
    if "verbatim" in slots and slots - {"verbatim", "none"}:
        mixed = [operator.name for operator in bundle if operator.slot not in ("verbatim", "none")]
        raise PromptError(
            f"verbatim pieces are the whole prompt, and {', '.join(mixed)} would add text to it",
            hint="use either verbatim operators or others in a condition",
        )
    solved = [operator for operator in bundle if operator.spec.type == "fewshot" and operator.render(ctx)]
    as_turns = form == "turns" and bool(solved)
    blocks = [
        block
        for operator in bundle
        if not (as_turns and operator in solved)
        for block in operator.blocks(ctx)
    ]
    cues = [operator.spec.cue or "" for operator in solved if not as_turns]
    return PromptTree(
        template=base_template(ctx),
        instruction=ctx.instruction,
        input_label=ctx.input_label,
        input_text=ctx.input_text,
        blocks=tuple(blocks),
        task=(ctx.task_title, ctx.task_goal),
        closing=next(iter(cues), ""),
        turns=tuple(turn for operator in solved for turn in _turns(operator, ctx)) if as_turns else (),
        repeat=repeat,
    )


def _turns(operator: Operator, ctx: PromptContext) -> list[tuple[str, str]]:
    """The exemplars of an operator as turns: each question as the item's own is put, and its answer."""
    template = base_template(ctx)
    return [
        (shown_question(template, ctx.input_label, entry.input_text), entry.output_text)
        for entry in ctx.exemplars[: operator.spec.k]
    ]


LengthControl = Literal["off", "warn", "pad"]
BANDS: dict[TaskKind, tuple[int, int]] = {
    "structured": (350, 650),
    "reasoning": (200, 500),
    "judged": (200, 500),
}
"""Prompt tokens aimed at by kind of task, so that "the longer prompt wins" is no confound."""
CHARACTERS_PER_TOKEN = 4
"""Estimate where a model's tokenizer cannot be asked; rows then say so."""


@dataclass(frozen=True)
class Prompt:
    """A prompt as one model gets it: the tree it was made from, its text and its length in that model's tokens."""

    text: str
    tokens: int
    exact: bool
    """Whether the model's own tokenizer counted, not an estimate from the number of characters."""
    band: Literal["inside", "below", "above"]
    """Where the length lies relative to the task's band."""
    tree: PromptTree
    """What the text was assembled from, filler included."""


def fit(
    tree: PromptTree,
    band: tuple[int, int],
    control: LengthControl,
    counter: Callable[[str], int | None],
    templates_dir: Path | None = None,
) -> Prompt:
    """Assemble a prompt, count it and, under ``pad``, bring it up to the band with content-free filler.

    ``band`` is the lowest and highest number of tokens wanted; nothing is ever cut, so a prompt may end above it.
    ``counter`` is the model's ``count_tokens``: where it returns ``None`` a token is taken to be four characters,
    and the prompt is not ``exact``.
    """
    low, high = band
    text = tree.assemble(templates_dir)
    tokens, exact = _count(text, counter)
    if control == "pad" and tokens < low:
        line_tokens = max(1, _count(FILLER_LINE + "\n", counter)[0])
        lines = math.ceil((low - tokens) / line_tokens)
        # A tokenizer may join lines of filler: one is added until the count is there.
        while tokens < low:
            tree, before = replace(tree, filler=lines), tokens
            text = tree.assemble(templates_dir)
            tokens, _ = _count(text, counter)
            if tokens <= before:
                raise PromptError("the prompt cannot be padded: more text does not count as more tokens")
            lines += 1
    position: Literal["inside", "below", "above"] = (
        "below" if tokens < low else "above" if tokens > high else "inside"
    )
    return Prompt(text, tokens, exact, position, tree)


def _count(text: str, counter: Callable[[str], int | None]) -> tuple[int, bool]:
    """Tokens of a text, and whether the model's own tokenizer counted them."""
    tokens = counter(text)
    return (math.ceil(len(text) / CHARACTERS_PER_TOKEN), False) if tokens is None else (tokens, True)
