from __future__ import annotations

from pcsuite.commands.options import not_applicable_lines
from pcsuite.runners.plan import NotApplicable


def test_tasks_that_share_a_reason_share_a_line():
    entries = [
        NotApplicable("boolq", "m1", "C6", "no mask"),
        NotApplicable("trec", "m1", "C6", "no mask"),
        NotApplicable("trec", "m1", "C7", "no retrieval"),
        NotApplicable("boolq", "m2", "C6", "no mask"),
    ]
    assert not_applicable_lines(entries) == [
        "C6 × boolq, trec × m1: no mask",
        "C7 × trec × m1: no retrieval",
        "C6 × boolq × m2: no mask",
    ]
