"""What is said of an ablation in words: the answer, what must be known first, and what follows for each block.

Terminal, Markdown, page and JSON all say these; nothing else words a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pcsuite._util.text import counted, p_text, shorten, signed, signed_interval
from pcsuite.ablation.amounts import AmountChange
from pcsuite.ablation.arm_measures import MEASURES
from pcsuite.ablation.covariate import covariate_sentence
from pcsuite.ablation.reach import unknown_line
from pcsuite.ablation.reading import SIMULATED
from pcsuite.ablation.records import verdict_records
from pcsuite.ablation.replicates import replicates_sentence
from pcsuite.ablation.request import AblationRequest
from pcsuite.ablation.result import AblationResult
from pcsuite.ablation.screen import GroupVerdict
from pcsuite.ablation.study import Study
from pcsuite.ablation.trim import Trim
from pcsuite.ablation.verdicts import NOISE_ALPHA, BlockVerdict, least_margin
from pcsuite.analysis.probabilities import probability_lines
from pcsuite.contrasts import CLAUSE
from pcsuite.errors import MISSING_OUTCOMES, CallOutcome
from pcsuite.reporting.wording import join_words
from pcsuite.stats import Estimate

_LONGEST_REASON = 500
"""Characters of an error that is quoted."""
_LEAST_SEEN = 0.005
"""Relative change below which an amount is as it was: what would be told as 0 %."""
SIMULATED_NOTICE = (
    "Simulated: answers are drawn from effects that were set, and say nothing about a real model."
)


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
    lines += named_lines(result)
    lines += amount_lines(result)
    lines += [f"{entry.block}: {entry.words}." for entry in result.adherence]
    margin = margin_sentence(result)
    lines += [*undecided_lines(result), *([margin] if margin else [])]
    lines += posterior_lines(result)
    lines += yearly_lines(result)
    if (covariate := result.study.covariate) is not None:
        lines.append(covariate_sentence(covariate, result.study.count, result.adjusted.values()))
    return [*lines, noise_sentence(result), trim_sentence(result)]


def notices(result: AblationResult) -> list[str]:
    """What a reader must know before anything else.

    In this order: simulated answers, alarms about the full prompt's answers, a judge's scores, a score at the floor,
    and a budget that ended the calls.
    """
    lines = []
    if result.study.model.provider == SIMULATED:
        lines.append(SIMULATED_NOTICE)
    lines += [line] if (line := unknown_line(result.reach)) else []
    lines += result.alarms
    lines += [f"{result.study.task.related}."] if result.study.task.related else []
    lines += _outcome_lines(result)
    lines += _ambiguous_line(result)
    if result.judge:
        lines.append(f"The scores are a judge's. {result.judge}")
    if floor := untested_note(result):
        no_answers = floor.startswith("not tested: ") or not any(arm.items for arm in result.arms)
        remedy = "." if no_answers else f". Read a few answers first (pcsuite report {result.log})."
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
        if result.failure:
            lines.append(f"Why calls failed, most often: {shorten(result.failure, _LONGEST_REASON)}")
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


def group_sentences(result: AblationResult) -> list[str]:
    """A sentence on every group that something is said of."""
    return [group_sentence(result, entry) for entry in _told(result)]


def group_sentence(result: AblationResult, entry: GroupVerdict) -> str:
    """What is known of a group of blocks, and what is not."""
    these, change = join_words(entry.blocks), interval_words(entry.verdict.effect, 3)
    said = {
        "helps": f"the {len(entry.blocks)} together help",
        "hurts": f"the {len(entry.blocks)} together hurt",
        "no worse without it": f"these {len(entry.blocks)} together: no worse without them"
        f" ({margin_words(result.study.request.margin, entry.verdict.most_lost)})",
        "undecided": f"these {len(entry.blocks)} together are undecided ({undecided_words(entry.verdict)})",
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
    shown = (
        "" if step.most_lost is None else f" (it {margin_words(margin, step.most_lost).partition(',')[0]})"
    )
    saved = saved_words(result)
    change = interval_words(step.simultaneous or step.difference, 3)
    return (
        f"Without {join_words(step.dropped)} the score changes by {change}"
        f" on {items_words(step.difference.n, step.clusters)} that had no part in choosing: not worse by more than"
        f" {margin:g}{shown}." + (f" It saves {saved} per 1,000 calls." if saved else "")
    )


def saved_words(result: AblationResult) -> str:
    """``1,200 prompt tokens and $0.0300``: what the trimmed prompt saves; empty where the system does not say what it
    takes."""
    saved = []
    if math.isfinite(result.saved_tokens):
        saved.append(f"{result.saved_tokens:,.0f} {MEASURES[result.study.token_measure]}")
    if result.saved_usd and math.isfinite(result.saved_usd):
        saved.append(f"${result.saved_usd:,.4f}")
    return " and ".join(saved)


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
    study = result.study
    more = ""
    if decided := replicates_sentence(study):
        more = f" {decided}"
    elif result.noise_flips and study.varies and study.answers == 1:
        more = f" Several answers an item lessen that: {seeds_words(study, 3)}."
    return (
        f"A/A (the full prompt again with one more line end): {interval_words(result.noise, 3)},"
        f" p {p_text(result.noise_p)}: {verdict}. {result.noise_flips:.1%} of the scores moved by chance alone.{more}"
    )


def seeds_words(study: Study, answers: int) -> str:
    """The flags that have every item answered so often."""
    sampled = next((name for name, regime in study.base.regimes.items() if not regime.greedy), "D1")
    greedy = study.base.regimes[study.request.regime].greedy and not study.varies
    return f"{f'--regime {sampled} ' if greedy else ''}--seeds {answers}"


def margin_sentence(result: AblationResult) -> str:
    """What the margin means at this number of items, and what one lost call would do to a bound."""
    items, margin = result.items, result.study.request.margin
    if items < 2:
        return ""
    # Of clusters it depends on how alike their items turn out.
    least = least_margin(items) if result.clusters == items else None
    rests = ""
    if any(
        entry.verdict == "no worse without it" and entry.most_lost is not None for entry in result.verdicts
    ):
        rests = (
            ", shown by the limit beside it (one-sided, 95 %, for a block alone), not by the wider intervals"
        )
    could = "" if least is None else f"; {items} items could show no margin below {least:.3f}"
    lost = f"One lost call would move a bound by {1 / items:.3f}."
    return f"Margin {margin:g}: “no worse” is a loss below it{rests}{could}. {lost}"


def limits_words(request: AblationRequest) -> str:
    """What the limits of blocks are, and what p is corrected for."""
    if not request.until:
        return "intervals are 95 %; p is Holm's, over all blocks"
    whose = "confidence sequences" if request.looks is None else f"{request.looks} planned looks"
    return f"limits are those of {whose}, which hold at every look and for all blocks together"


def amount_lines(result: AblationResult) -> list[str]:
    """What leaving out a block or group saves or costs, a line for each, after the verdict on the score.

    What was seen and is not claimed is left to the table of blocks; where something else is in the way, that is said,
    once for all blocks with the same reason.
    """
    verdicts = {entry.block: entry for entry in result.verdicts}
    verdicts |= {entry.name: entry.verdict for entry in result.groups}
    lines = []
    unclaimed: dict[str, list[str]] = {}
    for name in dict.fromkeys(change.block for change in result.amounts):
        of_block = [change for change in result.amounts if change.block == name]
        claims = [change for change in of_block if change.verdict in ("less", "more")]
        if claims:
            clause = next((f", {change.clause}" for change in claims if change.clause), "")
            said = ", ".join(map(amount_words, claims))
            lines.append(f"{name}: {verdict_words(result, verdicts[name])}; without it {said}{clause}.")
        for one in of_block:
            if one.note and abs(one.change.value) >= _LEAST_SEEN:
                unclaimed.setdefault(one.note, []).append(f"{one.words} without {name}")
    return lines + [f"Seen, not claimed: {join_words(seen)} ({note})." for note, seen in unclaimed.items()]


def named_lines(result: AblationResult) -> list[str]:
    """What blocks do to each further score that the scorer gives by name, a line for each score."""
    margin, lines = result.study.request.margin, []
    for found in result.named:
        said = [
            f"{entry.block} {entry.verdict}, {interval_words(entry.effect)}"
            for entry in found.verdicts
            if entry.verdict not in ("no worse without it", "undecided", "not tested")
        ]
        for verdict, words in (
            ("no worse without it", f"no worse without {{}} alone (margin {margin:g})"),
            ("undecided", "{} undecided"),
            ("not tested", "{} not tested"),
        ):
            blocks = [entry.block for entry in found.verdicts if entry.verdict == verdict]
            said += [words.format(join_words(blocks))] if blocks else []
        lines.append(f"Score {found.score} ({found.full:.2f} with the full prompt): {'; '.join(said)}.")
    return lines


def amount_words(change: AmountChange) -> str:
    """A change of an amount with its limits: ``18% fewer steps [-25%, -11%]``."""
    return f"{change.words} [{change.change.low:+.0%}, {change.change.high:+.0%}]"


def undecided_lines(result: AblationResult) -> list[str]:
    """What would decide each block that is undecided.

    That is a number of further items, were the effect as seen; none would do for an effect about the margin.
    """
    return [
        f"{entry.block}: {undecided_words(entry)}."
        for entry in result.verdicts
        if entry.verdict == "undecided"
    ]


def undecided_words(entry: BlockVerdict) -> str:
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


def posterior_lines(result: AblationResult) -> list[str]:
    """The probabilities of each block, where they were asked for."""
    if not result.study.request.posterior:
        return []
    return probability_lines(verdict_records(result), lambda record: record["block"])


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


def verdict_words(result: AblationResult, entry: BlockVerdict) -> str:
    """A verdict as it is shown: *no worse* means nothing without the margin it is about."""
    words = entry.verdict if entry.tentative is None else f"{entry.verdict} ({entry.tentative}, {CLAUSE})"
    if entry.verdict == "no worse without it":
        words = f"{entry.verdict} ({margin_words(result.study.request.margin, entry.most_lost)})"
    words = f"{words}, {entry.clause}" if entry.clause else words
    return f"{words}: {form_words(entry)}" if entry.form else words


def margin_words(margin: float, most_lost: float | None) -> str:
    """The margin, with the limit by which a loss of it is ruled out, rounded away from what is claimed.

    >>> margin_words(0.1, 0.09503), margin_words(0.1, -0.0002), margin_words(0.1, None)
    ('loses less than 0.096, margin 0.1', 'loses nothing, margin 0.1', 'margin 0.1')
    """
    if most_lost is None:
        return f"margin {margin:g}"
    # Rounded up the limit must not seem to exceed a margin of more decimals.
    digits = max(3, len(f"{margin:.10g}".partition(".")[2]))
    limit = math.ceil(round(most_lost * 10**digits, 6)) / 10**digits
    return f"loses {f'less than {limit:.{digits}f}' if limit > 0 else 'nothing'}, margin {margin:g}"


def form_words(entry: BlockVerdict) -> str:
    """``the form, not the answer (+0.51 strictly read, -0.03 leniently)``; empty where both readings agree."""
    if not entry.form or entry.lenient is None:
        return ""
    return (
        f"{entry.form} ({signed(entry.effect.value)} strictly read, {signed(entry.lenient.value)} leniently)"
    )


def interval_words(estimate: Estimate, digits: int = 2) -> str:
    """An estimate with its interval, signed: ``+0.12 [+0.03, +0.21]``.

    ``n/a`` where nothing could be estimated.
    """
    return signed_interval(estimate.value, estimate.low, estimate.high, digits)


def outcome_words(outcomes: Mapping[CallOutcome, int]) -> str:
    """``35 failed, 2 filtered``: what became of calls that were not answered; empty where all were."""
    words = {"too_long": "too long", "out_of_time": "out of time", "timed_out": "timed out"}
    return ", ".join(f"{count} {words.get(name, name)}" for name, count in sorted(outcomes.items()))


def items_words(items: int, clusters: int) -> str:
    """``60 items``, or ``60 items in 12 clusters`` where some are related."""
    related = 0 < clusters < items
    return counted(items, "item") + (f" in {counted(clusters, 'cluster')}" if related else "")
