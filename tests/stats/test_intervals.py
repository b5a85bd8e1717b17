"""Which interval a mean gets, by the number of its items and of those that leave the commonest value."""

import numpy as np
import pytest

from pcsuite.stats.bootstrap import bootstrap_mean, paired_bootstrap
from pcsuite.stats.intervals import CLOSED_FORM_ITEMS, MANY_ITEMS, MANY_MOVED, computed_interval
from pcsuite.stats.random_weights import mean_interval


@pytest.mark.parametrize("items", [3, MANY_ITEMS - 1])
def test_few_items_have_the_interval_of_random_weights(items):
    values = np.linspace(0.0, 1.0, items)
    assert computed_interval(values, 0.95, bounds=(0.0, 1.0)) == mean_interval(
        values, level=0.95, bounds=(0.0, 1.0)
    )


def test_many_items_of_which_few_move_have_it_too():
    values = np.zeros(5 * CLOSED_FORM_ITEMS)
    values[: MANY_MOVED - 2] = np.linspace(0.5, 1.0, MANY_MOVED - 2)
    found = paired_bootstrap(values, rng=np.random.default_rng(0))
    assert found.method == mean_interval(values, level=0.95, bounds=(-1.0, 1.0)).method


def test_between_the_two_numbers_the_interval_is_drawn_and_beyond_the_second_computed():
    assert computed_interval(np.linspace(0.0, 1.0, MANY_ITEMS), 0.95) is None
    drawn = bootstrap_mean(np.linspace(0.0, 1.0, CLOSED_FORM_ITEMS - 1), rng=np.random.default_rng(0))
    computed = bootstrap_mean(np.linspace(0.0, 1.0, CLOSED_FORM_ITEMS), rng=np.random.default_rng(0))
    assert (drawn.method, computed.method) == ("bootstrap expanded", "bootstrap expanded, closed form")
    # A symmetric sample: t_{999} · s/√n to either side of one half; of evenly spaced values s² is n(n + 1) / 12(n - 1)².
    n = CLOSED_FORM_ITEMS
    reach = 1.962341 * np.sqrt((n + 1) / 12) / (n - 1)
    assert (computed.low, computed.high) == pytest.approx((0.5 - reach, 0.5 + reach), abs=1e-6)


def test_sides_with_unequal_replicates_are_never_resampled():
    values = np.linspace(-1.0, 1.0, 3 * CLOSED_FORM_ITEMS)
    found = computed_interval(values, 0.95, bounds=(-1.0, 1.0), grain=0.5)
    assert found == mean_interval(values, level=0.95, bounds=(-1.0, 1.0), grain=0.5)
