"""A Ray cluster of node processes for tests, with a token of its own, in a process of its own."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("ray_nodes.py")


class RayNodes:
    """Nodes with so many worker slots each; the first is the head, to which drivers connect."""

    def __init__(self, *cpus):
        self._cpus = cpus
        self.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), *map(str, self._cpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | self.environment,
        )
        self.address = self._process.stdout.readline().strip()
        assert self.address, "the cluster did not start"
        return self

    def __exit__(self, *exception):
        self._process.stdin.close()
        self._process.wait(120)
        self._process.stdout.close()

    def kill_a_busy_node(self):
        """Kill a node beside the head that runs a worker; its number."""
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def run(self, profile, *options, **environment):
        """``pcsuite run`` on this cluster."""
        command = [sys.executable, "-m", "pcsuite.cli", "run", "--config", str(profile), "--executor", "ray"]
        return subprocess.Popen(
            [*command, "--address", self.address, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | self.environment | environment,
        )
