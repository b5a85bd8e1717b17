"""The definition files besides tasks and models: operators, conditions, decoding, metrics."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from pcsuite.config.base import Definition
from pcsuite.config.models import ModelSpec
from pcsuite.config.tasks import TaskSpec

OperatorType = Literal["prefix_block", "block", "post_block", "fewshot", "rule", "program", "constraint"]
ConditionDesign = Literal["ladder", "leave_one_out", "add_one_in", "factorial"]


class OperatorSpec(Definition):
    """One operator: where its text goes and what the text is, or what it does to decoding."""

    type: OperatorType
    """``prefix_block`` before the instruction, ``block`` and ``rule`` after it, ``fewshot`` before the input,
    ``post_block`` after the input, ``program`` runs a loop, ``constraint`` restricts decoding."""
    template: str | None = None
    """Jinja2 text of the block, rendered with the task's context."""
    k: int | None = Field(default=None, ge=0)
    """Number of exemplars (fewshot)."""
    mode: Literal["none", "brief", "full"] | None = None
    """Amount of visible reasoning (REASONING_MODE)."""
    engine: str | None = None
    """Constraint backend (``auto`` chooses among those the model supports) or program name."""
    kind: Literal["json_schema", "regex", "cfg"] | None = None
    """What a constraint operator enforces."""
    max_steps: int | None = Field(default=None, gt=0)
    """Steps of a loop (REACT_LOOP) or extra attempts (RETRY_ON_FAIL)."""
    alias_of: str | None = None
    """Another operator this name stands for."""

    @model_validator(mode="after")
    def _complete(self) -> OperatorSpec:
        if self.alias_of is None:
            if self.type in ("prefix_block", "block", "post_block", "rule") and not self.template:
                raise ValueError(f"a {self.type} operator needs 'template'")
            if self.type == "fewshot" and self.k is None:
                raise ValueError("a fewshot operator needs 'k'")
            if self.type == "constraint" and self.kind is None:
                raise ValueError("a constraint operator needs 'kind'")
        return self


class OperatorUse(Definition):
    """An operator as a condition uses it, with its parameters overridden where given."""

    name: str
    """Operator name."""
    k: int | None = Field(default=None, ge=0)
    """Overrides the operator's number of exemplars."""
    mode: Literal["none", "brief", "full"] | None = None
    """Overrides the operator's reasoning mode."""
    engine: str | None = None
    """Overrides the constraint backend."""
    max_steps: int | None = Field(default=None, gt=0)
    """Overrides the number of steps or attempts."""


def _operator_use(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and len(value) == 1 and "name" not in value:
        ((name, options),) = value.items()
        return {"name": name, **(options or {})}
    return value


Use = Annotated[OperatorUse, BeforeValidator(_operator_use)]


class ConditionSpec(Definition):
    """A bundle of operators, or a design that makes several bundles.

    An entry of ``operators`` that is itself a list names alternatives: the first one the task provides for
    is used (a JSON schema, else a grammar, else a regular expression).
    """

    title: str = ""
    """Short description for reports."""
    extends: str | None = None
    """Condition whose operators come first."""
    operators: tuple[Use | tuple[Use, ...], ...] = ()
    """Operators in order."""
    design: ConditionDesign | None = None
    """Makes several conditions of the listed operators instead of one."""
    compiled: bool = False
    """The prompt comes from the optimiser's frozen file (C8)."""


def _condition(value: Any) -> Any:
    return {"operators": value} if isinstance(value, list) else value


Condition = Annotated[ConditionSpec, BeforeValidator(_condition)]


class DecodingSpec(Definition):
    """A decoding regime."""

    label: str = ""
    """Short name in tables, for example ``D0``."""
    temperature: float = Field(ge=0)
    """0 is greedy."""
    top_p: float = Field(gt=0, le=1)
    """Nucleus mass."""


class MetricSpec(Definition):
    """How a logged metric is named and read."""

    label: str
    """Name in tables and figures."""
    higher_is_better: bool | None = True
    """Direction; ``null`` where neither end is good."""
    description: str = ""
    """One line on what it measures."""


class TasksFile(Definition):
    """``tasks_v1.yaml``."""

    version: str
    """Version of the definitions."""
    tasks: dict[str, TaskSpec]
    """Tasks by id."""


class ModelsFile(Definition):
    """``models_v1.yaml``."""

    version: str
    """Version of the definitions."""
    models: dict[str, ModelSpec]
    """Models by id."""


class OperatorsFile(Definition):
    """``operators_v1.yaml``."""

    version: str
    """Version of the definitions."""
    operators: dict[str, OperatorSpec]
    """Operators by name."""


class ConditionsFile(Definition):
    """``conditions_v1.yaml``."""

    version: str
    """Version of the definitions."""
    conditions: dict[str, Condition]
    """Conditions by id."""


class DecodingFile(Definition):
    """``decoding_v1.yaml``."""

    version: str
    """Version of the definitions."""
    regimes: dict[str, DecodingSpec]
    """Regimes by id."""


class MetricsFile(Definition):
    """``metrics_v1.yaml``."""

    version: str
    """Version of the definitions."""
    metrics: dict[str, MetricSpec]
    """Metrics by the name they have in the log."""
