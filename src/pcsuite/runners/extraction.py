"""Who extracts and who proposes in the improvement loop: the suite's model client behind plain functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import CallContext, Decoding
from pcsuite.evaluation.parsing import clean_text, parse_object
from pcsuite.programs import PROGRAMS
from pcsuite.programs.base import Call, Job, Program
from pcsuite.prompts.conditions.conditions import PromptCondition, apply_condition
from pcsuite.prompts.conditions.designs import ConditionBundle
from pcsuite.prompts.context import TaskPrompting
from pcsuite.prompts.environment import render_text
from pcsuite.prompts.length import LengthControl, MeasuredPrompt, fit
from pcsuite.runners.client import ModelClient, derived_seed
from pcsuite.runners.constraint_proofs import constraint_of
from pcsuite.runners.loop_thread import LoopThread
from pcsuite.runners.plan import TaskPlan
from pcsuite.verifier.failures import Failure
from pcsuite.verifier.improve import Propose
from pcsuite.verifier.improve_state import PromptVersion
from pcsuite.verifier.prompt_rules import RuleCatalogue

REDRAFT_TEMPLATE = "redraft-instruction.j2"
REDRAFT = Decoding("redraft", temperature=0.7, top_p=0.95, max_tokens=500)
_LONGEST_INSTRUCTION = 4_000
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExtractionSetup:
    """Everything that decides what a model is asked, except the instruction."""

    task: TaskPlan
    prompting: TaskPrompting
    condition: ConditionBundle
    decoding: Decoding
    seed: int
    length_control: LengthControl
    items: Mapping[str, Item]
    """Evals as items, by document."""
    catalogue: RuleCatalogue
    fingerprint: str
    """Hash of all of it."""

    def condition_for(self, instruction: str, document: str) -> PromptCondition:
        """The condition with another instruction."""
        spec = self.prompting.task.model_copy(update={"instruction": instruction})
        prompting = TaskPrompting(
            self.task.id, spec, self.prompting.schema, self.prompting.grammar, self.prompting.exemplars
        )
        return apply_condition(self.condition, prompting.context(document))


class RecordExtractor:
    """``extract`` of the loop: asks the model as a run of the suite would, and reads the record out of the answer."""

    def __init__(self, setup: ExtractionSetup, client: ModelClient, thread: LoopThread) -> None:
        self._setup = setup
        self._client = client
        self._thread = thread

    def __call__(self, prompt: PromptVersion, document: str) -> Mapping[str, Any] | str:
        """The record, or the answer as it came where it holds none."""
        return self._thread.call(self._extract(prompt, document))

    async def _extract(self, prompt: PromptVersion, document: str) -> Mapping[str, Any] | str:
        setup = self._setup
        condition = setup.condition_for(prompt.text, document)
        counter = self._client.adapter.count_tokens
        measured = fit(condition.tree, setup.task.band, setup.length_control, counter)
        program, job = self._job(condition, measured, setup.items[document])
        outcome = await program.run(job, self._caller(prompt, condition, measured, job.item))
        parsed = parse_object(clean_text(outcome.text), setup.prompting.schema)
        if parsed.json_valid and parsed.fields and outcome.finish_reason != "length":
            return parsed.fields
        return outcome.text

    def _job(self, condition: PromptCondition, measured: MeasuredPrompt, item: Item) -> tuple[Program, Job]:
        operator = condition.program
        name = "single" if operator is None else operator.spec.engine or operator.name
        job = Job(
            task_id=self._setup.task.id,
            item=item,
            prompt=measured.text,
            decoding=self._setup.decoding,
            constraint=constraint_of(condition),
            evaluator=self._setup.task.evaluator,
            max_steps=1 if operator is None else operator.spec.max_steps or 1,
        )
        return PROGRAMS.get(name)(), job

    def _caller(
        self, version: PromptVersion, condition: PromptCondition, measured: MeasuredPrompt, item: Item
    ) -> Call:
        setup, evaluator = self._setup, self._setup.task.evaluator
        context = CallContext(
            task_id=setup.task.id,
            item_id=item.item_id,
            condition_id=setup.condition.id,
            # A simulated model answers by what the prompt is made of: rules of the catalogue count as operators.
            operators=(*condition.bundle.names, *setup.catalogue.in_prompt(version.text)),
            perturbation="none",
            gold=lambda: evaluator.gold_answer(item),
            wrong=lambda rng: evaluator.wrong_answer(item, rng),
        )

        return self._client.caller(setup.decoding, setup.seed, context, measured)


class ModelProposer:
    """``propose`` of the loop: the model itself redrafts the instruction from the failures.

    Each draft has its own seed, so that the draft after a rejected one is another. A draft that is empty, cut
    off or overlong leaves the instruction as it is, which the loop records as no change.
    """

    def __init__(
        self,
        setup: ExtractionSetup,
        client: ModelClient,
        thread: LoopThread,
        simulated: Propose,
        tried: Callable[[], Iterable[str]],
    ) -> None:
        """``simulated`` is what a simulated model drafts."""
        self._setup = setup
        self._client = client
        self._thread = thread
        self._simulated = simulated
        self._tried = tried
        folder = resources.files("pcsuite.verifier") / "templates"
        self._template = (folder / REDRAFT_TEMPLATE).read_text(encoding="utf-8")

    def __call__(self, failures: Sequence[Failure], prompt: str) -> str:
        """The redrafted instruction."""
        drafts = len(list(self._tried()))
        request = render_text(
            self._template, {"instruction": prompt, "failures": failures}, where=REDRAFT_TEMPLATE
        )
        context = CallContext(
            task_id=self._setup.task.id,
            item_id=f"redraft-{drafts}",
            condition_id="redraft",
            operators=(),
            perturbation="none",
            gold=lambda: self._simulated(failures, prompt),
            wrong=lambda rng: prompt,
        )
        seed = derived_seed(self._setup.seed, f"redraft {drafts}")
        reply = self._thread.call(self._client.ask(request, REDRAFT, seed, None, context))
        draft = clean_text(reply.text).strip()
        fenced = _FENCE.match(draft)
        draft = fenced.group(1).strip() if fenced else draft
        usable = draft and reply.finish_reason != "length" and len(draft) <= _LONGEST_INSTRUCTION
        return draft if usable else prompt
