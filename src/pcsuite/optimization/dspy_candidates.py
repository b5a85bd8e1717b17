"""What DSPy tries, as candidates of the problem: every program measured by J, through the same log as any run.

DSPy's optimisers know programs, examples and a metric. Here a program is a prompt (its instruction and examples laid
out as one text), an evaluation of it is a measurement of that prompt by the problem, and the metric looks the item's J
up. Import only after :func:`pcsuite.optimization.dspy_opt.load_dspy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from pcsuite.data.items import Item
from pcsuite.errors import EngineError, PcsuiteError
from pcsuite.evaluation.base import Answer, score_answer
from pcsuite.optimization.dspy_bridge import ANSWER, INPUT, signature_template, task_signature
from pcsuite.optimization.problem import Candidate, CandidateScore, Problem
from pcsuite.prompts.compiled import CompiledPrompt

PERFECT = 1.0
"""Task score from which an answer of the model may become an example."""
RIGHT = "The answer is right."
"""Feedback on a right answer."""


class SearchEnded(BaseException):
    """Ends a search from within DSPy, which takes every ``Exception`` for a bad example and goes on."""

    def __init__(self, cause: BaseException | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        """Why it cannot go on, or ``None`` where all candidates were tried."""


class Trials:
    """The candidates that one search of DSPy tried, and the J of their items."""

    def __init__(self, problem: Problem, method: str, candidates: int) -> None:
        self.problem = problem
        self.ctx = problem.prompting.context("")
        self.basis = problem.baseline.candidate.id
        """Id of the candidate that the next new ones are made from."""
        self._examples = len({item.input_text for item in problem.dev})
        self._method = method
        self._limit = candidates
        bare = Candidate.of_instruction(self.ctx.instruction, self.ctx, method=method)
        self._candidates = {bare.id: problem.baseline.candidate}  # the same text, so the same candidate
        self._best = problem.baseline
        self._scores: dict[tuple[str, str], float] = {}
        self._note(problem.baseline)

    def __deepcopy__(self, memo: object) -> Trials:
        """Itself: copies of a program are tried by the same search."""
        return self

    @property
    def full(self) -> bool:
        """Whether as many different candidates were measured as allowed, the baseline not counted.

        The search ends at the next candidate that was never measured.
        """
        return len(self._candidates) - 1 >= self._limit

    def candidate(self, predictor: dspy.Predict) -> Candidate:
        """A predictor's prompt as a candidate.

        One that was tried before comes with the origin and parents it had then.
        """
        template, demos = signature_template(predictor.signature, predictor.demos, self.ctx)
        origin = f"program {len(self._candidates)}" + (f", {len(demos)} examples" if demos else "")
        prompt = CompiledPrompt(template=template, demos=demos)
        candidate = Candidate(prompt, self._method, origin, (self.basis,))
        return self._candidates.get(candidate.id, candidate)

    def measure(self, candidate: Candidate, items: Sequence[Item]) -> None:
        """Have a candidate measured on the items it was not measured on yet.

        Raises :class:`SearchEnded` where it would be one candidate too many, and with the cause where the problem
        cannot measure any more.
        """
        missing = [item for item in items if (candidate.id, item.item_id) not in self._scores]
        if not missing:
            return
        if candidate.id not in self._candidates and candidate.id != self.problem.baseline.candidate.id:
            if self.full:
                raise SearchEnded
            self._candidates[candidate.id] = candidate
        all_items = len(items) == self._examples  # items of equal text are one example, but all are measured
        try:
            self._note(self.problem.evaluate(candidate, None if all_items else missing))
        except Exception as error:  # budget spent or model gone, which DSPy would score 0 and go on
            raise SearchEnded(error) from error

    def ask(self, prompt: str, *, seed: int, temperature: float, max_tokens: int) -> str:
        """A text from the proposing model; what is tried next is made from it, and it saw the best so far.

        Raises :class:`SearchEnded` where the call failed or the budget is spent: DSPy would go on without it.
        """
        self.basis = self._best.candidate.id
        try:
            return self.problem.ask(prompt, seed=seed, temperature=temperature, max_tokens=max_tokens)
        except PcsuiteError as error:
            raise SearchEnded(error) from error

    def score(self, candidate: Candidate, item: Item) -> float:
        """J of one item in 0..1, where 0 is a crash; the item is measured where it was not yet.

        Raises :class:`SearchEnded` as :meth:`measure` does.
        """
        self.measure(candidate, [item])
        return self._scores[candidate.id, item.item_id]

    def judged(self, item: Item, answer: str) -> tuple[float, list[str]]:
        """The task score (0 to 1) of an answer to an item, and why it could not be read where it could not.

        No model is called. An answer that the evaluator leaves unscored counts as 0.
        """
        scored = score_answer(self.problem.evaluator, item, Answer(answer))
        return float(scored.metrics["task_score"] or 0.0), scored.parsed.problems()

    def _note(self, score: CandidateScore) -> None:
        for item_id, value in zip(score.item_parts.items, score.item_values, strict=True):
            rescaled = 0.0 if score.crashed else self.problem.objective.rescaled(float(value))
            self._scores[score.candidate.id, item_id] = rescaled
        if score.complete and score.rank > self._best.rank:
            self._best = score


_ASKING: ContextVar[tuple[Candidate, str]] = ContextVar("asking")
"""The candidate and the input of the call that is under way."""


class PromptProgram(dspy.Module):  # type: ignore[misc]
    """The program DSPy optimises: one call of the measured model with one prompt."""

    def __init__(self, trials: Trials, instruction: str) -> None:
        super().__init__()
        self.trials = trials
        self.predict = dspy.Predict(task_signature(trials.ctx, instruction))

    def forward(self, input_text: str) -> dspy.Prediction:
        """The candidate that this program is, with its answer where DSPy collects answers.

        Where it only wants scores (no trace is kept), the problem has measured the prompt and nothing is asked again.
        """
        candidate = self.trials.candidate(self.predict)
        if dspy.settings.trace is None:
            return dspy.Prediction(answer=None, candidate=candidate)
        token = _ASKING.set((candidate, input_text))
        try:
            predicted = self.predict(input_text=input_text)
        finally:
            _ASKING.reset(token)
        return dspy.Prediction(answer=predicted.answer, candidate=candidate)


class Examples:
    """The problem's items as DSPy's examples, and back."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._items: dict[str, Item] = {}
        self.dev = self._examples(problem.dev)
        self.train = self._examples(problem.train_items)

    def item(self, example: Mapping[str, Any]) -> Item:
        """The item an example was made from."""
        return self._items[example[INPUT]]

    def answer(self, prompt: str) -> str:
        """What the measured model answers to the program's call that is under way.

        The problem lays the prompt out itself, length control included; without that it is the same text.
        """
        candidate, input_text = _ASKING.get()
        try:
            return self.problem.answer(candidate, self._items[input_text])
        except EngineError:
            return ""  # a missing answer scores 0, here as everywhere
        except PcsuiteError as error:  # the budget, the error rate, a server that is down
            raise SearchEnded(error) from error

    def _examples(self, items: Sequence[Item]) -> list[dspy.Example]:
        examples = []
        for item in items:
            if item.input_text not in self._items:  # equal texts are one example
                self._items[item.input_text] = item
                answer = self.problem.evaluator.gold_answer(item)
                examples.append(dspy.Example({INPUT: item.input_text, ANSWER: answer}).with_inputs(INPUT))
        return examples


class MeasureBatches(BaseCallback):  # type: ignore[misc]
    """Measures a program on all items of an evaluation at once, before DSPy goes through them one by one."""

    def __init__(self, trials: Trials, examples: Examples) -> None:
        self._trials = trials
        self._examples = examples

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Called by DSPy before an evaluation of ``inputs["program"]``.

        All its items go to the model at once, as many as it takes; DSPy then finds every score measured.
        """
        devset = inputs["devset"] if inputs.get("devset") is not None else instance.devset
        items = [self._examples.item(example) for example in devset]
        self._trials.measure(self._trials.candidate(inputs["program"].predict), items)


def item_metric(trials: Trials, examples: Examples) -> Callable[..., float]:
    """The metric for DSPy: J of the item in 0..1.

    Where DSPy asks whether an answer may become an example (it passes a trace), the answer's task score.
    """

    @_never_swallowed
    def metric(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> float:
        item = examples.item(example)
        if trace is not None:
            return trials.judged(item, prediction.answer)[0]
        return trials.score(prediction.candidate, item)

    return metric


def feedback_metric(trials: Trials, examples: Examples) -> Callable[..., dspy.Prediction]:
    """The metric with words for a reflecting model: the score and, where the answer is not right, a right one.

    There are no words where DSPy only wants the score (the prediction has no answer).
    """

    @_never_swallowed
    def metric(
        gold: dspy.Example,
        pred: dspy.Prediction,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> dspy.Prediction:
        item = examples.item(gold)
        score = trials.score(pred.candidate, item)
        if pred.answer is None:
            return dspy.Prediction(score=score, feedback=None)
        reached, unreadable = trials.judged(item, pred.answer)
        if reached >= PERFECT:
            return dspy.Prediction(score=score, feedback=RIGHT)
        feedback = f"The answer scores {reached:.2f} of 1. A right answer is: {gold[ANSWER]}"
        if unreadable:
            feedback += f" It could not be read: {unreadable[0]}."
        return dspy.Prediction(score=score, feedback=feedback)

    return metric


def _never_swallowed(metric: Callable[..., Any]) -> Callable[..., Any]:
    """A metric whose errors end the search: DSPy would take them for a bad example, score 0 and go on."""

    @wraps(metric)
    def guarded(*args: Any, **options: Any) -> Any:
        try:
            return metric(*args, **options)
        except Exception as error:
            raise SearchEnded(error) from error

    return guarded
