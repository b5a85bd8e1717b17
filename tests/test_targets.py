"""Systems of a user's own in a model's place, from the command line and from Python: rows, identity, kills, resume."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from aiohttp import web

import pcsuite as pcs
from pcsuite.cli import main
from pcsuite.errors import ConfigError
from pcsuite.logging.log import iter_newest_rows, iter_rows
from support.targets import AGENT, program, write_study
from support.threaded_server import ThreadedServer

PYTHON = sys.executable

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder with AGENTS.md, tickets.csv and agent.py, in which one stands."""
    monkeypatch.chdir(write_study(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


FAST = ["--answer", "queue", "--no-controls", "--design", "leave-one-out", "--no-trim", "--quiet"]


def as_worker(source):
    """The agent as a loop over lines."""
    head, _, body = source.strip().partition("call = json.load(sys.stdin)\n")
    body = "".join(
        f"    {line}\n" for line in body.replace("sys.stdout)", "sys.stdout); print(flush=True)").splitlines()
    )
    return f"{head}for line in sys.stdin:\n    call = json.loads(line)\n{body}"


def as_function(source):
    head, _, body = source.strip().partition("call = json.load(sys.stdin)\n")
    body = body.replace("json.dump(", "return (").replace(", sys.stdout)", ")")
    body = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{head}\ndef answer(prompt, item):\n    call = {{'prompt': prompt, 'item': item}}\n{body}"


def ablate(target, *more, name="study"):
    return main(
        ["ablate", "AGENTS.md", "--data", "tickets.csv", "--target", target, *FAST, "--name", name, *more]
    )


def rows_of(folder, name="study"):
    return list(iter_newest_rows(folder / f"outputs/ablations/{name}/runs/{name}.jsonl"))


def test_a_command_is_ablated_with_instructions_that_show_no_item(study, capsys):
    assert ablate(f"{PYTHON} agent.py") == 0
    output = capsys.readouterr().out
    assert "rules" in output
    assert "helps" in output
    rows = rows_of(study)
    assert len(rows) == 24 * 4
    assert {row.model.id for row in rows} == {"target/agent"}
    row = next(row for row in rows if row.condition.id == "full")
    assert row.metrics["task_score"] == 1.0
    assert row.generation.steps == 4
    assert row.generation.stderr == f"asked about {row.task.item_id and row.generation.stderr[12:]}"
    assert row.metrics["cost_usd"] == 0.002
    assert row.generation.usage is None
    assert row.engine["target"] == f"{PYTHON} agent.py"
    without_noise = [row.generation.steps for row in rows if row.condition.id == "-noise"]
    assert set(without_noise) == {3}


def test_the_answer_s_column_never_reaches_the_target(study):
    program(
        study,
        "spy.py",
        """
        import json, sys
        call = json.load(sys.stdin)
        with open("seen.jsonl", "a") as stream:
            stream.write(json.dumps(call) + "\\n")
        print("billing")
        """,
    )
    assert ablate(f"{PYTHON} spy.py", "--concurrency", "1") == 0
    calls = [json.loads(line) for line in (study / "seen.jsonl").read_text().splitlines()]
    assert len(calls) == 24 * 4
    assert {tuple(sorted(call["item"])) for call in calls} == {("id", "input", "text")}
    assert {tuple(sorted(call)) for call in calls} == {("files", "item", "prompt", "seed")}
    assert {call["prompt"] for call in calls} >= {(study / "AGENTS.md").read_text()}


def test_a_worker_and_a_function_give_the_same_scores_as_one_process_a_call(study):
    program(study, "worker.py", as_worker(AGENT))
    program(study, "app.py", as_function(AGENT))
    assert ablate(f"{PYTHON} agent.py", name="once") == 0
    assert ablate(f"{PYTHON} worker.py", "--worker", "--concurrency", "2", name="kept") == 0
    assert ablate("app.py:answer", name="inside") == 0
    scores = [
        {
            (row.condition.id, row.task.item_id): (row.metrics["task_score"], row.generation.steps)
            for row in rows_of(study, name)
        }
        for name in ("once", "kept", "inside")
    ]
    assert len(scores[0]) == 96
    assert scores[0] == scores[1] == scores[2]


def test_a_target_that_is_edited_makes_other_rows_and_one_that_is_moved_does_not(study, capsys):
    program(study, "app.py", "from words import word\ndef answer(prompt, item): return word\n")
    program(study, "words.py", "word = 'billing'")

    def ids():
        suite = pcs.prompt("AGENTS.md", "tickets.csv", answer="queue", target="app.py:answer", name="p")
        return {unit.run_id for unit in pcs.plan(suite).plan.units("target/app-answer")}

    before = ids()
    assert len(before) == 24
    elsewhere = study / "moved"
    elsewhere.mkdir()
    for file in ("app.py", "words.py", "AGENTS.md", "tickets.csv"):
        (elsewhere / file).write_bytes((study / file).read_bytes())
    os.chdir(elsewhere)
    assert ids() == before
    program(elsewhere, "words.py", "word = 'delivery'")  # not the named file: one that it imports
    assert not ids() & before


def test_answers_of_a_target_are_not_reused_unless_it_is_deterministic(study):
    program(study, "counted.py", "import sys; open('calls', 'a').write('x'); print('billing')")

    def calls():
        return len((study / "calls").read_text())

    for expected, name, more in (
        (96, "one", []),
        (192, "two", []),
        (288, "three", ["--deterministic"]),
        (288, "four", ["--deterministic"]),
    ):
        assert ablate(f"{PYTHON} counted.py", *more, name=name) == 0
        assert calls() == expected


def test_replicates_are_real_calls_with_seeds_of_their_own(study):
    program(
        study,
        "seeds.py",
        "import json, sys; print(json.dumps({'output': str(json.load(sys.stdin)['seed'])}))",
    )
    assert ablate(f"{PYTHON} seeds.py", "--regime", "D1", "--seeds", "2", "--limit", "14") == 0
    rows = rows_of(study)
    assert {row.generation.text for row in rows} == {"1", "2"}
    assert not any(row.seed_honoured for row in rows)


def test_out_of_time_scores_0_whatever_the_scorer_says_and_is_an_outcome(study, capsys):
    program(
        study,
        "slow.py",
        "import json, sys, time; time.sleep(60 if json.load(sys.stdin)['item']['id'].endswith('3') else 0); print('x')",
    )
    program(study, "check.py", "def score(answer, item): return 1.0")
    assert main(
        ["ablate", "AGENTS.md", "--data", "tickets.csv", "--target", f"{PYTHON} slow.py", "--scorer", "check.py:score",
         "--input", "text", "--target-timeout", "1.5", "--limit", "14", *FAST[2:], "--name", "study"]
    ) == 0  # fmt: skip
    rows = rows_of(study)
    late = [row for row in rows if row.outcome == "out_of_time"]
    assert late
    assert {row.metrics["task_score"] for row in late} == {0.0}
    assert {row.metrics["task_score"] for row in rows if row.outcome == "answered"} == {1.0}
    assert not any(row.errors for row in rows)
    assert "out of time" in capsys.readouterr().out


def test_a_failing_command_leaves_missing_rows_that_the_same_command_asks_again(study, capsys):
    program(
        study,
        "agent.py",
        "import os, sys\nif not os.path.exists('ok'): sys.exit('the database is down')\n" + AGENT,
    )
    profile = program(study, "p.yaml", "version: '1.0'\nrun: {name: x}\nselection: {tasks: [agnews_json], models: [simulated],"
                      " conditions: [C0], decoding_regimes: [D0]}\nlimits: {stop_on_error_rate: 1.0}\n")  # fmt: skip
    assert ablate(f"{PYTHON} agent.py", "--config", str(profile)) == 4
    assert {row.errors[0].partition(": ")[2] for row in rows_of(study)} == {"the database is down"}
    (study / "ok").touch()
    # The agent's own text is as it was: what failed is asked again and nothing else.
    assert ablate(f"{PYTHON} agent.py", "--config", str(profile)) == 0
    assert not any(row.errors for row in rows_of(study))
    assert len(rows_of(study)) == 96


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_study_leaves_no_process_and_resumes_without_losing_a_row(study, ending):
    program(
        study,
        "agent.py",
        "import os, time\nopen('pids', 'a').write(f'{os.getpid()}\\n')\ntime.sleep(0.15)\n" + AGENT,
    )
    words = [
        "ablate",
        "AGENTS.md",
        "--data",
        "tickets.csv",
        "--target",
        f"{PYTHON} agent.py",
        *FAST,
        "--name",
        "study",
    ]
    command = [
        PYTHON,
        "-c",
        f"import sys; sys.path[:0] = {sys.path!r}; from pcsuite.cli import main; sys.exit(main({words!r}))",
    ]
    process = subprocess.Popen(
        command, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    log = study / "outputs/ablations/study/runs/study.jsonl"
    deadline = time.monotonic() + 120
    while not log.exists() or log.read_bytes().count(b"\n") < 12:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, ending)
    process.communicate(timeout=60)
    done = {row.run_id for row in iter_rows(log)}
    assert 12 <= len(done) < 96
    started = [int(line) for line in (study / "pids").read_text().split()]
    deadline = time.monotonic() + 20  # the guard has its turn late on a busy machine
    while left := [pid for pid in started if _alive(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert main(words) == 0
    ids = [row.run_id for row in iter_rows(log)]
    assert len(ids) == len(set(ids)) == 96
    assert done <= set(ids)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_function_in_memory_is_a_target_and_several_are_compared(study):
    def careful(prompt, item):
        return item["text"].split()[-1] if "queue" in prompt else "?"

    async def careless(prompt):
        return "billing"

    result = pcs.ablate(
        "AGENTS.md", "tickets.csv", answer="queue", target={"careful": careful, "careless": careless},
        name="both", quiet=True, controls=False, trim=False, design="leave-one-out",
    )  # fmt: skip
    verdicts = {
        name: {e["block"]: e["verdict"] for e in one.effects().records()} for name, one in result.each.items()
    }
    assert verdicts["target/careful"]["rules"] == "helps"
    assert verdicts["target/careless"]["rules"] != "helps"


def test_a_profile_names_targets_and_runs_them(study):
    program(study, "app.py", "async def answer(messages, item): return 'B' if 'input' in item else 'A'\n")
    run = pcs.run("quickstart", target="app.py:answer", limit=3, conditions=["C0", "C3"], quiet=True, name="t",
                  tasks=["csqa_json"], regimes=["D0"], output_dir=str(study / "out"))  # fmt: skip
    assert {row["model_id"] for row in run.rows().records()} == {"target/app-answer"}
    assert {row["text"] for row in run.rows().records()} == {"B"}
    profile = study / "mine.yaml"
    profile.write_text(
        "version: '1.0'\nrun: {name: mine, output_dir: out}\ntargets: {my-agent: {target: 'app.py:answer', concurrency: 2}}\n"
        "selection: {tasks: [csqa_json], models: [my-agent], conditions: [C0], decoding_regimes: [D0]}\n"
        "limits: {max_items_per_task: 2}\n"
    )
    assert main(["run", "--config", str(profile), "--quiet"]) == 0
    assert main(["plan", "--config", str(profile)]) == 0
    assert main(["plan", "--config", "quickstart", "--target", "app.py:answer"]) == 0


def test_a_check_holds_a_target_s_instructions_against_what_they_were(study, capsys):
    program(study, "app.py", as_function(AGENT))
    (study / "old.md").write_text("# Tone\n\nBe kind to everyone.\n")
    words = [
        "check",
        "old.md",
        "--data",
        "tickets.csv",
        "--answer",
        "queue",
        "--baseline",
        "AGENTS.md",
        "--quiet",
    ]
    assert main([*words, "--target", "app.py:answer"]) == 1
    assert "worse" in capsys.readouterr().out
    checked = pcs.check(
        "old.md", "tickets.csv", baseline="AGENTS.md", answer="queue", target="app.py:answer", quiet=True
    )
    assert not checked.passes()


def test_a_budget_counts_what_the_target_says_it_cost_and_never_passes_far(study, capsys):
    status = ablate(f"{PYTHON} agent.py", "--budget-usd", "0.05", "--concurrency", "2")
    rows = rows_of(study)
    assert status == 3
    assert sum(row.metrics["cost_usd"] for row in rows) <= 0.05 + 1e-9
    assert len(rows) >= 20


def test_a_budget_that_nobody_could_keep_is_refused_after_the_first_answers(study, capsys):
    program(study, "app.py", "def answer(prompt): return 'x'")
    assert ablate("app.py:answer", "--budget-usd", "1") == 3
    assert "does not say what it cost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--target", "nowhere.py:answer"], "no file"),
        (["--target", "no-such-program-at-all x"], "is not on the PATH"),
        (["--worker"], "--worker goes with --target"),
        (["--target", "echo a", "--target", "echo b"], "two are called 'target/echo'"),
        (["--target", "echo a", "--target-timeout", "0"], "timeout_s"),
        (["--target", "http://127.0.0.1:9/x", "--target-header", "Authorization"], "expected NAME: VALUE"),
        (["--target", "http://127.0.0.1:9/x", "--target-body", "nofile.json"], "neither JSON nor a file"),
        (["--target", ""], "the target is empty"),
    ],
)
def test_each_mistake_on_the_command_line_is_one_clear_line(study, capsys, words, problem):
    assert main(["ablate", "AGENTS.md", "--data", "tickets.csv", "--answer", "queue", *words]) == 2
    said = capsys.readouterr().err.strip()
    assert problem in said
    assert "\n" not in said
    assert not (study / "outputs").exists()


def test_unknown_words_in_python_are_said(study):
    with pytest.raises(ConfigError, match="'worker' goes with a target"):
        pcs.ablate("AGENTS.md", "tickets.csv", worker=True)
    with pytest.raises(ConfigError, match="did you mean 'target'"):
        pcs.ablate("AGENTS.md", "tickets.csv", targe="x")


class Echo(ThreadedServer):
    """Answers with the header that it was let in by."""

    def app(self):
        app = web.Application()
        app.router.add_post("/ask", self.answer)
        return app

    async def answer(self, request):
        return web.json_response({"reply": f"sent {request.headers['Authorization']}", "usage": {"all": 5}})


def test_an_address_is_ablated_and_no_secret_of_a_header_reaches_any_file(study, monkeypatch, capsys):
    monkeypatch.setenv("APP_TOKEN", "tok-4f9a8b7c6d5e-secret")
    with Echo() as server:
        status = ablate(
            f"{server.origin}/ask",
            *("--target-header", "Authorization: Bearer $APP_TOKEN", "--target-answer", "reply"),
            *(
                "--target-read",
                "tokens=usage.all",
                "--target-body",
                '{"p": "{{ prompt }}", "q": "{{ item.text }}"}',
            ),
        )
    assert status == 0
    rows = rows_of(study)
    assert {row.generation.text for row in rows} == {"sent Bearer ***"}
    assert {row.generation.usage.total_tokens for row in rows} == {5}
    held = [path for path in study.rglob("*") if path.is_file() and b"tok-4f9a8b7c6d5e" in path.read_bytes()]
    assert held == []
    said = capsys.readouterr()
    assert "tok-4f9a8b7c6d5e" not in said.out + said.err


def test_why_calls_failed_stands_in_the_result(study, capsys):
    program(study, "broken.py", "import sys\nsys.exit('no module named brain')\n")
    assert ablate(f"{PYTHON} broken.py", "--keep", "tone", "--limit", "16") == 4
    output = " ".join(capsys.readouterr().out.split())
    assert "Why calls failed, most often: target" in output
    assert "ended with exit status 1: no module named brain" in output
    assert "no answer to the full prompt came that could be scored." in output
    assert "scores 0.000" not in output
    assert main(["run", "--config", "quickstart", "--target", f"{PYTHON} broken.py", "--conditions", "C0",
                 "--quiet", "--limit", "2"]) == 4  # fmt: skip
    assert "why rows failed, most often: target" in capsys.readouterr().out


def test_an_answer_out_of_time_is_not_called_unreadable(study, capsys):
    program(study, "slow.py", "import time\ntime.sleep(30)\n")
    assert ablate(f"{PYTHON} slow.py", "--target-timeout", "0.2", "--limit", "20", "--concurrency", "8") == 0
    output = capsys.readouterr().out
    assert "out of time in arm full" in " ".join(output.split())
    assert "could not be read" not in output


def test_what_is_another_is_named_where_the_agent_was_changed_since(study, capsys):
    assert ablate(f"{PYTHON} agent.py") == 0
    capsys.readouterr()
    (study / "agent.py").write_text((study / "agent.py").read_text() + "# better now\n")
    assert ablate(f"{PYTHON} agent.py") == 2
    assert "of another target/agent (its files, its folder or its options) (give" in capsys.readouterr().err
    assert ablate("other=" + f"{PYTHON} agent.py") == 2
    assert "of another target/other (its files, its folder or its options)" in capsys.readouterr().err


def test_a_budget_that_ends_the_looks_is_not_called_a_lack_of_items(study, capsys):
    program(study, "dear.py", """
        def answer(prompt, item):
            return {"output": item["text"].split()[-1], "cost_usd": 0.01}
        """)  # fmt: skip
    words = ["ablate", "AGENTS.md", "--data", "tickets.csv", "--answer", "queue", "--target", "dear.py:answer",
             "--until", "decided", "--no-trim", "--quiet", "--margin", "0.4", "--budget-usd", "0.3"]  # fmt: skip
    assert main(words) == 3
    output = " ".join(capsys.readouterr().out.split())
    assert "rules: the calls ended before it was decided." in output
    assert "the items ran out" not in output


def test_an_agent_that_wavers_answers_twice_and_is_offered_more(study, capsys):
    program(
        study,
        "wavers.py",
        """
        import os, json, sys
        call = json.load(sys.stdin)
        print(call["item"]["text"].split()[-1] if os.urandom(1)[0] % 2 else "no idea")
        """,
    )
    words = ["ablate", "AGENTS.md", "--data", "tickets.csv", "--answer", "queue", "--design", "leave-one-out",
             "--no-trim", "--quiet", "--margin", "0.4", "--noise-first", "12"]  # fmt: skip
    assert main([*words, "--target", f"{PYTHON} wavers.py", "--name", "wavers"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "of 12 items, so target/wavers answers every item twice (--seeds 1 for once)." in output
    assert "One more answer an item (--seeds 3) would show" in output
    assert main([*words, "--target", f"{PYTHON} wavers.py", "--name", "once", "--seeds", "1"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "One more answer an item (--seeds 2) would show" in output
    assert "Several answers an item lessen that: --seeds 3." in output
    assert main([*words, "--target", f"{PYTHON} wavers.py", "--deterministic", "--name", "says_not"]) == 0
    assert "One more answer an item" not in capsys.readouterr().out
