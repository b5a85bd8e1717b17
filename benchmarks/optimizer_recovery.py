"""Does a method find the best prompt where it is known? Simulated model, true J of every operator set computed.

Each method gets 40 candidates on each of ten seeds; a seed counts where the true J of the frozen prompt is within 5 %
of the optimum: all operators for ``blocks``; the simulated proposer's sentences for methods that write free text, with
a demonstration where a method shows some. ``bootstrap`` shows them and writes nothing, so it cannot get there.
Run: python benchmarks/optimizer_recovery.py [--methods blocks,ape,mipro,gepa,copro,bootstrap] [--seeds 10] [--items 80]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import yaml
from simulated_truth import SimulatedTask, best_sets, true_parts  # beside this script

from pcsuite.config.load import Suite, load_suite
from pcsuite.engines.adapters.simulated import (
    OPENING,
    SimulatedAdapter,
    SimulatedOptions,
    bundled_sentences,
)
from pcsuite.optimization import METHODS
from pcsuite.optimization.blocks import Gene, Genome, options_of, prompt_of
from pcsuite.optimization.development import plan_dev_task
from pcsuite.optimization.problem import instruction_template
from pcsuite.optimization.run import OptimizeSettings, optimize
from pcsuite.optimization.winner import best_score, makeup_of
from pcsuite.prompts.compiled import CompiledPrompt
from pcsuite.prompts.conditions.conditions import ConditionBundle, apply_condition
from pcsuite.prompts.context import Exemplar
from pcsuite.prompts.prompt import BANDS
from pcsuite.stats.objective import Objective

LABELS = ("World", "Sports", "Business", "Sci/Tech")
TASK = "agnews_json"
MODEL = {
    "provider": "simulated",
    "family": "simulated",
    "size": "7B",
    "params_b": 7,
    "base_accuracy": 0.35,
    "item_difficulty_sd": 1.0,
    "json_validity": 0.95,
    "operator_effects": {
        "ROLE": -0.4, "GOAL": 0.1, "CONSTRAINTS": 0.6, "ABSTAIN": -0.6, "SCHEMA": 1.0, "DECOMPOSE": 0.7,
        "REASONING_MODE": -0.3, "VERIFIER": 0.8, "EXEMPLARS": 0.2,
    },
}  # fmt: skip


FRESH = MODEL | {
    "base_accuracy": 0.5,
    "operator_effects": {
        "ROLE": 0.5, "GOAL": -0.3, "CONSTRAINTS": -0.5, "ABSTAIN": 0.4, "SCHEMA": 0.6, "DECOMPOSE": -0.2,
        "REASONING_MODE": 0.8, "VERIFIER": -0.6, "EXEMPLARS": 0.5,
    },
}  # fmt: skip
"""Another model: the settings of ``ape`` were chosen on the first one, so its figures there flatter it."""


def make_suite(
    folder: Path, items: int, seeds: int = 3, luck: int = 0, model: dict[str, object] = MODEL
) -> Suite:
    """A profile with the simulated model and development items; another ``luck`` makes other items of them."""
    datasets = folder / "cache" / "datasets"
    datasets.mkdir(parents=True)
    with (datasets / "ag_news_dev.jsonl").open("w", encoding="utf-8") as stream:
        for number in range(items):
            text = f"Report number {number}: the council met and decided matter {number} of the day."
            truth = {"label": LABELS[number % 4]}
            row = {"item_id": f"dev-{luck}-{number}", "input_text": text, "truth": truth}
            stream.write(json.dumps(row) + "\n")
    (folder / "models.yaml").write_text(
        yaml.safe_dump({"version": "1.0", "models": {"sim": model}}), encoding="utf-8"
    )
    profile = {
        "version": "1.0",
        "run": {
            "name": "recovery",
            "output_dir": str(folder / "outputs"),
            "cache_dir": str(folder / "cache"),
        },
        "repro": {"seeds": {"D1": list(range(1, seeds + 1))}, "seeds_per_task": {"default": seeds}},
        "suite": {"models_ref": "models.yaml"},
        "selection": {
            "tasks": [TASK],
            "models": ["sim"],
            "conditions": ["C0"],
            "decoding_regimes": ["D1"],
        },
        "optimization": {"dspy": {"dev_items": {TASK: items}}},
    }
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(profile), encoding="utf-8")
    return load_suite(path)


class Truth:
    """True J of prompts of the suite's task on its model."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._options = SimulatedOptions.model_validate(suite.models["sim"].provider_options())
        self._adapter = SimulatedAdapter("sim", self._options)
        self._dev = plan_dev_task(suite, TASK, None)
        spec = suite.tasks[TASK]
        self._task = SimulatedTask(TASK, 3, len(self._dev.seeds), BANDS[spec.kind][1] + spec.max_tokens)
        self._objective = Objective(*suite.profile.optimization.dspy.objective.weights)

    def of(self, prompt: CompiledPrompt) -> float:
        """True J of a prompt."""
        operators = makeup_of(prompt)[0]
        return self._objective.value(true_parts(self._options, self._task, operators, self._tokens(prompt)))

    def optimum_of_blocks(self) -> tuple[float, tuple[str, ...]]:
        """The best set of operators, each in its shortest wording and option."""
        names = self._suite.profile.optimization.dspy.operators
        problem = _Setting(self._dev.train, self._suite.operators, self._dev.plan.prompting, TASK)
        bare = self._tokens(CompiledPrompt())
        tokens = {}
        for name in names:
            spec = self._suite.operators[name]
            options = (None, *options_of(spec, len(self._dev.train)))
            genes = [Gene(name, wording, option) for wording in range(4) for option in options]
            tokens[name] = min(self._tokens(prompt_of(Genome((gene,)), problem)) for gene in genes) - bare
        return best_sets(self._options, self._task, self._objective, tokens, bare)[0]

    def optimum_of_sentences(self, *, demos: bool = False) -> tuple[float, tuple[str, ...]]:
        """The best set of the simulated proposer's sentences, with the shortest demonstration where that is allowed."""
        ctx = self._dev.plan.prompting.context("")
        shortest = min(self._dev.train, key=lambda demo: len(demo.input_text + demo.output_text))

        def length(names: tuple[str, ...], shown: tuple[Exemplar, ...] = ()) -> float:
            words = "\n".join([OPENING, *(bundled_sentences()[name] for name in names)])
            return self._tokens(CompiledPrompt(template=instruction_template(words, ctx, shown)))

        bare = length(())
        tokens = {name: length((name,)) - bare for name in bundled_sentences()}
        if demos:
            tokens["EXEMPLARS"] = length((), (shortest,)) - bare
        return best_sets(self._options, self._task, self._objective, tokens, bare)[0]

    def optimum(self, method: str) -> tuple[float, tuple[str, ...]]:
        """The best of what a method can write."""
        if method == "blocks":
            return self.optimum_of_blocks()
        return self.optimum_of_sentences(demos=method in ("mipro", "bootstrap"))

    def _tokens(self, prompt: CompiledPrompt) -> float:
        condition = ConditionBundle("C8", "", ()).with_prompt(prompt)
        items = self._dev.plan.items[:20]
        contexts = [self._dev.plan.prompting.context(item.input_text) for item in items]
        return sum(
            self._adapter.count_tokens(apply_condition(condition, ctx).prompt) for ctx in contexts
        ) / len(items)


class _Setting(NamedTuple):
    """The part of a problem that a genome's prompt needs."""

    train: object
    operators: object
    prompting: object
    task_id: str


def main() -> None:
    """Print a line for each search and a table at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="blocks,ape,mipro,gepa,copro,bootstrap")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--items", type=int, default=80)
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--drawn", action="store_true", help="answers drawn in memory, anew for each seed")
    parser.add_argument("--fresh", action="store_true", help="the model that no method was tuned on")
    args = parser.parse_args()
    lines = []
    for method in args.methods.split(","):
        shares = [
            share_of_optimum(method, seed, args)
            for seed in range(args.first_seed, args.first_seed + args.seeds)
        ]
        good = sum(share >= 0.95 for share in shares)
        lines.append(
            f"| {method} | {good} of {args.seeds} | {min(shares):.1%} | {sum(shares) / len(shares):.1%} |"
        )
    print("\n| method | within 5 % | worst | mean |\n|---|---|---|---|")
    print("\n".join(lines))


def share_of_optimum(method: str, seed: int, args: argparse.Namespace) -> float:
    """One search: the true J of what it found, as a share of the best."""
    with tempfile.TemporaryDirectory() as folder:
        suite = make_suite(Path(folder), args.items, luck=seed, model=FRESH if args.fresh else MODEL)
        truth = Truth(suite)
        best, chosen = truth.optimum(method)
        if args.drawn:
            from drawn_problem import DrawnProblem  # beside this script

            problem = DrawnProblem(suite, plan_dev_task(suite, TASK, None), "sim", seed)
            METHODS.get(method).search(problem, seed=seed, candidates=args.candidates)
            winner, tried = best_score(problem.scores.values()), problem.tried
        else:
            settings = OptimizeSettings(TASK, "sim", method, args.candidates, seed=seed)
            outcome = optimize(suite, settings)
            winner, tried = outcome.winner.score, outcome.document["candidates"]
        found = truth.of(winner.candidate.prompt)
    print(
        f"{method} seed {seed}: true J {found:.3f} of {best:.3f} ({found / best:.1%}); dev J {winner.value:.3f};"
        f" {tried} tried; {'+'.join(makeup_of(winner.candidate.prompt)[0])} (best {'+'.join(chosen)})",
        flush=True,
    )
    return found / best


if __name__ == "__main__":
    main()
