"""Power of a plan: the textbook figure, a pilot's variances, and what a wanted effect needs."""

import math

import pytest
from scipy import stats

from pcsuite.config.load import load_suite
from pcsuite.runners.estimate import PowerSettings, plan_power
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_suite
from support.profiles import SIMULATED, write_profile


def plan_of(tmp_path, **changes):
    path = write_profile(tmp_path, items=40, conditions=("C0", "C3"), **changes)
    return path, build_plan(load_suite(path))


def test_stated_variances_give_the_formula(tmp_path):
    _, plan = plan_of(tmp_path, regimes=("d1_sampled",))
    (design,) = plan_power(plan, PowerSettings(accuracy=0.5, correlation=0.5, noise=0.5))
    # p(1-p) = 0.25, half within: between = 0.125 + 0.125 - 0.125, within 0.125 each, two replicates
    spread = 0.125 + 2 * 0.125 / 2
    reach = stats.t.ppf(0.975, 39) + stats.t.ppf(0.8, 39)
    assert design.detectable == pytest.approx(reach * math.sqrt(spread / 40))
    assert (design.items, design.replicates, design.comparisons, design.from_pilot) == (40, 2, 1, False)


def test_a_wanted_effect_at_the_detectable_size_needs_what_the_plan_has(tmp_path):
    _, plan = plan_of(tmp_path, regimes=("d1_sampled",))
    (design,) = plan_power(plan, PowerSettings())
    (again,) = plan_power(plan, PowerSettings(effect=design.detectable + 1e-6))
    assert again.items_needed == 40
    assert again.replicates_needed == 2
    (hopeless,) = plan_power(plan, PowerSettings(effect=0.01))
    assert hopeless.replicates_needed is None
    assert hopeless.items_needed > 10_000


def test_a_pilot_is_measured(tmp_path):
    sure = {"sim": SIMULATED | {"base_accuracy": 0.5, "item_difficulty_sd": 3.0}}
    path = write_profile(tmp_path, sure, items=40, conditions=("C0", "C3"), regimes=("d1_sampled",))
    summary = run_suite(load_suite(path), quiet=True)
    (design,) = plan_power(build_plan(load_suite(path)), PowerSettings(), summary.paths.log)
    assert design.from_pilot
    assert 0 < design.variances.within_a < 0.25
    assert 0.02 < design.detectable < 0.5
