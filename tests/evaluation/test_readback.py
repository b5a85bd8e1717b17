"""The read-back set: its form, what readers make of the part that rules were written on, and the published table."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from readback import PAGE, SET, counts, load_part, renewed, verdicts

KINDS = {path.stem for path in (SET / "apart").glob("*.yaml")}


def share(table: dict[str, dict[str, list[int]]], reader: str, place: int) -> float:
    """Of all kinds: wrong answers taken as right (place 0) or right ones missed (place 2)."""
    rows = [row[reader] for row in table.values()]
    return sum(row[place] for row in rows) / sum(row[place + 1] for row in rows)


def test_no_answer_of_the_part_kept_apart_has_changed() -> None:
    sums = dict(
        reversed(line.split())
        for line in (SET / "apart" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    )
    assert set(sums) == {f"{kind}.yaml" for kind in KINDS}
    for name, expected in sums.items():
        assert hashlib.sha256((SET / "apart" / name).read_bytes()).hexdigest() == expected, name


def test_the_fitted_part_covers_every_kind_with_right_and_wrong_in_equal_parts() -> None:
    answers = list(load_part("fitted"))
    sides = Counter(answer.right for answer in answers)
    assert {answer.kind for answer in answers} == KINDS
    assert len(answers) >= 300
    assert abs(sides[True] - sides[False]) <= 0.1 * len(answers)
    assert all(answer.reason and answer.style for answer in answers)
    assert len({(answer.kind, answer.item.item_id, answer.text) for answer in answers}) == len(answers)


@pytest.mark.slow
def test_readers_on_the_part_that_rules_were_written_on() -> None:
    misread = []
    for answer in load_part("fitted"):
        taken = verdicts(answer)
        assert not (taken["strict"] and not answer.right), answer.text
        if taken["lenient"] is not answer.right:
            misread.append(answer.text)
    # Nothing in the words says that somebody else is the answer.
    assert misread == ["Her husband, Percy Bysshe Shelley, wrote it, and Mary Shelley put her name to it."]


@pytest.mark.slow
def test_readers_on_the_part_kept_apart() -> None:
    table = counts("apart")
    assert share(table, "strict", 0) <= 0.02
    assert share(table, "lenient", 0) <= 0.05
    assert share(table, "lenient", 2) <= 0.05


@pytest.mark.slow
def test_the_published_table_is_that_of_the_readers() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page) == page
