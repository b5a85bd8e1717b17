"""Executors: who carries out the units of a plan, in this process or on a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from pcsuite.registry import Registry
from pcsuite.runners.executors.base import Executor

EXECUTORS: Registry[type[Executor]] = Registry(
    "executor",
    "pcsuite.executors",
    {
        "local": "pcsuite.runners.executors.local:LocalExecutor",
        "ray": "pcsuite.runners.executors.ray:RayExecutor",
    },
)


@dataclass(frozen=True, slots=True)
class ExecutorChoice:
    """Which executor a run uses."""

    name: str = "local"
    address: str | None = None
    """Address of an existing cluster; ``None`` where the executor starts its own."""
    workers: int | None = None
    """Worker processes on the cluster; ``None`` leaves it to the executor."""


__all__ = ["EXECUTORS", "Executor", "ExecutorChoice"]
