"""Secrets stay out of what others may read, in every form a server may send them back in."""

import base64
import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite._util.secrets import looks_secret, masked, public_url, redact, redacted_end, remember

OWN = "my-own/secret+42="


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefgh12345678",
        "api_key=abcdefgh12345678 was refused",
        '{"api-key": "abcdefgh12345678"}',
        "Incorrect API key provided: sk-abcdefgh12345678.",
        f"{OWN} is wrong",
        f"header was {quote(OWN)} or {quote(OWN, safe='')}",
        f"decoded {base64.b64encode(OWN.encode()).decode()}",
        f"Basic {base64.b64encode(b'user:' + OWN.encode()).decode()}",
        f"url-safe {base64.urlsafe_b64encode(b'Bearer ' + OWN.encode()).decode()}",
        f"hex {OWN.encode().hex()}",
    ],
)
def test_redaction(text):
    remember(OWN)
    cleaned = redact(text)
    assert "abcdefgh" not in cleaned
    assert OWN not in cleaned
    assert "***" in cleaned


@given(before=st.binary(max_size=7), after=st.binary(max_size=7))
def test_base64_is_found_wherever_the_secret_begins(before, after):
    secret = "a-key-of-some-length-0042"
    remember(secret)
    coded = base64.b64encode(before + secret.encode() + after).decode()
    assert "***" in redact(coded)
    assert base64.b64encode(secret.encode()[3:-3]).decode()[4:-4] not in redact(coded)


@pytest.mark.parametrize("unit", ["\\", "sk-", "a.", "a+", "http://a:", "?key", "a\n", "\\u0", "&#0"])
def test_a_text_that_repeats_itself_is_redacted_in_time(unit):
    remember(OWN)
    text = unit * (100_000 // len(unit)) + " sk-abcdefgh12345678"
    started = time.process_time()
    assert OWN not in redact(text + OWN, guess=False)
    assert "abcdefgh12345678" not in redact(text)
    assert time.process_time() - started < 4  # quadratic reading took seconds for a fifth of it


def test_redaction_leaves_ordinary_words():
    text = "request (5031 tokens) exceeds the available context size; token limit: 4096"
    assert redact(text) == text


def test_answers_lose_known_keys_only():
    remember("VACANT")  # what servers without keys are given
    remember("a-real-key-0123456789")
    answer = "The set is VACANT. Bearer abcdefgh12345678; a-real-key-0123456789"
    assert redact(answer, guess=False) == "The set is VACANT. Bearer abcdefgh12345678; ***"


def test_values_under_telling_names_are_masked_and_remembered():
    shown = masked(
        {"api_key": "zebra crossing 4711", "top_k": 3, "nested": [{"X-Token": "abc"}], "user": "me"}
    )
    assert shown == {"api_key": "***", "top_k": 3, "nested": [{"X-Token": "***"}], "user": "me"}
    assert redact("the server said: zebra crossing 4711") == "the server said: ***"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("https://host/t/aB3dE5gH7jK9mN1pQ3sT/v1", "https://host/t/***/v1"),
        ("https://me:word@host/v1", "https://***@host/v1"),
        ("https://host/search?q=a&api_key=12345", "https://host/search?q=a&api_key=***"),
    ],
)
def test_addresses(url, shown):
    assert public_url(url) == shown


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "MY_SERVER_KEY_2", "key", "org/some-model-7b-instruct-q4"]
)
def test_names_are_no_secrets(name):
    assert not looks_secret(name)


@pytest.mark.parametrize(
    "key", ["sk-proj-0123456789abcdef", "hf_AbCdEf0123456789", "AIzaSyD0123456789abc", "aB3dE5gH7jK9mN1pQ3sT"]
)
def test_keys_are(key):
    assert looks_secret(key)


ADDRESSES = [
    ("got 'http://me:S3cret-pw@127.0.0.1:9/v1'", "got 'http://***@127.0.0.1:9/v1'"),
    ("http://me:pa/ss@host/v1", "http://***@host/v1"),
    ("http://me:p@ss@host/v1", "http://***@host/v1"),
    ("http://me:pw@ho st/v1", "http://***@ho st/v1"),
    ("http://t0ken@host/v1 is refused", "http://***@host/v1 is refused"),
    ("me:S3cret-pw@host:80/v1", "***@host:80/v1"),
    ("http://host/v1?key=ab", "http://host/v1?key=***"),
    ("http://host/v1?a=1&X-Amz-Signature=ab&b=2", "http://host/v1?a=1&X-Amz-Signature=***&b=2"),
    ("http://host/v1?sv=2024-01-01&sig=a%2fb", "http://host/v1?sv=2024-01-01&sig=***"),
    ("postgres://u:pw@db/x", "postgres://***@db/x"),
    ("http://127.0.0.1:8000/v1/@me", "http://127.0.0.1:8000/v1/@me"),
    ("https://host/@scope/package", "https://host/@scope/package"),
    ("http://host/v1?page=2&sort=key", "http://host/v1?page=2&sort=key"),
    ("the ratio 3:1, write to a@b.c", "the ratio 3:1, write to a@b.c"),
]


@pytest.mark.parametrize(("text", "shown"), ADDRESSES)
def test_credentials_of_addresses_in_a_message(text, shown):
    assert redact(text) == shown


@given(data=st.data())
def test_a_secret_with_any_of_its_characters_escaped(data):
    """Servers escape what their own grammar asks for, some characters and not others."""
    secret = "partly+Escaped/key=0&42"
    remember(secret)
    ways = [
        lambda c: c,
        lambda c: f"%{ord(c):02X}",
        lambda c: f"%{ord(c):02x}",
        lambda c: f"%25{ord(c):02x}",
        lambda c: f"\\u{ord(c):04x}",
        lambda c: f"\\x{ord(c):02X}",
        lambda c: f"&#{ord(c)};",
        lambda c: f"&#x{ord(c):X};",
    ]
    written = "".join(data.draw(st.sampled_from(ways))(character) for character in secret)
    assert redact(f"before {written} after", guess=False) == "before *** after"


def test_the_escapes_that_json_and_html_like():
    remember("slash/amp&key=99")
    for written in (r"slash\/amp&key=99", "slash/amp&amp;key=99", "slash&sol;amp&amp;key&equals;99"):
        assert redact(written, guess=False) == "***"


WRAPPED = "wrapped-Secret_0123456789+abcdefghij/KLMNOP=42"


@pytest.mark.parametrize("every", [8, 20, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n    ", "\\n"])
def test_a_secret_that_line_breaks_part(every, end):
    """As ``base64``, ``xxd -p`` and ``fold`` print what is long."""
    remember(WRAPPED)
    data = f"HOME=/root PATH=/usr/bin KEY={WRAPPED} USER=me".encode()
    for written in (base64.b64encode(data).decode(), data.hex(), data.hex().upper(), data.decode()):
        broken = end.join(written[at : at + every] for at in range(0, len(written), every))
        cleaned = redact(broken, guess=False)
        assert "***" in cleaned
        joined = "".join(cleaned.replace("\\n", "").split())
        core = base64.b64encode(WRAPPED.encode()[3:-4]).decode()[4:-4]
        for form in (
            core,
            WRAPPED[6:-6],
            WRAPPED.encode().hex()[12:-12],
            WRAPPED.encode().hex()[12:-12].upper(),
        ):
            assert form not in joined


def test_what_is_left_of_utf_16():
    remember(WRAPPED)
    for coding in ("utf-16-le", "utf-16-be"):
        assert "3\x004\x005" not in redact(WRAPPED.encode(coding).decode("utf-8", "replace"), guess=False)


def test_the_end_of_a_text_does_not_begin_with_the_rest_of_a_secret():
    remember(WRAPPED)
    whole = (f"{WRAPPED} " * 40).encode()
    for kept in range(200, 200 + len(WRAPPED)):
        shown = redacted_end(whole[-kept:], 1000, kept=kept)
        assert not any(WRAPPED[-length:] in shown for length in (4, 12))
    assert redacted_end(b" said\n", 10, kept=100) == " said\n"
    assert redacted_end(b"0123456789abc", 10, kept=100) == "\u2026456789abc"
