"""A small block through llama.cpp: two tasks, two conditions, five kinds; nothing is read into the answers."""

import csv

import pytest

from pcsuite.cli import main
from pcsuite.logging.log import iter_rows
from support.profiles import write_profile
from support.tiny_gguf import tiny_model

pytestmark = pytest.mark.model


def test_a_real_block_ends_with_tables_and_figures(tmp_path):
    path = write_profile(
        tmp_path,
        {"tiny": tiny_model()},
        tasks=("csqa_json", "conll03_ner_json"),
        regimes=("D0",),
        integrations={"promptbench": {"variants": 1, "max_items": 2, "conditions_subset": ["C2", "C6"]}},
    )
    assert main(["promptbench", "--quiet", "--config", str(path)]) == 0
    rows = list(iter_rows(tmp_path / "outputs" / "runs" / "t.jsonl"))
    assert len(rows) == 2 * 2 * 2 * 6
    assert not any(row.errors for row in rows)
    assert len({row.prompt.prompt_hash for row in rows if row.condition.id == "C2"}) == 2 * 2 * 6
    with (tmp_path / "outputs" / "tables" / "robustness_worst_case.csv").open() as stream:
        worst = list(csv.DictReader(stream))
    assert len(worst) == 4
    assert all(int(row["attacks"]) == 5 for row in worst)
    assert (tmp_path / "outputs" / "plots" / "robustness_drop__csqa_json__grid.png").exists()
