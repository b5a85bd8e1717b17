"""Prompts that are read as a tree: the tree itself, what a batch reads, and that its rows are answered as alone."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.engines.adapters import _hf_tree, local_hf
from pcsuite.engines.adapters._hf_sampler import BatchRow
from pcsuite.engines.adapters._hf_tree import common_length, neighbours, reads_trees, tree_of
from pcsuite.engines.adapters.base import Decoding
from pcsuite.engines.adapters.local_hf import LocalHfAdapter
from support.tiny_hf import answer_all, tiny_adapter

prompts_alike = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), min_size=1, max_size=12
)


@given(prompts_alike)
def test_every_prompt_is_its_path_and_each_beginning_stands_once(prompts):
    tree = tree_of(prompts)
    for prompt, path in zip(prompts, tree.paths, strict=True):
        places = [place for stretch in path for place in stretch]
        assert [tree.tokens[place] for place in places] == list(prompt)
        assert [tree.positions[place] for place in places] == list(range(len(prompt)))
    beginnings = {prompt[: end + 1] for prompt in prompts for end in range(len(prompt))}
    assert len(tree.tokens) == len(beginnings)
    # What stands before a branch is read before it.
    assert all(list(path) == sorted(path, key=lambda stretch: stretch.start) for path in tree.branches)
    assert sorted(place for *_, own in tree.branches for place in own) == list(range(len(tree.tokens)))


def test_hundreds_of_prompts_that_each_go_on_from_the_last_are_one_chain():
    chain = [tuple(range(1, end)) for end in range(2, 1500)]
    tree = tree_of(chain)
    assert tree.tokens == list(range(1, 1499))
    assert [len(path) for path in tree.paths] == list(range(1, 1499))


@given(*[st.lists(st.integers(0, 1), max_size=20).map(tuple)] * 2)
def test_what_two_prompts_have_in_common(first, second):
    length = common_length(first, second)
    assert first[:length] == second[:length]
    assert first[length : length + 1] != second[length : length + 1] or length in (len(first), len(second))


def row(*tokens, cache=None):
    return BatchRow(Decoding("d0", 0.0, 1.0, 4), b"k", tokens, cache=cache)


def test_a_batch_is_what_was_kept_the_first_that_waits_and_what_begins_as_it():
    rows = [row(5, 1, 1), row(7, 1), row(5, 2), row(5, 1, 2), row(9, 9, cache=[]), row(5, 1, 1, 4)]
    assert neighbours(rows, 3) == [0, 4, 5]
    assert neighbours(rows, 4) == [0, 3, 4, 5]
    assert neighbours(rows, 5) == [0, 2, 3, 4, 5]
    assert neighbours(rows[1:2], 4) == [0]
    # More was kept than fits: the rest waits, and so does the first.
    assert neighbours([row(1), row(2, cache=[]), row(3, cache=[])], 1) == [1]


@pytest.mark.parametrize(
    ("kind", "reads"), [("full", True), ("window", False), ("recurrent", False), ("hybrid", False)]
)
def test_models_that_attend_to_all_before_them_read_trees(kind, reads):
    adapter = tiny_adapter(kind)
    try:
        assert reads_trees(adapter.loaded.model) is reads
        # Float32 on a CPU: a row must not depend on its batch.
        assert not adapter._reads_trees
    finally:
        adapter.close()


def test_a_model_that_does_not_hand_on_what_it_is_to_see_reads_no_tree(monkeypatch):
    adapter = tiny_adapter("full")
    try:
        model = adapter.loaded.model
        usual, dropped = model.model.forward, []

        def deaf(*arguments, scope=None, **keywords):
            dropped.append(scope)
            return usual(*arguments, **keywords)

        assert reads_trees(model)
        monkeypatch.setattr(model.model, "forward", deaf)
        assert not reads_trees(model)
        assert dropped[0]
    finally:
        adapter.close()


def numbers(*parts):
    return " ".join(f"w{number}" for part in parts for number in part)


# Words that the tokenizer takes whole: what begins with w0 or w1 it takes apart.
INSTRUCTION, OTHER = range(20, 40), range(40, 50)
ASKED = [
    (
        numbers(start, [item], [7, 8, 9][: item % 4]),
        Decoding("d1", 0.7, 0.95, 40 if item % 5 == 0 else 6),
        seed,
    )
    for start in (INSTRUCTION, OTHER)
    for item in range(50, 60)
    for seed in (1, 2)
]


def asked_with(monkeypatch, trees, **options):
    """The answers to ASKED, all of which wait before the first batch, and the prompts that were read as each tree."""
    grown = []
    usual = _hf_tree.tree_of

    def recorded(prompts):
        grown.append(list(prompts))
        return usual(prompts)

    with monkeypatch.context() as patched:
        # As on a machine where rows depend on their batch; in float32 the answers are the same nevertheless.
        patched.setattr(LocalHfAdapter, "repeatable", False)
        if not trees:
            patched.setattr(local_hf, "reads_trees", lambda model: False)
        adapter = tiny_adapter("full", **options)
        assert adapter._reads_trees is trees
        patched.setattr(_hf_tree, "tree_of", recorded)
        held, go = threading.Event(), threading.Event()
        try:
            adapter.run_alone(lambda: (held.set(), go.wait(60)))
            held.wait(60)
            waiting = [adapter.submit(*call) for call in ASKED]
            go.set()
            return [future.result() for future in waiting], grown
        finally:
            go.set()
            adapter.close()


def test_rows_read_as_a_tree_are_answered_as_alone_and_what_they_share_is_read_once(monkeypatch):
    alone, _ = asked_with(monkeypatch, False, batch_size=1, batch_wait_ms=0)
    told = ["text", "finish_reason", "usage"]
    expected = [[answer[key] for key in told] for answer in alone]
    assert len({text for text, *_ in expected}) > len(ASKED) / 2
    for batch_size in (3, 8, 40):
        answers, grown = asked_with(monkeypatch, True, batch_size=batch_size)
        assert [[answer[key] for key in told] for answer in answers] == expected
    # All in one batch: each instruction once, and of every item what stands behind it but for the last token.
    (prompts,) = grown
    behind = sum(item % 4 for item in range(50, 60))
    assert len(tree_of(prompts).tokens) == len(INSTRUCTION) + len(OTHER) + 2 * behind


def test_a_row_that_leaves_its_batch_is_not_read_again(monkeypatch):
    left = []
    usual = _hf_tree.TreeSteps.keep

    def kept(self, rows):
        usual(self, rows)
        left.extend(rows)

    monkeypatch.setattr(_hf_tree.TreeSteps, "keep", kept)
    answers, grown = asked_with(monkeypatch, True, batch_size=8)
    assert left
    # What was kept of them has been used up.
    assert all(row.cache is None and row.finish_reason for row in left)
    assert sorted(map(len, (prompt for prompts in grown for prompt in prompts))) == sorted(
        answer["usage"]["prompt_tokens"] - 1 for answer in answers
    )


def test_in_bfloat16_on_a_cpu_prompts_are_read_as_a_tree():
    adapter = tiny_adapter("full", dtype="bfloat16", batch_size=8)
    whole = tiny_adapter("full", dtype="bfloat16", batch_size=8, prefix_reuse=False)
    try:
        assert adapter._reads_trees
        assert not whole._reads_trees
        assert all(answer["usage"]["completion_tokens"] for answer in answer_all(adapter, ASKED))
        one_word = answer_all(adapter, [("w5", Decoding("d0", 0.0, 1.0, 3), 0)])
        assert one_word[0]["usage"]["completion_tokens"] == 3
    finally:
        adapter.close()
        whole.close()
