"""One call, its text is the answer."""

from __future__ import annotations

from pcsuite.programs.base import Call, Job, Outcome, Program


class SingleCall(Program):
    """The open loop."""

    async def run(self, job: Job, call: Call) -> Outcome:
        """Ask once."""
        reply = await call(job.prompt, constraint=job.constraint)
        return Outcome(reply.text, reply.finish_reason, [reply])
