"""The suite as a reader of the README has it: a wheel and its extras in a fresh environment, no package of the tests.

What is documented must work there: the commands of README and docs, and a notebook without ipywidgets. A command whose
extra is not in the README's line says so in one line, and its page names the extra.
"""

import json
import os
import re
import subprocess
import sys
import venv
from itertools import pairwise
from pathlib import Path

import pytest

from support.coding_model import CodingModel
from test_documented_commands import ALL, ROOT, desk, stand_in

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]
__all__ = ["desk"]  # the fixture, which pytest finds by its name here

NOTEBOOK = """
import pcsuite as pcs

rows = [{"text": f"Ticket {n} about {q}", "queue": q} for n in range(40) for q in [["billing", "login"][n % 2]]]
prompt = "Name the queue.\\n\\nOne word.\\n\\nTicket: {{ text }}"
run = pcs.run(pcs.prompt(prompt, rows, name="t", answer="queue", model="simulated"), quiet=True)
print(run.result.sentence)
print(len(run.items()), len(run.rows()), len(run.effects()), len(run.table("summary_by_condition")))
print(run._repr_html_().count("<table"), run.rows()._repr_html_().count("<table"))
found = pcs.ablate(prompt, rows, name="t", answer="queue", model="simulated", quiet=True)
print(len(found.effects()), "<iframe" in found._repr_html_())
print(run.report(plots=False).index.name, run.compare(run, margin=0.1).standing)
"""
EXTRA = re.compile(r"\[([a-z,]+)\]")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The interpreter of an environment with a wheel of this tree, the README's extras, and a notebook's kernel."""
    folder = tmp_path_factory.mktemp("plain")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (extras,) = set(re.findall(r"pip install -e '\.\[([a-z,]+)\]'", readme)[:1])
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    built = [*pip, "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    ran = subprocess.run(built, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    install = [
        *pip,
        "--python",
        str(python),
        "install",
        "-q",
        "--no-compile",
        "ipykernel",
        f"{wheel}[{extras}]",
    ]
    ran = subprocess.run(install, capture_output=True, text=True, timeout=300)
    if ran.returncode and "No matching distribution" not in ran.stderr:
        pytest.skip(f"packages cannot be installed here: {ran.stderr.strip().splitlines()[-1]}")
    assert ran.returncode == 0, ran.stderr
    return python


def test_it_is_the_wheel_and_nothing_of_the_tests(plain, tmp_path):
    code = "import importlib.util as u, pcsuite; print(pcsuite.__file__, [bool(u.find_spec(n)) for n in %r])"
    names = ["pytest", "pandas", "polars", "ipywidgets", "starlette", "openpyxl", "xllamacpp", "duckdb"]
    words = [str(plain), "-c", code % (names,)]
    said = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "site-packages" in said
    shown = subprocess.run(
        [str(plain), "-m", "pcsuite", "--help"], capture_output=True, text=True, check=True
    )
    link = shown.stdout.split()[-1]
    assert "site-packages" in link
    assert Path(link.removeprefix("file://")).is_file()
    assert said.split("[")[1].strip("]\n").split(", ") == ["False"] * 6 + ["True"] * 2


def test_documented_commands_work_or_name_their_extra(plain, desk, tmp_path):
    pages = {}
    for block in ALL:
        if not block.not_run:
            pages.setdefault(block.page, []).extend(stand_in(command) for command in block.commands)
    listed = tmp_path / "pages.json"
    listed.write_text(json.dumps(pages), encoding="utf-8")
    driver = ROOT / "tests" / "support" / "plain_driver.py"
    with CodingModel() as model:  # the tutorial's agent asks it
        values = {
            "AGENT_URL": f"{model.base_url}/chat/completions",
            "PATH": f"{plain.parent}{os.pathsep}{os.environ['PATH']}",
        }
        ran = subprocess.run(
            [str(plain), str(driver), str(desk), str(listed)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | values,
        )
    assert ran.returncode == 0, ran.stderr
    results = json.loads(ran.stdout)
    assert len(results) >= 100
    wrong, never_made = [], set()
    for page, words, status, said, _ in results:
        gates = any(word in words for word in ("--fail-under", "--fail-on-regression", "--no-regress"))
        if status == 0 or (gates and status == 1):
            continue
        missing = re.search(r"is not installed \(pip install '\S+\.whl\[([a-z]+)\]'\)", said)
        named = {extra for match in EXTRA.findall((ROOT / page).read_text()) for extra in match.split(",")}
        if missing is not None and missing[1] in named:
            never_made |= {(page, name) for flag, name in pairwise(words) if flag == "--name"}
        elif not any((page, word) in never_made for word in words):
            wrong.append(f"{page}: pcsuite {' '.join(words)}: {status} {said}")
    assert not wrong, "\n".join(wrong)


def test_a_notebook_without_ipywidgets(plain, tmp_path):
    kernel = f"""
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
asked = client.execute({NOTEBOOK!r})
while True:
    message = client.get_iopub_msg(timeout=120)
    if message["msg_type"] == "stream":
        print(message["content"]["text"], end="")
    elif message["msg_type"] == "error":
        print("\\n".join(message["content"]["traceback"]))
    elif message["content"].get("execution_state") == "idle" and message["parent_header"].get("msg_id") == asked:
        break
manager.shutdown_kernel(now=True)
"""
    ran = subprocess.run(
        [str(plain), "-c", kernel], capture_output=True, text=True, cwd=tmp_path, timeout=240
    )
    lines = ran.stdout.splitlines()
    assert lines[1:] == ["40 40 0 1", "1 1", "2 True", "index.html no worse"], ran.stdout + ran.stderr
