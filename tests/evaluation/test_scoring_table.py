"""The tables of docs/reference/scoring.md are the test: every answer gets the verdicts that the page gives."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

import pytest

from pcsuite.config.load import load_suite
from pcsuite.data.items import Item, load_items
from pcsuite.evaluation.base import Answer, Evaluator
from pcsuite.runners.task_plan import build_evaluator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "scoring.md"
LINE = re.compile(r"^\| (?:(`+) ?(.*?) ?\1|\(nothing\))( ✂)? \| ([0-9.]+) \| ([0-9.]+) \| (.+) \|$")


def sections() -> dict[str, tuple[str, list[tuple[str, bool, float, float]]]]:
    """Item id and rows (answer, cut off, strict, lenient) of each task's table."""
    found: dict[str, tuple[str, list[tuple[str, bool, float, float]]]] = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n### ")[1:]:
        part = part.partition("\n## ")[0]
        task = part.partition("\n")[0].strip()
        item = re.search(r"^Item `([^`]+)`", part, re.MULTILINE)
        if item is None:
            continue
        rows = []
        for line in part.splitlines():
            if line.startswith("| ") and not line.startswith("| answer"):
                match = LINE.match(line)
                assert match is not None, line
                text = (match[2] or "").replace("⏎", "\n").replace("\\|", "|")
                rows.append((text, bool(match[3]), float(match[4]), float(match[5])))
        found[task] = (item[1], rows)
    return found


SECTIONS = sections()


@lru_cache(maxsize=1)
def suite():
    return load_suite(ROOT / "configs" / "quickstart.yaml")


@cache
def subject(task: str) -> tuple[Evaluator, Item]:
    spec = suite().tasks[task]
    items = load_items(spec.dataset, spec.split, Path("nowhere")).items
    name = SECTIONS[task][0]
    item = items[0] if name == "⟨first⟩" else next(item for item in items if item.item_id == name)
    return build_evaluator(suite(), task), item


def written_out(text: str, evaluator: Evaluator, item: Item) -> str:
    """The answer with the gold one in place of its sign."""
    if "⟨" not in text:
        return text
    gold = evaluator.gold_answer(item)
    forms = {
        "⟨gold⟩": gold,
        "⟨gold, trailing comma⟩": gold[:-1] + ",}",
        "⟨gold, Python⟩": repr(item.truth["record"]),
        "⟨gold, comment⟩": gold[:-1] + " // the whole building\n}",
        "⟨gold, cut⟩": gold[: len(gold) // 2],
    }
    for sign, form in forms.items():
        text = text.replace(sign, form)
    return text


def test_the_page_has_every_task_with_thirty_answers() -> None:
    assert set(SECTIONS) == set(suite().tasks)
    assert all(len(rows) >= 30 for _, rows in SECTIONS.values())


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(SECTIONS))
def test_verdicts_are_those_of_the_page(task: str) -> None:
    evaluator, item = subject(task)
    wrong = []
    for text, cut, strict, lenient in SECTIONS[task][1]:
        answer = Answer(written_out(text, evaluator, item), "length" if cut else "stop")
        metrics = evaluator.evaluate(item, answer).metrics
        given = round(float(metrics["task_score"] or 0), 2), round(float(metrics["lenient_score"] or 0), 2)
        if given != (strict, lenient):
            wrong.append((text[:120], (strict, lenient), given))
    assert wrong == []
