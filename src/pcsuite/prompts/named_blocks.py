"""Base templates that name the blocks of operators (``role_block``, ``rules``, ``exemplars_text``, …).

The suite's own templates go through lists of texts and know no operator. Templates that people bring along may give
each block its place by name; everything in them comes from the blocks of the prompt, so that nothing of an operator
shows where it is not in the condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcsuite.prompts.operators import OperatorBlock

NAMED = frozenset(
    {"role_block", "goal_block", "rules_block", "verifier_block", "exemplars_text", "abstain_instruction"}
)
"""A template that uses one of these names its blocks."""
_BLOCK_OF = {
    "ROLE": "role_block",
    "GOAL": "goal_block",
    "CONSTRAINTS": "rules_block",
    "ABSTAIN": "abstain_instruction",
    "SCHEMA": "schema_text",
    "EXEMPLARS": "exemplars_text",
    "VERIFIER": "verifier_block",
    "REASONING_MODE": "reasoning_mode",
}
_SLOT_BLOCK = {
    "prefix": "role_block",
    "block": "context_block",
    "fewshot": "exemplars_text",
    "post": "verifier_block",
}
_MODES = ("full", "brief", "none")


def block_variables(
    blocks: Sequence[OperatorBlock], used: frozenset[str], *, title: str, goal: str, instruction: str
) -> dict[str, Any]:
    """What such a template sees; ``used`` are the variables that it has.

    A block whose place the template does not have stands with the goal, or before everything: none is lost.
    """
    texts: dict[str, list[str]] = {}
    for block in blocks:
        name = _BLOCK_OF.get(block.operator) or _SLOT_BLOCK.get(block.slot, "context_block")
        texts.setdefault(name, []).append(block.text)
    shown: dict[str, Any] = {name: "\n".join(lines) + "\n" for name, lines in texts.items()}
    variables: dict[str, Any] = {
        **dict.fromkeys((*_BLOCK_OF.values(), "context_block", "final_answer_format")),
        **shown,
        "rules": _listed(shown.get("rules_block", "")),
        "allow_abstain": "abstain_instruction" in shown,
        "exemplars_text": _without_heading(shown.get("exemplars_text", "")) or None,
        "reasoning_mode": _mode(shown.pop("reasoning_mode", "")),
        "verifier_checklist": _listed(shown.get("verifier_block", "")),
        "task_title": title,
        "task_goal": goal,
        "instruction": instruction,
    }
    form = shown.get("schema_text", "")
    at = form.find("{")
    variables["schema_text"] = form[at:].strip() if at >= 0 else ""
    variables["final_answer_format"] = None if at >= 0 or not form else _without_heading(form).strip()
    stand_in = {"rules_block": "rules", "schema_text": "schema_text" if at >= 0 else "final_answer_format"}
    homeless = [text for name, text in shown.items() if not {name, stand_in.get(name, name)} & used]
    if homeless:
        place = "goal_block" if "goal_block" in used else "role_block"
        variables[place] = "".join(filter(None, [variables[place], *homeless]))
    return variables


def _listed(text: str) -> list[str]:
    """The entries of a list within a text."""
    return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]


def _without_heading(text: str) -> str:
    """A text without a first line that only announces the rest."""
    first, newline, rest = text.partition("\n")
    return rest.lstrip("\n") if newline and first.endswith(":") else text


def _mode(text: str) -> str | None:
    """The mode of reasoning that a block asks for, by what it says; ``None`` where there is none."""
    if not text:
        return None
    folded: Mapping[str, Sequence[str]] = {
        "full": ("in full", "step"),
        "none": ("at once", "without expl", "directly"),
    }
    return next(
        (mode for mode in _MODES if any(word in text.casefold() for word in folded.get(mode, ()))), "brief"
    )
