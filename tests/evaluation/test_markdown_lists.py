"""Records that an answer writes as Markdown."""

from __future__ import annotations

from pcsuite.evaluation.markdown_lists import (
    list_entries,
    named_values,
    table_records,
    triples,
    type_name,
    typed_entries,
)

TYPES = {"PER", "ORG", "LOC", "PERSON", "ORGANIZATION", "LOCATION"}


def test_the_last_table_counts() -> None:
    text = "| a |\n|---|\n| 1 |\n\nand\n\n| Entity | Type |\n|:--|--:|\n| `Rex` | **PER** |\n| Oslo | LOC |\nDone | so"
    assert table_records(text)[:2] == [{"Entity": "Rex", "Type": "PER"}, {"Entity": "Oslo", "Type": "LOC"}]
    assert table_records("| a | b |\nno rule") == []


def test_entries_with_their_types() -> None:
    rex, oslo = {"text": "Rex", "type": "PER"}, {"text": "Oslo", "type": "LOC"}
    for text in ("- Rex (PER)\n- Oslo [LOC]", "1. **Rex**: PER\n2. **Oslo**: LOC", "Rex - PER\nOslo → LOC", "PER: Rex\nLOC: Oslo\nORG: none",
                 "**PER:**\n- Rex\n\n**LOC:**\n- Oslo"):  # fmt: skip
        assert typed_entries(text, TYPES) == [rex, oslo], text
    assert typed_entries("Persons: Rex, Ada", TYPES) == [
        {"text": "Rex", "type": "PERSON"},
        {"text": "Ada", "type": "PERSON"},
    ]
    assert typed_entries("- Rex (PER)\n- Oslo", TYPES) == [rex, {"text": "Oslo", "type": ""}]
    assert typed_entries("- Rex\n- Oslo", TYPES) is None
    assert typed_entries("Rex met Ada in Oslo.", TYPES) is None
    assert type_name("Organizations", TYPES) == "ORGANIZATION"


def test_triples() -> None:
    assert triples("(Rex, Work_For, Acme)\n2. Rex -> Live_In -> Oslo") == [
        ["Rex", "Work_For", "Acme"],
        ["Rex", "Live_In", "Oslo"],
    ]
    assert triples("Rex works for Acme.") is None


def test_values_by_name() -> None:
    names = ["vendor", "total"]
    expected = {"vendor": "Oak", "total": "12"}
    assert named_values("vendor: Oak\nTotal: 12\nnote: x", names) == expected
    assert named_values("| Field | Value |\n|---|---|\n| Vendor | Oak |\n| Total | 12 |", names) == expected
    assert named_values("| vendor | total |\n|---|---|\n| Oak | 12 |", names) == expected
    assert named_values("Oak, 12", names) == {}
    assert list_entries("- a\n\nb\n```") == [("a", True), ("b", False)]
