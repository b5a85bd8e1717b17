"""What a search of prompts works on: candidates in, their objective out.

A :class:`Method` proposes :class:`Candidate` prompts and has a :class:`Problem` measure each of them
(:class:`CandidateScore`). Methods of your own need nothing but this module; ``pcsuite.optimization.development`` has
the problem that ``pcsuite optimize`` gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol, runtime_checkable

from pcsuite.config.definitions import WORDING_1
from pcsuite.config.operator_definitions import OperatorSpec
from pcsuite.data.items import Item
from pcsuite.evaluation.base import Evaluator
from pcsuite.prompts.compiled import INPUT_SLOT, CompiledPrompt
from pcsuite.prompts.context import Exemplar, PromptContext, TaskPrompting
from pcsuite.prompts.operators import base_template, shown_question
from pcsuite.stats.estimate import FloatArray
from pcsuite.stats.objective import ItemParts, Objective, Parts


@dataclass(frozen=True)
class Candidate:
    """A prompt under trial. Two candidates with the same prompt are the same candidate, whatever their origin."""

    prompt: CompiledPrompt
    method: str
    """The method that made it (``ape``, ``blocks``, ``mipro``, …)."""
    origin: str = ""
    """How, in a few words: ``baseline``, ``proposal 3``, ``variation of …``, ``drop ROLE``."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates it was made from."""

    @property
    def id(self) -> str:
        """The first twelve digits of the prompt's hash.

        It names the candidate in logs, files and conditions (``C8:3f2a…``).
        """
        return self.prompt.hash[:12]

    @classmethod
    def of_text(
        cls,
        template: str,
        *,
        method: str,
        demos: Sequence[Exemplar] = (),
        origin: str = "",
        parents: Sequence[str] = (),
    ) -> Candidate:
        """A candidate from the whole text of a prompt with ``{{input}}`` exactly once.

        The text is sent as it is, with the input put in the slot: no template language, no adapter, no stripping. Say
        in ``demos`` which training items it shows; their text must be in the template already.

            Candidate.of_text("Name the topic.\\n\\n{{input}}", method="mine", origin="by hand")
        """
        return cls(CompiledPrompt(template=template, demos=tuple(demos)), method, origin, tuple(parents))

    @classmethod
    def of_instruction(
        cls,
        instruction: str,
        ctx: PromptContext,
        *,
        method: str,
        demos: Sequence[Exemplar] = (),
        origin: str = "",
        parents: Sequence[str] = (),
    ) -> Candidate:
        """A candidate from an instruction and demonstrations, laid out as the suite lays out its own prompts.

        ``ctx`` gives the label of the input and the kind of task: ``problem.prompting.context("")``.
        """
        template = instruction_template(instruction, ctx, demos)
        return cls.of_text(template, method=method, demos=demos, origin=origin, parents=parents)


def instruction_template(instruction: str, ctx: PromptContext, demos: Sequence[Exemplar] = ()) -> str:
    """Instruction, solved examples, labelled input: the layout of the base templates as a text with a slot.

    A slot that the instruction itself holds is spelt out, so that there is one.
    """
    template = base_template(ctx)
    parts = [instruction.strip().replace(INPUT_SLOT, "the input")]
    if demos:
        put = partial(shown_question, template, ctx.input_label)
        solved = [f"{put(demo.input_text)}\nAnswer:\n{demo.output_text}" for demo in demos]
        parts.append("Examples:\n\n" + "\n\n".join(solved).replace(INPUT_SLOT, "the input"))
    parts.append(shown_question(template, ctx.input_label, INPUT_SLOT))
    cue = "\nAnswer:" if demos and ctx.wording != WORDING_1 else ""
    return "\n\n".join(part for part in parts if part) + cue


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """A candidate's score on some development items."""

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
        """J of each item on its own, in the order of ``item_parts.items``.

        Items are weighed alike; of a crashed candidate these are the worst values there are.
        """
        return self.item_parts.values(self.objective)

    @property
    def rank(self) -> tuple[bool, float]:
        """Sorts scores from bad to good; a crash is below everything.

        Compare two with ``<``: first whether it did not crash, then J.
        """
        return (not self.crashed, self.value)

    def facts(self) -> dict[str, Any]:
        """The record of a score wherever candidates are listed: origin, J and number of items.

        Keys are ``id``, ``method``, ``origin``, ``parents``, ``J`` and ``items`` (their number).
        """
        candidate = self.candidate
        return {
            "id": candidate.id,
            "method": candidate.method,
            "origin": candidate.origin,
            "parents": list(candidate.parents),
            "J": self.value,
            "items": len(self.item_parts),
        }


class Problem(Protocol):
    """One task on one model, to be prompted as well as possible. Safe to call from several threads."""

    task_id: str
    model_id: str
    prompting: TaskPrompting
    """The task's texts: ``prompting.task`` has instruction, role, goal, rules, schema and the like;
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

    def evaluate(self, candidate: Candidate, items: Sequence[Item] | None = None) -> CandidateScore:
        """Measure a candidate on development items (all by default), replicates under the sampled regime.

        Goes through the same client, cache, budget, retries, evaluator and log as any run. Never raises for a bad
        candidate: one that cannot be rendered or whose calls fail is ``crashed``. Raises where no further candidate
        could be measured (budget spent, model gone).
        """

    def render(self, candidate: Candidate, item: Item) -> str:
        """The exact text that :meth:`evaluate` sends for an item (length control included).

        Raises :class:`~pcsuite.errors.PromptError` for a candidate that cannot be rendered, which :meth:`evaluate`
        never does.
        """

    def answer(self, candidate: Candidate, item: Item) -> str:
        """The measured model's answer to a development or training item, of the first replicate.

        It does not make the candidate a tried one. An answer that :meth:`evaluate` had already is not asked for again.
        """

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


@runtime_checkable
class Method(Protocol):
    """A way to search for a prompt."""

    name: str
    summary: str
    """One line for ``--help``."""

    def require(self) -> None:
        """Raise :class:`~pcsuite.errors.MissingExtraError` where an optional dependency is missing."""

    def search(self, problem: Problem, *, seed: int, candidates: int) -> None:
        """Try up to ``candidates`` candidates (1 or more) by ``problem.evaluate``; the best of them is frozen.

        All randomness comes from ``seed``, so that a search that was killed goes the same way again.
        """


def named_random(seed: int, *names: object) -> Random:
    """A random stream that belongs to a seed and a name: no global state, no dependence on order.

    named_random(3, "ape demonstrations", 0).sample(range(10), 2)
    """
    return Random("|".join([str(seed), *(str(name) for name in names)]))
