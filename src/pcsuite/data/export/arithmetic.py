"""Arithmetic word problems: GSM8K and SVAMP."""

from __future__ import annotations

import re
from fractions import Fraction

from pcsuite._util.text import plain_number
from pcsuite.data.export import base
from pcsuite.data.items import Item, Row

_CALCULATION = re.compile(r"<<[^<>]*>>")
_ANSWER_LINE = re.compile(r"^####\s*(-?[\d,]*\.?\d+)\s*$", re.MULTILINE)
_OPENERS = frozenset({"How", "What", "Who", "Which", "Where", "When", "Find", "If", "Did", "Does", "Do"})


class Gsm8kExporter(base.ItemExporter):
    """Test as published; dev is 1,000 of train by the fixed seed, train is the rest."""

    name = "gsm8k"
    folders = ("gsm8k", "grade_school_math")
    hub = base.HubTable("gsm8k", "openai/gsm8k", config="main")
    splits = (base.Split("train", 7473, ("train.jsonl",)), base.Split("test", 1319, ("test.jsonl",)))
    split_off = ("train", "dev", 1000)

    def item(self, row: Row, split: str, position: int) -> Item:
        """A question with its final number (no commas) and its worked solution (no calculator marks)."""
        worked = row.text("answer")
        answer_line = _ANSWER_LINE.search(worked)
        if answer_line is None:
            raise row.error("'answer' has no '#### number' line")
        solution = _CALCULATION.sub("", worked[: answer_line.start()]).strip()
        truth = {"answer": answer_line.group(1).replace(",", ""), "solution": solution}
        return Item(base.numbered(self.name, split, position), row.text("question").strip(), truth)


class SvampExporter(base.ItemExporter):
    """The 1,000 challenge problems: all are the test set, in order of their ids (the hub parts them 700/300)."""

    name = "svamp"
    folders = ("svamp", "SVAMP")
    hub = base.HubTable("svamp", "ChilleD/SVAMP")
    splits = (base.Split("test", 1000, ("SVAMP.json",), hub=("train", "test")),)

    def item(self, row: Row, split: str, position: int) -> Item:
        """Body and question as one text, the answer in plain digits, and the calculation that leads there."""
        answer = plain_number(row.get("Answer"))
        if answer is None:
            raise row.error(f"'Answer' is no number: {row.get('Answer')!r}")
        problem_id = row.text("ID")
        if not problem_id.rpartition("-")[2].isdigit():
            raise row.error(f"'ID' should end in a number, found '{problem_id}'")
        body, question = base.collapse_spaces(row.text("Body")), base.collapse_spaces(row.text("Question"))
        # bodies often end without a stop, because the question goes on in the same sentence
        joint = " " if body.endswith((".", "?", "!", ",")) else ", "
        if joint == ", " and question.split(" ")[0] in _OPENERS:
            question = question[0].lower() + question[1:]
        text = f"{body}{joint}{question}" if body else question
        truth = {"answer": answer}
        equation = row.text("Equation") if "Equation" in row.values else ""
        if solution := _solution(equation, answer):
            truth["solution"] = solution
        return Item(f"svamp-{problem_id}", text, truth)

    def build(self, records: dict[str, list[Item]], options: base.ExportOptions) -> base.BuiltDataset:
        key = lambda item: (int(item.item_id.rpartition("-")[2]), item.item_id)  # noqa: E731
        return base.BuiltDataset([base.items_output(self.name, "test", sorted(records["test"], key=key))])


_STEP = re.compile(r"\(\s*(-?[\d.]+)\s*([-+*/])\s*(-?[\d.]+)\s*\)")


def _solution(equation: str, answer: str) -> str:
    """A published equation as the lines of a worked solution; empty where it is none or does not lead to the answer.

    >>> _solution("( ( 9.0 + 5.0 ) * 2.0 )", "28")
    '9 + 5 = 14\\n14 * 2 = 28'
    """
    lines, text = [], equation
    while step := _STEP.search(text):
        first, sign, second = (step[1], step[2], step[3])
        left, right = Fraction(first), Fraction(second)
        if sign == "/" and not right:
            return ""
        value = {"+": left + right, "-": left - right, "*": left * right}.get(sign)
        result = plain_number(float(left / right if value is None else value))
        if result is None:
            return ""
        lines.append(f"{plain_number(first)} {sign} {plain_number(second)} = {result}")
        text = text[: step.start()] + result + text[step.end() :]
    return "\n".join(lines) if plain_number(text.strip()) == answer else ""
