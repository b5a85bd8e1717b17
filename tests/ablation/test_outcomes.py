"""Costs and durations as outcomes: a change is said where it is shown, and nowhere else."""

import numpy as np
import pytest

from pcsuite.ablation.outcomes import measure_changes

ITEMS = 60


def table_of(tokens_without, rng):
    full = rng.normal(100, 5, ITEMS)
    of_tokens = {"full": full} | {arm: full + change for arm, change in tokens_without.items()}
    same = {arm: np.full(ITEMS, 3.0) for arm in of_tokens}
    return {"completion_tokens": of_tokens, "prompt_tokens": same, "cost_usd": same, "latency_ms": same}


def changes(tokens_without, *, most=None, seed=1, clusters=None, **more):
    rng = np.random.default_rng(seed)
    table = table_of({arm: change(rng) for arm, change in tokens_without.items()}, rng)
    left_out = {arm.removeprefix("-"): arm for arm in tokens_without}
    return measure_changes(table, left_out, clusters, most=most or len(left_out), rng=rng, **more)


def test_a_block_that_makes_answers_longer_is_told_with_its_share():
    (found,) = changes(
        {"-rules": lambda rng: rng.normal(-18, 6, ITEMS), "-tone": lambda rng: rng.normal(0, 6, ITEMS)}
    )
    assert (found.name, found.measure) == ("rules", "completion_tokens")
    assert found.change.value == pytest.approx(-18, abs=2.5)
    assert found.change.high < 0
    assert found.share == pytest.approx(-0.18, abs=0.03)
    assert found.p_value < 0.001


def test_prompt_tokens_are_no_finding_and_time_of_a_simulated_model_is_none():
    rng = np.random.default_rng(2)
    full = rng.normal(100, 5, ITEMS)
    table = {
        "prompt_tokens": {"full": full, "-a": full - rng.normal(10, 1, ITEMS)},
        "latency_ms": {"full": full, "-a": full - rng.normal(10, 1, ITEMS)},
    }
    shown = measure_changes(table, {"a": "-a"}, None, most=1, rng=rng)
    assert [entry.measure for entry in shown] == ["latency_ms"]
    assert measure_changes(table, {"a": "-a"}, None, most=1, rng=rng, simulated=True) == []


def test_limits_hold_for_all_blocks_and_measures_together():
    """Over 200 studies of six blocks without effect any claim is made in 5 % at most; 10 % is 3 standard errors off."""
    nothing = {f"-b{number}": lambda rng: rng.normal(0, 8, ITEMS) for number in range(6)}
    false = sum(bool(changes(nothing, seed=seed)) for seed in range(200))
    assert false <= 20


def test_copies_count_once():
    """Five copies of twelve texts: as if 60 items a shift of 0.7 standard deviations would be shown."""
    copies = np.repeat(np.arange(12), 5)

    def shifted(rng):
        return np.repeat(rng.normal(-4, 8, 12), 5)

    alone = sum(bool(changes({"-a": shifted}, seed=seed)) for seed in range(60))
    grouped = sum(bool(changes({"-a": shifted}, seed=seed, clusters=copies)) for seed in range(60))
    assert grouped < alone
