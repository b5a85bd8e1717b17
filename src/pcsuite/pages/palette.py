"""The colours of pages and figures, each declared once.

``pages.css`` gets those of meaning from here, as CSS variables for light and dark; figures import the constants.
Meaning never rests on colour alone: sign, word or hatching stand beside it.
"""

from __future__ import annotations

INK = "#20242c"
LINE = "#d5d9e0"
MUTED = "#6b7280"
SERIES = ("#2b7bba", "#d9772b", "#3a9a6a", "#b4508f", "#8a7bd1", "#a08326", "#c0504d", "#4aa3a8")
"""Colours of series, told apart by people with colour blindness and readable on white and on dark."""
HELPS, HURTS, NEUTRAL = "#0072b2", "#d55e00", "#6b7280"
"""An effect for the better and for the worse: blue and vermilion of Okabe and Ito's palette; grey for neither."""
