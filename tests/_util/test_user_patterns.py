"""Users' patterns: Python's answers, in a bounded time."""

import random
import re
import time
import warnings

import pytest

from pcsuite._util import user_patterns
from pcsuite._util.user_patterns import NeedsWorkerError, UserPattern, deferring, user_pattern
from pcsuite.errors import OutOfTimeError

ATOMS = (
    "a", "b", ".", r"\d", r"\w", r"\s", r"\b", "[ab]", "[^a]", "(a|b)", "$", "^", "a*", "b+?", "(?i:A)", "x{1,3}", r"\.", "é",
    "[é-ü]", "(?:ab)?", r"\D", r"\W", r"(a)\1", "(?=a)", "[[a]", "{,2}", r"\x41", "[:a]", r"\S", r"\Z", "(a+)+",
)  # fmt: skip
LETTERS = "abAB1 \n.éüx\x0b\x85_[K\u212a\u0130"


def test_every_way_says_what_python_says(monkeypatch):
    """RE2 is asked for every text that it may be asked for, and compared with Python's own engine."""
    monkeypatch.setattr(user_patterns, "FEW_STEPS", 0)
    monkeypatch.setattr(user_patterns, "MOST_STEPS", float("inf"))
    rng, linear = random.Random(5), 0
    for _ in range(6000):
        text = "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 8)))
        pattern = "".join(rng.choice(ATOMS) for _ in range(rng.randint(1, 5)))
        flags = rng.choice((0, 0, re.IGNORECASE, re.MULTILINE, re.DOTALL))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            try:
                ours, theirs = UserPattern(pattern, flags), re.compile(pattern, flags)
            except re.error:
                continue
        linear += ours._same_in_re2(text)
        for how in ("search", "fullmatch"):
            expected = getattr(theirs, how)(text) is not None
            assert getattr(ours, how)(text) is expected, (pattern, flags, text, how)
        matches = [(one.group(0), *one.groups()) for one in theirs.finditer(text)]
        assert ours.finditer(text) == matches, (pattern, flags, text)
    assert linear > 1000  # or nothing was compared


@pytest.mark.parametrize(
    "pattern",
    [
        r"^([a-z0-9]+[._]?)+@example\.org$",
        "^(a+)+$",
        "^(a|a)*$",
        "^(a?){60}a{60}$",
        r"^(\w+\s?)*:$",
        "(.*)(.*)(.*)(.*)(.*)x9",
    ],
)
def test_near_matches_take_no_time(pattern):
    pytest.importorskip("re2")
    started = time.monotonic()
    for length in (30, 1000, 20_000):
        assert not user_pattern(pattern).search("a" * length + "!")
    assert time.monotonic() - started < 5


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"^(([a-z])+.)+\2$", "a" * 60 + "!"), ("(?=(a+)+$)b", "a" * 60 + "!"), (r"^(\w+é?)+$", "é" * 60 + "!")],
)
def test_what_re2_does_not_read_is_ended(pattern, text, monkeypatch):
    monkeypatch.setattr(user_patterns, "PATTERN_SECONDS", 0.3)
    with pytest.raises(OutOfTimeError, match=r"took longer than 0\.3 s"):
        user_pattern(pattern).search(text)
    with deferring(), pytest.raises(NeedsWorkerError):
        user_pattern(pattern).search(text)
    assert user_pattern(r"^(\w+é?)+$").search("é" * 60)


def test_the_bound_of_steps_covers_what_multiplies():
    assert user_pattern("abc").steps(100) == 128 * 3
    assert user_pattern("a*b").steps(100) == 128 * 129 * 3
    assert user_pattern("(a+)+").steps(100) == user_pattern("(aa|b)*").steps(100) == float("inf")
    assert user_pattern("(aa|b)?c").steps(1) == 2 * 2 * 2 * 8
