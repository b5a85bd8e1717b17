"""A sample of ``benchmarks/agent_truth.py``: the scripted agent is what it says it is, and ablate tells the truth of it."""

import io
import json

import pytest
from agent_truth import EVERY, RULES, TRACED, Agent, false_of_verdict, longest_free, simulated, work


class Plain(Agent):
    """The agent whose rules are worth what the table says."""

    def __init__(self):
        self.scale = dict.fromkeys([*RULES, "looking"], 1.0)


def test_the_worth_of_each_line_is_known():
    agent = Plain()
    # 0.15 + 0.25 - 0.2 + 0.15 + 0.03 + 0.25, and difficulties that are 0 on average.
    assert agent.expected(EVERY) == pytest.approx(0.63)
    assert agent.loss(frozenset(["tests"])) == pytest.approx(0.25)
    assert agent.loss(frozenset(["plan"])) == pytest.approx(-0.2)
    assert agent.loss(frozenset(["look"])) == pytest.approx(0)
    assert agent.loss(frozenset(["look", "see"])) == pytest.approx(0.25)
    # Without plan 0.2 is won; names and tidy cost 0.18 of it, and one of look and see and the four idle ones nothing.
    assert longest_free(agent) == 8


def test_what_is_false():
    assert [false_of_verdict("helps", loss) for loss in (0.0, 0.1)] == [True, False]
    assert [false_of_verdict("hurts", loss) for loss in (0.0, -0.1)] == [True, False]
    assert [false_of_verdict("no worse without it", loss) for loss in (0.1, 0.09, -0.5)] == [
        True,
        False,
        False,
    ]
    assert not false_of_verdict("undecided", 0.5)


def test_the_agent_as_a_process_reads_the_rules_where_it_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AGENTS.md").write_text(f"- {RULES['plan'].line}\n")
    calls = [json.dumps({"item": {"task": f"t{n}"}}) + "\n" for n in range(3)]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(calls)))
    work(1)
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers == [{"output": "done", "steps": 7, "loaded": ["AGENTS.md"]}] * 3


def test_a_few_studies_make_no_false_claim():
    for study in range(3):
        said, agent = simulated(study, 480), Agent(study)
        assert not [
            name
            for name, words in said["blocks"].items()
            if false_of_verdict(words, agent.loss(frozenset([name])))
        ]
        assert said["blocks"]["tests"].startswith("helps")
        assert said["traces"]["tests"] == "helps"
        assert said["traces"]["english"] == "no worse without it"
        assert agent.loss(frozenset(said["dropped"])) < 0.1
        assert set(said["traces"]) == set(TRACED)
