"""Running an ablation: the arms, then the pairs that look redundant, then the trimmed prompt; all rows in one log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import combinations
from typing import TypeVar

import numpy as np
from typing_extensions import Self

from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import digest, named_rng
from pcsuite._util.loops import run_blocking
from pcsuite.ablation.across import model_differences
from pcsuite.ablation.arm_measures import SharedRows, of_items
from pcsuite.ablation.arms import AGAIN, FULL, PromptArm, arm_of, first_groups, halves, trimmed_arm, without
from pcsuite.ablation.forecast import NoiseForecast, Rest, forecast_by_noise, price_of_rest
from pcsuite.ablation.forecast_picture import over_budget_words
from pcsuite.ablation.judging import Cell, judge_cell
from pcsuite.ablation.reach import Reach, check_reach, unknown_line
from pcsuite.ablation.replicates import (
    as_noted,
    decided,
    note_replicates,
    with_replicates,
)
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.result import AblationResult
from pcsuite.ablation.screen import (
    Group,
    arm_without,
    block_verdicts,
    group_name,
    groups_to_split,
)
from pcsuite.ablation.study import FINGERPRINT, Study, prepare
from pcsuite.ablation.trim import Asked, Trim, choose_drops, confirm_drops
from pcsuite.ablation.verdicts import finite, suspect_pairs
from pcsuite.contrasts import ArmScores
from pcsuite.engines.adapters.base import Generation, Request
from pcsuite.engines.session import open_models
from pcsuite.errors import BudgetExceededError, ConfigError, ErrorRateError, RunStoppedError
from pcsuite.logging.ledger import counting
from pcsuite.logging.log import ResumeIndex, RunLog
from pcsuite.logging.looks import read_looks
from pcsuite.logging.manifest import RegisteredPlan
from pcsuite.runners.edits import registered_perturbation
from pcsuite.runners.executors import EXECUTORS, Executor, ExecutorChoice
from pcsuite.runners.pipeline import Work, git_commit
from pcsuite.runners.plan import Plan, build_plan
from pcsuite.runners.registration import register
from pcsuite.runners.run_suite import LOCAL, record_plan, run_into

_LOGGER = logging.getLogger("pcsuite")
REACH = "reach"
"""Beginning of the name of the file that says whether the prompt's files reach the system."""
T = TypeVar("T")


def ablate(
    request: AblationRequest,
    *,
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    show: Callable[[Study], None] | None = None,
    tell: Callable[[NoiseForecast], None] | None = None,
) -> AblationResult:
    """Run an ablation, or go on with it, and judge it; ``show`` gets the study before anything is called, ``tell`` what
    the A/A arm says of its reach and price before the rest is asked (of one that has a budget, asks a target that
    varies, or has ``request.noise_first`` items).

    The same request goes on where an earlier run of its name ended; rows that are there are not asked again. A budget
    that runs out ends the calls, and what was answered is judged. Of several models and tables all are asked the same
    arms into one log; the result is that of the first, with the others beside it. Raises what
    :func:`pcsuite.ablation.study.prepare` and :func:`pcsuite.runners.run_suite.run_into` raise, and ``ConfigError``
    where the folder holds an ablation of another prompt, table or model.

        ablate(AblationRequest(Path("triage.md"), "tickets.csv", model="smollm2-135m")).trimmed
    """
    study = prepare(request)
    if show is not None:
        show(study)
    run = AblationRun.of(study, quiet=quiet, use_cache=use_cache, executor=executor, tell=tell)
    return run_blocking(run.run())


class AblationRun:
    """The phases of one ablation: each asks further arms, into one log, and is judged by the scores that came in."""

    log: RunLog

    def __init__(
        self,
        study: Study,
        plan: Plan,
        executor: Executor,
        *,
        quiet: bool,
        tell: Callable[[NoiseForecast], None] | None = None,
    ) -> None:
        self.study = study
        self.tell = tell
        self.plan = plan
        """The first plan: all items, and the arms that are asked before anything is judged."""
        self.suite = plan.suite
        self.executor = executor
        self.quiet = quiet
        self.cells = [Cell(one, plan, cells=len(study.each)) for one in study.each]
        self.stopped = ""
        self.stopping: BudgetExceededError | ErrorRateError | RunStoppedError | None = None
        self.asked = self.failed = 0

    @classmethod
    def of(
        cls,
        study: Study,
        *,
        quiet: bool,
        use_cache: bool,
        executor: ExecutorChoice,
        tell: Callable[[NoiseForecast], None] | None = None,
    ) -> Self:
        """A study that is ready to be asked, its files written; ``ConfigError`` where another one is in its folder."""
        note, fingerprint = study.folder / FINGERPRINT, study.fingerprint()
        text = note.read_text(encoding="utf-8").strip() if note.is_file() else ""
        noted = text.partition("\n")[0] or None
        if noted not in (None, fingerprint) and not study.request.overwrite:
            # One of which no call was ever answered (a wrong address, say) holds nothing, and is set aside.
            if len(ResumeIndex.read(study.log)):
                raise ConfigError(
                    f"{study.folder} holds an ablation of another {study.changed_since(text)}",
                    hint="give this one a name of its own with --name, or start anew with --overwrite",
                )
            study = replace(study, request=replace(study.request, overwrite=True))
        study.folder.mkdir(parents=True, exist_ok=True)
        # A kill while it is written must not leave the rows of this ablation without it.
        if noted != fingerprint:
            replace_atomically(note, study.note())
        if study.by_noise and (study.request.overwrite or not len(ResumeIndex.read(study.log))):
            note_replicates(study, None)
        study = as_noted(study)
        plan = build_plan(study.write(study.design.first))
        work = Work(plan, None, registered_perturbation, use_cache, git_commit(study.folder.resolve()))
        opened = EXECUTORS.get(executor.name)(work, executor, quiet=quiet)
        return cls(study, plan, opened, quiet=quiet, tell=tell)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """The log and what asks, open for the phases."""
        rows = SharedRows([cell.measured for cell in self.cells])
        async with self.executor:
            with (
                RunLog.of(
                    self.suite.profile.run, overwrite=self.study.request.overwrite, scores=rows
                ) as self.log,
                counting(self.log.paths.log, self.executor.budget, self.suite.profile.limits),
            ):
                yield

    async def run(self) -> AblationResult:
        """All phases, and what they say."""
        request = self.study.request
        async with self.opened():
            for cell in self.cells:
                await self._find_reach(cell)
            if request.until:
                await self._until_decided()
            else:
                await self._noise_first(self.study.count)
                await self._ask(self.plan)
                for cell in self.cells:
                    if cell.screens:
                        await self._split_groups(cell)
                    await self._shams(cell)
            for cell in self.cells:
                cell.pairs = await self._pairs(cell)
            trims: Sequence[Trim | None] = (await self._trim() or ()) if request.trim else ()
        results = [
            replace(
                judge_cell(cell, trim),
                stopped=self.stopped,
                too_many_failed=isinstance(self.stopping, ErrorRateError),
                asked=self.asked,
                failed=self.failed,
            )
            for cell, trim in zip(self.cells, trims or [None for _ in self.cells], strict=True)
        ]
        arms = [cell.measured.arms for cell in self.cells]
        return replace(
            results[0],
            beside=tuple(results[1:]),
            differences=model_differences(self.study.each, arms) if results[1:] else (),
        )

    async def _noise_first(self, most: int, block: str = "") -> None:
        """Ask the full prompt and the A/A arm on the first items, at most so many; decide by them how often every item
        is answered where that is open, and tell what they say of the rest.

        Both are part of the design, so that nothing is asked in addition.
        """
        study, first = self.study, min(self.study.noise_items, most)
        pair = [arm for arm in study.design.first if arm.id in (FULL, AGAIN)]
        if len(pair) < 2 or first < 2 or not (study.by_noise or first < study.count):
            return
        await self._ask(self._plan_of(pair, block, most=first))
        if self.stopped:
            return
        if study.by_noise and study.replicates is None:
            self._decide_replicates()
        if self.tell is None:
            return
        rest = self._rest(self.plan)
        for cell in self.cells:
            if (found := forecast_by_noise(cell.study, cell.measured.arms, rest)) is not None:
                self.tell(found)

    def _decide_replicates(self) -> None:
        """Let the A/A arm say how often every item is answered, as far as the budget goes; written down at once."""
        study = self.study
        found = decided(cell.measured.arms for cell in self.cells if cell.study.request.seeds is None)
        self._follow(with_replicates(study, found))
        if found.answers > 1 and not (rest := self._rest(self.plan)).affordable:
            found = replace(found, answers=1, over_budget=over_budget_words(study, rest))
            self._follow(with_replicates(study, found))
        note_replicates(self.study, found)

    def _follow(self, study: Study) -> None:
        """Go on with the study as it was decided; what was asked so far stays part of it."""
        self.study = study
        self.plan = build_plan(study.write(study.design.first))
        self.suite = self.plan.suite
        for cell, one in zip(self.cells, study.each, strict=True):
            cell.study, cell.plan = one, self.plan

    def _rest(self, plan: Plan) -> Rest:
        """What of a plan is still to be asked, and its price at that of what was."""
        units = (unit for name in plan.scope.models for unit in plan.units(name))
        left = sum(unit.run_id not in self.log.index for unit in units)
        return price_of_rest(self.study.request, self.log.paths.log, left)

    async def _find_reach(self, cell: Cell) -> None:
        """Find out whether the prompt's files reach a system that works in a folder; once for a study that goes on."""
        study, mode = cell.study, self.study.request.reach
        if mode == "off" or not study.model.provider_options().get("in_folder"):
            return
        note = study.folder / f"{REACH}{'' if len(self.cells) == 1 else f'-{self.cells.index(cell)}'}.json"
        known = digest([study.fingerprint(), mode])
        with suppress(OSError, ValueError, TypeError, KeyError):
            noted = json.loads(note.read_text(encoding="utf-8"))
            if noted["of"] == known:
                cell.reach = [Reach(**entry) for entry in noted["files"]]
        if not cell.reach:
            planned = next(
                c for c in self.plan.cells if c.model_id == study.model_id and c.task.id == study.task.id
            )
            context = planned.context(study.items[0], "none")
            async with open_models(
                self.suite, [study.model_id], use_cache=False, budget=self.executor.budget
            ) as session:

                async def ask(prompt: str) -> Generation:
                    request = Request(prompt, planned.decoding, context=context)
                    answer = await session.clients[study.model_id].ask(request)
                    if "workspace" in answer:
                        await asyncio.to_thread(answer["workspace"].drop)
                    return answer

                cell.reach = await check_reach(study.prompt, mode, study.model_id, ask)
            words = {"of": known, "files": [found.record() for found in cell.reach]}
            replace_atomically(note, json.dumps(words, ensure_ascii=False) + "\n")
        if line := unknown_line(cell.reach):
            _LOGGER.warning("%s", line)

    async def _until_decided(self) -> None:
        """Ask batches of items until every block is decided, then the controls on the items that were asked.

        With trimming it is at most the first part of the items, so that those that confirm were never looked at.
        """
        free = self.study.free
        left_out = {without(name, free).id: name for name in free}
        most = self.study.chosen_on if self.study.request.trim else self.study.count
        arms = [arm_of(free, free), *(without(name, free) for name in free)]
        plan = self._plan_of(arms, "", most=most)
        registered = register(plan, self.log)
        if self.study.by_noise:
            # What is registered stands before the first row, also where a kill ends the noise.
            record_plan(plan, self.log.paths.log, registered)
            await self._noise_first(most, "noise")
            plan = self._plan_of(arms, "", most=most)
        await self._ask(plan, registered)
        (cell,) = self.cells
        cell.broken_off = bool(self.stopped)
        for look in read_looks(self.log.paths.log):
            cell.looks[left_out[look.condition]] = look
            cell.visited = max(cell.visited, look.visited)
        helping = [name for name, look in cell.looks.items() if look.verdict == "worse"]
        names = [AGAIN, *(f"~{name}" for name in helping)]
        controls = [arm for arm in self.study.design.arms if arm.id in names]
        if controls and cell.visited:
            await self._ask(self._plan_of(controls, "controls", most=cell.visited))

    async def _split_groups(self, cell: Cell) -> None:
        """Ask the halves of groups that matter, and theirs, until nothing that matters is left to be split."""
        while not self.stopped:
            groups = groups_to_split(cell.judged_groups("groups"))
            arms = [self._arm_without(half) for group in groups for half in halves(group)]
            if not arms:
                return
            await self._ask(self._plan_of(arms, "groups", of=[cell]))

    def _arm_without(self, blocks: Iterable[str]) -> PromptArm:
        gone = set(blocks)
        free = self.study.free
        return arm_of([name for name in free if name not in gone], free)

    async def _shams(self, cell: Cell) -> None:
        """Ask the shams of the blocks that help or hurt: of no other block does a sham decide anything."""
        verdicts = (
            block_verdicts(cell.judged_groups("shams"), self.study.free)
            if cell.screens
            else cell.judged_blocks(named_rng("shams", self.study.request.run_name))
        )
        moved = [f"~{entry.block}" for entry in verdicts if entry.verdict in ("helps", "hurts")]
        shams = [arm for arm in self.study.design.arms if arm.id in moved]
        if shams and not self.stopped:
            await self._ask(self._plan_of(shams, "shams", of=[cell]))

    async def _ask(self, plan: Plan, registered: RegisteredPlan | None = None) -> None:
        """Make a plan's calls and count its rows; a used-up budget ends this and all later calls."""
        if not self.stopped:
            try:
                summary = await run_into(
                    self.log, plan, self.executor, quiet=self.quiet, registered=registered
                )
            except (BudgetExceededError, ErrorRateError, RunStoppedError) as error:
                self.stopped, self.stopping = str(error), error
            else:
                self.asked += summary.tally.done
                self.failed += summary.tally.failed
        self.log.sync()  # on the disk before it is judged
        for cell in self.cells:
            cell.measured.add(plan)
        answered = any(np.isfinite(cell.measured.scores[FULL]).any() for cell in self.cells)
        if isinstance(self.stopping, ErrorRateError) and not answered:
            raise self.stopping  # nothing was answered: a wrong key or address, and nothing to judge

    def _plan_of(
        self,
        arms: Sequence[PromptArm],
        block: str,
        *,
        skip: int = 0,
        most: int | None = None,
        of: Sequence[Cell] | None = None,
    ) -> Plan:
        """A plan of some arms on some of the items, of one table; new arms become conditions of the profile.

        ``of`` are the models and tables that are asked, by default all.
        """
        asked = self.cells if of is None else of
        known = {name for cell in self.cells for name in cell.arms}
        for cell in asked:
            cell.arms |= {arm.id: arm for arm in arms}
        if any(arm.id not in known for arm in arms):
            everything = {arm.id: arm for cell in self.cells for arm in cell.arms.values()}
            self.suite = self.study.extend(self.suite, everything.values())
        tables = {cell.study.task.id: self.plan.tasks[cell.study.task.id] for cell in asked}
        scope = replace(
            self.plan.scope,
            tasks=tuple(tables),
            models=tuple(dict.fromkeys(cell.study.model_id for cell in asked)),
            conditions=tuple(arm.id for arm in arms),
            max_items=most,
            skip_items=skip,
            block=block,
        )
        return build_plan(self.suite, scope=scope, tasks=tables)

    async def _pairs(self, cell: Cell) -> list[tuple[str, str]]:
        """Measure the pairs that look redundant and are not in the design; all that are measured."""
        free, scores = self.study.free, cell.measured.scores
        new = [
            arm
            for pair in suspect_pairs(scores, free)
            if (arm := _without_both(pair, free)).id not in cell.arms
        ]
        if new and not self.stopped:
            await self._ask(self._plan_of(new, "pairs", of=[cell]))
        if len(free) < 3:
            return []
        return [
            pair
            for pair in combinations(free, 2)
            if all(name in cell.arms for name in (_without_both(pair, free).id, *(f"-{one}" for one in pair)))
        ]

    async def _trim(self) -> list[Trim] | None:
        """Choose on the first part of the items, confirm on the other; on every model and table at once."""
        study, free = self.study, self.study.free
        margin = study.request.margin
        nothing = [Trim((), (), margin) for _ in self.cells]
        if any(cell.study.chosen_on >= cell.study.count for cell in self.cells):
            return nothing  # one cluster: no item is left that had no part in choosing
        if any(cell.looks for cell in self.cells):  # the confirming items have not been asked anything yet
            full_arm = [arm_of(free, free)]
            await self._ask(self._plan_of(full_arm, "trim-confirmation", skip=study.chosen_on))
        if any(cell.at_floor for cell in self.cells):
            return nothing
        first = [slice(0, cell.visited or cell.study.chosen_on) for cell in self.cells]
        other = [slice(cell.study.chosen_on, None) for cell in self.cells]
        units = (
            await self._units(first) if study.design.name == "groups" else {name: (name,) for name in free}
        )
        if units is None:
            return None
        sizes = {block.name: len(block.text) for block in study.prompt.blocks}
        lengths = {unit: sum(sizes[name] for name in blocks) for unit, blocks in units.items()}
        scores = [
            (
                cell.measured.scores[FULL][part],
                {
                    unit: cell.measured.scores[arm_without(blocks, free)][part]
                    for unit, blocks in units.items()
                },
            )
            for cell, part in zip(self.cells, first, strict=True)
        ]
        choosing = choose_drops(scores, margin=margin, tokens=lengths)
        chosen = await self._search(choosing, "trim-choice", first, units)
        confirming = confirm_drops(
            chosen or (),
            [of_items(cell.measured.arms[FULL], part) for cell, part in zip(self.cells, other, strict=True)],
            margin=margin,
            rng=named_rng("confirming", study.request.run_name, study.model_id),
            missing=study.request.missing_policy,
            assume=study.request.assume,
        )
        trims = await self._search(confirming, "trim-confirmation", other, units)
        return None if trims is None else [trim.of_blocks(units) for trim in trims]

    async def _units(self, parts: Sequence[slice]) -> dict[str, Group] | None:
        """What is dropped or kept as a whole, by name: groups of blocks, split where the first part of the items shows
        a loss, by those items alone; ``None`` where the budget ended before it was known.

        What the screening split was found out on all items: chosen by it, a prompt could not be confirmed on them.
        """
        free, margin = self.study.free, self.study.request.margin
        units: dict[str, Group] = {}
        (cell,), (part,) = self.cells, parts
        waiting: list[Group] = first_groups(free)
        while waiting:
            arms = [self._arm_without(group) for group in waiting]
            await self._ask(self._plan_of(arms, "trim-choice", most=part.stop, of=[cell]))
            if self.stopped:
                return None
            scores, further = cell.measured.scores, list[Group]()
            for group, arm in zip(waiting, arms, strict=True):
                loss = finite((scores[FULL] - scores[arm.id])[part])
                whole = len(group) == 1 or (len(loss) > 0 and float(loss.mean()) <= margin / 2)
                if whole:
                    units[group_name(group)] = group
                else:
                    further += halves(group)
            waiting = further
        return units

    async def _search(
        self,
        search: Generator[Asked, Sequence[ArmScores], T],
        block: str,
        parts: Sequence[slice],
        units: Mapping[str, Group],
    ) -> T | None:
        """Send a search the scores of each prompt that it asks for; ``None`` where the budget ended before it did.

        It names what is dropped as ``units`` does: blocks, or groups of them.
        """
        try:
            dropped = next(search)
            while not self.stopped:
                arm = trimmed_arm(self.study.prompt, [name for unit in dropped for name in units[unit]])
                for task_id in self.plan.tasks:  # tables may be parted at different items
                    asked = [cell for cell in self.cells if cell.study.task.id == task_id]
                    part = parts[self.cells.index(asked[0])]
                    skip, most = part.start or 0, part.stop
                    await self._ask(self._plan_of([arm], block, skip=skip, most=most, of=asked))
                dropped = search.send(
                    [
                        of_items(cell.measured.arms[arm.id], part)
                        for cell, part in zip(self.cells, parts, strict=True)
                    ]
                )
        except StopIteration as end:
            result: T = end.value
            return result
        return None


def _without_both(pair: tuple[str, str], free: Sequence[str]) -> PromptArm:
    return arm_of([name for name in free if name not in pair], free)
