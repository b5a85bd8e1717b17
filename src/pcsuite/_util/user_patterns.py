"""Regular expressions that users bring, matched in a time that is bounded whatever the text.

Python's engine backtracks: ``^([a-z0-9]+[._]?)+@example\\.org$`` takes longer than the universe lasts on a long answer
that nearly matches. So a pattern runs, in this order, where it is

1. by Python's engine here, where the pattern has so few choices that all of them together are tried in a moment;
2. by RE2 (the package ``google-re2``), whose time is linear in the text, where RE2 reads the pattern and means the
   same;
3. by Python's engine in a worker that is ended after :data:`PATTERN_SECONDS`.

Every way gives what Python's ``re`` says; only one that is ended says nothing (:class:`OutOfTimeError`).
"""

from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal

from pcsuite._util.workers import NOTHING, PATTERNS, Limits, Raised, Stopped, inside_worker, pool
from pcsuite.errors import OutOfMemoryError, OutOfTimeError

if sys.version_info >= (3, 11):
    from re import _parser as sre_parse  # type: ignore[attr-defined]
else:
    import sre_parse

PATTERN_SECONDS = 2.0
"""Seconds that a pattern may take on one text."""
FEW_STEPS, MOST_STEPS = 100_000, 3_000_000
"""Steps that Python's engine takes in a few milliseconds, and in well under a second: up to the former it is asked
first, up to the latter where RE2 cannot be asked."""
How = Literal["search", "fullmatch", "finditer"]
_UNLIKE_RE2 = re.compile(r"\[[^]]*\[|\[:|\{,|\\x\{|\(\?<[^=!]|\\[pPCQEz]|\\0|\\[0-7]{3}")
"""What RE2 reads otherwise than Python: nested sets, ``{,n}``, escapes of its own."""
_UNICODE = re.compile(r"\\[dDwWsSbB]|\(\?[a-zA-Z]*i")
"""Classes, boundaries and case, which are Unicode's in Python and ASCII's in RE2."""
_VERY_END = re.compile(r"((?<!\\)(?:\\\\)*)\\Z")
"""The end of the text in Python's words; in RE2's it is \\z."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_ODD_SPACES = re.compile("[\x0b\x1c-\x1f]")
"""White space in Python, not in RE2."""


class NeedsWorkerError(Exception):
    """A pattern that has to run in a worker, where the caller would rather have all its work done there."""


_local = threading.local()


@contextmanager
def deferring() -> Iterator[None]:
    """Within the block a pattern that needs a worker raises :class:`NeedsWorkerError` instead of waiting for one."""
    before = getattr(_local, "deferring", False)
    _local.deferring = True
    try:
        yield
    finally:
        _local.deferring = before


class UserPattern:
    """A pattern of a user's, in Python's syntax; :func:`user_pattern` makes and keeps them.

    Raises :class:`re.error` where Python cannot read it.

    >>> user_pattern(r"^([a-z0-9]+[._]?)+@example\\.org$").search("a" * 5000 + "!")
    False
    """

    def __init__(self, text: str, flags: int = 0) -> None:
        self.text, self.flags = text, int(flags)
        self._compiled = re.compile(text, flags)
        self._linear: Any = None
        if self.flags & ~(re.IGNORECASE | re.MULTILINE | re.DOTALL) == 0 and not _UNLIKE_RE2.search(text):
            self._linear = _linear(text, self.flags)
        self._narrow = bool(_UNICODE.search(text)) or bool(self.flags & re.IGNORECASE)
        self._ends = "$" in text and not self.flags & re.MULTILINE
        self._tree = sre_parse.parse(text, flags)
        self._steps: dict[int, float] = {}

    def search(self, text: str) -> bool:
        """Whether any part of a text matches.

        Raises :class:`OutOfTimeError` where it takes too long, :class:`OutOfMemoryError` where it takes too much.
        """
        if self.steps(len(text)) > FEW_STEPS and self._same_in_re2(text):
            return self._linear.search(text) is not None
        return bool(self._by_python("search", text))

    def fullmatch(self, text: str) -> bool:
        """Whether the whole of a text matches; raises as :meth:`search` does."""
        if self.steps(len(text)) > FEW_STEPS and self._same_in_re2(text):
            return self._linear.fullmatch(text) is not None
        return bool(self._by_python("fullmatch", text))

    def finditer(self, text: str) -> list[tuple[str | None, ...]]:
        """Every match from left to right: its text and its groups; raises as :meth:`search` does."""
        if (
            self.steps(len(text)) > FEW_STEPS
            and self._same_in_re2(text)
            and self._linear.search(text) is None
        ):
            return []
        matches: list[tuple[str | None, ...]] = self._by_python("finditer", text)
        return matches

    def _same_in_re2(self, text: str) -> bool:
        """Whether RE2 says of this text what Python says."""
        if self._linear is None or (self._narrow and (not text.isascii() or _ODD_SPACES.search(text))):
            return False
        # Python's $ is also true before a last newline; half a surrogate pair has no UTF-8.
        return not (self._ends and text.endswith("\n")) and (text.isascii() or not _SURROGATE.search(text))

    def _by_python(self, how: How, text: str) -> Any:
        if inside_worker() or self.steps(len(text)) <= MOST_STEPS:
            if how == "finditer":
                return [(one.group(0), *one.groups()) for one in self._compiled.finditer(text)]
            return getattr(self._compiled, how)(text) is not None
        if getattr(_local, "deferring", False):
            raise NeedsWorkerError
        (result,) = pool().run(
            PATTERNS, NOTHING, [(self.text, self.flags, how, text)], Limits(PATTERN_SECONDS)
        )
        if isinstance(result, Stopped):
            if result.reason == "time":
                raise OutOfTimeError(f"the pattern {self.text!r} took longer than {PATTERN_SECONDS:g} s")
            raise OutOfMemoryError(f"the pattern {self.text!r} took more memory than it may")
        if isinstance(result, Raised):
            raise RuntimeError(f"the pattern {self.text!r}: {result.kind}: {result.message}")
        return result.value

    def steps(self, length: int) -> float:
        """An upper bound of the steps that backtracking takes on a text of so many characters, or up to twice as
        many.
        """
        size = length.bit_length()
        if size not in self._steps:
            most = 1 << size
            self._steps[size] = most * _choices(self._tree, most) * max(1, len(self.text))
        return self._steps[size]


@lru_cache(maxsize=512)
def user_pattern(text: str, flags: int = 0) -> UserPattern:
    """The pattern of a text and flags of ``re``, made once; raises :class:`re.error` where it cannot be read."""
    return UserPattern(text, flags)


def _linear(text: str, flags: int) -> Any:
    """The pattern as RE2 compiles it, ``None`` where RE2 is not installed or does not read it."""
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not flags & re.IGNORECASE
    options.dot_nl = bool(flags & re.DOTALL)
    letters = "m" if flags & re.MULTILINE else ""
    text = _VERY_END.sub(r"\1\\z", text)
    try:
        return re2.compile(f"(?{letters}){text}" if letters else text, options=options)
    except (re2.error, UnicodeEncodeError):
        return None


def _choices(tree: Any, length: int) -> float:
    """How many ways there are to match from one place, at most: repetitions and branches multiplied.

    A repetition of what has several ways itself has them for each time, which is more than can be tried: infinity.
    """
    product = 1.0
    for code, value in tree:
        name = str(code)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = value
            inner = _choices(body, length)
            times = min(length, float(most)) - least + 1
            if inner > 1 and most > 1:
                return math.inf
            product *= max(1.0, times) * (inner if most <= 1 else 1.0)
        elif name == "BRANCH":
            product *= sum(_choices(part, length) for part in value[1])
        elif name == "SUBPATTERN":
            product *= _choices(value[-1], length)
        elif name == "ATOMIC_GROUP":
            product *= _choices(value, length)
        elif name in ("ASSERT", "ASSERT_NOT"):
            product *= _choices(value[1], length)
        elif name == "GROUPREF_EXISTS":
            product *= _choices(value[1], length) + (_choices(value[2], length) if value[2] else 1.0)
    return product
