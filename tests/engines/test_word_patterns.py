"""Patterns of all words but some, and of formats, against llguidance and Python."""

import re
from datetime import date
from ipaddress import AddressValueError, IPv6Address
from random import Random

import pytest

from pcsuite.engines.word_patterns import FORMATS, all_words_but, literal_beginning


def python(pattern):
    return re.compile(re.sub(r"\\x\{([0-9A-F]+)\}", lambda m: re.escape(chr(int(m[1], 16))), pattern))


@pytest.mark.parametrize("words", [["a"], ["a", "ab", "b"], [""], ['q"t', "a\\b", "l\nb"], ["é", "😀x"]])
def test_every_word_matches_but_those(words):
    pattern = python(all_words_but(words))
    pieces = ["", "a", "b", "c", '"', "\\", "\n", "q", "t", "l", "é", "😀", "x"]
    rng = Random(0)
    tried = {"".join(rng.choices(pieces, k=rng.randint(0, 4))) for _ in range(800)} | set(words)
    for text in tried:
        assert (pattern.fullmatch(text) is not None) == (text not in words), text


def test_beginnings_are_excluded_with_all_that_follows():
    pattern = python(all_words_but(["id"], ["x-"]))
    assert [text for text in ("", "x", "x-", "x-1", "id", "idx", "y") if pattern.fullmatch(text)] == [
        "",
        "x",
        "idx",
        "y",
    ]


def test_only_plain_beginnings_are_read():
    assert literal_beginning(r"^a\.b") == ("a.b", False)
    assert literal_beginning("^") == ("", False)
    for pattern in ("a", "^a|b", "^[ab]", "^a.", "^a+"):
        assert literal_beginning(pattern) is None


def test_dates_are_those_of_the_calendar():
    pattern = re.compile(FORMATS["date"])
    for year in (1, 4, 1896, 1900, 1999, 2000, 2004, 2021, 2100, 2400):
        for month in range(14):
            for day in range(33):
                text = f"{year:04}-{month:02}-{day:02}"
                try:
                    valid = bool(date(year, month, day))
                except ValueError:
                    valid = False
                assert (pattern.fullmatch(text) is not None) == valid, text


def test_addresses_are_those_that_python_reads():
    pattern = re.compile(FORMATS["ipv6"])
    rng = Random(1)
    texts = [
        "::",
        "::1",
        "1::",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:1.2.3.4",
        "::1.2.3.4",
        "1::8:1.2.3.4",
        ":1",
        "1:",
        "1:::2",
        "12345::",
    ]
    texts += [
        ":".join(rng.choice(["", "a", "12", "ffff", "1.2.3.4", "0"]) for _ in range(rng.randint(2, 9)))
        for _ in range(4000)
    ]
    for text in texts:
        try:
            valid = bool(IPv6Address(text)) or True
        except AddressValueError:
            valid = False
        # Python also reads zeros before an IPv4 part that RFC 4291 has no need of.
        if pattern.fullmatch(text):
            assert valid, text
    assert pattern.fullmatch("1::8:1.2.3.4")
    assert pattern.fullmatch("1:2:3:4:5:6:7:8")
    assert pattern.fullmatch("::")


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("time", ["08:30:06Z", "23:59:59.5+02:00"], ["24:00:00Z", "08:30:06", "08:30:60Z"]),
        ("date-time", ["2020-02-29T08:30:06Z"], ["2021-02-29T08:30:06Z", "2020-02-29 08:30:06Z"]),
        ("duration", ["P1Y2M3DT4H", "PT5S", "P3W"], ["P", "PT", "P1W2D", "PT1D"]),
        ("uuid", ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08aa9811eab4aa73b441d16380"]),
        ("ipv4", ["1.2.3.4", "255.0.0.255"], ["1.2.3", "256.0.0.1", "01.2.3.4"]),
        ("hostname", ["a", "www.example.com", "a-b.c9"], ["-a", "a-", "a..b", "ab--cd", "a" * 64]),
        ("email", ["a.b+c@example.org"], ["a", "a@", ".a@b", "a@-b"]),
        ("json-pointer", ["", "/a~0b/c"], ["a", "/a~2"]),
        ("relative-json-pointer", ["0", "1/a", "2#"], ["/a", "01", "-1"]),
    ],
)
def test_formats_by_example(name, valid, invalid):
    pattern = re.compile(FORMATS[name])
    assert all(pattern.fullmatch(text) for text in valid)
    assert not any(pattern.fullmatch(text) for text in invalid)
