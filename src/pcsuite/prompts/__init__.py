"""Operators, conditions and templates: the only sources of prompt text."""
