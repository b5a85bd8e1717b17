"""Operators: composable values, the only source of prompt text besides instruction and input."""

from pcsuite.prompts.operators.operator import Bundle, Operator

__all__ = ["Bundle", "Operator"]
