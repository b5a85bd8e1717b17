"""Problems of optimisation on a simulated model, and their objective worked out by hand."""

from __future__ import annotations

import math
from contextlib import contextmanager

from pcsuite.config.load import load_suite
from pcsuite.optimization.development import plan_dev_task
from pcsuite.optimization.run import OptimizeSettings, open_problem
from pcsuite.stats.answer_variation import entropy
from support.profiles import SIMULATED, write_profile

MODEL = SIMULATED | {"base_accuracy": 0.4, "operator_effects": {"SCHEMA": 1.5, "ROLE": -1.0, "VERIFIER": 0.8}}


def suite_in(folder, model=MODEL, **options):
    return load_suite(write_profile(folder, {"sim": model}, **options))


def settings(method="blocks", task="agnews_json", **changes):
    return OptimizeSettings(task, "sim", method, **({"candidates": 6, "items": 8, "seed": 3} | changes))


def opened(suite, **changes):
    chosen = settings(**changes)
    return open_problem(suite, chosen, plan_dev_task(suite, chosen.task_id, chosen.items), seed=3)


def hand_worked_j(rows, *, budget, answers):
    """J from stored rows, with nothing but arithmetic and the entropy estimator."""
    items = {}
    for row in rows:
        items.setdefault(row.task.item_id, []).append(row)
    task = spread = cost = 0.0
    unsupported = []
    for group in items.values():
        task += sum(row.metrics["task_score"] for row in group) / len(group)
        rates = [
            row.metrics["unsupported_rate"] for row in group if row.metrics["unsupported_rate"] is not None
        ]
        unsupported += [sum(rates) / len(rates)] if rates else []
        given = [row.parsed.answer for row in group]
        counts = [given.count(answer) for answer in dict.fromkeys(given)]
        maximum = math.log(answers or len(group))
        spread += min(1.0, float(entropy([counts])[0]) / maximum)
        cost += sum(row.generation.usage.total_tokens for row in group) / len(group) / budget
    rate = sum(unsupported) / len(unsupported) if unsupported else 0.0
    return (1.0 * task - 0.3 * spread - 0.1 * cost) / len(items) - 0.7 * rate


ITEMS = 6
"""Development items of :func:`simulated_problem`."""


@contextmanager
def simulated_problem(folder, method, *, seed=1, items=ITEMS, **sections):
    folder.mkdir(parents=True, exist_ok=True)
    suite = load_suite(write_profile(folder, items=items, **sections))
    dev = plan_dev_task(suite, "agnews_json", items)
    settings = OptimizeSettings("agnews_json", "sim", method, use_cache=False)
    with open_problem(suite, settings, dev, seed=seed) as problem:
        yield problem


def candidates_tried(problem):
    return [name for name in problem.scores if name != problem.baseline.candidate.id]
