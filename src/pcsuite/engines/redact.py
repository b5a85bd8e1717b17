"""Keeping secrets out of everything a person or a file may see."""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"
_BEARER = re.compile(r"(?i)\b(bearer|api[-_ ]?key|token)([\"']?\s*[:= ]\s*[\"']?)([\w.~+/=-]{8,})")
_VENDOR_KEY = re.compile(r"\b(?:sk|pk|hf|gsk|xai|AIza)[-_][\w-]{8,}")


class Redactor:
    """Replaces known secrets, and what looks like one, in text that came from elsewhere."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = tuple(sorted((secret for secret in secrets if secret), key=len, reverse=True))

    def __call__(self, text: str) -> str:
        """The text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        text = _BEARER.sub(rf"\1\2{MASK}", text)
        return _VENDOR_KEY.sub(MASK, text)

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"
