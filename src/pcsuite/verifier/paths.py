"""Paths into a record: ``project.city``, ``windows[0].u_factor`` (or ``windows.0.u_factor``),
``windows[name=101].u_factor``.

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
_WORD = re.compile(r"[^\W\d]\w*")
_INDEX = re.compile(r"\[(\d+)\]")
_ITEM = re.compile(r'[^.\[\]]+(?:\[\d+\]|\[[^\W\d]\w*=(?:"(?:[^"\\]|\\.)*"|[^\]"]*)\])?')
_NAMED = re.compile(r'\[([^\W\d]\w*)=(?:("(?:[^"\\]|\\.)*")|([^\]"]*))\]')


def parse_path(path: str) -> tuple[Step, ...]:
    """Split a path into steps; raises ``ValueError`` with the character where parsing fails.

    >>> parse_path("windows[name=101].u_factor"), parse_path("zones.0.name")
    (('windows', ('name', '101'), 'u_factor'), ('zones', 0, 'name'))
    """
    steps: list[Step] = []
    position = 0
    while position < len(path):
        if path[position] == "[" and steps:
            if match := _INDEX.match(path, position):
                steps.append(int(match.group(1)))
            elif match := _NAMED.match(path, position):
                key, quoted, bare = match.groups()
                steps.append((key, json.loads(quoted) if quoted else bare))
            else:
                raise ValueError(f"'{path}': expected [number] or [name=…] at character {position + 1}")
            position = match.end()
            continue
        if steps:
            if path[position] != ".":
                raise ValueError(f"'{path}': expected '.' at character {position + 1}")
            position += 1
        name = _KEY.match(path, position)
        if name is None:
            raise ValueError(f"'{path}': expected a name at character {position + 1}")
        # After a dot digits alone are an index, as in windows.0.u_factor.
        is_index = bool(steps) and name.group().isascii() and name.group().isdigit()
        steps.append(int(name.group()) if is_index else name.group())
        position = name.end()
    if not steps:
        raise ValueError("an empty path")
    return tuple(steps)


def pointer_token(key: str) -> str:
    """A key as a JSON pointer has it (RFC 6901).

    >>> pointer_token("a/b~c")
    'a~1b~0c'
    """
    return key.replace("~", "~0").replace("/", "~1")


def pattern_of(steps: tuple[Step, ...]) -> str:
    """The schema field a path points at: list steps become ``[]``.

    >>> pattern_of(("windows", 0, "u_factor"))
    'windows[].u_factor'
    """
    text = ""
    for step in steps:
        if not isinstance(step, str):
            text += "[]"
        else:
            text += f".{step}" if text else step
    return text


def item_path(path: str, name: object, index: int, key: str = "name") -> str:
    """Path of an item of the list at ``path``: by name (or another ``key``) where that is text, else by index.

    >>> item_path("windows", "101", 3), item_path("windows", None, 3), item_path("jobs", "Acme", 0, "employer")
    ('windows[name=101]', 'windows[3]', 'jobs[employer=Acme]')
    """
    if not isinstance(name, str) or not name.strip() or not _WORD.fullmatch(key):
        return f"{path}[{index}]"
    if _PLAIN_NAME.fullmatch(name):
        return f"{path}[{key}={name}]"
    return f"{path}[{key}={json.dumps(name, ensure_ascii=False)}]"


def item_of(path: str) -> str:
    """The part of a path that names what a person would point at: a section, or one item of it.

    >>> item_of("windows[name=101].u_factor"), item_of("project.city")
    ('windows[name=101]', 'project')
    """
    item = _ITEM.match(path)
    return item.group() if item else path


def set_path(
    record: dict[str, Any], path: str | tuple[Any, ...], value: Any, shown: str = ""
) -> tuple[str | int, ...]:
    """Put a value at a path, creating missing objects, lists and items; return the steps that lead to it.

    Steps by name are returned as the index of the item. ``path`` may be its steps already; ``shown`` is then what an
    error calls it. Raises ``ValueError`` for a malformed path, a list index beyond 9999, or a path that ends in a named
    item.
    """
    steps = parse_path(path) if isinstance(path, str) else path
    holder: Any = record
    walked: list[str | int] = []
    for step, following in pairwise(steps):
        kind = dict if isinstance(following, str) else list
        if isinstance(step, str):
            walked.append(step)
            holder = holder.setdefault(step, kind())
        elif isinstance(step, int):
            _grow(holder, step, kind)
            walked.append(step)
            holder = holder[step]
        else:
            key, name = step
            index = next((n for n, item in enumerate(holder) if item.get(key) == name), len(holder))
            if index == len(holder):
                holder.append({key: name})
            walked.append(index)
            holder = holder[index]
    last = steps[-1]
    if isinstance(last, tuple):
        raise ValueError(f"'{shown or path}': a path to a value cannot end in a named item")
    if isinstance(last, int):
        _grow(holder, last, type(None))
    holder[last] = value
    return (*walked, last)


def put_value(record: dict[str, Any], path: str, value: Any) -> tuple[str, ...]:
    """Put a value at a path of keys alone (``project.city``), as mappings write them; return the keys.

    >>> record = {}
    >>> put_value(record, "project.city", "Ghent"), record
    (('project', 'city'), {'project': {'city': 'Ghent'}})
    """
    *holders, last = keys = tuple(path.split("."))
    for key in holders:
        record = record.setdefault(key, {})
    record[last] = value
    return keys


def _grow(items: list[Any], index: int, kind: type[Any]) -> None:
    # A mistyped index must not make a list of millions.
    if index > 9_999:
        raise ValueError(f"list index {index} is beyond 9999")
    while len(items) <= index:
        items.append(kind())
