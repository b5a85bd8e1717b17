"""``blocks``: search over the suite's own operators, their wordings and their order under the objective.

Three stages share the candidates. A screening design of Plackett & Burman (1946, twelve runs) measures every
operator's main effect at once; the operators whose effect is positive make the first incumbent. Then single changes
are tried on it one after the other: operators in or out, the least certain first, until a whole round brings nothing.
What all measured candidates say of each operator together then gets a candidate of its own. What is left goes to
options (number of exemplars, mode of reasoning), wordings and neighbours changing places. A change is kept where J
does not fall and tokens are saved, or where J rises.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.config.yaml_source import as_yaml
from pcsuite.optimization.problem import Candidate, CandidateScore, Problem, named_random
from pcsuite.perturbations.paraphrase import operator_paraphrases, reworded_instruction, reworded_operator
from pcsuite.prompts.compiled import BlockChoice, CompiledPrompt
from pcsuite.prompts.operators import Operator
from pcsuite.stats.attribution import solved_design

EXEMPLAR_COUNTS = (1, 2, 4)
_ENOUGH_TO_SCREEN = 20
"""With fewer candidates than this the search starts from the bare instruction and makes single changes."""
_FIRST_ROW = (1, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
"""Of the design of Plackett & Burman; the others are its cyclic shifts."""


@dataclass(frozen=True, slots=True)
class Gene:
    """One operator of a prompt of blocks, with what a search may vary of it."""

    name: str
    wording: int = 0
    """0 for its own words, 1 to 3 for the bundled rewordings."""
    option: int | str | None = None
    """Number of exemplars, or mode of reasoning; ``None`` for the operator's own."""


@dataclass(frozen=True, slots=True)
class Genome:
    """A prompt of blocks as a search changes it: operators in order, and the wording of the instruction."""

    genes: tuple[Gene, ...] = ()
    instruction: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Operators in order."""
        return tuple(gene.name for gene in self.genes)

    def toggled(self, name: str, order: Sequence[str]) -> Genome:
        """Without the operator if it is there, else with it in its own words.

        ``order`` lists all operators; the new one goes before the first that comes after it there.
        """
        if name in self.names:
            return replace(self, genes=tuple(gene for gene in self.genes if gene.name != name))
        later = (index for index, held in enumerate(self.names) if order.index(held) > order.index(name))
        index = next(later, len(self.genes))
        return replace(self, genes=(*self.genes[:index], Gene(name), *self.genes[index:]))

    def with_gene(self, gene: Gene) -> Genome:
        """With one operator in other words or with another option; the one of its name is replaced.

        Order and instruction stay; a gene of a name that the genome does not have changes nothing.
        """
        return replace(self, genes=tuple(gene if old.name == gene.name else old for old in self.genes))

    def swapped(self, index: int) -> Genome:
        """With the operator at an index after the one that followed it.

        >>> genome_of(["ROLE", "GOAL", "RULES"]).swapped(1).names
        ('ROLE', 'RULES', 'GOAL')
        """
        first, second = self.genes[index : index + 2]
        return replace(self, genes=(*self.genes[:index], second, first, *self.genes[index + 2 :]))


def genome_of(names: Sequence[str]) -> Genome:
    """A genome of operators in their own words and with their own options.

    >>> genome_of(["ROLE", "GOAL"]).toggled("ROLE", ["ROLE", "GOAL"]).names
    ('GOAL',)
    """
    return Genome(tuple(Gene(name) for name in names))


def options_of(spec: OperatorSpec, exemplars: int) -> tuple[int | str, ...]:
    """Options of an operator besides its own: numbers of exemplars, or modes of reasoning.

    ``exemplars`` is how many training items there are to show; operators of other kinds have no options.
    """
    if spec.type == "fewshot":
        return tuple(k for k in EXEMPLAR_COUNTS if k <= exemplars and k != spec.k)
    if spec.mode is not None:
        return tuple(mode for mode in spec.modes or () if mode != spec.mode)
    return ()


def wordings_of(name: str, spec: OperatorSpec) -> int:
    """How many rewordings an operator has.

    Wording 0 is the operator's own, so a search may choose among one more than that.
    """
    return len(operator_paraphrases(name, spec))


def prompt_of(genome: Genome, problem: Problem) -> CompiledPrompt:
    """The prompt of a genome, complete with the templates and exemplars that it needs.

    Raises :class:`KeyError` for an operator that the problem does not offer.
    """
    blocks = []
    demos = 0
    for gene in genome.genes:
        operator = Operator(gene.name, problem.operators[gene.name])
        if gene.wording:
            operator = reworded_operator(operator, gene.wording)
        key = "k" if operator.spec.type == "fewshot" else "mode"
        # A frozen block is its words and options: what is known about the operator stays in the operators file.
        spec = OperatorSpec.model_validate(operator.spec.model_dump())
        if gene.option is not None:
            spec = spec.model_copy(update={key: gene.option})
        if spec.type == "fewshot":
            demos = max(demos, spec.k or 0)
        blocks.append(BlockChoice(gene.name, gene.wording, spec))
    instruction = ""
    if genome.instruction:
        asked = problem.prompting
        instruction = reworded_instruction(
            problem.task_id, asked.task.instruction, genome.instruction, asked.wording
        )
    return CompiledPrompt(blocks=tuple(blocks), instruction=instruction, demos=tuple(problem.train[:demos]))


def as_condition(
    prompt: CompiledPrompt, operators: Mapping[str, OperatorSpec], name: str = "compiled"
) -> str:
    """A prompt of blocks as YAML for a conditions file, and for an operators file where words differ from the suite's.

    ``operators`` are the suite's, ``name`` the condition's. EXEMPLARS takes the task's own exemplars.
    """
    used: list[Any] = []
    defined: dict[str, Any] = {}
    for block in prompt.blocks:
        base, label = operators.get(block.name), block.name
        settings = {"k": block.spec.k, "mode": block.spec.mode}
        options = {
            key: value for key, value in settings.items() if value not in (None, getattr(base, key, None))
        }
        if base is None or base.template != block.spec.template:
            label = f"{block.name}_W{block.wording}"
            defined[label] = block.spec.model_dump(mode="json", exclude_none=True, exclude=set(options))
        used.append({label: options} if options else label)
    conditions = {name: {"title": "compiled by pcsuite optimize", "operators": used}}
    document = {"operators": defined, "conditions": conditions} if defined else {"conditions": conditions}
    return as_yaml(document, width=110)


class BlocksMethod:
    """``blocks``."""

    name = "blocks"
    summary = "searches the suite's operators, their wordings and order; says which earn their tokens"

    def require(self) -> None:
        """Nothing beyond the suite is needed."""

    def search(self, problem: Problem, *, seed: int, candidates: int) -> None:
        """Screen, climb, consolidate and refine, until ``candidates`` were tried or no change is left to try.

        Screening needs 20 candidates or more, and 3 to 11 operators.
        """
        search = _Search(problem, named_random(seed, "blocks"), candidates)
        try:
            if candidates >= _ENOUGH_TO_SCREEN and 3 <= len(search.names) <= len(_FIRST_ROW):
                search.screen()
            search.climb()
            search.consolidate()
            search.refine()
        except _SpentError:
            return


BLOCKS = BlocksMethod()


def plackett_burman(factors: int, rng: Random) -> list[tuple[bool, ...]]:
    """Twelve runs in which every factor is on six times, and any two are on together three times.

    The last run has every factor off. Which column a factor gets is drawn, because it decides what it is aliased with.
    """
    columns = rng.sample(range(len(_FIRST_ROW)), factors)
    size = len(_FIRST_ROW)
    rows = [tuple(_FIRST_ROW[(column - shift) % size] > 0 for column in columns) for shift in range(size)]
    return [*rows, tuple(False for _ in columns)]


class _SpentError(Exception):
    """All candidates were tried."""


class _Search:
    """The state of one search."""

    def __init__(self, problem: Problem, rng: Random, candidates: int) -> None:
        self._problem, self._rng, self._left = problem, rng, candidates
        specs = {name: spec for name, spec in problem.operators.items() if spec.type != "program"}
        self.names = tuple(name for name, spec in specs.items() if (spec.k or 0) <= len(problem.train))
        bare = problem.baseline
        self._scores: dict[str, CandidateScore] = {bare.candidate.id: bare}
        self._best: tuple[Genome, CandidateScore] = (Genome(), bare)
        self._certainty: dict[str, float] = dict.fromkeys(self.names, 0.0)

    def screen(self) -> None:
        """Measure the screening design and start from the operators that help on average."""
        rows = plackett_burman(len(self.names), self._rng)
        genomes = [genome_of(list(itertools.compress(self.names, row))) for row in rows]
        runs = [self._try(genome, f"screening run {number}", ()) for number, genome in enumerate(genomes)]
        design = np.where(rows, 1.0, -1.0)
        values = np.array([score.value for score in runs])
        effects = design.T @ values / len(runs)  # half the difference between on and off
        self._certainty = dict(zip(self.names, np.abs(effects).tolist(), strict=True))
        helpful = [name for name, effect in zip(self.names, effects, strict=True) if effect > 0]
        parents = tuple(dict.fromkeys(score.candidate.id for score in runs))
        self._try(genome_of(helpful), "positive main effects", parents)

    def climb(self) -> None:
        """Put single operators in or out until a whole round of them brings nothing."""
        untried = sorted(self.names, key=lambda name: (self._certainty[name], name))
        since_change = 0
        while since_change < len(untried):
            name = untried.pop(0)
            untried.append(name)
            genome, score = self._best
            changed = genome.toggled(name, self.names)
            word = "drop" if name in genome.names else "add"
            before = self._best
            self._try(changed, f"{word} {name}", (score.candidate.id,))
            since_change = since_change + 1 if self._best is before else 0

    def consolidate(self) -> None:
        """Try the operators that help on average over all that was measured: single steps can be misled by luck."""
        listed = list(self._scores.values())
        has = [{block.name for block in score.candidate.prompt.blocks} for score in listed]
        effects = (solved_design(has, self.names)[0] @ np.array([score.value for score in listed]))[1:]
        helpful = {name for name, effect in zip(self.names, effects, strict=True) if effect > 0}
        genome, score = self._best
        for name in self.names:
            if (name in helpful) != (name in genome.names):
                genome = genome.toggled(name, self.names)
        self._try(genome, "operators that help on average so far", (score.candidate.id,))

    def refine(self) -> None:
        """Try options, wordings and orders of the incumbent until the candidates are spent or nothing is left."""
        while True:
            moves = list(self._refinements())
            self._rng.shuffle(moves)
            before = self._best
            for genome, origin in moves:
                self._try(genome, origin, (self._best[1].candidate.id,))
                if self._best is not before:
                    self.consolidate()
                    break
            else:
                return

    def _refinements(self) -> Iterator[tuple[Genome, str]]:
        genome = self._best[0]
        for gene in genome.genes:
            spec = self._problem.operators[gene.name]
            choices = {spec.k, spec.mode, *options_of(spec, len(self._problem.train))} - {None}
            current = gene.option if gene.option is not None else spec.k if spec.k is not None else spec.mode
            for option in sorted(choices - {current}, key=str):
                yield genome.with_gene(Gene(gene.name, gene.wording, option)), f"{gene.name} with {option}"
            for wording in range(wordings_of(gene.name, spec) + 1):
                if wording != gene.wording:
                    words = f"{gene.name} in wording {wording}"
                    yield genome.with_gene(Gene(gene.name, wording, gene.option)), words
        for wording in range(4):
            if wording != genome.instruction:
                yield Genome(genome.genes, wording), f"instruction in wording {wording}"
        for index, pair in enumerate(itertools.pairwise(genome.names)):
            # The base template keeps the slots apart, whatever the order.
            if len({Operator(name, self._problem.operators[name]).slot for name in pair}) == 1:
                yield genome.swapped(index), f"{pair[0]} after {pair[1]}"

    def _try(self, genome: Genome, origin: str, parents: tuple[str, ...]) -> CandidateScore:
        """Measure a genome, which becomes the incumbent where it is better, or as good and cheaper."""
        candidate = Candidate(prompt_of(genome, self._problem), BLOCKS.name, origin, parents)
        if candidate.id not in self._scores:
            if self._left <= 0:
                raise _SpentError
            self._left -= 1
            self._scores[candidate.id] = self._problem.evaluate(candidate)
        score, best = self._scores[candidate.id], self._best[1]
        cheaper = score.parts.token_cost < best.parts.token_cost
        if score.rank > best.rank or (cheaper and score.rank >= best.rank):
            self._best = (genome, score)
        return score
