"""JUnit and SARIF as CI reads them."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pcsuite.verifier.ci import CheckedEval, junit_xml, pointer_lines, sarif_json
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.results import Rules, results_document, score_bytes
from pcsuite.verifier.truth import parse_truth

TRUTH = b"field,value\nClimate Zone,7\nCity,Somewhere\nwindows[name=101].area,20\nwindows[name=102].area,30\n"
RECORD = {
    "project": {"city": "Else\x01where", "climate_zone": 7},
    "windows": [{"name": "102", "area": 30}, {"name": "101", "area": 21}],
}


def checked(data):
    mapping = load_mapping()
    rules = Rules(parse_truth(TRUTH, mapping), mapping)
    scored = score_bytes(data, rules, "x", strict=False)
    document = results_document(scored, rules, "house", 3, "p7")
    return CheckedEval(
        document, Path("evals/house/ground_truth.csv"), Path("evals/house/extracted.json"), data
    )


@pytest.fixture
def one():
    return checked(json.dumps(RECORD, indent=1).encode())


def test_a_junit_case_for_each_item(one):
    root = ElementTree.fromstring(junit_xml([one], ["F1 0.6 is below 0.9"]))
    suite, gates = root.findall("testsuite")
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("house", "3", "2")
    failed = {case.get("name"): case.find("failure") for case in suite.findall("testcase")}
    assert set(failed) == {"project", "windows[name=101]", "windows[name=102]"}
    assert failed["windows[name=102]"] is None
    assert "windows[name=101].area: wrong_value: 21, the truth is 20.0" in failed["windows[name=101]"].text
    assert "project.city" in failed["project"].text
    properties = {entry.get("name"): entry.get("value") for entry in suite.iter("property")}
    assert (properties["mapping_version"], properties["instructions_version"]) == ("2.0", "p7")
    assert gates.find("testcase/failure").get("message") == "F1 0.6 is below 0.9"


def test_an_extraction_that_cannot_be_parsed_is_an_error(one):
    root = ElementTree.fromstring(junit_xml([checked(b"{")]))
    assert "not JSON" in root.find("testsuite/testcase/error").get("message")


def test_sarif_points_at_both_files(one):
    log = json.loads(sarif_json([one]))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {
        "omission", "hallucination", "format_error", "wrong_value"
    }  # fmt: skip
    city, area = run["results"]
    assert (city["ruleId"], area["ruleId"]) == ("wrong_value", "wrong_value")
    place = area["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "evals/house/extracted.json"
    line = json.dumps(RECORD, indent=1).splitlines()[place["region"]["startLine"] - 1]
    assert line.strip() == '"area": 21'
    truth = area["relatedLocations"][0]["physicalLocation"]
    assert (truth["artifactLocation"]["uri"], truth["region"]["startLine"]) == (
        "evals/house/ground_truth.csv",
        4,
    )
    assert run["properties"]["evals"][0]["instructions_version"] == "p7"


def test_what_is_missing_is_shown_at_its_holder():
    data = json.dumps({"project": RECORD["project"], "windows": [{"name": "101"}]}, indent=1).encode()
    missing = [
        result
        for result in json.loads(sarif_json([checked(data)]))["runs"][0]["results"]
        if result["ruleId"] == "omission" and "101" in result["message"]["text"]
    ]
    line = missing[0]["locations"][0]["physicalLocation"]["region"]["startLine"]
    assert data.decode().splitlines()[line - 1].strip() == "{"


def test_lines_of_pointers():
    text = b'{"a": 1,\n "b/c": [true,\n  {"x~y": "z\\"]"}],\n\n "d": {}}'
    assert pointer_lines(text) == {
        "": 1,
        "/a": 1,
        "/b~1c": 2,
        "/b~1c/0": 2,
        "/b~1c/1": 3,
        "/b~1c/1/x~0y": 3,
        "/d": 5,
    }
    assert pointer_lines(b"") == {}
    assert pointer_lines(b"[") == {"": 1}
