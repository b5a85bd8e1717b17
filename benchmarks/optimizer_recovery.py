"""How often each method of ``pcsuite optimize`` finds a prompt as good as the best, where the best is known.

A simulated model answers news items with true operator effects that are set below. Its proposer writes a sentence for
each of eight operators without knowing what they are worth, so the true J of every prompt can be computed, and so can
the best. A search succeeds when the true J of the prompt it froze is at least 95 % of the best.

Run: OMP_NUM_THREADS=1 python benchmarks/optimizer_recovery.py [--methods ape,blocks] [--seeds 10] [--candidates 40]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np

from pcsuite.analysis.entropy import normalised_entropy
from pcsuite.analysis.objective import Objective, Parts
from pcsuite.config.load import bundled_configs, load_suite
from pcsuite.engines.adapters._simulated_proposer import OPENING, SENTENCES
from pcsuite.engines.adapters.simulated import logit
from pcsuite.optimization import METHODS
from pcsuite.optimization.candidate import Candidate
from pcsuite.optimization.selection import best_score
from pcsuite.prompts.makeup import operator_makeup
from pcsuite.runners.dev_problem import plan_dev_task
from pcsuite.runners.optimize import OptimizeSettings, open_problem

BASE = 0.45
EFFECTS = {
    "ROLE": 0.0, "GOAL": 0.1, "CONSTRAINTS": 0.5, "ABSTAIN": -0.6, "SCHEMA": 0.9,
    "DECOMPOSE": 0.3, "REASONING_MODE": -0.4, "VERIFIER": 0.6, "EXEMPLARS": 0.1,
}  # fmt: skip
LABELS = ("World", "Sports", "Business", "Sci/Tech")
COMPLETION = 40
WITHIN = 0.95
TRUTH_ITEMS = 20_000


def write_profile(folder: Path, items: int, replicates: int) -> Path:
    """A profile with a simulated model and items of equal length."""
    datasets = folder / "cache" / "datasets"
    datasets.mkdir(parents=True)
    for split, size in (("dev", items), ("train", 24), ("test", 8)):
        rows = [
            {
                "item_id": f"{split}-{number}",
                "input_text": f"A note of the {split} part, number {number:04d}, about one of four desks.",
                "truth": {"label": LABELS[number % 4]},
            }
            for number in range(size)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (datasets / f"ag_news_{split}.jsonl").write_text(text, encoding="utf-8")
    model = {
        "provider": "simulated", "family": "simulated", "size": "7B", "params_b": 7, "base_accuracy": BASE,
        "operator_effects": EFFECTS, "item_difficulty_sd": 1.0, "json_validity": 0.999999,
        "mean_completion_tokens": COMPLETION,
    }  # fmt: skip
    models = folder / "models.yaml"
    models.write_text(json.dumps({"version": "1.0", "models": {"known": model}}), encoding="utf-8")
    references = {f"{name}_ref": str(bundled_configs() / f"{name}_v1.yaml") for name in
                  ("tasks", "operators", "conditions", "decoding", "metrics")}  # fmt: skip
    profile = {
        "version": "1.0",
        "run": {"name": "recovery", "output_dir": str(folder / "out"), "cache_dir": str(folder / "cache")},
        "repro": {"seeds": {"d0_greedy": [0], "d1_sampled": list(range(1, replicates + 1))},
                  "seeds_per_task": {"default": replicates}},
        "suite": {**references, "models_ref": str(models)},
        "selection": {"tasks": ["agnews_json"], "models": ["known"], "conditions": ["C0"],
                      "decoding_regimes": ["d1_sampled"]},
        "length_control": "off",
    }  # fmt: skip
    path = folder / "profile.yaml"
    path.write_text(json.dumps(profile), encoding="utf-8")
    return path


class Truth:
    """The true J of prompts, over all items and seeds, by simulation of many items."""

    def __init__(self, problem, replicates: int) -> None:
        self._problem = problem
        self._replicates = replicates
        rng = np.random.default_rng(0)
        self._difficulty = rng.normal(size=TRUTH_ITEMS)
        self._luck = rng.random((TRUTH_ITEMS, replicates))
        self._miss = rng.integers(1, len(LABELS), (TRUTH_ITEMS, replicates))
        self._at = cache(self._parts_at)

    def of(self, candidate: Candidate) -> float:
        """The true J of a candidate."""
        prompt = candidate.prompt
        names = (
            operator_makeup(prompt.template) if prompt.is_text else [block.name for block in prompt.blocks]
        )
        return self.value(frozenset(names), self._tokens(candidate))

    def value(self, operators: frozenset[str], prompt_tokens: float) -> float:
        """The true J of a prompt with these operators and this length."""
        effect = round(sum(EFFECTS.get(name, 0.0) for name in operators), 9)
        task, entropy = self._at(effect)
        cost = (prompt_tokens + COMPLETION) / self._problem.token_budget
        return Objective().value(Parts(task, None, entropy, cost))

    def best(self) -> tuple[float, frozenset[str]]:
        """The best J there is, with the proposer's sentences and, where it pays, one training example."""
        ctx = self._problem.prompting.context("")
        shortest = min(self._problem.train, key=lambda demo: len(demo.output_text))
        found = []
        for size in range(len(SENTENCES) + 1):
            for names in combinations(SENTENCES, size):
                text = "\n".join([OPENING, *(SENTENCES[name] for name in names)])
                for demos in ((), (shortest,)):
                    candidate = Candidate.of_instruction(text, ctx, method="truth", demos=demos)
                    operators = frozenset((*names, "EXEMPLARS") if demos else names)
                    found.append((self.value(operators, self._tokens(candidate)), operators))
        return max(found, key=lambda entry: entry[0])

    def _tokens(self, candidate: Candidate) -> float:
        return len(self._problem.render(candidate, self._problem.dev[0]).encode()) / 4

    def _parts_at(self, effect: float) -> tuple[float, float]:
        chance = 1 / (1 + np.exp(-(logit(BASE) + effect + self._difficulty)))
        answers = np.where(self._luck < chance[:, None], 0, self._miss)
        counts = np.stack([(answers == label).sum(axis=1) for label in range(len(LABELS))], axis=1)
        entropy = normalised_entropy(counts, categories=len(LABELS) + 1)
        return float(chance.mean()), float(entropy.mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", default="ape,blocks,mipro,gepa,copro,bootstrap")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--replicates", type=int, default=3)
    args = parser.parse_args()
    print(f"{args.candidates} candidates, {args.items} items, {args.replicates} replicates", flush=True)
    for method in args.methods.split(","):
        ratios, tried, best, started = [], [], None, time.process_time()
        for seed in range(args.seeds):
            ratio, count, best = search(method, seed, args, best)
            ratios.append(ratio)
            tried.append(count)
        hits = sum(ratio >= WITHIN for ratio in ratios)
        print(
            f"{method:10s} {hits:2d} of {args.seeds}  median {np.median(ratios):.3f}  worst {min(ratios):.3f}  tried"
            f" {np.mean(tried):.0f}  {(time.process_time() - started) / args.seeds:.1f} s CPU each",
            flush=True,
        )


Best = tuple[float, frozenset[str]]


def search(method: str, seed: int, args: argparse.Namespace, best: Best | None) -> tuple[float, int, Best]:
    """One search: the share of the best J that its winner truly has, how many were tried, and the best."""
    with tempfile.TemporaryDirectory() as folder:
        suite = load_suite(write_profile(Path(folder), args.items, args.replicates))
        settings = OptimizeSettings("agnews_json", "known", method, use_cache=False)
        dev = plan_dev_task(suite, "agnews_json", args.items)
        with open_problem(suite, settings, dev, seed=seed) as problem:
            METHODS.get(method).search(problem, seed=seed, candidates=args.candidates)
            truth = Truth(problem, args.replicates)
            winner = best_score(problem.scores.values())
            best = best or truth.best()
            reached = truth.of(winner.candidate)
    print(
        f"  {method} seed {seed}: true J {reached:.3f} of {best[0]:.3f} ({', '.join(sorted(best[1]))}),"
        f" dev J {winner.value:.3f}, {problem.tried} tried, {winner.candidate.origin}",
        flush=True,
    )
    return reached / best[0], problem.tried, best


if __name__ == "__main__":
    main()
