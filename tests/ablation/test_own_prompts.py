"""Prompts as companies have them, each from its file to a confirmed shorter prompt with one command."""

import json
import random

import pytest
import yaml

from pcsuite.cli import main
from support.loopback import LoopbackServer

pytestmark = pytest.mark.slow

SUPPORT = """---
owner: support-platform
reviewed: 2026-05-04
---
# Role

You are the triage assistant of {company}, a parcel service.

# Task

Read the ticket of a customer on the plan {plan} and name its queue.

## Queues

| queue | what goes there |
|---|---|
| billing | invoices, refunds above $5 |
| delivery | parcels, addresses |
| account | login, e-mail |

## Tone

Be calm. Be brief. Never promise a refund of more than $20.

# Output

Answer with JSON such as {{"queue": "billing"}}.

# Ticket

{ticket}
"""
APP = '''"""The triage service."""
import textwrap

MODEL = "small-model"
# Reviewed in May: ask Ann before changing it.
SYSTEM_PROMPT = textwrap.dedent(
    """\\
    You are a clerk of Nordwind.

    Name the queue of the ticket: billing, delivery or account.

    User: Where is my parcel?
    Assistant: delivery

    User: I can't log in \\u2014 help!
    Assistant: account

    Be kind to everybody.
    """
)


def ask(ticket):
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": ticket}]
'''
PROMPTFOO = """# triage, as CI asks it
description: triage
prompts:
  - label: triage
    raw:
      - role: system
        content: |
          You are a clerk.

          Name the queue of the ticket.

          Be kind.

          Customers write in haste.
      # a worked example
      - role: user
        content: "Where is my parcel?"
      - role: assistant
        content: delivery
      - role: user
        content: 'Ticket: {{ticket}}'   # the item
providers: [openai:gpt-5-mini]
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    rng = random.Random(7)
    queues = ("billing", "delivery", "account")
    rows = [
        f"ticket {n} about {(queue := rng.choice(queues))},{rng.choice(['gold', 'basic'])},Nordwind,{queue}"
        for n in range(300)
    ]
    (tmp_path / "tickets.csv").write_text("\n".join(["ticket,plan,company,queue", *rows]) + "\n")
    (tmp_path / "support.md").write_bytes(SUPPORT.replace("\n", "\r\n").encode())
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "promptfooconfig.yaml").write_text(PROMPTFOO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shortened(desk, capsys, prompt, run, *words):
    """What one command leaves of a prompt: its trimmed file, its findings and what was printed."""
    asked = ["--data", "tickets.csv", "--answer", "queue", "--input", "ticket", "--model", "simulated"]
    assert main(["ablate", prompt, *asked, "--margin", "0.1", "--design", "leave-one-out", "-q", *words]) == 0
    folder = desk / "outputs/ablations" / run
    document = json.loads((folder / "ablation.json").read_text())
    (trimmed,) = folder.glob("trimmed.*")
    return trimmed, document, capsys.readouterr().out


def test_a_support_prompt_in_markdown(desk, capsys):
    words = ("--effect", "output=2.0", "--effect", "tone=-1.6")
    trimmed, document, printed = shortened(desk, capsys, "support.md", "support", *words)
    blocks = [record["block"] for record in document["verdicts"]]
    assert blocks == ["role", "task", "queues", "tone", "output"]
    assert {"tone"} <= set(document["trim"]["dropped"]) <= {"role", "task", "queues", "tone"}
    text = trimmed.read_bytes().decode()
    assert (trimmed.name, text.startswith("---\r\nowner: support-platform\r\n")) == ("trimmed.md", True)
    assert text.count("\r\n") == text.count("\n")
    assert '# Output\r\n\r\nAnswer with JSON such as {{"queue": "billing"}}.' in text
    assert "# Tone" not in text
    # The split is shown before anything is asked, with what is filled and what is worth a look inside.
    shown = printed[: printed.index("effect on the score")]
    assert "split at its headings" in shown
    assert "filled from the table: company, plan, ticket; doubled braces are sent as single ones" in shown
    assert "queues has 3 parts: --into queues tries them one by one" in shown


def test_a_system_prompt_in_a_python_file(desk, capsys):
    words = ("--system", "--effect", "name_the_queue=2.0", "--effect", "be_kind_to=-1.6")
    trimmed, document, _ = shortened(desk, capsys, "app.py:SYSTEM_PROMPT", "app-SYSTEM_PROMPT", *words)
    blocks = [record["block"] for record in document["verdicts"]]
    assert blocks == ["you_are_a", "name_the_queue", "example_1", "example_2", "be_kind_to"]
    assert "be_kind_to" in document["trim"]["dropped"]
    assert "name_the_queue" not in document["trim"]["dropped"]
    text = trimmed.read_text()
    assert trimmed.name == "trimmed.py"
    assert text.startswith(APP[: APP.index("    You are")])
    assert text.endswith('    """\n)\n' + APP[APP.index("\n\ndef ask") :])
    assert "Be kind" not in text


def test_a_chat_in_a_promptfoo_configuration(desk, capsys):
    words = ("--effect", "name_the_queue=2.0", "--effect", "example_1=-1.6")
    trimmed, document, _ = shortened(desk, capsys, "promptfooconfig.yaml", "promptfooconfig", *words)
    assert "example_1" in document["trim"]["dropped"]
    text = trimmed.read_text()
    assert text.startswith("# triage, as CI asks it\n")
    assert "# a worked example" in text
    assert "{{ticket}}'   # the item\nproviders: [openai:gpt-5-mini]\n" in text
    messages = yaml.safe_load(text)["prompts"][0]["raw"]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert "Name the queue of the ticket.\n" in messages[0]["content"]


def test_what_goes_over_the_wire_is_what_the_program_would_send(desk):
    """The system prompt of the program and the ticket, as ``ask`` in it sends them; and every arm less its blocks."""
    sent = []

    def answer(body):
        sent.append(body["messages"])
        return "delivery"

    namespace: dict = {}
    exec(APP, namespace)
    words = [
        "--data",
        "tickets.csv",
        "--answer",
        "queue",
        "--input",
        "ticket",
        "--system",
        "--limit",
        "20",
        "-q",
    ]
    with LoopbackServer(answer=answer) as server:
        base = [
            "--model",
            "openai/parrot",
            "--base-url",
            server.base_url,
            "--design",
            "leave-one-out",
            "--no-trim",
        ]
        assert main(["ablate", "app.py:SYSTEM_PROMPT", *words, *base]) == 0
    ticket = sent[0][-1]["content"]
    assert namespace["ask"](ticket) in sent
    assert all([message["role"] for message in messages] == ["system", "user"] for messages in sent)
    lengths = {len(messages[0]["content"]) for messages in sent}
    whole = namespace["SYSTEM_PROMPT"]
    assert max(lengths) == len(whole) + 1  # the A/A arm has one more line end
    without_example = whole.replace("User: Where is my parcel?\nAssistant: delivery\n\n", "")
    assert without_example in {messages[0]["content"] for messages in sent}
