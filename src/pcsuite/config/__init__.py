"""Frozen models of the YAML files, and their loading."""
