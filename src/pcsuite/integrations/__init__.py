"""Other tools that the suite runs: each in a virtual environment of its own, so that their pins cannot clash."""
