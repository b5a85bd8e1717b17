"""A condition applied to an item: the prompt and the decoding policy that a model gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pcsuite.config.definitions import ConditionsFile, ConditionSpec, OperatorSpec, OperatorUse
from pcsuite.config.load import bundled_configs, bundled_operators
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import ConfigError, PromptError, did_you_mean
from pcsuite.prompts.compiled import CompiledPrompt, makeup_cues
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.operators import Bundle, Operator
from pcsuite.prompts.prompt import PromptTree, compose

# From a conditions file to concrete bundles: inheritance, alternatives and designs.


_MAX_FACTORIAL = 8


@dataclass(frozen=True, slots=True)
class ConditionBundle:
    """A concrete condition: steps of one operator, or of alternatives of which the task's own is used."""

    id: str
    title: str
    steps: tuple[tuple[Operator, ...], ...]
    compiled: bool = False
    """Whether the prompt comes from the optimiser's frozen file."""
    prompt: CompiledPrompt | None = None
    """The prompt of that file, once a task and a model are known."""
    known: Mapping[str, OperatorSpec] | None = field(default=None, repr=False, compare=False)
    """All operators of the suite, whose cues a compiled free text is judged by; else the bundled ones."""

    def with_prompt(self, prompt: CompiledPrompt) -> ConditionBundle:
        """The condition with its compiled prompt."""
        return replace(self, steps=prompt.steps, compiled=True, prompt=prompt)

    def bundle(self, ctx: PromptContext) -> Bundle | None:
        """The operators for a task, or ``None`` where an alternative step has nothing that applies."""
        chosen = Bundle()
        for step in self.steps:
            operator = next((entry for entry in step if entry.applies_to(ctx)), None)
            if operator is None:
                return None
            chosen = chosen + operator
        return chosen

    def operator_names(self, bundle: Bundle) -> tuple[str, ...]:
        """How rows name the condition's operators: of a compiled free text, those whose cues its words show."""
        if self.prompt is None or not self.prompt.is_text:
            return bundle.names
        return (*bundle.names, *makeup_cues(self.prompt.template, self.known))

    def constraint_kinds(self) -> tuple[str, ...]:
        """Kinds of constraint this condition could enforce."""
        kinds = [operator.spec.kind for step in self.steps for operator in step if operator.spec.kind]
        return tuple(dict.fromkeys(str(kind) for kind in kinds))


def expand_conditions(
    names: Sequence[str], conditions: Mapping[str, ConditionSpec], operators: Mapping[str, OperatorSpec]
) -> list[ConditionBundle]:
    """Concrete conditions for the selected names; a design becomes all its members."""
    expanded: list[ConditionBundle] = []
    for name in names:
        if name not in conditions:
            raise ConfigError(f"unknown condition '{name}'", hint=did_you_mean(name, conditions))
        spec = conditions[name]
        steps = _steps(name, conditions, operators, ())
        if spec.design is None:
            expanded.append(ConditionBundle(name, spec.title, steps, spec.compiled, known=operators))
        else:
            own = len(spec.operators)
            expanded.extend(_design(name, spec, steps[: len(steps) - own], steps[len(steps) - own :]))
    return list({bundle.id: bundle for bundle in expanded}.values())


def _steps(
    name: str,
    conditions: Mapping[str, ConditionSpec],
    operators: Mapping[str, OperatorSpec],
    seen: tuple[str, ...],
) -> tuple[tuple[Operator, ...], ...]:
    if name in seen:
        raise ConfigError(f"condition '{name}' extends itself: {' -> '.join((*seen, name))}")
    spec = conditions[name]
    inherited = _steps(spec.extends, conditions, operators, (*seen, name)) if spec.extends else ()
    own = tuple(
        tuple(_operator(use, operators) for use in (entry if isinstance(entry, tuple) else (entry,)))
        for entry in spec.operators
    )
    return inherited + own


def _operator(use: OperatorUse, operators: Mapping[str, OperatorSpec]) -> Operator:
    name = use.name
    if name not in operators:
        raise ConfigError(f"unknown operator '{name}'", hint=did_you_mean(name, operators))
    spec = operators[name]
    if spec.alias_of is not None:
        name, spec = spec.alias_of, operators[spec.alias_of]
    return Operator(name, spec).with_options(use)


def _design(
    name: str,
    spec: ConditionSpec,
    base: tuple[tuple[Operator, ...], ...],
    varied: tuple[tuple[Operator, ...], ...],
) -> list[ConditionBundle]:
    def member(suffix: str, chosen: Sequence[tuple[Operator, ...]]) -> ConditionBundle:
        return ConditionBundle(f"{name}:{suffix}", f"{spec.title or name} {suffix}", base + tuple(chosen))

    labels = [step[0].name for step in varied]
    if spec.design == "ladder":
        return [member("none", ())] + [
            member("+".join(labels[:count]), varied[:count]) for count in range(1, len(varied) + 1)
        ]
    if spec.design == "leave_one_out":
        return [member("all", varied)] + [
            member(f"-{labels[index]}", varied[:index] + varied[index + 1 :]) for index in range(len(varied))
        ]
    if spec.design == "add_one_in":
        return [member("none", ())] + [member(f"+{labels[i]}", varied[i : i + 1]) for i in range(len(varied))]
    if len(varied) > _MAX_FACTORIAL:
        raise ConfigError(
            f"condition '{name}': a factorial of {len(varied)} operators has {2 ** len(varied)} members",
            hint=f"name at most {_MAX_FACTORIAL}",
        )
    subsets = [s for count in range(len(varied) + 1) for s in combinations(range(len(varied)), count)]
    return [member("+".join(labels[i] for i in s) or "none", [varied[i] for i in s]) for s in subsets]


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
    conditions = YamlSource.read(bundled_configs() / "conditions_v1.yaml").parse(ConditionsFile).conditions
    return expand_conditions([condition_id], conditions, bundled_operators())[0]


def _constraint(bundle: Bundle, ctx: PromptContext) -> PromptConstraint | None:
    operators = bundle.of_type("constraint")
    if not operators:
        return None
    operator = operators[-1]
    assert operator.spec.kind is not None, "a constraint operator has a kind"
    return PromptConstraint(
        operator.spec.kind, operator.constraint_value(ctx), operator.spec.engine or "auto"
    )
