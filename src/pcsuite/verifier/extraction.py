"""The extracted record: strict JSON, an object at the root, nothing a score could trip over."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from pcsuite.errors import DataError
from pcsuite.verifier.rows import read_bytes
from pcsuite.verifier.values import type_in_words

MAX_DEPTH = 64
"""Deepest nesting that is read; a BuildingSpec has five levels."""


def read_extraction(path: Path) -> dict[str, Any]:
    """Read ``extracted.json``."""
    return parse_extraction(read_bytes(path), str(path))


def parse_extraction(data: bytes, source: str = "extraction") -> dict[str, Any]:
    """The record in the bytes of a JSON file; one clear line where there is none."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = data[: error.start].count(b"\n") + 1
        raise DataError(f"{source}: row {row}: not UTF-8 text, which JSON must be") from None
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{source}: row {error.lineno}: not JSON: {error.msg} (column {error.colno})"
        ) from None
    except ValueError as error:
        raise DataError(f"{source}: not JSON: {error}") from None
    except RecursionError:
        raise DataError(f"{source}: nested deeper than {MAX_DEPTH} levels") from None
    if not isinstance(value, dict):
        raise DataError(
            f"{source}: row 1: the root is {type_in_words(value)}, not an object",
            hint="one file holds one record",
        )
    if _deeper_than(value, MAX_DEPTH):
        raise DataError(f"{source}: nested deeper than {MAX_DEPTH} levels")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:20]} is out of range")
    return value


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
