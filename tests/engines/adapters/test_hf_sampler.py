"""The sampler of the hf provider, which needs torch for draws on a device alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pcsuite.engines.adapters._hf_sampler import (
    SHORTLIST,
    BatchRow,
    _draw_on_device,
    choose,
    draw_key,
    sample_token,
    uniform,
)
from pcsuite.engines.adapters.base import Decoding

KEY = draw_key("prompt", 1)


def test_draws_are_a_function_of_prompt_seed_and_position():
    assert uniform(KEY, 3) == uniform(draw_key("prompt", 1), 3)
    others = [uniform(KEY, 4), uniform(draw_key("prompt", 2), 3), uniform(draw_key("other", 1), 3)]
    assert uniform(KEY, 3) not in others
    draws = np.array([uniform(KEY, position) for position in range(4000)])
    assert draws.min() >= 0
    assert draws.max() < 1
    # A uniform mean of 4000 draws has standard error 0.2887/sqrt(4000) = 0.0046; five of them are allowed.
    assert abs(draws.mean() - 0.5) < 0.023


@pytest.mark.parametrize(
    ("draw", "token"),
    # The nucleus of 0.8 is tokens 2 (0.5) and 0 (0.3). By id: token 0 has 0.375 of its mass, token 2 the rest.
    [(0.0, 0), (0.37, 0), (0.38, 2), (0.999, 2)],
)
def test_the_nucleus_by_hand(draw, token):
    assert choose(np.array([0.3, 0.05, 0.5, 0.15]), np.array([0, 1, 2, 3]), 0.8, draw) == token


def test_ties_are_ordered_by_token_id():
    tokens = np.array([7, 3, 5])
    equal = np.full(3, 1 / 3)
    assert [choose(equal, tokens, 1.0, draw) for draw in (0.1, 0.5, 0.9)] == [3, 5, 7]


def test_rounding_that_swaps_two_tokens_does_not_move_the_draw():
    tokens = np.array([4, 9, 2])
    one, other = np.array([0.4 + 1e-9, 0.4, 0.2]), np.array([0.4, 0.4 + 1e-9, 0.2])
    for draw in (0.05, 0.3, 0.5, 0.7, 0.95):
        assert choose(one, tokens, 0.99, draw) == choose(other, tokens, 0.99, draw)


def test_greedy_takes_the_most_likely_and_the_first_of_equals():
    assert sample_token(np.array([0.0, 2.0, 2.0]), Decoding("d0", 0.0, 1.0, 4), KEY, 0) == 1


def test_masked_tokens_are_never_drawn():
    logits = np.array([-np.inf, 1.0, -np.inf, 0.5])
    drawn = {sample_token(logits, Decoding("d1", 5.0, 1.0, 4), KEY, position) for position in range(200)}
    assert drawn == {1, 3}


def test_frequencies_follow_temperature():
    # Logits ln 3 and 0 at temperature 0.5 give odds 9:1; 2000 draws of p = 0.9 have sd 0.0067.
    logits = np.array([math.log(3), 0.0])
    drawn = [sample_token(logits, Decoding("d1", 0.5, 1.0, 4), KEY, position) for position in range(2000)]
    assert abs(drawn.count(0) / 2000 - 0.9) < 0.034


def test_a_flat_distribution_needs_more_than_the_shortlist():
    logits = np.zeros(4 * SHORTLIST)
    decoding = Decoding("d1", 1.0, 0.95, 4)
    drawn = {sample_token(logits, decoding, KEY, position) for position in range(3000)}
    # 95 % of 1024 equal tokens is the first 973 by id.
    assert max(drawn) == 972
    assert len(drawn) > 850


@pytest.mark.parametrize("spread", [0.5, 3.0, 12.0])
@pytest.mark.parametrize("top_p", [0.3, 0.95, 1.0])
def test_draws_on_the_device_are_the_draws_row_by_row(spread, top_p):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    logits = torch.randn(40, 3000) * spread
    logits[:5, 100:400] = float("-inf")
    logits[5:10] = logits[5:10].round()  # ties
    regimes = [Decoding("d1", temperature, top_p, 9) for temperature in (0.0, 0.4, 0.7, 1.3)]
    rows = [BatchRow(regimes[number % 4], draw_key("prompt", number), tokens=[1, 2]) for number in range(40)]
    live = list(range(0, 40, 3)) + list(range(1, 40, 3))
    one_by_one = [
        sample_token(logits[index].float().cpu().numpy(), row.decoding, row.key, len(row.tokens))
        for index, row in enumerate(rows[:40])
    ]
    assert _draw_on_device(logits, rows, live) == [one_by_one[index] for index in live]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert _draw_on_device(logits.to(device), rows, list(range(40))) == one_by_one
