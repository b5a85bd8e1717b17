"""Dataclasses that can also be read as mappings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class FieldMapping(Mapping[str, Any]):
    """A base of dataclasses whose fields can be read by attribute, by ``[]`` and by ``get`` alike.

    For values that users' own code is handed: some write ``value.name``, some ``value["name"]``.
    """

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        if key not in self._names():
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    @classmethod
    def _names(cls) -> Mapping[str, Any]:
        names: Mapping[str, Any] = cls.__dict__["__dataclass_fields__"]
        return names
