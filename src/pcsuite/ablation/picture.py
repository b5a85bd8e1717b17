"""The picture of an ablation: the prompt with each block tinted by its worth; in a terminal and as Markdown.

Blue helps and orange hurts, told apart with any colour vision; sign and interval stand in words beside them, and what
is undecided is hatched. The page (:mod:`pcsuite.ablation.page`) draws the same views.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pcsuite._util.text import counted, p_text
from pcsuite.ablation.arm_measures import MEASURES, TARGET_MEASURES
from pcsuite.ablation.result import AblationResult
from pcsuite.ablation.screen import TOGETHER, unsplit
from pcsuite.ablation.sentences import (
    group_sentence,
    interval_words,
    items_words,
    notices,
    outcome_words,
    sentences,
    undecided_words,
    verdict_words,
)
from pcsuite.ablation.verdicts import BlockVerdict
from pcsuite.config.prices import price_of
from pcsuite.pages.palette import NEUTRAL, SYMBOLS, Tint, block_tint
from pcsuite.prompts.prompt_files import PLACE
from pcsuite.prompts.verbatim import decode_chat
from pcsuite.stats import Estimate

if TYPE_CHECKING:
    from rich.console import Console


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


def block_views(result: AblationResult) -> list[BlockView]:
    """Every block of the prompt in order, with what is said of it."""
    verdicts = {entry.block: entry for entry in result.verdicts}
    largest = max((abs(entry.effect.value) for entry in result.verdicts if entry.effect.defined), default=0.0)
    dropped = result.trim.dropped if result.trim is not None else ()
    dropped = (*dropped, *result.study.prompt.emptied(dropped))
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


_FLIPS_SHOWN = 5


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
        yield undecided_words(entry)
    for name, label in shown_measures(result).items():
        change = result.measures[entry.block][name]
        if change.defined and (change.value or change.low or change.high):
            yield f"{label}: {measure_words(name, change)}"
    gained, lost = result.flips[entry.block]
    yield f"right only with it: {_item_names(gained)}"
    yield f"right only without it: {_item_names(lost)}"


def _item_names(names: Sequence[str]) -> str:
    if not names:
        return "no item"
    more = f" and {len(names) - _FLIPS_SHOWN} more" if len(names) > _FLIPS_SHOWN else ""
    return f"{counted(len(names), 'item')} ({', '.join(names[:_FLIPS_SHOWN])}{more})"


def measure_words(name: str, change: Estimate) -> str:
    """What a block changes in one of the :data:`MEASURES`: shares and costs have more decimals than counts."""
    return interval_words(change, 3 if name in ("answered", "cost_usd") else 1)


def shown_measures(result: AblationResult) -> dict[str, str]:
    """The :data:`MEASURES` that are shown of a result: those of targets alone only where one was asked."""
    hidden = () if result.study.asks_target else TARGET_MEASURES
    return {name: label for name, label in MEASURES.items() if name not in hidden}


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


def markdown(result: AblationResult) -> str:
    """The picture for a pull request: a table of blocks, the sentences, and the trimmed prompt as a diff.

    The diff is there only where blocks were confirmed to be droppable.
    """
    study = result.study
    lines = [
        f"## What each part of `{study.request.title}` is worth",
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
