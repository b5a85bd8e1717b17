"""A table that is a promptfoo configuration: a row a test, what all tests share included."""

import json

import pytest

from pcsuite.cli import main
from pcsuite.data.table_files import read_table
from pcsuite.errors import DataError

HEAD = """prompts:
  - |
    You are a clerk.

    Name the queue.

    Ticket: {{ticket}}
defaultTest:
  vars: {company: Nordwind}
  assert: [{type: not-contains, value: "as an AI"}]
tests:
"""
TEST = "  - vars: {{ticket: 't{n} about {queue}'}}\n    assert: [{{type: equals, value: {queue}}}]\n"


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "promptfooconfig.yaml"
    queues = ("billing", "login", "refund")
    path.write_text(HEAD + "".join(TEST.format(n=n, queue=queues[n % 3]) for n in range(60)))
    return path


def test_a_test_is_a_row_with_what_all_tests_share(config):
    rows = read_table(config)
    assert len(rows) == 60
    assert rows[1].values["ticket"] == "t1 about login"
    assert rows[1].values["company"] == "Nordwind"
    assert json.loads(rows[1].values["__expected"]) == [
        {"type": "not-contains", "value": "as an AI"},
        {"type": "equals", "value": "login"},
    ]
    assert rows[1].where.endswith("promptfooconfig.yaml test 2")


def test_tests_in_a_table_of_their_own_are_followed(tmp_path):
    (tmp_path / "tests.csv").write_text("ticket,__expected\na,equals: b\n")
    (tmp_path / "promptfooconfig.yaml").write_text("prompts: [x]\ntests: file://tests.csv\n")
    (row,) = read_table(tmp_path / "promptfooconfig.yaml")
    assert row.values == {"ticket": "a", "__expected": "equals: b"}


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ("", "no tests in it"),
        ("tests: []", "no tests in it"),
        ("tests: [3]", "test 1: a mapping with 'vars' is needed"),
        ("tests: [{vars: [a]}]", "test 1: 'vars' is no mapping"),
        ("tests: [{vars: {a: [1, 2]}}]", "the variable 'a' is a list"),
        ("tests: [{vars: {a: x}}, {vars: {b: x}}]", "test 1: no variable 'b', which other tests have"),
        ("tests: [{vars: {a: x}}, {vars: {a: y}, assert: [{type: is-json}]}]", "test 1: no assertion"),
        ("tests: [", "not valid YAML"),
        ("tests: file://nowhere.csv", "nowhere.csv does not exist"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, tests, problem):
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text(f"prompts: [x]\n{tests}\n")
    with pytest.raises(DataError, match=problem):
        read_table(path)


@pytest.mark.slow
def test_a_configuration_is_prompt_and_table_at_once(config, monkeypatch, capsys):
    monkeypatch.chdir(config.parent)
    words = [
        "--model",
        "simulated",
        "--effect",
        "name_the_queue=2",
        "--design",
        "leave-one-out",
        "--no-trim",
        "-q",
    ]
    assert main(["ablate", config.name, "--data", config.name, *words]) == 0
    document = json.loads((config.parent / "outputs/ablations/promptfooconfig/ablation.json").read_text())
    verdicts = {record["block"]: record["verdict"] for record in document["verdicts"]}
    assert verdicts["name_the_queue"] == "helps"
    assert document["items"] == 60
