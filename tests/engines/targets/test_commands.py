"""Commands and workers as targets: real programs, with all that goes wrong with programs."""

import asyncio
import os
import subprocess
import sys
import time

import pytest

from pcsuite.errors import ConfigError, EngineError, ServerDownError
from support.targets import adapter_for, ask, program, request_for

PYTHON = sys.executable
ITEM = {"text": "Late again", "id": "4"}

pytestmark = pytest.mark.subprocess


def command(folder, source, **options):
    program(folder, "agent.py", source)
    return adapter_for(folder, f"{PYTHON} agent.py", **options)


def one(folder, source, request=None, **options):
    return ask(command(folder, source, **options), request or request_for(item=ITEM))[0]


def is_running(pid):
    with open(f"/proc/{pid}/stat") as stream:
        return stream.read().rpartition(")")[2].split()[0] != "Z"


def ended(pid, seconds=10.0):
    """Whether a process is gone, or a zombie that nobody waits for, after at most so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if not is_running(pid):
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_a_command_gets_prompt_item_and_seed_and_answers_with_text(tmp_path):
    answer = one(
        tmp_path,
        """
        import json, sys
        call = json.load(sys.stdin)
        print(call["prompt"], call["item"]["text"], call["seed"], sorted(call))
        """,
    )
    assert answer["text"] == "Be brief. Late again 7 ['files', 'item', 'prompt', 'seed']"
    assert answer["finish_reason"] == "stop"
    assert answer["usage_reported"] is False
    assert answer["seed_honoured"] is False
    assert answer["latency_ms"] > 0


def test_an_answer_may_say_tokens_cost_steps_sources_and_artifacts(tmp_path):
    answer = one(
        tmp_path,
        """
        import json
        print(json.dumps({
            "output": {"label": "ü"}, "tokens": {"prompt": 10, "completion": 4}, "cost_usd": 0.25, "steps": 3,
            "tool_calls": [1, 2], "transcript": ["read", {"type": "tool", "text": "ls"}],
            "loaded": [{"path": "AGENTS.md", "sha256": "ab"}], "artifacts": {"n": 1}, "seed_honoured": True,
        }))
        """,
    )
    assert answer["text"] == '{"label": "ü"}'
    assert answer["usage"] == {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    assert (answer["cost_usd"], answer["steps"], answer["tool_calls"]) == (0.25, 3, 2)
    assert answer["transcript"] == [{"step": 0, "text": "read"}, {"step": 1, "type": "tool", "text": "ls"}]
    assert answer["loaded"] == [{"source": "AGENTS.md", "sha256": "ab"}]
    assert answer["artifacts"] == {"n": 1}
    assert answer["seed_honoured"] is True


@pytest.mark.parametrize(
    ("said", "steps", "tool_calls", "first"),
    [
        ({"steps": ["look", "write"]}, 2, None, {"step": 0, "text": "look"}),
        ({"steps": 4, "tool_calls": [{"name": "ls"}]}, 4, 1, {"step": 0, "name": "ls"}),
        ({"steps": ["look"], "transcript": ["asked", "answered"]}, 1, None, {"step": 0, "text": "asked"}),
    ],
)
def test_steps_that_are_listed_are_counted_and_shown(tmp_path, said, steps, tool_calls, first):
    answer = one(tmp_path, f"import json; print(json.dumps({ {'output': 'x', **said}!r}))")
    assert (answer["steps"], answer.get("tool_calls")) == (steps, tool_calls)
    assert answer["transcript"][0] == first


def test_an_object_without_output_says_how_to_wrap_it(tmp_path):
    with pytest.raises(EngineError, match="without 'output'.*label") as error:
        one(tmp_path, """print('{"label": "x"}')""")
    assert '{"output": {…}}' in str(error.value)


def test_what_only_begins_like_an_object_is_text(tmp_path):
    assert one(tmp_path, "print('{not json')")["text"] == "{not json"


def test_an_exit_status_is_a_failed_call_with_the_last_lines_of_standard_error(tmp_path):
    with pytest.raises(EngineError, match="exit status 3: one | two") as error:
        one(tmp_path, "import sys; print('one\\ntwo', file=sys.stderr); print('never read'); sys.exit(3)")
    assert not error.value.retryable


def test_standard_error_is_kept_with_an_answer_bounded_and_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "verysecret-0123456789")
    answer = one(
        tmp_path,
        """
        import os, sys
        print("x" * 300_000, file=sys.stderr)
        print("key", os.environ["MY_API_KEY"], file=sys.stderr)
        print("fine")
        """,
    )
    assert len(answer["stderr"]) == 4000
    assert answer["stderr"].endswith("key ***")
    assert answer["text"] == "fine"


def test_a_command_that_reads_no_input_is_no_mistake(tmp_path):
    request = request_for("x" * 3_000_000)  # far more than a pipe holds
    assert one(tmp_path, "print('deaf')", request)["text"] == "deaf"


def test_too_much_output_is_a_failed_call_and_ends_the_program(tmp_path):
    with pytest.raises(EngineError, match="more than 16 MB"):
        one(
            tmp_path,
            """
            import sys
            while True: sys.stdout.write("y" * 65536)
            """,
        )


def test_its_own_time_limit_is_an_outcome_and_takes_its_children_along(tmp_path):
    started = time.monotonic()
    answer = one(
        tmp_path,
        """
        import pathlib, subprocess, sys, time
        child = subprocess.Popen(["sleep", "600"])
        pathlib.Path("child").write_text(str(child.pid))
        print("thinking", file=sys.stderr, flush=True)
        time.sleep(600)
        """,
        timeout_s=5,  # a busy machine takes its time to start it
    )
    assert answer["finish_reason"] == "out_of_time"
    assert answer["text"] == ""
    assert answer["stderr"] == "thinking"
    assert time.monotonic() - started < 20
    assert ended(int((tmp_path / "child").read_text()))


def test_what_a_command_leaves_behind_ends_with_it_and_does_not_hold_the_answer_up(tmp_path):
    started = time.monotonic()
    answer = one(
        tmp_path,
        """
        import pathlib, subprocess
        child = subprocess.Popen(["sleep", "600"])
        pathlib.Path("child").write_text(str(child.pid))
        print("done", flush=True)
        """,
    )
    assert answer["text"] == "done"
    assert time.monotonic() - started < 20
    assert ended(int((tmp_path / "child").read_text()))


def test_a_killed_process_leaves_nothing_running(tmp_path):
    program(
        tmp_path,
        "agent.py",
        "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)",
    )
    asking = f"""
import sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from support.targets import adapter_for, ask, request_for
ask(adapter_for(Path({str(tmp_path)!r}), "{PYTHON} agent.py"), request_for())
"""
    process = subprocess.Popen([PYTHON, "-c", asking])
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert ended(int((tmp_path / "pid").read_text()))


def test_a_cancelled_call_ends_its_program(tmp_path):
    import asyncio

    adapter = command(tmp_path, "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)")

    async def cancel_it():
        call = asyncio.ensure_future(adapter.agenerate(request_for()))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.02)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await adapter.aclose()

    asyncio.run(cancel_it())
    assert ended(int((tmp_path / "pid").read_text()))


def test_a_shell_is_asked_only_where_one_is_wanted(tmp_path):
    plain = ask(adapter_for(tmp_path, "echo a | tr a b"), request_for())[0]
    shell = ask(adapter_for(tmp_path, "echo a | tr a b", shell=True), request_for())[0]
    assert (plain["text"], shell["text"]) == ("a | tr a b", "b")


def test_a_program_that_is_not_there_is_said_before_anything_is_asked(tmp_path):
    with pytest.raises(ConfigError, match="no-such-program is not on the PATH"):
        adapter_for(tmp_path, "no-such-program --x")
    (tmp_path / "agent.sh").write_text("#!/bin/sh\necho hi\n")
    with pytest.raises(ConfigError, match="is no program .*chmod"):
        adapter_for(tmp_path, "./agent.sh")


def test_the_user_s_own_program_gets_the_user_s_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    answer = one(tmp_path, "import os; print(len(os.environ['OPENAI_API_KEY']))")
    assert answer["text"] == "24"


WORKER = """
import json, os, sys
print("started", file=sys.stderr, flush=True)
for line in sys.stdin:
    call = json.loads(line)
    print(json.dumps({"output": f"{os.getpid()} {call['item'].get('text')}"}), flush=True)
"""


def test_a_worker_is_kept_and_answers_line_by_line_whatever_separators_a_text_has(tmp_path):
    odd = "a\\u2028b\\u2029c\\x85d\\r\\ne"
    adapter = command(tmp_path, WORKER, worker=True, concurrency=1)
    texts = ["plain", odd, "c\u2028d\u2029e\x85f\x1cg"]
    answers = ask(adapter, *(request_for(item={"text": text}) for text in texts))
    assert [answer["text"].partition(" ")[2] for answer in answers] == texts
    assert len({answer["text"].partition(" ")[0] for answer in answers}) == 1
    assert [answer.get("stderr") for answer in answers] == ["started", None, None]


def test_several_workers_answer_at_once(tmp_path):
    adapter = command(
        tmp_path,
        """
        import json, os, sys, time
        for line in sys.stdin:
            time.sleep(0.3)
            print(json.dumps(str(os.getpid())), flush=True)
        """,
        worker=True,
        concurrency=3,
    )
    answers = ask(adapter, *(request_for(item={"text": str(n)}) for n in range(6)))
    assert len({answer["text"] for answer in answers}) == 3


def test_a_worker_that_dies_is_started_again_and_the_call_may_be_tried_again(tmp_path):
    import asyncio

    adapter = command(
        tmp_path,
        """
        import json, pathlib, sys
        for line in sys.stdin:
            call = json.loads(line)
            if call["item"]["text"] == "die" and not pathlib.Path("died").exists():
                pathlib.Path("died").touch()
                print("out of luck", file=sys.stderr)
                sys.exit(9)
            print(json.dumps(call["item"]["text"]), flush=True)
        """,
        worker=True,
        concurrency=1,
    )

    async def three():
        first = await adapter.agenerate(request_for(item={"text": "one"}))
        with pytest.raises(EngineError, match="ended with exit status 9 .*: out of luck") as error:
            await adapter.agenerate(request_for(item={"text": "die"}))
        again = await adapter.agenerate(request_for(item={"text": "die"}))
        await adapter.aclose()
        return first["text"], error.value.retryable, again["text"]

    assert asyncio.run(three()) == ("one", True, "die")


def test_a_worker_that_never_answered_is_not_tried_for_ever(tmp_path):
    with pytest.raises(EngineError, match="before it answered: .*ModuleNotFoundError") as error:
        one(tmp_path, "import no_such_module", worker=True)
    assert not error.value.retryable
    assert error.value.refuses_all


def test_a_worker_that_never_answers_runs_out_of_time_and_the_next_one_does_better(tmp_path):
    import asyncio

    adapter = command(
        tmp_path,
        """
        import json, sys, time
        for line in sys.stdin:
            if json.loads(line)["item"]["text"] == "hang":
                time.sleep(600)
            print('"fine"', flush=True)
        """,
        worker=True,
        concurrency=1,
        timeout_s=2.0,
    )

    async def both():
        hung = await adapter.agenerate(request_for(item={"text": "hang"}))
        fine = await adapter.agenerate(request_for(item={"text": "go"}))
        await adapter.aclose()
        return hung["finish_reason"], fine["text"]

    assert asyncio.run(both()) == ("out_of_time", "fine")


def test_a_worker_that_prints_anything_else_is_told_so(tmp_path):
    with pytest.raises(EngineError, match="a line that is no JSON: 'loading the model'") as error:
        one(tmp_path, "input(); print('loading the model', flush=True); input()", worker=True)
    assert "standard error" in str(error.value)


def test_a_second_line_is_never_taken_for_the_next_answer(tmp_path):
    adapter = command(
        tmp_path,
        """
        import json, sys
        for line in sys.stdin:
            print(json.dumps("answer " + json.loads(line)["item"]["text"]) + '\\n"and one more"', flush=True)
        """,
        worker=True,
        concurrency=1,
    )

    with pytest.raises(ServerDownError, match="a line that no call asked for: '\"and one more\"'"):
        ask(adapter, request_for(item={"text": "1"}))


def test_closing_ends_the_workers(tmp_path):
    adapter = command(tmp_path, WORKER, worker=True, concurrency=1)
    answer = ask(adapter, request_for(item={"text": "x"}))[0]
    assert ended(int(answer["text"].split()[0]))


def test_a_call_in_a_folder_of_its_own_is_run_there(tmp_path):
    (tmp_path / "copy").mkdir()
    adapter = adapter_for(tmp_path, "pwd")
    answer = ask(adapter, request_for(folder=str(tmp_path / "copy")))[0]
    assert answer["text"] == os.path.realpath(tmp_path / "copy")


def test_output_that_is_no_utf_8_is_told_once(tmp_path, caplog):
    program(tmp_path, "latin.py", "import sys\nsys.stdout.buffer.write('caf\u00e9'.encode('latin-1'))")
    answers = ask(adapter_for(tmp_path, f"{sys.executable} latin.py"), request_for(), request_for())
    assert [answer["text"] for answer in answers] == ["caf\ufffd"] * 2
    (told,) = [record.getMessage() for record in caplog.records]
    assert "is not UTF-8 (byte 0xe9 at 3)" in told


async def in_turn(adapter, *requests):
    """One answer after the other, by the same worker."""
    try:
        return [(await adapter.agenerate(request))["text"] for request in requests]
    finally:
        await adapter.aclose()


def test_an_answer_to_another_call_ends_the_run(tmp_path):
    source = """
        import json, sys
        for line in sys.stdin:
            call = json.loads(line)
            print(json.dumps({"output": "x", "call": call["call"] - call["item"]["late"]}), flush=True)
        """
    good, late = request_for(item={"late": 0}), request_for(item={"late": 1})
    options = {"worker": True, "concurrency": 1}
    assert asyncio.run(in_turn(command(tmp_path, source, **options), good, good)) == ["x", "x"]
    with pytest.raises(ServerDownError, match="answered call 1, and was asked call 2"):
        asyncio.run(in_turn(command(tmp_path, source, **options), good, late))


@pytest.mark.skipif(sys.platform != "linux", reason="asks how much of a pipe was read")
def test_a_line_before_the_question_was_read_is_no_answer(tmp_path):
    """It is written while the call is under way, so that nothing lay there before."""
    source = """
        import json, sys, time
        sys.stdin.readline()
        print('"first"', flush=True)
        time.sleep(1)
        print('"log"', flush=True)
        time.sleep(1)
        for line in sys.stdin:
            print('"second"', flush=True)
        """
    with pytest.raises(ServerDownError, match="no call asked for: '\"log\"'"):
        asyncio.run(in_turn(command(tmp_path, source, worker=True, concurrency=1), *[request_for()] * 2))
