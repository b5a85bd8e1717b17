"""Agreement of single pairs and of blocks is one thing, and follows the verdicts on values."""

import numpy as np
import pytest

from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.similarity import Similarity
from pcsuite.verifier.tree import compile_mapping
from pcsuite.verifier.values import judge_value

TREE = compile_mapping(load_mapping()).children
TRUTH = [
    {"name": "A", "wall": "Front Wall", "azimuth": 350.0, "multiplier": 2, "area": 20.0, "shgc": 0.2},
    {"name": "B", "area": 0.0},
    {},
]
OTHERS = [
    {"name": "A", "wall": " front  wall", "azimuth": -10, "multiplier": 2.05, "area": 20.1, "shgc": "0.2"},
    {"name": "B", "area": 0.02, "shgc": 0.2},
    {"wall": "", "area": None},
]


def test_pairs_and_blocks_agree_with_each_other_and_with_the_verdicts():
    node = TREE["windows"]
    similarity = Similarity(node, TRUTH, OTHERS)
    block = similarity.block(np.arange(3), np.arange(3))
    for i, expected in enumerate(TRUTH):
        for j, actual in enumerate(OTHERS):
            verdicts = [
                judge_value(expected[key], actual[key], leaf.type, leaf.relative, leaf.absolute, leaf.modulo)
                for (key,), leaf in node.scalars
                if expected.get(key) is not None and actual.get(key) not in (None, "")
            ]
            assert block.shared[i, j] == len(verdicts)
            assert block.agreeing[i, j] == verdicts.count("match")
            single = similarity.pairs(np.array([i]), np.array([j]))
            assert [part[0] for part in single] == [part[i, j] for part in block]
    assert block.share[0, 0] == pytest.approx(
        3 / 5
    )  # wall, azimuth and area; 2.05 is no count, "0.2" no number


def test_a_list_within_an_item_counts_as_one_field():
    node = TREE["wall_constructions"]
    truth = [{"name": "R-21", "cavity_r_value": 21.0, "layers": ["a", "b"]}]
    others = [{"name": "X", "cavity_r_value": 21.0, "layers": ["B", "c"]}]
    agreement = Similarity(node, truth, others).block(np.array([0]), np.array([0]))
    assert (agreement.agreeing[0, 0], agreement.shared[0, 0]) == (1.5, 2)


def test_a_mistyped_value_makes_no_two_items_equal():
    items = [{"area": "20"}, {"area": "20"}]
    similarity = Similarity(TREE["windows"], items, items)
    assert similarity.keys(0, 0) != similarity.keys(1, 0)
    assert similarity.keys(0, 0) != similarity.keys(0, 1)
