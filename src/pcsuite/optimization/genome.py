"""A prompt of blocks as a value that can be changed: operators in order, their wordings and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from pcsuite.config.definitions import OperatorSpec
from pcsuite.optimization.problem import Problem
from pcsuite.perturbations.paraphrase import VARIANTS, paraphrases, reworded_instruction, reworded_operator
from pcsuite.prompts.compiled import BlockChoice, CompiledPrompt
from pcsuite.prompts.operators import Operator

EXEMPLAR_COUNTS = (1, 2, 4)
MODES = ("none", "brief", "full")


@dataclass(frozen=True, slots=True)
class Gene:
    """One operator of a genome."""

    name: str
    wording: int = 0
    """0 for its own words, 1 to 3 for the bundled rewordings."""
    option: int | str | None = None
    """Number of exemplars, or mode of reasoning; ``None`` for the operator's own."""


@dataclass(frozen=True, slots=True)
class Genome:
    """Operators in order, and the wording of the instruction."""

    genes: tuple[Gene, ...] = ()
    instruction: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Operators in order."""
        return tuple(gene.name for gene in self.genes)

    def toggled(self, name: str, order: Sequence[str]) -> Genome:
        """Without the operator if it is there, else with it, at the place that ``order`` gives it."""
        if name in self.names:
            return replace(self, genes=tuple(gene for gene in self.genes if gene.name != name))
        genes = list(self.genes)
        place = next(
            (at for at, gene in enumerate(genes) if order.index(gene.name) > order.index(name)), len(genes)
        )
        genes.insert(place, Gene(name))
        return replace(self, genes=tuple(genes))

    def with_gene(self, gene: Gene) -> Genome:
        """With one operator in other words or with another option."""
        return replace(self, genes=tuple(gene if old.name == gene.name else old for old in self.genes))

    def swapped(self, first: int, second: int) -> Genome:
        """With two operators in each other's place."""
        genes = list(self.genes)
        genes[first], genes[second] = genes[second], genes[first]
        return replace(self, genes=tuple(genes))


def genome_of(names: Sequence[str]) -> Genome:
    """Operators in their own words."""
    return Genome(tuple(Gene(name) for name in names))


def options_of(spec: OperatorSpec, exemplars: int) -> tuple[int | str, ...]:
    """Options of an operator besides its own."""
    if spec.type == "fewshot":
        return tuple(k for k in EXEMPLAR_COUNTS if k <= exemplars and k != spec.k)
    if spec.mode is not None:
        return tuple(mode for mode in MODES if mode != spec.mode)
    return ()


def wordings_of(name: str, spec: OperatorSpec) -> int:
    """How many rewordings an operator has; none where its template is not the bundled one."""
    if name not in paraphrases().operators:
        return 0
    operator = Operator(name, spec)
    return VARIANTS if reworded_operator(operator, 1) is not operator else 0


def prompt_of(genome: Genome, problem: Problem) -> CompiledPrompt:
    """The prompt of a genome, complete with templates and exemplars."""
    blocks = []
    demos = 0
    for gene in genome.genes:
        operator = Operator(gene.name, problem.operators[gene.name])
        if gene.wording:
            operator = reworded_operator(operator, gene.wording)
        key = "k" if operator.spec.type == "fewshot" else "mode"
        spec = operator.spec if gene.option is None else operator.spec.model_copy(update={key: gene.option})
        if spec.type == "fewshot":
            demos = max(demos, spec.k or 0)
        blocks.append(BlockChoice(gene.name, gene.wording, spec))
    instruction = ""
    if genome.instruction:
        task = problem.prompting.task
        instruction = reworded_instruction(problem.task_id, task.instruction, genome.instruction)
    return CompiledPrompt(blocks=tuple(blocks), instruction=instruction, demos=tuple(problem.train[:demos]))


def as_condition(
    prompt: CompiledPrompt, operators: Mapping[str, OperatorSpec], name: str = "compiled"
) -> str:
    """A prompt of blocks as YAML for a conditions file, and for an operators file where words differ from the suite's.

    The snippet has no exemplars of its own: EXEMPLARS takes the task's.
    """
    used: list[Any] = []
    defined: dict[str, Any] = {}
    for block in prompt.blocks:
        known = operators.get(block.name)
        label = block.name
        options = {
            key: value
            for key, value in (("k", block.spec.k), ("mode", block.spec.mode))
            if value is not None and (known is None or value != getattr(known, key))
        }
        if known is None or known.template != block.spec.template:
            label = f"{block.name}_W{block.wording}"
            defined[label] = block.spec.model_dump(mode="json", exclude_none=True, exclude=set(options))
        used.append({label: options} if options else label)
    document: dict[str, Any] = {
        "conditions": {name: {"title": "compiled by pcsuite optimize", "operators": used}}
    }
    if defined:
        document = {"operators": defined, **document}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
