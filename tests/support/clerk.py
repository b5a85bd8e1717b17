"""A prompt, a table and a server that plays a clerk: what it answers depends on what the prompt says.

It names the queue of a ticket rightly unless the prompt lacks the list of queues, when tickets whose number is divisible
by ``wrong_every`` get another one. So it is known which items a change breaks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from support.loopback import LoopbackServer

QUEUES = ("billing", "login", "refund")
PROMPT = (
    "You are a clerk.\n\nQueues: billing, login, refund.\n\nAnswer with one word.\n\nTicket: {{ text }}\n"
)
WITHOUT_QUEUES = PROMPT.replace("Queues: billing, login, refund.\n\n", "")


def write_desk(folder: Path, rows: int = 60) -> Path:
    """``triage.md`` and ``tickets.csv`` in a folder, which is returned."""
    table = [f"Ticket {n} about {QUEUES[n % 3]},{QUEUES[n % 3]}" for n in range(1, rows + 1)]
    (folder / "tickets.csv").write_text("\n".join(["text,queue", *table]) + "\n", encoding="utf-8")
    (folder / "triage.md").write_text(PROMPT, encoding="utf-8")
    return folder


def clerk(wrong_every: int = 3) -> LoopbackServer:
    """The server, to be used in a ``with`` block."""

    def answer(body: dict[str, Any]) -> str:
        text = " ".join(message["content"] for message in body["messages"])
        ticket = re.search(r"Ticket (\d+) about (\w+)", text)
        assert ticket is not None
        number, queue = int(ticket[1]), ticket[2]
        wrong = "Queues:" not in text and number % wrong_every == 0
        return QUEUES[(QUEUES.index(queue) + 1) % 3] if wrong else queue

    return LoopbackServer(answer=answer)
