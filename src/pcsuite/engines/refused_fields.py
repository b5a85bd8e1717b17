"""Which fields of requests models' servers refuse, remembered beside a run's log.

A server that refuses a parameter by name (``temperature`` of a model that reasons) is asked without it from then on,
and a run that is taken up again must ask as it did before: what was learned is a small JSON file under the log's name.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path

from pcsuite._util.files import replace_atomically
from pcsuite.errors import ConfigError

_LOGGER = logging.getLogger("pcsuite")


class RefusedFields:
    """The file ``<run>.refused.json``: fields by model, as ``{"openai/o9": ["temperature", "top_p"]}``.

    Raises :class:`ConfigError` where it is there and cannot be read. One that cannot be written is warned of: the run
    goes on, and the next start learns anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fields: dict[str, list[str]] = {}
        try:
            stored = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise self._damaged(str(error)) from None
        if not isinstance(stored, dict) or not all(
            isinstance(fields, list) and all(isinstance(field, str) for field in fields)
            for fields in stored.values()
        ):
            raise self._damaged("it is no object of lists of names")
        self._fields = stored

    def of(self, model_id: str) -> Iterable[str]:
        """The fields that a model's server was seen to refuse, in the order in which it did."""
        return tuple(self._fields.get(model_id, ()))

    def add(self, model_id: str, field: str) -> None:
        """Remember one more; the file is replaced as a whole."""
        fields = self._fields.setdefault(model_id, [])
        if field in fields:
            return
        fields.append(field)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_atomically(self.path, json.dumps(self._fields, indent=1) + "\n")
        except OSError as error:
            _LOGGER.warning("%s: cannot be written (%s)", self.path, error.strerror or error)

    def _damaged(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self.path}: cannot be read: {why}", hint="delete it: what models refuse is learned anew"
        )
