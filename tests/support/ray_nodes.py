"""A Ray cluster of several node processes on this machine, steered through standard input.

    python ray_nodes.py HEAD_CPUS CPUS…

It prints the cluster's address when all nodes are up. ``kill`` ends, with no warning, a node beside the head
that runs a worker of ours, and prints its number; the end of the input ends the cluster.
"""

import os
import sys
import time
from pathlib import Path

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}

from ray.cluster_utils import Cluster

STORE_BYTES = 100 << 20
PATIENCE_S = 120


def started(head: int, others: list[int]) -> tuple[Cluster, list]:
    """The cluster and its nodes beside the head; Ray gives a node half a minute, a busy machine takes longer."""
    for attempts_left in range(4, -1, -1):
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=head, include_dashboard=False, object_store_memory=STORE_BYTES)
            return cluster, [
                cluster.add_node(num_cpus=cpus, object_store_memory=STORE_BYTES) for cpus in others
            ]
        except Exception:
            cluster.shutdown()
            if not attempts_left:
                raise
    raise AssertionError


def children(process_id: int) -> list[str]:
    """Titles of the processes that a process started."""
    titles = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                title = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if parent == process_id:
                titles.append(title)
    return titles


def raylet(node) -> int:
    """Process id of a node."""
    (info,) = node.all_processes["raylet"]
    return info.process.pid


def kill_a_busy_one(cluster: Cluster, nodes: list) -> int:
    """Wait until a node runs a worker, then kill it; -1 where none does for a long time."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for number, node in enumerate(nodes):
            if any("RunWorker" in title for title in children(raylet(node))):
                cluster.remove_node(node, allow_graceful=False)
                nodes.remove(node)
                return number
        time.sleep(0.05)
    return -1


def main() -> None:
    """Start, obey, stop."""
    head, *others = map(int, sys.argv[1:])
    cluster, nodes = started(head, others)
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "kill":
            print(kill_a_busy_one(cluster, nodes), flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
