"""A server that answers from a seeded list of faults: the run finishes with an answer or an error row for every unit."""

import pytest

from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.logging.audit import audit_log
from pcsuite.logging.log import newest_rows
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_plan
from support.fault_server import FAULTS, FaultServer
from support.profiles import write_profile

SEEDS = range(5)


def test_the_list_is_long_enough():
    assert len(FAULTS) >= 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_of_faults_leaves_a_row_for_every_unit(tmp_path, seed):
    with FaultServer(seed) as server:
        model = {
            "provider": "openai",
            "family": "f",
            "size": "1B",
            "base_url": server.base_url,
            "timeout_s": 0.5,
            "tools": seed % 2 == 1,
        }
        path = write_profile(
            tmp_path,
            {"m": model},
            conditions=("C0", "C2", "C3"),
            regimes=("D0",),
            items=40,
            repro={"max_inflight": 8},
            limits={"max_items_per_task": 40, "stop_on_error_rate": 1.0},
        )
        plan = build_plan(load_suite(path))
        policy = RetryPolicy(max_attempts=2, base_s=0.001, cap_s=0.01, max_retry_after_s=0.1)
        summary = run_plan(plan, quiet=True, policy=policy, use_cache=False)
        wanted = {unit.run_id for unit in plan.units("m")}
        rows = newest_rows(summary.paths.log)
        assert {row.run_id for row in rows} == wanted
        assert len(wanted) == 120
        assert all(bool(row.errors) != (row.generation is not None) for row in rows)
        assert all("\n" not in error and len(error) < 2500 for row in rows for error in row.errors)
        unforeseen = [
            e
            for row in rows
            for e in row.errors
            if e.startswith(("asking:", "preparing:", "scoring:", "writing:"))
        ]
        assert unforeseen == []
        answered = [row.generation for row in rows if row.generation and row.generation.usage]
        assert all(generation.usage.total_tokens >= 0 for generation in answered)
        assert audit_log(summary.paths, wanted).problems == []
        assert len(set(server.used)) >= 60
        assert 0 < summary.tally.failed < 120
