"""Verdicts on hypotheses and criteria, with the numbers they rest on."""
