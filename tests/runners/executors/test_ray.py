"""A run on several node processes: the local executor's log, whatever is killed on the way."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import msgspec
import pytest

from pcsuite.config.load import load_suite
from pcsuite.logging.log import RunPaths, iter_rows, read_prompts
from pcsuite.logging.looks import read_looks
from pcsuite.runners.run_suite import run_suite
from support.judged import write_judged_profile
from support.loopback import LoopbackServer
from support.profiles import SIMULATED, write_profile
from support.ray_cluster import RayNodes
from support.tiny_gguf import tiny_model

if importlib.util.find_spec("ray") is None:
    pytest.skip("the extra 'ray' is not installed", allow_module_level=True)

PATIENCE_S = 300
GOLD = '{"label": "World", "confidence": 0.9, "rationale": "it is about a country"}'


@pytest.fixture(scope="module")
def nodes():
    """A head without worker slots, and two nodes with one each: whoever works can be killed."""
    with RayNodes(0, 1, 1) as cluster:
        yield cluster


def rows_of(log):
    """Rows by run id without what differs from call to call, and how many lines the log has."""
    rows = {}
    logged = list(iter_rows(log))
    for row in logged:
        generation = {name: getattr(row.generation, name) for name in row.generation.__struct_fields__}
        generation.pop("latency_ms")
        fields = {name: getattr(row, name) for name in row.__struct_fields__}
        fields |= {
            "generation": generation,
            "timestamp_utc": "",
            "config_hash": "",
            "profile": "",
        }  # with its name
        rows[row.run_id] = fields
    return rows, len(logged)


def lines(log):
    return log.read_bytes().count(b"\n") if log.exists() else 0


def wait_for_rows(process, log, count):
    deadline = time.monotonic() + PATIENCE_S
    while lines(log) < count:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "no rows came"
        time.sleep(0.05)


def finish(process):
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    return output


def test_a_run_equals_the_local_one_though_its_driver_and_a_node_are_killed(nodes, tmp_path):
    slow = SIMULATED | {"latency_ms": 90, "error_rate": 0.02, "seed_noise_sd": 0.5}
    seeds = {"seeds": {"D1": ["1..10"]}, "seeds_per_task": {"default": 10}, "max_inflight": 16}
    path = write_profile(
        tmp_path,
        {"sim": slow, "other": slow},
        tasks=("agnews_json", "gsm8k"),
        regimes=("D1",),
        items=12,
        repro=seeds,
    )
    local = run_suite(load_suite(path, {"run.name": "local"}), quiet=True).paths
    expected, count = rows_of(local.log)
    assert count == len(expected) == 2 * 2 * 12 * 3 * 10

    there = RunPaths.of(tmp_path / "outputs", "cluster")
    first = nodes.run(path, "--name", "cluster")
    wait_for_rows(first, there.log, 120)
    first.send_signal(signal.SIGKILL)  # the driver is lost: its workers end with it
    first.communicate()
    kept = lines(there.log)
    assert 120 <= kept < count

    second = nodes.run(path, "--name", "cluster")
    wait_for_rows(second, there.log, kept + 120)
    assert nodes.kill_a_busy_node() >= 0
    output = finish(second)
    assert "lost a worker on node" in output
    assert "were done before" in output
    assert "raylet" not in output  # Ray is quiet
    rows, logged = rows_of(there.log)
    assert logged == len(rows)  # nothing twice
    assert rows == expected  # nothing lost, and everything as the local executor has it
    hashes = {row["prompt"].prompt_hash for row in rows.values()}
    assert read_prompts(there.prompts, hashes) == read_prompts(local.prompts, hashes)


def test_workers_share_one_rate_limit_and_one_budget(nodes, tmp_path):
    with LoopbackServer(answer=lambda body: GOLD, delay_s=0.02) as server:
        remote = {
            "provider": "openai",
            "family": "f",
            "size": "7B",
            "params_b": 7,
            "base_url": server.base_url,
            "model": "m",
        }
        limit = 6_000
        path = write_profile(
            tmp_path,
            {"remote": remote},
            conditions=("C0", "C3"),
            items=12,
            repro={
                "max_inflight": 6,
                "seeds": {"D0": [0], "D1": ["1..60"]},
                "seeds_per_task": {"default": 60},
            },
            limits={"max_items_per_task": 12, "max_tokens_overall": limit},
            length_control="off",
        )
        process = nodes.run(path, "--quiet", "--workers", "2")
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3
    assert "the budget is used up" in output
    assert f"of {limit} tokens" in output
    assert len(output.strip().splitlines()) == 1
    rows, logged = rows_of(tmp_path / "outputs" / "runs" / "t.jsonl")
    assert logged == len(rows) > 0
    spent = sum(row["generation"]["usage"].total_tokens for row in rows.values())
    assert limit / 2 < spent <= limit
    assert len(server.bodies) == logged  # every call that was made is in the log
    assert server.peak_in_flight <= 6


TWO_PLANS = """
import asyncio, sys
from pcsuite.config.load import load_suite
from pcsuite.engines.limits import RetryPolicy
from pcsuite.logging.log import RunLog, RunPaths
from pcsuite.runners.executors import EXECUTORS, ExecutorChoice
from pcsuite.runners.edits import registered_perturbation
from pcsuite.runners.plan import build_plan
from pcsuite.runners.run_suite import run_into
from pcsuite.runners.pipeline import Work

profile, address, output = sys.argv[1:]
plans = [build_plan(load_suite(profile, {"selection.conditions": [name]})) for name in ("C0", "C3")]
work = Work(plans[0], RetryPolicy(), registered_perturbation, False, None)

async def main():
    choice = ExecutorChoice("ray", address, 1)
    async with EXECUTORS.get("ray")(work, choice, quiet=True) as executor:
        with RunLog(RunPaths.of(output, "both")) as log:
            for plan in plans:
                print((await run_into(log, plan, executor, quiet=True)).tally.done)

asyncio.run(main())
"""


def test_one_executor_can_carry_out_several_plans(nodes, tmp_path):
    path = write_profile(tmp_path, items=4)
    result = subprocess.run(
        [sys.executable, "-c", TWO_PLANS, str(path), nodes.address, str(tmp_path / "outputs")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ | nodes.environment,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["12", "12"]  # 4 items, 3 seeds
    rows, logged = rows_of(tmp_path / "outputs" / "runs" / "both.jsonl")
    assert logged == len(rows) == 24
    assert {row["condition"].id for row in rows.values()} == {"C0", "C3"}


@pytest.mark.model
def test_llama_cpp_gives_the_same_rows_in_copies(nodes, tmp_path):
    path = write_profile(tmp_path, {"tiny": tiny_model()}, conditions=("C0", "C6"), regimes=("D0",), items=1)
    local = run_suite(load_suite(path, {"run.name": "local"}), quiet=True, use_cache=False).paths.log
    finish(nodes.run(path, "--name", "cluster", "--no-cache"))
    rows, logged = rows_of(tmp_path / "outputs" / "runs" / "cluster.jsonl")
    expected, _ = rows_of(local)
    assert logged == len(rows) == 2
    assert rows == expected


def test_a_wrong_token_is_one_line(nodes, tmp_path):
    # Ray would ask twenty times, a second apart, and is refused each time.
    wrong = {"RAY_AUTH_TOKEN": "0" * 64, "RAY_NUM_REDIS_GET_RETRIES": "3"}
    process = nodes.run(write_profile(tmp_path, items=1), "--quiet", **wrong)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "did not accept this process: its token is missing or wrong" in output
    assert len(output.strip().splitlines()) == 1


def marked_processes(mark):
    """Processes that inherited an environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes())
            except OSError:
                continue
    return found


def test_a_cluster_that_the_run_starts_ends_with_it(tmp_path):
    path = write_profile(tmp_path, items=3)
    mark = uuid.uuid4().hex
    unset = {"RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
    result = subprocess.run(
        [sys.executable, "-m", "pcsuite.cli", "run", "-q", "--config", str(path), "--executor", "ray"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={name: value for name, value in os.environ.items() if name not in unset} | {"PCS_MARK": mark},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("t: 27 rows in ")
    assert result.stderr == ""
    deadline = time.monotonic() + 60
    while (left := marked_processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    _, logged = rows_of(tmp_path / "outputs" / "runs" / "t.jsonl")
    assert logged == 27


def test_no_cluster_at_an_address_is_one_line(tmp_path):
    path = write_profile(tmp_path, items=1)
    command = [sys.executable, "-m", "pcsuite.cli", "run", "-q", "--config", str(path), "--executor", "ray"]
    result = subprocess.run(
        [*command, "--address", "ray://127.0.0.1:10001"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ | {"RAY_AUTH_MODE": "disabled"},
    )
    assert result.returncode == 2
    assert "not through a client" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_run_until_decided_takes_the_looks_of_the_local_one(nodes, tmp_path):
    strong = {"sim": SIMULATED | {"base_accuracy": 0.2, "operator_effects": {"SCHEMA": 4.0}}}
    path = write_profile(tmp_path, strong, items=40, conditions=("C0", "C3"), regimes=("D0",))
    process = nodes.run(path, "--quiet", "--until", "decided")
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    section = {"preregistration.stopping": {"rule": "decided", "batch": 10}, "run.name": "local"}
    local = run_suite(load_suite(path, section), quiet=True)

    def told(log):
        return [msgspec.structs.replace(look, at_utc="") for look in read_looks(log)]

    assert told(local.paths.log.with_name("t.jsonl")) == told(local.paths.log)
    assert any(look.stopped for look in local.looks)


def test_a_judged_run_is_the_local_one(nodes, tmp_path):
    """Workers hold the judge too, and what it compares with: the same verdicts."""
    path = write_judged_profile(tmp_path, items=6, judge={"scale": "pairwise"})
    local = run_suite(load_suite(path), quiet=True).paths
    finish(nodes.run(path, "--name", "spread"))
    there = RunPaths.of(tmp_path / "outputs", "spread")
    assert rows_of(there.log) == rows_of(local.log)
