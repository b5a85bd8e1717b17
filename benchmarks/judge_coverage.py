"""Do prediction-powered effects cover the truth where a judge's own do not?

    python benchmarks/judge_coverage.py collect --judge qwen2.5-coder-0.5b --items 150 --folder WORK   # runs the models
    python benchmarks/judge_coverage.py table --repetitions 500                                       # the table

``collect`` asks an embedded model small sums that are drawn here, under a bare prompt and under one that has it vouch
for its answer, lets a judge pass or fail every answer through the suite's own judged task, and keeps for each answer
what the judge said and what our rule scorer (the number) says: ``benchmarks/data/judge_scores.json``.
``table`` draws items from that pool with replacement, and from simulated judges whose rates are set, labels a random
sample of them with the gold score and counts how often the 95 % intervals of the effect hold the true one.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import yaml

from pcsuite.stats import paired_bootstrap, prediction_powered_mean

SCORES = Path(__file__).parent / "data" / "judge_scores.json"
PEOPLE = ("Ann", "Ben", "Carla", "Dina", "Emil", "Fay", "Gus", "Hana")
THINGS = ("apples", "stamps", "coins", "books", "cards", "shells")
CERTAIN = "Say after the number that you have checked it twice and are certain that it is right."


def drawn_items(count: int) -> Iterator[dict[str, object]]:
    """Sums in words, each drawn once."""
    rng = random.Random(20261116)
    for number in range(count):
        first, second, third = rng.randint(12, 95), rng.randint(3, 40), rng.randint(2, 9)
        who, other, what = rng.choice(PEOPLE[:4]), rng.choice(PEOPLE[4:]), rng.choice(THINGS)
        story, result = rng.choice(
            [
                (f"{who} has {first} {what} and buys {second} more."
                 f" How many {what} does {who} have now?", first + second),
                (f"{who} packs {third} boxes with {second} {what} each. How many {what} are there?", third * second),
                (f"{other} had {first + second} {what} and sold {second} of them. How many {what} are left?", first),
            ]
        )  # fmt: skip
        yield {
            "item_id": f"sum-{number}",
            "input_text": story,
            "truth": {"answer": str(result), "reference": str(result)},
        }


def collect(model: str, judge: str, items: int, folder: Path) -> None:
    """Run the judged task and add what came of it to the scores file."""
    from pcsuite.config.load import load_suite
    from pcsuite.data.items import load_items
    from pcsuite.evaluation import build_evaluator
    from pcsuite.evaluation.base import Answer
    from pcsuite.logging.log import newest_rows
    from pcsuite.runners.run_suite import run_suite

    task = {
        "title": "Sums in words", "kind": "judged", "dataset": "sums",
        "instruction": "Solve the problem. Answer in one short sentence that ends with the number.",
        "role": "a teacher", "goal": "the right number", "abstain": "Say that it cannot be told.", "max_tokens": 60,
        "judge": {
            "model": judge, "rubric": "The last number in the answer is the number in the reference.",
            "show_reference": True,
        },
    }  # fmt: skip
    operators = {"VOUCH": {"type": "block", "template": CERTAIN}}
    files = {
        "tasks.yaml": {"version": "1.0", "tasks": {"sums": task}},
        "operators.yaml": {"version": "1.0", "operators": operators},
        "conditions.yaml": {"version": "1.0", "conditions": {"C0": [], "vouching": ["VOUCH"]}},
        "profile.yaml": {
            "version": "1.0",
            "run": {
                "name": f"judge-{judge}", "output_dir": str(folder / "outputs"), "cache_dir": str(folder / "cache")
            },
            "suite": {
                "tasks_ref": "tasks.yaml", "operators_ref": "operators.yaml", "conditions_ref": "conditions.yaml"
            },
            "selection": {
                "tasks": ["sums"], "models": [model], "conditions": ["C0", "vouching"],
                "decoding_regimes": ["d0_greedy"],
            },
            "repro": {"seeds": {"d0_greedy": [0]}, "max_inflight": 2},
            "limits": {"max_items_per_task": items, "stop_on_error_rate": 1.0},
        },
    }  # fmt: skip
    (folder / "cache" / "datasets").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(item) for item in drawn_items(items)]
    (folder / "cache" / "datasets" / "sums_test.jsonl").write_text("\n".join(lines) + "\n")
    for name, content in files.items():
        (folder / name).write_text(yaml.safe_dump(content, sort_keys=False))
    started = time.monotonic()
    summary = run_suite(load_suite(folder / "profile.yaml"), quiet=True)
    known = {item.item_id: item for item in load_items("sums", "test", folder / "cache").items}
    rule = build_evaluator("number")
    pool: dict[str, dict[str, list[float | None]]] = {}
    for row in newest_rows(summary.paths.log):
        if row.errors or row.generation is None:
            continue
        answer = Answer(row.generation.text, row.generation.finish_reason)
        gold = rule.evaluate(known[row.task.item_id], answer).metrics["task_score"]
        pool.setdefault(row.task.item_id, {})[row.condition.id] = [gold, row.metrics["task_score"]]  # type: ignore[list-item]
    whole = {item: pair for item, pair in sorted(pool.items()) if len(pair) == 2}
    found = json.loads(SCORES.read_text()) if SCORES.is_file() else {}
    found[judge] = {
        "answered_by": model,
        "seconds": round(time.monotonic() - started),
        "scores": [[*pair["C0"], *pair["vouching"]] for pair in whole.values()],
    }
    SCORES.parent.mkdir(exist_ok=True)
    SCORES.write_text(json.dumps(found) + "\n")
    print(f"{judge}: {len(whole)} items in {found[judge]['seconds']} s -> {SCORES}")


Pool = np.ndarray  # items by (gold control, judge control, gold treated, judge treated)


def simulated_pool(sensitivity: tuple[float, float], specificity: tuple[float, float], effect: float) -> Pool:
    """A large population judged with rates that are set for the control and for the treated condition."""
    rng = np.random.default_rng(abs(hash((sensitivity, specificity, effect))) % 2**32)
    difficulty = rng.normal(0.4, 1.3, 400_000)
    columns = []
    for shift, hit, reject in zip((0.0, effect), sensitivity, specificity, strict=True):
        gold = rng.random(len(difficulty)) < 1 / (1 + np.exp(-(difficulty + shift)))
        said = np.where(gold, rng.random(len(gold)) < hit, rng.random(len(gold)) >= reject)
        columns += [gold, said]
    return np.column_stack(columns).astype(float)


SIMULATED = {
    "right in 95 %": ((0.95, 0.95), (0.95, 0.95), 0.6),
    "lenient (passes 45 % of the wrong)": ((0.97, 0.97), (0.55, 0.55), 0.6),
    "harsher on the control": ((0.70, 0.95), (0.95, 0.80), 0.0),
    "likes the treated prompt": ((0.90, 0.98), (0.90, 0.55), 0.4),
    "prefers the control": ((0.97, 0.75), (0.60, 0.95), 0.6),
    "a coin": ((0.5, 0.5), (0.5, 0.5), 0.6),
    "passes everything": ((1.0, 1.0), (0.0, 0.0), 0.6),
}


def coverage(pool: Pool, items: int, labels: int, repetitions: int, seed: int) -> dict[str, float]:
    """How often each interval of the effect holds the pool's own, and how wide it is."""
    rng = np.random.default_rng(seed)
    truth = float((pool[:, 2] - pool[:, 0]).mean())
    hits = {"naive": 0, "gold": 0, "ppi": 0}
    widths = {"naive": 0.0, "gold": 0.0, "ppi": 0.0}
    for _ in range(repetitions):
        drawn = pool[rng.integers(0, len(pool), items)]
        gold, said = drawn[:, 2] - drawn[:, 0], drawn[:, 3] - drawn[:, 1]
        found = {
            "naive": paired_bootstrap(said, rng=rng, resamples=1_000),
            "gold": prediction_powered_mean(gold[:labels], said[:labels], bounds=(-1, 1)).estimate,
            "ppi": prediction_powered_mean(
                gold[:labels], said[:labels], said[labels:], bounds=(-1, 1)
            ).estimate,
        }
        for name, estimate in found.items():
            hits[name] += estimate.low <= truth <= estimate.high
            widths[name] += estimate.high - estimate.low
    shares = {name: count / repetitions for name, count in hits.items()}
    return (
        shares | {f"{name} width": total / repetitions for name, total in widths.items()} | {"truth": truth}
    )


def table(items: int, sizes: list[int], repetitions: int, only: str) -> None:
    """Print the table that ``benchmarks/README.md`` has, or the judges of it whose name holds ``only``."""
    pools = {name: simulated_pool(*rates) for name, rates in SIMULATED.items()}
    if SCORES.is_file():
        for judge, kept in json.loads(SCORES.read_text()).items():
            rows = np.array([row for row in kept["scores"] if None not in row], dtype=float)
            pools[f"{judge}, really run ({len(rows)} items)"] = rows
    print(
        "| judge | judge's bias | effect | labels | judge alone | labels alone | prediction-powered | width |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for index, (name, pool) in enumerate(pools.items()):
        if only not in name:
            continue
        bias = float((pool[:, 3] - pool[:, 1]).mean() - (pool[:, 2] - pool[:, 0]).mean())
        for labels in sizes:
            found = coverage(pool, items, labels, repetitions, index * 1000 + labels)
            print(
                f"| {name} | {bias:+.2f} | {found['truth']:+.2f} | {labels} | {found['naive']:.1%}"
                f" | {found['gold']:.1%} | {found['ppi']:.1%} | {found['ppi width'] / found['gold width']:.0%} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="coverage of prediction-powered effects")
    actions = parser.add_subparsers(dest="action", required=True)
    collecting = actions.add_parser("collect", help="run the models")
    collecting.add_argument("--model", default="qwen2.5-coder-0.5b")
    collecting.add_argument("--judge", default="qwen2.5-coder-0.5b")
    collecting.add_argument("--items", type=int, default=250)
    collecting.add_argument("--folder", type=Path, required=True)
    printing = actions.add_parser("table", help="print the table")
    printing.add_argument("--items", type=int, default=500)
    printing.add_argument("--labels", type=int, nargs="+", default=[60, 120])
    printing.add_argument("--repetitions", type=int, default=500)
    printing.add_argument("--only", default="", help="judges whose name holds this")
    args = parser.parse_args()
    if args.action == "collect":
        collect(args.model, args.judge, args.items, args.folder)
    else:
        table(args.items, args.labels, args.repetitions, args.only)


if __name__ == "__main__":
    main()
