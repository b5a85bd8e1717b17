"""Prompts by the specification's names: operators as objects that fill named blocks, and conditions that build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment

from pcsuite.config.bundled import bundled_operators
from pcsuite.prompts import operators as own
from pcsuite.prompts.conditions.conditions import PromptCondition, build_condition
from pcsuite.prompts.context import DEFAULT_CHECKLISTS, Exemplar, PromptContext


@dataclass(frozen=True)
class OperatorOutput:
    """The blocks that operators fill, as templates that name their blocks see them."""

    role_block: str | None = None
    goal_block: str | None = None
    context_block: str | None = None
    rules_block: str | None = None
    verifier_block: str | None = None
    exemplars_text: str | None = None
    allow_abstain: bool = False
    abstain_instruction: str | None = None
    reasoning_mode: str | None = None


class Operator:
    """An operator that puts its text into a block: the bundled one's, unless it was given words of its own."""

    id: str = ""
    block: ClassVar[str] = "context_block"

    def __init__(self, words: str | None = None) -> None:
        self.words = words

    def apply(self, ctx: Mapping[str, Any], out: OperatorOutput) -> OperatorOutput:
        """The blocks with this operator's own filled in; a text that has nothing to say leaves them as they are.

        ``out`` is not changed: the result is another value. Raises ``KeyError`` where the operator's words use a name
        that is neither ``task_goal`` nor ``task_title``.
        """
        text = self.text(ctx)
        filled: dict[str, Any] = {self.block: text}
        return replace(out, **filled) if text else out

    def text(self, ctx: Mapping[str, Any], **changes: Any) -> str:
        r"""The operator's text for a context, with a newline at its end; empty where it says nothing.

        ``changes`` replace fields of the bundled operator, ``template`` say. Raises
        :class:`~pcsuite.errors.PromptError` where its template uses a name that contexts do not have.

        >>> GoalOperator("Answer {task_title}.").text({"task_title": "the question"})
        'Answer the question.\n'
        """
        if self.words is not None:
            values = {"task_goal": ctx.get("task_goal", ""), "task_title": ctx.get("task_title", "")}
            return self.words.format(**values).rstrip() + "\n"
        spec = bundled_operators()[self.id].model_copy(update=changes)
        operator = own.Operator(self.id, spec)
        context = PromptContext.from_mapping(_context(ctx))
        return "" if operator.adds_nothing(context) else operator.render(context).rstrip() + "\n"


class RoleOperator(Operator):
    """ROLE with a text of its own."""

    id = "ROLE"
    block = "role_block"

    def __init__(self, text: str) -> None:
        super().__init__(text.strip().replace("{", "{{").replace("}", "}}"))


class GoalOperator(Operator):
    """GOAL by a template with ``{task_goal}`` and ``{task_title}``."""

    id = "GOAL"
    block = "goal_block"

    def __init__(self, template: str) -> None:
        super().__init__(template)


class ConstraintsOperator(Operator):
    """CONSTRAINTS: the context's rules under a heading; none without rules."""

    id = "CONSTRAINTS"
    block = "rules_block"

    def __init__(self, heading: str = "Rules:") -> None:
        super().__init__()
        self.heading = heading

    def text(self, ctx: Mapping[str, Any], **changes: Any) -> str:
        rules = [f"- {rule}" for rule in ctx.get("rules") or ()]
        return "\n".join([self.heading, *rules]) + "\n" if rules else ""


class AbstainOperator(Operator):
    """ABSTAIN by an instruction."""

    id = "ABSTAIN"
    block = "abstain_instruction"

    def __init__(self, instruction: str) -> None:
        super().__init__(instruction.strip().replace("{", "{{").replace("}", "}}"))

    def apply(self, ctx: Mapping[str, Any], out: OperatorOutput) -> OperatorOutput:
        return replace(super().apply(ctx, out), allow_abstain=True)


class ExemplarsOperator(Operator):
    """EXEMPLARS: the context's first ``k``."""

    id = "EXEMPLARS"
    block = "exemplars_text"

    def __init__(self, k: int = 2) -> None:
        super().__init__()
        self.k = k

    def text(self, ctx: Mapping[str, Any], **changes: Any) -> str:
        shown = [Exemplar.of(entry) for entry in (ctx.get("exemplars") or ())[: self.k]]
        parts = [f"Input:\n{one.input_text.rstrip()}\nOutput:\n{one.output_text.rstrip()}" for one in shown]
        return "\n\n".join(parts) + "\n" if parts else ""


class VerifierOperator(Operator):
    """VERIFIER: a checklist, the context's first, and whether a failed check is revised once."""

    id = "VERIFIER"
    block = "verifier_block"

    def __init__(self, checklist: Sequence[str] | None = None, one_revision: bool = True) -> None:
        super().__init__()
        self.checklist = list(checklist or DEFAULT_CHECKLISTS["structured"])
        self.one_revision = one_revision

    def text(self, ctx: Mapping[str, Any], **changes: Any) -> str:
        checks = ctx.get("verifier_checklist") or self.checklist
        text = super().text({**ctx, "verifier_checklist": checks}).rstrip().split("\n")
        return "\n".join(text if self.one_revision else text[:-1]) + "\n"


class ReasoningModeOperator(Operator):
    """REASONING_MODE: ``none``, ``brief`` or ``full``; another one is a ``ValueError``."""

    id = "REASONING_MODE"

    def __init__(self, mode: str) -> None:
        super().__init__()
        if mode not in (bundled_operators()[self.id].modes or ()):
            raise ValueError("reasoning mode must be none, brief or full")
        self.mode = mode

    def apply(self, ctx: Mapping[str, Any], out: OperatorOutput) -> OperatorOutput:
        return replace(out, reasoning_mode=self.mode)


def make_jinja_env(templates_dir: str) -> Environment:
    """The environment that templates of a folder are rendered in: sandboxed, strict about undefined names.

    Templates that the folder lacks are looked for among the bundled ones.
    """
    return own.environment(Path(templates_dir))


def apply_operators(ctx: Mapping[str, Any], ops: Iterable[Operator]) -> OperatorOutput:
    """The blocks after every operator, in order: of two that fill the same block the later one stands.

    >>> apply_operators({}, [RoleOperator("You are a clerk."), AbstainOperator("Say so.")]).allow_abstain
    True
    """
    out = OperatorOutput()
    for operator in ops:
        out = operator.apply(ctx, out)
    return out


def render_prompt(
    env: Environment, template_name: str, ctx: Mapping[str, Any], ops: Sequence[Operator]
) -> tuple[str, dict[str, Any]]:
    """A template that names its blocks, rendered with those of the operators.

    Returns the text, which ends in one newline, and what it is made of: ``template``, ``operators`` by their ids,
    ``allow_abstain`` and ``reasoning_mode``. Raises jinja2's errors for a template that is missing or uses an unknown
    name.
    """
    blocks = apply_operators(ctx, ops)
    text = env.get_template(template_name).render(**{**ctx, **asdict(blocks)}).strip() + "\n"
    return text, {
        "template": template_name,
        "operators": [operator.id or type(operator).__name__ for operator in ops],
        "allow_abstain": blocks.allow_abstain,
        "reasoning_mode": blocks.reasoning_mode,
    }


class Condition:
    """One of the bundled conditions, by its id."""

    id: str = ""

    def build(
        self,
        task_spec: Mapping[str, Any] | None = None,
        item: Mapping[str, Any] | None = None,
        *,
        templates_dir: str | Path | None = None,
        ctx: Mapping[str, Any] | None = None,
    ) -> Any:
        """The prompt of the condition for a context, or for a task's entry and an item.

        With ``ctx`` the result is a :class:`~pcsuite.prompts.conditions.conditions.PromptCondition`; with ``task_spec``
        and ``item`` it is a mapping with ``prompt``, ``meta``, ``schema`` and ``verifier``. ``templates_dir`` is
        searched before the bundled templates. Raises :class:`~pcsuite.errors.PromptError` where ``ctx`` lacks a key.
        """
        if ctx is not None:
            return build_condition(self.id, templates_dir=templates_dir, ctx=ctx)
        task, fields = dict(task_spec or {}), dict(item or {})
        context: dict[str, Any] = {
            "task_id": task.get("id", fields.get("task_id", "task")),
            "task_kind": task.get("kind", "reasoning"),
            "input_text": fields.get("input_text", ""),
            **{key: task[key] for key in ("task_title", "task_goal", "rules", "schema_text") if key in task},
        }
        built: PromptCondition = build_condition(self.id, templates_dir=templates_dir, ctx=context)
        schema = None if built.constraint is None else built.constraint.value
        return {
            "prompt": built.prompt,
            "meta": built.meta,
            "schema": schema,
            "verifier": "VERIFIER" in built.bundle,
        }


_CLASSES = {
    "C0": "C0_Baseline", "C1": "C1_RoleGoal", "C2": "C2_AddConstraints", "C3": "C3_AddSchema", "C4": "C4_AddVerifier",
    "C5": "C5_AddFewShot", "C6": "C6_HardConstraint", "C7": "C7_ClosedLoop_ReAct", "C8": "C8_DSPyOptimized",
}  # fmt: skip
_MADE: dict[str, type[Condition]] = {
    name: type(name, (Condition,), {"id": condition, "__module__": __name__})
    for condition, name in _CLASSES.items()
}
CONDITIONS: dict[str, Condition] = {condition: _MADE[name]() for condition, name in _CLASSES.items()}
"""The conditions of the ladder by id."""


def __getattr__(name: str) -> Any:
    if name not in _MADE:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return _MADE[name]


def _context(ctx: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a context that prompts know; a task without a kind is one of reasoning."""
    known = set(PromptContext.__dataclass_fields__)
    kept = {key: value for key, value in ctx.items() if key in known}
    return {"task_id": "task", "task_kind": "reasoning", "input_text": "", **kept}
