"""The improvement loop on the suite's engine: a model extracts under a condition, instructed by the prompt version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pcsuite.config.load import Suite, digest
from pcsuite.data.items import Item
from pcsuite.engines.adapters.base import Decoding, ModelAdapter
from pcsuite.engines.build import check_model
from pcsuite.engines.response_cache import FILE_NAME, ResponseCache
from pcsuite.engines.retry import RetryPolicy
from pcsuite.errors import ConfigError, ConstraintUnavailableError, PromptError, did_you_mean
from pcsuite.prompts.conditions.conditions import apply_condition
from pcsuite.prompts.conditions.designs import ConditionBundle, expand_conditions
from pcsuite.prompts.context import TaskPrompting
from pcsuite.runners.client import ModelClient, clients_of
from pcsuite.runners.components import build_model
from pcsuite.runners.constraint_proofs import constraint_of
from pcsuite.runners.extraction import ExtractionSetup, ModelProposer, RecordExtractor
from pcsuite.runners.loop_thread import LoopThread
from pcsuite.runners.plan import TaskPlan, plan_task, why_not_applicable
from pcsuite.verifier.evals import DOCUMENT, TRUTH, Eval, find_evals
from pcsuite.verifier.evaluator import BuildingSpecOptions
from pcsuite.verifier.improve import ImproveConfig, ImprovementLoop, ImproveResult, Propose, choose_held_out
from pcsuite.verifier.improve_state import stored_prompts
from pcsuite.verifier.locking import replace_atomically
from pcsuite.verifier.mapping import FieldMapping, load_mapping
from pcsuite.verifier.prompt_rules import RuleProposer, load_rules
from pcsuite.verifier.rows import decode_text, read_bytes
from pcsuite.verifier.store import to_json
from pcsuite.verifier.tree import compared_record
from pcsuite.verifier.truth import read_truth

SUMMARY = "summary.json"
BEST_PROMPT = "best_prompt.txt"

Method = Literal["rules", "model"]


@dataclass(frozen=True, slots=True)
class ImproveSettings:
    """What a loop is run with."""

    evals_dir: Path
    model_id: str
    condition_id: str = "C4"
    task_id: str = "buildingspec_json"
    regime: str = "d0_greedy"
    seed: int = 0
    folder: Path | None = None
    """Folder of the loop's state; ``EVALS_DIR/improve`` by default."""
    held_out: tuple[str, ...] = ()
    """Evals that only decide; a third of all by default."""
    iterations: int = 10
    patience: int = 3
    margin: float = 0.02
    min_gain: float = 0.0
    method: Method = "rules"
    propose_only: bool = False
    instruction: str | None = None
    """Where to start; the task's own instruction by default."""
    mapping: Path | None = None
    rules: Path | None = None
    use_cache: bool = True

    @property
    def state_folder(self) -> Path:
        """Where the loop keeps its state."""
        return self.folder or self.evals_dir / "improve"


@dataclass(frozen=True, slots=True)
class ImproveOutcome:
    """What a loop came to."""

    result: ImproveResult
    folder: Path
    held_out: tuple[str, ...]
    spent_tokens: int
    spent_cost_usd: float


def run_improvement(
    suite: Suite, settings: ImproveSettings, policy: RetryPolicy | None = None
) -> ImproveOutcome:
    """Run a loop, or go on with it; everything is on disk before the next step begins."""
    evals = find_evals(settings.evals_dir)
    task = plan_task(suite, _known(settings.task_id, suite.tasks, "task"))
    mapping = load_mapping(settings.mapping or _mapping_of(task))
    items = _items(evals, mapping)
    held_out = settings.held_out or choose_held_out(
        [one.eval_id for one in evals], suite.profile.repro.deterministic_hash_seed
    )
    setup = _setup(suite, settings, task, items)
    config = ImproveConfig(
        held_out=held_out,
        max_iterations=settings.iterations,
        patience=settings.patience,
        margin=settings.margin,
        min_gain=settings.min_gain,
        engine=setup.fingerprint,
    )
    folder = settings.state_folder
    adapter = build_model(suite, settings.model_id)
    with LoopThread() as thread, _client(suite, settings, adapter, thread, policy or RetryPolicy()) as client:
        thread.call(_prove_constraint(client, setup))
        extractor = RecordExtractor(setup, client, thread)
        propose: Propose = RuleProposer(setup.catalogue, lambda: stored_prompts(folder))
        if settings.method == "model":
            propose = ModelProposer(setup, client, thread, propose, lambda: stored_prompts(folder))
        loop = ImprovementLoop(evals, folder, mapping, config, extractor, propose, client.concurrency)
        first = settings.instruction or task.spec.instruction
        result = loop.run(first, propose_only=settings.propose_only)
        budget = client.budget
    outcome = ImproveOutcome(result, folder, held_out, budget.spent_tokens, budget.spent_cost_usd)
    _write_summary(outcome, settings)
    return outcome


def _setup(
    suite: Suite, settings: ImproveSettings, task: TaskPlan, items: dict[str, Item]
) -> ExtractionSetup:
    """Everything that decides what a model is asked, except the instruction."""
    model_id = _known(settings.model_id, suite.models, "model")
    regime = suite.regimes[_known(settings.regime, suite.regimes, "regime")]
    condition = _condition(suite, settings.condition_id)
    shown = {document.strip() for document in items}
    prompting = TaskPrompting(
        task.id,
        task.spec,
        task.prompting.schema,
        task.prompting.grammar,
        # An exemplar must not be one of the evals: it would show the answer.
        tuple(entry for entry in task.prompting.exemplars if entry.input_text.strip() not in shown),
    )
    adapter, options = check_model(model_id, suite.models[model_id])
    planned = replace(task, prompting=prompting)
    reason = why_not_applicable(suite, planned, adapter, options, condition)
    if reason is not None:
        raise PromptError(f"condition {condition.id} does not apply to '{task.id}' on '{model_id}': {reason}")
    decoding = Decoding(settings.regime, regime.temperature, regime.top_p, task.spec.max_tokens)
    catalogue = load_rules(settings.rules)
    control = suite.profile.length_control
    bundle = condition.bundle(prompting.context(""))
    assert bundle is not None, "an applicable condition has a bundle"
    fingerprint = digest(
        {
            "task": task.spec.model_dump(mode="json", exclude={"instruction", "evaluator_options"}),
            "schema": prompting.schema,
            "exemplars": [[entry.input_text, entry.output_text] for entry in prompting.exemplars],
            "model": [model_id, suite.models[model_id]],
            "condition": [condition.id, [[operator.name, operator.spec] for operator in bundle]],
            "decoding": [decoding.as_dict(), settings.seed],
            "length": [control, task.band],
        }
    )
    return ExtractionSetup(
        task, prompting, condition, decoding, settings.seed, control, items, catalogue, fingerprint
    )


def _condition(suite: Suite, condition_id: str) -> ConditionBundle:
    name = _known(condition_id.partition(":")[0], suite.conditions, "condition")
    members = {member.id: member for member in expand_conditions([name], suite.conditions, suite.operators)}
    return members[_known(condition_id, members, "condition")]


def _known(name: str, choices: Any, what: str) -> str:
    if name not in choices:
        raise ConfigError(f"unknown {what} '{name}'", hint=did_you_mean(name, choices))
    return name


def _mapping_of(task: TaskPlan) -> Path | None:
    options = task.evaluator.options
    if not isinstance(options, BuildingSpecOptions):
        raise ConfigError(
            f"task '{task.id}' is scored by '{task.spec.evaluator}', not field by field",
            hint="choose a task whose evaluator is 'buildingspec'",
        )
    return Path(options.mapping) if options.mapping else None


def _items(evals: list[Eval], mapping: FieldMapping) -> dict[str, Item]:
    """The evals as items, by their document."""
    items: dict[str, Item] = {}
    for one in evals:
        path = one.folder / DOCUMENT
        document = decode_text(read_bytes(path), str(path))
        record = compared_record(read_truth(one.folder / TRUTH, mapping).record, mapping)
        items.setdefault(document, Item(one.eval_id, document, {"record": record}))
    return items


@contextmanager
def _client(
    suite: Suite, settings: ImproveSettings, adapter: ModelAdapter, thread: LoopThread, policy: RetryPolicy
) -> Iterator[ModelClient]:
    """The model behind the limits, the budget and the response cache of the profile."""
    cache_file = Path(suite.profile.run.cache_dir) / FILE_NAME
    cache = ResponseCache(cache_file) if settings.use_cache else None
    try:
        clients = clients_of(suite, {settings.model_id: adapter}, cache=cache, policy=policy)
        yield clients[settings.model_id]
    finally:
        if cache is not None:
            cache.close()
        thread.call(adapter.aclose())


async def _prove_constraint(client: ModelClient, setup: ExtractionSetup) -> None:
    wanted = constraint_of(apply_condition(setup.condition, setup.prompting.context("")))
    if wanted is None:
        return
    reason = await client.why_unenforced(wanted)
    if reason is not None:
        raise ConstraintUnavailableError(
            f"condition {setup.condition.id} cannot be enforced on model '{client.model_id}': {reason}"
        )


def _write_summary(outcome: ImproveOutcome, settings: ImproveSettings) -> None:
    """``summary.json`` and, once a prompt was scored, ``best_prompt.txt``."""
    result, best = outcome.result, outcome.result.best
    document = {
        "task": settings.task_id,
        "model": settings.model_id,
        "condition": settings.condition_id,
        "stopped": result.stopped,
        "held_out": list(outcome.held_out),
        "best_iteration": best.iteration,
        "prompt_version": best.prompt_version,
        "prompt_hash": best.prompt_hash,
        "rules_hash": best.rules_hash,
        "config_hash": best.config_hash,
        "train_f1": best.train_f1,
        "held_out_f1": best.held_out_f1,
        "gap": result.gap,
        "iterations": [{**asdict(step), "gap": step.train_f1 - step.held_out_f1} for step in result.steps],
    }
    text = stored_prompts(outcome.folder)[best.prompt_version]
    replace_atomically(outcome.folder / BEST_PROMPT, text.encode("utf-8", "backslashreplace"))
    replace_atomically(outcome.folder / SUMMARY, to_json(document))
