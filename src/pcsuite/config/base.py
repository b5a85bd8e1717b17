"""What every configuration model shares: frozen, strict about keys, documented field by field."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Definition(BaseModel):
    """A frozen configuration model that refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        protected_namespaces=(),
        populate_by_name=True,
    )
