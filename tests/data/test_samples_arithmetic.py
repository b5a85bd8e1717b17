"""Every sum written in the bundled arithmetic solutions, worked out again exactly."""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from importlib import resources

import pytest

STEMS = ["gsm8k_test", "gsm8k_dev", "gsm8k_train"]
NUMBER = r"\d+(?:\.\d+)?"
EQUATION = re.compile(rf"([\d(][\d.()+*/\- ]*?) = ({NUMBER})")
OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
# Numbers a solution may use although the story does not show them as figures: small counts
# ("twice", "a quarter", "five friends"), minutes and seconds, cents and per cent.
FREE_NUMBERS = {Fraction(value) for value in (*range(1, 13), 60, 100)}


def exact(expression: str) -> Fraction:
    """Value of a sum of decimals with + - * / and brackets, without rounding."""

    def value(node: ast.expr) -> Fraction:
        if isinstance(node, ast.BinOp):
            return OPERATIONS[type(node.op)](value(node.left), value(node.right))
        assert isinstance(node, ast.Constant)
        return Fraction(str(node.value))

    return value(ast.parse(expression, mode="eval").body)


def plain(text: str) -> str:
    """Text without dollar signs and thousands commas."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", text).replace("$", "")


def numbers(text: str) -> set[Fraction]:
    return {Fraction(figure) for figure in re.findall(NUMBER, text)}


def problem(question: str, solution: str, answer: str) -> str | None:
    """What is wrong with a solution, or None."""
    text = plain(solution)
    equations = EQUATION.findall(text)
    if len(equations) != text.count("="):
        return "an equals sign that is not an equation of numbers"
    if not 2 <= len(equations) <= 5:
        return f"{len(equations)} steps"
    known = numbers(plain(question)) | FREE_NUMBERS
    for expression, result in equations:
        if exact(expression) != Fraction(result):
            return f"{expression} is {exact(expression)}, not {result}"
        unknown = numbers(expression) - known
        if unknown:
            return f"{expression} uses {sorted(map(str, unknown))}, neither given nor worked out before"
        known.add(Fraction(result))
    if Fraction(equations[-1][1]) != Fraction(answer):
        return f"the last step gives {equations[-1][1]}, the answer says {answer}"
    return None


@pytest.mark.parametrize("stem", STEMS)
def test_every_step_holds_and_the_last_is_the_answer(stem: str) -> None:
    text = (resources.files("pcsuite.data") / "samples" / f"{stem}.jsonl").read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines():
        item = json.loads(line)
        found[item["item_id"]] = problem(
            item["input_text"], item["truth"]["solution"], item["truth"]["answer"]
        )
    assert {item_id: fault for item_id, fault in found.items() if fault} == {}


@pytest.mark.parametrize(
    ("solution", "answer", "fault"),
    [
        ("He has 30 + 20 = 50. Half is 50 / 2 = 25.", "25", None),
        ("He has $1,030 + $20 = $1,050. Half is $1,050 / 2 = $525.", "525", "neither given"),
        ("He has 30 + 20 = 51. Half is 51 / 2 = 25.5.", "25.5", "is 50, not 51"),
        ("He has 30 + 20 = 50. Half is 50 / 2 = 25.", "50", "last step"),
        ("He has 30 + 20 = 50.", "50", "1 steps"),
        ("He has 30 + 20 = 50. Half of x = 25. So 25 - 1 = 24.", "24", "not an equation"),
        ("Then 2 * (30 + 20) = 100. And 3/4 * 100 = 75.", "75", None),
    ],
)
def test_the_check_itself_finds_faults(solution: str, answer: str, fault: str | None) -> None:
    found = problem("Ed has 30 nuts and finds 20. How many is half of them?", solution, answer)
    assert (found is None) if fault is None else (found is not None and fault in found)
