"""Addresses say what a page is about, and are refused by name where a run has no such thing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pcsuite.errors import ConfigError
from pcsuite.view.filters import Filter, address, filter_like, filter_of, state_of

VALUES = {
    "news": {
        "condition": ["C0", "C4"], "model": ["small", "large"], "decoding": ["d0"], "perturbation": ["none"],
    }
}  # fmt: skip
RUN = SimpleNamespace(name="first", values=VALUES)


def test_what_an_address_does_not_say_is_the_first_of_its_kind():
    found = filter_of(RUN, {"only": "differ"})
    assert found == Filter(
        "news", "condition", {"model": "small", "decoding": "d0", "perturbation": "none"}, "C0", "differ"
    )


def test_an_address_gives_back_the_filter_that_it_was_made_from():
    found = filter_of(RUN, {"columns": "model", "condition": "C4", "base": "large", "sort": "-gain:small"})
    assert filter_of(RUN, state_of(found)) == found
    assert address("/run/first", {"b": 2, "a": 1, "empty": "", "none": None}) == "/run/first?a=1&b=2"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"task": "weather"}, "task: there is no 'weather'"),
        ({"columns": "seed"}, "columns: there is no 'seed'"),
        ({"model": "huge"}, "model: there is no 'huge'"),
        ({"base": "C9"}, "base: there is no 'C9'"),
    ],
)
def test_what_a_run_does_not_have_is_refused_by_name(query, words):
    with pytest.raises(ConfigError, match=words):
        filter_of(RUN, query)


def test_another_run_is_asked_for_its_own_only_value():
    wanted = filter_of(RUN, {"decoding": "d0", "model": "large", "q": "word"})
    other = {"news": {**VALUES["news"], "decoding": ["greedy"]}}
    found = filter_like(SimpleNamespace(name="second", values=other), wanted)
    assert (found.fixed["decoding"], found.fixed["model"], found.query) == ("greedy", "large", "")
    several = {"news": {**VALUES["news"], "model": ["one", "two"]}}
    with pytest.raises(ConfigError, match="run 'second' has no model 'large'"):
        filter_like(SimpleNamespace(name="second", values=several), wanted)
    with pytest.raises(ConfigError, match="run 'second' has no task 'news'"):
        filter_like(SimpleNamespace(name="second", values={}), wanted)
