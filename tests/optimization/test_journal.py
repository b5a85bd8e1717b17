"""What a search keeps: texts that are asked for once, and scores that are kept once."""

import json

import numpy as np

from pcsuite.optimization.journal import Journal, candidate_paths
from pcsuite.optimization.problem import Candidate, CandidateScore
from pcsuite.stats.objective import ItemParts, Objective
from support.optimizing import opened, suite_in


def test_proposals_are_asked_once_and_differ_by_seed(tmp_path):
    suite = suite_in(tmp_path)
    with opened(suite) as problem:
        texts = {problem.ask("Write an instruction.", seed=number) for number in range(6)}
        assert len(texts) > 1
        first = problem.ask("Write an instruction.", seed=0)
    journal = tmp_path / "outputs" / "optimization" / "agnews_json__sim.candidates.jsonl"
    asked = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert sum(entry["kind"] == "ask" for entry in asked) == 6
    with opened(suite) as problem:
        assert problem.ask("Write an instruction.", seed=0) == first
    assert journal.read_text(encoding="utf-8").count('"kind": "ask"') == 6


def test_equal_scores_are_kept_once_and_a_torn_line_is_passed_over(tmp_path):
    parts = ItemParts(("a", "b"), np.array([1.0, 0.0]), np.full(2, np.nan), np.zeros(2), np.zeros(2))
    candidate = Candidate.of_text("x {{input}}", method="ape", origin="by hand", parents=("p",))
    score = CandidateScore(candidate, Objective(), 0.5, parts.parts(), parts, 2, True)
    path = tmp_path / "t.candidates.jsonl"
    for _ in range(2):
        journal = Journal(path)
        journal.add_score(score, seed=3)
        journal.add_score(score, seed=3)
        journal.add_answer("key", "a text", {"role": "proposer"})
        journal.close()
    with path.open("ab") as stream:
        stream.write(b'{"kind": "ask", "key": "torn')
    journal = Journal(path)
    assert (journal.answer("key"), journal.answer("torn")) == ("a text", None)
    journal.close()
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:3]]
    assert [entry["kind"] for entry in entries] == ["candidate", "ask", "ask"]
    first = entries[0]
    assert (first["id"], first["J"], first["items"], first["parents"]) == (candidate.id, 0.5, 2, ["p"])


def test_the_files_of_a_search_lie_beside_each_other():
    paths = candidate_paths("outputs", "agnews_json", "a/b")
    assert paths.log.parent.as_posix() == "outputs/optimization"
    assert paths.log.name.startswith("agnews_json__a")
    assert paths.log.suffix == ".jsonl"
