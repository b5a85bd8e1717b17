"""One registry for everything that is looked up by name.

A registry maps names to targets. A target is an object or a lazy ``"module:attribute"`` string, so that
naming a component costs no import. Names that are not built in are looked for in the registry's entry-point
group, which is how a user's package adds its own without a fork.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from pcsuite.errors import ConfigError, PcsuiteError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to components of one kind, resolved on first use.

    ``kind`` is the word for one of them in errors, ``group`` the entry-point group of plug-ins.
    """

    def __init__(self, kind: str, group: str, builtin: Mapping[str, T | str] | None = None) -> None:
        self.kind = kind
        self.group = group
        self._targets: dict[str, T | str] = dict(builtin or {})
        self._plugins_loaded = False
        self._lock = threading.Lock()

    def add(self, name: str, target: T | str, *, replace: bool = False) -> None:
        """Register ``target``, an object or a lazy ``"module:attribute"``, under ``name``.

        Raises ``ConfigError`` for a name that is taken, unless ``replace``.
        """
        if name in self._targets and not replace:
            raise ConfigError(f"{self.kind} '{name}' is already registered")
        self._targets[name] = target

    def get(self, name: str) -> T:
        """The component of a name; entry points are looked at only where it is not known yet.

        Raises ``ConfigError`` for an unknown name, with the closest one, and for a target that cannot be imported.
        """
        if name not in self._targets:
            self._load_plugins()
        if name not in self._targets:
            raise ConfigError(f"unknown {self.kind} '{name}'", hint=did_you_mean(name, self._targets))
        target = self._targets[name]
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            try:
                self._targets[name] = target = cast(T, getattr(importlib.import_module(module), attribute))
            except PcsuiteError:
                raise
            except (ImportError, AttributeError) as error:
                raise ConfigError(
                    f"{self.kind} '{name}' cannot be loaded from '{target}': {error}"
                ) from error
        return target

    def __contains__(self, name: object) -> bool:
        if name not in self._targets:
            self._load_plugins()
        return name in self._targets

    def __iter__(self) -> Iterator[str]:
        self._load_plugins()
        return iter(sorted(self._targets))

    def _load_plugins(self) -> None:
        with self._lock:
            if self._plugins_loaded:
                return
            self._plugins_loaded = True
            for point in entry_points(group=self.group):
                # What is built in cannot be replaced from outside.
                if point.name in self._targets:
                    continue
                try:
                    self._targets[point.name] = point.load()
                except Exception as error:  # a broken plugin must not take the suite down
                    warnings.warn(
                        f"plugin {self.group}:{point.name} could not be loaded: {error}", stacklevel=3
                    )
