from __future__ import annotations

from pcsuite.config.load import load_suite
from pcsuite.runners.estimate import estimate_plan
from pcsuite.runners.plan import build_plan
from support.loop_profiles import loopback_profile


def test_loops_and_retries_are_estimated_at_their_most(tmp_path):
    path = loopback_profile(
        tmp_path,
        "http://127.0.0.1:9/v1",
        options={"price_in": 1.0, "price_out": 2.0},
        selection={"conditions": ["C4", "C4R", "C7"]},
    )
    single, retry, loop = estimate_plan(build_plan(load_suite(path)))
    prompt = single.prompt_tokens
    assert single.max_tokens == 6 * (prompt + 260)
    # Three attempts, one completion limit; two retries repeat 1,500 characters each.
    assert retry.max_tokens == 6 * (3 * prompt + 750 + 260)
    # Five turns; the prompts repeat 0 + 1 + 2 + 3 + 4 turns of 2,000 characters.
    assert loop.max_tokens == 6 * (5 * loop.prompt_tokens + 5_000 + 5 * 260)
    assert loop.max_cost_usd * 1e6 == 6 * ((5 * loop.prompt_tokens + 5_000) * 1.0 + 5 * 260 * 2.0)
