"""The picture of an ablation: the prompt with each block tinted by its worth; in a terminal, as Markdown, as files.

Blue helps and orange hurts, told apart with any colour vision; sign and interval stand in words beside them, and what
is undecided is hatched.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pcsuite._util.text import counted, p_text, signed, signed_interval
from pcsuite.ablation.ablate import AblationResult
from pcsuite.ablation.amounts import AmountChange
from pcsuite.ablation.arm_measures import MEASURES, TARGET_MEASURES
from pcsuite.ablation.arms import AGAIN, FULL
from pcsuite.ablation.covariate import covariate_sentence
from pcsuite.ablation.forecast import GRADED_SPREAD, NoiseForecast, Preview
from pcsuite.ablation.reach import unknown_line
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.screen import TOGETHER, GroupVerdict, expected_arms, most_arms, unsplit
from pcsuite.ablation.study import Study
from pcsuite.ablation.trim import Trim
from pcsuite.ablation.verdicts import NOISE_ALPHA, BlockVerdict, least_margin
from pcsuite.analysis.probabilities import PROBABILITIES, probability_columns, probability_lines
from pcsuite.analysis.table import Column, Table, TableSpec, interval
from pcsuite.config.prices import price_of, price_words
from pcsuite.contrasts import CLAUSE, FORM
from pcsuite.data.clusters import count_clusters
from pcsuite.errors import MISSING_OUTCOMES, CallOutcome
from pcsuite.pages.palette import NEUTRAL, SYMBOLS, Tint, block_tint
from pcsuite.prompts.prompt import CHARACTERS_PER_TOKEN
from pcsuite.prompts.prompt_files import PLACE
from pcsuite.prompts.tools import STRUCTURE
from pcsuite.prompts.verbatim import decode_chat
from pcsuite.reporting.wording import join_words
from pcsuite.stats import Estimate
from pcsuite.stats.clustered import too_few_clusters
from pcsuite.stats.posterior import shared_correlations, shrunken_effects

if TYPE_CHECKING:
    from rich.console import Console

_FLIPS_SHOWN = 5
BLOCKS = TableSpec(
    "blocks",
    "What each block of an ablated prompt is worth",
    "block that could be left out (`outputs/ablations/<run>/blocks.csv`)",
    (
        Column("block", "name of the block"),
        Column(
            "verdict",
            "helps, hurts, no worse without it, helps only as filler, undecided, not tested, or only in a group",
        ),
        Column("note", "what the verdict does not say"),
        Column("clause", "what the verdict assumes of the shape of graded scores; empty where nothing"),
        Column(
            "tentative",
            f"verdict on graded scores that holds {CLAUSE}, where the verdict itself claims less",
        ),
        *interval(
            "effect",
            "score of the full prompt less that of the prompt without the block; limits hold for all blocks at once",
        ),
        Column("alone_low", "lower limit of the effect that holds for this block alone"),
        Column("alone_high", "upper limit of the effect that holds for this block alone"),
        Column("p_holm", "p-value after Holm's correction over the blocks"),
        *interval("against_sham", "score of the full prompt less that with a sham in the block's place"),
        Column("no_worse", "whether the prompt without it is non-inferior at the margin"),
        Column("margin", "the loss of score from which on a block is missed"),
        Column(
            "missing",
            "items of which an answer is missing with or without the block: its calls failed or timed out",
        ),
        Column(
            "effect_least",
            "the effect with every missing answer against the block; empty where none is missing",
        ),
        Column("effect_most", "the effect with every missing answer in its favour"),
        Column("ambiguous", "items of which an answer with or without the block can be read in two ways"),
        Column("on_answered", "the verdict on the answered items alone, where missing answers could undo it"),
        Column("more_items", "further items that would decide an undecided block, were it as seen"),
        Column("tokens", "tokens of the block"),
        Column("dropped", "whether the trimmed prompt is without it"),
        *interval("adjusted", "the effect with --covariate taken off; limits hold for this block alone"),
        *interval("answered", "what the block changes in the share of readable answers"),
        *interval("prompt_tokens", "what it changes in prompt tokens"),
        *interval("completion_tokens", "what it changes in answer tokens"),
        *interval(
            "latency_ms",
            "what it changes in latency, in milliseconds; calls of an arm wait together, so limits are too narrow",
        ),
        *interval("cost_usd", "what it changes in cost, in USD per 1,000 calls"),
        *interval("total_tokens", "what it changes in tokens, prompts and answers together"),
        *interval("steps", "what it changes in the steps that a target says it took"),
        *interval("tool_calls", "what it changes in the calls of tools that a target says it made"),
        *interval("lenient_effect", "the effect on the score under the lenient rules"),
        Column("lenient_verdict", "the verdict under the lenient rules; empty where there are none"),
        Column(
            "form",
            f"“{FORM}” where the two effects have opposite signs (and not both are no worse without it), or the block"
            " helps or hurts under one reading alone",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class BlockView:
    """A block as a reader meets it."""

    number: int
    name: str
    text: str
    tokens: int
    verdict: str
    tint: Tint
    effect: str
    """Sign and interval, or why it is pinned."""
    dropped: bool
    details: tuple[str, ...] = ()
    """What pointing at it shows."""
    role: str = ""
    """Whose message of a chat it stands in."""
    estimate: Estimate | None = None
    """Its effect, where it was measured."""
    words: str = ""
    """The verdict as it is shown: with the margin, where it is about one."""

    @property
    def symbol(self) -> str:
        """The sign of its verdict."""
        return SYMBOLS[self.verdict]

    @property
    def limits(self) -> tuple[float, ...]:
        """The ends of its interval; none where there is none."""
        ends = () if self.estimate is None else (self.estimate.low, self.estimate.high)
        return ends if all(map(math.isfinite, ends)) else ()


def interval_words(estimate: Estimate, digits: int = 2) -> str:
    """An estimate with its interval, signed: ``+0.12 [+0.03, +0.21]``.

    ``n/a`` where nothing could be estimated.
    """
    return signed_interval(estimate.value, estimate.low, estimate.high, digits)


def measure_words(name: str, change: Estimate) -> str:
    """What a block changes in one of the :data:`MEASURES`: shares and costs have more decimals than counts."""
    return interval_words(change, 3 if name in ("answered", "cost_usd") else 1)


def shown_measures(result: AblationResult) -> dict[str, str]:
    """The :data:`MEASURES` that are shown of a result: those of targets alone only where one was asked."""
    hidden = () if result.study.asks_target else TARGET_MEASURES
    return {name: label for name, label in MEASURES.items() if name not in hidden}


def amount_lines(result: AblationResult) -> list[str]:
    """What leaving out a block or group saves or costs, a line for each, after the verdict on the score.

    What was seen and is not claimed is left to the table of blocks; where something else is in the way, that is said.
    """
    verdicts = {entry.block: entry for entry in result.verdicts}
    verdicts |= {entry.name: entry.verdict for entry in result.groups}
    lines = []
    for name in dict.fromkeys(change.block for change in result.amounts):
        of_block = [change for change in result.amounts if change.block == name]
        claims = [change for change in of_block if change.verdict in ("less", "more")]
        if claims:
            clause = next((f", {change.clause}" for change in claims if change.clause), "")
            said = ", ".join(map(amount_words, claims))
            lines.append(f"{name}: {verdict_words(result, verdicts[name])}; without it {said}{clause}.")
        lines += [f"{name}: {one.words} seen, not claimed: {one.note}." for one in of_block if one.note]
    return lines


def amount_words(change: AmountChange) -> str:
    """A change of an amount with its limits: ``18% fewer steps [-25%, -11%]``."""
    return f"{change.words} [{change.change.low:+.0%}, {change.change.high:+.0%}]"


def block_views(result: AblationResult) -> list[BlockView]:
    """Every block of the prompt in order, with what is said of it."""
    verdicts = {entry.block: entry for entry in result.verdicts}
    largest = max((abs(entry.effect.value) for entry in result.verdicts if entry.effect.defined), default=0.0)
    dropped = result.trim.dropped if result.trim is not None else ()
    together = {name: entry for entry in unsplit(result.groups) for name in entry.blocks}
    views = []
    for number, block in enumerate(result.study.prompt.blocks, start=1):
        if block.kind == PLACE:
            continue
        text = (block.shown or "{{ input }}").rstrip("\r\n")
        role = ", ".join(dict.fromkeys(message["role"] for message in decode_chat(block.text) or ()))
        view = BlockView(
            number,
            block.name,
            text,
            tokens=result.block_tokens[block.name],
            verdict="pinned",
            tint=Tint(NEUTRAL, 0.0),
            effect=block.pinned,
            dropped=block.name in dropped,
            role=role,
        )
        if (entry := verdicts.get(block.name)) is not None:
            view = replace(
                view,
                verdict=entry.verdict,
                tint=block_tint(entry.verdict, entry.effect.value, largest),
                effect=interval_words(entry.effect),
                details=tuple(_details(result, entry)),
                estimate=entry.effect,
                words=verdict_words(result, entry),
            )
            if (group := together.get(block.name)) is not None:
                view = replace(
                    view,
                    effect=f"all {len(group.blocks)}: {interval_words(group.verdict.effect)}",
                    details=(group_sentence(result, group),),
                    words=f"{TOGETHER}: {group.name}",
                )
        views.append(view)
    return views


def verdict_words(result: AblationResult, entry: BlockVerdict) -> str:
    """A verdict as it is shown: *no worse* means nothing without the margin it is about."""
    words = entry.verdict if entry.tentative is None else f"{entry.verdict} ({entry.tentative}, {CLAUSE})"
    if entry.verdict == "no worse without it":
        words = f"{entry.verdict} (margin {result.study.request.margin:g})"
    words = f"{words}, {entry.clause}" if entry.clause else words
    return f"{words}: {form_words(entry)}" if entry.form else words


def form_words(entry: BlockVerdict) -> str:
    """``the form, not the answer (+0.51 strictly read, -0.03 leniently)``; empty where both readings agree."""
    if not entry.form or entry.lenient is None:
        return ""
    return (
        f"{entry.form} ({signed(entry.effect.value)} strictly read, {signed(entry.lenient.value)} leniently)"
    )


def _details(result: AblationResult, entry: BlockVerdict) -> Iterable[str]:
    yield f"score with it less score without it: {interval_words(entry.effect, 3)}, p {p_text(entry.p_value)} (Holm)"
    if entry.alone is not None:
        alone = interval_words(entry.alone, 3).partition(" ")[2]
        yield f"limits for all blocks at once; for this block alone {alone}"
    if entry.against_sham is not None:
        yield f"against a sham of the same length: {interval_words(entry.against_sham, 3)}"
    if (adjusted := result.adjusted.get(entry.block)) is not None:
        yield f"with the covariate taken off: {interval_words(adjusted.estimate, 3)}"
    if entry.form and entry.lenient is not None:
        lenient = f"{entry.lenient_verdict}, {interval_words(entry.lenient, 3)}"
        yield f"under the lenient rules: {lenient}. {entry.form[:1].upper()}{entry.form[1:]}"
    if entry.note and entry.verdict != "undecided":
        yield f"{entry.verdict}: {entry.note}"
    if entry.verdict == "undecided":
        yield _undecided(entry)
    for name, label in shown_measures(result).items():
        change = result.measures[entry.block][name]
        if change.defined and (change.value or change.low or change.high):
            yield f"{label}: {measure_words(name, change)}"
    gained, lost = result.flips[entry.block]
    yield f"right only with it: {_item_names(gained)}"
    yield f"right only without it: {_item_names(lost)}"


def _undecided(entry: BlockVerdict) -> str:
    if entry.on_answered is not None:
        span = ""
        if entry.least is not None and entry.most is not None:
            span = f": with them the effect is anything from {entry.least:+.2f} to {entry.most:+.2f}"
        return (
            f"on the answered items “{entry.on_answered}”, but {counted(entry.missing, 'item')}"
            f" {'lacks' if entry.missing == 1 else 'lack'} an answer{span}"
        )
    if entry.note:
        return entry.note
    if entry.effect.n < 2:
        return f"{'no item has' if not entry.effect.n else 'one item has'} an answer both with and without it"
    if entry.tentative is not None:
        return f"“{entry.tentative}” {CLAUSE}: a rare large change the other way was not ruled out"
    remedy = "no number of items would decide it: its effect is about the margin"
    if entry.more_items is not None:
        remedy = f"about {counted(entry.more_items, 'more item')} would decide it, were it as seen"
    if entry.alone is not None and entry.alone.excludes(0):
        reason = "its interval by itself excludes 0, but its test corrected over all blocks does not reject"
        return f"{reason} (p {p_text(entry.p_value)}); {remedy}"
    return remedy


def _item_names(names: Sequence[str]) -> str:
    if not names:
        return "no item"
    more = f" and {len(names) - _FLIPS_SHOWN} more" if len(names) > _FLIPS_SHOWN else ""
    return f"{counted(len(names), 'item')} ({', '.join(names[:_FLIPS_SHOWN])}{more})"


# What is said in sentences.


def limits_words(request: AblationRequest) -> str:
    """What the limits of blocks are, and what p is corrected for."""
    if not request.until:
        return "intervals are 95 %; p is Holm's, over all blocks"
    whose = "confidence sequences" if request.looks is None else f"{request.looks} planned looks"
    return f"limits are those of {whose}, which hold at every look and for all blocks together"


def headline(result: AblationResult) -> str:
    """The answer in one sentence.

    Blocks are grouped by verdict, those that help first: ``rules helps; role can go, losing less than 0.02; tone
    undecided.`` What helps or hurts under one reading of the answers alone comes last, as a change of their form.
    """
    less = f"losing less than {result.study.request.margin:g}"
    words = {
        "helps": "{} helps",
        "helps only as filler": "{} helps only as filler",
        "hurts": "{} hurts",
        "no worse without it": "{} can go",
        "undecided": "{} undecided",
        "not tested": "{} not tested",
    }
    parts = []
    for verdict, form in words.items():
        names = [
            entry.block
            for entry in result.verdicts
            if entry.verdict == verdict and not entry.changes_form_alone
        ]
        if names:
            part = form.format(join_words(names))
            if len(names) > 1:
                part = part.replace(" helps", " help").replace(" hurts", " hurt")
                part = f"each of {part} alone" if verdict == "no worse without it" else part
            parts.append(f"{part}, {less}" if verdict == "no worse without it" else part)
    parts += [_of_group(entry, less) for entry in _told(result)]
    parts += [f"{entry.block}: {form_words(entry)}" for entry in result.verdicts if entry.changes_form_alone]
    return "; ".join(parts) + "."


def _told(result: AblationResult) -> list[GroupVerdict]:
    """Groups that something is said of: those not split, and those that matter though nothing within them is shown
    to."""
    return [
        entry
        for entry in result.groups
        if len(entry.blocks) > 1 and (not entry.split or (entry.verdict.moves and not entry.within))
    ]


def _of_group(entry: GroupVerdict, less: str) -> str:
    """What the headline says of a group: always of all its blocks together."""
    forms = {
        "helps": "{} together help",
        "hurts": "{} together hurt",
        "no worse without it": f"{{}} together can go, {less}",
        "undecided": "{} together undecided",
        "not tested": "{} together not tested",
    }
    return forms[entry.verdict.verdict].format(join_words(entry.blocks))


def group_sentence(result: AblationResult, entry: GroupVerdict) -> str:
    """What is known of a group of blocks, and what is not."""
    these, change = join_words(entry.blocks), interval_words(entry.verdict.effect, 3)
    said = {
        "helps": f"the {len(entry.blocks)} together help",
        "hurts": f"the {len(entry.blocks)} together hurt",
        "no worse without it": f"these {len(entry.blocks)} together: no worse without them"
        f" (margin {result.study.request.margin:g})",
        "undecided": f"these {len(entry.blocks)} together are undecided ({_undecided(entry.verdict)})",
        "not tested": f"not tested: {entry.verdict.note.removeprefix('not tested: ')}",
    }[entry.verdict.verdict]
    alone = " Nothing is said of one of them alone: one may help and another hurt."
    if entry.split and entry.verdict.moves and not entry.within:
        alone = " No part of them is shown to by itself: they may make up for each other, or the items are too few."
    elif entry.split:
        alone = ""
    small = entry.verdict.moves and entry.verdict.note
    by_less = f" {entry.verdict.note}, so they were not split" if small and not entry.split else ""
    return f"{these}: {said}{by_less}, {change}.{alone}"


def group_sentences(result: AblationResult) -> list[str]:
    """A sentence on every group that something is said of."""
    return [group_sentence(result, entry) for entry in _told(result)]


def trim_sentence(result: AblationResult) -> str:
    """What the trimmed prompt is, and how sure that is.

    Says the largest set of blocks that was confirmed on items which had no part in choosing it, with the change in
    score, whose limits hold at 95 % for all sets that could be tried at once, and what that saves per 1,000 calls.
    """
    trim, margin = result.trim, result.study.request.margin
    if trim is None:
        return (
            "No shorter prompt was looked for."
            if not result.stopped
            else "The calls ended before a shorter prompt could be confirmed."
        )
    if floor := untested_note(result):
        return f"No shorter prompt was looked for: {floor.removeprefix('not tested: ')}."
    if result.study.chosen_on >= result.study.count:
        return "No shorter prompt was looked for: the items are one cluster, so none could confirm it."
    alone = [entry.block for entry in result.verdicts if entry.verdict == "no worse without it"]
    single = (
        f" That {join_words(alone)} can go alone does not say so of them together." if len(alone) > 1 else ""
    )
    if not trim.chosen:
        return (
            f"No set of blocks is proposed to go: on the {result.study.chosen_on} items that choose, none could be"
            f" spared within half the margin ({margin / 2:g}).{single} The prompt stays as it is."
        )
    if not trim.dropped:
        return f"{_not_confirmed(trim, result)}{single} The prompt stays as it is."
    step = next(step for step in trim.steps if step.confirmed)
    saved = saved_tokens_words(result)
    if result.saved_usd and math.isfinite(result.saved_usd):
        saved += f" and ${result.saved_usd:,.4f}"
    change = interval_words(step.simultaneous or step.difference, 3)
    return (
        f"Without {join_words(step.dropped)} the score changes by {change}"
        f" on {items_words(step.difference.n, step.clusters)} that had no part in choosing: not worse by more than"
        f" {margin:g}."
        f" It saves {saved} per 1,000 calls."
    )


def saved_tokens_words(result: AblationResult) -> str:
    """``1,200 prompt tokens``: what the trimmed prompt saves, where the system says what it takes."""
    known = math.isfinite(result.saved_tokens)
    number = f"{result.saved_tokens:,.0f}" if known else "an unknown number of"
    return f"{number} {MEASURES[result.study.token_measure]}"


def _not_confirmed(trim: Trim, result: AblationResult) -> str:
    """Why no set of blocks that the first part chose is confirmed on the other."""
    count = result.study.count - result.study.chosen_on
    least = least_margin(count)
    reach = (
        f"{counted(count, 'item')} can confirm {'nothing' if least is None else f'no less than {least:.2f}'}"
    )
    if not trim.steps:
        return f"No set of blocks is confirmed to go: the confirming items are too few ({reach})."
    step = trim.steps[0]
    if step.confirmed_here:
        return (
            f"No set of blocks is confirmed to go on all models and tables: without {join_words(step.dropped)} this one"
            f" changes by {interval_words(step.difference, 3)} on {items_words(step.difference.n, step.clusters)} that"
            " had no part in choosing, which would do, and another one does not show it."
        )
    tried = "" if len(trim.steps) == 1 else f", nor are {counted(len(trim.steps) - 1, 'smaller set')}"
    why = (
        f"; {counted(step.missing, 'item')} without an answer could undo what the others show"
        if step.hidden
        else ""
    )
    return (
        f"No set of blocks is confirmed to go: without {join_words(step.dropped)} the score changes by"
        f" {interval_words(step.difference, 3)} on {items_words(step.difference.n, step.clusters)} that had no part in"
        f" choosing, which does not rule out a loss of {trim.margin:g}{tried}{why} ({reach})."
    )


def untested_note(result: AblationResult) -> str:
    """Why nothing was tested, where that is so.

    A full prompt whose own score lies within the margin of 0 cannot get worse by it: every block would seem to be
    droppable. Empty where the blocks could be tested.
    """
    return next((entry.note for entry in result.verdicts if entry.verdict == "not tested"), "")


def noise_sentence(result: AblationResult) -> str:
    """What the A/A arm says.

    It differs from the full prompt in one line end, so an effect of it is a warning, not a finding.
    """
    if result.noise is None or result.noise_p is None or result.noise_flips is None:
        return "There was no A/A arm: the noise floor is not known."
    verdict = (
        "no effect shown"
        if not result.noise_p < NOISE_ALPHA
        else "an effect, so something other than the blocks moves the score"
    )
    verdict += (
        f" (tested at {NOISE_ALPHA:g}, so one ablation in {1 / NOISE_ALPHA:.0f} alarms by chance alone)"
    )
    return (
        f"A/A (the full prompt again with one more line end): {interval_words(result.noise, 3)},"
        f" p {p_text(result.noise_p)}: {verdict}. {result.noise_flips:.1%} of the scores moved by chance alone."
    )


def drop_rows(result: AblationResult) -> list[dict[str, Any]]:
    """The dropped blocks with what each saves per 1,000 calls.

    Savings are the block's own tokens; the price is that of prompt tokens, ``None`` where it is not known.
    """
    price = price_of(result.study.model)
    verdicts = {entry.block: entry for entry in result.verdicts}
    return [
        {
            "block": name,
            "verdict alone": verdicts[name].verdict,
            "effect alone": interval_words(verdicts[name].effect),
            "tokens": result.block_tokens[name],
            "tokens per 1,000 calls": result.block_tokens[name] * 1000,
            "USD per 1,000 calls": None
            if price is None
            else round(price.cost(result.block_tokens[name] * 1000, 0), 6),
        }
        for name in (result.trim.dropped if result.trim is not None else ())
    ]


def notices(result: AblationResult) -> list[str]:
    """What a reader must know before anything else.

    In this order: simulated answers, alarms about the full prompt's answers, a judge's scores, a score at the floor,
    and a budget that ended the calls.
    """
    lines = []
    if result.study.model.provider == "simulated":
        lines.append(
            "Simulated: answers are drawn from effects that were set, and say nothing about a real model."
        )
    lines += [line] if (line := unknown_line(result.reach)) else []
    lines += result.alarms
    lines += [f"{result.study.task.related}."] if result.study.task.related else []
    lines += _outcome_lines(result)
    lines += _ambiguous_line(result)
    if result.judge:
        lines.append(f"The scores are a judge's. {result.judge}")
    if floor := untested_note(result):
        few = floor.startswith("not tested: ")
        remedy = "." if few else f". Read a few answers first (pcsuite report {result.log})."
        lines.append(f"Nothing could be tested: {floor.removeprefix('not tested: ')}{remedy}")
    if result.stopped:
        cause = "Too many failures" if result.too_many_failed else "The budget"
        lines.append(
            f"{cause} ended the calls ({result.stopped}): {result.items} of {result.study.count} items were answered"
            " in every arm, and only what was asked is judged."
        )
    return lines


def _ambiguous_line(result: AblationResult) -> list[str]:
    """How many answers can be read in two ways, by arm."""
    arms = [arm for arm in result.arms if arm.ambiguous]
    if not arms:
        return []
    answers = sum(arm.ambiguous for arm in arms)
    by_arm = ", ".join(f"{arm.id} {arm.ambiguous}" for arm in arms[:6])
    return [
        f"{counted(answers, 'answer')} can be read in two ways ({by_arm}): look at them first (pcsuite view"
        f" {result.log}); labels count after pcsuite rescore."
    ]


def _outcome_lines(result: AblationResult) -> list[str]:
    """Which arms lack answers, and which had other outcomes than one, each in a sentence."""
    lines = []
    lost = [arm for arm in result.arms if arm.missing]
    if lost:
        counts = join_words(
            [f"{arm.missing} of {sum(arm.outcomes.values())} in arm {arm.id}" for arm in lost]
        )
        rule = (
            "a verdict is one that holds whatever they would have been (--missing drop judges the answered items alone)"
            if result.study.request.missing != "drop"
            else "only what was answered is judged (--missing drop), as if they were missing by chance"
        )
        lines.append(f"Answers are missing, their calls failed or timed out: {counts}; {rule}.")
    ended = [
        f"{outcome_words(unanswered)} in arm {arm.id}"
        for arm in result.arms
        if (unanswered := {k: n for k, n in arm.unanswered.items() if k not in (*MISSING_OUTCOMES, "cut")})
    ]
    if ended:
        lines.append(
            f"Outcomes other than an answer, scored as the task scores an empty one: {join_words(ended)}."
        )
    return lines


def outcome_words(outcomes: Mapping[CallOutcome, int]) -> str:
    """``35 failed, 2 filtered``: what became of calls that were not answered; empty where all were."""
    words = {"too_long": "too long", "out_of_time": "out of time", "timed_out": "timed out"}
    return ", ".join(f"{count} {words.get(name, name)}" for name, count in sorted(outcomes.items()))


def items_words(items: int, clusters: int) -> str:
    """``60 items``, or ``60 items in 12 clusters`` where some are related."""
    related = 0 < clusters < items
    return counted(items, "item") + (f" in {counted(clusters, 'cluster')}" if related else "")


def margin_sentence(result: AblationResult) -> str:
    """What the margin means at this number of items, and what one lost call would do to a bound."""
    items, margin = result.items, result.study.request.margin
    if items < 2:
        return ""
    # Of clusters it depends on how alike their items turn out.
    least = least_margin(items) if result.clusters == items else None
    could = "" if least is None else f"; {items} items could show no margin below {least:.3f}"
    lost = f"One lost call would move a bound by {1 / items:.3f}."
    return f"Margin {margin:g}: “no worse” is a loss below it{could}. {lost}"


# The terminal.


def print_split(study: Study, console: Console) -> None:
    """The blocks, before anything is asked: how the prompt was split, what is kept and what is worth a look inside."""
    from rich.table import Table
    from rich.text import Text

    prompt = study.prompt
    console.print(f"{', '.join(map(str, study.request.prompts))}: split {prompt.method}", markup=False)
    table = Table("", "block", "tokens", "kept", "begins", box=None, pad_edge=False)
    structure = 0
    for number, block in enumerate(prompt.blocks, start=1):
        tokens = math.ceil(len(block.text) / CHARACTERS_PER_TOKEN)
        if block.kind == PLACE:
            continue
        if block.kind == STRUCTURE:
            structure += tokens
            continue
        table.add_row(str(number), block.name, str(tokens), block.pinned, Text(block.first_words))
    console.print(table)
    if structure:
        console.print(f"between them names, types and what is required, always kept: {structure} tokens")
    for line in split_lines(study):
        console.print(line, markup=False, highlight=False)


def split_lines(study: Study) -> list[str]:
    """What is said below the blocks: the variables, and blocks that hold several things."""
    prompt, lines = study.prompt, []
    if prompt.filled:
        note = f"; {prompt.note}" if prompt.note else ""
        lines.append(f"filled from the table: {', '.join(prompt.filled)}{note}")
    for name, count in prompt.mixed.items():
        lines.append(f"{name} has {count} parts: --into {name} tries them one by one")
    return lines


def print_preview(preview: Preview, console: Console) -> None:
    """``--show``: blocks, arms, rows, tokens, cost and reach."""
    study = preview.study
    clusters = study.clusters
    count, other = items_words(study.count, clusters), preview.if_unrelated
    print_split(study, console)
    lines = [
        study.task.reading,
        *([study.task.related] if study.task.related else []),
        f"model: {study.model_id} ({study.model.provider}), {study.request.regime}",
        *(
            f"beside: {other.model_id} ({other.model.provider}), {other.task.reading}"
            for other in study.beside
        ),
        f"design: {study.design.why}",
        f"arms: {', '.join(arm.id for arm in study.design.first)}"
        + (f"; then shams of {_found(study)}" if study.design.first != study.design.arms else ""),
        f"rows: {preview.rows:,} ({len(study.design.first)} arms × {_asked_words(study)}),"
        f"{f' {preview.done:,} of them done;' if preview.done else ''} about {preview.max_tokens:,} tokens"
        f" and {'an unknown cost' if preview.max_cost_usd is None else f'${preview.max_cost_usd:,.2f}'}"
        f" ({price_words(study.model)}) if every answer runs to its limit{_later_rows(study)}",
        *screening_lines(study),
        f"order of calls: {preview.prefix:.0%} of the characters sent stand at the beginning of the prompt before"
        f" ({preview.prefix_as_listed:.0%} in the design's own order)",
        f"reach with {count}, if {preview.forecast.flips:.1%} of answers flip by chance"
        f" ({preview.flips_from}):",
        f"  smallest effect found with 80 % power: {preview.forecast.detectable:.3f}"
        + (f" ({other.detectable:.3f} if related items answered independently)" if other else ""),
        f"  if scores are graded (differences of a standard deviation of {GRADED_SPREAD:g}):"
        f" {preview.forecast.detectable_any_shape:.2f} whatever their shape,"
        f" {preview.forecast.detectable_symmetric:.2f} {CLAUSE}",
        f"  a {'change' if study.design.changed else 'block'} without effect is found to be no worse"
        f"{'' if study.design.changed else ' without it'} (margin {study.request.margin:g}) in"
        f" {preview.forecast.finds_nulls:.0%} of studies" + (f" ({other.finds_nulls:.0%})" if other else ""),
        f"  one lost call would move a bound by {1 / study.count:.3f}",
    ]
    if study.request.trim and study.chosen_on < study.count:
        least = least_margin(count_clusters(study.items[study.chosen_on :]))
        lines.append(
            f"  a shorter prompt is chosen on {study.chosen_on} items and confirmed on {study.count - study.chosen_on},"
            f" which can confirm {'nothing' if least is None else f'no less than {least:.2f}'}"
        )
    if (other or preview.forecast).items < preview.forecast.least_for_no_worse:
        lines.append(
            f"  with fewer than {preview.forecast.least_for_no_worse} items even a block that changes no answer cannot"
            " be shown to be no worse at this margin: give more items or a larger --margin"
        )
    if reason := too_few_clusters(clusters) if clusters < study.count else "":
        lines.append(f"  nothing will be tested: {reason.removeprefix('not tested: ')}")
    for line in lines:
        console.print(line, markup=False, highlight=False)


def noise_forecast_lines(found: NoiseForecast) -> list[str]:
    """What the A/A arm says before the rest is paid for: the noise, what can be shown at it, and the price."""
    study = found.study
    size = f"{items_words(study.count, study.clusters)}" + (
        f" × {found.replicates}" if found.replicates > 1 else ""
    )
    moved = (
        f"scores moved by {math.sqrt(found.noise):.3f} (root mean square)"
        if found.graded or found.replicates > 1
        else f"{found.noise:.1%} of the scores moved"
    )
    price = f"about {hours_words(found.hours)}" + (f" and ${found.usd:,.2f}" if found.usd else "")
    lines = [
        f"A/A on {counted(found.asked, 'item')}: {moved} by chance alone. At this noise {size} can show"
        f" {found.detectable:.2f} of each of {len(study.free)} blocks; {price} for the {found.rows_left:,} rows left.",
    ]
    if not found.affordable:
        left = [
            *([f"${found.usd_left:,.2f}"] if found.usd_left is not None else []),
            *([hours_words(found.hours_left)] if found.hours_left is not None else []),
        ]
        lines.append(
            f"The budget ends it before ({' and '.join(left)} left): what is answered until then is judged."
        )
    if found.another_replicate is not None:
        lines.append(
            f"One more answer an item (--seeds {found.replicates + 1}) would show {found.another_replicate:.2f}; as"
            " many calls on further items would show no less, and say more of other items."
        )
    return lines


def hours_words(hours: float) -> str:
    """``3.2 h``, ``12 min`` or ``40 s``."""
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 1 else f"{hours * 3600:.0f} s"


def screening_lines(study: Study) -> list[str]:
    """Of a screening: how many prompts it takes at worst and on average, against leaving out every block by itself."""
    if study.design.name != "groups":
        return []
    free, count = study.free, study.count
    some = max(1, round(len(free) / 6))
    expected = {mattering: expected_arms(free, mattering) for mattering in (0, some, round(len(free) / 2))}
    on_average = ", ".join(
        f"{arms:.0f} where {mattering or 'none'} of {len(free)} blocks matter{'s' if mattering == 1 else ''}"
        for mattering, arms in expected.items()
    )
    return [
        f"screening: {on_average} on average, at most {most_arms(free)} prompts with a group or block left out"
        f" ({count} rows each); every block by itself takes {len(free)}",
    ]


def _found(study: Study) -> str:
    """Of what shams are asked."""
    return "changes that make it better or worse" if study.design.changed else "blocks that help or hurt"


def _later_rows(study: Study) -> str:
    """What is asked after the arms: shams of changes, or shorter prompts."""
    if study.design.changed:
        return (
            f"; shams add up to {sum(arm.kind == 'sham' for arm in study.design.arms) * study.count:,} rows"
        )
    most = (len(study.free) + 4) * sum(one.chosen_on for one in study.each)
    return f"; looking for a shorter prompt adds up to {most:,} rows"


def _asked_words(study: Study) -> str:
    """``60 items``, or ``60 items + 40 items`` of several models and tables."""
    return " + ".join(f"{one.count} items" for one in study.each)


def print_ablation(result: AblationResult, console: Console) -> None:
    """The prompt in the terminal, each block tinted, and what follows from it.

    Dropped blocks are struck through. Long texts are cut to 70 characters.
    """
    from rich.style import Style
    from rich.table import Table
    from rich.text import Text

    for line in notices(result):
        console.print(line, markup=False)
    table = Table("", "block", "verdict", "effect on the score", "tokens", "text", box=None, pad_edge=False)
    for view in block_views(result):
        style = Style(
            color=view.tint.colour if view.verdict != "pinned" else None, bold=view.tint.strength > 0.5
        )
        name = Text(view.name, style=style + Style(strike=view.dropped))
        words = " ".join(view.text.split())
        shown = Text(words if len(words) <= 70 else words[:69] + "…", style=style)
        table.add_row(view.symbol, name, view.words or view.verdict, view.effect, str(view.tokens), shown)
    console.print(table)
    if any(arm.unanswered for arm in result.arms):
        arms = Table("arm", "calls", "not answered", box=None, pad_edge=False)
        for arm in result.arms:
            if arm.unanswered:
                arms.add_row(Text(arm.id), str(sum(arm.outcomes.values())), outcome_words(arm.unanswered))
        console.print(arms)
    for line in sentences(result):
        console.print(line, markup=False, highlight=False)


def sentences(result: AblationResult) -> list[str]:
    """All that is said beside the picture, a sentence each."""
    lines = [headline(result), *group_sentences(result)]
    lines += [f"{entry.words} ({interval_words(entry.estimate)})." for entry in result.interactions]
    parts = result.study.prompt.mixed
    lines += [
        f"{entry.block} {entry.verdict} and has {parts[entry.block]} parts: --into {entry.block} says which of them."
        for entry in result.verdicts
        if entry.verdict in ("helps", "hurts") and entry.block in parts
    ]
    lines += amount_lines(result)
    lines += [f"{entry.block}: {entry.words}." for entry in result.adherence]
    margin = margin_sentence(result)
    lines += [*undecided_lines(result), *([margin] if margin else [])]
    lines += posterior_lines(result)
    lines += yearly_lines(result)
    if (covariate := result.study.covariate) is not None:
        lines.append(covariate_sentence(covariate, result.study.count, result.adjusted.values()))
    return [*lines, noise_sentence(result), trim_sentence(result)]


def yearly_lines(result: AblationResult) -> list[str]:
    """What can be saved in a year, where a number of calls a day was given."""
    calls = result.study.request.calls_per_day
    if calls is None:
        return []
    if not result.yearly:
        droppable = any(entry.verdict == "no worse without it" for entry in result.verdicts)
        why = "what calls cost is not known" if droppable else "no block was shown to be droppable"
        return [f"Nothing saved can be told at {calls:,.10g} calls a day: {why}."]
    each = "; ".join(saving.words for saving in result.yearly)
    return [f"Saved at {calls:,.10g} calls a day by leaving out, each alone: {each}."]


def posterior_lines(result: AblationResult) -> list[str]:
    """The probabilities of each block, where they were asked for."""
    if not result.study.request.posterior:
        return []
    return probability_lines(verdict_records(result), lambda record: record["block"])


def undecided_lines(result: AblationResult) -> list[str]:
    """What would decide each block that is undecided.

    That is a number of further items, were the effect as seen; none would do for an effect about the margin.
    """
    return [
        f"{entry.block}: {_undecided(entry)}." for entry in result.verdicts if entry.verdict == "undecided"
    ]


# Files.


def markdown(result: AblationResult) -> str:
    """The picture for a pull request: a table of blocks, the sentences, and the trimmed prompt as a diff.

    The diff is there only where blocks were confirmed to be droppable.
    """
    study = result.study
    lines = [
        f"## What each part of `{study.request.prompt.name}` is worth",
        "",
        f"{items_words(result.items, result.clusters)}, {study.model_id}, {study.request.regime},"
        f" margin {study.request.margin:g}.",
        "",
        *(f"> {line}" for line in notices(result)),
        "",
        "| | block | verdict | effect on the score (95 %) | tokens | begins |",
        "|---|---|---|---|---:|---|",
    ]
    for view in block_views(result):
        begins = " ".join(view.text.split())[:60].replace("|", "\\|").replace("`", "'")
        name = f"~~{view.name}~~" if view.dropped else f"**{view.name}**"
        lines.append(
            f"| {view.symbol} | {name} | {view.words or view.verdict} | {view.effect} | {view.tokens} | `{begins}` |"
        )
    lines += ["", *(f"- {line}" for line in sentences(result))]
    if result.trim is not None and result.trim.dropped:
        lines += [
            "",
            "```diff",
            *(("- " if gone else "  ") + line for gone, line in diff_lines(result)),
            "```",
        ]
    return "\n".join(lines) + "\n"


def diff_lines(result: AblationResult) -> list[tuple[bool, str]]:
    """The prompt line by line, and whether each is dropped."""
    return [(view.dropped, line) for view in block_views(result) for line in [*view.text.splitlines(), ""]]


def blocks_table(result: AblationResult) -> Table:
    """``blocks.csv``: one row a block, with probabilities where they were asked for."""
    records = verdict_records(result)
    return Table.of(BLOCKS.extended(PROBABILITIES) if result.study.request.posterior else BLOCKS, records)


def block_probabilities(result: AblationResult) -> dict[str, dict[str, float | None]]:
    """By block: the probability that it helps, and that it matters less than the margin; shrunk over all blocks."""
    margin = result.study.request.margin
    effects = [entry.alone or entry.effect for entry in result.verdicts]
    # Every block is held against the one full prompt.
    related = shared_correlations([{FULL: 1.0, entry.block: -1.0} for entry in result.verdicts])
    posteriors = shrunken_effects(effects, margin=margin, correlations=related)
    pairs = zip(result.verdicts, posteriors, strict=True)
    return {entry.block: probability_columns(posterior, margin) for entry, posterior in pairs}


def verdict_records(result: AblationResult) -> list[dict[str, Any]]:
    """One record a block, as ``blocks.csv`` and ``ablation.json`` have it.

    Their keys are the columns of :data:`BLOCKS`; figures that could not be estimated are ``None``.
    """
    records = []
    probabilities = block_probabilities(result) if result.study.request.posterior else {}
    for entry in result.verdicts:
        record: dict[str, Any] = {
            "block": entry.block,
            "verdict": entry.verdict,
            "note": entry.note,
            "clause": entry.clause,
            "tentative": entry.tentative,
            **limits_record("effect", entry.effect),
            "alone_low": limits_record("alone", entry.alone)["alone_low"],
            "alone_high": limits_record("alone", entry.alone)["alone_high"],
            "p_holm": entry.p_value,
            **limits_record("against_sham", entry.against_sham),
            "no_worse": entry.no_worse,
            "margin": result.study.request.margin,
            "missing": entry.missing,
            "effect_least": entry.least,
            "effect_most": entry.most,
            "ambiguous": entry.ambiguous,
            "on_answered": entry.on_answered,
            "more_items": entry.more_items,
            "tokens": result.block_tokens[entry.block],
            "dropped": result.trim is not None and entry.block in result.trim.dropped,
        }
        adjusted = result.adjusted.get(entry.block)
        record |= limits_record("adjusted", None if adjusted is None else adjusted.estimate)
        for name in MEASURES:
            record |= limits_record(name, result.measures[entry.block][name])
        record |= {**limits_record("lenient_effect", entry.lenient), "lenient_verdict": entry.lenient_verdict}
        record["form"] = entry.form or None
        records.append(record | probabilities.get(entry.block, {}))
    return records


def limits_record(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """An estimate under a name, its limits under that with ``_low`` and ``_high``; ``None`` where it is undefined."""
    values = (
        (None, None, None)
        if estimate is None or not estimate.defined
        else (estimate.value, estimate.low, estimate.high)
    )
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def document(result: AblationResult) -> dict[str, Any]:
    """Everything an ablation found, as plain values.

    It is what ``ablation.json`` holds. Figures that are no number are ``None``, so that any JSON reader takes it.
    """
    study = result.study
    return {
        "prompt": str(study.request.prompt),
        **({"prompts": [str(path) for path in study.request.prompts]} if study.request.more_prompts else {}),
        "model": study.model_id,
        "task": study.task.id,
        "items": result.items,
        "clusters": result.clusters,
        "related": study.task.related,
        "margin": study.request.margin,
        "least_margin": least_margin(result.items) if result.clusters == result.items > 1 else None,
        "missing": study.request.missing,
        "assume": study.request.assume,
        "design": study.design.why,
        "says": {
            "answer": headline(result),
            "trimmed": trim_sentence(result),
            "margin": margin_sentence(result),
            "control": noise_sentence(result),
        },
        "verdicts": verdict_records(result),
        "amounts": [
            {
                "block": change.block,
                "measure": change.measure,
                "verdict": change.verdict,
                "clause": change.clause,
                "note": change.note,
                "p_holm": _json(change.p_value),
            }
            | limits_record("change", change.change)
            for change in result.amounts
        ],
        "covariate": None
        if study.covariate is None
        else {
            "source": study.covariate.source,
            "items": len(study.covariate.values),
            "says": covariate_sentence(study.covariate, study.count, result.adjusted.values()),
            "adjusted": {
                name: limits_record("effect", entry.estimate)
                | {"slope": entry.slope, "saved": _json(entry.saved)}
                for name, entry in result.adjusted.items()
            },
        },
        "groups": [
            {
                "blocks": list(entry.blocks),
                "verdict": entry.verdict.verdict,
                "note": entry.verdict.note,
                "clause": entry.verdict.clause,
                "says": group_sentence(result, entry) if len(entry.blocks) > 1 else "",
                "no_worse": entry.verdict.no_worse,
                "split": entry.split,
                "p": entry.verdict.p_value,
                "lenient_verdict": entry.verdict.lenient_verdict,
                "form": entry.verdict.form or None,
            }
            | limits_record("effect", entry.verdict.effect)
            for entry in result.groups
        ],
        "flips": {name: {"with": list(a), "without": list(b)} for name, (a, b) in result.flips.items()},
        "interactions": [
            {"blocks": [entry.first, entry.second], "words": entry.words, "p_holm": entry.p_value}
            | limits_record("estimate", entry.estimate)
            for entry in result.interactions
        ],
        "attribution": [
            {"block": entry.operator, "method": entry.method, "p": entry.test.p_value}
            | limits_record("effect", entry.effect)
            for entry in result.attribution
        ],
        "again": {
            **limits_record("difference", result.noise),
            "p": result.noise_p,
            "flips": result.noise_flips,
        },
        "trim": None
        if result.trim is None
        else {
            "chosen": list(result.trim.chosen),
            "dropped": list(result.trim.dropped),
            "steps": [
                {
                    "dropped": list(step.dropped),
                    "confirmed": step.confirmed,
                    "items": step.difference.n,
                    "clusters": step.clusters,
                    "missing": step.missing,
                }
                | limits_record("difference", step.difference)
                | {
                    name: value
                    for name, value in limits_record("simultaneous", step.simultaneous).items()
                    if name != "simultaneous"
                }
                for step in result.trim.steps
            ],
            "saved": {
                "tokens_per_1000": _json(result.saved_tokens),
                "usd_per_1000": _json(result.saved_usd),
            },
        },
        "arms": [
            {
                "id": arm.id,
                "operators": list(arm.operators),
                "items": arm.items,
                "score": _json(arm.score),
                "missing": arm.missing,
                "outcomes": dict(arm.outcomes),
                "ambiguous": arm.ambiguous,
            }
            | {name: _json(value) for name, value in arm.measures.items()}
            for arm in result.arms
        ],
        "reach": [found.record() for found in result.reach],
        "adherence": [entry.record() for entry in result.adherence],
        "yearly": [saving.record() for saving in result.yearly],
        "calls_per_day": study.request.calls_per_day,
        "stopped": result.stopped,
        "judge": result.judge,
        "control": AGAIN,
    }


def _json(value: float) -> float | None:
    return value if math.isfinite(value) else None
