"""Operators: composable values, the only source of prompt text besides instruction and input.

``ROLE + GOAL`` is a bundle; bundles add up, compare by value, and print as a tree. Templates are rendered by one Jinja2
environment that is sandboxed and strict about undefined names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pcsuite.config.definitions import WORDING_1, TaskKind
from pcsuite.config.operator_definitions import FILLER_MARK, MessageRole, OperatorSpec, OperatorUse, Place
from pcsuite.errors import ConfigError, PromptError
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.filler import sham_text
from pcsuite.prompts.verbatim import fill_placeholders, placeholders, render_jinja

BASE_TEMPLATES = Path(__file__).parent / "base_templates"
_BASE_TEMPLATE: dict[TaskKind, str] = {
    "structured": "json_base.j2",
    "reasoning": "reasoning_base.j2",
    "judged": "json_base.j2",
}


def base_template(ctx: PromptContext) -> str:
    """Name of the base template of a task's kind, in the wording that the context asks for."""
    if ctx.wording == WORDING_1 and ctx.task_kind == "reasoning":
        return "reasoning_base_wording_1.j2"
    return _BASE_TEMPLATE[ctx.task_kind]


@lru_cache(maxsize=8)
def environment(templates_dir: Path | None = None) -> ImmutableSandboxedEnvironment:
    """The Jinja2 environment: sandboxed, strict about undefined names, and kept with the templates it compiled.

    A user's ``templates_dir`` is searched before the bundled base templates.
    """
    folders = [BASE_TEMPLATES] if templates_dir is None else [templates_dir, BASE_TEMPLATES]
    return ImmutableSandboxedEnvironment(
        loader=FileSystemLoader([str(folder) for folder in folders]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,
        cache_size=1024,
    )


@lru_cache(maxsize=512)
def _compiled(source: str) -> Template:
    return environment().from_string(source)


@lru_cache(maxsize=4096)
def shown_question(template: str, label: str, text: str) -> str:
    """An input under its label, as a bundled base template puts it: of the item and of every exemplar."""
    empty: dict[str, Any] = dict.fromkeys(("filler", "prefix", "blocks", "fewshot", "post"), ())
    shown = environment().get_template(template)
    return shown.render(empty, instruction="", input_label=label, input_text=text).strip("\n")


def render_text(source: str, variables: dict[str, Any], *, where: str) -> str:
    """Render template text with these variables, newlines at both ends stripped.

    ``where`` names the template in the ``PromptError`` that an undefined name or bad syntax raises.
    """
    try:
        return _compiled(source).render(variables).strip("\n")
    except TemplateError as error:
        raise PromptError(f"{where}: template cannot be rendered: {error}") from error


Slot = Literal["prefix", "block", "fewshot", "before", "post", "verbatim", "none"]

_SLOTS: dict[str, Slot] = {
    "prefix_block": "prefix",
    "block": "block",
    "rule": "block",
    "program": "block",
    "fewshot": "fewshot",
    "post_block": "post",
    "verbatim": "verbatim",
    "constraint": "none",
}
_SLOT_AT: Mapping[Place, Slot] = {
    "start": "prefix",
    "before_examples": "block",
    "before_question": "before",
    "after_question": "post",
}


@dataclass(frozen=True, slots=True)
class OperatorBlock:
    """A piece of prompt text that one operator put there."""

    operator: str
    """The operator's label."""
    slot: Slot
    text: str
    role: MessageRole | None = None
    """Message of a chat that it stands in; without roles the prompt is one text."""


# The input is all that a context has of its item; another template that is drawn in may show it too.
_ITEM_DEPENDENT = re.compile(r"input_text|\{%[-+]?\s*(?:include|import|from|extends)\b")


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator with its parameters."""

    name: str
    spec: OperatorSpec

    @property
    def slot(self) -> Slot:
        """Where the operator's text stands in the prompt.

        ``none`` for one without a text, such as a constraint.
        """
        return _SLOTS[self.spec.type] if self.spec.template else "none"

    @property
    def label(self) -> str:
        """How rows name it: its name, where it stands if that is not the place of its type, and how often.

        >>> str(Operator("NOTE", OperatorSpec(type="rule", template="x", at="after_question", repeat=2)).label)
        'NOTE@after_question.x2'
        """
        spec = self.spec
        if spec.type == "verbatim":  # named by who wrote it, what it is included
            return self.name
        where = f"@{'+'.join(spec.at)}" if spec.at else ""
        often = f".x{spec.repeat}" if (spec.repeat or 1) > 1 else ""
        return f"{FILLER_MARK if spec.filler else ''}{self.name}{where}{often}"

    def blocks(self, ctx: PromptContext) -> list[OperatorBlock]:
        """Its text as blocks of the prompt, one for each place where it stands; none where it has no text."""
        text = self.render(ctx)
        if not text or self.slot == "none":
            return []
        placed: list[tuple[Slot, MessageRole | None]] = [
            (self.slot, "system") if place == "system" else (_SLOT_AT[place], self.spec.role)
            for place in self.spec.at or ()
        ]
        return [
            OperatorBlock(self.label, slot, text, role)
            for slot, role in placed or [(self.slot, self.spec.role)]
        ]

    def __add__(self, other: Operator | Bundle) -> Bundle:
        return Bundle((self,)) + other

    def with_options(self, use: OperatorUse) -> Operator:
        """This operator with the overrides that a condition's use of it gives (``k``, ``mode``, ``engine``, …).

        What the use leaves out stays as the operator has it. A role that only verbatim pieces have is a
        ``PromptError`` on any other operator, a mode that it does not have a ``ConfigError``.
        """
        allowed = self.spec.modes
        if use.mode is not None and allowed is not None and use.mode not in allowed:
            raise ConfigError(f"{self.name} has no mode '{use.mode}'", hint=f"it has {' and '.join(allowed)}")
        if use.role not in (None, "system", "user") and self.spec.type != "verbatim":
            raise PromptError(
                f"operator {self.name}: the role {use.role} is for verbatim pieces", hint="system or user"
            )
        changes = {key: value for key, value in use.model_dump(exclude={"name"}).items() if value is not None}
        misplaced = [key for key in ("at", "repeat", "filler") if key in changes]
        if misplaced and (self.spec.type == "verbatim" or self.slot == "none"):
            raise ConfigError(
                f"operator {self.name} has no block in the prompt for '{misplaced[0]}' to change"
            )
        if self.spec.type == "fewshot" and "before_examples" in (use.at or ()):
            raise ConfigError(f"operator {self.name} shows the examples and cannot stand before them")
        return replace(self, spec=self.spec.model_copy(update=changes)) if changes else self

    def applies_to(self, ctx: PromptContext) -> bool:
        """Whether the task provides what the operator needs: for a constraint, something of its kind to enforce."""
        return self.spec.type != "constraint" or bool(self.constraint_value(ctx))

    def constraint_value(self, ctx: PromptContext) -> str:
        """What a constraint operator enforces on this task: schema text, regular expression or grammar.

        Empty where the task has nothing for it.
        """
        kind = self.spec.kind
        if kind == "json_schema":
            return ctx.schema_text
        return ctx.answer_regex if kind == "regex" else ctx.grammar

    @property
    def reads_input(self) -> bool:
        """Whether the operator's text may depend on the item; else it is the same for all items of a task.

        What does not is rendered once a cell. Where a template mentions the input in any way it counts as dependent.
        """
        template = self.spec.template or ""
        if self.spec.type == "verbatim":
            return self.spec.syntax == "jinja" or bool(placeholders(template))
        return bool(_ITEM_DEPENDENT.search(template))

    def render(self, ctx: PromptContext) -> str:
        """The operator's text for one item, as often as it is repeated; empty for operators that show nothing.

        Templates see the context and the operator's own ``mode`` and ``max_steps``; a fewshot operator shows the first
        ``k`` exemplars, and nothing where there are none. Its template sees the ``cue`` before an answer and
        ``question(text)``, an input as the base template puts it.
        """
        text = self._rendered(ctx)
        if self.spec.filler and text:
            text = sham_text(text, filled=True)
        return "\n\n".join([text] * (self.spec.repeat or 1)) if text else ""

    def _rendered(self, ctx: PromptContext) -> str:
        if not self.spec.template:
            return ""
        if self.spec.type == "verbatim":
            # Without an item a template stands for itself, as a placeholder does.
            renders = self.spec.syntax == "jinja" and (ctx.columns or ctx.input_text)
            fill = render_jinja if renders else fill_placeholders
            return fill(self.spec.template, ctx.input_text, ctx.columns)
        variables: dict[str, Any] = ctx.variables() | {
            "mode": self.spec.mode,
            "max_steps": self.spec.max_steps,
        }
        if self.spec.type == "fewshot":
            variables["exemplars"] = ctx.exemplars[: self.spec.k]
            if not variables["exemplars"]:
                return ""
            variables["cue"] = self.spec.cue or "Answer:"
            variables["question"] = partial(shown_question, base_template(ctx), ctx.input_label)
        return render_text(self.spec.template, variables, where=f"operator {self.name}")

    def adds_nothing(self, ctx: PromptContext) -> bool:
        """Whether the operator would leave a task as it is: no text, no constraint, no turn of a program.

        A text of which only the heading is left, since everything that it shows is empty on the task, is none.
        """
        if self.spec.type == "constraint":
            return False
        if self.spec.type == "verbatim":
            return not self.spec.template
        text = self.render(ctx)
        if not text.strip():
            return self.spec.type != "program" or not self.spec.engine
        template = self.spec.template or ""
        if "{%" in template:
            return False
        shown = meta.find_undeclared_variables(environment().parse(template))
        values = ctx.variables() | {"mode": self.spec.mode, "max_steps": self.spec.max_steps}
        return bool(shown) and not any(values.get(name) for name in shown)

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
        # A block and its sham may both be there; of two of one name the later counts, wherever it stands.
        names = {(operator.name, operator.spec.filler) for operator in added}
        kept = tuple(
            operator for operator in self.operators if (operator.name, operator.spec.filler) not in names
        )
        return Bundle(kept + added)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)

    def __contains__(self, name: object) -> bool:
        return any(operator.name == name for operator in self.operators)

    @property
    def names(self) -> tuple[str, ...]:
        """Operators in order, as rows name them (:attr:`Operator.label`)."""
        return tuple(operator.label for operator in self.operators)

    def of_type(self, kind: str) -> tuple[Operator, ...]:
        """Operators of one type, in order."""
        return tuple(operator for operator in self.operators if operator.spec.type == kind)

    def __str__(self) -> str:
        lines = ["Bundle"]
        for index, operator in enumerate(self.operators):
            branch = "└── " if index == len(self.operators) - 1 else "├── "
            lines.append(f"{branch}{operator} [{operator.spec.type}]")
        return "\n".join(lines)
