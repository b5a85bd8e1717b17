"""Length control: prompts reach the band with filler that says nothing."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from pcsuite._util.hashing import sha256_hex
from pcsuite.prompts.prompt import FILLER_LINE, PromptTree, fit


def words(text):
    return len(text.split())


def tree(text):
    return PromptTree("json_base.j2", "Do it.", "Input", text)


def test_pad_reaches_the_band_and_is_counted():
    prompt = fit(tree("short input"), (100, 200), "pad", words)
    assert prompt.band == "inside"
    assert prompt.tokens == words(prompt.text) >= 100
    assert prompt.padded == prompt.text.count(FILLER_LINE) == 10
    assert prompt.tokens < 100 + words(FILLER_LINE)


def test_warn_and_off_leave_the_prompt_alone():
    for control in ("warn", "off"):
        prompt = fit(tree("short input"), (100, 200), control, words)
        assert prompt.padded == 0
        assert prompt.band == "below"
        assert prompt.text == "Do it.\n\nInput:\nshort input"


def test_a_long_prompt_is_marked():
    assert fit(tree("word " * 300), (100, 200), "pad", words).band == "above"


def test_without_a_tokenizer_the_count_is_marked_as_an_estimate():
    prompt = fit(tree("x" * 393), (10, 200), "pad", lambda text: None)
    assert (prompt.tokens, prompt.exact) == (102, False)


@given(st.integers(0, 400), st.integers(1, 300))
def test_pad_never_stops_below_the_band(length, low):
    prompt = fit(tree("w " * length), (low, 10_000), "pad", words)
    assert prompt.tokens >= low


def test_the_hash_is_of_the_text_and_the_tree_holds_the_filler():
    prompt = fit(tree("a \udc80 b"), (20, 200), "pad", words)
    assert sha256_hex(prompt.text) == hashlib.sha256(prompt.text.encode("utf-8", "surrogatepass")).hexdigest()
    assert prompt.tree.filler == prompt.padded > 0
    assert prompt.tree.assemble() == prompt.text
