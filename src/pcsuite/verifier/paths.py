"""Paths into a record: ``project.city``, ``windows[0].u_factor``, ``windows[name=101].u_factor``.

A *pattern* is a path with its list steps left open (``windows[].u_factor``); it names a field of the schema.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

Step = str | int | tuple[str, str]
"""A key, a list index, or ``(key, value)`` for the list item whose ``key`` is ``value``."""

_KEY = re.compile(r"[^.\[\]]+")
_PLAIN_NAME = re.compile(r'[^\]"\s](?:[^\]"]*[^\]"\s])?')
_INDEX = re.compile(r"\[(\d+)\]")
_NAMED = re.compile(r'\[([A-Za-z_]\w*)=(?:("(?:[^"\\]|\\.)*")|([^\]"]*))\]')


def parse_path(path: str) -> tuple[Step, ...]:
    """Split a path into steps; ``ValueError`` says where it stops making sense."""
    steps: list[Step] = []
    position = 0
    while position < len(path):
        if path[position] == "[" and steps:
            step, position = _list_step(path, position)
            steps.append(step)
            continue
        if steps:
            if path[position] != ".":
                raise ValueError(f"'{path}': expected '.' at character {position + 1}")
            position += 1
        key = _KEY.match(path, position)
        if key is None:
            raise ValueError(f"'{path}': expected a name at character {position + 1}")
        steps.append(key.group())
        position = key.end()
    if not steps:
        raise ValueError("an empty path")
    return tuple(steps)


def _list_step(path: str, position: int) -> tuple[Step, int]:
    index = _INDEX.match(path, position)
    if index:
        return int(index.group(1)), index.end()
    named = _NAMED.match(path, position)
    if named is None:
        raise ValueError(f"'{path}': expected [number] or [name=…] at character {position + 1}")
    value = json.loads(named.group(2)) if named.group(2) else named.group(3)
    return (named.group(1), value), named.end()


def pattern_of(steps: tuple[Step, ...]) -> str:
    """The schema field a path points at: list steps become ``[]``."""
    text = ""
    for step in steps:
        if not isinstance(step, str):
            text += "[]"
        else:
            text += f".{step}" if text else step
    return text


def item_path(path: str, name: object, index: int) -> str:
    """Path of a list item, by name where it has one, else by index."""
    if not isinstance(name, str) or not name.strip():
        return f"{path}[{index}]"
    if _PLAIN_NAME.fullmatch(name):
        return f"{path}[name={name}]"
    return f"{path}[name={json.dumps(name, ensure_ascii=False)}]"


def get_path(record: Any, path: str) -> Any:
    """The value at a path, or ``None`` where the record has nothing there."""
    value = record
    for step in parse_path(path):
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        elif not isinstance(value, list):
            return None
        elif isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            key, wanted = step
            value = next((item for item in value if isinstance(item, dict) and item.get(key) == wanted), None)
    return value


def set_path(record: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a path, making the objects, lists and items on the way."""
    steps = parse_path(path)
    holder: Any = record
    for step, following in pairwise(steps):
        holder = _enter(holder, step, list if not isinstance(following, str) else dict)
    last = steps[-1]
    if isinstance(last, str):
        holder[last] = value
    elif isinstance(last, int):
        _grow(holder, last, type(None))
        holder[last] = value
    else:
        raise ValueError(f"'{path}': a path to a value cannot end in a named item")


def _enter(holder: Any, step: Step, kind: type[Any]) -> Any:
    if isinstance(step, str):
        return holder.setdefault(step, kind())
    if isinstance(step, int):
        _grow(holder, step, kind)
        return holder[step]
    key, wanted = step
    for item in holder:
        if item.get(key) == wanted:
            return item
    holder.append({key: wanted})
    return holder[-1]


def _grow(items: list[Any], index: int, kind: type[Any]) -> None:
    if index > 9_999:
        raise ValueError(f"list index {index} is beyond 9999")
    while len(items) <= index:
        items.append(kind())
