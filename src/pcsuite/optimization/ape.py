"""APE: instructions proposed by a model from demonstrations, raced on development items, varied around the best.

After Zhou et al. 2023 (Large Language Models Are Human-Level Prompt Engineers). A model sees five solved training items
and is asked which instruction leads to them, at temperature 0.9; equal proposals are dropped, the first one stays.
Each round's candidates are raced by successive halving (Jamieson & Talwalkar 2016) over nested parts of the
development items. Who is varied next is chosen by the upper confidence bound of Auer et al. 2002,
``mean + c·sqrt(ln Σn / n)`` with n the items a candidate was measured on, so that one that was dropped early keeps
the benefit of the doubt.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from pcsuite.data.clusters import text_key
from pcsuite.errors import DataError
from pcsuite.optimization.problem import Candidate, CandidateScore, Problem, named_random
from pcsuite.prompts.compiled import INPUT_SLOT

DEMONSTRATIONS = 5
TEMPERATURE = 0.9
PROPOSAL_TOKENS = 200
EXPLORATION = 0.1
"""c of the upper confidence bound; J of single items spreads over a few tenths."""
PARENTS = 2
FIRST_SHARE = 0.25
"""Share of the candidates that are proposed from demonstrations; the rest are variations of the best."""
ROUNDS = 10
SMALLEST_RUNG = 24
_LONGEST_DEMO = 600
_LONGEST_INSTRUCTION = 1_500
_TRIES = 4
_WRAPPING = re.compile(r"^(?:the )?(?:instruction|answer)(?: was| is)?\s*:\s*", re.IGNORECASE)

PROPOSE = (
    "Someone was given one instruction and applied it to several inputs. Here is what came out.\n\n{demos}\n\n"
    "Write the instruction that was given. Answer with the instruction alone."
)
VARY = (
    "Below is an instruction for a language model.\n\nInstruction:\n{instruction}\n\n"
    "Write a variation of it that means the same and may work better. Answer with the new instruction alone."
)


class ApeMethod:
    """``ape``."""

    name = "ape"
    summary = "a model proposes instructions from solved examples; the best are varied"

    def require(self) -> None:
        """Nothing beyond the suite is needed."""

    def search(self, problem: Problem, *, seed: int, candidates: int) -> None:
        """Propose instructions, race them, vary the best for ten rounds, until ``candidates`` were tried.

        Raises :class:`~pcsuite.errors.DataError` where the task has no training items to propose from.
        """
        if not problem.train:
            why = f"task '{problem.task_id}' has no training items to propose instructions from"
            raise DataError(why, hint="use --method blocks, or give the task a training split")
        search = _Search(problem, seed, candidates)
        search.race(search.proposals(max(1, math.ceil(candidates * FIRST_SHARE))))
        for rounds_left in range(ROUNDS, 0, -1):
            if search.left > 0:
                search.race(search.variations(math.ceil(search.left / rounds_left)))
        search.finish()


APE = ApeMethod()


def upper_bound(score: CandidateScore, total: int, exploration: float = EXPLORATION) -> float:
    """``mean + c·sqrt(ln Σn / n)``, J being the mean and n the items it rests on; a crash has none.

    ``total`` is Σn, the items that all candidates rest on together.
    """
    if score.crashed:
        return -math.inf
    measured = len(score.item_parts)
    return score.value + exploration * math.sqrt(math.log(max(2, total)) / measured)


def rungs(items: int, smallest: int = SMALLEST_RUNG) -> list[int]:
    """Sizes of the nested item sets of successive halving: an eighth, a quarter, half, all; none below ``smallest``.

    rungs(300) == [38, 75, 150, 300]
    """
    sizes = [math.ceil(items / part) for part in (8, 4, 2)]
    return [size for size in dict.fromkeys(sizes) if smallest <= size < items] + [items]


def clean_instruction(text: str) -> str:
    """The instruction in what a model answered, or nothing where it gave none.

    Fences, quotation marks and announcements are taken off; what is left is cut to 1,500 characters.
    """
    stripped = re.sub(r"^```\w*\n?|\n?```$", "", text.strip()).strip()
    stripped = _WRAPPING.sub("", stripped).strip()
    if len(stripped) > 1 and stripped[0] == stripped[-1] and stripped[0] in "\"'“”":
        stripped = stripped[1:-1].strip()
    return stripped.replace(INPUT_SLOT, "the input")[:_LONGEST_INSTRUCTION].strip()


class _Search:
    """The state of one search."""

    def __init__(self, problem: Problem, seed: int, candidates: int) -> None:
        self._problem, self._seed, self._limit = problem, seed, candidates
        self._ctx = problem.prompting.context("")
        bare = problem.baseline
        self._scores: dict[str, CandidateScore] = {bare.candidate.id: bare}
        self._instruction_keys: set[str] = set()
        self._instructions: dict[str, str] = {}
        self._asked = 0
        self._admit(self._ctx.instruction, bare.candidate)

    @property
    def left(self) -> int:
        """Candidates that may still be tried."""
        return self._limit + 1 - len(self._scores)  # the bare instruction is no candidate

    def proposals(self, count: int) -> list[Candidate]:
        """New instructions from demonstrations."""
        train = list(self._problem.train)

        def question(number: int) -> tuple[str, str, tuple[str, ...]]:
            rng = named_random(self._seed, "ape demonstrations", number)
            demos = "\n\n".join(
                f"Input: {demo.input_text[:_LONGEST_DEMO]}\nOutput: {demo.output_text[:_LONGEST_DEMO]}"
                for demo in rng.sample(train, min(DEMONSTRATIONS, len(train)))
            )
            return PROPOSE.format(demos=demos), f"proposal {number}", ()

        return self._new(count, question)

    def variations(self, count: int) -> list[Candidate]:
        """New instructions around the best by upper confidence bound."""
        parents = [score.candidate.id for _, score in self._by_bound()[:PARENTS]]

        def question(number: int) -> tuple[str, str, tuple[str, ...]]:
            parent = parents[number % len(parents)]
            return VARY.format(instruction=self._instructions[parent]), f"variation of {parent}", (parent,)

        return self._new(count, question)

    def race(self, entrants: Sequence[Candidate]) -> None:
        """Successive halving: everyone on few items, the better half on twice as many, the last on all."""
        alive = list(entrants)[: max(0, self.left)]
        if not alive:
            # Nothing new was proposed: more rounds would ask the same again.
            self._limit = len(self._scores) - 1
            return
        for size in rungs(len(self._problem.dev)):
            for candidate in alive:
                self._scores[candidate.id] = self._problem.evaluate(candidate, self._problem.dev[:size])
            alive.sort(key=lambda candidate: self._scores[candidate.id].rank, reverse=True)
            alive = alive[: math.ceil(len(alive) / 2)]

    def finish(self) -> None:
        """Measure on all items whoever could still be the best by its upper confidence bound."""
        best = max((score.value for score in self._scores.values() if score.complete), default=-math.inf)
        partial = [(bound, score) for bound, score in self._by_bound() if not score.complete]
        for bound, score in partial[:PARENTS]:
            if bound > best:
                self._problem.evaluate(score.candidate)

    def _by_bound(self) -> list[tuple[float, CandidateScore]]:
        """Scores with their upper confidence bounds, the most promising first."""
        total = sum(len(score.item_parts) for score in self._scores.values())
        bounds = [(upper_bound(score, total), score) for score in self._scores.values()]
        return sorted(bounds, key=lambda entry: (-entry[0], entry[1].candidate.id))

    def _new(
        self, count: int, question: Callable[[int], tuple[str, str, tuple[str, ...]]]
    ) -> list[Candidate]:
        """New candidates from what the model answers; ``question`` gives prompt, origin and parents by number."""
        candidates: list[Candidate] = []
        for number in range(count * _TRIES):
            if len(candidates) >= count:
                break
            prompt, origin, parents = question(number)
            self._asked += 1
            # A prime beyond any number of questions: searches of neighbouring seeds share none.
            seed = self._seed * 100_003 + self._asked
            text = self._problem.ask(prompt, seed=seed, temperature=TEMPERATURE, max_tokens=PROPOSAL_TOKENS)
            instruction = clean_instruction(text)
            traits: dict[str, Any] = {"method": APE.name, "origin": origin, "parents": parents}
            candidate = Candidate.of_instruction(instruction, self._ctx, **traits)
            candidates += [candidate] if instruction and self._admit(instruction, candidate) else []
        return candidates

    def _admit(self, instruction: str, candidate: Candidate) -> bool:
        """Whether the instruction is new, case and spacing aside."""
        key = text_key(instruction)
        if key in self._instruction_keys:
            return False
        self._instruction_keys.add(key)
        self._instructions[candidate.id] = instruction
        return True
