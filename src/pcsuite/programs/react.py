"""REACT_LOOP: act, observe, revise (after Yao et al. 2023), with search as the only tool.

Every turn is one call whose prompt is the condition's prompt with the transcript so far below it. The loop
ends in one of these ways, and the row's ``finish_reason`` says which:

``stop``        the model gave its answer after ``Final:``; an answer without that word counts too, but only if
                the task has a schema and the text conforms to it (``final_marked`` tells the two apart)
``step_limit``  the turns are used up without an answer
``loop``        the model repeated an earlier turn for the second time
``length``      a turn was cut off at the token limit before it held a call or a whole answer

Without an answer the text is empty and scores 0; of one that was cut off, what came after ``Final:`` is kept. What
the model last said is in the transcript, and is not made into an answer that it did not give. Any other reason is
the backend's own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pcsuite.engines.adapters.base import Tool
from pcsuite.errors import ConfigError
from pcsuite.programs.base import Call, Job, Outcome, Program, Reply, Search, WorstCase
from pcsuite.programs.react_parse import MAX_CALLS_A_TURN, ToolCall, Turn, read_turn
from pcsuite.programs.validation import conforms
from pcsuite.retrieval.base import DEFAULT_K, Passage

SEARCH = Tool("search", "Find passages of the encyclopedia.", "query", "What to look for.")
TOOLS = frozenset({SEARCH.name})
PASSAGE_CHARACTERS = 280
"""What is shown of a sentence; the log keeps it whole."""
OBSERVATION_CHARACTERS = 1_400
"""What is shown after one turn, so that five turns fit a context of 4,096 tokens."""
TURN_CHARACTERS = 600
"""What a later prompt repeats of a turn: its end, where the calls are."""
MOST_REPEATS = 2

LAST_TURN = 'This is the last turn. Write "Final:" and the answer.'
NO_ACTION = (
    "That turn had neither an action nor an answer. "
    'Write "Action: search[your query]" or "Final:" and the answer.'
)
EMPTY_FINAL = 'Nothing followed "Final:". Write "Final:" and the answer.'
REPEATED = "You asked for this before; what it found is above. Ask something else, or give the answer."
PROBLEMS = {
    "malformed": 'The action could not be read. Write one line "Action: search[your query]".',
    "unknown_tool": "There is no tool '{tool}'. The only tool is search.",
    "too_many": f"Only {MAX_CALLS_A_TURN} searches a turn are made; this one was not.",
}


@dataclass(slots=True)
class _Loop:
    """The state between turns."""

    job: Job
    search: Search
    lines: list[str] = field(default_factory=list)
    transcript: list[dict[str, Any]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    shown: dict[tuple[str, int], Passage] = field(default_factory=dict)
    seen: set[object] = field(default_factory=set)
    repeats: int = 0
    searches: int = 0

    def prompt(self, *, last: bool) -> str:
        """The condition's prompt and the transcript so far."""
        parts = [self.job.prompt, *self.lines]
        if last and self.lines:
            parts.append(LAST_TURN)
        return "\n\n".join(parts)

    def hear(self, reply: Reply, turn: Turn) -> None:
        """Keep what the model said."""
        self.replies.append(reply)
        self.transcript.append(
            {
                "step": len(self.replies),
                "type": "model",
                "text": reply.text,
                "finish_reason": reply.finish_reason,
                "completion_tokens": reply.usage["completion_tokens"],
                "not_read": turn.cut,
            }
        )
        self.lines.append(_tail(turn.read))

    def tell(self, text: str) -> None:
        """Tell the model something about its turn."""
        self.transcript.append({"step": len(self.replies), "type": "note", "text": text})
        self.lines.append(f"Observation: {text}")

    def repeated(self, turn: Turn) -> bool:
        """Whether this turn did the same as an earlier one; counts it."""
        key: object = turn.read if not turn.calls else frozenset(_same(call) for call in turn.calls)
        if key not in self.seen:
            self.seen.add(key)
            return False
        self.repeats += 1
        return True

    async def act(self, turn: Turn) -> None:
        """Make the calls of a turn and show what they found."""
        good = sum(call.problem is None for call in turn.calls)
        for call in turn.calls:
            if call.problem is not None:
                self.tell(PROBLEMS[call.problem].format(tool=call.tool))
                continue
            found = await self.search(call.argument, DEFAULT_K)
            self.searches += 1
            self._show(call.argument, found, OBSERVATION_CHARACTERS // good)

    def _show(self, query: str, found: list[Passage], room: int) -> None:
        """Show the passages that are new and fit; only what is shown counts as retrieved."""
        listed: list[str] = []
        passages: list[Passage] = []
        for passage in found:
            if (passage.page, passage.sentence) in self.shown:
                continue
            cited = json.dumps({"page": passage.page, "sentence": passage.sentence}, ensure_ascii=False)
            line = f"{len(self.shown) + 1}. {cited} {_head(passage.text, PASSAGE_CHARACTERS)}"
            if listed and sum(map(len, listed)) + len(line) > room:
                break
            listed.append(line)
            passages.append(passage)
            self.shown[passage.page, passage.sentence] = passage
        text = "\n".join(listed) or ("Nothing new was found." if found else "Nothing was found.")
        self.transcript.append(
            {
                "step": len(self.replies),
                "type": "observation",
                "tool": "search",
                "query": query,
                "passages": [[passage.page, passage.sentence, passage.text] for passage in passages],
                "text": text,
            }
        )
        self.lines.append(f"Observation:\n{text}")

    def end(self, text: str, finish_reason: str, *, marked: bool | None = None) -> Outcome:
        """The outcome; ``marked`` says whether an answer came after ``Final:``."""
        self.transcript.append({"step": len(self.replies), "type": "end", "status": finish_reason})
        return Outcome(
            text,
            finish_reason,
            self.replies,
            react_steps=len(self.replies),
            tool_calls=self.searches,
            retrieved=[(passage.page, passage.sentence, passage.text) for passage in self.shown.values()],
            transcript=self.transcript,
            metrics={"final_marked": marked},
        )


class ReactLoop(Program):
    """At most ``max_steps`` turns, the last of which can only answer."""

    needs_retrieval = True

    @classmethod
    def worst_case(cls, max_steps: int) -> WorstCase:
        """Every turn used; the n-th prompt repeats n − 1 turns and what they found."""
        repeated = max_steps * (max_steps - 1) // 2
        return WorstCase(max_steps, max_steps, repeated * (OBSERVATION_CHARACTERS + TURN_CHARACTERS) // 4)

    async def run(self, job: Job, call: Call) -> Outcome:
        """Run the loop."""
        if job.retrieve is None:
            raise ConfigError(
                f"task '{job.task_id}' has no retriever for its loop",
                hint="name it in integrations.retrieval.enabled_for_tasks",
            )
        loop = _Loop(job, job.retrieve)
        for number in range(1, job.max_steps + 1):
            last = number == job.max_steps
            reply = await call(loop.prompt(last=last), step=f"react-{number}", tools=(SEARCH,))
            turn = read_turn(reply.text, TOOLS)
            loop.hear(reply, turn)
            outcome = _answer(loop, reply, turn)
            if outcome is None and not last:
                outcome = await _go_on(loop, turn)
            if outcome is not None:
                return outcome
        return loop.end("", "step_limit")


def _answer(loop: _Loop, reply: Reply, turn: Turn) -> Outcome | None:
    """The end of the loop, if this turn ends it by itself."""
    cut_off = reply.finish_reason == "length" and turn.cut == 0
    reason = "stop" if reply.finish_reason == "length" and not cut_off else reply.finish_reason
    if turn.final:
        return loop.end(turn.final, reason, marked=True)
    if cut_off and all(made.problem is not None for made in turn.calls):
        return loop.end("", "length")
    if not turn.calls and turn.final is None and conforms(loop.job.evaluator, loop.job.item, turn.read):
        return loop.end(turn.read, reason, marked=False)
    return None


async def _go_on(loop: _Loop, turn: Turn) -> Outcome | None:
    """Do what the turn asks; the end of the loop where it goes in circles."""
    if loop.repeated(turn):
        if loop.repeats >= MOST_REPEATS:
            return loop.end("", "loop")
        loop.tell(REPEATED if any(made.problem is None for made in turn.calls) else NO_ACTION)
    elif turn.calls:
        await loop.act(turn)
    else:
        loop.tell(EMPTY_FINAL if turn.final is not None else NO_ACTION)
    return None


def _same(call: ToolCall) -> tuple[str, str, str | None]:
    return call.tool, " ".join(call.argument.casefold().split()), call.problem


def _head(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def _tail(text: str) -> str:
    return text if len(text) <= TURN_CHARACTERS else "…" + text[-TURN_CHARACTERS:]
