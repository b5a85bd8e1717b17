"""The tests of a promptfoo configuration as a table: a row a test, its variables as columns, its assertions as one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pcsuite._util.files import unreadable_text
from pcsuite.config.yaml_source import load_yaml
from pcsuite.data.items import Row
from pcsuite.errors import ConfigError, DataError

EXPECTED = "__expected"
"""Column of assertions, by the name that promptfoo gives it in tables."""


def read_promptfoo_tests(path: Path, read_table: Callable[[Path], list[Row]]) -> list[Row]:
    """Rows of the ``tests`` of a promptfoo configuration, ``defaultTest`` included.

    Tests that lie in a table of their own (``tests: file://tests.csv``) are read by ``read_table``. Raises
    :class:`DataError` where there are none, and for variables that are lists, which stand for several tests.
    """
    try:
        content = load_yaml(path.read_text(encoding="utf-8-sig"), str(path))
    except ConfigError as error:
        raise DataError(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {unreadable_text(path, error)}") from error
    tests = content.get("tests") if isinstance(content, Mapping) else None
    if isinstance(tests, str):
        return read_table(path.parent / tests.removeprefix("file://"))
    if not isinstance(tests, list) or not tests:
        raise DataError(
            f"{path}: no tests in it", hint="a table, or a promptfoo configuration with a list of 'tests'"
        )
    shared = content.get("defaultTest")
    shared = shared if isinstance(shared, Mapping) else {}
    rows = []
    for number, test in enumerate(tests, start=1):
        place = f"{path} test {number}"
        if not isinstance(test, Mapping):
            raise DataError(f"{place}: a mapping with 'vars' is needed")
        values = {**_mapping(shared, "vars", place), **_mapping(test, "vars", place)}
        for name, value in values.items():
            if isinstance(value, list):
                raise DataError(
                    f"{place}: the variable '{name}' is a list, which stands for several tests",
                    hint="write a test for each of its values",
                )
        asserted = [*(shared.get("assert") or []), *(test.get("assert") or [])]
        expected = {EXPECTED: json.dumps(asserted, ensure_ascii=False)} if asserted else {}
        rows.append(Row(place, values | expected))
    names = {name for row in rows for name in row.values}
    for row in rows:
        if lacking := sorted(names - row.values.keys()):
            what = "no assertion" if lacking == [EXPECTED] else f"no variable '{lacking[0]}'"
            raise row.error(f"{what}, which other tests have")
    return rows


def _mapping(test: Mapping[str, Any], key: str, place: str) -> dict[str, Any]:
    values = test.get(key) or {}
    if not isinstance(values, Mapping):
        raise DataError(f"{place}: '{key}' is no mapping")
    return {str(name): value for name, value in values.items()}
