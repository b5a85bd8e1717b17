"""Shared by the tests of the mixed models: the stored fits of R, and ours of the same data."""

from support.lme4 import lme4_reference, reference_columns, reference_fit

__all__ = ["lme4_reference", "reference_columns", "reference_fit"]
