"""Figures, of the report and of the view: one engine (matplotlib), one declaration each.

A figure is a function of ``scores`` or ``reliability`` under :func:`~pcsuite.pages.figures.declare.figure`, which names
its file, its title and its table; both modules are read here, and their order is that of the page.
"""

from pcsuite.pages.figures import scores  # noqa: F401

# isort: split
from pcsuite.pages.figures import reliability  # noqa: F401
