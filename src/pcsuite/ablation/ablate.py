"""Running an ablation: the arms, then the pairs that look redundant, then the trimmed prompt; all rows in one log."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import numpy as np
from typing_extensions import Self

from pcsuite._util.files import replace_atomically
from pcsuite._util.hashing import digest, named_rng
from pcsuite._util.loops import run_blocking
from pcsuite.ablation.across import BlockDifference, model_differences
from pcsuite.ablation.adherence import Adherence, judge_adherence
from pcsuite.ablation.amounts import OF_MODELS, OF_SIMULATED, OF_TARGETS, AmountChange, judge_amounts
from pcsuite.ablation.arm_measures import MEASURES, ArmMeasures, SharedRows, of_items
from pcsuite.ablation.arms import AGAIN, FULL, PromptArm, arm_of, first_groups, halves, without
from pcsuite.ablation.forecast import NoiseForecast, forecast_by_noise
from pcsuite.ablation.reach import Reach, check_reach, unknown_line
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.savings import YearlySaving, yearly_savings
from pcsuite.ablation.screen import (
    Group,
    GroupVerdict,
    arm_without,
    block_verdicts,
    group_name,
    groups_to_split,
    judge_groups,
    most_arms,
)
from pcsuite.ablation.study import FINGERPRINT, SIMULATED, Study, prepare
from pcsuite.ablation.trim import Asked, Trim, choose_drops, confirm_drops
from pcsuite.ablation.verdicts import (
    BlockVerdict,
    Interaction,
    Scores,
    at_floor,
    beside_lenient,
    find_interactions,
    finite,
    judge_blocks,
    judge_looks,
    judge_noise,
    suspect_pairs,
)
from pcsuite.analysis.alarms import CONSTANT_ITEMS, CONSTANT_SHARE, SHARES
from pcsuite.analysis.judging import judges_of, read_gold
from pcsuite.analysis.load.item_scores import CLEAN, CellKey
from pcsuite.analysis.tables.judges import judge_status
from pcsuite.config.profile import MissingAnswers
from pcsuite.contrasts import ArmScores, cluster_codes, related_items
from pcsuite.engines.adapters.base import Generation, Request
from pcsuite.engines.session import open_models
from pcsuite.errors import (
    MISSING_OUTCOMES,
    BudgetExceededError,
    CallOutcome,
    ConfigError,
    ErrorRateError,
    RunStoppedError,
)
from pcsuite.logging.ledger import counting
from pcsuite.logging.log import ResumeIndex, RunLog, ScoredRow
from pcsuite.logging.looks import Look, read_looks
from pcsuite.logging.manifest import RegisteredPlan
from pcsuite.runners.edits import registered_perturbation
from pcsuite.runners.executors import EXECUTORS, Executor, ExecutorChoice
from pcsuite.runners.pipeline import Work, git_commit
from pcsuite.runners.plan import Plan, build_plan
from pcsuite.runners.registration import register
from pcsuite.runners.run_suite import LOCAL, plan_manifest, run_into
from pcsuite.stats.attribution import OperatorEffect, attribute
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.covariates import AdjustedMean
from pcsuite.stats.effect_sizes import paired_t_interval
from pcsuite.stats.estimate import Estimate, IntArray, undefined
from pcsuite.stats.prediction_powered import PredictionPowered

_LOGGER = logging.getLogger("pcsuite")
REACH = "reach"
"""Beginning of the name of the file that says whether the prompt's files reach the system."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm's figures over all its items."""

    id: str
    operators: tuple[str, ...]
    items: int
    score: float
    measures: Mapping[str, float]
    outcomes: Mapping[CallOutcome, int] = field(default_factory=dict)
    """What became of its calls, by outcome; see ``docs/reference/scoring.md``."""
    ambiguous: int = 0
    """Answers that can be read in two ways."""

    @property
    def missing(self) -> int:
        """Calls whose answer is missing: they failed, or timed out, on the way."""
        return sum(count for outcome, count in self.outcomes.items() if outcome in MISSING_OUTCOMES)

    @property
    def unanswered(self) -> Mapping[CallOutcome, int]:
        """Outcomes other than an answer, missing ones too."""
        return {outcome: count for outcome, count in self.outcomes.items() if outcome != "answered"}


@dataclass(frozen=True)
class AblationResult:
    """What an ablation found."""

    study: Study
    items: int
    """Items that every arm answered."""
    clusters: int
    """Clusters of these items; as many as items where no two are related."""
    arms: Sequence[ArmSummary]
    verdicts: Sequence[BlockVerdict]
    measures: Mapping[str, Mapping[str, Estimate]]
    """By block: what having it changes in each of :data:`MEASURES`."""
    flips: Mapping[str, tuple[Sequence[str], Sequence[str]]]
    """By block: items that are right only with it, and only without it."""
    attribution: Sequence[OperatorEffect]
    """Each block's effect by every method that the arms identify: left out, alone, on average, Shapley value."""
    interactions: Sequence[Interaction]
    pairs_measured: int
    noise: Estimate | None
    """A/A: the full prompt again less the full prompt."""
    noise_p: float | None
    noise_flips: float | None
    trim: Trim | None
    block_tokens: Mapping[str, int]
    trimmed: str
    """The trimmed prompt, or the prompt itself."""
    trimmed_files: Mapping[str, bytes | None]
    """Of a prompt of files: each trimmed file by its path, ``None`` for one of which nothing is left."""
    saved_tokens: float
    saved_usd: float
    """Saved by the trimmed prompt per 1,000 calls, measured on the confirming items."""
    amounts: Sequence[AmountChange] = ()
    """What leaving out each block, or group of blocks, changes in steps, tokens, money and time."""
    alarms: Sequence[str] = ()
    """What is wrong with the full prompt's answers: unreadable, cut off, nearly constant."""
    stopped: str = ""
    """Why the run ended before all calls were made."""
    too_many_failed: bool = False
    """Whether that was because too many calls failed; else the budget was used up."""
    adjusted: Mapping[str, AdjustedMean] = field(default_factory=dict)
    """With a covariate: effects of blocks and groups with it taken off, by name."""
    judge: str = ""
    """Of a judged task: what is known of its judge, in a sentence."""
    groups: Sequence[GroupVerdict] = ()
    """Of a screening: every group of blocks that was left out, each before those within it. :attr:`measures` and
    :attr:`flips` have them by their names too."""
    adherence: Sequence[Adherence] = ()
    """Of blocks with a check of their own: how often answers follow them, with the block and without it."""
    reach: Sequence[Reach] = ()
    """Of files put into a folder: whether they reached the system."""
    yearly: Sequence[YearlySaving] = ()
    """What leaving blocks out saves in a year, where a number of calls was given and their cost is known."""
    beside: Sequence[AblationResult] = ()
    """What the same ablation found on further models and tables."""
    differences: Sequence[BlockDifference] = ()
    """Of several models: what each block is worth on a later one less what it is worth on the first."""
    asked: int = 0
    """Rows that this call of :func:`ablate` made: none of what the log had before."""
    failed: int = 0
    """Those of them that failed."""

    @property
    def log(self) -> Path:
        """The log of the run."""
        return self.study.log

    @property
    def each(self) -> tuple[AblationResult, ...]:
        """This result and those beside it, one a model and table."""
        return (self, *self.beside)


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
    the A/A arm says of its reach and price before the rest is asked (of one that has a budget, or
    ``request.noise_first`` items).

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


class _Cell:
    """One model and table of an ablation: what was asked of it, and the scores that came in."""

    def __init__(self, study: Study, plan: Plan) -> None:
        self.study = study
        self.measured = ArmMeasures(plan, study.task.id, study.model_id)
        self.arms = {arm.id: arm for arm in study.design.first}
        self.pairs: list[tuple[str, str]] = []
        self.reach: Sequence[Reach] = ()

    @property
    def at_floor(self) -> bool:
        return bool(at_floor(self.measured.scores[FULL], self.study.request.margin))


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
        self.cells = [_Cell(one, plan) for one in study.each]
        self.stopped = ""
        self.stopping: BudgetExceededError | ErrorRateError | RunStoppedError | None = None
        self.looks: dict[str, Look] = {}
        """By block: the last look at the prompt without it, where the ablation runs until decided."""
        self.visited = 0
        """Items that were asked until then."""
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
        noted = note.read_text(encoding="utf-8").strip() if note.is_file() else None
        if noted not in (None, fingerprint) and not study.request.overwrite:
            # One of which no call was ever answered (a wrong address, say) holds nothing, and is set aside.
            if len(ResumeIndex.read(study.log)):
                raise ConfigError(
                    f"{study.folder} holds an ablation of another prompt, split, table, model or scorer",
                    hint="give this one a name of its own with --name, or start anew with --overwrite",
                )
            study = replace(study, request=replace(study.request, overwrite=True))
        study.folder.mkdir(parents=True, exist_ok=True)
        # A kill while it is written must not leave the rows of this ablation without it.
        if noted != fingerprint:
            replace_atomically(note, fingerprint + "\n")
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
                await self._noise_first()
                await self._ask(self.plan)
                for cell in self.cells:
                    if self._screens:
                        await self._split_groups(cell)
                    await self._shams(cell)
            for cell in self.cells:
                cell.pairs = await self._pairs(cell)
            trims = await self._trim() if request.trim else None
        results = [
            self._judge(cell, None if trims is None else trims[index])
            for index, cell in enumerate(self.cells)
        ]
        arms = [cell.measured.arms for cell in self.cells]
        return replace(
            results[0],
            beside=tuple(results[1:]),
            differences=model_differences(self.study.each, arms) if results[1:] else (),
        )

    async def _noise_first(self) -> None:
        """Ask the full prompt and the A/A arm on the first items, and tell what these say of the rest.

        Both are part of the design, so that nothing is asked in addition.
        """
        study, first = self.study, self.study.noise_items
        pair = [arm for arm in study.design.first if arm.id in (FULL, AGAIN)]
        if len(pair) < 2 or not 2 <= first < study.count:
            return
        await self._ask(self._plan_of(pair, "", most=first))
        if self.stopped:
            return
        units = (unit for name in self.plan.scope.models for unit in self.plan.units(name))
        left = sum(unit.run_id not in self.log.index for unit in units)
        for cell in self.cells:
            found = forecast_by_noise(cell.study, cell.measured.arms, self.log.paths.log, left)
            if found is not None and self.tell is not None:
                self.tell(found)

    async def _find_reach(self, cell: _Cell) -> None:
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
        plan = self._plan_of([arm_of(free, free), *(without(name, free) for name in free)], "", most=most)
        await self._ask(plan, register(plan, self.log))
        for look in read_looks(self.log.paths.log):
            self.looks[left_out[look.condition]] = look
            self.visited = max(self.visited, look.visited)
        helping = [name for name in free if name in self.looks and self.looks[name].verdict == "worse"]
        names = [AGAIN, *(f"~{name}" for name in helping)]
        controls = [arm for arm in self.study.design.arms if arm.id in names]
        if controls and self.visited:
            await self._ask(self._plan_of(controls, "controls", most=self.visited))

    @property
    def _screens(self) -> bool:
        """Whether groups of blocks are left out, and only those that matter are split."""
        return self.study.design.name == "groups"

    def _judge_groups(self, cell: _Cell, purpose: str, *, lenient: bool = False) -> list[GroupVerdict]:
        request = self.study.request
        return judge_groups(
            cell.measured.lenient if lenient else cell.measured.arms,
            self.study.free,
            margin=request.margin,
            rng=named_rng(purpose, request.run_name, cell.study.model_id),
            missing=self._missing,
            assume=request.assume,
        )

    async def _split_groups(self, cell: _Cell) -> None:
        """Ask the halves of groups that matter, and theirs, until nothing that matters is left to be split."""
        while not self.stopped:
            groups = groups_to_split(self._judge_groups(cell, "groups"))
            arms = [self._arm_without(half) for group in groups for half in halves(group)]
            if not arms:
                return
            await self._ask(self._plan_of(arms, "groups", of=[cell]))

    def _arm_without(self, blocks: Iterable[str]) -> PromptArm:
        gone = set(blocks)
        free = self.study.free
        return arm_of([name for name in free if name not in gone], free)

    async def _shams(self, cell: _Cell) -> None:
        """Ask the shams of the blocks that help or hurt: of no other block does a sham decide anything."""
        verdicts = (
            block_verdicts(self._judge_groups(cell, "shams"), self.study.free)
            if self._screens
            else judge_blocks(
                cell.measured.arms,
                self.study.free,
                margin=self.study.request.margin,
                rng=named_rng("shams", self.study.request.run_name),
                powered=self._powered(cell),
                missing=self._missing,
                assume=self.study.request.assume,
                comparisons=self._comparisons,
            )
        )
        moved = [f"~{entry.block}" for entry in verdicts if entry.verdict in ("helps", "hurts")]
        shams = [arm for arm in self.study.design.arms if arm.id in moved]
        if shams and not self.stopped:
            await self._ask(self._plan_of(shams, "shams", of=[cell]))

    @property
    def _comparisons(self) -> int | None:
        """Verdicts that share the 5 %: those on every block, on every model and table where there are several."""
        return len(self.study.free) * len(self.cells) if len(self.cells) > 1 else None

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
        of: Sequence[_Cell] | None = None,
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

    async def _pairs(self, cell: _Cell) -> list[tuple[str, str]]:
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
        if self.looks:  # the confirming items have not been asked anything yet
            full_arm = [arm_of(free, free)]
            await self._ask(self._plan_of(full_arm, "trim-confirmation", skip=study.chosen_on))
        if any(cell.at_floor for cell in self.cells):
            return nothing
        first = [slice(0, self.visited or cell.study.chosen_on) for cell in self.cells]
        other = [slice(cell.study.chosen_on, None) for cell in self.cells]
        units = await self._units(first) if self._screens else {name: (name,) for name in free}
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
            missing=self._missing,
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
                arm = self._arm_without(name for unit in dropped for name in units[unit])
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

    @property
    def _missing(self) -> MissingAnswers:
        return self.study.request.missing or "bound"

    def _powered(self, cell: _Cell) -> dict[str, PredictionPowered]:
        """By block: its effect corrected by the gold labels beside the log, where the scores are a judge's."""
        task = self.plan.tasks[cell.study.task.id]
        if task.spec.judge is None:
            return {}
        gold = read_gold([self.study.log])
        key = partial(CellKey, task.id, cell.study.model_id, self.plan.cells[0].decoding.id, CLEAN)
        effects = {name: gold.contrast({key(FULL): 1.0, key(f"-{name}"): -1.0}) for name in self.study.free}
        return {name: effect for name, effect in effects.items() if effect is not None}

    def _judge_note(self, cell: _Cell) -> str:
        """What is known of the judge, in a sentence; empty where the task has none."""
        if cell.study.task.spec.judge is None:
            return ""
        return judge_status([self.study.log], judges_of(plan_manifest(self.plan))).note()

    def _read_leniently(self, cell: _Cell, verdicts: list[BlockVerdict]) -> list[BlockVerdict]:
        """The verdicts with what the lenient rules say of the same answers.

        As they are where a judge scores, whose word has one reading, or where an arm has no lenient scores. Of a run
        until decided the items are those that were asked: stopping was decided by the strict scores, and what is said
        of the lenient ones can only take a claim back.
        """
        free, request = self.study.free, cell.study.request
        asked = slice(self.visited) if request.until else slice(None)
        needed = [FULL, *(without(name, free).id for name in free)]
        if self._screens:
            return verdicts  # told of the groups, which are judged under both readings
        if cell.study.task.spec.judge is not None or not all(
            name in cell.measured.lenient for name in needed
        ):
            return verdicts
        strict, lenient = (
            {name: of_items(arm, asked) for name, arm in arms.items()}
            for arms in (cell.measured.arms, cell.measured.lenient)
        )
        if all(np.array_equal(strict[name].values, lenient[name].values, equal_nan=True) for name in lenient):
            return beside_lenient(verdicts, verdicts)  # every answer is read alike
        rng = named_rng("lenient", request.run_name, cell.study.model_id)
        judged = judge_blocks(
            lenient,
            free,
            margin=request.margin,
            rng=rng,
            missing=self._missing,
            assume=request.assume,
            comparisons=self._comparisons,
        )
        return beside_lenient(verdicts, judged)

    def _amounts(
        self, cell: _Cell, left_out: Mapping[str, str], comparisons: int | None
    ) -> list[AmountChange]:
        """What blocks and groups change in what an answer takes.

        Nothing where arms stop when they are decided: the items that they were asked are chosen by their scores.
        """
        study = cell.study
        if study.request.until:
            return []
        names = OF_TARGETS if study.asks_target else OF_MODELS
        return judge_amounts(
            cell.measured.amounts,
            {name: arm for name, arm in left_out.items() if arm in cell.measured.arms},
            OF_SIMULATED if study.model.provider == SIMULATED else names,
            rng=named_rng("amounts", study.request.run_name, study.model_id),
            missing=self._missing,
            comparisons=comparisons,
        )

    def _groups_beside_lenient(self, cell: _Cell) -> list[GroupVerdict]:
        """The verdicts on groups with what the lenient rules say of the same answers, where they can be had."""
        groups = self._judge_groups(cell, "ablation")
        lenient = cell.measured.lenient
        asked = [FULL, *(arm_without(entry.blocks, self.study.free) for entry in groups)]
        if cell.study.task.spec.judge is not None or not all(name in lenient for name in asked):
            return groups
        other = {entry.name: entry.verdict for entry in self._judge_groups(cell, "lenient", lenient=True)}
        strict = [entry.verdict for entry in groups]
        told = beside_lenient(strict, [other[entry.block] for entry in strict])
        return [replace(entry, verdict=verdict) for entry, verdict in zip(groups, told, strict=True)]

    def _judge(self, cell: _Cell, trim: Trim | None) -> AblationResult:
        """Everything that is said of one model and table, from the rows alone."""
        study, request, free, pairs = cell.study, cell.study.request, self.study.free, cell.pairs
        rng = named_rng("ablation", request.run_name, study.model_id)
        table, scores = cell.measured.by_measure, cell.measured.scores
        arms = cell.measured.arms
        groups: list[GroupVerdict] = []
        if self._screens:
            groups = self._groups_beside_lenient(cell)
            verdicts = block_verdicts(groups, free)
        elif request.until:
            asked = {name: of_items(arm, slice(self.visited)) for name, arm in arms.items()}
            verdicts = judge_looks(self.looks, free, asked, request.margin)
        else:
            verdicts = judge_blocks(
                arms,
                free,
                margin=request.margin,
                rng=rng,
                powered=self._powered(cell),
                missing=self._missing,
                assume=request.assume,
                comparisons=self._comparisons,
            )
        verdicts = self._read_leniently(cell, verdicts)
        interactions = find_interactions(arms, free, pairs, rng=rng)
        noise, noise_p, flips = judge_noise(arms, rng=rng)
        dropped = trim.dropped if trim is not None else ()
        kept = [block.name for block in study.prompt.blocks if block.name not in dropped]
        saved_tokens = saved_usd = 0.0
        if dropped:
            arm = arm_of([name for name in free if name not in dropped], free).id
            saved_tokens, saved_usd = (
                scale * _mean(table[name][FULL] - table[name][arm])
                for name, scale in ((study.token_measure, 1000), ("cost_usd", 1))
            )
        items = self.plan.tasks[study.task.id].items
        names = [item.item_id for item in items]
        clusters = cluster_codes([item.cluster for item in items])
        complete = np.all([np.isfinite(scores[arm.id]) for arm in study.design.first], axis=0)
        nothing = np.full(len(items), np.nan)
        left_out = {name: arm_without([name], free) for name in free}
        left_out |= {entry.name: arm_without(entry.blocks, free) for entry in groups}
        if request.until:
            complete = np.arange(len(items)) < self.visited
        measures = {
            name: {
                measure: _interval(table[measure][FULL] - table[measure].get(arm, nothing), clusters)
                for measure in MEASURES
            }
            for name, arm in left_out.items()
        }
        return AblationResult(
            study=study,
            items=int(complete.sum()),
            clusters=len({items[n].cluster for n in np.flatnonzero(complete).tolist()}),
            arms=[
                ArmSummary(
                    arm.id,
                    tuple(arm.operators(study.prompt)),
                    int(np.isfinite(scores[arm.id]).sum()),
                    _mean(scores[arm.id]),
                    {name: _mean(table[name][arm.id]) for name in MEASURES},
                    cell.measured.outcomes(arm.id),
                    cell.measured.ambiguous(arm.id),
                )
                for arm in cell.arms.values()
            ],
            verdicts=verdicts,
            measures=measures,
            flips={
                name: _flipped(scores[FULL], scores.get(arm, nothing), names)
                for name, arm in left_out.items()
            },
            groups=groups,
            adjusted={}
            if study.covariate is None
            else study.covariate.adjusted(
                scores,
                {name: arm for name, arm in left_out.items() if arm in scores},
                names,
                [item.cluster for item in items],
            ),
            attribution=_attribution(scores, cell.arms.values(), clusters, rng),
            interactions=interactions,
            pairs_measured=len(pairs),
            noise=noise,
            noise_p=noise_p,
            noise_flips=flips,
            trim=trim,
            block_tokens=_block_tokens(table["prompt_tokens"], study),
            trimmed=study.prompt.written(kept if dropped else None),
            trimmed_files=study.prompt.files(kept if dropped else None),
            saved_tokens=saved_tokens,
            saved_usd=saved_usd,
            amounts=self._amounts(cell, left_out, most_arms(free) if groups else self._comparisons),
            alarms=_alarms(cell.measured.rows(FULL), by_words=not study.task.spec.checks),
            stopped=self.stopped,
            too_many_failed=isinstance(self.stopping, ErrorRateError),
            judge=self._judge_note(cell),
            adherence=judge_adherence(
                request.block_checks,
                {block: cell.measured.checked(block) for block in request.block_checks},
                free,
                margin=request.margin,
                rng=named_rng("adherence", request.run_name, study.model_id),
                missing=self._missing,
                comparisons=len(request.block_checks) * len(self.cells),
                tested=not request.until,
            ),
            reach=cell.reach,
            yearly=yearly_savings(
                request.calls_per_day,
                verdicts,
                {name: measures[name]["cost_usd"] for name in free},
                saved_usd if dropped and np.isfinite(table["cost_usd"][FULL]).any() else None,
            )
            if request.calls_per_day
            else (),
            asked=self.asked,
            failed=self.failed,
        )


def _alarms(rows: Sequence[ScoredRow], *, by_words: bool) -> list[str]:
    """What a reader must know of an arm's answers, by the thresholds of :mod:`pcsuite.analysis.alarms`.

    Of answers that are not judged ``by_words``, but by what was done in a folder, it is no alarm that all say the same.
    """
    answered = [row for row in rows if not row.errors and row.generation is not None]
    if not answered:
        return []
    counts = Counter(row.parsed.answer for row in answered if row.parsed is not None and row.parsed.answer)
    readable, total = counts.total(), len(answered)
    cut = sum(row.generation is not None and row.generation.finish_reason == "length" for row in answered)
    alarms = []
    if (total - readable) / total >= SHARES["unreadable"][0]:
        empty = sum(row.generation is not None and not row.generation.text.strip() for row in answered)
        why = "are empty" if empty == total - readable else "could not be read"
        also = f" ({empty} are empty)" if 0 < empty < total - readable else ""
        alarms.append(f"{total - readable} of {total} answers to the full prompt {why} and score 0{also}.")
    if cut / total >= SHARES["truncated"][0]:
        alarms.append(f"{cut} of {total} answers to the full prompt were cut off at the token limit.")
    answer, times = counts.most_common(1)[0] if counts else ("", 0)
    if by_words and readable >= CONSTANT_ITEMS and times / readable >= CONSTANT_SHARE:
        alarms.append(
            f"Nearly constant: the full prompt is answered “{answer[:60]}” for {times} of {total} items."
        )
    return alarms


def _attribution(
    scores: Mapping[str, Scores], arms: Iterable[PromptArm], clusters: IntArray, rng: np.random.Generator
) -> list[OperatorEffect]:
    """Effects by other methods than leaving a block out, on the items that every arm answered."""
    # Arms that were asked on one part of the items only (while trimming) have no place in it.
    complete = [
        arm for arm in arms if arm.kind in ("full", "blocks") and np.isfinite(scores[arm.id]).mean() > 0.9
    ]
    if len(complete) < 2:
        return []
    values = np.column_stack([scores[arm.id] for arm in complete])
    answered = np.isfinite(values).all(axis=1)
    values, related = values[answered], related_items(clusters[answered])
    if len(values) < 2:
        return []
    effects = attribute(values, [sorted(arm.kept) for arm in complete], rng=rng, clusters=related)
    return [effect for effect in effects if effect.method != "leave-one-out"]


def _without_both(pair: tuple[str, str], free: Sequence[str]) -> PromptArm:
    return arm_of([name for name in free if name not in pair], free)


def _mean(values: Scores) -> float:
    known = finite(values)
    return float(known.mean()) if len(known) else math.nan


def _interval(values: Scores, clusters: IntArray) -> Estimate:
    """Limits of what a block changes in a measure that nothing is claimed of, by cluster where items are related."""
    has_value = np.isfinite(values)
    known, related = values[has_value], related_items(clusters[has_value])
    if len(known) < 2:
        return undefined("fewer than two items", len(known))
    return paired_t_interval(known) if related is None else cluster_interval(known, related)


def _flipped(full: Scores, other: Scores, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Items that score higher with the block, and those that score higher without it."""
    with np.errstate(invalid="ignore"):
        return (
            [names[i] for i in np.flatnonzero(full > other).tolist()],
            [names[i] for i in np.flatnonzero(full < other).tolist()],
        )


def _block_tokens(tokens: Mapping[str, Scores], study: Study) -> dict[str, int]:
    """Tokens of each block by the model's own count where the server reports one, else about four characters each."""
    counted = {}
    for block in study.prompt.blocks:
        guess = math.ceil(len(block.text) / 4)
        measured = math.nan
        arm = without(block.name, study.free).id if block.name in study.free else ""
        if arm in tokens:
            measured = _mean(tokens[FULL] - tokens[arm])
        counted[block.name] = round(measured) if math.isfinite(measured) and measured > 0 else guess
    return counted
