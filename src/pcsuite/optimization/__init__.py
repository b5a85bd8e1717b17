"""Prompts compiled under an information objective: candidates, methods that search them, and the frozen winner."""

from __future__ import annotations

from pcsuite.optimization.problem import Method
from pcsuite.registry import Registry

METHODS: Registry[Method] = Registry(
    "method",
    "pcsuite.optimizers",
    {
        "ape": "pcsuite.optimization.ape:APE",
        "blocks": "pcsuite.optimization.blocks:BLOCKS",
        "mipro": "pcsuite.optimization.dspy_opt:MIPRO",
        "gepa": "pcsuite.optimization.dspy_opt:GEPA",
        "copro": "pcsuite.optimization.dspy_opt:COPRO",
        "bootstrap": "pcsuite.optimization.dspy_opt:BOOTSTRAP",
    },
)
"""Methods by name."""
