"""The plan (grid) and the run."""
