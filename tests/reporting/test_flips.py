"""Items behind an effect: which are shown, with which answers, and that another item of the same id is not believed."""

import pytest

from pcsuite.analysis.analyse import analyse_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.data.items import Item
from pcsuite.reporting.answer import answer_of
from pcsuite.reporting.flips import block_flips
from support.synthetic_log import make_row, write_log

pytestmark = pytest.mark.slow
RIGHT = {"C2": (0, 1, 2, 3), "C3": (2, 3, 4, 5, 6, 7, 8, 9, 10, 11)}
"""C3 adds the schema: of 12 items it breaks 0 and 1 and fixes 4 to 11."""


@pytest.fixture(scope="module")
def flips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flips")
    rows = [
        make_row(item=f"{k}", condition=name, score=float(k in right), text=f"{name} on {k}")
        for name, right in RIGHT.items()
        for k in range(12)
    ]
    log = write_log(folder / "runs" / "a.jsonl", rows, prompts=True)
    items = {
        "agnews_json": {
            f"{k}": Item(f"{k}", "Classify" if k != 0 else "elsewhere", {"label": "x"}) for k in range(12)
        }
    }
    with RunTables([log], folder / "tables") as tables:
        answer = answer_of(analyse_scores(tables))
        return block_flips(tables, answer.blocks, [log], items)


def test_the_items_that_a_block_fixed_and_broke(flips):
    (schema,) = flips
    assert (schema.label, schema.condition, schema.baseline) == ("schema", "C3", "C2")
    assert (schema.n_fixed, schema.n_broken) == (8, 2)
    assert len(schema.fixed) == 3
    assert {flip.item for flip in schema.fixed} < {f"{k}" for k in range(4, 12)}
    assert {flip.item for flip in schema.broken} == {"0", "1"}
    for flip in schema.fixed:
        assert (flip.score_with, flip.score_without) == (1.0, 0.0)
        assert (flip.answer_with, flip.answer_without) == (f"C3 on {flip.item}", f"C2 on {flip.item}")


def test_the_truth_is_that_of_the_item_that_was_asked(flips):
    """The input of item 0 does not stand in its prompt: its id was given to another item since."""
    truths = {flip.item: flip.truth for flip in flips[0].broken}
    assert truths == {"0": None, "1": "x"}


def test_what_the_block_adds_to_the_prompt(flips):
    assert flips[0].prompt_part.startswith("Classify ")  # the store's prompts name their condition
    assert "C3" in flips[0].prompt_part
