"""A small agent: a model that changes files with two tools, under the rules of the project it works in.

One call is one task: a JSON object on standard input, whose ``item`` has the task, and a JSON object on standard
output. The folder it is started in is the project. It reads ``AGENTS.md`` there, as agents do, asks the model at
``AGENT_URL`` (a server in OpenAI's chat protocol; ``serve.py`` starts one) for the next
step, does it, and goes on until it has written a file; a file may be read before.
"""

import hashlib
import json
import os
import sys
import urllib.request
from pathlib import Path

STEPS = 2
TOOLS = """You change a Python project with two tools. An answer is one call of a tool:
{"tool": "read_file", "path": "NAME.py"}
{"tool": "write_file", "path": "NAME.py", "content": "def hello():\\n    return 'hello'\\n"}
"""
_PATH = {"type": "string", "pattern": "^[a-z_]+[.]py$"}
READ, WRITE = (
    {
        "type": "object",
        "properties": {"tool": {"const": tool}, "path": _PATH, **content},
        "required": ["tool", "path", *content],
        "additionalProperties": False,
    }
    for tool, content in (("read_file", {}), ("write_file", {"content": {"type": "string"}}))
)
"""The form of a call, which the server holds the model to: small models lose one that they are only told."""


def ask(messages: list[dict[str, str]], schema: dict[str, object], seed: int) -> tuple[str, int, int]:
    """The model's next words, and the tokens they cost: of the prompt, and of the answer."""
    body = {
        "messages": messages,
        "temperature": 0.2,
        "seed": seed,
        "max_tokens": 120,
        "response_format": {"type": "json_schema", "json_schema": {"name": "call", "schema": schema}},
    }
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("AGENT_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(os.environ["AGENT_URL"], json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=500) as response:
        answer = json.load(response)
    usage = answer.get("usage", {})
    text = answer["choices"][0]["message"]["content"]
    return text, usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)


def do(call: dict[str, str], folder: Path) -> str:
    """Do what a call says within the project, and say what came of it."""
    path = (folder / call["path"]).resolve()
    if not path.is_relative_to(folder.resolve()):
        return "error: that file is not in the project"
    try:
        if call["tool"] == "read_file":
            return path.read_text(encoding="utf-8")[:2000]
        path.write_text(call["content"], encoding="utf-8")
        return "written"
    except (OSError, UnicodeDecodeError):
        return "there is no such file"


def solve(task: str, folder: Path, seed: int) -> dict[str, object]:
    """Work on a task until a file is written; the answer in the form that pcsuite reads."""
    rules = folder / "AGENTS.md"
    text = f"\n{rules.read_text(encoding='utf-8')}" if rules.is_file() else ""
    files = ", ".join(path.name for path in sorted(folder.glob("*.py"))) or "none yet"
    messages = [
        {"role": "system", "content": TOOLS + text},
        {"role": "user", "content": f"Files: {files}\nTask: {task}"},
    ]
    transcript: list[dict[str, object]] = []
    spent = {"prompt": 0, "completion": 0}
    tool = ""
    while len(transcript) < STEPS and tool != "write_file":
        words, asked, said = ask(messages, WRITE if transcript else {"anyOf": [WRITE, READ]}, seed)
        spent = {"prompt": spent["prompt"] + asked, "completion": spent["completion"] + said}
        try:
            call = json.loads(words)
        except ValueError:  # it was cut
            transcript.append({"type": "model", "text": words})
            break
        tool, result = call["tool"], do(call, folder)
        arguments = {key: value for key, value in call.items() if key != "tool"}
        transcript.append({"type": "tool", "tool": tool, "arguments": arguments, "result": result})
        messages += [{"role": "assistant", "content": words}, {"role": "user", "content": result}]
    return {
        "output": "written" if tool == "write_file" else "nothing was written",
        "steps": len(transcript),
        "tool_calls": sum(step["type"] == "tool" for step in transcript),
        "tokens": spent,
        "transcript": transcript,
        "loaded": [{"source": "AGENTS.md", "sha256": hashlib.sha256(rules.read_bytes()).hexdigest()}]
        if rules.is_file()
        else [],
    }


if __name__ == "__main__":
    question = json.load(sys.stdin)
    print(json.dumps(solve(question["item"]["task"], Path.cwd(), question["seed"])))
