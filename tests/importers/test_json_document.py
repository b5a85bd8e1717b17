import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.errors import DataError
from pcsuite.importers.json_document import JsonDocument

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=12) | st.floats(allow_nan=True)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["version", "eval", "plan", "results", "stats", "error"])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("documents") / "log.json"


@settings(deadline=None, max_examples=40)
@given(
    before=st.dictionaries(KEYS, VALUES, max_size=3),
    samples=st.lists(VALUES, max_size=4),
    after=st.dictionaries(st.just("reductions"), VALUES),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
)
def test_pieces_are_what_the_whole_document_says(path, before, samples, after, indent, ascii_only):
    document = {**before, "samples": samples, **after}
    path.write_text(json.dumps(document, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    opened = JsonDocument(path)
    values = {key: json.loads(text) for key, text in opened.values(without="samples").items()}
    elements = [json.loads(text) for text in opened.elements("samples")]
    opened.close()
    assert repr((values, elements)) == repr(({**before, **after}, samples))  # repr: NaN equals itself there


def test_a_document_that_ends_early_is_an_error(path):
    path.write_text('{"eval": {"task": "t"}, "samples": [{"id": 1}, {"id"')
    opened = JsonDocument(path)
    with pytest.raises(DataError, match="not whole"):
        opened.values(without="samples")
    opened.close()
    path.write_text("")
    with pytest.raises(DataError, match="cannot be read"):
        JsonDocument(path)
