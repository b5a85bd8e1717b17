"""What a row says of the folder its call worked in: what was changed there, and what became of the task's checks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from pcsuite.config.definitions import CheckSpec
from pcsuite.data.items import Item
from pcsuite.engines.targets.workspaces import Workspace
from pcsuite.errors import EngineError
from pcsuite.evaluation.checks import not_run, run_checks
from pcsuite.logging.row import outcome_of
from pcsuite.programs.base import Outcome


def workspace_of(outcome: Outcome) -> Workspace | None:
    """The folder that the last call which had one worked in."""
    return next((call["workspace"] for call in reversed(outcome.calls) if "workspace" in call), None)


async def looked_into(outcome: Outcome, checks: Mapping[str, CheckSpec], item: Item) -> Outcome:
    """An outcome with what its call changed in its folder, and what became of the checks there.

    Changes are taken first: a check may leave files too. A call that came to no answer holds none of them. Raises
    ``EngineError`` where there are checks and no folder.
    """
    workspace = workspace_of(outcome)
    if workspace is None:
        if checks and outcome_of(outcome.finish_reason) == "answered":
            raise EngineError(
                "the task has checks, and the call worked in no folder",
                hint="name one: in_folder of the target (--in)",
            )
        return replace(outcome, checks=not_run(checks, f"the call ended as {outcome.finish_reason}"))
    changed = await asyncio.to_thread(workspace.changes)
    outcome = replace(outcome, folder=str(workspace.folder), changed=changed)
    if outcome_of(outcome.finish_reason) not in ("answered", "cut"):
        return replace(outcome, checks=not_run(checks, f"the call ended as {outcome.finish_reason}"))
    if not workspace.is_there:
        return replace(outcome, folder=None, checks=not_run(checks, "the call removed its folder"))
    return replace(outcome, checks=await run_checks(checks, workspace.folder, item, outcome))


async def leave_folders(outcome: Outcome | None) -> None:
    """Remove the folders that the calls of a row worked in; goes on to its end where the row is cancelled."""
    workspaces = [call["workspace"] for call in outcome.calls if "workspace" in call] if outcome else []
    for workspace in workspaces:
        await asyncio.shield(asyncio.to_thread(workspace.drop))
