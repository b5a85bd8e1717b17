"""The improvement loop on the suite's engine: who extracts, and who proposes a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import digest
from pcsuite.config.load import Suite
from pcsuite.config.spellings import regime_id
from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import CallContext, Decoding, Request, derived_seed
from pcsuite.engines.limits import Budget
from pcsuite.engines.session import LoopThread, ModelClient, Session, check_model, open_models
from pcsuite.errors import ConfigError, ConstraintUnavailableError, PromptError, did_you_mean
from pcsuite.evaluation.base import clean_text
from pcsuite.evaluation.parsing import parse_object
from pcsuite.logging.ledger import counting
from pcsuite.prompts.conditions.conditions import expand_conditions
from pcsuite.prompts.operators import render_text
from pcsuite.runners.edits import registered_perturbation
from pcsuite.runners.pipeline import Pipeline, Work
from pcsuite.runners.plan import CLEAN, Cell, Plan, Scope, Unit, plan_cell, why_not_applicable
from pcsuite.runners.progress import Progress
from pcsuite.runners.task_plan import TaskPlan, plan_task
from pcsuite.verifier.cells import read_text
from pcsuite.verifier.evals import DOCUMENT, Eval, find_evals, folder_mapping
from pcsuite.verifier.evaluator import BuildingSpecOptions
from pcsuite.verifier.improve import loop, state
from pcsuite.verifier.improve.command import CommandExtractor, document_of
from pcsuite.verifier.improve.mapped_task import task_of_mapping
from pcsuite.verifier.mapping import FieldMapping, load_mapping
from pcsuite.verifier.store import to_json
from pcsuite.verifier.tree import compared_record
from pcsuite.verifier.truth import read_truth

LEDGER = "improve.jsonl"
"""The loop's budget counts over all its starts, as that of a log of this name would: ``improve.spent.jsonl``."""

REDRAFT_TEMPLATE = "redraft-instruction.j2"
REDRAFT = Decoding("redraft", temperature=0.7, top_p=0.95, max_tokens=500)
BUILDINGS = "buildingspec_json"
"""The bundled task of extraction, whose words are about buildings."""
SUMMARY = "summary.json"
BEST_PROMPT = "best_prompt.txt"
_LONGEST_INSTRUCTION = 4_000
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ImproveSettings:
    """What a loop is run with."""

    evals_dir: Path
    model: str
    condition: str = "C4"
    task: str = BUILDINGS
    regime: str = "D0"
    seed: int = 0
    folder: Path | None = None
    """Folder of the loop's state; ``EVALS_DIR/improve`` by default."""
    held_out: tuple[str, ...] = ()
    """Evals that only decide; a third of all by default."""
    iterations: int = 10
    patience: int = 3
    margin: float = 0.02
    min_gain: float = 0.0
    method: Literal["rules", "model"] = "rules"
    propose_only: bool = False
    instruction: str | None = None
    """Where to start; the task's own instruction by default."""
    mapping: Path | None = None
    rules: Path | None = None
    use_cache: bool = True
    extractor: str | None = None
    """Command that extracts in place of the model, with ``{prompt}`` and ``{document}``."""
    extractor_timeout: float = 600.0
    """Seconds one call of it may take."""


class ImproveOutcome(NamedTuple):
    """What a loop came to."""

    result: loop.ImproveResult
    folder: Path
    held_out: tuple[str, ...]
    spent_tokens: int
    spent_cost_usd: float
    started_from: str = ""
    """What the first prompt was, in words."""


def run_improvement(suite: Suite, settings: ImproveSettings, *, quiet: bool = True) -> ImproveOutcome:
    """Run a loop, or go on with it; everything is on disk before the next step begins.

    A model of the suite extracts under a condition, instructed by the prompt version, or the command of
    ``settings.extractor`` does. Unless ``quiet`` the calls are shown as those of a run are. Raises ``ConfigError`` for
    an unknown name, ``PromptError`` where the condition does not apply, ``DataError`` for evals that cannot be used,
    and what ends a run: a used-up budget, too many errors, ``UnansweredError`` for documents whose calls failed.
    """
    evals = find_evals(settings.evals_dir)
    settings = replace(settings, mapping=settings.mapping or folder_mapping(settings.evals_dir))
    task = plan_task(suite, _checked_name(settings.task, suite.tasks, "task"))
    options = task.evaluator.options
    if settings.mapping is None and not isinstance(options, BuildingSpecOptions):
        raise ConfigError(
            f"task '{task.id}' is scored by '{task.spec.evaluator}', not field by field",
            hint="choose a task whose evaluator is 'buildingspec'",
        )
    task_mapping = options.mapping if isinstance(options, BuildingSpecOptions) else None
    mapping = load_mapping(settings.mapping or (Path(task_mapping) if task_mapping else None))
    names, seed = [one.eval_id for one in evals], suite.profile.repro.deterministic_hash_seed
    held_out = settings.held_out or loop.choose_held_out(names, seed)
    folder = settings.folder or settings.evals_dir / "improve"

    def tried() -> list[str]:
        return state.stored_prompts(folder)

    def build_loop(
        engine: str, extract: loop.Extract, propose: loop.Propose, **options: Any
    ) -> loop.ImprovementLoop:
        config = loop.ImproveConfig(
            held_out=held_out,
            max_iterations=settings.iterations,
            patience=settings.patience,
            margin=settings.margin,
            min_gain=settings.min_gain,
            engine=engine,
        )
        return loop.ImprovementLoop(evals, folder, mapping, config, extract, propose, **options)

    started_from = (
        "the instruction to start from" if settings.instruction else f"the instruction of task {task.id}"
    )
    if mapping.record == "free" and settings.task == BUILDINGS:
        # The bundled task speaks of buildings; the mapping says what there is to extract.
        task = task_of_mapping(task, mapping)
        if not settings.instruction:
            started_from = f"a prompt made of the mapping {settings.mapping}"
    first = settings.instruction or task.spec.instruction
    limits = suite.profile.limits
    budget = Budget(limits.max_tokens_overall, limits.max_cost_usd)
    if settings.extractor is not None:
        if settings.method == "model":
            raise ConfigError("--method model needs a model, and --extractor has none", hint="--method rules")
        command = CommandExtractor(settings.extractor, settings.extractor_timeout)
        command.check()
        rules = state.RuleProposer(state.load_rules(settings.rules), tried)
        engine = digest({"extractor": settings.extractor})
        improvement = build_loop(engine, command, rules, documents=document_of)
        result = improvement.run(first, propose_only=settings.propose_only)
    else:
        setup = _setup(suite, settings, task, _eval_items(evals, mapping))
        setup = replace(setup, is_building=mapping.record == "buildingspec")
        opened = open_models(suite, [settings.model], use_cache=settings.use_cache, budget=budget)
        with LoopThread() as thread, thread.entered(opened) as session:
            client = session.clients[settings.model]
            _check_constraint(setup.cell, client, thread)
            propose: loop.Propose = state.RuleProposer(setup.catalogue, tried)
            if settings.method == "model":
                propose = ModelProposer(setup, client, thread, propose, tried)
            extract = RecordExtractor(setup, session, thread)
            improvement = build_loop(setup.fingerprint, extract, propose, workers=client.concurrency)
            with (
                counting(folder / LEDGER, budget, limits),
                Progress(None, unit="calls", quiet=quiet) as progress,
            ):
                session.watch = progress.count_call
                result = improvement.run(first, propose_only=settings.propose_only)
    spent = (budget.spent_tokens, budget.spent_cost_usd)
    outcome = ImproveOutcome(result, folder, held_out, *spent, started_from=started_from)
    _write_summary(outcome, settings)
    return outcome


def _eval_items(evals: Sequence[Eval], mapping: FieldMapping) -> dict[str, Item]:
    """Evals as items, by document; of two with the same document the first."""
    items: dict[str, Item] = {}
    for one in evals:
        document = read_text(one.folder / DOCUMENT)
        record = compared_record(read_truth(one.truth, mapping).record, mapping)
        items.setdefault(document, Item(one.eval_id, document, {"record": record}))
    return items


def _check_constraint(cell: Cell, client: ModelClient, thread: LoopThread) -> None:
    """Raise ``ConstraintUnavailableError`` where the model cannot enforce the condition's constraint."""
    reason = None if cell.constraint is None else thread.call(client.why_unenforced(cell.constraint))
    if reason is not None:
        raise ConstraintUnavailableError(
            f"condition {cell.condition.id} cannot be enforced on model '{client.model_id}': {reason}"
        )


@dataclass(frozen=True, slots=True)
class ExtractionSetup:
    """Everything that decides what a model is asked, except the instruction."""

    cell: Cell
    work: Work
    seed: int
    items: Mapping[str, Item]
    """Evals as items, by document."""
    catalogue: state.RuleCatalogue
    fingerprint: str
    """Hash of all of it."""
    is_building: bool = True
    """Whether the documents are about buildings."""


@dataclass(frozen=True, slots=True)
class RecordExtractor:
    """``extract`` of the loop: asks the model as a run of the suite would, and reads the record out of the answer."""

    setup: ExtractionSetup
    session: Session
    thread: LoopThread

    def __call__(self, prompt: state.PromptVersion, document: str) -> Mapping[str, Any] | str:
        setup, task = self.setup, self.setup.cell.task
        spec = task.prompting.task.model_copy(update={"instruction": prompt.text})
        cell = replace(
            setup.cell,
            task=replace(task, prompting=replace(task.prompting, task=spec)),
            # A simulated model answers by what the prompt is made of: rules of the catalogue count as operators.
            operators=(*setup.cell.operators, *setup.catalogue.in_prompt(prompt.text)),
        )
        # A pipeline keeps an item's prompt, and here the next one has another instruction.
        pipeline = Pipeline(setup.work, self.session, ModelClient.ask_counted)
        unit = Unit(cell, setup.items[document], setup.seed, CLEAN, "")
        outcome = self.thread.call(pipeline.outcome(unit))
        parsed = parse_object(clean_text(outcome.text), task.prompting.schema)
        if parsed.json_valid and parsed.fields and outcome.finish_reason != "length":
            return parsed.fields
        return outcome.text


@dataclass(frozen=True, slots=True)
class ModelProposer:
    """``propose`` of the loop: the model itself redrafts the instruction from the failures.

    Each draft has its own seed, so that the draft after a rejected one is another. A draft that is empty, cut
    off or overlong leaves the instruction as it is, which the loop records as no change.
    """

    setup: ExtractionSetup
    client: ModelClient
    thread: LoopThread
    simulated: loop.Propose
    """What a simulated model drafts."""
    tried: Callable[[], Iterable[str]]

    def __call__(self, failures: Sequence[state.Failure], prompt: str) -> str:
        drafts = len(list(self.tried()))
        folder = resources.files("pcsuite.verifier") / "templates"
        template = (folder / REDRAFT_TEMPLATE).read_text(encoding="utf-8")
        context = {"instruction": prompt, "failures": failures, "is_building": self.setup.is_building}
        text = render_text(template, context, where=REDRAFT_TEMPLATE)
        call = CallContext(
            task_id=self.setup.cell.task.id,
            item_id=f"redraft-{drafts}",
            condition_id="redraft",
            operators=(),
            perturbation="none",
            gold=lambda: self.simulated(failures, prompt),
            wrong=lambda rng: prompt,
        )
        seed = derived_seed(self.setup.seed, f"redraft {drafts}")
        reply = self.thread.call(self.client.ask_counted(Request(text, REDRAFT, seed, context=call)))
        draft = clean_text(reply["text"]).strip()
        fenced = _FENCE.match(draft)
        draft = fenced.group(1).strip() if fenced else draft
        usable = draft and reply["finish_reason"] != "length" and len(draft) <= _LONGEST_INSTRUCTION
        return draft if usable else prompt


def _setup(
    suite: Suite, settings: ImproveSettings, planned: TaskPlan, items: dict[str, Item]
) -> ExtractionSetup:
    model_id = _checked_name(settings.model, suite.models, "model")
    regime = _checked_name(regime_id(settings.regime), suite.regimes, "regime")
    name = _checked_name(settings.condition.partition(":")[0], suite.conditions, "condition")
    members = {member.id: member for member in expand_conditions([name], suite.conditions, suite.operators)}
    condition = members[_checked_name(settings.condition, members, "condition")]
    documents = {document.strip() for document in items}
    # An exemplar must not be one of the evals: it would show the answer.
    exemplars = tuple(one for one in planned.prompting.exemplars if one.input_text.strip() not in documents)
    prompting = replace(planned.prompting, exemplars=exemplars, lmql_query=None)
    task = replace(planned, prompting=prompting)
    adapter, options = check_model(model_id, suite.models[model_id])
    reason = why_not_applicable(suite, task, adapter, options, condition)
    if reason is not None:
        raise PromptError(f"condition {condition.id} does not apply to '{task.id}' on '{model_id}': {reason}")
    cell = plan_cell(suite, task, model_id, condition, regime)
    bundle = condition.bundle(prompting.context(""))
    assert bundle is not None, "an applicable condition has a bundle"
    fingerprint = digest(
        {
            "task": task.spec.model_dump(mode="json", exclude={"instruction", "evaluator_options"}),
            "schema": prompting.schema,
            "exemplars": [[entry.input_text, entry.output_text] for entry in exemplars],
            "model": [model_id, suite.models[model_id]],
            "condition": [condition.id, [[operator.name, operator.spec] for operator in bundle]],
            "decoding": [cell.decoding.hashed(), settings.seed],
            "length": [suite.profile.length_control, task.band],
        }
    )
    scope = Scope((task.id,), (model_id,), (condition.id,), (regime,))
    plan = Plan(suite, {task.id: task}, (cell,), (), scope)
    work = Work(plan, None, registered_perturbation, settings.use_cache, None)
    return ExtractionSetup(cell, work, settings.seed, items, state.load_rules(settings.rules), fingerprint)


def _checked_name(name: str, choices: Any, what: str) -> str:
    if name not in choices:
        raise ConfigError(f"unknown {what} '{name}'", hint=did_you_mean(name, choices))
    return name


def _write_summary(outcome: ImproveOutcome, settings: ImproveSettings) -> None:
    """``summary.json`` and, once a prompt was scored, ``best_prompt.txt``."""
    result, best = outcome.result, outcome.result.best
    figures = ("prompt_version", "prompt_hash", "rules_hash", "config_hash", "train_f1", "held_out_f1")
    document = {
        "task": settings.task,
        "model": settings.model if settings.extractor is None else None,
        "condition": settings.condition if settings.extractor is None else None,
        "extractor": settings.extractor,
        "started_from": outcome.started_from,
        "stopped": result.stopped,
        "held_out": list(outcome.held_out),
        "best_iteration": best.iteration,
        **{key: getattr(best, key) for key in figures},
        "gap": result.gap,
        "iterations": [{**asdict(step), "gap": step.train_f1 - step.held_out_f1} for step in result.steps],
    }
    text = state.stored_prompts(outcome.folder)[best.prompt_version]
    replace_atomically(outcome.folder / BEST_PROMPT, text.encode("utf-8", "backslashreplace"))
    replace_atomically(outcome.folder / SUMMARY, to_json(document))
