"""Answers of a simulated model without an event loop, for tests that need thousands of them."""

from __future__ import annotations


def draw(model, request):
    """The answer to a request; a model without latency gives it before it first waits."""
    try:
        model.agenerate(request).send(None)
    except StopIteration as finished:
        return finished.value
    raise AssertionError("the model waits; await it in an event loop")
