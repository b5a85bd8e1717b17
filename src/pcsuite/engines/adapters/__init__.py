"""Adapters: one module per provider."""
