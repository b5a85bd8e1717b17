"""``pcsuite optimize``: compile a prompt for C8 under the information objective."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from pcsuite._util.text import figure_text, limits_text, signed
from pcsuite.commands import options
from pcsuite.commands.options import Group, flag, switch
from pcsuite.errors import ConfigError
from pcsuite.optimization import METHODS
from pcsuite.optimization import run as search
from pcsuite.optimization.development import DevProblem
from pcsuite.optimization.problem import CandidateScore


def configure_optimize(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite optimize``.

    methods:
      blocks     searches the suite's own operators, their wordings and order; says which earn their tokens
      ape        a model proposes instructions from solved examples; the best are varied
      mipro, gepa, copro, bootstrap
                 DSPy's optimisers (the extra dspy)

    examples:
      pcsuite optimize --config quickstart --method blocks --candidates 20 --limit 12
      pcsuite optimize --config configs/profile_A.yaml --task gsm8k --model qwen3-8b --method ape
      pcsuite optimize --config configs/profile_A.yaml --dry-run        # every selected pair: what it would take

    Maximises J = task score - unsupported rate - entropy - token cost (weights: optimization.dspy.objective) on the
    task's development split; test items are never read into a prompt. The winner goes to <output_dir>/compiled/,
    where condition C8 finds it: pcsuite run --conditions C0,C4,C8. The same command goes on where a killed search
    ended.
    """
    every = "(default: every selected one, if the profile enables it)"
    flags = [
        options.CONFIG,
        options.TASKS.but(f"tasks {every}", options.KEYS["tasks"]),
        options.MODELS.but(f"models {every}", options.KEYS["models"]),
        flag("--method", f"{', '.join(METHODS)} (default: the profile's)", metavar="NAME"),
        flag("--candidates", "prompts to try (default: the profile's, 40)", type=int, metavar="N"),
        options.LIMIT.but("at most N development items", options.KEYS["limit"]),
        flag("--seed", "seed of the search (default: repro.global_seed)", type=int, metavar="N"),
        switch("--dry-run", "only say what it would take"),
        options.EXECUTOR,
    ]
    options.add_flags(parser, Group("", flags), options.PROFILE, options.CALLS)


def execute_optimize(args: argparse.Namespace) -> int:
    """Compile a prompt for each chosen pair of task and model, after saying what the searches will take.

    Every pair is checked before the first call is made. Raises ``ConfigError`` where the profile leaves open which
    pairs are meant.
    """
    for name in ("candidates", "limit"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: give a number of 1 or more")
    suite = options.suite_from(args)
    section = suite.profile.optimization.dspy
    shared: dict[str, Any] = {
        "method": args.method or section.method,
        "candidates": args.candidates or section.iterations,
        "items": args.limit,
        "seed": args.seed,
        "use_cache": args.use_cache,
        "executor": options.executor_from(args),
    }
    tasks, models = suite.profile.selection.tasks, suite.profile.selection.models
    both_named = args.tasks is not None and args.models is not None
    count = len(tasks) * len(models)
    if not (section.enabled or both_named or args.dry_run or count == 1):
        raise ConfigError(
            f"{len(tasks)} tasks and {len(models)} models make {count} searches, and optimization.dspy.enabled is"
            " false",
            hint="name one pair with --task and --model, or set optimization.dspy.enabled",
        )
    chosen = [search.OptimizeSettings(task, model, **shared) for task in tasks for model in models]
    for settings in chosen:
        search.check_settings(suite, settings)
    for settings in chosen:
        estimate = search.estimate_optimization(suite, settings)
        price = f", ${estimate.cost_usd:,.2f}" if estimate.cost_usd else ""
        if estimate.cost_usd is None:
            price = ", at a price that is not known"
        print(
            f"{settings.task_id} × {settings.model_id}, {settings.method}: {settings.candidates} candidates ×"
            f" {estimate.dev_items} development items × {estimate.replicates} replicates: at most"
            f" {estimate.calls:,} calls, {estimate.tokens:,} tokens{price}",
            flush=True,
        )
    if args.dry_run:
        return 0
    for settings in chosen:
        shown = _Progress(settings, quiet=args.quiet)
        outcome = search.optimize(suite, settings, on_score=shown.tell, quiet=args.quiet)
        _print_outcome(args, outcome)
    return 0


class _Progress:
    """A line for each candidate, with the best so far and the time left at this pace."""

    def __init__(self, settings: search.OptimizeSettings, *, quiet: bool) -> None:
        self._settings = settings
        self._quiet = quiet
        self._started = time.monotonic()
        self._baseline_printed = False

    def tell(self, problem: DevProblem, score: CandidateScore, seconds: float) -> None:
        if self._quiet or (len(score.item_parts) == 1 and len(problem.dev) > 1):
            return
        if not self._baseline_printed:
            self._baseline_printed = True
            print(f"  baseline (C0): J {problem.baseline.value:.3f}", file=sys.stderr, flush=True)
        best = max((one for one in problem.scores.values() if one.complete), key=lambda one: one.rank)
        done = max(1, problem.tried)
        left = max(0, self._settings.candidates - done) * (time.monotonic() - self._started) / done
        crash = f" crashed: {score.errors[0]}" if score.crashed else ""
        print(
            f"  {problem.tried}/{self._settings.candidates} {score.candidate.id} J {score.value:.3f} on"
            f" {len(score.item_parts)} items ({score.candidate.origin}){crash}; best {best.value:.3f};"
            f" about {left / 60:.0f} min left",
            file=sys.stderr,
            flush=True,
        )


def _print_outcome(args: argparse.Namespace, outcome: search.OptimizeOutcome) -> None:
    document = outcome.document
    dev = document["dev"]
    limits = limits_text(dev["J_low"], dev["J_high"], 3)
    print(
        f"{document['task']} × {document['model']}: J {figure_text(dev['J'], 3)}{limits} on"
        f" {dev['items']} development items, {figure_text(dev['J_corrected'], 3)} less the optimism of the choice; bare"
        f" instruction {figure_text(dev['baseline']['J'], 3)}; {document['candidates']} candidates,"
        f" {outcome.spent_tokens:,} tokens"
        + (f", ${outcome.spent_cost_usd:.4f}" if outcome.spent_cost_usd else "")
    )
    judged = "is made of" if document["makeup_by"] == "operators" else "does by its cues the work of"
    print(f"  the prompt {judged} {', '.join(document['makeup']) or 'no operator'}")
    for entry in document["ledger"]:
        limits = limits_text(entry["effect_J_low"], entry["effect_J_high"], 3)
        print(
            f"    {entry['operator']}: J {signed(entry['effect_J'], 3)}{limits},"
            f" earns its tokens: {entry['earns_its_tokens']}"
        )
    if document["condition_yaml"]:
        print("  as a condition:")
        print("\n".join(f"    {line}" for line in document["condition_yaml"].rstrip().splitlines()))
    if outcome.replaced is not None:
        print(f"  the prompt that was there before is now {outcome.replaced}")
    print(f"frozen: {outcome.path}")
    print(f"candidates: {outcome.log.with_suffix('.candidates.jsonl')}")
    pair = ("--tasks", document["task"], "--models", document["model"])
    print(options.next_line(args, "run", *pair, "--conditions", "C0,C8"))
