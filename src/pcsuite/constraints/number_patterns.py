"""Regular expressions for JSON numbers within bounds."""

from __future__ import annotations

DIGITS_OF_UNBOUNDED = 15
"""Digits an unbounded integer may have: what a double holds exactly."""
DIGITS_OF_FRACTION = 6


def integer_pattern(minimum: int | None, maximum: int | None) -> str:
    """Matches exactly the JSON integers between the bounds, both included.

    Without a bound the number has at most 15 digits on that side.
    """
    limit = 10**DIGITS_OF_UNBOUNDED - 1
    low = -limit if minimum is None else minimum
    high = limit if maximum is None else maximum
    if low > high:
        raise ValueError(f"no integer lies between {low} and {high}")
    parts: list[str] = []
    if low < 0:
        # Minus zero is left out: it is a JSON number but not the way to write this one.
        parts.extend("-" + part for part in _natural_parts(max(1, -high), -low))
    if high >= 0:
        parts.extend(_natural_parts(max(0, low), high))
    return _alternatives(parts)


def number_pattern(minimum: int | None, maximum: int | None) -> str:
    """Matches JSON numbers between integer bounds, with at most six decimals and without exponent."""
    limit = 10**DIGITS_OF_UNBOUNDED - 1
    low = -limit if minimum is None else minimum
    high = limit if maximum is None else maximum
    if low > high:
        raise ValueError(f"no number lies between {low} and {high}")
    fraction = rf"(\.[0-9]{{1,{DIGITS_OF_FRACTION}}})?"
    whole = rf"(\.0{{1,{DIGITS_OF_FRACTION}}})?"
    parts: list[str] = []
    if low < 0:
        nearest, farthest = max(0, -high), -low
        # -3.2 lies within [-4, -3]: the digits before the point may be any from |high| to |low| - 1.
        if nearest < farthest:
            parts.append("-" + _alternatives(_natural_parts(nearest, farthest - 1)) + fraction)
        parts.append("-" + str(farthest) + whole)
    if high >= 0:
        first = max(0, low)
        if first < high:
            parts.append(_alternatives(_natural_parts(first, high - 1)) + fraction)
        parts.append(str(high) + whole)
    return _alternatives(parts)


def _alternatives(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else "(" + "|".join(parts) + ")"


def _natural_parts(low: int, high: int) -> list[str]:
    """Patterns that together match the decimal numerals from ``low`` to ``high`` (0 <= low <= high)."""
    parts: list[str] = []
    while low <= high:
        # The widest block low..block_end in which only trailing digits vary freely.
        free = 0
        while True:
            step = 10 ** (free + 1)
            same_length = len(str(low)) == len(str(low + step - 1))
            if low % step or low + step - 1 > high or not same_length or low == 0:
                break
            free += 1
        step = 10**free
        head, last = divmod(low // step, 10)
        # Let the digit before the free ones run as far as the bound allows.
        reach = last
        while reach < 9 and low + (reach - last + 2) * step - 1 <= high:
            reach += 1
        digit = str(last) if reach == last else f"[{last}-{reach}]"
        tail = "" if free == 0 else ("[0-9]" if free == 1 else f"[0-9]{{{free}}}")
        parts.append((str(head) if head else "") + digit + tail)
        low += (reach - last + 1) * step
    return parts
