"""A condition applied to an item: the prompt and the decoding policy that a model gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pcsuite.config.definitions import ConditionsFile, OperatorsFile
from pcsuite.config.load import bundled_configs
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import PromptError
from pcsuite.prompts.conditions.designs import ConditionBundle, expand_conditions
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.operators import Bundle, Operator
from pcsuite.prompts.tree import PromptTree, compose


class PromptConstraint(NamedTuple):
    """A hard constraint a condition asks for: its kind, what it enforces, and the backend wanted."""

    kind: Literal["json_schema", "regex", "cfg"]
    value: str
    backend: str


@dataclass(frozen=True)
class PromptCondition:
    """What :func:`build_condition` returns."""

    id: str
    bundle: Bundle
    tree: PromptTree
    constraint: PromptConstraint | None
    program: Operator | None
    templates_dir: Path | None = None
    lmql_query: str = ""
    """The task's own LMQL query, for the constraint backend ``lmql_program``."""

    @cached_property
    def prompt(self) -> str:
        """The text a model gets (before length control)."""
        return self.tree.assemble(self.templates_dir)

    @property
    def react(self) -> bool:
        """Whether the condition runs the act–observe–revise loop."""
        return self.program is not None and self.program.spec.engine == "react"

    @property
    def meta(self) -> dict[str, Any]:
        """What the prompt is made of."""
        return {
            "condition": self.id,
            "template": self.tree.template,
            "operators": list(self.bundle.names),
            "blocks": [(block.operator, block.slot) for block in self.tree.blocks],
            "padded": self.tree.filler,
        }


class NotApplicableError(PromptError):
    """The condition has no meaning for the task."""


def apply_condition(
    condition: ConditionBundle,
    ctx: PromptContext,
    *,
    templates_dir: Path | None = None,
    perturb: Callable[[PromptTree], PromptTree] | None = None,
) -> PromptCondition:
    """Compose a condition's operators for one item."""
    if condition.compiled and condition.prompt is None:
        raise PromptError(
            f"condition {condition.id} needs a compiled prompt for task '{ctx.task_id}'",
            hint=f"pcsuite optimize --config PROFILE --task {ctx.task_id}",
        )
    bundle = condition.bundle(ctx)
    if bundle is None:
        kinds = " or ".join(condition.constraint_kinds())
        raise NotApplicableError(
            f"task '{ctx.task_id}' defines no {kinds} for condition {condition.id} to enforce"
        )
    tree = compose(bundle, ctx) if condition.prompt is None else condition.prompt.tree(bundle, ctx)
    if perturb is not None:
        tree = perturb(tree)
    programs = bundle.of_type("program")
    return PromptCondition(
        id=condition.id,
        bundle=bundle,
        tree=tree,
        constraint=_constraint(bundle, ctx),
        program=programs[-1] if programs else None,
        templates_dir=templates_dir,
        lmql_query=ctx.lmql_query,
    )


def build_condition(
    condition_id: str, templates_dir: str | Path | None = None, ctx: Mapping[str, Any] | None = None
) -> PromptCondition:
    """Build one of the bundled conditions for plain values.

    ``ctx`` keys: task_id, task_kind, task_title, task_goal, input_text, rules, schema_text, exemplars,
    verifier_checklist, final_answer_format (and optionally instruction, role, abstain, decompose,
    input_label, answer_regex, grammar).
    """
    context = PromptContext.from_mapping(ctx or {})
    folder = Path(templates_dir) if templates_dir is not None else None
    return apply_condition(_bundled(condition_id), context, templates_dir=folder)


@lru_cache(maxsize=64)
def _bundled(condition_id: str) -> ConditionBundle:
    folder = bundled_configs()
    conditions = YamlSource.read(folder / "conditions_v1.yaml").parse(ConditionsFile).conditions
    operators = YamlSource.read(folder / "operators_v1.yaml").parse(OperatorsFile).operators
    return expand_conditions([condition_id], conditions, operators)[0]


def _constraint(bundle: Bundle, ctx: PromptContext) -> PromptConstraint | None:
    operators = bundle.of_type("constraint")
    if not operators:
        return None
    operator = operators[-1]
    assert operator.spec.kind is not None, "a constraint operator has a kind"
    return PromptConstraint(
        operator.spec.kind, operator.constraint_value(ctx), operator.spec.engine or "auto"
    )
