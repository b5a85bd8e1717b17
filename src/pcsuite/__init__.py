"""Prompt Control Suite: which parts of a prompt help, how surely, and at what cost."""

__version__ = "0.1.0"
