"""Which operator did it: the effect of each part of a bundle, by every method that the design identifies.

Conditions are bundles of operators; the value of a bundle is the score under it. Four ways to share a gain among the
operators, each a weighted sum of conditions and therefore, item by item, a paired difference with its own interval and
test:

- *leave-one-out*: the full bundle less the bundle without the operator (what is lost without it);
- *add-one-in*: the bare bundle with the operator less the bare one (what it does alone);
- *least squares*: its coefficient in score = item + Σ operators over all conditions (in a complete factorial, the main
  effect). It assumes that effects add up: where blocks work against each other, an operator that stands in few
  conditions takes up what the others' sum leaves over there, though it does nothing. So it is never held for more than
  the pairs of conditions that differ in it alone show: its p-value is at least theirs;
- *Shapley value*: its gain on joining, averaged over the orders in which operators can join (Shapley 1953). A complete
  factorial has every order and the value is exact. Where only some bundles were run, the orders are those whose every
  step was run; where these were drawn at random the average is unbiased, since a share that is linear, efficient,
  symmetric in expectation and 0 for an operator that adds nothing is the Shapley value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pcsuite.errors import AnalysisError
from pcsuite.stats.bootstrap import bootstrap_means, bounds_of_differences
from pcsuite.stats.clustered import cluster_interval, cluster_test
from pcsuite.stats.effect_sizes import paired_t_interval, paired_t_test
from pcsuite.stats.estimate import Estimate, FloatArray, IntArray, Rng, TestResult, as_matrix
from pcsuite.stats.permutation import sign_flip_test
from pcsuite.stats.related_rows import cluster_numbers

AttributionMethod = Literal["leave-one-out", "add-one-in", "least squares", "shapley"]
ATTRIBUTION_METHODS: tuple[AttributionMethod, ...] = get_args(AttributionMethod)
SHARING_METHODS: tuple[AttributionMethod, ...] = ("least squares", "shapley")
"""Methods that divide the whole change among all operators; the others compare two conditions."""
PAIRS = "by pairs that differ in it alone"
MANY = 2_000
"""Items from which the mean is as good as normal: no resampling."""


@dataclass(frozen=True, slots=True)
class OperatorWeights:
    """An operator's effect by one method: the weight of each condition, summing to 0."""

    operator: str
    method: AttributionMethod
    weights: FloatArray
    orders: float = float("nan")
    """Orders of joining that a Shapley value averages over."""
    exact: bool = True
    """Whether a Shapley value has every order."""
    pairs: FloatArray | None = None
    """Of least squares: the mean difference over pairs of conditions that differ in the operator alone, where there are
    such pairs and it is another difference."""


@dataclass(frozen=True, slots=True)
class OperatorEffect:
    """An operator's effect by one method, with its interval over items and its test."""

    operator: str
    method: AttributionMethod
    effect: Estimate
    test: TestResult
    orders: float
    exact: bool
    pairs: Estimate | None = None
    """Of least squares: the mean difference over the pairs of conditions that differ in the operator alone."""


def attribute(
    values: ArrayLike,
    bundles: Sequence[Iterable[str]],
    *,
    rng: Rng,
    level: float = 0.95,
    clusters: IntArray | None = None,
) -> list[OperatorEffect]:
    """Each operator's effect on the mean of ``values`` (items by conditions), by every method the design identifies.

    ``bundles`` are the operators of each condition, in the order of the columns; ``clusters`` the cluster of each item
    where items are related, over which limits and tests then are. What the design cannot tell is not in
    the result; :func:`unidentified` says it in words. Raises ``AnalysisError`` where columns and bundles do not pair
    or two conditions have the same operators.

    >>> rng = np.random.default_rng(0)
    >>> values = [[0.1, 0.4, 0.2, 0.9], [0.2, 0.5, 0.2, 1.0], [0.0, 0.2, 0.3, 0.8]]
    >>> effects = attribute(values, [(), ("A",), ("B",), ("A", "B")], rng=rng)
    >>> [(e.operator, round(e.effect.value, 3)) for e in effects if e.method == "shapley"]
    [('A', 0.467), ('B', 0.333)]
    """
    table = as_matrix(values, "values")
    if table.shape[1] != len(bundles):
        raise AnalysisError(f"{table.shape[1]} columns of values and {len(bundles)} bundles do not pair")
    entries = attribution_weights(bundles)
    if not entries:
        return []
    judged = _judged(table, [entry.weights for entry in entries], rng, level, clusters)
    with_pairs = [entry.pairs for entry in entries if entry.pairs is not None]
    paired = iter(_judged(table, with_pairs, rng, level, clusters))
    effects = []
    for entry, (effect, test) in zip(entries, judged, strict=True):
        pairs = None
        if entry.pairs is not None:
            pairs, alone = next(paired)
            if alone.p_value > test.p_value:
                test = replace(alone, method=f"{alone.method}, {PAIRS}")
        effects.append(
            OperatorEffect(entry.operator, entry.method, effect, test, entry.orders, entry.exact, pairs)
        )
    return effects


def _judged(
    table: FloatArray, weights: Sequence[FloatArray], rng: Rng, level: float, clusters: IntArray | None
) -> list[tuple[Estimate, TestResult]]:
    """The mean of each weighted sum of the columns over the rows, with its interval, and the test that it is 0."""
    if not weights:
        return []
    gains = table @ np.column_stack(weights)
    # Weights such as 1/3 leave rounding noise where an item did not change.
    gains[np.abs(gains) < 1e-12] = 0.0
    if clusters is not None:
        numbers = cluster_numbers(clusters)
        return [
            (
                cluster_interval(column, numbers, level=level, bounds=bounds_of_differences(column)),
                cluster_test(column, numbers, rng=rng),
            )
            for column in gains.T
        ]
    if len(gains) >= MANY:
        effects = [paired_t_interval(column, level=level) for column in gains.T]
    else:
        bounds = [bounds_of_differences(column) for column in gains.T]
        effects = bootstrap_means(gains, rng=rng, level=level, bounds=bounds)
    # Signs flipped; of many items that moved, the t test, which is the same then and costs nothing.
    return [
        (effect, paired_t_test(effect.value, effect.se, len(column)))
        if np.count_nonzero(column) >= MANY and effect.se
        else (effect, sign_flip_test(column, rng=rng))
        for effect, column in zip(effects, gains.T, strict=True)
    ]


def attribution_weights(bundles: Sequence[Iterable[str]]) -> list[OperatorWeights]:
    """Weights of the conditions for each operator and method that these bundles identify, method by method.

    Operators that every condition has are not varied and have no effect to estimate; operators that always come
    together count as one, ``ROLE+GOAL``.

    >>> [(w.operator, w.method, w.weights.tolist()) for w in attribution_weights([("A",), ("A", "B")])][0]
    ('B', 'leave-one-out', [-1.0, 1.0])
    """
    sets = [frozenset(bundle) for bundle in bundles]
    if len(set(sets)) < len(sets):
        raise AnalysisError("two conditions have the same operators", hint="give one of them")
    blocks = {"+".join(block): block for block in _blocks(bundles)}
    varied = tuple(blocks)
    if not varied:
        return []
    # From here on a bundle is the set of its varied blocks: the shared operators are the same everywhere.
    sets = [frozenset(name for name, block in blocks.items() if bundle.issuperset(block)) for bundle in sets]
    index = {bundle: position for position, bundle in enumerate(sets)}
    bare, full = frozenset[str](), frozenset(varied)
    differences: list[OperatorWeights] = []
    steps: list[tuple[str, AttributionMethod, frozenset[str], frozenset[str]]]
    steps = [(name, "leave-one-out", full, full - {name}) for name in varied]
    steps += [(name, "add-one-in", frozenset({name}), bare) for name in varied]
    for name, method, larger, smaller in steps:
        if larger in index and smaller in index:
            weights = np.zeros(len(sets))
            weights[index[larger]], weights[index[smaller]] = 1.0, -1.0
            differences.append(OperatorWeights(name, method, weights))
    return [*differences, *_least_squares(sets, index, varied), *_shapley(sets, index, varied)]


def _blocks(bundles: Sequence[Iterable[str]]) -> list[tuple[str, ...]]:
    """Varied operators, those that always come together in one block, in the order of the longest bundle."""
    sets = [frozenset(bundle) for bundle in bundles]
    columns: dict[tuple[bool, ...], list[str]] = {}
    for name in varied_operators(bundles):
        columns.setdefault(tuple(name in bundle for bundle in sets), []).append(name)
    return [tuple(block) for block in columns.values()]


def varied_operators(bundles: Sequence[Iterable[str]]) -> tuple[str, ...]:
    """Operators that some conditions have and others lack, in the order in which they first appear.

    >>> varied_operators([("GOAL", "ROLE"), ("GOAL",)])
    ('ROLE',)
    """
    # The longest bundle first: it has the operators in their own order.
    ordered = sorted((tuple(bundle) for bundle in bundles), key=lambda bundle: -len(bundle))
    names = dict.fromkeys(itertools.chain.from_iterable(ordered))
    return tuple(name for name in names if not all(name in bundle for bundle in ordered))


def unidentified(bundles: Sequence[Iterable[str]]) -> list[str]:
    """What these bundles cannot tell, in sentences: operators that come together, and sums that cannot be split.

    >>> unidentified([(), ("SCHEMA", "VERIFIER")])
    ['SCHEMA and VERIFIER always come together: only their joint effect can be told.']
    """
    sets = [frozenset(bundle) for bundle in bundles]
    shared = frozenset.intersection(*sets) if sets else frozenset()
    sentences = []
    if shared:
        words = _names_in_words(sorted(shared))
        sentences.append(
            f"{words} {'is' if len(shared) == 1 else 'are'} in every condition: no effect can be told."
        )
    blocks = _blocks(bundles)
    for together in blocks:
        if len(together) > 1:
            sentences.append(
                f"{_names_in_words(together)} always come together: only their joint effect can be told."
            )
    identified = {
        entry.operator
        for entry in attribution_weights(list({frozenset(b): tuple(b) for b in bundles}.values()))
    }
    inseparable = ["+".join(block) for block in blocks if "+".join(block) not in identified]
    if inseparable:
        sentences.append(
            f"The conditions do not tell the effects of {_names_in_words(inseparable)} apart from sums of others:"
            " there are too few of them, or they vary together."
        )
    return sentences


def _names_in_words(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def solved_design(
    bundles: Sequence[Collection[str]], names: Sequence[str]
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The pseudo-inverse of score = 1 + Σ operators over ``bundles``, and which coefficients these determine.

    Coefficients (rows of the inverse) are the intercept and one for each of ``names``.

    >>> solved_design([(), ("A", "B")], ["A", "B"])[1].tolist()
    [True, False, False]
    """
    design = np.array([[1.0, *(float(name in bundle) for name in names)] for bundle in bundles])
    inverse = np.asarray(np.linalg.pinv(design), dtype=np.float64)
    # A coefficient is determined where its row of (X⁺X) is that of the identity.
    return inverse, np.abs(inverse @ design - np.eye(design.shape[1])).max(axis=1) < 1e-8


def _least_squares(
    sets: Sequence[frozenset[str]], index: dict[frozenset[str], int], varied: Sequence[str]
) -> list[OperatorWeights]:
    """Rows of the pseudo-inverse, for the coefficients that the conditions determine, and the pairs beside them."""
    inverse, determined = solved_design(sets, varied)
    weights = []
    for column, name in enumerate(varied, start=1):
        if not determined[column]:
            continue
        pairs = np.zeros(len(sets))
        for bundle in sets:
            if name in bundle and (without := bundle - {name}) in index:
                pairs[index[bundle]] += 1.0
                pairs[index[without]] -= 1.0
        share, count = inverse[column], pairs[pairs > 0].sum()
        other = count > 0 and not np.allclose(pairs / count, share, atol=1e-9)
        weights.append(OperatorWeights(name, "least squares", share, pairs=pairs / count if other else None))
    return weights


def _shapley(
    sets: Sequence[frozenset[str]], index: dict[frozenset[str], int], varied: Sequence[str]
) -> list[OperatorWeights]:
    """Mean gain on joining over all orders from the bare to the full bundle whose every step was run.

    Orders are counted, not listed: those through a step are the ways to reach it times the ways on from it.
    """
    bare, full = frozenset[str](), frozenset(varied)
    if bare not in index or full not in index:
        return []
    steps = [
        (bundle, name, larger)
        for bundle in sorted(sets, key=len)
        for name in varied
        if name not in bundle and (larger := bundle | {name}) in index
    ]
    before, after = dict.fromkeys(sets, 0), dict.fromkeys(sets, 0)
    before[bare] = after[full] = 1
    for bundle, _, larger in steps:
        before[larger] += before[bundle]
    for bundle, _, larger in reversed(steps):
        after[bundle] += after[larger]
    orders = after[bare]
    if not orders:
        return []
    weights = {name: np.zeros(len(sets)) for name in varied}
    for bundle, name, larger in steps:
        share = before[bundle] * after[larger] / orders
        weights[name][index[larger]] += share
        weights[name][index[bundle]] -= share
    exact = orders == math.factorial(len(varied))
    return [OperatorWeights(name, "shapley", weights[name], float(orders), exact) for name in varied]
