"""The judges of a run's rows, asked about each answer as soon as it is there; who compares is shown the control's."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import PAIR, CallContext
from pcsuite.engines.session import ModelClient
from pcsuite.evaluation.base import Answer, Evaluator, JudgeCall, JudgeQuestion
from pcsuite.evaluation.judged import has_reference, true_reply
from pcsuite.programs.base import Outcome
from pcsuite.programs.judging import Judge
from pcsuite.runners.plan import Unit

CONTROLS_KEPT = 512
"""Answers of controls that are kept for the rows they are compared with."""


class RowJudges:
    """Judges by task, and the answers of the controls that they compare others with."""

    def __init__(
        self,
        clients: Mapping[str, ModelClient],
        control_outcome: Callable[[Unit], Awaitable[Outcome]],
    ) -> None:
        """``control_outcome`` answers a unit of a control, usually by way of :meth:`shared`."""
        self._clients = clients
        self._control_outcome = control_outcome
        self._judges: dict[str, Judge] = {}
        self._controls: OrderedDict[str, asyncio.Task[Outcome]] = OrderedDict()

    async def shared(self, unit: Unit, ask: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
        """The answer to a control's unit, asked once: by its own row or a row that is compared with it.

        Raises what ``ask`` raises; the next one who needs the answer then tries again.
        """
        asked = self._controls.get(unit.run_id)
        if asked is None:
            asked = self._controls[unit.run_id] = asyncio.ensure_future(ask())
            if len(self._controls) > CONTROLS_KEPT:
                self._controls.popitem(last=False)
        try:
            # One row that is cancelled must not take the answer from the others.
            return await asyncio.shield(asked)
        except Exception:
            self._controls.pop(unit.run_id, None)
            raise

    async def verdicts(self, unit: Unit, outcome: Outcome) -> list[JudgeCall]:
        """What the judge of a unit's task says of an answer; a judge of pairs is given the control's beside it.

        Raises :class:`~pcsuite.errors.EngineError` where a call of the judge, or of the control, failed for good.
        """
        task, item, spec = unit.cell.task, unit.item, unit.cell.task.evaluator.judge
        assert spec is not None
        judge = self._judges.setdefault(task.id, Judge(spec, self._clients[spec.model]))
        control: Outcome | None = None
        if unit.cell.control is not None:
            candidates = unit.cell.control.units(item)
            same = (unit.seed, unit.perturbation)
            control = await self._control_outcome(
                next(other for other in candidates if (other.seed, other.perturbation) == same)
            )
        context = judge_context(
            task.evaluator,
            task.id,
            unit.cell.condition.id,
            item,
            unit.perturbation.variant,
            outcome,
            control,
            unit.seed,
        )
        return await judge.verdicts(task.evaluator, item, outcome, control, context)


def judge_context(
    evaluator: Evaluator,
    task_id: str,
    condition_id: str,
    item: Item,
    perturbation_id: str,
    outcome: Answer,
    control: Answer | None,
    seed: int,
) -> Callable[[JudgeQuestion], CallContext]:
    """What a judge's question is for: a simulated judge knows which answers are good, namely the references.

    Returns a function of the question, since a pair's two questions are two calls. ``seed`` is the row's, so that
    replicates are judged apart.
    """
    judge = evaluator.judge
    assert judge is not None
    reference = evaluator.gold_answer(item).strip() if has_reference(item) else None
    good = outcome.text.strip() == reference
    other_good = control is not None and control.text.strip() == reference

    def context(question: JudgeQuestion) -> CallContext:
        true, false = (
            true_reply(judge, question.order, good=good == right, other_good=other_good == right)
            for right in (True, False)
        )
        if judge.scale == "pairwise" and good == other_good:
            false = true_reply(judge, question.order, good=True, other_good=False)
        return CallContext(
            task_id=f"judge|{task_id}",
            item_id=f"{item.item_id}|{seed}|{question.order}",
            condition_id=condition_id,
            operators=(),
            perturbation=f"{PAIR}{perturbation_id}" if question.order else perturbation_id,
            gold=lambda: true,
            wrong=lambda rng: false,
            judged_good=good if judge.scale != "pairwise" else True,
        )

    return context
