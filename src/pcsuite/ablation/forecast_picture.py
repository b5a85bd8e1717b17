"""What is printed before an ablation asks: the split, what it takes and can find, and what its A/A arm says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pcsuite._util.text import counted
from pcsuite.ablation.forecast import GRADED_SPREAD, NoiseForecast, Preview, Rest
from pcsuite.ablation.replicates import OFTEN, replicates_sentence
from pcsuite.ablation.screen import expected_arms, most_arms
from pcsuite.ablation.sentences import items_words, seeds_words
from pcsuite.ablation.study import Study
from pcsuite.ablation.verdicts import least_margin
from pcsuite.config.prices import price_words
from pcsuite.contrasts import CLAUSE
from pcsuite.data.clusters import count_clusters
from pcsuite.prompts.prompt import CHARACTERS_PER_TOKEN
from pcsuite.prompts.prompt_files import PLACE
from pcsuite.prompts.tools import STRUCTURE
from pcsuite.stats.clustered import too_few_clusters

if TYPE_CHECKING:
    from rich.console import Console


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
        + (f"; then shams of {_sham_subjects(study)}" if study.design.first != study.design.arms else ""),
        f"rows: {preview.rows:,} ({len(study.design.first)} arms × {_items_of_each(study)}),"
        f"{f' {preview.done:,} of them done;' if preview.done else ''} {_takes(preview)}{_later_rows(study)}",
        *screening_lines(study),
        *_replicates_lines(study),
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


def _takes(preview: Preview) -> str:
    """What the rows take at most; of a target only itself can say it."""
    study = preview.study
    if study.asks_target and preview.max_cost_usd is None:
        return (
            "the target says what each takes (tokens, cost_usd): --noise-first 10 measures it, with its time"
        )
    cost = "an unknown cost" if preview.max_cost_usd is None else f"${preview.max_cost_usd:,.2f}"
    return (
        f"about {preview.max_tokens:,} tokens and {cost} ({price_words(study.model)})"
        " if every answer runs to its limit"
    )


def _sham_subjects(study: Study) -> str:
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


def _replicates_lines(study: Study) -> list[str]:
    """How often items are answered, or on what that hangs."""
    if not study.by_noise:
        return []
    if study.replicates is not None:
        return [line for one in study.each if (line := replicates_sentence(one))]
    return [
        f"answers an item: 1, or {OFTEN} (as many times the rows) where the full prompt, asked again on the first"
        f" {study.noise_items} items, scores otherwise on any (--seeds 1 for once)"
    ]


def _items_of_each(study: Study) -> str:
    """``60 items``, or ``60 items + 40 items × 2`` of several models and tables."""
    return " + ".join(
        f"{one.count} items" + (f" × {one.answers}" if one.answers > 1 else "") for one in study.each
    )


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


def noise_forecast_lines(forecast: NoiseForecast) -> list[str]:
    """What the A/A arm says before the rest is paid for: the noise, what can be shown at it, and the price."""
    study = forecast.study
    decision = replicates_sentence(study)
    if study.request.until:  # how many rows are left, the looks decide
        return [decision] if decision else []
    size = f"{items_words(study.count, study.clusters)}" + (
        f" × {forecast.replicates}" if forecast.replicates > 1 else ""
    )
    moved = (
        f"scores moved by {math.sqrt(forecast.noise):.3f} (root mean square)"
        if forecast.graded or forecast.measured > 1
        else f"{forecast.noise:.1%} of the scores moved"
    )
    price = _price_words(forecast)
    lines = [
        *([decision] if decision else []),
        f"A/A on {counted(forecast.asked, 'item')}: {moved} by chance alone. At this noise {size} can show"
        f" {forecast.detectable:.2f} of each of {len(study.free)} blocks; {price} for the"
        f" {forecast.rows_left:,} rows left.",
    ]
    if not forecast.affordable:
        lines.append(
            f"The budget ends it before ({_left_words(forecast)} left): what is answered until then is judged."
        )
    if forecast.another_replicate is not None:
        flags = seeds_words(forecast.study, forecast.replicates + 1)
        lines.append(
            f"One more answer an item ({flags}) would show {forecast.another_replicate:.2f};"
            " as many calls on further items would show no less, and say more of other items."
        )
    return lines


def over_budget_words(study: Study, rest: Rest) -> str:
    """``two answers an item take about 3.1 h and $14.00 more and the budget has $7.00 left``."""
    most = "up to " if study.request.until else ""
    return f"two answers an item take {most}{_price_words(rest)} more and the budget has {_left_words(rest)} left"


def _price_words(rest: Rest) -> str:
    return f"about {hours_words(rest.hours)}" + (f" and ${rest.usd:,.2f}" if rest.usd else "")


def _left_words(rest: Rest) -> str:
    left = [
        *([f"${rest.usd_left:,.2f}"] if rest.usd_left is not None else []),
        *([hours_words(rest.hours_left)] if rest.hours_left is not None else []),
    ]
    return " and ".join(left)


def hours_words(hours: float) -> str:
    """``3.2 h``, ``12 min`` or ``40 s``."""
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 1 else f"{hours * 3600:.0f} s"
