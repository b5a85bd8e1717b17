"""Targets from Python: named as on the command line, or a function that the caller has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pcsuite._util.hashing import sha256_hex
from pcsuite.config.targets import IN_MEMORY, TARGET_WORDS, target_entries
from pcsuite.engines.targets.functions import remember_function, source_of
from pcsuite.errors import ConfigError

Target = str | Path | Callable[..., Any]
"""A target as a caller has it: ``app.py:answer``, an address, a command, or a function."""


def take_targets(settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The entries of the targets that settings name, by id; what says something of them is taken out of the settings.

    ``target`` is one, several in a list, or a mapping of names to targets. A function is known by its name; its
    identity is its file's text. Raises ``ConfigError`` for settings of targets without one, and for a function whose
    source nobody knows and that has no ``target_version``.
    """
    target = settings.pop("target", None)
    options = {key: settings.pop(name) for name, key in TARGET_WORDS.items() if name in settings}
    options = {key: value for key, value in options.items() if value is not None and value is not False}
    for name, value in options.items():
        if isinstance(value, (tuple, Path)):  # as a profile's file can say it
            options[name] = str(value) if isinstance(value, Path) else list(map(str, value))
    if target is None:
        if options:
            name = next(name for name, key in TARGET_WORDS.items() if key in options)
            raise ConfigError(f"'{name}' goes with a target", hint="target='app.py:answer', or a function")
        return {}
    named: Mapping[str, Target] | Sequence[Target] = (
        target if isinstance(target, (Mapping, list, tuple)) else [target]
    )
    entries: dict[str, dict[str, Any]] = {}
    pairs = named.items() if isinstance(named, Mapping) else [("", one) for one in named]
    for name, one in pairs:
        spec, more = _spec_of(one, bool(options.get("version")), name)
        made = target_entries([f"{name}={spec}" if name else spec], {**options, **more})
        if made.keys() & entries.keys():
            raise ConfigError(
                f"two targets are called '{next(iter(made))}'", hint="target={'old': …, 'new': …} names them"
            )
        entries |= made
    return entries


def _spec_of(target: Target, has_version: bool, name: str) -> tuple[str, dict[str, Any]]:
    """How a target is named in an entry, and what else the entry says; functions are remembered."""
    if isinstance(target, (str, Path)):
        return str(target), {}
    if not callable(target):
        raise ConfigError(
            f"target: {type(target).__name__} is no target", hint="'app.py:answer', or a function"
        )
    called = name or str(getattr(target, "__name__", type(target).__name__)).strip("<>")
    source = source_of(target)
    if source is None and not has_version:
        raise ConfigError(
            f"the source of '{called}' cannot be read, so that nobody could tell when it changes",
            hint="target_version='1', or put it into a file",
        )
    remember_function(called, target)
    return f"{IN_MEMORY}{called}", {"source_hash": sha256_hex(source or "")}
