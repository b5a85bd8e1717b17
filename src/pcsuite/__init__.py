"""Prompt Control Suite: which parts of a prompt help, how surely, and at what cost.

    import pcsuite as pcs

    pcs.run("quickstart", limit=20).effects()
    pcs.ablate("triage.md", "tickets.csv", model="smollm2-135m").trimmed

Every name below is imported when it is first used, so that ``import pcsuite`` stays instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pcsuite.specified import install as _install_specified

__version__ = "0.2.0"

if TYPE_CHECKING:
    from pcsuite.api.planning import Planned, plan
    from pcsuite.api.profiles import load
    from pcsuite.api.prompts import Ablation, ablate, prompt, rearrange, verify
    from pcsuite.api.regression import check
    from pcsuite.api.runs import Run, arun, compare, effects, read, report, run
    from pcsuite.errors import PcsuiteError

_TARGETS = {
    "Ablation": "pcsuite.api.prompts",
    "PcsuiteError": "pcsuite.errors",
    "Planned": "pcsuite.api.planning",
    "Run": "pcsuite.api.runs",
    "ablate": "pcsuite.api.prompts",
    "arun": "pcsuite.api.runs",
    "check": "pcsuite.api.regression",
    "compare": "pcsuite.api.runs",
    "effects": "pcsuite.api.runs",
    "load": "pcsuite.api.profiles",
    "plan": "pcsuite.api.planning",
    "prompt": "pcsuite.api.prompts",
    "read": "pcsuite.api.runs",
    "rearrange": "pcsuite.api.prompts",
    "report": "pcsuite.api.runs",
    "run": "pcsuite.api.runs",
    "verify": "pcsuite.api.prompts",
}

__all__ = [
    "Ablation",
    "PcsuiteError",
    "Planned",
    "Run",
    "__version__",
    "ablate",
    "arun",
    "check",
    "compare",
    "effects",
    "load",
    "plan",
    "prompt",
    "read",
    "rearrange",
    "report",
    "run",
    "verify",
]


_install_specified()


def __getattr__(name: str) -> Any:
    if name not in _TARGETS:
        raise AttributeError(f"module 'pcsuite' has no attribute '{name}'")
    return getattr(importlib.import_module(_TARGETS[name]), name)


def __dir__() -> list[str]:
    dunders = (name for name in globals() if name.startswith("__"))
    return sorted({*dunders, *__all__})
