"""What servers' errors say, in the shapes that no written exchange has; the usual ones are in the replay suite."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.engines.adapters._wire_errors import (
    ServerError,
    checked_answer,
    error_within,
    read_error,
    status_error,
)
from pcsuite.errors import EngineError


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no"}}, "no"),
        ({"error": "no"}, "no"),
        ({"message": "no"}, "no"),
        ({"detail": "no"}, "no"),
        ({"detail": [{"loc": ["body", "n"], "msg": "no"}]}, "body.n: no"),
        ({"detail": [{"msg": "no"}]}, "no"),
        ({"detail": {"message": "no"}}, "no"),
        ([{"error": {"message": "no"}}], "no"),
        ({"errors": [{"message": "no", "code": 7}]}, "no"),
        ({"error": {"error": {"message": "no"}}}, "no"),
        ({"error": {"message": "a", "metadata": {"raw": {"error": "b"}}}}, "a (b)"),
        ({"error": {"message": "a", "metadata": {"raw": "b", "provider_name": "P"}}}, "a (P: b)"),
        ("<html><title> gone\n away </title>", " gone\n away "),
        ("<html><body>no title</body>", ""),
        (None, ""),
        ({}, "{}"),
        ({"error": None}, "{'error': None}"),
        ({"error": {}}, "{'error': {}}"),
    ],
)
def test_the_message_in_whatever_shape(body, message):
    assert read_error(body).message == message


def test_a_page_of_a_proxy_is_its_title_alone():
    page = "<!DOCTYPE html><html><head><title>\n504 Gateway\n  Timeout</title></head><body>" + "x" * 9000
    assert str(status_error(504, page, None, None)) == "HTTP 504: 504 Gateway Timeout"


@pytest.mark.parametrize(
    ("body", "status", "retryable", "outcome"),
    [
        ({"error": {"code": 502, "message": "x"}}, 502, True, "failed"),
        ({"error": {"code": "502", "message": "x"}}, 502, True, "failed"),
        ({"error": {"code": 400, "message": "x"}}, 400, False, "failed"),
        ({"error": {"type": "overloaded_error", "message": "x"}}, 529, True, "failed"),
        ({"error": {"type": "invalid_request_error", "code": "model_not_found", "message": "x"}}, 404, False, "failed"),
        ({"error": {"status": "RESOURCE_EXHAUSTED", "message": "x"}}, 429, True, "failed"),
        ({"error": {"code": "content_filter", "message": "x"}}, None, False, "filtered"),
        ({"error": {"code": "context_length_exceeded", "message": "x"}}, None, False, "too_long"),
        ({"error": {"message": "x"}}, None, True, "failed"),
        ({"error": "x"}, None, True, "failed"),
    ],
)  # fmt: skip
def test_an_error_within_a_success_has_the_kind_that_it_names(body, status, retryable, outcome):
    error = error_within(body)
    assert (error.status, error.retryable, error.outcome) == (status, retryable, outcome)
    with pytest.raises(EngineError):
        checked_answer(body)


@pytest.mark.parametrize(
    "answer", [{"error": None, "choices": []}, {"error": {}, "content": []}, {"error": ""}]
)
def test_an_empty_error_is_none(answer):
    assert checked_answer(answer) is answer


@pytest.mark.parametrize(
    ("status", "body", "says_all"),
    [
        (401, {"error": "who"}, True),
        (402, {"error": "pay"}, True),
        (404, {"error": "where"}, True),
        (400, {"error": {"message": "API key not valid."}}, True),
        (400, {"error": {"code": "invalid_model", "message": "x"}}, True),
        (429, {"error": {"code": "insufficient_quota", "message": "x"}}, True),
        (429, {"error": {"code": "rate_limit_exceeded", "message": "x"}}, False),
        (400, {"error": {"message": "the tool is not valid"}}, False),
        (403, {"error": {"message": "not for you"}}, False),
        (400, {"error": {"code": "context_length_exceeded", "message": "x"}}, False),
    ],
)
def test_what_would_refuse_every_other_call_too(status, body, says_all):
    assert status_error(status, json.dumps(body), None, None).refuses_all is says_all


@pytest.mark.parametrize(
    ("message", "first"),
    [
        ("Unsupported value: 'temperature' does not support 0.0", "temperature"),
        ("`temperature` and `top_p` cannot both be specified for this model.", "top_p"),
        ("Invalid JSON payload received. Unknown name \"topP\" at 'generation_config'", "topP"),
        ("property 'seed' is unsupported", "seed"),
    ],
)
def test_the_name_of_a_refused_parameter_is_among_those_of_its_message(message, first):
    names = ServerError(message).refused_names()
    known = [name for name in names if name in ("temperature", "top_p", "topP", "seed")]
    assert known[0] == first


def test_a_parameter_that_is_merely_out_of_range_is_not_refused():
    assert ServerError("temperature must be between 0 and 2").refused_names() == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 600) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "detail", "metadata", "raw", "errors", "details", "loc"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from([200, 400, 403, 413, 422, 429, 500]))
def test_no_body_breaks_the_reading(body, status):
    assert isinstance(status_error(status, json.dumps(body), None, "KEY"), EngineError)
    assert isinstance(error_within(body), EngineError)


@pytest.mark.parametrize(
    "piece", ["flagged as ", "input token count ", "<title>", "context window ", "[", '{"error":']
)
def test_a_hostile_message_is_read_as_far_as_it_can_matter(piece):
    huge = piece * (600_000 // len(piece))
    for text in (
        huge,
        json.dumps({"error": {"message": huge}}),
        json.dumps({"error": {"metadata": {"raw": huge}}}),
    ):
        assert len(str(status_error(400, text, None, "KEY"))) < 500
