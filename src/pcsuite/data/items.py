"""The item: what is put to a model, and the truth it is scored against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Item:
    """One line of an items file (``{"item_id", "input_text", "truth"}``)."""

    item_id: str
    input_text: str
    truth: dict[str, Any]
