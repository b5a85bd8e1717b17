"""What a simulated model's effects come to over all items and seeds, computed instead of sampled."""

import math

from numpy import exp, pi, sqrt
from numpy.polynomial.hermite import hermgauss

from pcsuite.engines.adapters.simulated import accuracy_logit, json_probability

QUADRATURE_POINTS = 80


def true_accuracy(options, task_id, operators, *, perturbation="none", json_answers=True, constrained=False):
    """The share of perfect answers a condition has over all items and seeds.

    The logit is normal with variance item_difficulty_sd² + seed_noise_sd²; its mean under the logistic curve
    is a one-dimensional integral, taken by Gauss–Hermite quadrature. A malformed JSON answer and an
    abstention are never perfect.
    """
    names = tuple(operators)
    centre = accuracy_logit(options, task_id, names, perturbation)
    spread = math.hypot(options.item_difficulty_sd, options.seed_noise_sd)
    nodes, weights = hermgauss(QUADRATURE_POINTS)
    right = float((weights / (1 + exp(-(centre + math.sqrt(2) * spread * nodes)))).sum() / sqrt(pi))
    valid = 1.0 if constrained or not json_answers else json_probability(options, names)
    return right * valid * (1 - options.abstain_rate)


def true_effect(
    options, task_id, operators, baseline=(), *, perturbation="none", json_answers=True, constrained=False
):
    """True accuracy of a condition minus that of an unconstrained baseline under the same perturbation."""
    shared = {"perturbation": perturbation, "json_answers": json_answers}
    with_operators = true_accuracy(options, task_id, operators, constrained=constrained, **shared)
    return with_operators - true_accuracy(options, task_id, baseline, **shared)
