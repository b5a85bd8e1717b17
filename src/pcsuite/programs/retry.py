"""RETRY_ON_FAIL: check the form of an answer, say what is wrong, ask again.

**Token budget.** H2 compares this with a hard constraint, so both get the same room to write in: all attempts
of a row together may complete at most ``decoding.max_tokens`` tokens, the limit of the one constrained call.
The first attempt may use all of it; a retry gets what is left, and none is made with less than
:data:`LEAST_TOKENS` left. Prompt tokens of retries are not part of this budget (a prompt is longer than any
answer, and the constrained call reads one too); they are in the row's usage and ``token_cost`` all the same.
Where a server reports no token counts, an attempt is charged all that it was allowed.

**Validity** is the evaluator's parse alone (:mod:`pcsuite.programs.base`): a wrong answer in the right
form is never retried. The last attempt is the row's answer, valid or not.

The first attempt is the very call that the same condition without RETRY_ON_FAIL makes (same prompt, same
seed), so the two are paired to the letter and share the response cache.
"""

from __future__ import annotations

from typing import Any

from pcsuite.engines.adapters.base import Generation
from pcsuite.programs.base import Ask, Job, Outcome, Program, WorstCaseUsage, problems_of
from pcsuite.prompts.prompt import CHARACTERS_PER_TOKEN

LEAST_TOKENS = 16
"""No retry is made with less room than this: nothing whole fits in it."""
SHOWN_CHARACTERS = 1_500
"""What a retry's prompt repeats of the answer before it."""


class RetryOnFail(Program):
    """One attempt and at most ``max_steps`` retries."""

    @classmethod
    def worst_case(cls, max_steps: int) -> WorstCaseUsage:
        """Every retry made, all within one completion limit."""
        return WorstCaseUsage(1 + max_steps, 1, max_steps * SHOWN_CHARACTERS // CHARACTERS_PER_TOKEN)

    async def run(self, job: Job, ask: Ask) -> Outcome:
        """Ask until the answer can be read, the retries are used up, or the budget is.

        What keeps an answer from being read is said in the next prompt, in words; whether it is right plays no part.
        """
        budget = job.request.decoding.max_tokens
        reply = await ask(job.request)
        replies, spent = [reply], _spent(reply, budget)
        problems = problems_of(job.evaluator, job.item, reply["text"], reply["finish_reason"])
        transcript = [_entry(0, reply, budget, problems)]
        while problems and len(replies) <= job.max_steps and budget - spent >= LEAST_TOKENS:
            number, allowed = len(replies), budget - spent
            prompt = retry_prompt(job.request.prompt, reply["text"], problems)
            reply = await ask(job.request.then(f"retry-{number}", prompt, max_tokens=allowed))
            replies.append(reply)
            spent += _spent(reply, allowed)
            problems = problems_of(job.evaluator, job.item, reply["text"], reply["finish_reason"])
            transcript.append(_entry(number, reply, allowed, problems))
        return Outcome(
            reply["text"],
            reply["finish_reason"],
            calls=replies,
            transcript=transcript,
            metrics={
                "attempts": len(replies),
                "valid": not problems,
                "budget_tokens": budget,
                "spent_tokens": spent,
            },
        )


def retry_prompt(prompt: str, answer: str, problems: list[str]) -> str:
    """The prompt of a retry: the same prompt, the answer before, and what was wrong with its form.

    Of a long answer the beginning is shown, and each problem on a line of its own.
    """
    shown = answer.strip()
    if len(shown) > SHOWN_CHARACTERS:
        shown = shown[:SHOWN_CHARACTERS] + "…"
    faults = "\n".join(f"- {problem}" for problem in problems)
    return (
        f"{prompt}\n\nYour answer before:\n{shown or '(empty)'}\n\n"
        f"It could not be accepted:\n{faults}\n\nGive the whole answer again with this put right."
    )


def _spent(reply: Generation, allowed: int) -> int:
    """Completion tokens to charge: those reported, else all that were allowed."""
    counted = reply["usage"]["completion_tokens"]
    return allowed if counted == 0 and reply["text"] else min(counted, allowed)


def _entry(number: int, reply: Generation, allowed: int, problems: list[str]) -> dict[str, Any]:
    return {
        "step": number,
        "type": "attempt",
        "text": reply["text"],
        "finish_reason": reply["finish_reason"],
        "completion_tokens": reply["usage"]["completion_tokens"],
        "allowed_tokens": allowed,
        "problems": problems,
    }
