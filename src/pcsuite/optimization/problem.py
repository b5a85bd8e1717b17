"""What a method of optimisation is given, and what it gives back.

To add a method, write an object with :class:`Method`'s members and register it (``METHODS`` in
``pcsuite.optimization``, or the entry-point group ``pcsuite.optimizers``). A method

1. makes :class:`~pcsuite.optimization.candidate.Candidate` values, with their parents,
2. has them measured by :meth:`Problem.evaluate`, on all development items or on some of them first,
3. may ask a model for texts by :meth:`Problem.ask`,
4. stops when it has tried ``candidates`` different ones (:attr:`Problem.tried` counts them).

It returns nothing: the runner freezes the candidate with the best J among those measured on every development item,
so a method must measure its favourites on all of them. Everything is logged and deterministic: a search that is
started again after a kill asks and measures in the same order, and what the log has is read back, not run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, runtime_checkable

from pcsuite.analysis.estimate import FloatArray
from pcsuite.analysis.objective import ItemParts, Objective, Parts
from pcsuite.config.definitions import OperatorSpec
from pcsuite.data.items import Item
from pcsuite.evaluation.base import Evaluator
from pcsuite.optimization.candidate import Candidate
from pcsuite.prompts.context import Exemplar, TaskPrompting


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """What a candidate came to on some development items."""

    candidate: Candidate
    objective: Objective
    value: float
    """J; the worst there is for a candidate that crashed."""
    parts: Parts
    item_parts: ItemParts
    """The parts item by item; ``item_parts.items`` are the item ids."""
    replicates: int
    complete: bool
    """Whether all development items were measured."""
    errors: tuple[str, ...] = ()
    """The different errors of its calls."""
    crashed: bool = False
    """Whether it could not be rendered or too many of its calls failed. It then ranks below every other."""

    @property
    def rescaled(self) -> float:
        """J in 0..1, where 0 is a crash: for optimisers that need a score of at least 0."""
        return 0.0 if self.crashed else self.objective.rescaled(self.value)

    @property
    def item_values(self) -> FloatArray:
        """J of each item on its own, in the order of ``item_parts.items``."""
        return self.item_parts.values(self.objective)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sorts scores from bad to good; a crash is below everything."""
        return (not self.crashed, self.value)


class Problem(Protocol):
    """One task on one model, to be prompted as well as possible. Safe to call from several threads."""

    task_id: str
    model_id: str
    prompting: TaskPrompting
    """What may be said about the task: ``prompting.task`` has instruction, role, goal, rules, schema and the like;
    ``prompting.context("")`` gives the context of an empty input."""
    evaluator: Evaluator
    """Scores answers; ``gold_answer(item)`` is the text of a perfect one."""
    objective: Objective
    dev: Sequence[Item]
    """The development items. No test item is here or anywhere else in the problem."""
    train: Sequence[Exemplar]
    """Solved training items for demonstrations, none of which shares its text with a dev or test item."""
    train_items: Sequence[Item]
    """The items of ``train``, for methods that collect the model's own answers to them."""
    operators: Mapping[str, OperatorSpec]
    """Operators that a search over blocks may use."""
    baseline: CandidateScore
    """The bare instruction (C0) on all development items."""

    @property
    def tried(self) -> int:
        """Different candidates measured so far, the baseline not counted."""
        ...

    def evaluate(self, candidate: Candidate, items: Sequence[Item] | None = None) -> CandidateScore:
        """Measure a candidate on development items (all by default), replicates under the sampled regime.

        Goes through the same client, cache, budget, retries, evaluator and log as any run. Never raises for a bad
        candidate: one that cannot be rendered or whose calls fail is ``crashed``. Raises where no further candidate
        could be measured (budget spent, model gone).
        """
        ...

    def render(self, candidate: Candidate, item: Item) -> str:
        """The exact text that :meth:`evaluate` sends for an item (length control included)."""
        ...

    def answer(self, candidate: Candidate, item: Item) -> str:
        """The measured model's answer to a development or training item, of the first replicate.

        It does not make the candidate a tried one. An answer that :meth:`evaluate` had already is not asked for again.
        """
        ...

    def ask(
        self,
        prompt: str,
        *,
        seed: int,
        role: str = "proposer",
        temperature: float = 0.9,
        max_tokens: int = 300,
    ) -> str:
        """A text from the proposing model (``optimization.dspy.proposer``, by default the measured model itself).

        ``role`` names the purpose in the log. The same prompt with another ``seed`` gives another text; equal
        questions are answered once.
        """
        ...


@runtime_checkable
class Method(Protocol):
    """A way to search for a prompt."""

    name: str
    summary: str
    """One line for ``--help``."""

    def require(self) -> None:
        """Raise :class:`~pcsuite.errors.MissingExtraError` where an optional dependency is missing."""
        ...

    def search(self, problem: Problem, *, seed: int, candidates: int) -> None:
        """Try up to ``candidates`` candidates; all randomness comes from ``seed``."""
        ...


def named_random(seed: int, *names: object) -> Random:
    """A random stream that belongs to a seed and a name: no global state, no dependence on order."""
    return Random("|".join([str(seed), *(str(name) for name in names)]))
