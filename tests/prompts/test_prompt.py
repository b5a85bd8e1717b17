"""Length control: prompts reach the band with filler that says nothing."""

from hypothesis import given
from hypothesis import strategies as st

from pcsuite.prompts.prompt import FILLER_LINE, PromptTree, fit


def words(text):
    return len(text.split())


def tree(text):
    return PromptTree("json_base.j2", "Do it.", "Input", text)


def test_pad_reaches_the_band_and_is_counted():
    measured = fit(tree("short input"), (100, 200), "pad", words)
    assert measured.band == "inside"
    assert measured.tokens == words(measured.text) >= 100
    assert measured.padded == measured.text.count(FILLER_LINE) == 10
    assert measured.tokens < 100 + words(FILLER_LINE)


def test_warn_and_off_leave_the_prompt_alone():
    for control in ("warn", "off"):
        measured = fit(tree("short input"), (100, 200), control, words)
        assert measured.padded == 0
        assert measured.band == "below"
        assert measured.text == "Do it.\n\nInput:\nshort input"


def test_a_long_prompt_is_marked():
    assert fit(tree("word " * 300), (100, 200), "pad", words).band == "above"


def test_without_a_tokenizer_the_count_is_marked_as_an_estimate():
    measured = fit(tree("x" * 393), (10, 200), "pad", lambda text: None)
    assert (measured.tokens, measured.exact) == (102, False)


@given(st.integers(0, 400), st.integers(1, 300))
def test_pad_never_stops_below_the_band(length, low):
    measured = fit(tree("w " * length), (low, 10_000), "pad", words)
    assert measured.tokens >= low
