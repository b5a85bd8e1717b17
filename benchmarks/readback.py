"""The read-back set under every reader: how many wrong answers each takes as right, how many right ones it misses.

    python benchmarks/readback.py [--part fitted] [--write] [--lm-eval PYTHON]

Readers are this package's strict and lenient scores and the published rules of lm-evaluation-harness and HELM for
answers of the kind. Of the part kept apart only counts are printed. ``--write`` puts the table of that part into
docs/reference/scoring.md, which a test recomputes. ``--lm-eval`` names an interpreter that has lm-evaluation-harness:
its own filters and its own exact match then judge the same answers, and the verdicts that differ are counted.
"""

from __future__ import annotations

import argparse
import json
import re
import string
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from pcsuite.config.load import load_suite
from pcsuite.data.items import Item, load_items
from pcsuite.evaluation import build_evaluator
from pcsuite.evaluation.base import Answer, Evaluator, quasi_exact_match, score_answer
from pcsuite.evaluation.harness import (
    helm_final_number_exact_match,
    helm_quasi_prefix_exact_match,
    lm_eval_exact_match,
    lm_eval_flexible_extract,
    lm_eval_strict_match,
)
from pcsuite.runners.task_plan import task_evaluator

ROOT = Path(__file__).resolve().parents[1]
SET = ROOT / "tests" / "readback"
PAGE = ROOT / "docs" / "reference" / "scoring.md"
BEFORE, AFTER = "<!-- readback: made by benchmarks/readback.py -->\n", "<!-- end of readback -->\n"
READERS = ("strict", "lenient", "lm-eval strict", "lm-eval flexible", "HELM exact", "HELM prefix")


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer of the set with its verdict, and what it is scored by."""

    kind: str
    item: Item
    evaluator: Evaluator
    text: str
    right: bool
    style: str
    reason: str


def load_part(part: str, kinds: tuple[str, ...] = ()) -> Iterator[Answered]:
    """The answers of ``fitted`` or ``apart``, kind by kind; ``ValueError`` names the file of one that is malformed."""
    for path in sorted((SET / part).glob("*.yaml")):
        kind = path.stem
        if kinds and kind not in kinds:
            continue
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        evaluator, folder = _scorer(content)
        for number, entry in enumerate(content["items"]):
            if set(entry) != {"input", "truth", "answers"}:
                raise ValueError(f"{path.name}, item {number}: an item has input, truth and answers")
            item = Item(f"{kind}-{number}", entry["input"], entry["truth"], folder=folder)
            evaluator.check_items([item])
            for answer in entry["answers"]:
                if set(answer) != set("tvsw") or answer["v"] not in ("right", "wrong"):
                    raise ValueError(
                        f"{path.name}, item {number}: an answer has t, v (right or wrong), s and w"
                    )
                yield Answered(
                    kind, item, evaluator, answer["t"], answer["v"] == "right", str(answer["s"]), answer["w"]
                )


def _scorer(content: Mapping[str, Any]) -> tuple[Evaluator, Path | None]:
    """The evaluator a file names, by task or by itself, and where files of its truths start."""
    if "evaluator" in content:
        return build_evaluator(content["evaluator"], content.get("options")), None
    spec = _suite().tasks[content["task"]]
    return task_evaluator(_suite(), content["task"]), load_items(
        spec.dataset, spec.split, Path("nowhere")
    ).source.root


@lru_cache(maxsize=1)
def _suite() -> Any:
    return load_suite(ROOT / "configs" / "quickstart.yaml")


def verdicts(answer: Answered) -> dict[str, bool | None]:
    """Whether each reader takes the answer as right; ``None`` where it has no rule for the kind.

    Of lists and records the whole must be right.
    """
    metrics = score_answer(answer.evaluator, answer.item, Answer(answer.text)).metrics
    ours = {
        "strict": float(metrics["task_score"] or 0) >= 1.0,
        "lenient": float(metrics["lenient_score"] or 0) >= 1.0,
    }
    rules = _OTHERS.get(answer.kind, {})
    return {**ours, **{name: rules[name](answer) if name in rules else None for name in READERS[2:]}}


def counts(part: str, kinds: tuple[str, ...] = ()) -> dict[str, dict[str, list[int]]]:
    """By kind and reader: wrong answers taken as right, wrong answers, right ones missed, right ones."""
    table: dict[str, dict[str, list[int]]] = {}
    for answer in load_part(part, kinds):
        row = table.setdefault(answer.kind, {})
        for reader, taken in verdicts(answer).items():
            if taken is None:
                continue
            cell = row.setdefault(reader, [0, 0, 0, 0])
            cell[2 if answer.right else 0] += taken is not answer.right
            cell[3 if answer.right else 1] += 1
    return table


def table_rows(part: str) -> list[str]:
    """The published table of a part, in Markdown: false positives and misses by kind and reader, and over all."""
    table = counts(part)
    lines = [
        f"| kind | right, wrong | {' | '.join(READERS)} |\n",
        f"|---|---|{'---|' * len(READERS)}\n",
    ]
    for kind, row in table.items():
        cells = [f"{row[name][0]}, {row[name][2]}" if name in row else "–" for name in READERS]
        lines.append(f"| {kind} | {row['strict'][3]}, {row['strict'][1]} | {' | '.join(cells)} |\n")
    totals = []
    for name in READERS:
        false, wrong, missed, right = (
            sum(row[name][place] for row in table.values() if name in row) for place in range(4)
        )
        totals.append(f"{false} of {wrong} ({false / wrong:.1%}), {missed} of {right} ({missed / right:.1%})")
    all_right = sum(row["strict"][3] for row in table.values())
    all_wrong = sum(row["strict"][1] for row in table.values())
    lines.append(f"| **all** | {all_right}, {all_wrong} | {' | '.join(totals)} |\n")
    return lines


def renewed(page: str) -> str:
    """The page with the table of the part kept apart as it is computed now."""
    head, before, rest = page.partition(BEFORE)
    _, after, tail = rest.partition(AFTER)
    return "".join([head, before, *table_rows("apart"), after, tail])


# What the tools' own task files say of answers of a kind, in our words (lm-evaluation-harness 0.4.13: gsm8k, nq_open,
# mmlu_flan_cot_zeroshot for choices, bbh_cot_zeroshot for yes and no and for labels; HELM 0.5.16: gsm, boolq,
# multiple-choice adapter, natural_qa). Neither has a rule for entities, relations, records and SQL.
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_STATED = re.compile(
    r"(?<=The answer is )(.*)(?=.)|(?<=the answer is )(.*)(?=.)|(?<=The answer: )(.*)(?=.)"
    r"|(?<=The final answer: )(.*)(?=.)"
)
_YES_NO = re.compile(r"\b(Yes|No|yes|no)\b")
_LETTER = re.compile(r"(\([A-Z]\))")


def _bare(text: str) -> str:
    """What exact_match compares without case and punctuation."""
    return text.lower().translate(_PUNCTUATION)


def _stated(text: str) -> str:
    """strict-match: what stands behind the first "the answer is", less one character that ends it."""
    match = _STATED.search(text)
    return (match[0].strip() or "[invalid]") if match else "[invalid]"


def _label(answer: Answered) -> str:
    return str(answer.item.truth["label"])


def _flexible_choice(answer: Answered) -> bool:
    """flexible-extract: the last "(B)", else the last option whose text is named, else the letter behind a colon."""
    truth = answer.item.truth
    letters = _LETTER.findall(answer.text)
    if letters:
        return str(letters[-1]) == f"({truth['choice']})"
    texts = {_bare(text).strip(): letter for letter, text in truth["choices"].items()}
    named = re.findall("|".join(map(re.escape, texts)), _bare(answer.text))
    if named:
        return texts[named[-1]] == truth["choice"]
    last = max(truth["choices"])
    behind = re.findall(rf":[\s]*([A-{last}])", answer.text)
    return bool(behind) and behind[-1] == truth["choice"]


def _helm_choice(answer: Answered) -> bool:
    """The multiple-choice adapter: the whole answer is the letter."""
    return answer.text.strip() == answer.item.truth["choice"]


Rule = Callable[[Answered], bool]
_LABELS: dict[str, Rule] = {
    "lm-eval strict": lambda answer: _bare(_stated(answer.text)) == _bare(_label(answer)),
    "lm-eval flexible": lambda answer: _bare(answer.text.strip()) == _bare(_label(answer)),
    "HELM exact": lambda answer: quasi_exact_match(answer.text, _label(answer)),
    "HELM prefix": lambda answer: helm_quasi_prefix_exact_match(answer.text, [_label(answer)]),
}
_CHOICE: dict[str, Rule] = {
    "lm-eval strict": lambda answer: _bare(_stated(answer.text)) == _bare(answer.item.truth["choice"]),
    "lm-eval flexible": _flexible_choice,
    "HELM exact": _helm_choice,
}
_OTHERS: dict[str, dict[str, Rule]] = {
    "number": {
        "lm-eval strict": lambda answer: lm_eval_strict_match(answer.text, str(answer.item.truth["answer"])),
        "lm-eval flexible": lambda answer: lm_eval_flexible_extract(
            answer.text, str(answer.item.truth["answer"])
        ),
        "HELM exact": lambda answer: helm_final_number_exact_match(
            answer.text, str(answer.item.truth["answer"])
        ),
    },
    "short_answer": {
        "lm-eval strict": lambda answer: lm_eval_exact_match(answer.text, answer.item.truth["answers"]),
        "HELM exact": lambda answer: any(
            quasi_exact_match(answer.text, reference) for reference in answer.item.truth["answers"]
        ),
        "HELM prefix": lambda answer: helm_quasi_prefix_exact_match(
            answer.text, answer.item.truth["answers"]
        ),
    },
    "yes_no": {
        **_LABELS,
        "lm-eval flexible": lambda answer: (
            (_YES_NO.findall(answer.text) or [""])[-1].lower() == _label(answer)
        ),
    },
    "choice": _CHOICE,
    "truthful_choice": _CHOICE,
    **dict.fromkeys(("labels", "categories", "tickets", "fever"), _LABELS),
}


_HARNESS = r"""
import json, sys
from lm_eval.api.metrics import exact_match_hf_evaluate as exact
from lm_eval.filters.extraction import MultiChoiceRegexFilter, RegexFilter, WhitespaceFilter
stated = RegexFilter(regex_pattern=STATED)
filters = {
    "number": (RegexFilter(regex_pattern=r"#### (\-?[0-9\.\,]+)"),
               RegexFilter(regex_pattern=r"(-?[$0-9.,]{2,})|(-?[0-9]+)", group_select=-1)),
    "yes_no": (stated, RegexFilter(regex_pattern=r"\b(Yes|No|yes|no)\b", group_select=-1)),
    "choice": (stated, MultiChoiceRegexFilter(regex_pattern=r"(\([A-Z]\))", group_select=-1, ignore_case=True,
                                              ignore_punctuation=True)),
    "label": (stated, WhitespaceFilter()),
    "short_answer": (WhitespaceFilter(),),
}
plain = {"ignore_case": True, "ignore_punctuation": True}
compared = {
    "number": {"ignore_case": True, "regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"]},
    "short_answer": {**plain, "regexes_to_ignore": [r"\b(?:The |the |An |A |The |a |an )"]},
}
for line in sys.stdin:
    row = json.loads(line)
    kind, verdicts = row["kind"], []
    for filter in filters[kind]:
        (prediction,), = filter.apply([[row["text"]]], [{"choices": row["choices"]}])
        options = compared.get(kind, plain)
        scores = [exact(predictions=[prediction], references=[gold], **options) for gold in row["golds"]]
        verdicts.append(any(score["exact_match"] > 0 for score in scores))
    print(json.dumps(verdicts))
"""
_HARNESS_KINDS = {
    "number": "number",
    "yes_no": "yes_no",
    "choice": "choice",
    "truthful_choice": "choice",
    "short_answer": "short_answer",
}


def check_lm_eval(python: str, part: str) -> str:
    """How many verdicts of lm-evaluation-harness' own code differ from our words for its rules, and of how many."""
    answers = [answer for answer in load_part(part) if answer.kind in _OTHERS]
    rows = []
    for answer in answers:
        kind, truth = _HARNESS_KINDS.get(answer.kind, "label"), answer.item.truth
        golds = {"number": "answer", "choice": "choice", "short_answer": "answers"}.get(kind, "label")
        gold = truth[golds]
        # The tool stops generating at a line break, a full stop or a comma.
        text = (
            re.split(r"[\n.,]", answer.text.strip(), maxsplit=1)[0] if kind == "short_answer" else answer.text
        )
        rows.append({"kind": kind, "text": text, "golds": gold if isinstance(gold, list) else [gold],
                     "choices": list(truth.get("choices", {}).values())})  # fmt: skip
    script = _HARNESS.replace("STATED", repr(_STATED.pattern))
    done = subprocess.run(
        [python, "-c", script],
        input="\n".join(map(json.dumps, rows)),
        capture_output=True,
        text=True,
        check=True,
    )
    differ = total = 0
    for answer, line in zip(answers, done.stdout.splitlines(), strict=True):
        ours = verdicts(answer)
        for reader, theirs in zip(("lm-eval strict", "lm-eval flexible"), json.loads(line), strict=False):
            total += 1
            differ += ours[reader] is not theirs
    return f"{part}: {differ} of {total} verdicts of lm-evaluation-harness differ from its rules in our words"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("fitted", "apart"), default="apart")
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--wrongly", action="store_true", help="list the misread answers of the fitted part")
    parser.add_argument("--write", action="store_true", help="renew the table of docs/reference/scoring.md")
    parser.add_argument("--lm-eval", metavar="PYTHON", help="interpreter that has lm-evaluation-harness")
    args = parser.parse_args()
    if args.lm_eval:
        print(check_lm_eval(args.lm_eval, args.part))
    elif args.write:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    elif args.wrongly:
        for answer in load_part("fitted", tuple(args.kind)):
            taken = verdicts(answer)
            if taken["lenient"] is not answer.right or (taken["strict"] and not answer.right):
                verdict = "right" if answer.right else "wrong"
                print(
                    f"{answer.kind} {verdict}: strict {taken['strict']} lenient {taken['lenient']} {answer.text!r}"
                )
    else:
        print("".join(table_rows(args.part)))


if __name__ == "__main__":
    main()
