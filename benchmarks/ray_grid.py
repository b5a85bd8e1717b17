"""The Ray executor beside the local one: rows per second on a simulated grid, with a node killed on the way.

Two node processes on this machine, one worker slot each. When a share of the rows is logged the second node
is killed with no warning; at the end both logs must have the same rows, each once, equal but for times.

    python benchmarks/ray_grid.py [--rows 100000] [--kill-at 0.4] [--model simulated|embedded]

``--kill-at 0`` kills nothing. ``embedded`` runs the embedded model instead (a few rows: it is a real model).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import yaml

NODES = Path(__file__).resolve().parents[1] / "tests" / "support" / "ray_nodes.py"
MODELS = {
    "simulated": {
        "provider": "simulated",
        "family": "simulated",
        "size": "7B",
        "params_b": 7,
        "operator_effects": {"SCHEMA": 0.8, "VERIFIER": 0.3},
        "error_rate": 0.001,
    },
    "embedded": {
        "provider": "llamacpp",
        "family": "smollm2",
        "size": "135M",
        "params_b": 0.135,
        "weights": "smollm2-135m-instruct-q4_1",
    },
}
CELLS = {"simulated": 4 * 20 * 5, "embedded": 4 * 2}
"""Rows per seed: tasks, items and conditions."""


def profile(folder: Path, model: str, rows: int) -> Path:
    """A profile of about ``rows`` rows on the bundled items."""
    seeds = max(1, rows // CELLS[model])
    embedded = model == "embedded"
    (folder / "models.yaml").write_text(yaml.safe_dump({"version": "1.0", "models": {model: MODELS[model]}}))
    data = {
        "version": "1.0",
        "run": {"name": "grid", "output_dir": str(folder / "outputs"), "cache_dir": str(folder / "cache")},
        "repro": {
            "seeds": {"D1": [f"1..{seeds}"]},
            "seeds_per_task": {"default": seeds},
            "max_inflight": 64,
        },
        "suite": {"models_ref": "models.yaml"},
        "selection": {
            "tasks": ["agnews_json"] if embedded else ["agnews_json", "gsm8k", "csqa_json", "svamp"],
            "models": [model],
            "conditions": ["C0", "C6"] if embedded else ["C0", "C1", "C2", "C3", "C4"],
            "decoding_regimes": ["D1"],
        },
        "limits": {"max_items_per_task": 4 if embedded else 20},
        "length_control": "off",
    }
    path = folder / "profile.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def run(profile: Path, name: str, *options: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """``pcsuite run`` in a process of its own."""
    command = [sys.executable, "-m", "pcsuite.cli", "run", "--quiet", "--no-cache", "--config", str(profile)]
    return subprocess.Popen([*command, "--name", name, *options], env=env, stdout=subprocess.DEVNULL)


def lines(log: Path) -> int:
    """Rows in a log."""
    return log.read_bytes().count(b"\n") if log.exists() else 0


def content(log: Path) -> tuple[dict[str, bytes], int, float]:
    """A digest of each row without times, how many rows there are, and seconds from the first to the last."""
    digests: dict[str, bytes] = {}
    times: list[str] = []
    with log.open(encoding="utf-8") as stream:
        for line in stream:
            row = json.loads(line)
            times.append(row.pop("timestamp_utc"))
            row.pop("config_hash")  # it covers the run's name
            row["generation"].pop("latency_ms")
            digests[row["run_id"]] = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).digest()
    span = datetime.fromisoformat(max(times)) - datetime.fromisoformat(min(times))
    return digests, len(times), span.total_seconds()


def on_cluster(profile: Path, log: Path, rows: int, kill_at: float) -> tuple[float, int]:
    """Run on two nodes and kill one on the way; seconds of the whole command, and rows logged at the kill."""
    env = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    nodes = subprocess.Popen(
        [sys.executable, str(NODES), "1", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )
    assert nodes.stdin is not None
    assert nodes.stdout is not None
    try:
        address = nodes.stdout.readline().strip()
        assert address, "the cluster did not start"
        started = time.perf_counter()
        process = run(profile, log.stem, "--executor", "ray", "--address", address, env=env)
        killed_at = 0
        if kill_at:
            while process.poll() is None and lines(log) < kill_at * rows:
                time.sleep(0.2)
            nodes.stdin.write("kill\n")
            nodes.stdin.flush()
            if int(nodes.stdout.readline()) < 0:
                raise SystemExit("the run was over before the second node had a worker: take more rows")
            killed_at = lines(log)
        assert process.wait() == 0
        return time.perf_counter() - started, killed_at
    finally:
        nodes.stdin.close()
        nodes.wait(60)


def main() -> None:
    """Measure, compare and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kill-at", type=float, default=0.4)
    parser.add_argument("--model", choices=sorted(MODELS), default="simulated")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = profile(folder, args.model, args.rows)
        runs = folder / "outputs" / "runs"
        started = time.perf_counter()
        assert run(path, "local", env=dict(os.environ)).wait() == 0
        local_s = time.perf_counter() - started
        local, rows, local_span = content(runs / "local.jsonl")
        print(
            f"local: {rows} rows in {local_s:.1f} s, {rows / local_span:.0f} rows/s once under way",
            flush=True,
        )
        ray_s, killed_at = on_cluster(path, runs / "ray.jsonl", rows, args.kill_at)
        there, ray_rows, ray_span = content(runs / "ray.jsonl")
    pace = ray_rows / ray_span
    print(f"ray, two nodes: {ray_rows} rows in {ray_s:.1f} s, {pace:.0f} rows/s once under way")
    print(f"ratio of paces: {pace * local_span / rows:.2f}")
    if killed_at:
        print(f"one node was killed when {killed_at} rows were logged")
    print(
        f"rows logged twice: {ray_rows - len(there)}; missing: {len(local.keys() - there.keys())}; "
        f"different: {sum(there.get(key) != value for key, value in local.items())}"
    )
    assert there == local
    assert ray_rows == rows


if __name__ == "__main__":
    main()
