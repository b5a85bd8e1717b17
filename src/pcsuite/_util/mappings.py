"""Dataclasses that can also be read as mappings, and mappings in mappings under dotted names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class DataclassMapping(Mapping[str, Any]):
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


def flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested objects under dotted names; lists stay whole.

    >>> dict(flatten({"site": {"area": 3}, "tags": [1]}))
    {'site.area': 3, 'tags': [1]}
    """
    for name, child in value.items():
        if isinstance(child, dict) and child:
            yield from flatten(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child
