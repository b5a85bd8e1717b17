"""How each of DSPy's optimisers is set up and run on a problem.

Import only after :func:`pcsuite.optimization.dspy_opt.load_dspy`.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy
import gepa.core.engine as gepa_engine
import tqdm
from dspy.adapters import Adapter
from dspy.teleprompt.gepa.instruction_proposal import InstructionProposer

from pcsuite.errors import EngineError, PcsuiteError
from pcsuite.optimization.dspy_bridge import PlainAdapter, SeededEngine, TaskEngine, language_model
from pcsuite.optimization.dspy_candidates import (
    PERFECT,
    RIGHT,
    Examples,
    Ledger,
    MeasureBatches,
    PromptProgram,
    SearchEnded,
    feedback_metric,
    item_metric,
)
from pcsuite.optimization.problem import Problem, named_random

# GEPA's proposer, through the plain adapter, with a note of what each proposal was made from.


SHOWN = 3
"""Examples that a proposal is made from; more are measured, but would not fit the window of a small model."""


class Reflection:
    """Proposes new instructions from examples with feedback, and counts its proposals."""

    def __init__(self, ledger: Ledger, student: PromptProgram, adapter: Adapter) -> None:
        self._ledger = ledger
        self._student = student
        self._proposer = InstructionProposer(adapter=adapter)
        self.proposals = 0

    def __call__(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """New texts for the components of a candidate."""
        self.proposals += 1
        proposed = self._proposer(
            candidate=candidate,
            reflective_dataset={name: telling(examples) for name, examples in reflective_dataset.items()},
            components_to_update=components_to_update,
        )
        self._ledger.basis = self._parent(candidate)
        return dict(proposed)

    def _parent(self, texts: Mapping[str, str]) -> str:
        program = self._student.deepcopy()
        for name, predictor in program.named_predictors():
            predictor.signature = predictor.signature.with_instructions(texts[name])
        return self._ledger.candidate(program.predict).id


def telling(examples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The examples to learn from: wrong answers before right ones, a few of them."""
    return sorted(examples, key=lambda example: example["Feedback"] == RIGHT)[:SHOWN]


MAX_EXAMPLES = 4
"""Examples a program may show."""
MAX_BOOTSTRAPPED = 2
"""Those of them that are answers of the model itself."""
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


@dataclass(frozen=True)
class Session:
    """What an optimiser is set up with."""

    ledger: Ledger
    examples: Examples
    proposer: dspy.LM
    student: PromptProgram
    adapter: PlainAdapter
    seed: int
    candidates: int

    @classmethod
    def of(cls, problem: Problem, method: str, seed: int, candidates: int) -> Session:
        """A session on a problem."""
        ledger = Ledger(problem, method, candidates)
        return cls(
            ledger=ledger,
            examples=Examples(problem),
            proposer=language_model("proposer", SeededEngine(ledger.ask, seed)),
            student=PromptProgram(ledger, ledger.ctx.instruction),
            adapter=PlainAdapter(ledger.ctx),
            seed=seed,
            candidates=candidates,
        )

    def bootstrap_examples(self) -> list[dspy.Example]:
        """The training examples that the seed puts first: DSPy's own draws do not know the seed everywhere."""
        shuffled = list(self.examples.train)
        named_random(self.seed, "dspy", "train").shuffle(shuffled)
        return shuffled[:BOOTSTRAP_ITEMS]


def run_search(method: str, problem: Problem, *, seed: int, candidates: int) -> PromptProgram | None:
    """Let an optimiser try up to ``candidates`` prompts.

    Returns the program that DSPy thinks best, or ``None`` where it was stopped because it would have tried more.
    """
    session = Session.of(problem, method, seed, candidates)
    try:
        with _settings(session):
            return _COMPILE[method](session)
    except SearchEnded as ended:
        if ended.cause is not None:
            raise ended.cause from None
        return None
    except PcsuiteError:
        raise
    except Exception as error:
        raise EngineError(
            f"DSPy's {method} stopped on task '{problem.task_id}': {type(error).__name__}: {error}"
        ) from error


@contextlib.contextmanager
def _settings(session: Session) -> Iterator[None]:
    """DSPy's settings for one search; what it prints goes nowhere."""
    settings = dspy.context(
        lm=language_model("task", TaskEngine(session.examples.answer)),
        adapter=session.adapter,
        callbacks=[MeasureBatches(session.ledger, session.examples)],
        trace=None,
        num_threads=1,
    )
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


def _mipro(session: Session) -> PromptProgram:
    """Instructions proposed from the data, combined with sets of examples by a tree-structured Parzen estimator."""
    optimizer = dspy.MIPROv2(
        metric=item_metric(session.ledger, session.examples),
        prompt_model=session.proposer,
        auto=None,
        num_candidates=session.candidates,
        max_bootstrapped_demos=MAX_BOOTSTRAPPED,
        max_labeled_demos=MAX_EXAMPLES,
        metric_threshold=PERFECT,
        num_threads=1,
        init_temperature=_TEMPERATURE,
        seed=session.seed + 1,  # 0 would mean DSPy's default
    )
    program: PromptProgram = optimizer.compile(
        session.student,
        trainset=session.bootstrap_examples(),
        valset=session.examples.dev,
        num_trials=session.candidates,
        minibatch=False,
        program_aware_proposer=False,  # one call: its source code says nothing about the task
        view_data_batch_size=_SUMMARY_BATCH,
    )
    return program


def _gepa(session: Session) -> PromptProgram:
    """Instructions rewritten by reflection; those that are best on some item go on."""
    reflection = Reflection(session.ledger, session.student, session.adapter)

    def over(state: Any) -> bool:
        # A proposer that repeats itself makes no new candidates, so proposals are counted too.
        return session.ledger.full or reflection.proposals >= REPEATS * session.candidates

    optimizer = dspy.GEPA(
        metric=feedback_metric(session.ledger, session.examples),
        max_metric_calls=_UNLIMITED,
        reflection_lm=session.proposer,
        instruction_proposer=reflection,
        reflection_minibatch_size=min(MINIBATCH, len(session.examples.dev)),
        candidate_selection_strategy="current_best",  # which item a prompt is best on is mostly luck here
        use_merge=False,  # there is one text, so nothing to merge
        num_threads=1,
        warn_on_score_mismatch=False,
        seed=session.seed,
        gepa_kwargs={"stop_callbacks": [over]},
    )
    program: PromptProgram = optimizer.compile(
        session.student, trainset=session.examples.dev, valset=session.examples.dev
    )
    return program


def _copro(session: Session) -> PromptProgram:
    """Instructions rewritten from the best ones so far and their scores, round by round."""
    breadth, depth = copro_shape(session.candidates)
    optimizer = dspy.COPRO(
        prompt_model=session.proposer,
        metric=item_metric(session.ledger, session.examples),
        breadth=breadth,
        depth=depth,
        init_temperature=_TEMPERATURE,
    )
    program: PromptProgram = optimizer.compile(
        session.student, trainset=session.examples.dev, eval_kwargs={"num_threads": 1}
    )
    return program


def copro_shape(candidates: int) -> tuple[int, int]:
    """Proposals a round, and rounds: 10 × 4 for 40 candidates, never fewer than two a round."""
    breadth = min(_BREADTH, max(2, math.ceil(candidates / 4)))
    return breadth, math.ceil(candidates / breadth)


def _bootstrap(session: Session) -> PromptProgram:
    """Sets of examples drawn at random from training items and from the model's own right answers."""
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=item_metric(session.ledger, session.examples),
        max_bootstrapped_demos=MAX_BOOTSTRAPPED,
        max_labeled_demos=MAX_EXAMPLES,
        num_candidate_programs=session.candidates,
        metric_threshold=PERFECT,
        num_threads=1,
    )
    program: PromptProgram = optimizer.compile(
        session.student, trainset=session.bootstrap_examples(), valset=session.examples.dev
    )
    return program


_COMPILE: dict[str, Callable[[Session], PromptProgram]] = {
    "mipro": _mipro,
    "gepa": _gepa,
    "copro": _copro,
    "bootstrap": _bootstrap,
}
