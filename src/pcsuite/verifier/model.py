"""BuildingSpec: what an extraction team reads out of a building's compliance documents.

Its parts and fields are declared in ``schemas/buildingspec.yaml``. Every value may be missing (``null`` or absent); a
list item needs only its ``name``. Text and lists are bounded, so that decoding constrained to the emitted schema
cannot run on for ever.
"""

from __future__ import annotations

from importlib import resources
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, Strict, create_model

_Text = Annotated[str, Strict(), Field(max_length=200)]
_Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
_Flag = Annotated[bool, Strict()]
_TYPES: dict[str, Any] = {
    "name": Annotated[str, Strict(), Field(min_length=1, max_length=200)],
    "text": _Text | None,
    "number": _Number | None,
    "flag": _Flag | None,
    "count": Annotated[int, Strict(), Field(ge=0)] | None,
    "fraction": Annotated[float, Strict(), Field(ge=0, le=1)] | None,
    "integer": int | None,
    "climate_zone": Annotated[int, Strict(), Field(ge=1, le=16)] | None,
    "text_or_number": _Text | _Number | None,
    "text_or_flag": _Text | _Flag | None,
    "layers": Annotated[list[_Text], Field(max_length=30)] | None,
    "any": Any,
}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _read_parts() -> dict[str, type[BaseModel]]:
    declared = resources.files("pcsuite.verifier") / "schemas" / "buildingspec.yaml"
    parts: dict[str, Any] = {}
    for name, part in yaml.safe_load(declared.read_text(encoding="utf-8")).items():
        fields: dict[str, Any] = {}
        for key, kind in part["fields"].items():
            if isinstance(kind, list):
                fields[key] = (list[parts[kind[0]]] | None, Field(default=None, max_length=kind[1]))  # type: ignore
            elif kind == "name":
                fields[key] = (_TYPES[kind], ...)
            else:
                fields[key] = (parts[kind] | None if kind in parts else _TYPES[kind], None)
        parts[name] = create_model(name, __base__=_Part, __doc__=part["about"], **fields)
    return parts


BuildingSpec = _read_parts()["BuildingSpec"]
"""The whole record."""
