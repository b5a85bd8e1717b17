"""Planning: what a paired design can find with the very test and correction that the report uses.

Power is simulated, not read off a formula: the exact sign-flip test has a least p-value (2/2ⁿ) and is conservative
where scores tie, which a t formula knows nothing of, and the corrected threshold depends on the family. A
*world* says how the scores of two conditions on one item arise; items are independent, so a study is one multinomial
draw of item differences, and a power takes milliseconds whatever the number of items.

Miller 2024: with K replicates per item, the variance of a per-item difference is ω² + σ_A²/K + σ_B²/K, where ω² is the
variance of the items' true differences and σ² the variance of a single answer around its item's mean. Replicates
shrink only the second part; the worlds here keep to that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from pcsuite.errors import AnalysisError, require
from pcsuite.stats.estimate import FloatArray, Rng, as_matrix, as_pair, as_vector
from pcsuite.stats.permutation import PERMUTATIONS, smallest_p

if TYPE_CHECKING:
    from typing_extensions import Unpack

Correction = Literal["benjamini_hochberg", "holm"]
"""How p-values of a family are adjusted, by the name of the function in :mod:`pcsuite.stats.permutation`."""


class FamilyOptions(TypedDict, total=False):
    """How an effect is judged within its family; see :func:`achieved_power`."""

    alpha: float
    comparisons: int
    affected: int
    correction: Correction


STUDIES = 4_000
"""Simulated studies behind a power: its standard error is at most 0.008."""
ALPHA = 0.05
MOST_ITEMS = 2_000_000
MOST_REPLICATES = 100
_GRID = (512, 64)
"""Slices of the control's item rates, and of the treated given one of those."""
_LONGEST_TRANSFORM = 4096
"""Points of a Fourier transform per study; larger studies take the Edgeworth tail."""


class PairedWorld(Protocol):
    """How the scores of a control and a treated condition arise on the items of a task."""

    @property
    def room(self) -> tuple[float, float]:
        """The largest loss (negative) and the largest gain that scores leave room for."""

    def p_values(self, effect: float, items: int, replicates: int, rng: Rng, studies: int) -> FloatArray:
        """Two-sided sign-flip p-values of simulated studies whose true mean difference is ``effect``."""

    def draw(self, effect: float, items: int, replicates: int, rng: Rng, studies: int) -> FloatArray:
        """Item differences of simulated studies, a row each: treated less control."""


@dataclass(frozen=True)
class BinaryWorld:
    """Right-or-wrong answers, stated by three numbers.

    ``accuracy`` is the control's rate; the treated rate is ``accuracy + effect``. Item rates follow a Beta distribution
    whose variance is the share ``1 - noise`` of p(1-p): with ``noise`` 0 every replicate of an item agrees, with 1 no
    item differs from another. ``correlation`` is that of the two conditions' item rates (Gaussian copula; where the
    margins do not allow so much, as much as they allow).

    >>> BinaryWorld(0.5).masses(0.2, replicates=1).round(3).tolist()
    [0.093, 0.615, 0.293]
    """

    accuracy: float = 0.5
    correlation: float = 0.5
    noise: float = 0.5

    def __post_init__(self) -> None:
        if not (0 < self.accuracy < 1 and -1 <= self.correlation <= 1 and 0 <= self.noise <= 1):
            raise AnalysisError(
                f"accuracy {self.accuracy:g}, correlation {self.correlation:g}, noise {self.noise:g}: accuracy must lie"
                " in (0, 1), correlation in -1..1 and noise in 0..1"
            )

    @property
    def room(self) -> tuple[float, float]:
        """Losses end at an accuracy of 0, gains at 1."""
        return -self.accuracy, 1 - self.accuracy

    def masses(self, effect: float, replicates: int) -> FloatArray:
        """Chance of each item difference -1, …, 1 in steps of 1/``replicates``: ``2 * replicates + 1`` numbers."""
        return _difference_masses(self, float(effect), int(replicates))

    def p_values(self, effect: float, items: int, replicates: int, rng: Rng, studies: int) -> FloatArray:
        """Exact p-values: differences of 0/1 scores and their averages lie on a grid."""
        counts = rng.multinomial(items, self.masses(effect, replicates), size=studies)
        return _lattice_p_values(counts, replicates)

    def draw(self, effect: float, items: int, replicates: int, rng: Rng, studies: int) -> FloatArray:
        """Item differences of simulated studies, on the grid of averages of 0/1 answers."""
        counts = rng.multinomial(items, self.masses(effect, replicates), size=studies)
        grid = np.arange(-replicates, replicates + 1) / replicates
        return np.array([np.repeat(grid, of_study) for of_study in counts])


@dataclass(frozen=True)
class MeasuredWorld:
    """Scores of any kind, from the item differences of a pilot.

    A study draws items from the pilot's; their differences are centred, scaled to the variance that the planned number
    of replicates gives, and moved by the effect.
    """

    differences: FloatArray
    """Item differences of the pilot, treated less control."""
    variances: PairedVariances

    @property
    def room(self) -> tuple[float, float]:
        """Scores are taken to lie within 0..1, so that a mean difference does too."""
        return -1.0, 1.0

    def draw(self, effect: float, items: int, replicates: int, rng: Rng, studies: int) -> FloatArray:
        """Item differences of simulated studies: those of the pilot, drawn anew, scaled and moved."""
        centred = self.differences - self.differences.mean()
        spread = float(centred.std(ddof=1))
        scale = math.sqrt(self.variances.of_difference(replicates)) / spread if spread else 0.0
        return np.asarray(effect + scale * rng.choice(centred, size=(studies, items)))

    def p_values(self, effect: float, items: int, replicates: int, rng: Rng, studies: int) -> FloatArray:
        """P-values by the normal limit of the flipped sum with its fourth-moment correction (Edgeworth)."""
        p_values = np.empty(studies)
        step = max(1, 2_000_000 // items)
        for start in range(0, studies, step):
            size = (min(step, studies - start), items)
            p_values[start : start + size[0]] = flip_p_values(
                self.draw(effect, items, replicates, rng, size[0])
            )
        return np.asarray(p_values)


@dataclass(frozen=True, slots=True)
class PairedVariances:
    """``between``: variance of true per-item differences (ω²); ``within_a``, ``within_b``: of single answers (σ²)."""

    between: float
    within_a: float
    within_b: float

    def of_difference(self, replicates: int) -> float:
        """Variance of one item's difference of replicate means, ω² + σ_A²/K + σ_B²/K.

        >>> PairedVariances(0.04, 0.1, 0.1).of_difference(5)
        0.08
        """
        if replicates < 1:
            raise AnalysisError("at least one replicate is needed")
        return self.between + self.within_a / replicates + self.within_b / replicates


def pilot_variances(pilot_a: ArrayLike, pilot_b: ArrayLike) -> PairedVariances:
    """Variances from a pilot: two items-by-replicates tables of scores on the same items.

    With a single replicate the within part cannot be told from the between part and stays in ``between``,
    which is right for planning further single-replicate runs and pessimistic for runs with more.

    >>> pilot_variances([[1, 0], [1, 1]], [[0, 0], [1, 0]]).within_a
    0.25
    """
    first, second = as_pair(pilot_a, pilot_b, "pilot_a and pilot_b", read=as_matrix)
    if len(first) < 2:
        raise AnalysisError("a pilot needs at least 2 items")
    within_a, within_b = (
        float(table.var(axis=1, ddof=1).mean()) if table.shape[1] > 1 else 0.0 for table in (first, second)
    )
    observed = float((first.mean(axis=1) - second.mean(axis=1)).var(ddof=1))
    noise = within_a / first.shape[1] + within_b / second.shape[1]
    return PairedVariances(max(observed - noise, 0.0), within_a, within_b)


def pilot_world(treated: ArrayLike, control: ArrayLike) -> PairedWorld:
    """The world of a pilot: items-by-replicates tables of the same items under two conditions.

    Right-or-wrong scores become a :class:`BinaryWorld` with the pilot's rates (held half an answer away from 0 and 1),
    noise and correlation; other scores a :class:`MeasuredWorld`. A pilot with one replicate cannot tell noise from
    differences between items: it is right for plans with one replicate and credits no gain to more.

    >>> pilot_world([[1, 0], [1, 1]], [[0, 0], [1, 0]]).accuracy
    0.25
    """
    first, second = as_pair(treated, control, "treated and control", read=as_matrix)
    variances = pilot_variances(first, second)
    if not (np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all()):
        return MeasuredWorld(first.mean(axis=1) - second.mean(axis=1), variances)
    edge = 0.5 / second.size
    rates = [float(np.clip(table.mean(), edge, 1 - edge)) for table in (first, second)]
    return _binary_world(rates[0], rates[1], variances)


def world_of_means(treated: ArrayLike, control: ArrayLike, replicates: int) -> BinaryWorld:
    """The world of right-or-wrong answers of which only the items' means over ``replicates`` answers are known.

    The mean of m(1-m) over items, times K/(K-1), is the variance of a single answer around its item's mean without
    bias, so that K answers tell as much as :func:`pilot_world` knows. With one answer all variation counts as the
    items'.

    >>> world_of_means([1, 0, 1, 1], [1, 0, 0, 1], 1).accuracy
    0.5
    """
    first, second = as_pair(treated, control, "treated and control", read=as_vector)
    if len(first) < 2:
        raise AnalysisError("a pilot needs at least 2 items")
    spread = replicates / (replicates - 1) if replicates > 1 else 0.0
    within_a, within_b = (float((means * (1 - means)).mean()) * spread for means in (first, second))
    observed = float((first - second).var(ddof=1))
    between = max(observed - (within_a + within_b) / replicates, 0.0)
    edge = 0.5 / (len(second) * replicates)
    rates = [float(np.clip(means.mean(), edge, 1 - edge)) for means in (first, second)]
    return _binary_world(rates[0], rates[1], PairedVariances(between, within_a, within_b))


def _binary_world(treated: float, control: float, variances: PairedVariances) -> BinaryWorld:
    """The world with these rates and variances of right-or-wrong answers."""
    total_a, total_b = treated * (1 - treated), control * (1 - control)
    noise = min(1.0, (variances.within_a + variances.within_b) / (total_a + total_b))
    item_a, item_b = max(total_a - variances.within_a, 0.0), max(total_b - variances.within_b, 0.0)
    shared = math.sqrt(item_a * item_b)
    correlation = (item_a + item_b - variances.between) / (2 * shared) if shared else 0.0
    return BinaryWorld(control, float(np.clip(correlation, -1.0, 1.0)), noise)


def least_p(items: int) -> float:
    """The smallest two-sided p-value that the sign-flip test can give on so many items: 2/2ⁿ.

    >>> least_p(8)
    0.0078125
    """
    if items < 1:
        raise AnalysisError(f"items is {items}, at least 1 is needed")
    return smallest_p(items)


def items_to_hold(comparisons: int, *, alpha: float = 0.05) -> int:
    """The fewest items with which a single effect among so many comparisons can hold at all.

    Below that even a difference of the same sign on every item stays above ``alpha / comparisons``, the threshold of
    Benjamini–Hochberg and Holm for an effect that stands alone.

    >>> items_to_hold(8), items_to_hold(1)
    (9, 6)
    """
    _check_rates(alpha, 0.5, comparisons)
    items = 1
    while least_p(items) * comparisons >= alpha:
        items += 1
    return items


def achieved_power(
    world: PairedWorld,
    effect: float,
    items: int,
    *,
    rng: Rng,
    replicates: int = 1,
    alpha: float = ALPHA,
    comparisons: int = 1,
    affected: int = 1,
    correction: Correction = "benjamini_hochberg",
    studies: int = STUDIES,
) -> float:
    """Chance (0..1) that a true ``effect`` is found: its sign-flip p-value, adjusted by ``correction`` over the
    ``comparisons`` of its family, lies below ``alpha``.

    Reports judge by Benjamini–Hochberg, contrasts that were registered by Holm.

    ``affected`` of the comparisons have this effect, the others none (1, the default, is the least favourable);
    comparisons are taken to be independent, which a shared control changes by less than 0.03. Raises ``AnalysisError``
    for an effect that the scores leave no room for.

    >>> achieved_power(BinaryWorld(0.5), 0.5, items=8, comparisons=8, rng=np.random.default_rng(0))
    0.0
    """
    _check_rates(alpha, 0.5, comparisons)
    if items < 2:
        raise AnalysisError("a paired comparison needs at least 2 items")
    if replicates < 1:
        raise AnalysisError("at least one replicate is needed")
    if not 1 <= affected <= comparisons:
        raise AnalysisError(f"affected is {affected}, it must lie in 1..{comparisons}")
    _check_room(world, effect)
    p_values = world.p_values(effect, items, replicates, rng, studies)
    if comparisons == 1:
        return float((p_values < alpha).mean())
    idle = world.p_values(0.0, items, replicates, rng, studies) if affected < comparisons else p_values
    in_family = ((p_values, affected - 1), (idle, comparisons - affected))
    others = np.hstack([rng.choice(drawn_from, size=(studies, count)) for drawn_from, count in in_family])
    others.sort(axis=1)
    if correction == "holm":
        # Step down: with the k smallest of the others rejected, an effect is where p < alpha / (m - k).
        passed = others < alpha / np.arange(comparisons, 1, -1)
        rejected = np.where(passed.all(1), comparisons - 1, np.argmin(passed, axis=1))
        return float((p_values < alpha / (comparisons - rejected)).mean())
    # Step up: an effect is found where p < alpha * k / m, with k the findings there would be if its own p were 0.
    ranks = np.arange(2, comparisons + 1)
    reached = others < alpha * ranks / comparisons
    findings = np.where(reached.any(1), comparisons - np.argmax(reached[:, ::-1], axis=1), 1)
    return float((p_values < alpha * findings / comparisons).mean())


def minimal_detectable_effect(
    world: PairedWorld,
    items: int,
    *,
    rng: Rng,
    replicates: int = 1,
    power: float = 0.8,
    loss: bool = False,
    **family: Unpack[FamilyOptions],
) -> float | None:
    """Smallest mean difference found with the required power (see :func:`achieved_power`), to within 0.001.

    A gain, or with ``loss`` a (negative) loss; ``None`` where not even the largest one is found, as with too few items
    for the test's least p-value or at an accuracy that leaves no room.

    >>> effect = minimal_detectable_effect(BinaryWorld(0.6), items=400, rng=np.random.default_rng(0))
    >>> bool(abs(effect - 0.085) < 0.004)
    True
    """
    reaches = _reaching(rng, world, power, family)
    far = world.room[0] if loss else world.room[1]
    if not reaches(far, items, replicates):
        return None
    low, high = 0.0, 1.0  # shares of the room
    while (high - low) * abs(far) > 0.001:
        middle = (low + high) / 2
        low, high = (low, middle) if reaches(middle * far, items, replicates) else (middle, high)
    return high * far


def required_items(
    world: PairedWorld,
    effect: float,
    *,
    rng: Rng,
    replicates: int = 1,
    power: float = 0.8,
    **family: Unpack[FamilyOptions],
) -> int | None:
    """Items needed to find ``effect``; ``None`` where two million do not suffice.

    >>> items = required_items(BinaryWorld(0.6), 0.1, rng=np.random.default_rng(0))
    >>> bool(270 <= items <= 300)
    True
    """
    _check_effect(world, effect)
    reaches = _reaching(rng, world, power, family)
    return smallest_number(lambda items: reaches(effect, items, replicates), 2, MOST_ITEMS)


def required_replicates(
    world: PairedWorld,
    effect: float,
    items: int,
    *,
    rng: Rng,
    power: float = 0.8,
    **family: Unpack[FamilyOptions],
) -> int | None:
    """Replicates per item needed to find ``effect`` with these items; ``None`` where not even 100 suffice.

    >>> required_replicates(BinaryWorld(0.6), 0.1, items=210, rng=np.random.default_rng(0))
    2
    """
    _check_effect(world, effect)
    reaches = _reaching(rng, world, power, family)
    return smallest_number(lambda replicates: reaches(effect, items, replicates), 1, MOST_REPLICATES)


def _reaching(
    rng: Rng, world: PairedWorld, power: float, family: FamilyOptions
) -> Callable[[float, int, int], bool]:
    """Whether a design reaches the power; every question gets the same random numbers, so that answers are ordered."""
    _check_rates(family.get("alpha", ALPHA), power, family.get("comparisons", 1))
    seed = int(rng.integers(1 << 62))

    def reaches(effect: float, items: int, replicates: int) -> bool:
        same = np.random.default_rng(seed)
        return achieved_power(world, effect, items, rng=same, replicates=replicates, **family) >= power

    return reaches


def smallest_number(
    holds: Callable[[int], bool], start: int, last: int, *, least: int | None = None, parts: int = 500
) -> int | None:
    """The smallest number from ``least`` (by default ``start``) on for which something holds, found by halving.

    To within one part in ``parts`` of it: 0.2 % by default, since a simulated power has a standard error of up to
    0.008 itself. What holds for a number has to hold for larger ones; ``None`` where it does for none up to ``last``.

    >>> smallest_number(lambda n: n * n >= 50, 1, 100)
    8
    """
    first = start if least is None else least
    low, high = first - 1, max(start, first)
    while not holds(high):
        if high >= last:
            return None
        low, high = high, min(2 * high, last)
    while high - low > max(1, high // parts):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@lru_cache(maxsize=512)
def _difference_masses(world: BinaryWorld, effect: float, replicates: int) -> FloatArray:
    """Integrate the two binomials over the copula: a grid of control rates, a coarser one of treated given those."""
    special = require("scipy.special", "stats")
    rows, columns = _GRID
    control = _beta_means(world.accuracy, world.noise)
    treated = _beta_means(min(max(world.accuracy + effect, 0.0), 1.0), world.noise)
    first = special.ndtri((np.arange(rows) + 0.5) / rows)[:, None]
    second = special.ndtri((np.arange(columns) + 0.5) / columns)[None, :]

    def rates(latent: float) -> FloatArray:
        uniform = special.ndtr(latent * first + math.sqrt(1 - latent**2) * second)
        return np.asarray(treated[np.minimum((uniform * rows).astype(np.int64), rows - 1)])

    spread = float(control.std()) * float(treated.std())

    def correlation(latent: float) -> float:
        shared = (control[:, None] * rates(latent)).mean() - control.mean() * rates(latent).mean()
        return float(shared) / spread

    # The copula's latent correlation is not that of the rates: it is searched for, to 2⁻¹⁶.
    latent = 0.0
    if spread > 1e-12 and world.correlation:
        low, high = sorted((0.0, math.copysign(1.0, world.correlation)))
        for _ in range(16):
            latent = (low + high) / 2
            low, high = (latent, high) if correlation(latent) < world.correlation else (low, latent)
    steps = np.arange(replicates + 1)
    ways = special.comb(replicates, steps)

    def binomial(rate: FloatArray) -> FloatArray:
        return np.asarray(ways * rate[..., None] ** steps * (1 - rate[..., None]) ** (replicates - steps))

    # Control's hits by treated's hits.
    joint = binomial(control).T @ binomial(rates(latent)).mean(axis=1) / rows
    masses = np.array([np.trace(joint, offset) for offset in range(-replicates, replicates + 1)])
    masses.setflags(write=False)
    return np.asarray(masses / masses.sum())


def _beta_means(rate: float, noise: float) -> FloatArray:
    """Means of the item rates within equal slices of their distribution, from the lowest."""
    special = require("scipy.special", "stats")
    rows = _GRID[0]
    if noise >= 1 or rate in (0.0, 1.0):
        return np.full(rows, rate)
    if rate > 0.5:  # quantiles next to 1 cannot be told apart in floating point; those next to 0 can
        return np.asarray(1.0 - _beta_means(1.0 - rate, noise)[::-1])
    edges = np.linspace(0.0, 1.0, rows + 1)
    if noise <= 0:
        return np.clip((edges[1:] - (1 - rate)) * rows, 0.0, 1.0)
    # Beta(size * rate, size * (1 - rate)) has the variance (1 - noise) * rate * (1 - rate).
    size = noise / (1 - noise)
    limits = special.betaincinv(size * rate, size * (1 - rate), edges)
    partial = rate * special.betainc(size * rate + 1, size * (1 - rate), limits)
    return np.asarray(np.clip(np.diff(partial) * rows, 0.0, 1.0))


def _lattice_p_values(counts: np.ndarray[tuple[int, int], np.dtype[np.int64]], replicates: int) -> FloatArray:
    """The exact sign-flip p-value of each row: how many item differences lie at -1, …, 1 in steps of 1/replicates."""
    special = require("scipy.special", "stats")
    up, down = counts[:, replicates + 1 :], counts[:, :replicates][:, ::-1]
    sizes, moved = np.arange(1, replicates + 1), up + down
    total = (sizes * (up - down)).sum(1)
    if replicates == 1:
        fewer = np.minimum(up[:, 0], down[:, 0])
        return np.where(moved[:, 0] > 0, np.minimum(1.0, 2 * special.bdtr(fewer, moved[:, 0], 0.5)), 1.0)
    points = 1 << int(2 * (sizes * moved).sum(1).max() + 1).bit_length()
    if points > _LONGEST_TRANSFORM:
        tails = _edgeworth_p(total, (sizes**2 * moved).sum(1), (sizes**4 * moved).sum(1))
        return np.asarray(np.maximum(tails, 2.0 ** (1.0 - moved.sum(1))))
    cosines = np.cos(np.outer(sizes, 2 * np.pi * np.arange(points // 2 + 1) / points))
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(np.abs(cosines)), -700.0)
    support = np.arange(points)
    support = np.where(support > points // 2, support - points, support)
    p_values = np.empty(len(counts))
    for start in range(0, len(counts), 500):
        part = slice(start, start + 500)
        sign = 1.0 - 2.0 * ((moved[part] @ (cosines < 0)) % 2)
        mass = np.fft.irfft(sign * np.exp(moved[part] @ logs), points, axis=1)
        extreme = np.abs(support)[None, :] >= np.abs(total[part])[:, None]
        p_values[part] = np.where(extreme, mass, 0.0).sum(1)
    return np.clip(p_values, 2.0 ** (1.0 - np.maximum(moved.sum(1), 1)), 1.0)


def flip_p_values(differences: FloatArray, *, grain: int = 0) -> FloatArray:
    """Two-sided sign-flip p-values of studies, a row of item differences each.

    Exact where differences lie on the grid of averages of ``grain`` 0/1 answers, else by the Edgeworth tail.

    >>> flip_p_values(np.array([[1.0, 1, 1, 1, 0]]), grain=1).tolist()
    [0.125]
    """
    if grain:
        steps = np.rint(differences * grain).astype(np.int64) + grain
        return _lattice_p_values(
            np.array([np.bincount(row, minlength=2 * grain + 1) for row in steps]), grain
        )
    tails = _edgeworth_p(differences.sum(1), (differences**2).sum(1), (differences**4).sum(1))
    return np.asarray(np.maximum(tails, 2.0 ** (1.0 - (differences != 0).sum(1))))


def _edgeworth_p(total: ArrayLike, squares: ArrayLike, fourths: ArrayLike) -> FloatArray:
    """Two-sided tail of Σ±|d|: the normal one, corrected for the negative excess kurtosis -2 Σd⁴/(Σd²)²."""
    special = require("scipy.special", "stats")
    second = np.asarray(squares, dtype=np.float64)
    safe = np.where(second > 0, second, 1.0)
    z = np.abs(np.asarray(total, dtype=np.float64)) / np.sqrt(safe)
    kurtosis = -2 * np.asarray(fourths, dtype=np.float64) / safe**2
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    tail = 2 * special.ndtr(-z) + density * kurtosis / 12 * (z**3 - 3 * z)
    floor = 1 / (1 + PERMUTATIONS)  # what drawn permutations cannot fall below
    return np.where(second > 0, np.clip(tail, floor, 1.0), 1.0)


def _check_rates(alpha: float, power: float, comparisons: int) -> None:
    if not (0 < alpha < 1 and 0 < power < 1):
        raise AnalysisError(f"alpha {alpha} and power {power} must lie between 0 and 1")
    if comparisons < 1:
        raise AnalysisError(f"comparisons is {comparisons}, at least 1 is needed")


def _check_effect(world: PairedWorld, effect: float) -> None:
    if not effect:
        raise AnalysisError("the effect is 0, it must be a gain or a loss", hint="0.02 is two points")
    _check_room(world, effect)


def _check_room(world: PairedWorld, effect: float) -> None:
    low, high = world.room
    if not low - 1e-9 <= effect <= high + 1e-9:
        hint = "a loss is a negative effect, or state another accuracy"
        raise AnalysisError(
            f"an effect of {effect:g} does not fit: changes from {low:g} to {high:g} do", hint=hint
        )
