"""REACT_LOOP: act, observe, revise (after Yao et al. 2023), with search as the only tool; REVISE_LOOP: without it.

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

The loop alone has no tool: the model drafts, is asked to check its draft, and revises (Madaan et al. 2023), so that
what search adds can be told from what going round again adds. It ends as above, and where a draft that conforms to the
task's schema comes back unchanged: there is nothing left to revise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pcsuite.data.clusters import text_key
from pcsuite.engines.adapters.base import Generation, Tool
from pcsuite.errors import ConfigError
from pcsuite.programs.base import Ask, Job, Outcome, Program, Search, WorstCaseUsage, conforms
from pcsuite.prompts.prompt import CHARACTERS_PER_TOKEN
from pcsuite.retrieval.base import DEFAULT_K, Passage

# Reading one turn of an act–observe loop: which tools it calls, or which final answer it gives.
#
# A turn is read from the top, and the first thing that it does decides what it is:
#
# - ``Action: search[…]`` calls a tool. Calls that follow each other directly belong to the same turn. Whatever
#   comes after them is not read: a model that goes on writes the observation itself, and an answer given before
#   the passages were seen does not rest on them.
# - ``Final: …`` gives the answer; it reaches to the next ``Action:`` or ``Observation:`` line, or the end.
#
# A call's argument stands in square or round brackets, which may nest, and may be quoted. It ends on its line.


MAX_CALLS_A_TURN = 3
"""Further calls of one turn are not made; the model is told so."""

_MARK = r"^[ \t>*#`_\-]*"
_DIRECTIVE = re.compile(
    _MARK + r"(?P<word>action|final(?:[ \t]+answer)?|observation)(?:[ \t]*\d{1,2})?[ \t*_`]*:[ \t*_`]*",
    re.IGNORECASE | re.MULTILINE,
)
_TOOL = re.compile(r"(?P<name>[A-Za-z_]\w{0,40})[ \t]*(?P<open>[\[(])(?:[ \t]*(?:query|q)[ \t]*[=:])?")
_NAME = re.compile(r"[A-Za-z_]\w{0,40}")
_CLOSING = {"[": "]", "(": ")"}
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`"}

CallProblem = Literal["malformed", "unknown_tool", "too_many"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the turn makes; ``problem`` says why it cannot be made."""

    tool: str
    argument: str
    problem: CallProblem | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One reading of a turn: ``calls``, or ``final``, or neither."""

    read: str
    """The part of the text that counts."""
    calls: tuple[ToolCall, ...] = ()
    final: str | None = None
    cut: int = 0
    """Characters after it that were not read."""

    def ending(self, finish_reason: str) -> tuple[bool, str]:
        """Whether the turn was cut off, and how it ended: what was cut off after the part that counts ended well."""
        cut_off = finish_reason == "length" and self.cut == 0
        return cut_off, "stop" if finish_reason == "length" and not cut_off else finish_reason


def read_turn(text: str, tools: frozenset[str]) -> Turn:
    """Read a turn's text; never raises.

    The first directive counts: calls that follow each other directly, or the final answer. An observation that
    the model made up ends the turn.
    """
    marks = list(_DIRECTIVE.finditer(text))
    for index, mark in enumerate(marks):
        word = mark["word"].casefold()
        if word == "action":
            return _action_turn(text, marks[index:], tools)
        if word == "observation":  # one that nobody made: nothing after it can be trusted
            return Turn(text[: mark.start()].strip(), cut=len(text) - mark.start())
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        answer = text[mark.end() : end].strip()
        if answer or index + 1 == len(marks):
            return Turn(text[:end].strip(), final=answer, cut=len(text) - end)
    return Turn(text.strip())


def _action_turn(text: str, marks: Sequence[re.Match[str]], tools: frozenset[str]) -> Turn:
    """A turn that begins with a call: it and those that follow it directly."""
    calls: list[ToolCall] = []
    end = marks[0].start()
    for mark in marks:
        if calls and (mark["word"].casefold() != "action" or text[end : mark.start()].strip()):
            break
        call, end = _read_call(text, mark.end(), tools)
        calls.append(replace(call, problem="too_many") if len(calls) >= MAX_CALLS_A_TURN else call)
    return Turn(text[:end].strip(), tuple(calls), cut=len(text[end:].strip()))


def _read_call(text: str, start: int, tools: frozenset[str]) -> tuple[ToolCall, int]:
    """The call that begins at ``start`` and where it ends."""
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    head = _TOOL.match(text, start, line_end)
    if head is None:
        name = _NAME.match(text, start, line_end)
        return ToolCall(name[0] if name else "", text[start:line_end].strip(), "malformed"), line_end
    tool = head["name"].casefold()
    close = _closing_bracket(text, head.end(), line_end, head["open"])
    if close is None:
        return ToolCall(tool, text[head.end() : line_end].strip(), "malformed"), line_end
    argument = text[head.end() : close].strip()
    quote = argument[:1]
    if (
        len(argument) >= 2
        and quote in _QUOTES
        and argument[-1] == _QUOTES[quote]
        and quote not in argument[1:-1]
    ):
        argument = argument[1:-1].strip()
    end = close + 1
    if tool not in tools:
        return ToolCall(tool, argument, "unknown_tool"), end
    return ToolCall(tool, argument, None if argument else "malformed"), end


def _closing_bracket(text: str, start: int, end: int, opening: str) -> int | None:
    """Index of the bracket that closes the argument, or ``None`` where the line has none."""
    closing = _CLOSING[opening]
    quote = _QUOTES.get(text[start:end].lstrip()[:1])
    if quote is not None:
        # A quoted argument ends where a closing bracket follows the quote: brackets inside it are text.
        begin = text.index(text[start:end].lstrip()[0], start) + 1
        quoted = re.compile(re.escape(quote) + r"[ \t]*" + re.escape(closing)).search(text, begin, end)
        if quoted is not None:
            return quoted.end() - 1
    depth = 0
    for index in range(start, end):
        if text[index] == opening:
            depth += 1
        elif text[index] == closing:
            if depth == 0:
                return index
            depth -= 1
    return None


SEARCH = Tool("search", "Find passages of the encyclopedia.", "query", "What to look for.")
TOOLS = frozenset({SEARCH.name})
PASSAGE_CHARACTERS = 280
"""What is shown of a sentence; the log keeps it whole."""
OBSERVATION_CHARACTERS = 1_400
"""What is shown after one turn, so that five turns fit a context of 4,096 tokens."""
TURN_CHARACTERS = 600
"""What a later prompt repeats of a turn: its end, where the calls are."""
MAX_REPEATS = 2

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
    search: Search | None
    """``None`` in a loop without tools."""
    lines: list[str] = field(default_factory=list)
    transcript: list[dict[str, Any]] = field(default_factory=list)
    replies: list[Generation] = field(default_factory=list)
    shown: dict[tuple[str, int], Passage] = field(default_factory=dict)
    turns: set[object] = field(default_factory=set)
    """What earlier turns did."""
    repeats: int = 0
    searches: int = 0

    def prompt(self, *, last: bool) -> str:
        """The condition's prompt and the transcript so far."""
        parts = [self.job.request.prompt, *self.lines]
        if last and self.lines:
            parts.append(LAST_TURN)
        return "\n\n".join(parts)

    def record_reply(self, reply: Generation, turn: Turn) -> None:
        """Keep what the model said."""
        self.replies.append(reply)
        self.transcript.append(
            {
                "step": len(self.replies),
                "type": "model",
                "text": reply["text"],
                "finish_reason": reply["finish_reason"],
                "completion_tokens": reply["usage"]["completion_tokens"],
                "not_read": turn.cut,
            }
        )
        text = turn.read
        self.lines.append(text if len(text) <= TURN_CHARACTERS else "…" + text[-TURN_CHARACTERS:])

    def add_note(self, text: str) -> None:
        """Tell the model something about its turn."""
        self.transcript.append({"step": len(self.replies), "type": "note", "text": text})
        self.lines.append(f"Observation: {text}")

    def repeated(self, turn: Turn) -> bool:
        """Whether this turn did the same as an earlier one; counts it."""
        key: object = turn.read
        if turn.calls:
            key = frozenset((call.tool, text_key(call.argument), call.problem) for call in turn.calls)
        if key not in self.turns:
            self.turns.add(key)
            return False
        self.repeats += 1
        return True

    async def make_calls(self, turn: Turn) -> None:
        """Make the calls of a turn and show what they found."""
        good = sum(call.problem is None for call in turn.calls)
        for call in turn.calls:
            if call.problem is not None:
                self.add_note(PROBLEMS[call.problem].format(tool=call.tool))
                continue
            assert self.search is not None, "calls are read only where there are tools"
            passages = await self.search(call.argument, DEFAULT_K)
            self.searches += 1
            self._show(call.argument, passages, OBSERVATION_CHARACTERS // good)

    def _show(self, query: str, results: list[Passage], room: int) -> None:
        """Show the passages that are new and fit; only what is shown counts as retrieved."""
        listed: list[str] = []
        passages: list[Passage] = []
        for passage in results:
            if (passage.page, passage.sentence) in self.shown:
                continue
            cited = json.dumps({"page": passage.page, "sentence": passage.sentence}, ensure_ascii=False)
            sentence = " ".join(passage.text.split())
            if len(sentence) > PASSAGE_CHARACTERS:
                sentence = sentence[: PASSAGE_CHARACTERS - 1].rstrip() + "…"
            line = f"{len(self.shown) + 1}. {cited} {sentence}"
            if listed and sum(map(len, listed)) + len(line) > room:
                break
            listed.append(line)
            passages.append(passage)
            self.shown[passage.page, passage.sentence] = passage
        text = "\n".join(listed) or ("Nothing new was found." if results else "Nothing was found.")
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
            calls=self.replies,
            react_steps=len(self.replies),
            tool_calls=self.searches,
            retrieved=None
            if self.search is None
            else [(passage.page, passage.sentence, passage.text) for passage in self.shown.values()],
            transcript=self.transcript,
            metrics={"final_marked": marked},
        )


def _repeating(max_steps: int, characters: int) -> WorstCaseUsage:
    """Every turn used, each prompt repeating so many characters of every turn before it."""
    repeated = max_steps * (max_steps - 1) // 2
    return WorstCaseUsage(max_steps, max_steps, repeated * characters // CHARACTERS_PER_TOKEN)


class ReactLoop(Program):
    """At most ``max_steps`` turns, the last of which can only answer."""

    needs_retrieval = True
    for_grounded_tasks = True

    @classmethod
    def worst_case(cls, max_steps: int) -> WorstCaseUsage:
        """Every turn used; the n-th prompt repeats n − 1 turns and what they found."""
        return _repeating(max_steps, OBSERVATION_CHARACTERS + TURN_CHARACTERS)

    async def run(self, job: Job, ask: Ask) -> Outcome:
        """Run the loop."""
        if job.retrieve is None:
            raise ConfigError(
                f"task '{job.task_id}' has no retriever for its loop",
                hint="name it in integrations.retrieval.enabled_for_tasks",
            )
        loop = _Loop(job, job.retrieve)
        for number in range(1, job.max_steps + 1):
            last = number == job.max_steps
            reply = await ask(job.request.then(f"react-{number}", loop.prompt(last=last), tools=(SEARCH,)))
            turn = read_turn(reply["text"], TOOLS)
            loop.record_reply(reply, turn)
            cut_off, reason = turn.ending(reply["finish_reason"])
            if turn.final:
                return loop.end(turn.final, reason, marked=True)
            if cut_off and all(call.problem is not None for call in turn.calls):
                return loop.end("", "length")
            if not turn.calls and turn.final is None and conforms(job.evaluator, job.item, turn.read):
                return loop.end(turn.read, reason, marked=False)
            if last:
                break
            if loop.repeated(turn):
                if loop.repeats >= MAX_REPEATS:
                    return loop.end("", "loop")
                loop.add_note(REPEATED if any(call.problem is None for call in turn.calls) else NO_ACTION)
            elif turn.calls:
                await loop.make_calls(turn)
            else:
                loop.add_note(EMPTY_FINAL if turn.final is not None else NO_ACTION)
        return loop.end("", "step_limit")


CHECK = (
    "Check this draft: is every statement in it right, and does anything support it? "
    'Write a better answer, or "Final:" and the answer where nothing is left to mend.'
)
NO_DRAFT = 'That turn held no answer of the form asked for. Write the answer, or "Final:" and the answer.'


class ReviseLoop(Program):
    """The loop without tools: a draft, at most ``max_steps`` − 1 revisions, the last of which can only answer."""

    for_grounded_tasks = True

    @classmethod
    def worst_case(cls, max_steps: int) -> WorstCaseUsage:
        """Every turn used; the n-th prompt repeats n − 1 drafts and what was said of them."""
        return _repeating(max_steps, TURN_CHARACTERS + len(CHECK))

    async def run(self, job: Job, ask: Ask) -> Outcome:
        """Run the loop."""
        loop = _Loop(job, None)
        for number in range(1, job.max_steps + 1):
            last = number == job.max_steps
            reply = await ask(job.request.then(f"revise-{number}", loop.prompt(last=last)))
            turn = read_turn(reply["text"], frozenset())
            loop.record_reply(reply, turn)
            cut_off, reason = turn.ending(reply["finish_reason"])
            if turn.final:
                return loop.end(turn.final, reason, marked=True)
            if cut_off:
                return loop.end("", "length")
            readable = not turn.calls and conforms(job.evaluator, job.item, turn.read)
            if readable and (loop.repeated(turn) or last):
                return loop.end(turn.read, reason, marked=False)
            if not last:
                loop.add_note(CHECK if readable else NO_DRAFT)
        return loop.end("", "step_limit")
