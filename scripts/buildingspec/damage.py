"""Extractions of known quality: a truth record with errors put in, and how many of each kind.

The counts are worked out here from what is changed, without asking the verifier.
"""

from __future__ import annotations

import copy
from typing import Any

Record = dict[str, Any]
Counts = dict[str, int]


def perfect(record: Record) -> tuple[Record, Counts]:
    """The record itself, with the kinds of harmless difference a good extraction has."""
    result = copy.deepcopy(record)
    result["extraction_status"] = "complete"
    result["conflicts"] = []
    result["project"]["orientation_confidence"] = "high"
    result["project"]["city"] = result["project"]["city"].upper() + "  "
    result["project"]["front_orientation"] += 360
    result["windows"].reverse()
    result["windows"][0]["height"] = None
    result["walls"][0]["area"] *= 1.004
    return result, _counts()


def good(record: Record) -> tuple[Record, Counts]:
    """A usable extraction: one window dropped, a figure misread, a unit left on, a fuel guessed."""
    result = copy.deepcopy(record)
    dropped = result["windows"].pop()
    result["envelope"]["conditioned_floor_area"] *= 1.03
    result["walls"][0]["area"] = f"{result['walls'][0]['area']:g} sq ft"
    result["hvac_systems"][0]["heating"]["auxiliary_heating_capacity"] = 5000
    return result, _counts(omission=_fields(dropped), wrong_value=1, format_error=1, hallucination=1)


def poor(record: Record) -> tuple[Record, Counts]:
    """A weak extraction: whole parts missing, numbers as text, an invented window."""
    result = copy.deepcopy(record)
    omitted = 0
    for part in ("zones", "water_heating_systems"):
        omitted += sum(_fields(item) for item in result.pop(part))
    for wall in result["walls"]:
        wall["orientation"] = f"{wall['orientation']:g}"
    for window in result["windows"]:
        window["u_factor"] = round(window["u_factor"] + 0.2, 3)
    invented = {"name": "Invented Bay", "wall": "Nowhere", "azimuth": 17.5, "area": 999.0}
    result["windows"].append(invented)
    result["project"]["attached_garage"] = "yes" if result["project"]["attached_garage"] else "no"
    counts = _counts(
        omission=omitted,
        format_error=len(result["walls"]) + 1,
        wrong_value=len(result["windows"]) - 1,
        hallucination=len(invented),
    )
    return result, counts


def _counts(**given: int) -> Counts:
    return {"omission": 0, "hallucination": 0, "format_error": 0, "wrong_value": 0, **given}


def _fields(item: Any) -> int:
    """Number of values in an item of a compared record."""
    if isinstance(item, dict):
        return sum(_fields(value) for value in item.values())
    if isinstance(item, list):
        return sum(_fields(value) for value in item)
    return 1
