"""A problem of optimisation whose answers are drawn in memory, for benchmarks of searches alone.

It has the simulated model's distribution of answers (right with its true chance, wrong answers equally likely, some
not readable) without client, rows and log, which take most of the time of a search on a simulated model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from random import Random

import numpy as np

from pcsuite.config.load import Suite
from pcsuite.data.items import Item
from pcsuite.engines.adapters.simulated import (
    SimulatedAdapter,
    SimulatedOptions,
    accuracy_logit,
    json_probability,
    logistic,
    propose_instruction,
)
from pcsuite.optimization.development import DevTask
from pcsuite.optimization.problem import Candidate, CandidateScore
from pcsuite.optimization.winner import makeup_of
from pcsuite.prompts.compiled import CompiledPrompt
from pcsuite.prompts.conditions.conditions import ConditionBundle, apply_condition
from pcsuite.prompts.prompt import BANDS
from pcsuite.stats.answer_variation import normalised_entropy
from pcsuite.stats.objective import ItemParts, Objective

LABELS = 4
UNREADABLE = LABELS


class DrawnProblem:
    """A :class:`~pcsuite.optimization.problem.Problem` on a simulated model; another seed draws other answers."""

    def __init__(self, suite: Suite, dev: DevTask, model_id: str, seed: int) -> None:
        self.task_id, self.model_id = dev.plan.id, model_id
        self.prompting, self.evaluator = dev.plan.prompting, dev.plan.evaluator
        self.objective = Objective(*suite.profile.optimization.dspy.objective.weights)
        self.dev: Sequence[Item] = dev.plan.items
        self.train, self.train_items = dev.train, dev.train_items
        self.operators = {name: suite.operators[name] for name in suite.profile.optimization.dspy.operators}
        self.scores: dict[str, CandidateScore] = {}
        self._seed, self._replicates = seed, len(dev.seeds)
        self._options = SimulatedOptions.model_validate(suite.models[model_id].provider_options())
        self._adapter = SimulatedAdapter(model_id, self._options)
        spec = dev.plan.spec
        self._budget = BANDS[spec.kind][1] + spec.max_tokens
        self._places = {item.item_id: place for place, item in enumerate(self.dev)}
        self._difficulty = self._rng("items").normal(0, self._options.item_difficulty_sd, len(self.dev))
        self._answers: dict[str, np.ndarray] = {}
        self.baseline = self.evaluate(Candidate(CompiledPrompt(), "baseline"))

    @property
    def tried(self) -> int:
        """Different candidates measured, the baseline not counted."""
        return len(self.scores) - 1

    def evaluate(self, candidate: Candidate, items: Sequence[Item] | None = None) -> CandidateScore:
        """Measure a candidate."""
        chosen = list(self.dev if items is None else items)
        drawn = self._drawn(candidate)[[self._places[item.item_id] for item in chosen]]
        counts = np.stack([(drawn == kind).sum(axis=1) for kind in range(LABELS + 1)], axis=1)
        tokens = self._adapter.count_tokens(self.render(candidate, self.dev[0]))
        cost = (tokens + self._options.mean_completion_tokens) / self._budget
        parts = ItemParts(
            tuple(item.item_id for item in chosen),
            (drawn == 0).mean(axis=1),
            np.full(len(chosen), np.nan),
            normalised_entropy(counts, categories=LABELS + 1),
            np.full(len(chosen), cost),
        )
        whole = parts.parts()
        value = self.objective.value(whole)
        complete = len(chosen) == len(self.dev)
        score = CandidateScore(candidate, self.objective, value, whole, parts, self._replicates, complete)
        before = self.scores.get(candidate.id)
        if before is None or len(before.item_parts) <= len(parts):
            self.scores[candidate.id] = score
        return score

    def render(self, candidate: Candidate, item: Item) -> str:
        """The text for an item."""
        condition = ConditionBundle("C8", "", ()).with_prompt(candidate.prompt)
        return apply_condition(condition, self.prompting.context(item.input_text)).prompt

    def answer(self, candidate: Candidate, item: Item) -> str:
        """The answer of the first replicate; training items are of average difficulty."""
        rng = Random(f"{self._seed}|{candidate.id}|{item.item_id}")
        if item.item_id in self._places:
            right = self._drawn(candidate)[self._places[item.item_id], 0] == 0
        else:
            right = rng.random() < logistic(
                accuracy_logit(self._options, self.task_id, _operators(candidate))
            )
        return self.evaluator.gold_answer(item) if right else self.evaluator.wrong_answer(item, rng)

    def ask(
        self,
        prompt: str,
        *,
        seed: int,
        role: str = "proposer",
        temperature: float = 0.9,
        max_tokens: int = 300,
    ) -> str:
        """A text of the simulated proposer."""
        return propose_instruction(prompt, Random(f"{seed}|{prompt}"))

    def _drawn(self, candidate: Candidate) -> np.ndarray:
        """0 for a right answer, 1 to 3 for wrong labels, 4 for none; one row per item."""
        if candidate.id not in self._answers:
            names = _operators(candidate)
            rng = self._rng(candidate.id)
            centre = accuracy_logit(self._options, self.task_id, names)
            chance = 1 / (1 + np.exp(-(centre + self._difficulty)))
            shape = (len(self.dev), self._replicates)
            answers = np.where(rng.random(shape) < chance[:, None], 0, rng.integers(1, LABELS, shape))
            lost = rng.random(shape) >= json_probability(self._options, names)
            self._answers[candidate.id] = np.where(lost, UNREADABLE, answers)
        return self._answers[candidate.id]

    def _rng(self, name: str) -> np.random.Generator:
        digest = hashlib.sha256(f"{self._seed}|{name}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _operators(candidate: Candidate) -> list[str]:
    return list(makeup_of(candidate.prompt)[0])
