"""Conditions: from a conditions file to bundles of operators (inheritance, alternatives, designs), and from a bundle
and an item to the prompt and the decoding policy that a model gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any, Literal

from pcsuite._util.mappings import DataclassMapping
from pcsuite.config.bundled import bundled_operators
from pcsuite.config.load import bundled_configs
from pcsuite.config.operator_definitions import (
    FILLER_MARK,
    ConditionsFile,
    ConditionSpec,
    OperatorSpec,
    OperatorUse,
    PromptForm,
    PromptRepeat,
)
from pcsuite.config.yaml_source import YamlSource
from pcsuite.errors import ConfigError, PromptError, did_you_mean
from pcsuite.prompts.compiled import COMPILED_OPERATOR, CompiledPrompt, makeup_cues
from pcsuite.prompts.context import PromptContext
from pcsuite.prompts.operators import Bundle, Operator, OperatorBlock
from pcsuite.prompts.prompt import PromptTree, compose

TURNS = "TURNS"
"""Among the operators of a condition whose exemplars are turns of a chat."""
WHOLE = "PROMPT"
"""Among the operators of a condition whose whole prompt is repeated: ``PROMPT.x2``, its sham ``~PROMPT.x2``."""
Steps = tuple[tuple[Operator, ...], ...]
_MAX_FACTORIAL = 8


@dataclass(frozen=True, slots=True)
class ConditionBundle:
    """A concrete condition: steps of one operator, or of alternatives of which the task's own is used."""

    id: str
    title: str
    steps: Steps
    compiled: bool = False
    """Whether the prompt comes from the optimiser's frozen file."""
    prompt: CompiledPrompt | None = None
    """The prompt of that file, once a task and a model are known."""
    form: PromptForm = "message"
    repeat: PromptRepeat | None = None
    reworded: int | None = None
    """Wording of every item; ``None`` where an item may draw its own."""
    known: Mapping[str, OperatorSpec] | None = field(default=None, repr=False, compare=False)
    """All operators of the suite, whose cues a compiled free text is judged by; else the bundled ones."""

    def with_prompt(self, prompt: CompiledPrompt) -> ConditionBundle:
        """The condition with its compiled prompt."""
        return replace(self, steps=prompt.steps, compiled=True, prompt=prompt)

    def bundle(self, ctx: PromptContext) -> Bundle | None:
        """The operators for a task: of each step the first that applies.

        ``None`` where a step has none (a constraint on a task with nothing to enforce): the condition does not apply.
        """
        chosen = Bundle()
        for step in self.steps:
            operator = next((entry for entry in step if entry.applies_to(ctx)), None)
            if operator is None:
                return None
            chosen = chosen + operator
        return chosen

    def operator_names(self, bundle: Bundle) -> tuple[str, ...]:
        """How rows name the condition's operators, in order.

        Of a compiled free text they are ``COMPILED`` and those whose cues its words show (:func:`makeup_cues`). What
        is done to the whole prompt is one of them: :data:`TURNS`, or :data:`WHOLE` as often as it stands.
        """
        whole: tuple[str, ...] = () if self.form == "message" else (TURNS,)
        if self.repeat is not None:
            whole += (f"{FILLER_MARK if self.repeat.filler else ''}{WHOLE}.x{self.repeat.times}",)
        if self.prompt is None or not self.prompt.is_text:
            return (*bundle.names, *whole)
        return (*bundle.names, *makeup_cues(self.prompt.template, self.known))

    def constraint_kinds(self) -> tuple[str, ...]:
        """Kinds of constraint this condition could enforce."""
        kinds = [operator.spec.kind for step in self.steps for operator in step if operator.spec.kind]
        return tuple(dict.fromkeys(str(kind) for kind in kinds))


def expand_conditions(
    names: Sequence[str], conditions: Mapping[str, ConditionSpec], operators: Mapping[str, OperatorSpec]
) -> list[ConditionBundle]:
    """Concrete conditions for the selected names, in order and each once; a design becomes all its members.

    ``design:member`` selects one of them. ``extends`` is followed, aliases are resolved and the overrides of a use
    applied. An unknown name, a condition that extends itself and a factorial of more than eight operators are
    ``ConfigError``.

    >>> from pcsuite.config.load import load_suite
    >>> suite = load_suite("quickstart")
    >>> [bundle.id for bundle in expand_conditions(["C0", "C4"], suite.conditions, suite.operators)]
    ['C0', 'C4']
    """
    expanded: list[ConditionBundle] = []
    for selected in names:
        name, _, member = selected.partition(":") if selected not in conditions else (selected, "", "")
        if name not in conditions:
            raise ConfigError(f"unknown condition '{selected}'", hint=did_you_mean(selected, conditions))
        spec = conditions[name]
        steps = _steps(name, conditions, operators, ())
        if spec.design is None:
            if member:
                hint = f"select it as '{name}'"
                raise ConfigError(
                    f"condition '{selected}': '{name}' is no design and has no members", hint=hint
                )
            bundle = ConditionBundle(name, spec.title, steps, spec.compiled, known=operators)
            bundle = replace(bundle, **_whole(name, conditions))
            _check_places(bundle)
            expanded.append(bundle)
            continue
        varied_from = len(steps) - len(spec.operators)
        members = _design(name, spec, steps[:varied_from], steps[varied_from:])
        members = [replace(bundle, known=operators, **_whole(name, conditions)) for bundle in members]
        chosen = [bundle for bundle in members if not member or bundle.id == selected]
        if not chosen:
            hint = did_you_mean(selected, [bundle.id for bundle in members])
            raise ConfigError(f"design '{name}' has no member '{selected}'", hint=hint)
        expanded.extend(chosen)
    return list({bundle.id: bundle for bundle in expanded}.values())


def _steps(
    name: str,
    conditions: Mapping[str, ConditionSpec],
    operators: Mapping[str, OperatorSpec],
    chain: tuple[str, ...],
) -> Steps:
    if name in chain:
        raise ConfigError(f"condition '{name}' extends itself: {' -> '.join((*chain, name))}")
    spec = conditions[name]
    inherited = _steps(spec.extends, conditions, operators, (*chain, name)) if spec.extends else ()

    def operator(use: OperatorUse) -> Operator:
        if use.name not in operators:
            raise ConfigError(f"unknown operator '{use.name}'", hint=did_you_mean(use.name, operators))
        name = operators[use.name].alias_of or use.name
        return Operator(name, operators[name]).with_options(use)

    entries = (entry if isinstance(entry, tuple) else (entry,) for entry in spec.operators)
    return inherited + tuple(tuple(operator(use) for use in entry) for entry in entries)


def _whole(name: str, conditions: Mapping[str, ConditionSpec]) -> dict[str, Any]:
    """What a condition does to its whole prompt: its own keys, else those of the condition that it extends."""
    spec = conditions[name]
    whole: dict[str, Any] = {"form": "message", "repeat": None, "reworded": None}
    if spec.extends:
        whole = _whole(spec.extends, conditions)
    return whole | {key: value for key in whole if (value := getattr(spec, key)) is not None}


def _check_places(bundle: ConditionBundle) -> None:
    """Raise ``ConfigError`` where a place or a form needs exemplars, and the condition shows none."""
    first = [step[0] for step in bundle.steps]
    if any(operator.spec.type == "fewshot" for operator in first) or bundle.compiled:
        return
    for operator in first:
        if "before_examples" in (operator.spec.at or ()):
            raise ConfigError(
                f"condition '{bundle.id}': {operator.name} stands before_examples, and it shows no examples",
                hint="add EXEMPLARS, or place it before_question",
            )
    if bundle.form == "turns":
        raise ConfigError(
            f"condition '{bundle.id}': form: turns shows examples as turns, and it shows no examples",
            hint="add EXEMPLARS",
        )


def _design(name: str, spec: ConditionSpec, base: Steps, varied: Steps) -> list[ConditionBundle]:
    def member(suffix: str, chosen: Sequence[tuple[Operator, ...]]) -> ConditionBundle:
        return ConditionBundle(f"{name}:{suffix}", f"{spec.title or name} {suffix}", base + tuple(chosen))

    labels = [step[0].label for step in varied]
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
    if spec.design == "orders":
        # Every bundle on the way from none to all operators, in random orders that hang on the names alone.
        rng = Random("|".join((name, *labels)))
        drawn = [rng.sample(range(len(labels)), len(labels)) for _ in range(spec.orders)]
        met = {tuple(sorted(order[:count])) for order in drawn for count in range(len(labels) + 1)}
        subsets = sorted(met, key=lambda chosen: (len(chosen), chosen))
        return [member("+".join(labels[i] for i in s) or "none", [varied[i] for i in s]) for s in subsets]
    if len(varied) > _MAX_FACTORIAL:
        raise ConfigError(
            f"condition '{name}': a factorial of {len(varied)} operators has {2 ** len(varied)} members",
            hint=f"name at most {_MAX_FACTORIAL}, or take the design 'orders'",
        )
    subsets = [s for count in range(len(varied) + 1) for s in combinations(range(len(varied)), count)]
    return [member("+".join(labels[i] for i in s) or "none", [varied[i] for i in s]) for s in subsets]


@dataclass(frozen=True, slots=True)
class PromptConstraint(DataclassMapping):
    """A hard constraint a condition asks for, by attribute or as a mapping: its kind, what it enforces, who does.

    As a mapping it also has ``type``, its kind, and ``schema_text``, its value where that is a schema.

    >>> constraint = PromptConstraint("json_schema", "{}", "auto")
    >>> constraint["type"], constraint.get("schema_text"), constraint.get("grammar")
    ('json_schema', '{}', None)
    """

    kind: Literal["json_schema", "regex", "cfg"]
    value: str
    backend: str
    in_part: bool = False
    """Whether what cannot be enforced may be taken out and checked afterwards."""

    def __getitem__(self, key: str) -> Any:
        if key == "type":
            return self.kind
        if key == "schema_text" and self.kind == "json_schema":
            return self.value
        return DataclassMapping.__getitem__(self, key)


@dataclass(frozen=True)
class PromptCondition:
    """A condition composed for one item: its prompt, constraint and program."""

    id: str
    bundle: Bundle
    tree: PromptTree
    constraint: PromptConstraint | None
    program: Operator | None
    templates_dir: Path | None = None
    lmql_query: str = ""
    """The task's own LMQL query, for the constraint backend ``lmql_program``."""
    reads_input: bool = True
    """Whether a block's text may depend on the item; else the prompts of a task differ in their input alone."""
    operators: tuple[str, ...] = ()
    """How rows name its operators."""

    @cached_property
    def prompt(self) -> str:
        """The text a model gets (before length control)."""
        return self.tree.assemble(self.templates_dir)

    @property
    def react(self) -> Mapping[str, Any] | None:
        """The loop that the condition runs (``max_steps``, ``engine``, …); ``None`` where it runs none.

        The loop ends with the answer (``stop_when_confident``) and may search before it (``tool_policy``).
        """
        if self.program is None or self.program.spec.engine != "react":
            return None
        return {
            "enabled": True,
            "max_steps": self.program.spec.max_steps or 1,
            "engine": "react",
            "stop_when_confident": True,
            "tool_policy": "retrieve_then_answer",
        }

    @property
    def meta(self) -> dict[str, Any]:
        """What the prompt is made of, as plain values: condition, template, operators, blocks with their slots.

        ``padded`` counts the filler lines.
        """
        return {
            "condition": self.id,
            "template": self.tree.template,
            "operators": list(self.operators or self.bundle.names),
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
    """Compose a condition's operators for one item: its prompt tree, constraint and program.

    ``perturb`` changes the tree before it is text. A compiled condition without its prompt is a ``PromptError`` that
    names the command; a condition that has nothing to enforce on the task is a ``NotApplicableError``.
    """
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
    if condition.prompt is None:
        tree = compose(bundle, ctx, condition.form, condition.repeat)
    else:
        tree = replace(condition.prompt.tree(bundle, ctx), repeat=condition.repeat)
    if perturb is not None:
        tree = perturb(tree)
    constraint = None
    # Of several constraints the last counts, as a later operator goes before an earlier one of its name.
    for operator in bundle.of_type("constraint")[-1:]:
        assert operator.spec.kind is not None, "a constraint operator has a kind"
        value, backend = operator.constraint_value(ctx), operator.spec.engine or "auto"
        in_part = operator.spec.enforce == "in_part"
        constraint = PromptConstraint(operator.spec.kind, value, backend, in_part)
    return PromptCondition(
        id=condition.id,
        bundle=bundle,
        tree=tree,
        constraint=constraint,
        program=next(reversed(bundle.of_type("program")), None),
        templates_dir=templates_dir,
        lmql_query=ctx.lmql_query,
        reads_input=any(operator.reads_input for operator in bundle),
        operators=condition.operator_names(bundle),
    )


def build_condition(
    condition_id: str, templates_dir: str | Path | None = None, ctx: Mapping[str, Any] | None = None
) -> PromptCondition:
    """Build one of the bundled conditions for plain values, without a profile.

    Returns an object with ``.prompt`` (the text), ``.meta``, ``.constraint`` and ``.react``; ``templates_dir`` may
    hold base templates of one's own, which go before the bundled ones. ``ctx`` keys: task_id, task_kind, task_title,
    task_goal, input_text, rules, schema_text, exemplars, verifier_checklist, final_answer_format (and optionally
    instruction, role, abstain, decompose, input_label, answer_regex, grammar, and for C8 compiled_prompt, the prompt
    itself). An unknown condition is a
    ``ConfigError``, a bad context or a folder that is not there a ``PromptError``.

    >>> build_condition("C0", ctx={"task_id": "sum", "task_kind": "reasoning", "input_text": "1 + 1"}).react is None
    True
    """
    values = dict(ctx or {})
    compiled = values.pop("compiled_prompt", None)
    context = PromptContext.from_mapping(values)
    folder = Path(templates_dir) if templates_dir is not None else None
    if folder is not None and not folder.is_dir():
        # The package's own, named from a checkout's root, is meant wherever the snippet is run.
        if folder.parts[-3:] != ("pcsuite", "prompts", "base_templates"):
            raise PromptError(f"templates_dir: there is no folder '{folder}'")
        folder = None
    bundle = _bundled(condition_id)
    if bundle.compiled and compiled:
        return _compiled_condition(bundle, str(compiled), context)
    return apply_condition(bundle, context, templates_dir=folder)


def _compiled_condition(bundle: ConditionBundle, text: str, ctx: PromptContext) -> PromptCondition:
    """A compiled prompt that was handed over as a finished text: it is the whole prompt, to the letter."""
    whole = OperatorBlock(COMPILED_OPERATOR, "verbatim", text.strip() + "\n")
    tree = PromptTree("compiled", "", ctx.input_label, ctx.input_text, (whole,))
    marked = Bundle((Operator(COMPILED_OPERATOR, OperatorSpec(type="verbatim", template=text)),))
    return PromptCondition(bundle.id, marked, tree, constraint=None, program=None)


@lru_cache(maxsize=64)
def _bundled(condition_id: str) -> ConditionBundle:
    conditions = YamlSource.read(bundled_configs() / "conditions_v1.yaml").parse(ConditionsFile).conditions
    return expand_conditions([condition_id], conditions, bundled_operators())[0]
