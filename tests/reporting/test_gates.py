import pytest

from pcsuite.contrasts import Gate
from pcsuite.reporting.gates import GatePlan, gate_line
from pcsuite.stats.power import BinaryWorld


def test_the_line_of_a_gate_that_cannot_fail():
    # Five sign flips have no p-value below 2/32, so nothing is ever found.
    line = gate_line([Gate(BinaryWorld(0.8), items=5, margin=0.05)])
    assert line == (
        "What this gate can find (5 items, margin 0.05): a true loss of 0.1 fails it in under 1 % of runs, no loss is"
        " found with 80 %, where nothing changed it fails in under 1 % and shows 'no worse' in under 1 %."
    )


def test_the_smallest_of_several_cells_speaks_and_without_any_nothing_does():
    gates = [Gate(BinaryWorld(0.8), items=items, repeats=2) for items in (30, 12)]
    assert gate_line(gates).startswith(
        "What this gate can find (12 items × 2 repeats, margin 0, the smallest of 2"
    )
    assert gate_line([]) == ""


@pytest.mark.slow
def test_a_plan_says_the_same_in_words_and_as_a_document():
    plan = GatePlan(Gate(BinaryWorld(0.8), items=5, margin=0.05), [0.1, 0.9], power=0.8)
    told = plan.document()
    assert [entry["loss"] for entry in told["losses"]] == [0.0, 0.1]  # scores leave no room for 0.9
    assert told["wanted"]["loss"] == 0.1
    text = plan.text()
    assert "It cannot fail reliably: not even a loss of 0.80 is found with 80 %." in text
    assert f"To find a loss of 0.1 with 80 %: {told['wanted']['items_to_find']:,} items" in text
