from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pcsuite.verifier.text_lists import pair_texts


def verdicts(truth, given_values):
    return Counter(verdict for verdict, *_ in pair_texts(truth, given_values))


def test_order_does_not_matter():
    truth = ["Inside Finish: Gypsum Board", "Cavity / Frame: R-21 / 2x6", "Exterior Finish: Wood Siding"]
    assert verdicts(truth, truth[::-1]) == {"match": 3}


def test_a_text_misread_is_a_wrong_value_and_another_text_is_not():
    found = list(
        pair_texts(
            ["Inside Finish: Gypsum Board", "Roofing: Tile"],
            ["Inside Finish: Plaster Board", "Vapor Retarder"],
        )
    )
    assert ("wrong_value", 0, "Inside Finish: Gypsum Board", "Inside Finish: Plaster Board") in found
    assert ("omission", 1, "Roofing: Tile", None) in found
    assert ("hallucination", 1, None, "Vapor Retarder") in found
    assert len(found) == 3


def test_values_that_are_no_text():
    assert verdicts(["a", "b"], ["a", 7]) == {"match": 1, "format_error": 1}
    assert verdicts(["a"], ["a", 7, None]) == {"match": 1, "hallucination": 1}


@given(
    st.lists(st.sampled_from(["a b", "a c", "b c", "x"])),
    st.lists(st.sampled_from(["a b", "A  B", "c d", "x"])),
)
def test_every_text_is_counted_once(truth, given_values):
    counts = verdicts(truth, given_values)
    shared = counts["match"] + counts["wrong_value"] + counts["format_error"]
    assert shared + counts["omission"] == len(truth)
    assert shared + counts["hallucination"] == len(given_values)
    assert verdicts(truth, given_values[::-1]) == counts
