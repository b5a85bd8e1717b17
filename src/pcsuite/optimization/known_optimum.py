"""The true J of prompts on a simulated model, and the best there is: what a search is held against.

A simulated model's chance of a right answer follows from the operators of a prompt (see
``pcsuite.engines.adapters.simulated``), so the expectation of every part of J can be computed instead of sampled: the
task score and the entropy by Gauss–Hermite quadrature over item difficulty, the entropy over all possible sets of
answers; tokens from the prompts themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np

from pcsuite.engines.adapters.simulated import SimulatedOptions, accuracy_logit, json_probability
from pcsuite.stats.answer_variation import normalised_entropy
from pcsuite.stats.objective import Objective, Parts

QUADRATURE_POINTS = 60


class SimulatedTask(NamedTuple):
    """What the truth depends on besides the model's effects."""

    task_id: str
    wrong_labels: int
    """Wrong answers an item has, each as likely as the others."""
    replicates: int
    token_budget: float
    json_answers: bool = True


def true_parts(
    options: SimulatedOptions, task: SimulatedTask, operators: Iterable[str], prompt_tokens: float
) -> Parts:
    """Expected parts of J of a prompt with these operators and so many tokens."""
    if options.seed_noise_sd or options.abstain_rate:
        raise ValueError("the truth is computed for models without seed noise and abstentions")
    names = tuple(operators)
    nodes, weights = np.polynomial.hermite.hermgauss(QUADRATURE_POINTS)
    centre = accuracy_logit(options, task.task_id, names)
    chance = 1 / (1 + np.exp(-(centre + math.sqrt(2) * options.item_difficulty_sd * nodes)))
    weights = weights / math.sqrt(math.pi)
    valid = json_probability(options, names) if task.json_answers else 1.0
    wrong = np.repeat(((1 - chance) / task.wrong_labels * valid)[:, None], task.wrong_labels, axis=1)
    answers = np.column_stack([chance * valid, wrong, np.full(len(nodes), 1 - valid)])
    tokens = prompt_tokens + options.mean_completion_tokens
    return Parts(
        task=float(weights @ answers[:, 0]),
        unsupported=None,
        entropy=float(weights @ _expected_entropy(answers, task)),
        token_cost=tokens / task.token_budget,
    )


def _expected_entropy(answers: np.ndarray, task: SimulatedTask) -> np.ndarray:
    """Expected normalised entropy of the replicates at each node, over all sets of answers they can be."""
    kinds = answers.shape[1]
    total = np.zeros(len(answers))
    for drawn in combinations_with_replacement(range(kinds), task.replicates):
        counts = np.bincount(drawn, minlength=kinds)
        ways = math.factorial(task.replicates) / math.prod(math.factorial(int(count)) for count in counts)
        spread = normalised_entropy(counts[None, :], categories=task.wrong_labels + 2)[0]
        total += ways * np.prod(answers**counts, axis=1) * spread
    return total


def best_sets(
    options: SimulatedOptions,
    task: SimulatedTask,
    objective: Objective,
    tokens: Mapping[str, float],
    bare_tokens: float,
) -> list[tuple[float, tuple[str, ...]]]:
    """True J of every set of operators, best first; ``tokens`` is what each operator's text adds."""
    names: Sequence[str] = tuple(tokens)
    found = []
    for size in range(len(names) + 1):
        for chosen in combinations(names, size):
            length = bare_tokens + sum(tokens[name] for name in chosen)
            found.append((objective.value(true_parts(options, task, chosen, length)), chosen))
    return sorted(found, key=lambda entry: (-entry[0], entry[1]))
