"""The part of a prompt that a text attack may change, as one text, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.tree import PromptTree

SEPARATOR = "\n\n~~~\n\n"
"""Between the parts of an attacked text; it has no letter, so word attacks leave it alone."""
_LITERAL = re.compile(r'"[^"\n]+"|\{[^\n]*\}|\[[^\n]*\]|####|\b[A-Z][A-Z_]+\b|\b[A-Z]\b')
_WORD = re.compile(r"\w+")
_PROTOCOL = ("Action", "Observation", "Final", "Answer", "search", "JSON")


def attackable_parts(tree: PromptTree, ctx: PromptContext) -> list[str]:
    """Instruction and blocks, without what must stay verbatim: the schema, exemplars, the input."""
    return [tree.instruction, *(tree.blocks[place].text for place in _places(tree, ctx))]


def with_parts(tree: PromptTree, ctx: PromptContext, parts: Sequence[str]) -> PromptTree:
    """The prompt with its attackable parts replaced."""
    places = _places(tree, ctx)
    if len(parts) != len(places) + 1:
        raise ValueError(f"{len(parts)} parts given, the prompt has {len(places) + 1}")
    blocks = list(tree.blocks)
    for place, text in zip(places, parts[1:], strict=True):
        blocks[place] = replace(blocks[place], text=text)
    return replace(tree, instruction=parts[0], blocks=tuple(blocks))


def protected_words(tree: PromptTree, ctx: PromptContext) -> tuple[str, ...]:
    """Words of schema, labels, field names, formats and protocol lines, which keep the task solvable."""
    parts = attackable_parts(tree, ctx)
    literals = [match for part in parts for match in _LITERAL.findall(part)]
    sources = [ctx.schema_text, *literals, *_PROTOCOL, ctx.final_answer_format, ctx.abstain]
    return tuple(sorted({word for source in sources for word in _WORD.findall(source)}))


def keeps_literals(original: str, changed: str, protected: Sequence[str]) -> bool:
    """Whether a reworded part still has every quoted text, label, field name and format of the original."""
    literals = set(_LITERAL.findall(original))
    words, kept = set(_WORD.findall(original)), set(_WORD.findall(changed))
    return all(literal in changed for literal in literals) and words & set(protected) <= kept


def _places(tree: PromptTree, ctx: PromptContext) -> list[int]:
    return [
        place
        for place, block in enumerate(tree.blocks)
        if block.slot != "fewshot" and not (ctx.schema_text and ctx.schema_text in block.text)
    ]
