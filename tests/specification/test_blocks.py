"""Every block of the two documents, extracted and run: what happens is what the table of outcomes says.

The documents are looked for in ``../shared/seeds`` (or ``PCS_SHARED_SEEDS``); without them these tests skip and say so.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.specification_blocks import SEEDS, SPECIFICATION, Block, blocks
from support.specification_runs import happens

TABLE = yaml.safe_load((Path(__file__).parent / "outcomes.yaml").read_text(encoding="utf-8"))
BLOCKS = blocks()
pytestmark = pytest.mark.skipif(not BLOCKS, reason=f"the documents are not in {SEEDS}")


def key(block: Block) -> tuple[str, int, str]:
    return block.document.removesuffix(".txt"), block.line, block.kind


def test_every_block_is_in_the_table_and_nothing_else():
    assert [key(block) for block in BLOCKS] == [tuple(entry[:3]) for entry in TABLE["blocks"]]


@pytest.mark.parametrize(
    "block", BLOCKS, ids=[f"{block.document[:4]}-{block.line}-{block.kind}" for block in BLOCKS]
)
def test_a_block_does_what_the_table_says(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    expected = {tuple(entry[:3]): entry[4] for entry in TABLE["blocks"]}[key(block)]
    assert happens(block, tmp_path) == expected


def test_differences_on_purpose_are_few_and_each_has_its_reason():
    used = {
        entry[4].removeprefix("on purpose: ")
        for entry in TABLE["blocks"]
        if entry[4].startswith("on purpose")
    }
    assert used <= set(TABLE["differences"])
    assert len(TABLE["differences"]) <= 12
    assert all(len(entry["why"]) > 40 for entry in TABLE["differences"].values())
    assert SPECIFICATION
