from __future__ import annotations

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcsuite.data.items import Item
from pcsuite.data.sampling import exemplars, sample_items, split_off
from pcsuite.errors import DataError

ITEMS = [Item(f"i{n}", f"text {n}", {}) for n in range(50)]


def test_rank_is_the_sha256_of_the_joined_names():
    def rank(item: Item) -> str:
        return hashlib.sha256(f"pcsuite-v1|1337|gsm8k|{item.item_id}".encode()).hexdigest()

    assert sample_items(ITEMS, 50, 1337, "gsm8k", "pcsuite-v1") == sorted(ITEMS, key=rank)


@given(st.integers(0, 50), st.integers(0, 50), st.randoms(use_true_random=False))
def test_samples_are_nested_and_independent_of_order(small: int, large: int, rng: random.Random):
    small, large = sorted((small, large))
    shuffled = list(ITEMS)
    rng.shuffle(shuffled)
    chosen = sample_items(shuffled, large, 7, "t")
    assert len(chosen) == large
    assert sample_items(ITEMS, small, 7, "t") == chosen[:small]


def test_seed_task_and_hash_seed_all_matter():
    base = sample_items(ITEMS, 10, 1, "t", "h")
    assert base != sample_items(ITEMS, 10, 2, "t", "h")
    assert base != sample_items(ITEMS, 10, 1, "u", "h")
    assert base != sample_items(ITEMS, 10, 1, "t", "g")


def test_all_items_and_impossible_numbers():
    assert len(sample_items(ITEMS, None, 1, "t")) == 50
    assert len(sample_items(ITEMS, 99, 1, "t")) == 50
    with pytest.raises(DataError, match="cannot sample -1 items of task 't'"):
        sample_items(ITEMS, -1, 1, "t")


def test_exemplars_are_fixed_and_nested():
    four = exemplars(ITEMS, 4)
    assert exemplars(reversed(ITEMS), 2) == four[:2]
    assert exemplars(ITEMS, 0) == []
    with pytest.raises(DataError, match="51 exemplars asked for, but the training split has 50 items"):
        exemplars(ITEMS, 51)


@given(st.integers(0, 50))
def test_split_off_parts_items_and_keeps_their_order(n: int):
    part, rest = split_off(ITEMS, n, "dev", 1337)
    assert len(part) == n
    assert sorted(part + rest, key=ITEMS.index) == ITEMS
    assert part == sorted(part, key=ITEMS.index)
    assert rest == sorted(rest, key=ITEMS.index)


def test_equal_inputs_fall_on_one_side():
    doubled = [Item(f"d{n}", ("Text" if n < 40 else "text  ") + f" {n % 40}", {}) for n in range(80)]
    part, rest = split_off(doubled, 20, "dev", 1)
    normal = [{" ".join(item.input_text.lower().split()) for item in side} for side in (part, rest)]
    assert len(part) == 20
    assert not normal[0] & normal[1]


def test_a_group_that_does_not_fit_is_left_out():
    pairs = [Item(f"p{n}", str(n % 2), {}) for n in range(4)]
    assert len(split_off(pairs, 3, "dev", 1)[0]) == 2
