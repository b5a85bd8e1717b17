"""The programs of docs/how-to/any-system.md, as they stand there: asked as targets, other libraries' models stood in for."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

from pcsuite.config.load import load_suite
from support.targets import adapter_for, ask, request_for

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "any-system.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE, re.DOTALL))
CALL = request_for("Name the queue.", {"text": "Ticket 4: about refund", "id": "4"})
VAGUE = request_for("Be kind.", {"text": "Ticket 4: about refund", "id": "4"})


def write(folder, name, *changes):
    """A program of the page, in which each of ``changes`` (old, new) must be found."""
    text = PROGRAMS[name]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / name).write_text(text, encoding="utf-8")


def test_the_page_shows_these_programs():
    assert set(PROGRAMS) == {
        "my_agent.py", "my_worker.py", "app.py", "chain_app.py", "dspy_app.py", "inspect_app.py",
    }  # fmt: skip


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("name", "spec", "options", "steps"),
    [
        ("my_agent.py", f"{sys.executable} my_agent.py", {}, 3),
        ("my_worker.py", f"{sys.executable} my_worker.py", {"worker": True}, None),
        ("app.py", "app.py:answer", {}, 1),
    ],
)
def test_commands_workers_and_functions_of_the_page_answer(tmp_path, name, spec, options, steps):
    write(tmp_path, name)
    good, vague = ask(adapter_for(tmp_path, spec, **options), CALL, VAGUE)
    assert good["text"] == "refund"
    assert good.get("steps") == steps
    assert vague["text"] != "refund"


def test_the_profile_of_the_page_can_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "my_worker.py")
    (text,) = (part for part in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "targets:" in part)
    profile = yaml.safe_load(
        text.replace(", …}", ", tasks: [csqa_json], conditions: [C0], decoding_regimes: [D0]}")
    )
    suite = load_suite({"version": "1.0", "run": {"name": "x"}, **profile})
    assert suite.models["my-agent"].provider_options()["concurrency"] == 4
    assert suite.models["my-agent"].provider_options()["identity"]


def asked_elsewhere(folder, target, python):
    """The answers of a target to two prompts, in an interpreter that has the packages which it needs beside our own."""
    script = f"""
import json, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from support.targets import adapter_for, ask, request_for
calls = [request_for(rules, {{"text": "Ticket 4: about refund"}}) for rules in ("Name the queue.", "Be kind.")]
print(json.dumps(ask(adapter_for(Path({str(folder)!r}), {target!r}), *calls), default=str))
"""
    ran = subprocess.run(
        [python, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.strip().splitlines()[-1])


def test_the_program_of_dspy_is_asked_with_the_prompt_as_its_instructions(tmp_path):
    pytest.importorskip("dspy")
    stand_in = textwrap.dedent(
        """
        class Clerk(dspy.BaseLM):
            def forward(self, prompt=None, messages=None, **settings):
                said = "refund" if "Name the queue." in messages[0]["content"] else "hm"
                text = f"[[ ## queue ## ]]\\n{said}\\n\\n[[ ## completed ## ]]"
                message = type("Message", (), {"content": text, "tool_calls": None})()
                choice = type("Choice", (), {"message": message, "finish_reason": "stop"})()
                return type("Response", (), {"choices": [choice], "usage": {}, "model": "clerk"})()
        """
    )
    write(
        tmp_path,
        "dspy_app.py",
        ("import dspy\n", f"import dspy\n{stand_in}"),
        ('dspy.LM("openai/gpt-5-mini", cache=False)', 'Clerk(model="clerk", cache=False)'),
    )
    good, vague = asked_elsewhere(tmp_path, "dspy_app.py:answer", sys.executable)
    assert (good["text"], vague["text"]) == ("refund", "hm")


def test_the_chain_of_langchain_answers_with_its_tokens(tmp_path):
    python = os.environ.get("PCS_LANGCHAIN_PYTHON")
    if not python:
        pytest.skip("PCS_LANGCHAIN_PYTHON names no interpreter with langchain-core")
    stand_in = textwrap.dedent(
        """
        from langchain_core.language_models.chat_models import BaseChatModel
        from langchain_core.messages import AIMessage
        from langchain_core.outputs import ChatGeneration, ChatResult

        class ChatOpenAI(BaseChatModel):
            model: str
            @property
            def _llm_type(self):
                return "clerk"
            def _generate(self, messages, stop=None, run_manager=None, **more):
                said = "refund" if messages[0].content == "Name the queue." else "hm"
                usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
                message = AIMessage(content=said, usage_metadata=usage)
                return ChatResult(generations=[ChatGeneration(message=message)])
        """
    )
    write(tmp_path, "chain_app.py", ("from langchain_openai import ChatOpenAI\n", stand_in))
    good, vague = asked_elsewhere(tmp_path, "chain_app.py:answer", python)
    assert (good["text"], vague["text"]) == ("refund", "hm")
    assert good["usage"]["total_tokens"] == 10


def test_the_solver_of_inspect_answers_with_steps_and_tokens(tmp_path):
    python = os.environ.get("PCS_INSPECT_PYTHON")
    if not python:
        pytest.importorskip(
            "inspect_ai", reason="inspect_ai is not installed, and PCS_INSPECT_PYTHON is not set"
        )
    stand_in = textwrap.dedent(
        """
        from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

        @modelapi(name="clerk")
        def clerk():
            class Clerk(ModelAPI):
                async def generate(self, input, tools, tool_choice, config):
                    said = "refund" if input[0].text == "Name the queue." else "hm"
                    output = ModelOutput.from_content("clerk", said)
                    output.usage = ModelUsage(input_tokens=9, output_tokens=1, total_tokens=10)
                    return output

                async def count_tokens(self, *messages, **more):
                    return 9

            return Clerk

        MODEL = "clerk/x"
        """
    )
    write(tmp_path, "inspect_app.py", ('MODEL = "openai/gpt-5-mini"\n', stand_in))
    # In a thread beside a running loop, one call after the other: as a plain function is asked.
    script = """
import asyncio
from inspect_app import answer

async def both():
    return [await asyncio.to_thread(answer, rules, {"text": "Late"}) for rules in ("Name the queue.", "Be kind.")]

print(asyncio.run(both()))
"""
    words = [python or sys.executable, "-W", "ignore", "-c", script]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip().splitlines()[-1] == str(
        [{"output": said, "steps": 1, "tokens": 10} for said in ("refund", "hm")]
    )
