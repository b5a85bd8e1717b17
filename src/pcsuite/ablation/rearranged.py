"""What moving or repeating blocks does: the designs ``order`` and ``repeat``, asked, judged, and told.

Every changed prompt is a contrast against the full prompt (:mod:`pcsuite.contrasts`), corrected by Holm over all of
them; shams are asked of those that were found to be better or worse, and are shown with limits, not tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pcsuite import __version__
from pcsuite._util.changes import changing_files
from pcsuite._util.files import write_errors
from pcsuite._util.hashing import named_rng
from pcsuite._util.loops import run_blocking
from pcsuite._util.text import counted, figure_text, p_text, signed_interval
from pcsuite.ablation.ablate import AblationRun
from pcsuite.ablation.arms import CHANGES, FULL
from pcsuite.ablation.reading import SIMULATED
from pcsuite.ablation.rearranging import MOVES, TWICE, WHOLE, plain_block, sham_of
from pcsuite.ablation.records import limits_record
from pcsuite.ablation.replicates import replicates_sentence
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.sentences import SIMULATED_NOTICE
from pcsuite.ablation.study import Study, prepare
from pcsuite.ablation.verdicts import at_floor, finite, judge_noise
from pcsuite.analysis.table import Column, Table, TableSpec, interval, number
from pcsuite.contrasts import (
    FORM,
    ArmScores,
    Contrast,
    Family,
    HeldResult,
    ReadEffect,
    hold_under_missing,
    is_form,
    judge,
    measure,
)
from pcsuite.errors import AnalysisError, ConfigError, ErrorRateError
from pcsuite.pages.render import render_page
from pcsuite.runners.executors import ExecutorChoice
from pcsuite.runners.run_suite import LOCAL
from pcsuite.stats.estimate import Estimate

if TYPE_CHECKING:
    from rich.console import Console

_CLAIMS = ("better", "worse")


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """What is known of one changed prompt."""

    arm: str
    block: str
    """The block that was moved or repeated, or ``prompt``."""
    what: str
    """What was done to it, in words."""
    verdict: str
    """Better, worse, no worse, equivalent, undecided or not tested, of the changed prompt against the full one."""
    effect: Estimate
    """Score of the changed prompt less that of the full one; limits hold for all changed prompts at once."""
    p_value: float
    """After Holm's correction over all changed prompts."""
    lenient: Estimate | None
    """The effect on the score under the lenient rules; ``None`` where the rows have no such score."""
    form: str
    """:data:`~pcsuite.contrasts.FORM` where the two readings of the answers do not agree on the effect."""
    sham: Estimate | None
    """Of a moved block: what moving filler of its length does (sham there less sham at home). Of a repeated one: score
    of filler in place of the second copy less that of the full prompt. ``None`` where no sham was asked."""
    beyond_sham: Estimate | None
    """The effect less that of the sham: what is due to the words, not to the length or the place of any text."""
    missing: int
    """Items of which an answer is missing under one of the two prompts."""
    reason: str = ""
    """Why nothing was tested."""


@dataclass(frozen=True)
class ChangeResult:
    """What moving or repeating the blocks of a prompt was found to do."""

    study: Study
    items: int
    """Items that the full prompt answered."""
    scores: Mapping[str, float]
    """Mean score by arm."""
    verdicts: Sequence[ChangeVerdict]
    noise: Estimate | None
    """A/A: the full prompt again less the full prompt."""
    stopped: str = ""
    asked: int = 0
    failed: int = 0
    too_many_failed: bool = False

    @property
    def log(self) -> Path:
        """The log of the run."""
        return self.study.log

    def records(self) -> list[dict[str, Any]]:
        """One record a changed prompt, as ``order.csv`` or ``repeat.csv`` and the JSON have it."""
        return [_record(self, entry) for entry in self.verdicts]


def rearrange(
    request: AblationRequest,
    *,
    quiet: bool = False,
    use_cache: bool = True,
    executor: ExecutorChoice = LOCAL,
    show: Callable[[Study], None] | None = None,
) -> ChangeResult:
    """Ask a prompt with its blocks moved (``design="order"``) or repeated (``"repeat"``), and judge what that does.

    It goes on where an earlier run of its name ended, as :func:`pcsuite.ablation.ablate` does, and raises what that
    raises; another design is a ``ConfigError``.

        rearrange(AblationRequest(Path("triage.md"), "tickets.csv", model="smollm2-135m", design="order")).records()
    """
    if request.design not in CHANGES:
        raise ConfigError(f"--design {request.design} moves and repeats nothing", hint=" or ".join(CHANGES))
    study = prepare(request)
    if show is not None:
        show(study)
    return run_blocking(_ChangeRun.of(study, quiet=quiet, use_cache=use_cache, executor=executor).changed())


class _ChangeRun(AblationRun):
    """The phases: all changed prompts, then the shams of those that were found to be better or worse."""

    async def changed(self) -> ChangeResult:
        cell = self.cells[0]
        async with self.opened():
            if self.study.by_noise:
                await self._noise_first(self.study.count)
            study = self.study
            await self._ask(self.plan)
            sham_ids = set[str]()
            for entry in self._judged(cell.measured.arms):
                if entry.result.verdict in _CLAIMS:
                    arm = _arm_of(entry)
                    sham_ids |= {sham_of(arm), sham_of(plain_block(arm))}
            shams = [arm for arm in study.design.arms if arm.kind == "sham" and arm.id in sham_ids]
            if shams and not self.stopped:
                await self._ask(self._plan_of(shams, "shams"))
        arms = cell.measured.arms
        noise, _, _ = judge_noise(arms, rng=named_rng("noise", study.request.run_name))
        return ChangeResult(
            study,
            int(np.isfinite(arms[FULL].values).sum()),
            {
                name: float(known.mean())
                for name in cell.arms
                if name in arms and len(known := finite(arms[name].values))
            },
            self._verdicts(arms, cell.measured.lenient),
            noise,
            stopped=self.stopped,
            asked=self.asked,
            failed=self.failed,
            too_many_failed=isinstance(self.stopping, ErrorRateError),
        )

    def _judged(self, arms: Mapping[str, ArmScores]) -> list[HeldResult]:
        request = self.study.request
        designed = [Contrast.of(arm.id, FULL) for arm in self.study.design.changed if arm.id in arms]
        rng = named_rng("changes", request.run_name, self.study.model_id)
        floor = at_floor(arms[FULL].values, request.margin)
        family = Family(
            "holm",
            margin=request.margin,
            at_floor=bool(floor),
            assume=request.assume,
            size=len(self.study.design.changed),
        )
        observed = judge(measure(arms, designed, rng=rng), family)
        if request.missing_policy == "drop":
            return [HeldResult(entry, entry) for entry in observed]
        return hold_under_missing(observed, arms, family, rng=rng)

    def _verdicts(
        self, arms: Mapping[str, ArmScores], lenient: Mapping[str, ArmScores]
    ) -> list[ChangeVerdict]:
        strict = self._judged(arms)
        needed = [FULL, *(arm.id for arm in self.study.design.changed)]
        loose = self._judged(lenient) if all(name in lenient for name in needed) else [None] * len(strict)
        floor = at_floor(arms[FULL].values, self.study.request.margin)
        return [self._verdict(entry, other, arms, floor) for entry, other in zip(strict, loose, strict=True)]

    def _verdict(
        self, entry: HeldResult, other: HeldResult | None, arms: Mapping[str, ArmScores], floor: str
    ) -> ChangeVerdict:
        result, name = entry.result, _arm_of(entry)
        block, home = plain_block(name), sham_of(plain_block(name))
        sham, beyond = None, None
        there = sham_of(name)
        if there in arms and np.isfinite(arms[there].values).sum() > 1:
            control = FULL if name.endswith(TWICE) else home
            if control in arms:
                gained = Contrast("sham", {there: 1.0, control: -1.0}, tested=False)
                left = {name: 1.0, FULL: -1.0, there: -1.0}
                left[control] = left.get(control, 0.0) + 1.0
                words = Contrast("words", {arm: w for arm, w in left.items() if w}, tested=False)
                rng = named_rng("shams of changes", self.study.request.run_name, name)
                sham, beyond = (one.estimate for one in measure(arms, [gained, words], rng=rng))
        sides = [
            ReadEffect(one.estimate.value, one.verdict in _CLAIMS, one.shown_no_worse, one.measured)
            for one in (result, *([other.result] if other is not None else []))
        ]
        lacking = [arm.failed > 0 for arm in (arms[name], arms[FULL]) if arm.failed is not None]
        return ChangeVerdict(
            name,
            block,
            change_words(name),
            result.verdict,
            result.simultaneous,
            result.p_adjusted,
            None if other is None else other.result.estimate,
            FORM if len(sides) == 2 and is_form(*sides) else "",
            sham,
            beyond,
            int(np.any(lacking, axis=0).sum()) if lacking else 0,
            (floor or result.reason) if result.verdict == "not tested" else "",
        )


def _arm_of(entry: HeldResult) -> str:
    return next(iter(entry.observed.measured.contrast.weights))


def change_words(arm: str) -> str:
    """What an arm's id says was done.

    >>> change_words("rules@after_question"), change_words("prompt.x2"), change_words("rules.x2")
    ('rules behind the question', 'the whole prompt twice', 'rules twice')
    """
    block, _, place = arm.partition("@")
    if place:
        return f"{block} {MOVES[place]}"  # type: ignore[index]
    block = arm.removesuffix(TWICE)
    return "the whole prompt twice" if block == WHOLE else f"{block} twice"


# As words, tables and files.

CHANGED = TableSpec(
    "changes",
    "What moving or repeating the blocks of a prompt does",
    "changed prompt (`outputs/ablations/<run>/order.csv` and `repeat.csv`)",
    (
        Column("change", "what was moved where, or said twice"),
        Column("arm", "id of the changed prompt among the log's conditions"),
        Column(
            "verdict", "better, worse, no worse, equivalent, undecided or not tested, against the full prompt"
        ),
        Column("score", "mean score of the changed prompt"),
        *interval(
            "effect", "score of the changed prompt less the full one's; limits hold for all changes at once"
        ),
        Column("p_holm", "p-value after Holm's correction over the changes"),
        *interval("lenient_effect", "the effect under the lenient rules"),
        Column("form", "whether the two readings of the answers disagree on the effect"),
        *interval("sham_effect", "what filler of the same length does at the same place"),
        *interval("beyond_sham", "the effect less that of the sham; not tested"),
        Column("missing", "items of which an answer is missing under one of the two prompts"),
        Column("reason", "why nothing was tested"),
    ),
)


def _record(result: ChangeResult, entry: ChangeVerdict) -> dict[str, Any]:
    return {
        "change": entry.what,
        "arm": entry.arm,
        "verdict": entry.verdict,
        "score": result.scores.get(entry.arm),
        "p_holm": number(entry.p_value),
        "form": entry.form,
        "missing": entry.missing,
        "reason": entry.reason,
        **limits_record("effect", entry.effect),
        **limits_record("lenient_effect", entry.lenient),
        **limits_record("sham_effect", entry.sham),
        **limits_record("beyond_sham", entry.beyond_sham),
    }


def headline(result: ChangeResult) -> str:
    """The answer in one sentence: what is better, what is worse, and of how many."""
    by_verdict = {word: [e for e in result.verdicts if e.verdict == word] for word in _CLAIMS}
    parts = [
        f"{word}: {', '.join(entry.what for entry in verdicts)}"
        for word, verdicts in by_verdict.items()
        if verdicts
    ]
    changes = "; ".join(parts) or "no change was shown to be better or worse"
    shown = sum(entry.verdict in ("equivalent", "no worse") for entry in result.verdicts)
    return (
        f"Of {counted(len(result.verdicts), 'changed prompt')} {changes}; {shown} shown to lose less than"
        + (f" {result.study.request.margin:g}.")
    )


def notices(result: ChangeResult) -> list[str]:
    """What a reader must know before anything else."""
    lines = []
    if result.study.model.provider == SIMULATED:
        lines.append(SIMULATED_NOTICE)
    form = [entry.what for entry in result.verdicts if entry.form]
    if form:
        lines.append(f"{FORM}: read leniently, the answers do not agree on {', '.join(form)}.")
    floor = at_floor(np.array([result.scores.get(FULL, 0.0)]), result.study.request.margin)
    answered = replicates_sentence(result.study)
    return [line for line in (*lines, answered, floor, result.stopped) if line]


def _rows(result: ChangeResult) -> list[list[str]]:
    def words(estimate: Estimate | None) -> str:
        return "" if estimate is None else signed_interval(estimate.value, estimate.low, estimate.high, 3)

    return [
        [
            entry.what,
            entry.verdict + (f" ({entry.form})" if entry.form else ""),
            figure_text(result.scores.get(entry.arm, float("nan")), 3),
            words(entry.effect),
            p_text(entry.p_value),
            words(entry.lenient),
            words(entry.sham),
            words(entry.beyond_sham),
        ]
        for entry in sorted(result.verdicts, key=lambda one: one.effect.value)
    ]


HEADINGS = ("change", "verdict", "score", "effect", "p", "read leniently", "filler instead", "beyond filler")


def print_changes(result: ChangeResult, console: Console) -> None:
    """The table in the terminal, the largest losses first, and what a reader must know."""
    from rich.table import Table as Printed

    for line in notices(result):
        console.print(line, markup=False, highlight=False)
    full = figure_text(result.scores.get(FULL, float("nan")), 3)
    console.print(f"full prompt: {full} on {counted(result.items, 'item')}", markup=False, highlight=False)
    table = Printed(*HEADINGS, box=None, pad_edge=False)
    for row in _rows(result):
        table.add_row(*row)
    console.print(table)
    console.print(headline(result), markup=False, highlight=False, soft_wrap=True)


def document(result: ChangeResult) -> dict[str, Any]:
    """Everything that was found, as plain values: what ``order.json`` and ``repeat.json`` hold."""
    study = result.study
    noise = result.noise
    return {
        "prompt": str(study.request.prompt),
        "model": study.model_id,
        "task": study.task.id,
        "items": result.items,
        "design": study.design.why,
        "margin": study.request.margin,
        "headline": headline(result),
        "notices": notices(result),
        "scores": dict(result.scores),
        "noise": None if noise is None else [number(one) for one in (noise.value, noise.low, noise.high)],
        "changes": result.records(),
        "stopped": result.stopped,
    }


def render_changes(result: ChangeResult) -> str:
    """The page: what each change does, its controls, and every changed prompt as it is sent."""
    study = result.study
    shown = {arm.id: arm for arm in study.design.arms}
    noise = result.noise
    return render_page(
        "ablation/templates/changes.html.j2",
        title=f"What {'moving' if study.design.name == 'order' else 'repeating'} the parts of"
        f" {study.request.prompt.name} does",
        headline=headline(result),
        notices=notices(result),
        facts=[
            ("items", f"{result.items:,}"),
            ("arms", str(len(result.scores))),
            ("model", study.model_id),
            ("regime", study.request.regime),
            ("margin", f"{study.request.margin:g}"),
            ("full prompt's score", figure_text(result.scores.get(FULL, float("nan")), 3)),
        ],
        headings=HEADINGS,
        rows=_rows(result),
        orders=[
            (entry.what, ", ".join(shown[entry.arm].operators(study.prompt))) for entry in result.verdicts
        ],
        noise="" if noise is None else signed_interval(noise.value, noise.low, noise.high, 3),
        design=study.design.why,
        reading=study.task.reading,
        footer=f"Written by pcsuite {__version__} from {result.log.name}.",
    )


def write_changes(result: ChangeResult) -> list[Path]:
    """Write page, table and JSON into the ablation's folder, named by the design; the page comes first.

    Raises ``AnalysisError`` where a file cannot be written.
    """
    folder, name = result.study.folder, result.study.design.name
    texts = {
        f"{name}.html": render_changes(result),
        f"{name}.json": json.dumps(document(result), indent=1, ensure_ascii=False) + "\n",
    }
    with write_errors(AnalysisError, folder), changing_files(folder / ".result.changes") as changes:
        for file, text in texts.items():
            changes.write(folder / file, text)
        Table.of(CHANGED, result.records()).write_csv(folder / f"{name}.csv", changes.replacing)
    return [folder / file for file in (*texts, f"{name}.csv")]
