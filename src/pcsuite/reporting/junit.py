"""A comparison of two runs as JUnit XML, which continuous integration shows beside its other tests."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from pcsuite.analysis.comparison import Comparison
from pcsuite.analysis.load.item_scores import CellKey
from pcsuite.reporting.markdown import comparison_text

# Characters that XML 1.0 cannot hold, escaped or not.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def comparison_junit(comparison: Comparison, first: str, second: str) -> bytes:
    """JUnit XML of a comparison of two named runs: a case for every compared metric of every cell.

    A case fails where its metric is a regression, and that of a score also where missing scores could hide one or
    nothing could be compared: as ``--fail-on-regression`` does. Counts of items and of missing scores are properties.
    """
    records = [
        record for record in comparison.table.records() if not comparison.metrics.is_cost(record["metric"])
    ]
    hidden = dict(comparison.hidden)
    text = comparison_text(comparison, first, second)
    cases: list[tuple[str, str, str]] = []
    for record in records:
        key = CellKey(*(record[name] for name in CellKey._fields))
        name = f"{' × '.join(key)}: {record['metric']}"
        problem, kind = "", ""
        if record["outcome"] == "worse":
            problem, kind = f"{record['first']:.4g} → {record['second']:.4g}", "regression"
        elif record["metric"] == "score" and key in hidden:
            lost = (record["missing_first"] or 0) + (record["missing_second"] or 0)
            problem, kind = f"{lost} missing scores could hide a regression", "missing"
        cases.append((name, problem, kind))
    cases += [
        (f"{' × '.join(key)}: score", "no score to compare: they are missing", "missing")
        for key in comparison.unscored
    ]
    failures = sum(bool(problem) for _, problem, _ in cases)
    root = ElementTree.Element("testsuites", name="pcsuite compare")
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": "0"}
    suite = ElementTree.SubElement(root, "testsuite", {"name": _xml(f"{second} against {first}"), **counts})
    properties = ElementTree.SubElement(suite, "properties")
    facts = {
        "standing": comparison.standing,
        "margin": f"{comparison.margin:g}",
        "missing": comparison.policy,
        "missing_first": str(len(comparison.missing_of("first"))),
        "missing_second": str(len(comparison.missing_of("second"))),
    }
    for key_, value in facts.items():
        ElementTree.SubElement(properties, "property", name=key_, value=value)
    for name, problem, kind in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(second), name=_xml(name))
        if problem:
            failure = ElementTree.SubElement(case, "failure", message=_xml(problem), type=kind)
            failure.text = _xml(text)
    output = ElementTree.SubElement(suite, "system-out")
    output.text = _xml(text)
    ElementTree.indent(root, " ")
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _xml(text: str) -> str:
    """Text as XML can hold it: control characters and lone surrogates are replaced."""
    return _NOT_XML.sub("\ufffd", text)
