"""From a conditions file to concrete bundles: inheritance, alternatives and designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from pcsuite.config.definitions import ConditionSpec, OperatorSpec, OperatorUse
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.prompts.compiled import CompiledPrompt
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.makeup import operator_makeup
from pcsuite.prompts.operators import Bundle, Operator

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
        return (*bundle.names, *operator_makeup(self.prompt.template))

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
            expanded.append(ConditionBundle(name, spec.title, steps, spec.compiled))
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
