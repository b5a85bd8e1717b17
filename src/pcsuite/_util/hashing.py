"""Hashes that name things, and randomness derived from names: the same on every machine and in every process."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def sha256_hex(content: str | bytes) -> str:
    """The sha256 (hex) of bytes, or of a text's UTF-8 bytes (lone surrogates, which models emit, included).

    >>> sha256_hex("abc")[:8]
    'ba7816bf'
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """The sha256 (hex) of a value's canonical JSON: equal values have equal digests.

    >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    True
    """
    return sha256_hex(canonical_json(value))


def canonical_json(value: Any) -> str:
    """JSON text that is the same for equal values: sorted keys, no blanks.

    Takes what JSON has and pydantic models; raises :class:`TypeError` on anything else.
    """

    def plain(part: Any) -> Any:
        if hasattr(part, "model_dump"):
            return part.model_dump(mode="json")
        raise TypeError(f"{type(part).__name__} has no canonical JSON form")

    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=plain)


def seed_from(text: str) -> int:
    """A seed of 31 bits, which every engine accepts, from the sha256 of a text.

    The same text gives the same seed on every machine; different texts give unrelated ones.
    """
    return int(sha256_hex(text)[:8], 16) >> 1


def named_rng(*names: object) -> np.random.Generator:
    """A generator whose stream depends on the names alone, so that one cell's interval never depends on others.

    >>> named_rng("effects", "gsm8k").random() == named_rng("effects", "gsm8k").random()
    True
    """
    import numpy as np

    # A separator that no name has, so that ("a", "bc") and ("ab", "c") differ.
    text = "\x1f".join(str(name) for name in names)
    return np.random.default_rng(int(sha256_hex(text)[:32], 16))
