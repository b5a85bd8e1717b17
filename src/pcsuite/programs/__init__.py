"""Programs: how a condition's calls are made (once, with retries on failure, in a loop with tools)."""

from __future__ import annotations

from pcsuite.programs.base import Program
from pcsuite.registry import Registry

PROGRAMS: Registry[type[Program]] = Registry(
    "program",
    "pcsuite.programs",
    {
        "single": "pcsuite.programs.base:SingleCall",
        "react": "pcsuite.programs.react:ReactLoop",
        "revise": "pcsuite.programs.react:ReviseLoop",
        "retry": "pcsuite.programs.retry:RetryOnFail",
    },
)
