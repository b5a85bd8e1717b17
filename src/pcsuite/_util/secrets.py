"""Keeping secrets out of everything a person or a file may see.

Keys are known to the process that uses them (:func:`remember`); :func:`redact` takes them, and what merely looks like
one, out of a text that came from elsewhere. A text is redacted before it is shortened: half a key is a secret too.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

MASK = "***"
_BEARER = re.compile(
    r"(?i)\b(bearer|api[-_ ]?key|token|secret|password)([\"']?\s*[:= ]\s*[\"']?)"
    r"(?!(?:provided|required|expired|permissions?)\b)([\w.~+/=%-]{8,})"
)  # words that servers' messages have there are no secrets
# Every repetition before something else that must follow is bounded: texts are whatever a server sent, and one without
# an end would be read through from each place in a run of beginnings.
# A digit is asked for, so that words which only begin like a key are left alone.
_VENDOR_KEY = re.compile(
    r"\b(?:(?:sk|pk|rk|hf|gsk|xai|ghp|glpat|AKIA|sess)[-_]?|AIza)(?=[\w-]{0,200}\d)[\w-]{12,}"
)
_SECRET_NAME = re.compile(
    r"(?i)(api[-_]?key|secret|passw|token$|authori[sz]ation|credential|^auth|^key$|cookie)"
)
# What stands before the host of an address, whatever it holds: a port (``:8000/``) is none of it.
_USER_INFO = re.compile(
    r"(?i)\b([a-z][a-z0-9+.-]{0,60}://)"
    r"(?:[^\s/?#'\"<>]{0,4096}|[^\s/@:'\"<>]{0,4096}:(?!\d+(?:[/\s]|$))[^\s'\"<>]{0,4096})@(?=[\w\[*])"
)
_BARE_USER_INFO = re.compile(r"(?<![\w/@.%])[\w.%+-]{1,256}:(?!//)[^\s/@:'\"<>]{6,}@(?=[\w-]+[.:/])")
_SECRET_QUERY = re.compile(
    r"(?i)([?&;](?:[\w.-]*(?:key|token|secret|passw|signature|credential|auth)[\w.-]*|sig|pwd|pass|code)=)"
    r"(?!\*\*\*)[^\s&;'\"<>#)]+"
)
_RANDOM = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z0-9]*[A-Z0-9])(?=\D*\d)[\w~.+=-]{20,}\Z")
_LEAST_IN_ANSWERS = 12
"""Keys of fewer characters are left alone in answers: servers without keys are given words such as EMPTY."""

_known: dict[str, tuple[str, ...]] = {}
_spelled: dict[str, re.Pattern[str]] = {}
"""Each secret with every character plain or escaped: a server may escape some of them and not others."""
_LONGEST_SPELLING = 8
"""Characters that one character of a secret may become."""
_BACKSLASHES = r"\\{1,32}"
"""What escapes a character, five times over at most: of a longer run each beginning would be tried to its end."""
_ESCAPES = re.compile(r"[%\\&]")


def remember(secret: str) -> None:
    """Know a secret from now on, for as long as the process lives; one of fewer than 6 characters is a word.

    It is then found plain, in UTF-16, in base64 wherever it begins, in hexadecimal, and with any of its characters
    escaped as addresses, JSON, Python or HTML escape them.
    """
    secret = secret.strip()
    if len(secret) < 6 or secret in _known:
        return
    forms = {secret}
    if len(secret) >= 8:
        data = secret.encode("utf-8", "surrogatepass")
        forms |= {quote(secret), quote(secret, safe=""), quote(quote(secret, safe=""), safe="")}
        forms |= {quote(secret, safe="").lower(), json.dumps(secret)[1:-1], data.hex(), data.hex().upper()}
        forms.add("\0".join(secret))  # what is left of UTF-16 where it is taken for UTF-8
        for shift in range(3):
            # What stands before a secret moves its bits: the characters that depend on it alone are looked for.
            coded = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
            core = coded[(0, 2, 3)[shift] : len(coded) - (1 if (shift + len(data)) % 3 else 0)]
            forms |= {core, core.replace("+", "-").replace("/", "_")}
        _spelled[secret] = re.compile("".join(map(_spellings, secret)))
    _known[secret] = tuple(sorted(forms, key=len, reverse=True))


def remember_environment() -> None:
    """Know the values of all variables whose names say that they are secret, such as ``OPENAI_API_KEY``.

    For programs that get the whole environment: what they write to their standard error is kept.
    """
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and not Path(value).exists():
            remember(value)


def _spellings(character: str) -> str:
    """A pattern for one character of a secret, plain or escaped."""
    code, data = ord(character), character.encode("utf-8", "surrogatepass")
    ways = [re.escape(character), "".join(f"%(?:25)*(?i:{byte:02x})" for byte in data)]
    ways += [
        f"&#0*{code};",
        f"&#[xX]0*(?i:{code:x});",
        rf"{_BACKSLASHES}u\{{?0*(?i:{code:x})\}}?",
        rf"{_BACKSLASHES}x(?i:{code:02x})",
    ]
    if character in "/\\\"'":
        ways.append(_BACKSLASHES + re.escape(character))
    named = {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "'": "&apos;",
        "+": "&plus;",
        "=": "&equals;",
    }
    named |= {"/": "&sol;", " ": r"\+"}
    if character in named:
        ways.append(named[character])
    return f"(?:{'|'.join(ways)})"


def redact(text: str, *, guess: bool = True) -> str:
    """The text with every secret replaced by ``***``.

    ``guess`` also takes out what looks like a key or follows a word such as ``Bearer``: right for messages, wrong for
    a model's answer, which must stay as it came but for keys that are known.
    """
    for secret, forms in _known.items():
        if guess or len(secret) >= _LEAST_IN_ANSWERS:
            for form in forms:
                if form in text:
                    text = text.replace(form, MASK)
            if secret in _spelled and _ESCAPES.search(text):
                text = _spelled[secret].sub(MASK, text)
    text = _without_wrapped(text, guess=guess)
    if guess:
        text = _USER_INFO.sub(rf"\1{MASK}@", text)
        text = _BARE_USER_INFO.sub(f"{MASK}@", text)
        text = _SECRET_QUERY.sub(rf"\1{MASK}", text)
        text = _BEARER.sub(rf"\1\2{MASK}", text)
        text = _VENDOR_KEY.sub(MASK, text)
    return text


def _without_wrapped(text: str, *, guess: bool) -> str:
    """The text without secrets that line breaks part, as programs break base64, hexadecimal and long lines."""
    lines = text.replace("\\r\\n", "\n").replace("\\n", "\n").split("\n")
    if len(lines) == 1:
        return text
    joined = "".join(line.strip() for line in lines)
    for secret, forms in _known.items():
        if guess or len(secret) >= _LEAST_IN_ANSWERS:
            for form in forms:
                if form in joined:
                    text = _wrapped(form).sub(MASK, text)
    return text


@lru_cache(maxsize=256)
def _wrapped(form: str) -> re.Pattern[str]:
    """A pattern for a form of a secret with breaks between any of its characters."""
    return re.compile(r"(?:\s|\\[rn])*".join(map(re.escape, form)))


def redacted_end(data: bytes, most: int, *, kept: int) -> str:
    """The last ``most`` characters of what a program wrote, without secrets.

    ``data`` is the end of it, of which ``kept`` bytes were kept: where there was more, the beginning may be the rest of
    a secret that nobody could recognize, and is left out.
    """
    text = redact(data.decode("utf-8", "replace"))
    if len(data) >= kept:
        text = text[_LONGEST_SPELLING * max(map(len, _known), default=0) :]
    return text if len(text) <= most else "…" + text[1 - most :]


def looks_secret(text: str) -> bool:
    """Whether a word looks like a key rather than a name: a vendor's prefix, or long and mixed.

    >>> looks_secret("OPENAI_API_KEY"), looks_secret("sk-proj-0123456789abcdef")
    (False, True)
    """
    return bool(_VENDOR_KEY.search(text) or _RANDOM.match(text))


def masked(value: Any, name: str = "") -> Any:
    """A JSON value with secrets replaced, for files that others may read.

    A secret is what is known as one, what looks like one, and any text under a key that says so (``api_key``,
    ``Authorization``); such texts are remembered, so that a server that echoes them does no harm.
    """
    if isinstance(value, Mapping):
        return {str(key): masked(entry, str(key)) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(entry, name) for entry in value]
    if isinstance(value, str) and value:
        if looks_secret(value) or (_SECRET_NAME.search(name) and not value.isspace()):
            remember(value)
            return MASK
        return redact(value)
    return value


def public_url(url: str) -> str:
    """An address without credentials: user and password, and parts of path or query that look like a key.

    What is taken out is remembered.

    >>> public_url("https://me:pw@host/v1/sk-0123456789abcdef01/chat?key=abcdefgh")
    'https://***@host/v1/***/chat?key=***'
    """
    parts = urlsplit(url)
    where = parts.netloc
    if "@" in where:
        user, _, where = where.rpartition("@")
        remember(user.partition(":")[2] or user)
        where = f"{MASK}@{where}"
    path = "/".join(str(masked(piece)) for piece in parts.path.split("/"))
    query = []
    for pair in filter(None, parts.query.split("&")):
        key, sep, value = pair.partition("=")
        query.append(f"{key}{sep}{masked(value, key)}")
    return redact(urlunsplit((parts.scheme, where, path, "&".join(query), "")))
