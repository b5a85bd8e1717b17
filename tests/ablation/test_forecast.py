import math

import numpy as np
import pytest

from pcsuite.ablation.forecast import forecast, simulated_flips
from pcsuite.engines.adapters.simulated import SimulatedOptions
from pcsuite.errors import ConfigError


def test_the_smallest_effect_is_that_of_a_corrected_paired_test():
    # (z(1 - 0.05/2/5) + z(0.8)) * sqrt(0.2 / 400) = (2.5758 + 0.8416) * 0.02236
    assert forecast(400, 5, margin=0.05, flips=0.2).detectable == pytest.approx(0.0764, abs=2e-4)


def test_the_chance_to_find_a_null_block_is_that_of_the_test():
    # Phi(0.05 * sqrt(1000 / 0.3) - 1.645) = Phi(1.242) = 0.893
    assert forecast(1000, 5, margin=0.05, flips=0.3).finds_nulls == pytest.approx(0.893, abs=0.04)
    assert forecast(1000, 5, margin=0.05, flips=0.0).finds_nulls == 1.0
    assert forecast(50, 5, margin=0.02, flips=0.0).finds_nulls == 0.0


def test_the_least_items_for_a_claim_of_no_worse():
    least = forecast(100, 5, margin=0.02).least_for_no_worse
    assert forecast(math.floor(least * 0.9), 5, margin=0.02, flips=0.0).finds_nulls == 0.0
    assert forecast(least, 5, margin=0.02, flips=0.0).finds_nulls == 1.0


def test_a_share_is_between_0_and_1():
    with pytest.raises(ConfigError, match="--assume-flips 1.5"):
        forecast(100, 5, margin=0.02, flips=1.5)


def test_simulated_flips_are_those_of_two_equal_conditions():
    options = SimulatedOptions(base_accuracy=0.6, item_difficulty_sd=1.0)
    ease = np.random.default_rng(0).standard_normal(400_000)
    chance = 1 / (1 + np.exp(-(np.log(1.5) + ease)))
    assert simulated_flips(options, "t", ()) == pytest.approx(
        float((2 * chance * (1 - chance)).mean()), abs=2e-3
    )


@pytest.mark.parametrize(("items", "any_shape"), [(24, 0.33), (40, 0.22), (60, 0.15), (120, 0.10)])
def test_what_graded_scores_can_show_whatever_their_shape(items, any_shape):
    """Six blocks, differences with a standard deviation of 0.25; the simulation finds four of five at these effects."""
    found = forecast(items, 6, margin=0.02)
    assert found.detectable_any_shape == pytest.approx(any_shape, abs=0.015)
    # By signs: (z(1 - 0.05/12) + z(0.8)) * 0.25 / sqrt(n).
    assert found.detectable_symmetric == pytest.approx((2.638 + 0.8416) * 0.25 / items**0.5, abs=1e-3)
