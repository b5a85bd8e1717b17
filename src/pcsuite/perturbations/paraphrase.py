"""``paraphrase``: the same operators in other words; structure fixed, wording varied.

Rewordings replace an operator's template, not its rendered text, so whatever the template inserts (rules,
schema, labels, exemplars) stays verbatim by construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files

import yaml
from pydantic import Field

from pcsuite.config.definitions import Definition, OperatorsFile, TasksFile
from pcsuite.config.load import bundled_configs
from pcsuite.config.yaml_source import YamlSource
from pcsuite.perturbations.kinds import Kind, Site
from pcsuite.prompts.operators import Operator, render_text
from pcsuite.prompts.prompt import PromptTree

VARIANTS = 3


class Paraphrases(Definition):
    """The file of rewordings."""

    version: str
    """Version of the format, ``"1.0"``."""
    frames: tuple[str, ...] = Field(min_length=VARIANTS)
    """Sentences around an instruction that has no rewording of its own."""
    instructions: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By task."""
    operators: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Templates by operator."""


@lru_cache(maxsize=1)
def paraphrases() -> Paraphrases:
    """The bundled rewordings."""
    text = (files("pcsuite.perturbations") / "paraphrases.yaml").read_text(encoding="utf-8")
    return Paraphrases.model_validate(yaml.safe_load(text))


@lru_cache(maxsize=1)
def _bundled_templates() -> Mapping[str, str]:
    source = YamlSource.read(bundled_configs() / "operators_v1.yaml")
    specs = source.parse(OperatorsFile).operators
    return {name: spec.template for name, spec in specs.items() if spec.template}


@lru_cache(maxsize=1)
def _bundled_instructions() -> Mapping[str, str]:
    source = YamlSource.read(bundled_configs() / "tasks_v1.yaml")
    return {name: task.instruction for name, task in source.parse(TasksFile).tasks.items()}


def reworded_instruction(task_id: str, instruction: str, number: int) -> str:
    """The instruction in other words, or in a frame where it is not one of the bundled ones."""
    known = paraphrases()
    own = known.instructions.get(task_id)
    if own is not None and _bundled_instructions().get(task_id) == instruction:
        return own[number - 1]
    return render_text(known.frames[number - 1], {"instruction": instruction}, where="paraphrase frame")


def reworded_operator(operator: Operator, number: int) -> Operator:
    """The operator with another template; unchanged where its template is not the bundled one."""
    own = paraphrases().operators.get(operator.name)
    if own is None or _bundled_templates().get(operator.name) != operator.spec.template:
        return operator
    return replace(operator, spec=operator.spec.model_copy(update={"template": own[number - 1]}))


def reword(tree: PromptTree, site: Site, number: int) -> PromptTree:
    """Render every block anew from its operator's other template."""
    operators = {operator.name: operator for operator in site.bundle}
    blocks = tuple(
        replace(block, text=reworded_operator(operators[block.operator], number).render(site.ctx))
        if block.operator in operators
        else block
        for block in tree.blocks
    )
    instruction = reworded_instruction(site.ctx.task_id, tree.instruction, number)
    return replace(tree, instruction=instruction, blocks=blocks)


PARAPHRASE = Kind("paraphrase", "rewords instruction and blocks, keeps the structure", VARIANTS, reword)
