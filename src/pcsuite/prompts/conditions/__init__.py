"""Conditions: bundles of operators by name."""
