"""Python functions as targets: what they are given, what their mistakes say, and what they may not do."""

import asyncio
import io
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pcsuite._util.threads import leave_working_folder
from pcsuite.errors import ConfigError, EngineError
from pcsuite.prompts.verbatim import chat_piece
from support.targets import adapter_for, ask, program, request_for

CHAT = chat_piece(0, "system", "Be brief.") + chat_piece(1, "user", "Hi")


def function(folder, source, name="answer", **options):
    program(folder, "app.py", source)
    return adapter_for(folder, f"app.py:{name}", **options)


def one(folder, source, request=None, **options):
    return ask(function(folder, source, **options), request or request_for(item={"text": "Late"}))[0]


def test_arguments_are_given_by_the_names_that_the_function_takes(tmp_path):
    source = "def answer(item, *, seed, prompt, style='plain'): return f'{prompt} {item} {seed} {style}'"
    assert one(tmp_path, source)["text"] == "Be brief. {'text': 'Late'} 7 plain"


def test_messages_are_given_for_a_text_and_for_a_chat(tmp_path):
    source = "def answer(messages): return ' '.join(m['role'] + ':' + m['content'] for m in messages)"
    assert one(tmp_path, source)["text"] == "user:Be brief."
    assert one(tmp_path, source, request_for(CHAT))["text"] == "system:Be brief. user:Hi"


def test_a_function_that_wants_a_text_is_not_given_a_chat_as_one(tmp_path):
    with pytest.raises(EngineError, match="takes 'prompt', and the prompt is a chat of 2 messages"):
        one(tmp_path, "def answer(prompt): return prompt", request_for(CHAT))


def test_an_async_function_is_awaited_many_at_once(tmp_path):
    adapter = function(
        tmp_path,
        """
        import asyncio
        running = most = 0
        async def answer(prompt):
            global running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.05)
            running -= 1
            return str(most)
        """,
    )
    assert adapter.max_concurrency is None
    assert "5" in {answer["text"] for answer in ask(adapter, *[request_for()] * 5)}


def test_a_plain_function_is_called_once_at_a_time_unless_it_is_said_to_bear_more(tmp_path):
    assert function(tmp_path, "def answer(prompt): return 'x'").max_concurrency == 1
    assert function(tmp_path, "def answer(prompt): return 'x'", concurrency=4).max_concurrency == 4


def test_a_method_of_an_object_and_a_callable_object_are_functions(tmp_path):
    source = """
    class App:
        async def ask(self, prompt): return 'asked'
        def __call__(self, prompt): return 'called'
    app = App()
    """
    assert one(tmp_path, source, name="app.ask")["text"] == "asked"
    assert one(tmp_path, source, name="app")["text"] == "called"


def test_what_it_imports_from_beside_it_is_found_also_while_it_is_called(tmp_path):
    program(tmp_path, "late_helper.py", "def shout(text): return text.upper()")
    source = """
    def answer(prompt):
        from late_helper import shout
        return shout(prompt)
    """
    assert one(tmp_path, source)["text"] == "BE BRIEF."


def test_an_exception_is_a_failed_call_with_file_and_line(tmp_path):
    source = """
    def answer(prompt):
        return helper({})

    def helper(values):
        return values['label']
    """
    with pytest.raises(EngineError, match="app.py:5: KeyError: 'label'") as error:
        one(tmp_path, source)
    assert not error.value.retryable


@pytest.mark.parametrize("raised", ["ConnectionResetError()", "TimeoutError('slow')"])
def test_a_lost_connection_may_be_tried_again(tmp_path, raised):
    with pytest.raises(EngineError, match="app.py:2") as error:
        one(tmp_path, f"def answer(prompt):\n    raise {raised}\n")
    assert error.value.retryable


def test_a_function_that_ends_the_program_fails_its_call_alone(tmp_path):
    with pytest.raises(EngineError, match="SystemExit: 3"):
        one(tmp_path, "import sys\ndef answer(prompt): sys.exit(3)\n")


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_its_time_limit_is_an_outcome(tmp_path, kind):
    pause = "time.sleep(30)" if kind == "def" else "await asyncio.sleep(30)"
    started = time.monotonic()
    answer = one(tmp_path, f"import asyncio, time\n{kind} answer(prompt):\n    {pause}\n", timeout_s=0.3)
    assert answer["finish_reason"] == "out_of_time"
    assert time.monotonic() - started < 20


def test_an_async_function_is_cancelled_at_its_limit(tmp_path):
    source = """
    import asyncio, pathlib
    async def answer(prompt):
        try:
            await asyncio.sleep(30)
        finally:
            pathlib.Path(__file__).with_name('cancelled').touch()
    """
    one(tmp_path, source, timeout_s=0.2)
    assert (tmp_path / "cancelled").exists()


def test_its_answer_may_be_an_object_or_a_text_and_nothing_else(tmp_path):
    source = "def answer(prompt): return {'output': ['a'], 'steps': 2, 'tokens': 9}"
    answer = one(tmp_path, source)
    assert (answer["text"], answer["steps"]) == ('["a"]', 2)
    assert answer["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 9}
    with pytest.raises(EngineError, match="answered with NoneType, not with a text or an object"):
        one(tmp_path, "def answer(prompt): pass")
    with pytest.raises(EngineError, match="'steps' of its answer is -1"):
        one(tmp_path, "def answer(prompt): return {'output': '', 'steps': -1}")


def test_a_key_that_is_not_read_is_said_once(tmp_path, caplog):
    adapter = function(tmp_path, "def answer(prompt): return {'output': 'x', 'cost': 3}")
    ask(adapter, request_for(), request_for())
    said = [record.message for record in caplog.records]
    assert len(said) == 1
    assert "its answers have 'cost', which is not read (did you mean 'cost_usd'?)" in said[0]


@pytest.mark.parametrize(
    ("source", "name", "problem"),
    [
        ("def respond(prompt): return ''", "answer", "no function 'answer' .*it has respond"),
        ("answer = 3", "answer", "is int, which cannot be called"),
        ("class answer: pass", "answer", "is a class"),
        ("def answer(question): return ''", "answer", "takes 'question', which no call has"),
        ("def answer(item): return ''", "answer", "takes neither 'prompt' nor 'messages'"),
        ("def answer(prompt) return ''", "answer", "app.py:1: "),
        ("import no_such_thing", "answer", "app.py:1: ModuleNotFoundError"),
        ("class A:\n    def invoke(self, x): return x\nanswer = A()", "answer", "chain.invoke"),
    ],
)
def test_each_mistake_is_one_clear_line_before_anything_is_asked(tmp_path, source, name, problem):
    with pytest.raises(ConfigError, match=problem) as error:
        function(tmp_path, source, name)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_and_a_file_without_function(tmp_path):
    with pytest.raises(ConfigError, match="no file .*nowhere.py"):
        adapter_for(tmp_path, "nowhere.py:answer")
    with pytest.raises(ConfigError, match="say which function of the file answers"):
        adapter_for(tmp_path, "app.py")


def test_options_of_commands_and_addresses_are_refused_for_functions(tmp_path):
    for option in ({"worker": True}, {"shell": True}, {"answer": "a.b"}):
        with pytest.raises(ConfigError, match=f"'{next(iter(option))}' is for "):
            function(tmp_path, "def answer(prompt): return ''", **option)


def test_two_folders_with_modules_of_one_name_are_not_mixed(tmp_path):
    for version in ("v1", "v2"):
        program(
            tmp_path, f"{version}/app.py", "from pcs_same_name import word\ndef answer(prompt): return word\n"
        )
        program(tmp_path, f"{version}/pcs_same_name.py", f"word = '{version}'")
    assert ask(adapter_for(tmp_path / "v1", "app.py:answer"), request_for())[0]["text"] == "v1"
    with pytest.raises(ConfigError, match="another pcs_same_name .* is loaded already"):
        adapter_for(tmp_path / "v2", "app.py:answer")


def test_an_edited_module_beside_it_is_loaded_anew(tmp_path):
    program(tmp_path, "app.py", "from pcs_edited_word import word\ndef answer(prompt): return word\n")
    texts = []
    for word in ("before", "after, and longer"):
        program(tmp_path, "pcs_edited_word.py", f"word = {word!r}")
        texts.append(ask(adapter_for(tmp_path, "app.py:answer"), request_for())[0]["text"])
    assert texts == ["before", "after, and longer"]


def test_a_plain_function_is_loaded_once_and_keeps_what_it_holds(tmp_path):
    source = "calls = []\ndef answer(prompt):\n    calls.append(1)\n    return str(len(calls))\n"
    assert [one(tmp_path, source)["text"] for _ in range(2)] == ["1", "2"]


def test_a_call_without_a_row_has_an_empty_item(tmp_path):
    from support.targets import GREEDY

    adapter = function(tmp_path, "def answer(prompt, item): return str(item)")
    assert adapter.generate("x", GREEDY, 1)["text"] == "{}"
    asyncio.run(adapter.aclose())


def test_a_generator_and_an_argument_by_position_are_refused_before_anything_is_asked(tmp_path):
    program(
        tmp_path,
        "app.py",
        """
        def parts(prompt): yield prompt
        async def stream(prompt): yield prompt
        class Stream:
            def __call__(self, prompt): yield prompt
        each = Stream()
        def placed(prompt, /): return prompt
        """,
    )
    for name in ("parts", "stream", "each"):
        with pytest.raises(ConfigError, match="is a generator, and an answer is read whole"):
            adapter_for(tmp_path, f"app.py:{name}")
    with pytest.raises(ConfigError, match="takes 'prompt' by its position alone"):
        adapter_for(tmp_path, "app.py:placed")


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_that_ends_the_program_is_a_failed_call_with_its_line(tmp_path, kind):
    program(tmp_path, "app.py", f"import sys\n{kind} answer(prompt):\n    sys.exit(3)\n")
    with pytest.raises(EngineError, match=r"app.py:3: SystemExit: 3"):
        ask(adapter_for(tmp_path, "app.py:answer"), request_for())


def test_a_decorator_that_hides_the_arguments_is_told_how_to_show_them(tmp_path):
    program(
        tmp_path,
        "app.py",
        """
        def traced(function):
            return lambda *words, **named: function(*words, **named)
        @traced
        def answer(prompt): return prompt
        """,
    )
    with pytest.raises(EngineError, match="functools.wraps shows it"):
        ask(adapter_for(tmp_path, "app.py:answer"), request_for())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a thread a working folder of its own")
def test_a_plain_function_may_go_to_another_folder_and_the_run_stays(tmp_path, monkeypatch):
    """Agents go to the folder they work in; everything that the run writes by a relative path must not follow."""
    (tmp_path / "elsewhere").mkdir()
    program(
        tmp_path,
        "app.py",
        """
        import os, subprocess, time
        def answer(prompt, item):
            os.chdir("elsewhere")
            time.sleep(0.3)
            return os.path.basename(subprocess.check_output("pwd", text=True).strip())
        """,
    )
    monkeypatch.chdir(tmp_path)
    if not in_thread_of_its_own(leave_working_folder):
        pytest.skip("this system does not let us")
    adapter = adapter_for(tmp_path, "app.py:answer", concurrency=3)
    assert [one["text"] for one in ask(adapter, *[request_for()] * 3)] == ["elsewhere"] * 3
    assert Path.cwd() == tmp_path


def in_thread_of_its_own(job):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(job).result()


def test_where_the_run_would_follow_it_is_put_back_and_refused(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    program(
        tmp_path,
        "app.py",
        'import os\nasync def answer(prompt):\n    os.chdir("elsewhere")\n    return "x"\n',
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EngineError, match="went to another working folder") as error:
        ask(adapter_for(tmp_path, "app.py:answer"), request_for())
    assert error.value.refuses_all
    assert Path.cwd() == tmp_path


def test_standard_output_is_the_run_s_own(tmp_path, monkeypatch):
    program(
        tmp_path,
        "app.py",
        """
        import io, sys
        def instead(prompt):
            sys.stdout = io.StringIO()
            return "x"
        def closes(prompt):
            sys.stdout.close()
            return "x"
        """,
    )
    ours = io.StringIO()
    monkeypatch.setattr(sys, "stdout", ours)
    ask(adapter_for(tmp_path, "app.py:instead"), request_for())
    assert sys.stdout is ours
    with pytest.raises(EngineError, match="closed standard output, where the result is to be shown"):
        ask(adapter_for(tmp_path, "app.py:closes"), request_for())


ENDS = '''
import asyncio, sys


class Panic(BaseException):
    """As extensions raise it."""


def panic(prompt):
    raise Panic("index out of bounds")


def interrupt(prompt):
    raise KeyboardInterrupt


def cancelled(prompt):
    raise asyncio.CancelledError


def closes(prompt):
    raise GeneratorExit


async def panic_later(prompt):
    raise Panic("index out of bounds")


async def interrupt_later(prompt):
    raise KeyboardInterrupt


async def exit_later(prompt):
    sys.exit(3)


async def closes_later(prompt):
    raise GeneratorExit
'''


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("panic", "app.py:9: Panic: index out of bounds"),
        ("interrupt", "app.py:13: KeyboardInterrupt"),
        ("cancelled", "app.py:17: CancelledError"),
        ("closes", "app.py:21: GeneratorExit"),
        ("panic_later", "app.py:25: Panic: index out of bounds"),
        ("interrupt_later", "app.py:29: KeyboardInterrupt"),
        ("exit_later", "app.py:33: SystemExit: 3"),
        ("closes_later", "app.py:37: GeneratorExit"),
    ],
)
def test_what_would_end_a_program_fails_its_call_alone(tmp_path, name, said):
    """A panic of an extension, a cancellation that escaped: the other calls and their rows go on."""
    with pytest.raises(EngineError) as failed:
        one(tmp_path, ENDS, name=name)
    assert failed.value.message.endswith(said)
    assert not failed.value.retryable


def test_a_function_that_swallows_its_cancellation_holds_up_nobody(tmp_path):
    """In a process of its own: a loop that waits for it would never end."""
    program(
        tmp_path,
        "app.py",
        """
        import asyncio

        async def answer(prompt):
            while True:
                try:
                    await asyncio.sleep(60)
                except BaseException as error:
                    if isinstance(error, GeneratorExit):
                        raise
        """,
    )
    asking = (
        "from support.targets import adapter_for, ask, request_for\n"
        "for answer in ask(adapter_for('.', 'app.py:answer', timeout_s=0.2), *[request_for()] * 3):\n"
        "    print(answer['finish_reason'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", asking],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.stdout.split() == ["out_of_time"] * 3, done.stderr
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


PRINTING = """
    import asyncio, sys, threading
    async def later(prompt, item):
        print("begun", item["n"])
        await asyncio.sleep(0.02)
        sys.stdout.writelines(["done ", str(item["n"])])
        return prompt
    def plain(prompt, item):
        print("begun", item["n"])
        return prompt
"""


@pytest.mark.parametrize(("name", "said"), [("later", "begun {0}\ndone {0}"), ("plain", "begun {0}")])
def test_what_a_function_prints_stays_with_its_own_answer(tmp_path, capsys, name, said):
    adapter = function(tmp_path, PRINTING, name, concurrency=8)
    answers = ask(adapter, *(request_for(item={"n": n}) for n in range(8)))
    assert [answer["stderr"] for answer in answers] == [said.format(n) for n in range(8)]
    print("ours")
    assert capsys.readouterr().out == "ours\n"


def test_of_much_that_is_printed_the_end_is_kept(tmp_path):
    source = "def answer(prompt):\n    for n in range(5000): print(n)\n    return prompt"
    kept = one(tmp_path, source)["stderr"]
    assert len(kept) <= 4_000
    assert kept.endswith("4998\n4999")
