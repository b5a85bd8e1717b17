"""The perturbation block of a profile: planned, attacked where asked for, and run into the profile's log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pcsuite.config.load import Suite
from pcsuite.errors import ConfigError, did_you_mean
from pcsuite.integrations.promptbench import ATTACKS, PREFIX
from pcsuite.perturbations import PERTURBATIONS
from pcsuite.runners.attack_search import attacked_perturber, find_attacks, with_attacks
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.model_paraphrase import find_paraphrases
from pcsuite.runners.perturbed import perturbation_refs
from pcsuite.runners.plan import Plan, Scope, build_plan
from pcsuite.runners.run_suite import LOCAL, RunSummary, run_plan

BLOCK = "promptbench"


def run_promptbench(
    suite: Suite,
    *,
    regimes: Sequence[str] = (),
    report: Callable[[str], None],
    quiet: bool,
    use_cache: bool,
    executor: ExecutorChoice = LOCAL,
) -> RunSummary:
    """Run the block, or go on with it; clean rows that the log has already are not repeated.

    Searches for attacks and paraphrases are made in this process; ``executor`` runs the grid they add to.
    """
    plan, attacks = plan_promptbench(suite, regimes)
    records = find_attacks(plan, attacks, report, use_cache=use_cache)
    records += find_paraphrases(plan, report, use_cache=use_cache)
    return run_plan(
        with_attacks(plan, records),
        quiet=quiet,
        use_cache=use_cache,
        perturber=attacked_perturber(records),
        executor=executor,
    )


def plan_promptbench(suite: Suite, regimes: Sequence[str] = ()) -> tuple[Plan, list[str]]:
    """The block's plan with its own kinds, and the attacks of PromptBench it asks for."""
    settings = suite.profile.integrations.promptbench
    kinds, attacks = _sorted_out(suite)
    _check(suite, settings.tasks, suite.tasks, "task", "tasks")
    _check(suite, settings.conditions_subset, suite.conditions, "condition", "conditions_subset")
    _check(suite, regimes, suite.regimes, "regime", "--regimes")
    writer = settings.paraphrase_model
    _check(suite, [writer] if writer else [], suite.models, "model", "paraphrase_model")
    scope = Scope(
        settings.tasks,
        suite.profile.selection.models,
        settings.conditions_subset,
        tuple(regimes) or _steady_regimes(suite),
        settings.max_items,
        BLOCK,
    )
    plan = build_plan(suite, perturbation_refs(kinds, settings.variants), scope)
    unused = [task for task in plan.tasks.values() if not any(cell.task is task for cell in plan.cells)]
    return replace(
        plan, tasks={name: task for name, task in plan.tasks.items() if task not in unused}
    ), attacks


def _sorted_out(suite: Suite) -> tuple[list[str], list[str]]:
    """Kinds of our own and attacks of PromptBench among the profile's ``attack_types``."""
    kinds: list[str] = []
    attacks: list[str] = []
    known = [*PERTURBATIONS, *(f"{PREFIX}{attack}" for attack in ATTACKS)]
    asked = suite.profile.integrations.promptbench.attack_types
    _check(suite, asked, known, "kind of perturbation", "attack_types")
    for name in asked:
        (attacks if name.startswith(PREFIX) else kinds).append(name.removeprefix(PREFIX))
    return kinds, attacks


def _steady_regimes(suite: Suite) -> tuple[str, ...]:
    """The greedy regimes of the selection, which tell a perturbation from chance; all where none is greedy."""
    chosen = suite.profile.selection.decoding_regimes
    greedy = tuple(name for name in chosen if suite.regimes[name].temperature == 0)
    return greedy or chosen


def _check(suite: Suite, names: Iterable[str], known: Iterable[str], what: str, key: str) -> None:
    choices = list(known)
    for name in names:
        if name not in choices:
            where = key if key.startswith("--") else f"{suite.path}: integrations.promptbench.{key}"
            raise ConfigError(f"{where}: unknown {what} '{name}'", hint=did_you_mean(name, choices))
