"""What an ablation will take and be able to say, before anything is called.

All of it rests on one number: the share of answers that flip when a change without effect is made to the prompt. The
A/A arm measures it; until then it is assumed, and the assumption is printed.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from pcsuite.ablation.arm_measures import ArmMeasures
from pcsuite.ablation.arms import AGAIN, FULL, shared_prefix
from pcsuite.ablation.reading import SIMULATED
from pcsuite.ablation.replicates import as_noted
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.study import FINGERPRINT, Study, prepare
from pcsuite.ablation.verdicts import POWER, flip_rate
from pcsuite.contrasts import ALPHA, ArmScores, shown_no_worse
from pcsuite.engines.adapters.simulated import SimulatedOptions, accuracy_logit
from pcsuite.errors import ConfigError, require
from pcsuite.logging.ledger import read_spent
from pcsuite.logging.log import ResumeIndex
from pcsuite.runners.estimate import estimate_plan, total_cost
from pcsuite.runners.plan import Plan, build_plan
from pcsuite.stats.shape_free import shape_free_test

FLIPS = 0.1
"""Share of answers assumed to flip where nothing is known."""
GRADED_SPREAD = 0.25
"""Standard deviation of the differences of graded scores that reach is forecast for."""
_STRATA = 9
"""Quantiles at which the number of flips is taken."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The reach of a design."""

    items: int
    blocks: int
    margin: float
    flips: float
    detectable: float
    """Smallest effect of a block on the score that is found with 80 % power, after the correction over blocks."""
    detectable_any_shape: float
    """The same of graded scores whose differences have a standard deviation that is told (by default
    :data:`GRADED_SPREAD`), by limits that hold whatever their shape."""
    detectable_symmetric: float
    """The same by sign flips, unless rare large opposite cases exist."""
    finds_nulls: float
    """Chance that a block without any effect is found to be no worse without it."""
    least_for_no_worse: int
    """Items below which "no worse without it" cannot be said of a block that changes no answer."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What ``--show`` says: the blocks, the arms and their reach, before anything is called."""

    study: Study
    tokens: Mapping[str, int]
    """Tokens of each block, about four characters a token."""
    rows: int
    done: int
    """Rows that the log has already."""
    max_tokens: int
    """Tokens of the rows still to be made if every answer runs to its limit; trimming comes on top."""
    max_cost_usd: float | None
    forecast: Forecast
    """Of related items as if all of a cluster answered alike: what the clusters alone can show."""
    if_unrelated: Forecast | None
    """The same as if related items answered independently; ``None`` where no two items are related."""
    flips_from: str
    prefix: float
    """Share of the characters sent that stand at the beginning of the prompt before, in the order of calls."""
    prefix_as_listed: float
    """The same for the arms in the order in which the design lists them."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What is still to be asked, and its price at that of what was."""

    rows_left: int
    hours: float
    """What these take at the pace so far."""
    usd: float
    """What they cost at what one has cost so far."""
    usd_left: float | None
    """What is left of the budget; ``None`` where there is none."""
    hours_left: float | None

    @property
    def affordable(self) -> bool:
        """Whether what is left pays for the rest."""
        return not (
            (self.usd_left is not None and self.usd > self.usd_left)
            or (self.hours_left is not None and self.hours > self.hours_left)
        )


@dataclass(frozen=True, slots=True)
class NoiseForecast(Rest):
    """What the A/A arm says, on the first items, of the rest: its reach and its price, before it is paid."""

    study: Study
    asked: int
    """Items that the full prompt and the A/A arm have both answered."""
    measured: int
    """Answers of each of these items."""
    replicates: int
    """Answers an item of the whole ablation."""
    noise: float
    """Mean squared difference of an item's two scores though nothing but a line end differs; of 0/1 scores of one
    answer each the share that flips."""
    graded: bool
    forecast: Forecast
    another_replicate: float | None
    """Smallest effect found with one more answer an item; ``None`` where a model answers greedily, and would say the
    same."""

    @property
    def detectable(self) -> float:
        """Smallest effect of a block that is found with 80 % power, after the correction over blocks."""
        return self.forecast.detectable_any_shape if self.graded else self.forecast.detectable


def price_of_rest(request: AblationRequest, log: Path, rows_left: int) -> Rest:
    """What so many rows take at the pace and the cost so far, and what the request leaves for them."""
    spent = read_spent(log)
    calls = max(1, sum(line.calls for line in spent.starts))
    return Rest(
        rows_left,
        rows_left * spent.seconds / calls / 3600,
        rows_left * spent.cost_usd / calls,
        None if request.budget_usd is None else max(0.0, request.budget_usd - spent.cost_usd),
        None if request.budget_hours is None else max(0.0, request.budget_hours - spent.seconds / 3600),
    )


def forecast_by_noise(study: Study, arms: Mapping[str, ArmScores], rest: Rest) -> NoiseForecast | None:
    """What the A/A arm on the items so far says of the whole ablation; ``None`` where fewer than two items have both.

    Both prompts say the same, so the noise lies within the items: of a mean over more answers than it was measured on
    it is less in proportion (Miller 2024); twice the items lessen all of it, so they come first where there are any.
    """
    noise = flip_rate(arms[FULL].values, arms[AGAIN].values)
    if not math.isfinite(noise):
        return None
    differences = arms[FULL].values - arms[AGAIN].values
    asked = int(np.isfinite(differences).sum())
    if asked < 2:
        return None
    request = study.request
    greedy = study.base.regimes[request.regime].greedy
    measured, replicates = max(1, round(arms[FULL].replicates)), study.answers
    alike = greedy and not study.varies  # asked again, the same answer comes
    graded = not all(arms[name].binary for name in (FULL, AGAIN))
    blocks, units = len(study.free) * len(study.each), study.clusters

    def reach(of: float) -> Forecast:
        return forecast(
            units, blocks, margin=request.margin, flips=min(1.0, of), spread=math.sqrt(max(of, 1 / units))
        )

    found = NoiseForecast(
        **asdict(rest),
        study=study,
        asked=asked,
        measured=measured,
        replicates=replicates,
        noise=noise,
        graded=graded,
        forecast=reach(noise * measured / replicates),
        another_replicate=None,
    )
    if alike:
        return found
    more = replace(found, forecast=reach(noise * measured / (replicates + 1)))
    return replace(found, another_replicate=more.detectable)


def forecast(
    items: int, blocks: int, *, margin: float, flips: float = FLIPS, spread: float = GRADED_SPREAD
) -> Forecast:
    """What so many items can show of so many blocks if ``flips`` of the answers flip by chance.

    ``spread`` is the standard deviation of the differences of graded scores. The chance of finding a block without
    effect is that of the test itself on flips that go either way. Raises ``ConfigError`` for a share that is none.
    """
    if not 0 <= flips <= 1:
        raise ConfigError(f"--assume-flips {flips}: a share between 0 and 1 is needed")
    special = require("scipy.special", "stats")
    # Two-sided, Bonferroni over blocks; of 0/1 scores without an effect the share that flips is the variance.
    reach = float(special.ndtri(1 - ALPHA / 2 / blocks) + special.ndtri(POWER))

    def enough(count: int) -> bool:
        return _holds(count, 0, 0, margin)

    most = 2
    while not enough(most) and most <= 10**6:
        most *= 2
    return Forecast(
        items,
        blocks,
        margin,
        flips,
        detectable=min(1.0, reach * math.sqrt(max(flips, 1 / items) / items)),
        detectable_any_shape=_detectable_any_shape(items, blocks, spread),
        detectable_symmetric=min(1.0, reach * spread / math.sqrt(items)),
        finds_nulls=_chance_to_find_a_null(items, margin, flips),
        least_for_no_worse=_least(enough, most // 2, most),
    )


def _detectable_any_shape(items: int, blocks: int, spread: float) -> float:
    """The least mean difference that limits of any shape tell from 0, in four of five samples of normal scores.

    A sample is stood for by its quantiles; what power adds is the standard error of its mean times the power's own
    quantile.
    """
    special = require("scipy.special", "stats")
    if items < 2:
        return 1.0
    scores = special.ndtri((np.arange(items) + 0.5) / items)
    scores *= spread / scores.std()

    def shown(mean: float) -> bool:
        sample = np.clip(scores + mean, -1.0, 1.0)
        return shape_free_test(sample, bounds=(-1.0, 1.0)).p_value < ALPHA / blocks

    low, high = 0.0, 1.0
    if not shown(high):
        return 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return min(1.0, high + float(special.ndtri(POWER)) * spread / math.sqrt(items))


def _chance_to_find_a_null(items: int, margin: float, flips: float) -> float:
    """Chance that the test itself says "no worse" of a block whose flips go either way alike.

    The number of flips is taken at a few quantiles of its distribution; for each, the least gain that passes is found
    by bisection, and the chance of such a gain or more is the binomial one.
    """
    # scipy.stats has a binomial too, and takes a second to import.
    special = require("scipy.special", "stats")
    at_most = special.bdtr(np.arange(items + 1), items, flips)
    chances = []
    for stratum in range(_STRATA):
        moved = int(np.searchsorted(at_most, (stratum + 0.5) / _STRATA))

        def passes(gains: int, moved: int = moved) -> bool:
            return _holds(items, gains, moved - gains, margin)

        if not passes(moved):
            chances.append(0.0)
            continue
        chances.append(float(special.bdtrc(_least(passes, -1, moved) - 1, moved, 0.5)))
    return sum(chances) / len(chances)


def _least(passes: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number above ``low`` that passes, by bisection; ``high`` where none below it does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _holds(items: int, gains: int, losses: int, margin: float) -> bool:
    deltas = np.concatenate([np.ones(gains), -np.ones(losses), np.zeros(items - gains - losses)])
    test = shown_no_worse(deltas, margin=margin)
    return test is not None and test.shown


def preview(request: AblationRequest) -> Preview:
    """Read everything, choose the arms and say what they take and what they can find; nothing is called.

    Raises what :func:`pcsuite.ablation.study.prepare` raises.
    """
    study = prepare(request)
    note = study.folder / FINGERPRINT
    if note.is_file() and note.read_text(encoding="utf-8").partition("\n")[0] == study.fingerprint():
        return _preview(as_noted(study))  # it has begun: what its log has counts
    with tempfile.TemporaryDirectory(prefix="pcsuite-ablate-") as folder:
        shown = _preview(replace(study, folder=Path(folder)))
        return replace(shown, study=study)


def _preview(study: Study) -> Preview:
    suite = study.write(study.design.first)
    plan = build_plan(suite)
    sizes = estimate_plan(plan)
    flips, basis = _expected_flips(study, plan)
    listed = list(study.design.first)
    comparisons = len(study.design.changed) or len(study.free) * len(study.each)
    ordered = [next(arm for arm in listed if arm.id == cell.condition.id) for cell in plan.cells]
    return Preview(
        study,
        {block.name: math.ceil(len(block.text) / 4) for block in study.prompt.blocks},
        plan.calls,
        sum(size.done for size in sizes),
        sum(size.max_tokens for size in sizes),
        total_cost(sizes),
        forecast(study.clusters, comparisons, margin=study.request.margin, flips=flips),
        forecast(study.count, comparisons, margin=study.request.margin, flips=flips)
        if study.clusters < study.count
        else None,
        basis,
        shared_prefix(ordered, study.prompt),
        shared_prefix(listed, study.prompt),
    )


def _expected_flips(study: Study, plan: Plan) -> tuple[float, str]:
    """Share of answers that a change without effect flips, and where the number comes from."""
    request = study.request
    if request.assume_flips is not None:
        return request.assume_flips, "as --assume-flips says"
    if study.log.is_file():
        measured = ArmMeasures(plan)
        ResumeIndex.read(study.log, measured.take)
        measured.add(plan)
        scores = measured.scores
        if FULL in scores and AGAIN in scores and np.isfinite(scores[FULL] - scores[AGAIN]).sum() >= 20:
            return flip_rate(scores[FULL], scores[AGAIN]), "measured by the A/A arm so far"
    if study.model.provider == SIMULATED:
        options = SimulatedOptions.model_validate(study.model.provider_options())
        return simulated_flips(options, study.task.id, study.free), "by the simulated model's own settings"
    return FLIPS, "assumed; the A/A arm will measure it"


def simulated_flips(options: SimulatedOptions, task_id: str, operators: Iterable[str]) -> float:
    """Share of 0/1 answers that differ between two conditions of a simulated model with the same true accuracy.

    2·E[p(1-p)] over items, by quadrature over their difficulty and the noise of calls.
    """
    centre = accuracy_logit(options, task_id, operators)
    points, weights = np.polynomial.hermite_e.hermegauss(64)
    chance = 1 / (1 + np.exp(-(centre + options.item_difficulty_sd * points)))
    return float((2 * chance * (1 - chance) * weights).sum() / weights.sum())
