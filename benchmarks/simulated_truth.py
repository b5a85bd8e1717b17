"""What is true of a simulated model: its accuracy under a condition, an operator's effect, and the J of a prompt.

A simulated model's chance of a right answer follows from the operators of a prompt (see
``pcsuite.engines.adapters.simulated``), so what runs and searches estimate can be computed here instead of sampled: by
Gauss–Hermite quadrature over item difficulty, the entropy over all possible sets of answers, tokens from the prompts
themselves. Tests and benchmarks hold estimates and searches against these figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np

from pcsuite.engines.adapters.simulated import SimulatedOptions, accuracy_logit, json_probability
from pcsuite.stats.answer_variation import normalised_entropy
from pcsuite.stats.objective import Objective, Parts

QUADRATURE_POINTS = 80


def true_accuracy(
    options: SimulatedOptions,
    task_id: str,
    operators: Iterable[str],
    *,
    perturbation: str = "none",
    json_answers: bool = True,
    constrained: bool = False,
) -> float:
    """The share (0 to 1) of perfect answers that a condition has over all items and seeds.

    The logit is normal with variance item_difficulty_sd² + seed_noise_sd²; its mean under the logistic curve is a
    one-dimensional integral. A malformed JSON answer and an abstention are never perfect.
    """
    names = tuple(operators)
    spread = math.hypot(options.item_difficulty_sd, options.seed_noise_sd)
    chance, weights = _chances(accuracy_logit(options, task_id, names, perturbation), spread)
    valid = json_probability(options, names) if json_answers and not constrained else 1.0
    return float(weights @ chance) * valid * (1 - options.abstain_rate)


def true_effect(
    options: SimulatedOptions,
    task_id: str,
    operators: Iterable[str],
    baseline: Iterable[str] = (),
    *,
    perturbation: str = "none",
    json_answers: bool = True,
    constrained: bool = False,
) -> float:
    """True accuracy of a condition minus that of an unconstrained baseline under the same perturbation."""
    shared = {"perturbation": perturbation, "json_answers": json_answers}
    with_operators = true_accuracy(options, task_id, operators, constrained=constrained, **shared)
    return with_operators - true_accuracy(options, task_id, baseline, **shared)


def _chances(centre: float, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Chances of a right answer at the nodes of the quadrature, and the nodes' weights (which sum to 1)."""
    nodes, weights = np.polynomial.hermite.hermgauss(QUADRATURE_POINTS)
    return 1 / (1 + np.exp(-(centre + math.sqrt(2) * spread * nodes))), weights / math.sqrt(math.pi)


class SimulatedTask(NamedTuple):
    """What the true J depends on besides the model's effects."""

    task_id: str
    wrong_labels: int
    """Wrong answers an item has, each as likely as the others."""
    replicates: int
    token_budget: float
    json_answers: bool = True


def true_parts(
    options: SimulatedOptions, task: SimulatedTask, operators: Iterable[str], prompt_tokens: float
) -> Parts:
    """Expected parts of J of a prompt with these operators and so many tokens.

    Raises :class:`ValueError` for models with seed noise or abstentions, whose answers are not drawn this way.
    """
    if options.seed_noise_sd or options.abstain_rate:
        raise ValueError("the truth is computed for models without seed noise and abstentions")
    names = tuple(operators)
    chance, weights = _chances(accuracy_logit(options, task.task_id, names), options.item_difficulty_sd)
    valid = json_probability(options, names) if task.json_answers else 1.0
    wrong = np.repeat(((1 - chance) / task.wrong_labels * valid)[:, None], task.wrong_labels, axis=1)
    answers = np.column_stack([chance * valid, wrong, np.full(len(chance), 1 - valid)])
    # Expected normalised entropy of the replicates at each node, over all sets of answers they can be.
    kinds, entropy = answers.shape[1], np.zeros(len(answers))
    for drawn in combinations_with_replacement(range(kinds), task.replicates):
        counts = np.bincount(drawn, minlength=kinds)
        ways = math.factorial(task.replicates) / math.prod(math.factorial(int(count)) for count in counts)
        spread = normalised_entropy(counts[None, :], categories=task.wrong_labels + 2)[0]
        entropy += ways * np.prod(answers**counts, axis=1) * spread
    return Parts(
        task=float(weights @ answers[:, 0]),
        unsupported=None,
        entropy=float(weights @ entropy),
        token_cost=(prompt_tokens + options.mean_completion_tokens) / task.token_budget,
    )


def best_sets(
    options: SimulatedOptions,
    task: SimulatedTask,
    objective: Objective,
    tokens: Mapping[str, float],
    bare_tokens: float,
) -> list[tuple[float, tuple[str, ...]]]:
    """True J of every set of operators, best first; ``tokens`` is what each operator's text adds."""
    found = []
    for size in range(len(tokens) + 1):
        for chosen in combinations(tokens, size):
            length = bare_tokens + sum(tokens[name] for name in chosen)
            found.append((objective.value(true_parts(options, task, chosen, length)), chosen))
    return sorted(found, key=lambda entry: (-entry[0], entry[1]))
