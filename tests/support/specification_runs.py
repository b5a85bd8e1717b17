"""What happens to a block of the documents here: one function a kind, each of which says what came of it.

``works``, ``spelling`` (an accepted other form, or no code at all), or ``on purpose: ID`` where the suite does otherwise
and the difference is really there.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
import typing
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomllib
import yaml

from pcsuite.config.load import load_suite
from pcsuite.data.items import load_items
from pcsuite.engines.adapters.base import ModelAdapter
from pcsuite.errors import ConstraintUnavailableError, PcsuiteError, PromptError
from pcsuite.evaluation.truthfulqa import bleu, rouge_l
from pcsuite.logging.row import decode_row
from pcsuite.prompts.conditions.conditions import build_condition
from pcsuite.verifier.paths import parse_path
from pcsuite.verifier.values import judge_value
from support.specification_blocks import SPECIFICATION, Block, blocks
from support.specification_modules import differing_names, execute, module_name

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = {
    "task_id": "t",
    "task_kind": "structured_extraction",
    "task_title": "Names",
    "task_goal": "List the names.",
    "input_text": "EU rejects.",
    "rules": ["Use the types."],
    "schema_text": '{"type": "object"}',
    "exemplars": [{"input": "a", "output": "b"}, {"input": "c", "output": "d"}],
}


class EchoAdapter(ModelAdapter):
    """A model that enforces nothing."""

    def generate(self, prompt: str, decoding: Any, seed: int) -> Any:
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {"text": "{}", "finish_reason": "stop", "latency_ms": 1, "usage": usage}


def happens(block: Block, folder: Path) -> str:
    """What becomes of a block, in a folder that the blocks before it may have left files in."""
    return _KINDS[block.kind](block, folder)


def write_files(folder: Path, *, until: int = 10**9) -> None:
    """The definition files and templates of the specification, as it writes them."""
    for block in blocks():
        if (
            block.document == SPECIFICATION
            and block.line < until
            and block.kind in ("yaml", "jinja")
            and block.path
        ):
            name = block.path.replace("profile_*", "profile_A")
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")


def _yaml(block: Block, folder: Path) -> str:
    """A whole file loads with the others; a part of one is laid over it."""
    write_files(folder)
    profile = folder / "configs" / "profile_A.yaml"
    if not block.path:
        values = yaml.safe_load(block.text)
        target = (
            profile
            if set(values) <= {"limits", "selection", "repro"}
            else folder / "configs" / "tasks_v1.yaml"
        )
        whole = yaml.safe_load(target.read_text(encoding="utf-8"))
        part = whole["tasks"] if set(values) <= set(whole.get("tasks", {})) else whole
        for name, entry in values.items():
            _lay_over(part, name, entry)
        target.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
    suite = load_suite(str(profile))
    for task_id in suite.profile.selection.tasks:
        suite.schema(task_id)
    return "works"


def _lay_over(whole: dict[str, Any], name: str, entry: Any) -> None:
    if isinstance(entry, dict) and isinstance(whole.get(name), dict) and name != "split":
        for key, value in entry.items():
            _lay_over(whole[name], key, value)
    else:
        whole[name] = entry


def _json(block: Block, folder: Path) -> str:
    if "run_id" in block.text:
        row = decode_row(json.dumps(json.loads(block.text)).encode())
        assert (row.task.id, row.condition.id, row.metrics["task_score"]) == ("gsm8k", "C4", 1.0)
        return "works"
    line = json.loads(re.sub(r"//.*", "", block.text))  # a note to the reader, which JSON has not
    items = folder / ".cache" / "datasets" / "ag_news_test.jsonl"
    items.parent.mkdir(parents=True, exist_ok=True)
    items.write_text(json.dumps(line) + "\n", encoding="utf-8")
    (item,) = load_items("ag_news", "test", folder / ".cache").items
    assert (item.item_id, item.input_text, item.truth) == (line["item_id"], line["input_text"], line["truth"])
    return "works"


def _toml(block: Block, folder: Path) -> str:
    theirs = tomllib.loads(block.text)
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = theirs.get("project", {}).get("optional-dependencies", {})
    assert set(extras) <= set(ours["optional-dependencies"])
    return "works"


def _jinja(block: Block, folder: Path) -> str:
    """Every condition renders with the template, and no two of them alike."""
    write_files(folder)
    templates = folder / Path(block.path).parent
    kind = "structured_extraction" if "json" in block.path else "reasoning"
    changes = {} if kind != "reasoning" else {"schema_text": "", "final_answer_format": "A: NUMBER"}
    ctx = {**CONTEXT, "task_kind": kind, **changes}
    names = ("C0", "C1", "C2", "C3", "C4", "C5", "C7")
    prompts = {name: build_condition(name, templates_dir=str(templates), ctx=ctx).prompt for name in names}
    assert len(set(prompts.values())) == len(prompts)
    assert all("EU rejects." in prompt for prompt in prompts.values())
    assert "Use the types." not in prompts["C0"]
    return "works"


def _tree(block: Block, folder: Path) -> str:
    """Every module of the tree can be imported, and every other file is in the project."""
    import importlib

    parents: list[str] = []
    for line in block.text.splitlines()[1:]:
        name, depth = line.split("#")[0].strip(), (len(line) - len(line.lstrip())) // 2
        if not name:
            continue
        parents = [*parents[: depth - 1], name.rstrip("/")]
        path = "/".join(parents)
        if path.startswith("outputs"):
            continue
        if path.endswith(".py") and path.startswith("src/"):
            importlib.import_module(
                path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            )
        elif not name.endswith("/"):
            assert (ROOT / path).is_file(), path
    return "works"


def _python(block: Block, folder: Path) -> str:
    if block.line in _FRAGMENTS and block.document == SPECIFICATION:
        return _FRAGMENTS[block.line](block, folder)
    if block.document != SPECIFICATION:
        return _VERIFIER[block.line](block, folder)
    if block.path.startswith("src/"):
        execute(block)
        assert list(differing_names(block)) == []
        whole = "from __future__" in block.text  # else it is a part that is added to the module
        return _DIFFERENCES.get(module_name(block), lambda: "works")() if whole else "works"
    execute(block, **_surroundings(folder))
    return "works"


def _c8_needs_its_prompt() -> str:
    with pytest.raises(PromptError, match="needs a compiled prompt"):
        build_condition("C8", ctx=CONTEXT)
    assert build_condition("C8", ctx={**CONTEXT, "compiled_prompt": " Do it. "}).prompt == "Do it.\n"
    constraint, react = (
        build_condition("C6", ctx=CONTEXT).constraint,
        build_condition("C7", ctx=CONTEXT).react,
    )
    assert (constraint["type"], constraint["schema_text"]) == ("json_schema", '{"type": "object"}')
    assert (react["enabled"], react["max_steps"]) == (True, 5)
    assert {"stop_when_confident", "tool_policy"} <= set(react)
    return "on purpose: uncompiled"


def _nothing_is_left_out() -> str:
    from pcsuite.constraints.outlines_json import generate_json_constrained

    decoding = {"temperature": 0.0, "top_p": 1.0, "max_tokens": 8}
    with pytest.raises(ConstraintUnavailableError):
        generate_json_constrained(EchoAdapter("echo"), "p", decoding, '{"type": "object"}', 1)
    return "on purpose: enforcement"


def _failed_rows_are_asked_again() -> str:
    import tempfile

    from pcsuite.logging.writer import JsonlWriter

    with tempfile.TemporaryDirectory() as folder:
        writer = JsonlWriter(f"{folder}/runs/a.jsonl", overwrite=False)
        writer.write({"run_id": "done", "errors": []})
        writer.write({"run_id": "failed", "errors": ["500"]})
        seen = writer.seen("done"), writer.seen("failed"), writer.seen("other")
        writer.close()
    assert seen == (True, False, False)
    return "on purpose: failed-calls"


def _answers_are_read_and_counted() -> str:
    from pcsuite.evaluation.evaluators import (
        conll_pred_to_spans,
        conll_tags_to_spans,
        f1_spans,
        get_evaluator,
    )

    gsm = get_evaluator("gsm8k")
    assert gsm.score({}, "It is #### 1,200", {"answer": "… #### 1200"})["task_score"] == 1.0
    assert gsm.score({}, "no number", {"answer": "#### 3"})["task_score"] == 0.0
    assert conll_tags_to_spans([1, 2, 0, 5]) == [(0, 2, "PER"), (3, 4, "LOC")]
    characters = {"text": "EU", "type": "ORG", "start": 0, "end": 2}
    assert conll_pred_to_spans({"entities": [characters]}, ["EU", "rejects"]) == ([(0, 1, "ORG")], 0.0)
    assert f1_spans([(0, 1, "ORG")], [(0, 1, "ORG"), (1, 2, "LOC")]) == pytest.approx((1.0, 0.5, 2 / 3))
    return "on purpose: reading"


def _rouge_has_no_stemmer() -> str:
    from pcsuite.evaluation.truthfulqa_metrics import truthfulqa_reference_metrics

    truth = {
        "best_answer": "Cats sleep.",
        "correct_answers": ["Cats sleep."],
        "incorrect_answers": ["Dogs bark."],
    }
    scored = truthfulqa_reference_metrics("Cats sleep", truth)
    assert (scored.rougeL_acc, scored.rougeL_max_true, scored.bleurt_acc) == (1.0, 1.0, None)
    assert truthfulqa_reference_metrics("A cat sleeps", truth).rougeL_max_true == 0.0
    return "on purpose: rouge"


_DIFFERENCES: dict[str, Callable[[], str]] = {
    "pcsuite.prompts.conditions.conditions": _c8_needs_its_prompt,
    "pcsuite.constraints.outlines_json": _nothing_is_left_out,
    "pcsuite.logging.writer": _failed_rows_are_asked_again,
    "pcsuite.evaluation.evaluators": _answers_are_read_and_counted,
    "pcsuite.evaluation.truthfulqa_metrics": _rouge_has_no_stemmer,
}
"""What a module does otherwise, shown."""


def _surroundings(folder: Path) -> dict[str, Any]:
    """What fragments find around them: the variables of the functions that they are parts of."""
    from pcsuite.evaluation.evaluators import fever_label_score, get_evaluator

    from pcsuite.evaluation.metric_cache import MetricCache, record_compute_time
    from pcsuite.logging import cache_report

    class Measure:
        def __init__(self, function: Callable[[str, str], float], name: str) -> None:
            self.function, self.name = function, name

        def compute(
            self, predictions: Any = ("a b",), references: Any = ("a b",), **_: Any
        ) -> dict[str, Any]:
            first = ["a b"] if predictions is ... else predictions
            reference = references[0] if isinstance(references[0], str) else references[0][0]
            value = self.function(first[0], reference)
            return {self.name: value, "scores": [value]}

    truth = {"label": "Sports", "correct_answers": ["Cats sleep."], "incorrect_answers": ["Dogs bark."]}
    given = {name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")}
    return given | {
        "Path": Path, "math": math, "time": time, "argparse": argparse, "json": json,
        "task_id": "agnews_json", "truth": truth, "gold": "Sports", "get_evaluator": get_evaluator,
        "gen_out": {"text": '{"label": "Sports", "confidence": 1, "rationale": "x"}'},
        "parsed_fields": {"label": "Sports", "choice": "a", "answer": "Cats sleep."},
        "_safe_str": str, "fever_label_score": fever_label_score, "out_dir": folder, "want": lambda name: True,
        "export_truthfulqa_mc": lambda out: None, "MetricCache": MetricCache,
        "record_compute_time": record_compute_time,
        "answer": " a b ", "r": "a b", "true_refs": [" a b"], "false_refs": ["c "], "scores": [],
        "bleu": Measure(bleu, "score"), "rouge": Measure(rouge_l, "rougeL"), "bleurt": Measure(rouge_l, "score"),
        "c": SimpleNamespace(put=lambda *values: None), "d": {"hits": 2, "misses": 1, "puts": 1, "compute_s": 0.5},
        "m": {"hits": 0, "misses": 0, "puts": 0, "compute_s": 0.0}, "merged": {}, "metric": "bleu", "lines": [],
        "prof": SimpleNamespace(cache_dir=str(folder / ".cache")), "os": __import__("os"), "k": "hits",
        "read_cache_db_stats": cache_report.read_cache_db_stats, "write_cache_report": cache_report.write_cache_report,
        "read_runtime_cache_stats": cache_report.read_runtime_cache_stats,
        "threading": __import__("threading"), "_STATS": SimpleNamespace(compute=lambda *values: None),
    }  # fmt: skip


def _interface(block: Block, folder: Path) -> str:
    """The class and its methods are among ours, whatever stands in their bodies."""
    from pcsuite.engines.adapters import base
    from pcsuite.evaluation import evaluators
    from pcsuite.prompts.conditions import conditions

    name = re.match(r"class (\w+)", block.text)[1]
    ours = next(getattr(home, name) for home in (base, evaluators, conditions) if hasattr(home, name))
    for method, arguments in re.findall(r"def (\w+)\(self, ([^)]*)\)", block.text):
        assert callable(getattr(ours, method))
        wanted = [one.split(":")[0].strip() for one in arguments.split(",")]
        taken = list(__import__("inspect").signature(getattr(ours, method)).parameters)[1:]
        assert taken[: len(wanted)] == wanted, method
    return "works"


def _labelled(block: Block, folder: Path) -> str:
    """A fragment of an evaluator gives the metric that our row has under that name."""
    from pcsuite.evaluation.evaluators import get_evaluator

    theirs = execute(block, **_surroundings(folder))["returned"]
    asked = {
        5231: ("agnews_json", "pred_label", '{"label": "Sports", "confidence": 1, "rationale": "x"}', {"label": "Sports"}),
        5238: ("csqa_json", "pred_choice", '{"choice": "A"}', {"label": "A", "choices": [["A", "x"], ["B", "y"]]}),
        5247: ("fever_json", "pred_label", '{"label": "SUPPORTS", "evidence": []}', {"label": "SUPPORTS"}),
        5258: (
            "truthfulqa_gen", "truthfulqa_rougeL_acc", '{"answer": "Cats sleep", "abstained": false}',
            {"best_answer": "Cats sleep.", "correct_answers": ["Cats sleep."], "incorrect_answers": ["Dogs bark."]},
        ),
    }  # fmt: skip
    task, metric, text, truth = asked[block.line]
    ours = get_evaluator(task).score(None, text, truth)
    assert metric in theirs
    assert ours[metric] in ("Sports", "A", "SUPPORTS", 1.0)
    return "works"


def _with_fever(block: Block, folder: Path) -> str:
    return _labelled(block, folder)


def _row_keys(block: Block, folder: Path) -> str:
    from pcsuite.evaluation.evaluators import get_evaluator

    ev = get_evaluator("agnews_json").parse('{"label": "Sports"}')
    keys = eval("{" + block.text + "}", {"ev": ev, "metrics": {}})
    assert keys["parsed"]["json_valid"] is True
    return "works"


def _elided(block: Block, folder: Path) -> str:
    with pytest.raises((SyntaxError, NameError)):
        execute(block)
    return "spelling"


def _exporter(block: Block, folder: Path) -> str:
    """Each of its exporters has a name that ours takes."""
    from pcsuite.data.export.pipeline import exported_as

    names = re.findall(r'want\("(\w+)"\)', block.text)
    assert names
    for name in names:
        assert exported_as(name)
    return "works"


def _config_method(block: Block, folder: Path) -> str:
    from pcsuite.config import load_profile

    write_files(folder)
    name = re.match(r"def (\w+)", block.text)[1]
    assert getattr(load_profile(folder / "configs" / "profile_A.yaml"), name)("gsm8k") == 500
    return "works"


def _cache_module(block: Block, folder: Path) -> str:
    from pcsuite.evaluation.metric_cache import MetricCache

    assert list(differing_names(block)) == []
    with MetricCache(folder / "cache.sqlite") as cache:
        cache.put("bleu", "a", "b", 0.5)
        assert (cache.get("bleu", "a", "b"), cache.get("bleu", "a", "c")) == (0.5, None)
    return "works"


def _deferred(block: Block, folder: Path) -> str:
    """Run on the tables of a whole run; see ``test_whole_run``."""
    return "works"


_FRAGMENTS: dict[int, Callable[[Block, Path], str]] = {
    **dict.fromkeys((2317, 2338, 2359, 2370), _interface),
    **dict.fromkeys((5231, 5238, 5247, 5258), _labelled),
    **dict.fromkeys((4964, 5470, 5474), _elided),
    **dict.fromkeys((4369, 5421), _exporter),
    **dict.fromkeys((5491, 5680), _cache_module),
    4975: _row_keys,
    5460: _config_method,
}


def _pandas(block: Block, folder: Path) -> str:
    pytest.importorskip("pandas")
    path = folder / "ground_truth.csv"
    path.write_text("field,value\nClimate Zone,12\n", encoding="utf-8")
    (folder / "extracted.json").write_text('{"project": {"climate_zone": 12}}', encoding="utf-8")
    left = execute(block, ground_truth_path=path, extracted_path=folder / "extracted.json")
    assert "ground_truth" in left or left["extracted"] == {"project": {"climate_zone": 12}}
    return "works"


def _numbers(block: Block, folder: Path) -> str:
    theirs = execute(block)["numeric_match"]
    for expected in (0, 0.31, 1200, -7.5, 1e6):
        for off in (0, 0.001, 0.009, 0.011, 0.4, 5, -0.005, 1e4):
            ours = judge_value(expected, expected + off, "number", 0.005, 0.01) == "match"
            assert ours == theirs(expected, expected + off), (expected, off)
    return "works"


def _texts(block: Block, folder: Path) -> str:
    theirs = execute(block)["string_match"]
    for expected, actual in (("A b", " a  B"), ("Zone 4", "Zone 5"), ("x", "X "), ("a", "a b")):
        assert (judge_value(expected, actual, "text", 0, 0) == "match") == theirs(expected, actual)
    return "works"


def _booleans(block: Block, folder: Path) -> str:
    theirs = execute(block)["boolean_match"]
    for actual in (True, False, "TRUE", "false", 1, 0):
        assert (judge_value(True, actual, "boolean", 0, 0) == "match") == theirs(True, actual)
    assert (theirs(False, "yes"), judge_value(False, "yes", "boolean", 0, 0)) == (True, "format_error")
    return "on purpose: booleans"


def _paths(block: Block, folder: Path) -> str:
    theirs = execute(block)["get_nested_value"]
    record = {"project": {"climate_zone": 12}, "windows": [{"u": 1}, {"u": 2}]}
    for path in ("project.climate_zone", "windows.1.u", "windows.0.u"):
        value: Any = record
        for step in parse_path(path):
            value = value[step]
        assert value == theirs(record, path)
    return "works"


_VERIFIER: dict[int, Callable[[Block, Path], str]] = {
    25: _pandas, 36: _pandas, 99: _numbers, 125: _texts, 151: _booleans, 169: _paths,
}  # fmt: skip


def _example(block: Block, folder: Path) -> str:
    """A pair of values with the verdict that the document gives."""
    expected, actual, verdict = re.match(
        r"Expected: (.+?), Actual: (.+?)(?: \(.*\))? - (\w+)", block.text
    ).groups()
    kind = "text" if expected.startswith('"') else "number"
    ours = judge_value(json.loads(expected), json.loads(actual), kind, 0.005, 0.01)
    assert (ours == "match") == (verdict == "MATCH")
    return "works"


def _path(block: Block, folder: Path) -> str:
    """Items are found under the name; what a run writes is looked at after a whole run."""
    name = block.text.split()[0]
    if not name.startswith(".cache/datasets/") or "<" in name:
        return _deferred(block, folder)
    dataset, _, split = Path(name).stem.rpartition("_")
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text('{"item_id": "1", "input_text": "x", "truth": {"answer": "2"}}\n', encoding="utf-8")
    assert load_items(dataset, split, folder / ".cache").source.path == target
    return "works"


def _shell(block: Block, folder: Path) -> str:
    """Its commands are read by our parsers; they are run in ``test_whole_run``."""
    from pcsuite.cli import COMMANDS, command_parser

    commands = {command.name: command for command in COMMANDS}
    lines = [
        line for line in block.text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")
    ]
    for line in lines:
        words = [word for word in line.split() if not word.startswith("PCS_")]
        if words[:3] == ["python", "-m", "pcsuite.cli"]:
            if words[-1].endswith("/pr"):  # cut off in the document
                return "spelling"
            assert command_parser(commands[words[3]]).parse_args(words[4:]).config == "configs/profile_A.yaml"
        elif words[0] == "pip":
            extras = re.search(r"\[([\w,]+)\]", line)[1].split(",")
            ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            assert set(extras) <= set(ours["optional-dependencies"])
        else:
            assert (ROOT / words[1]).is_file()
    return "works"


_KINDS: dict[str, Callable[[Block, Path], str]] = {
    "yaml": _yaml, "json": _json, "toml": _toml, "jinja": _jinja, "tree": _tree, "python": _python, "example": _example,
    "path": _path, "shell": _shell,
}  # fmt: skip
__all__ = ["PcsuiteError", "happens", "write_files"]
