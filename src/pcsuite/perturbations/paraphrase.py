"""``paraphrase``: the same operators in other words; structure fixed, wording varied.

Rewordings replace an operator's template, not its rendered text, so whatever the template inserts (rules,
schema, labels, exemplars) stays verbatim by construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files

from pydantic import Field

from pcsuite.config.bundled import bundled_operators
from pcsuite.config.definitions import WORDING_1, Definition, TasksFile, Wording
from pcsuite.config.load import bundled_configs
from pcsuite.config.operator_definitions import WORDINGS, OperatorSpec
from pcsuite.config.yaml_source import YamlSource, load_yaml
from pcsuite.perturbations.kinds import Kind, PerturbationTarget
from pcsuite.prompts.operators import Operator, render_text
from pcsuite.prompts.prompt import PromptTree

VARIANTS = WORDINGS


class InstructionParaphrases(Definition):
    """The file of reworded instructions."""

    version: str
    """Version of the format, ``"1.0"``."""
    frames: tuple[str, ...] = Field(min_length=VARIANTS)
    """Sentences around an instruction that has no rewording of its own."""
    instructions: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By task."""
    wording_1: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By task whose rewordings were others in the first wording."""


@lru_cache(maxsize=1)
def instruction_paraphrases() -> InstructionParaphrases:
    """The bundled rewordings of instructions, read once.

    They reword the tasks of the bundled tasks file; any other instruction is put into a frame.
    """
    text = (files("pcsuite.perturbations") / "paraphrases.yaml").read_text(encoding="utf-8")
    return InstructionParaphrases.model_validate(load_yaml(text, "paraphrases.yaml"))


@lru_cache(maxsize=2)
def _bundled_instructions(file: str = "tasks_v1.yaml") -> Mapping[str, str]:
    source = YamlSource.read(bundled_configs() / file)
    return {name: task.instruction for name, task in source.parse(TasksFile).tasks.items()}


def reworded_instruction(task_id: str, instruction: str, number: int, wording: Wording = "2") -> str:
    """The instruction in other words, or in a frame where it is not one of the bundled ones of that wording.

    ``number`` is the variant, 1 to 3.
    """
    bundled = instruction_paraphrases()
    known, reworded = _bundled_instructions(), bundled.instructions
    if wording == WORDING_1:
        known, reworded = _bundled_instructions("tasks_wording_1.yaml"), reworded | bundled.wording_1
    if task_id in reworded and known.get(task_id) == instruction:
        return reworded[task_id][number - 1]
    return render_text(bundled.frames[number - 1], {"instruction": instruction}, where="paraphrase frame")


def operator_paraphrases(name: str, spec: OperatorSpec) -> tuple[str, ...]:
    """The templates an operator can be reworded to: its own, or the bundled ones while its template is bundled.

    Empty for an operator that has none. Bundled paraphrases beside a template that was changed are not its own: they
    would reword another text.
    """
    bundled = bundled_operators().get(name, spec)
    if bundled.template == spec.template:
        return spec.paraphrases or bundled.paraphrases or ()
    return () if spec.paraphrases == bundled.paraphrases else spec.paraphrases or ()


def reworded_operator(operator: Operator, number: int) -> Operator:
    """The operator with another template (``number`` 1 to 3); unchanged where it has no paraphrases."""
    templates = operator_paraphrases(operator.name, operator.spec)
    if not templates:
        return operator
    # A reworded operator has no paraphrases of its own: rewording it twice leaves it as it is.
    changes = {"template": templates[number - 1], "paraphrases": None}
    return replace(operator, spec=operator.spec.model_copy(update=changes))


def reword(tree: PromptTree, target: PerturbationTarget, number: int) -> PromptTree:
    """Render instruction and blocks anew in variant ``number`` (1 to 3) of their wording.

    Blocks that no operator of the condition made stay as they are.
    """
    operators = {operator.label: operator for operator in target.bundle}
    blocks = tuple(
        replace(block, text=reworded_operator(operators[block.operator], number).render(target.ctx))
        if block.operator in operators
        else block
        for block in tree.blocks
    )
    instruction = reworded_instruction(target.ctx.task_id, tree.instruction, number, target.ctx.wording)
    return replace(tree, instruction=instruction, blocks=blocks)


PARAPHRASE = Kind("paraphrase", "rewords instruction and blocks, keeps the structure", VARIANTS, reword)
