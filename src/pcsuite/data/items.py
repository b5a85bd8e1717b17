"""The item: what is put to a model, and the truth it is scored against."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Item:
    """One line of an items file (``{"item_id", "input_text", "truth"}``)."""

    item_id: str
    input_text: str
    truth: dict[str, Any]
    folder: Path | None = field(default=None, compare=False)
    """Where relative file names in ``truth`` start; no part of the item's content, so moving it changes nothing."""

    def file(self, name: str) -> Path:
        """A file the truth names: relative names start from :attr:`folder`, else from the working directory."""
        return Path(name) if self.folder is None else self.folder / name
