"""From the rows of one model and table to what is said of it: a :class:`Cell`, and :func:`judge_cell`.

Nothing is called here. The phases of :mod:`pcsuite.ablation.ablate` ask a cell what its scores say so far, to decide
what is asked next; in the end :func:`judge_cell` says everything at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite._util.text import commonest
from pcsuite.ablation.adherence import judge_adherence
from pcsuite.ablation.amounts import OF_MODELS, OF_SIMULATED, OF_TARGETS, AmountChange, judge_amounts
from pcsuite.ablation.arm_measures import MEASURES, ArmMeasures, of_items
from pcsuite.ablation.arms import FULL, PromptArm, trimmed_arm, without
from pcsuite.ablation.named_scores import NamedScoreEffects, judge_named
from pcsuite.ablation.reach import Reach
from pcsuite.ablation.reading import SIMULATED
from pcsuite.ablation.result import AblationResult, ArmSummary
from pcsuite.ablation.savings import yearly_savings
from pcsuite.ablation.screen import GroupVerdict, arm_without, block_verdicts, judge_groups, most_arms
from pcsuite.ablation.study import Study
from pcsuite.ablation.trim import Trim
from pcsuite.ablation.verdicts import (
    BROKEN_OFF,
    RAN_OUT,
    BlockVerdict,
    Scores,
    at_floor,
    beside_lenient,
    find_interactions,
    finite,
    judge_blocks,
    judge_looks,
    judge_noise,
)
from pcsuite.analysis.alarms import CONSTANT_ITEMS, CONSTANT_SHARE, SHARES
from pcsuite.analysis.judging import judges_of, read_gold
from pcsuite.analysis.load.item_scores import CLEAN, CellKey
from pcsuite.analysis.tables.judges import judge_status
from pcsuite.contrasts import cluster_codes, related_items
from pcsuite.logging.looks import Look
from pcsuite.logging.scored_rows import ScoredRow
from pcsuite.runners.plan import Plan
from pcsuite.runners.run_suite import plan_manifest
from pcsuite.stats.attribution import OperatorEffect, attribute
from pcsuite.stats.clustered import cluster_interval
from pcsuite.stats.effect_sizes import paired_t_interval
from pcsuite.stats.estimate import Estimate, IntArray, undefined
from pcsuite.stats.prediction_powered import PredictionPowered


class Cell:
    """One model and table of an ablation: what was asked of it, and the scores that came in."""

    def __init__(self, study: Study, plan: Plan, *, cells: int = 1) -> None:
        """``plan`` is that of all ``cells`` of the ablation, whose verdicts share the 5 %."""
        self.study = study
        self.plan = plan
        self.cells = cells
        self.measured = ArmMeasures(plan, study.task.id, study.model_id)
        self.arms = {arm.id: arm for arm in study.design.first}
        self.pairs: list[tuple[str, str]] = []
        """Pairs of blocks of which the prompt without both was measured."""
        self.reach: Sequence[Reach] = ()
        self.looks: dict[str, Look] = {}
        """By block: the last look at the prompt without it, where the ablation runs until decided."""
        self.visited = 0
        """Items that were asked until then."""
        self.broken_off = False
        """Whether the calls ended before the blocks were decided and before the items ran out."""

    @property
    def at_floor(self) -> bool:
        """Whether the full prompt's own score lies within the margin of 0, so that nothing could get worse by it."""
        return bool(at_floor(self.measured.scores[FULL], self.study.request.margin))

    @property
    def screens(self) -> bool:
        """Whether groups of blocks are left out, and only those that matter are split."""
        return self.study.design.name == "groups"

    @property
    def comparisons(self) -> int | None:
        """Verdicts that share the 5 %: those on every block, on every model and table where there are several."""
        return len(self.study.free) * self.cells if self.cells > 1 else None

    @property
    def has_judge(self) -> bool:
        """Whether the scores are a judge's."""
        return self.study.task.spec.judge is not None

    def judged_blocks(self, rng: np.random.Generator) -> list[BlockVerdict]:
        """The verdict on each block by the scores so far, corrected by the gold labels beside the log where there are
        any."""
        request = self.study.request
        return judge_blocks(
            self.measured.arms,
            self.study.free,
            margin=request.margin,
            rng=rng,
            powered=self._powered(),
            missing=request.missing_policy,
            assume=request.assume,
            comparisons=self.comparisons,
        )

    def judged_groups(self, purpose: str, *, lenient: bool = False) -> list[GroupVerdict]:
        """Of a screening: the verdict on each group by the scores so far, or by those under the lenient rules.

        ``purpose`` names the generator, so that what one phase draws never depends on another.
        """
        request = self.study.request
        return judge_groups(
            self.measured.lenient if lenient else self.measured.arms,
            self.study.free,
            margin=request.margin,
            rng=named_rng(purpose, request.run_name, self.study.model_id),
            missing=request.missing_policy,
            assume=request.assume,
        )

    def _powered(self) -> dict[str, PredictionPowered]:
        """By block: its effect corrected by the gold labels beside the log, where the scores are a judge's."""
        if not self.has_judge:
            return {}
        study = self.study
        gold = read_gold([study.log])
        key = partial(CellKey, study.task.id, study.model_id, self.plan.cells[0].decoding.id, CLEAN)
        effects = {name: gold.contrast({key(FULL): 1.0, key(f"-{name}"): -1.0}) for name in study.free}
        return {name: effect for name, effect in effects.items() if effect is not None}


def judge_cell(cell: Cell, trim: Trim | None) -> AblationResult:
    """Everything that is said of one model and table, from its rows alone; ``trim`` is what was found to be droppable.

    The result does not say how the run went (``stopped``, ``asked``, ``failed``): that is no matter of a cell.
    """
    study, request, free = cell.study, cell.study.request, cell.study.free
    rng = named_rng("ablation", request.run_name, study.model_id)
    by_measure, scores, arms = cell.measured.by_measure, cell.measured.scores, cell.measured.arms
    groups: list[GroupVerdict] = []
    if cell.screens:
        groups = _groups_beside_lenient(cell)
        verdicts = block_verdicts(groups, free)  # what is read leniently is told of the groups
    elif request.until:
        asked = {name: of_items(arm, slice(cell.visited)) for name, arm in arms.items()}
        verdicts = _blocks_beside_lenient(
            cell,
            judge_looks(cell.looks, free, asked, request.margin, BROKEN_OFF if cell.broken_off else RAN_OUT),
        )
    else:
        verdicts = _blocks_beside_lenient(cell, cell.judged_blocks(rng))
    interactions = find_interactions(arms, free, cell.pairs, rng=rng)
    noise, noise_p, noise_flips = judge_noise(arms, rng=rng)
    dropped = trim.dropped if trim is not None else ()
    gone = {*dropped, *study.prompt.emptied(dropped)}
    kept = [block.name for block in study.prompt.blocks if block.name not in gone] if dropped else None
    saved_tokens, saved_usd = _saved(cell, dropped)
    items = cell.plan.tasks[study.task.id].items
    names = [item.item_id for item in items]
    clusters = cluster_codes([item.cluster for item in items])
    complete = np.all([np.isfinite(scores[arm.id]) for arm in study.design.first], axis=0)
    if request.until:
        complete = np.arange(len(items)) < cell.visited
    left_out = {name: arm_without([name], free) for name in free}
    left_out |= {entry.name: arm_without(entry.blocks, free) for entry in groups}
    nothing = np.full(len(items), np.nan)
    measures = {
        name: {
            measure: _interval(by_measure[measure][FULL] - by_measure[measure].get(arm, nothing), clusters)
            for measure in MEASURES
        }
        for name, arm in left_out.items()
    }
    return AblationResult(
        study=study,
        items=int(complete.sum()),
        clusters=len({items[n].cluster for n in np.flatnonzero(complete).tolist()}),
        arms=[_summary(cell, arm) for arm in cell.arms.values()],
        verdicts=verdicts,
        measures=measures,
        flips={
            name: _flipped(scores[FULL], scores.get(arm, nothing), names) for name, arm in left_out.items()
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
        pairs_measured=len(cell.pairs),
        noise=noise,
        noise_p=noise_p,
        noise_flips=noise_flips,
        trim=trim,
        block_tokens=_block_tokens(by_measure["prompt_tokens"], study),
        trimmed=study.prompt.written(kept),
        trimmed_files=study.prompt.files(kept),
        saved_tokens=saved_tokens,
        saved_usd=saved_usd,
        amounts=_amounts(cell, left_out, most_arms(free) if groups else cell.comparisons),
        alarms=answer_alarms(cell.measured.rows(FULL), by_words=not study.task.spec.checks),
        judge=judge_status([study.log], judges_of(plan_manifest(cell.plan))).note() if cell.has_judge else "",
        adherence=judge_adherence(
            request.block_checks,
            {block: cell.measured.checked(block) for block in request.block_checks},
            free,
            margin=request.margin,
            rng=named_rng("adherence", request.run_name, study.model_id),
            missing=request.missing_policy,
            comparisons=len(request.block_checks) * cell.cells,
            tested=not request.until,
        ),
        named=_named_scores(cell),
        failure=commonest(
            row.errors[0] for arm in cell.arms for row in cell.measured.rows(arm) if row.errors
        ),
        reach=cell.reach,
        yearly=yearly_savings(
            request.calls_per_day,
            verdicts,
            {name: measures[name]["cost_usd"] for name in free},
            saved_usd if dropped and np.isfinite(by_measure["cost_usd"][FULL]).any() else None,
        )
        if request.calls_per_day
        else (),
    )


def _blocks_beside_lenient(cell: Cell, verdicts: list[BlockVerdict]) -> list[BlockVerdict]:
    """The verdicts with what the lenient rules say of the same answers.

    As they are where a judge scores, whose word has one reading, or where an arm has no lenient scores. Of a run until
    decided the items are those that were asked: stopping was decided by the strict scores, and what is said of the
    lenient ones can only take a claim back.
    """
    free, request = cell.study.free, cell.study.request
    needed = [FULL, *(without(name, free).id for name in free)]
    if cell.has_judge or not all(name in cell.measured.lenient for name in needed):
        return verdicts
    asked = slice(cell.visited) if request.until else slice(None)
    strict, lenient = (
        {name: of_items(arm, asked) for name, arm in arms.items()}
        for arms in (cell.measured.arms, cell.measured.lenient)
    )
    if all(np.array_equal(strict[name].values, lenient[name].values, equal_nan=True) for name in lenient):
        return beside_lenient(verdicts, verdicts)  # every answer is read alike
    judged = judge_blocks(
        lenient,
        free,
        margin=request.margin,
        rng=named_rng("lenient", request.run_name, cell.study.model_id),
        missing=request.missing_policy,
        assume=request.assume,
        comparisons=cell.comparisons,
    )
    return beside_lenient(verdicts, judged)


def _groups_beside_lenient(cell: Cell) -> list[GroupVerdict]:
    """The verdicts on groups with what the lenient rules say of the same answers, where they can be had."""
    groups = cell.judged_groups("ablation")
    needed = [FULL, *(arm_without(entry.blocks, cell.study.free) for entry in groups)]
    if cell.has_judge or not all(name in cell.measured.lenient for name in needed):
        return groups
    lenient = {entry.name: entry.verdict for entry in cell.judged_groups("lenient", lenient=True)}
    strict = [entry.verdict for entry in groups]
    both = beside_lenient(strict, [lenient[entry.block] for entry in strict])
    return [replace(entry, verdict=verdict) for entry, verdict in zip(groups, both, strict=True)]


def _amounts(cell: Cell, left_out: Mapping[str, str], comparisons: int | None) -> list[AmountChange]:
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
        missing=study.request.missing_policy,
        comparisons=comparisons,
    )


def _named_scores(cell: Cell) -> list[NamedScoreEffects]:
    """What blocks do to the scorer's further scores; nothing where the items were chosen by looking at the score."""
    study, request = cell.study, cell.study.request
    if request.until:
        return []
    return judge_named(
        cell.measured.named(),
        study.free,
        margin=request.margin,
        rng=named_rng("named scores", request.run_name, study.model_id),
        missing=request.missing_policy,
        assume=request.assume,
        cells=cell.cells,
    )


def _saved(cell: Cell, dropped: Sequence[str]) -> tuple[float, float]:
    """Tokens and US dollars that the prompt without ``dropped`` saves per 1,000 calls."""
    if not dropped:
        return 0.0, 0.0
    by_measure, trimmed = cell.measured.by_measure, trimmed_arm(cell.study.prompt, dropped).id
    tokens, thousandths = (
        _mean(by_measure[name][FULL] - by_measure[name][trimmed])
        for name in (cell.study.token_measure, "cost_usd")
    )
    return 1000 * tokens, thousandths  # costs are those of 1,000 calls already


def _summary(cell: Cell, arm: PromptArm) -> ArmSummary:
    measured = cell.measured
    return ArmSummary(
        arm.id,
        tuple(arm.operators(cell.study.prompt)),
        int(np.isfinite(measured.scores[arm.id]).sum()),
        _mean(measured.scores[arm.id]),
        {name: _mean(measured.by_measure[name][arm.id]) for name in MEASURES},
        measured.outcomes(arm.id),
        measured.ambiguous(arm.id),
    )


def answer_alarms(rows: Sequence[ScoredRow], *, by_words: bool) -> list[str]:
    """What a reader must know of an arm's answers, by the thresholds of :mod:`pcsuite.analysis.alarms`.

    Of answers that are not judged ``by_words``, but by what was done in a folder, it is no alarm that all say the same.
    """
    answered = [
        row
        for row in rows
        if not row.errors and row.generation is not None and row.generation.finish_reason != "out_of_time"
    ]
    if not answered:
        return []
    counts = Counter(row.parsed.answer for row in answered if row.parsed is not None and row.parsed.answer)
    readable, total = counts.total(), len(answered)
    cut = sum(row.generation is not None and row.generation.finish_reason == "length" for row in answered)
    alarms = []
    if (total - readable) / total >= SHARES["unreadable"][0]:
        alarms.append(
            f"{total - readable} of {total} answers to the full prompt could not be read and score 0."
        )
    if cut / total >= SHARES["truncated"][0]:
        alarms.append(f"{cut} of {total} answers to the full prompt were cut off at the token limit.")
    answer, times = counts.most_common(1)[0] if counts else ("", 0)
    # What is right of nearly all items may be said of nearly all.
    given = [row for row in answered if row.parsed is not None and row.parsed.answer == answer]
    right = sum(float(row.metrics.get("task_score") or 0) for row in given)
    constant = readable >= CONSTANT_ITEMS and times / readable >= CONSTANT_SHARE
    if by_words and constant and right < CONSTANT_SHARE * times:
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
