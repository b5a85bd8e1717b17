"""Requests as a file and answers from one."""

import json

import pytest

from pcsuite.logging.log import iter_rows
from support.batch_profiles import log_of, profile_in, rows_of, run
from support.batch_server import BatchServer
from support.profiles import write_profile


def answers_for(requests, server_answer, *, fail=()):
    lines = []
    for number, line in enumerate(requests.read_text().splitlines()):
        asked = json.loads(line)
        assert (asked["method"], asked["url"]) == ("POST", "/v1/chat/completions")
        status = 500 if number in fail else 200
        body = {"error": {"message": "out of memory"}} if status == 500 else server_answer(asked["body"])
        response = {"status_code": status, "request_id": "r", "body": body}
        lines.append(
            json.dumps({"id": "v", "custom_id": asked["custom_id"], "response": response, "error": None})
        )
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_a_file_of_requests_comes_back_as_the_rows_of_a_run(tmp_path, capsys):
    with BatchServer() as server:
        profile = profile_in(tmp_path / "offline", server)
        requests, answers = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
        assert run(profile, "--batch-export", str(requests)) == 0
        assert server.single == 0
        assert len(requests.read_text().splitlines()) == 48
        chat = lambda body: server._answer("/chat/completions", body)  # noqa: E731
        answers.write_text(answers_for(requests, chat, fail={0, 7}))
        assert run(profile, "--batch-import", str(answers)) == 4
        assert "2 failed" in capsys.readouterr().out
        assert run(profile, "--batch-export", str(requests)) == 0
        assert len(requests.read_text().splitlines()) == 2
        answers.write_text(answers_for(requests, chat))
        assert run(profile, "--batch-import", str(answers)) == 0
        assert run(profile, "--batch-import", str(answers)) == 2
        assert "none of its 2 answers belongs" in capsys.readouterr().err
        assert server.single == 0
        plain = profile_in(tmp_path / "plain", server)
        assert run(plain) == 0
    done = {
        row.run_id: row
        for row in iter_rows(tmp_path / "offline" / "outputs" / "runs" / "t.jsonl")
        if not row.errors
    }
    assert {key: row.generation.text for key, row in done.items()} == {
        key: entry[4] for key, entry in rows_of(tmp_path / "plain").items()
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no answers in it"),
        ("nonsense\n", "answers.jsonl:1: no line of batch results"),
        ('{"a": 1}\n', "custom_id"),
    ],
)
def test_a_file_that_holds_no_answers_is_refused(tmp_path, content, said, capsys):
    with BatchServer() as server:
        profile = profile_in(tmp_path, server)
        answers = tmp_path / "answers.jsonl"
        answers.write_text(content)
        assert run(profile, "--batch-import", str(answers)) == 2
    assert said in capsys.readouterr().err


def test_a_model_that_is_no_servers_has_nothing_to_export(tmp_path, capsys):
    profile = write_profile(tmp_path, conditions=("C0",), items=2)
    assert run(profile, "--batch-export", str(tmp_path / "r.jsonl")) == 2
    assert "no requests to export" in capsys.readouterr().err


def test_conditions_under_a_constraint_are_left_out_and_named(tmp_path, capsys):
    with BatchServer() as server:
        profile = profile_in(tmp_path, server, structured="response_format")
        words = ["--conditions", "C0,C6", "--batch-export", str(tmp_path / "r.jsonl")]
        assert run(profile, *words) == 0
        assert server.single == 0
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 12
    assert "C6 × agnews_json × served: an offline engine cannot be asked" in capsys.readouterr().out


def test_rows_that_ask_on_are_exported_until_they_are_done(tmp_path, capsys):
    """C4R asks at most three times where answers cannot be read; each round is an export and an import."""
    with BatchServer() as server:
        server.answer_text = lambda body: "hm"
        profile = profile_in(tmp_path, server)
        requests, answers = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
        words = ["--conditions", "C4R"]
        for _ in range(3):
            assert not log_of(tmp_path).exists() or not list(iter_rows(log_of(tmp_path)))
            assert run(profile, *words, "--batch-export", str(requests)) == 0
            assert len(requests.read_text().splitlines()) == 12
            answers.write_text(answers_for(requests, lambda body: server._answer("/chat/completions", body)))
            assert run(profile, *words, "--batch-import", str(answers)) == 0
    rows = list(iter_rows(log_of(tmp_path)))
    assert len(rows) == 12
    assert {row.generation.attempts for row in rows} == {3}
    assert "12 rows ask on" in capsys.readouterr().out


def test_files_as_json(tmp_path, capsys):
    with BatchServer() as server:
        profile = profile_in(tmp_path, server)
        requests, answers = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
        assert run(profile, "--batch-export", str(requests), "--json") == 0
        assert json.loads(capsys.readouterr().out)["requests"] == 48
        answers.write_text(
            answers_for(requests, lambda body: server._answer("/chat/completions", body), fail={3})
        )
        assert run(profile, "--batch-import", str(answers), "--json") == 4
        found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["failed"], found["answers"], found["unused"]) == (48, 1, 48, 0)
