"""How each of DSPy's optimisers is set up and run on a problem.

Import only after :func:`pcsuite.optimization.dspy_opt.load_dspy`.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dspy
import gepa.core.engine as gepa_engine
import tqdm
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer

from pcsuite.errors import EngineError, PcsuiteError
from pcsuite.optimization.dspy_bridge import PlainAdapter, SeededEngine, TaskEngine, language_model
from pcsuite.optimization.dspy_candidates import (
    PERFECT,
    RIGHT,
    Examples,
    MeasureBatches,
    PromptProgram,
    SearchEnded,
    Trials,
    feedback_metric,
    item_metric,
)
from pcsuite.optimization.problem import Problem, named_random

SHOWN = 3
"""Examples that a proposal of GEPA is made from; more are measured, but would not fit the window of a small model."""
MAX_EXAMPLES = 4
"""Examples a program may show."""
MAX_BOOTSTRAPPED = 2
"""Those of them that are answers of the model itself."""
_BOOTSTRAPPING: dict[str, Any] = {
    "max_bootstrapped_demos": MAX_BOOTSTRAPPED,
    "max_labeled_demos": MAX_EXAMPLES,
    "metric_threshold": PERFECT,
    "num_threads": 1,
}
BOOTSTRAP_ITEMS = 24
"""Training items that answers are collected on: a weak model gets few right, and would go through all of them."""
MINIBATCH = 40
"""Items on which GEPA compares a rewritten instruction with the one it was made from. DSPy's default of 3 is for
metrics without noise; J of an item rests on a few sampled answers."""
REPEATS = 2
"""Proposals a candidate: some repeat what was tried, and are not measured again."""
_SUMMARY_BATCH = 5
_TEMPERATURE = 1.0
_BREADTH = 10
_UNLIMITED = 10**9


def run_search(method: str, problem: Problem, *, seed: int, candidates: int) -> PromptProgram | None:
    """Let one of DSPy's optimisers (``mipro``, ``gepa``, ``copro``, ``bootstrap``) try up to ``candidates`` prompts.

    Returns the program that DSPy thinks best, or ``None`` where it was stopped because it would have tried more.
    Raises what ended the search (a spent budget, say), and :class:`EngineError` for an error of DSPy itself.
    """
    search = _Search(problem, method, seed, candidates)
    try:
        with search.settings():
            program: PromptProgram = _COMPILE[method](search)
            return program
    except SearchEnded as ended:
        if ended.cause is not None:
            raise ended.cause from None
        return None
    except PcsuiteError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise EngineError(f"DSPy's {method} stopped on task '{problem.task_id}': {why}") from error


class _Search:
    """Arguments of an optimiser."""

    def __init__(self, problem: Problem, method: str, seed: int, candidates: int) -> None:
        self.seed, self.candidates = seed, candidates
        self.trials = Trials(problem, method, candidates)
        self.examples = Examples(problem)
        self.metric = item_metric(self.trials, self.examples)
        self.proposer = language_model("proposer", SeededEngine(self.trials.ask, seed))
        self.student = PromptProgram(self.trials, self.trials.ctx.instruction)
        self.adapter = PlainAdapter(self.trials.ctx)

    def bootstrap_examples(self) -> list[dspy.Example]:
        """The training examples that the seed puts first: DSPy's own draws do not know the seed everywhere."""
        shuffled = list(self.examples.train)
        named_random(self.seed, "dspy", "train").shuffle(shuffled)
        return shuffled[:BOOTSTRAP_ITEMS]

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        """DSPy's settings for one search; its output is discarded."""
        settings = dspy.context(
            lm=language_model("task", TaskEngine(self.examples.answer)),
            adapter=self.adapter,
            callbacks=[MeasureBatches(self.trials, self.examples)],
            trace=None,
            num_threads=1,
        )
        # DSPy and GEPA hold a name of their own for the bar, and have no setting for it.
        bars = [(module, module.tqdm) for module in (tqdm, gepa_engine)]
        try:
            for module, _ in bars:
                module.tqdm = _SilentBar
            with settings, contextlib.redirect_stdout(io.StringIO()):
                yield
        finally:
            for module, bar in bars:
                module.tqdm = bar


class _SilentBar(tqdm.tqdm):  # type: ignore[misc]
    """A progress bar that is not shown: the suite shows its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "disable": True})


def _mipro(search: _Search) -> Any:
    """Instructions proposed from the data, combined with sets of examples by a tree-structured Parzen estimator."""
    optimizer = dspy.MIPROv2(
        metric=search.metric,
        prompt_model=search.proposer,
        auto=None,
        num_candidates=search.candidates,
        init_temperature=_TEMPERATURE,
        seed=search.seed + 1,  # 0 would mean DSPy's default
        **_BOOTSTRAPPING,
    )
    return optimizer.compile(
        search.student,
        trainset=search.bootstrap_examples(),
        valset=search.examples.dev,
        num_trials=search.candidates,
        minibatch=False,
        program_aware_proposer=False,  # one call: its source code says nothing about the task
        view_data_batch_size=_SUMMARY_BATCH,
    )


def _gepa(search: _Search) -> Any:
    """Instructions rewritten by reflection; those that are best on some item go on."""
    trials, student = search.trials, search.student
    propose = InstructionProposer(adapter=search.adapter)
    proposals = 0

    def reflect(
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """New texts for the components of a candidate, with a note of what they were made from."""
        nonlocal proposals
        proposals += 1
        telling = {
            # wrong answers before right ones, a few of them
            name: sorted(examples, key=lambda example: example["Feedback"] == RIGHT)[:SHOWN]
            for name, examples in reflective_dataset.items()
        }
        proposed = propose(
            candidate=candidate, reflective_dataset=telling, components_to_update=components_to_update
        )
        parent = student.deepcopy()
        for name, predictor in parent.named_predictors():
            predictor.signature = predictor.signature.with_instructions(candidate[name])
        trials.basis = trials.candidate(parent.predict).id
        return dict(proposed)

    def over(state: Any) -> bool:
        # A proposer that repeats itself makes no new candidates, so proposals are counted too.
        return trials.full or proposals >= REPEATS * search.candidates

    optimizer = dspy.GEPA(
        metric=feedback_metric(trials, search.examples),
        max_metric_calls=_UNLIMITED,
        reflection_lm=search.proposer,
        instruction_proposer=reflect,
        reflection_minibatch_size=min(MINIBATCH, len(search.examples.dev)),
        candidate_selection_strategy="current_best",  # which item a prompt is best on is mostly luck here
        use_merge=False,  # there is one text, so nothing to merge
        num_threads=1,
        warn_on_score_mismatch=False,
        seed=search.seed,
        gepa_kwargs={"stop_callbacks": [over]},
    )
    return optimizer.compile(student, trainset=search.examples.dev, valset=search.examples.dev)


def _copro(search: _Search) -> Any:
    """Instructions rewritten from the best ones so far and their scores, round by round."""
    breadth, depth = copro_shape(search.candidates)
    shape = {"breadth": breadth, "depth": depth, "init_temperature": _TEMPERATURE}
    optimizer = dspy.COPRO(prompt_model=search.proposer, metric=search.metric, **shape)
    return optimizer.compile(search.student, trainset=search.examples.dev, eval_kwargs={"num_threads": 1})


def copro_shape(candidates: int) -> tuple[int, int]:
    """Proposals a round, and rounds: 10 × 4 for 40 candidates, never fewer than two a round.

    copro_shape(40) == (10, 4) and copro_shape(4) == (2, 2)
    """
    breadth = min(_BREADTH, max(2, math.ceil(candidates / 4)))
    return breadth, math.ceil(candidates / breadth)


def _bootstrap(search: _Search) -> Any:
    """Sets of examples drawn at random from training items and from the model's own right answers."""
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=search.metric, num_candidate_programs=search.candidates, **_BOOTSTRAPPING
    )
    return optimizer.compile(search.student, trainset=search.bootstrap_examples(), valset=search.examples.dev)


_COMPILE: dict[str, Callable[[_Search], Any]] = {
    "mipro": _mipro,
    "gepa": _gepa,
    "copro": _copro,
    "bootstrap": _bootstrap,
}
