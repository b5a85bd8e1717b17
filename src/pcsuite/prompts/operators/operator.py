"""Operators and bundles of them.

``ROLE + GOAL`` is a bundle; bundles add up, compare by value, and print as a tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from pcsuite.config.definitions import OperatorSpec, OperatorUse
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.environment import render_text

Slot = Literal["prefix", "block", "fewshot", "post", "none"]

_SLOTS: dict[str, Slot] = {
    "prefix_block": "prefix",
    "block": "block",
    "rule": "block",
    "program": "block",
    "fewshot": "fewshot",
    "post_block": "post",
    "constraint": "none",
}


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator with its parameters."""

    name: str
    spec: OperatorSpec

    @property
    def slot(self) -> Slot:
        """Where the operator's text stands in the prompt."""
        return _SLOTS[self.spec.type] if self.spec.template else "none"

    def __add__(self, other: Operator | Bundle) -> Bundle:
        return Bundle((self,)) + other

    def with_options(self, use: OperatorUse) -> Operator:
        """This operator with a condition's overrides."""
        changes = {key: value for key, value in use.model_dump(exclude={"name"}).items() if value is not None}
        return replace(self, spec=self.spec.model_copy(update=changes)) if changes else self

    def applies_to(self, ctx: PromptContext) -> bool:
        """Whether the task provides what the operator needs."""
        if self.spec.type != "constraint":
            return True
        return bool(self.constraint_value(ctx))

    def constraint_value(self, ctx: PromptContext) -> str:
        """What a constraint operator enforces on this task; empty where the task has nothing for it."""
        kind = self.spec.kind
        if kind == "json_schema":
            return ctx.schema_text
        return ctx.answer_regex if kind == "regex" else ctx.grammar

    def render(self, ctx: PromptContext) -> str:
        """The operator's text for one item; empty for operators that show nothing."""
        if not self.spec.template:
            return ""
        variables: dict[str, Any] = ctx.variables() | {
            "mode": self.spec.mode,
            "max_steps": self.spec.max_steps,
        }
        if self.spec.type == "fewshot":
            variables["exemplars"] = ctx.exemplars[: self.spec.k]
            if not variables["exemplars"]:
                return ""
        return render_text(self.spec.template, variables, where=f"operator {self.name}")

    def __str__(self) -> str:
        spec = self.spec
        shown = {"k": spec.k, "mode": spec.mode, "max_steps": spec.max_steps, "kind": spec.kind}
        inner = ", ".join(f"{key}={value}" for key, value in shown.items() if value is not None)
        return f"{self.name}({inner})" if inner else self.name


@dataclass(frozen=True, slots=True)
class Bundle:
    """An ordered set of operators."""

    operators: tuple[Operator, ...] = ()

    def __add__(self, other: Operator | Bundle) -> Bundle:
        added = (other,) if isinstance(other, Operator) else other.operators
        names = {operator.name for operator in added}
        kept = tuple(operator for operator in self.operators if operator.name not in names)
        return Bundle(kept + added)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)

    def __contains__(self, name: object) -> bool:
        return any(operator.name == name for operator in self.operators)

    @property
    def names(self) -> tuple[str, ...]:
        """Operator names in order."""
        return tuple(operator.name for operator in self.operators)

    def of_type(self, kind: str) -> tuple[Operator, ...]:
        """Operators of one type, in order."""
        return tuple(operator for operator in self.operators if operator.spec.type == kind)

    def __str__(self) -> str:
        lines = ["Bundle"]
        for index, operator in enumerate(self.operators):
            branch = "└── " if index == len(self.operators) - 1 else "├── "
            lines.append(f"{branch}{operator} [{operator.spec.type}]")
        return "\n".join(lines)
