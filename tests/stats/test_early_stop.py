import numpy as np
import pytest

from pcsuite.stats.early_stop import StoppingRule, stopped_mean
from pcsuite.stats.sequential import confidence_sequence

STUDIES = 160
RULE = StoppingRule(batch=8, level=0.9, margin=0.1, no_worse=True)


def stop_at(values, clusters=None):
    """Items seen when the rule stops, by the limits themselves."""
    low, high = -1.0, 1.0
    ends = range(RULE.batch, len(values) + RULE.batch, RULE.batch)
    for end in (min(end, len(values)) for end in ends):
        while clusters is not None and end < len(values) and clusters[end] == clusters[end - 1]:
            end += 1
        part = None if clusters is None else clusters[:end]
        seen = confidence_sequence(values[:end], level=RULE.level, looks=[end], clusters=part)
        low, high = max(low, float(seen.low[0])), min(high, float(seen.high[0]))
        if low > 0 or high < 0 or low > -RULE.margin:
            break
    return end


@pytest.mark.parametrize("clustered", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_mean_at_the_stop_has_no_bias(clustered):
    """Truth 0.25; the plain mean at the stop is too large by more than 0.02, this one is not."""
    draws = np.random.default_rng(4)
    plain, free = [], []
    for _ in range(STUDIES):
        values = draws.choice([1.0, 0.0, -1.0], p=[0.35, 0.55, 0.1], size=48)
        clusters = None
        if clustered:
            clusters = np.repeat(np.arange(48), draws.integers(1, 3, 48))
            values = values[clusters]
        end = stop_at(values, clusters)
        part = None if clusters is None else clusters[:end]
        plain.append(values[:end].mean())
        free.append(stopped_mean(values[:end], RULE, rng=draws, clusters=part, orders=100))
    assert np.mean(plain) - 0.25 > 0.02
    assert abs(np.mean(free) - 0.25) < 3 * np.std(free) / STUDIES**0.5
    assert abs(np.mean(free) - 0.25) < 0.02


def test_it_is_the_mean_of_the_first_batch_over_all_orders_that_stop_at_the_same_look():
    """Seven gains and a loss in batches of two, stopped at the last look: by hand.

    With four gains at first the run would have stopped after them, so the loss was among the first four; it was among
    the first two, whose mean is then 0 instead of 1, in half of these orders.
    """
    rule = StoppingRule(batch=2, level=0.2)
    values = np.ones(8)
    values[2] = -1.0
    looks = confidence_sequence(values, level=0.2, looks=[2, 4, 6, 8])
    assert (looks.low > 0).tolist() == [False, False, False, True]
    assert confidence_sequence(np.ones(4), level=0.2).low[-1] > 0
    found = stopped_mean(values, rule, rng=np.random.default_rng(0), orders=4000)
    assert found == pytest.approx(0.5, abs=0.03)


def test_a_single_look_has_nothing_to_correct():
    assert stopped_mean(
        [1.0, 0.0, 1.0], StoppingRule(batch=5), rng=np.random.default_rng(0)
    ) == pytest.approx(2 / 3)


def test_other_bounds_are_scaled():
    values = [4.0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    rule = StoppingRule(batch=4)
    scaled = stopped_mean(np.array(values) / 4, rule, rng=np.random.default_rng(0))
    assert stopped_mean(values, rule, rng=np.random.default_rng(0), bound=4.0) == pytest.approx(4 * scaled)
