"""Results for continuous integration: JUnit XML and SARIF 2.1.0, from results documents."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from pcsuite import __version__
from pcsuite.verifier.error_types import ERROR_TYPES
from pcsuite.verifier.paths import item_of, pointer_token

_MAX_LINES = 50
"""Discrepancies spelled out in one JUnit test case; a viewer shows no more than a screenful."""
# Characters that XML 1.0 cannot hold, escaped or not.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class CheckedEval(NamedTuple):
    """One eval as CI sees it: its results, the files they are about, and the extraction's text."""

    document: Mapping[str, Any]
    truth_file: Path
    extraction_file: Path
    extraction: bytes


def junit_xml(checked: Sequence[CheckedEval], problems: Sequence[str] = ()) -> bytes:
    """JUnit XML: a suite for each eval with a case for each item, failed where a field of it is not right.

    ``problems`` are gates that were missed; each is a failed case of a suite of its own.
    """
    root = ElementTree.Element("testsuites", name="pcsuite verify")
    for one in checked:
        document = one.document
        # Of many records each is a case.
        named = document.get("records") or document["pairs"]
        cases: dict[str, list[Mapping[str, Any]]] = {entry["path"]: [] for entry in named}
        for section in document["by_section"] if "records" not in document else ():
            if not any(path.startswith(f"{section}[") for path in cases):
                cases.setdefault(section, [])
        for entry in document["discrepancies"]:
            cases.setdefault(item_of(entry["field_path"]), []).append(entry)
        suite = _suite(root, document["eval_id"], len(cases), sum(bool(errors) for errors in cases.values()))
        suite_name = suite.get("name", "")
        suite.set("timestamp", document["timestamp"].removesuffix("+00:00"))
        properties = ElementTree.SubElement(suite, "properties")
        for key in ("f1", "precision", "recall"):
            ElementTree.SubElement(properties, "property", name=key, value=f"{document['metrics'][key]:.6f}")
        for key in ("rules_hash", "truth_hash", "mapping_version", "instructions_version"):
            ElementTree.SubElement(properties, "property", name=key, value=str(document.get(key) or ""))
        for path, errors in cases.items():
            case = ElementTree.SubElement(suite, "testcase", classname=suite_name, name=_xml(path))
            if errors:
                lines = [_sentence(entry) for entry in errors[:_MAX_LINES]]
                lines += [f"… and {len(errors) - _MAX_LINES} more"] if len(errors) > _MAX_LINES else []
                kinds = sorted({entry["error_type"] for entry in errors})
                message = f"{len(errors)} of its fields not right: {', '.join(kinds)}"
                failure = ElementTree.SubElement(case, "failure", message=message, type=kinds[0])
                failure.text = _xml("\n".join(lines))
        if document.get("parse_error"):
            case = ElementTree.SubElement(suite, "testcase", classname=suite_name, name="parsing")
            ElementTree.SubElement(case, "error", message=_xml(document["parse_error"]))
            suite.set("tests", str(len(cases) + 1))
            suite.set("errors", "1")
    if problems:
        gates = _suite(root, "gates", len(problems), len(problems))
        for problem in problems:
            case = ElementTree.SubElement(gates, "testcase", classname="gates", name=_xml(problem))
            ElementTree.SubElement(case, "failure", message=_xml(problem), type="gate")
    ElementTree.indent(root, " ")
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(root: ElementTree.Element, name: str, tests: int, failures: int) -> ElementTree.Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": "0", "skipped": "0"}
    return ElementTree.SubElement(root, "testsuite", {"name": _xml(name), **counts})


def _xml(text: str) -> str:
    """Text as XML can hold it: control characters and lone surrogates are replaced."""
    return _NOT_XML.sub("\ufffd", text)


def _sentence(entry: Mapping[str, Any]) -> str:
    expected, actual = (json.dumps(entry[key], ensure_ascii=False)[:120] for key in ("expected", "actual"))
    sentence = ERROR_TYPES[entry["error_type"]].sentence(expected, actual)
    note = f" ({entry['note']})" if entry["note"] else ""
    return f"{entry['field_path']}: {entry['error_type']}: {sentence}{note}"


def sarif_json(checked: Sequence[CheckedEval]) -> bytes:
    """SARIF 2.1.0: a result for each discrepancy, at its line of the extraction, with the row of the truth beside it.

    What is missing has no line of its own: it is shown at the line of the nearest holder that was extracted.
    """
    results = []
    for one in checked:
        lines = _lines_of_records(one) if "records" in one.document else pointer_lines(one.extraction)
        truth, extraction = (path.as_posix() for path in (one.truth_file, one.extraction_file))
        pairs = {pair["path"]: pair["pointer"] for pair in one.document["pairs"]}
        for entry, place in zip(one.document["discrepancies"], one.document["locations"], strict=True):
            pointer = place["pointer"] or pairs.get(item_of(entry["field_path"])) or ""
            while pointer and pointer not in lines:
                pointer = pointer.rpartition("/")[0]
            result: dict[str, Any] = {
                "ruleId": entry["error_type"],
                "level": "error",
                "message": {"text": _sentence(entry)},
                "locations": [
                    {
                        **_physical(extraction, lines.get(pointer, 1)),
                        "logicalLocations": [{"fullyQualifiedName": entry["field_path"]}],
                    }
                ],
                "partialFingerprints": {"fieldPath/v1": f"{one.document['eval_id']}/{entry['field_path']}"},
            }
            if place["truth_row"]:
                related = _physical(truth, place["truth_row"])
                result["relatedLocations"] = [{**related, "message": {"text": "the truth"}}]
            results.append(result)
    rules = [{"id": one.name, "shortDescription": {"text": one.explanation}} for one in ERROR_TYPES.values()]
    driver = {"name": "pcsuite verify", "version": __version__, "rules": rules}
    versions = [
        {"eval_id": one.document["eval_id"], "f1": one.document["metrics"]["f1"]}
        | {key: one.document[key] for key in ("rules_hash", "mapping_version", "instructions_version")}
        for one in checked
    ]
    log = {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{"tool": {"driver": driver}, "results": results, "properties": {"evals": versions}}],
    }
    return (json.dumps(log, indent=1) + "\n").encode("ascii")


def _lines_of_records(one: CheckedEval) -> dict[str, int]:
    """Lines of values in an extraction with many records: of JSON Lines each line is a record of its own."""
    if one.extraction.lstrip()[:1] == b"[" or one.extraction.count(b"\n") == 0:
        return pointer_lines(one.extraction)
    filled = [(number, line) for number, line in enumerate(one.extraction.split(b"\n"), 1) if line.strip()]
    lines: dict[str, int] = {}
    for index, (number, line) in enumerate(filled):
        lines.update((f"/{index}{pointer}", number) for pointer in pointer_lines(line))
    return lines


def _physical(uri: str, line: int) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}


def pointer_lines(data: bytes) -> dict[str, int]:
    """The line on which each value of a JSON text begins, by JSON pointer (RFC 6901).

    Invalid JSON gives the values before the first syntax error.

    >>> pointer_lines(b'{"a": [1,\\n 2]}')["/a/1"]
    2
    """
    text = data.decode("utf-8-sig", "replace")
    lines: dict[str, int] = {}
    holders: list[tuple[str, int | None]] = []  # pointer and, of a list, the index of its next element
    key: str | None = None
    line, position = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", position, token.start())
        position = token.start()
        mark = token.group()
        if mark in ",:":
            continue
        if mark in "}]":
            if holders:
                holders.pop()
            continue
        if holders and holders[-1][1] is None and key is None:
            try:
                key = str(json.loads(mark)) if mark.startswith('"') else mark
            except ValueError:
                return lines
            continue
        pointer = ""
        if holders:
            holder, index = holders[-1]
            name = pointer_token(key or "") if index is None else str(index)
            pointer = f"{holder}/{name}"
            if index is not None:
                holders[-1] = (holder, index + 1)
        key = None
        lines.setdefault(pointer, line)
        if mark in "{[":
            holders.append((pointer, 0 if mark == "[" else None))
    return lines
