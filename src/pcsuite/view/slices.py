"""Effects of whatever is looked at: recomputed from the scores of the items that a filter lets through."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pcsuite._util.hashing import named_rng
from pcsuite.stats.bootstrap import bootstrap_mean, paired_bootstrap
from pcsuite.stats.permutation import benjamini_hochberg, sign_flip_test

QUICK_FLIPS = 2_000
"""Sign flips of a slice: enough to look by; a report takes more."""


@dataclass(slots=True)
class SliceEffect:
    """What a column changed against the base, on the items of a slice."""

    column: str
    n: int
    control: float
    treated: float
    value: float
    low: float
    high: float
    p_value: float
    p_bh: float = float("nan")
    gained: int = 0
    lost: int = 0

    @property
    def holds(self) -> bool:
        """Whether it holds after correction over the columns."""
        return self.p_bh <= 0.05


def slice_effects(
    scores: Mapping[str, Mapping[str, float]], base: str, columns: Sequence[str]
) -> list[SliceEffect]:
    """The effect of each column against ``base`` on the items that both have, corrected over the columns.

    A slice that was chosen after looking at the scores explores: its p-values hold for slices chosen beforehand.

    >>> found = slice_effects({"C0": {"a": 0, "b": 0}, "C1": {"a": 1, "b": 0}}, "C0", ["C1"])
    >>> found[0].value, found[0].gained
    (0.5, 1)
    """
    found = []
    control = scores.get(base, {})
    for column in columns:
        treated = scores.get(column, {})
        shared = sorted(control.keys() & treated.keys())
        if column == base or not shared:
            continue
        first = np.array([treated[item] for item in shared], dtype=np.float64)
        second = np.array([control[item] for item in shared], dtype=np.float64)
        deltas = first - second
        rng = named_rng("view", base, column)
        interval = paired_bootstrap(first, second, rng=rng, resamples=QUICK_FLIPS)
        p_value = sign_flip_test(deltas, rng=rng).p_value
        levels = float(second.mean()), float(first.mean())
        limits = interval.value, interval.low, interval.high
        moved = {"gained": int((deltas > 0).sum()), "lost": int((deltas < 0).sum())}
        found.append(SliceEffect(column, len(shared), *levels, *limits, p_value, **moved))
    for effect, adjusted in zip(
        found, benjamini_hochberg([effect.p_value for effect in found]) if found else (), strict=True
    ):
        effect.p_bh = float(adjusted)
    return found


def adjusted_over(effects: Sequence[SliceEffect]) -> list[float]:
    """P-values of effects that are shown together, after Benjamini and Hochberg."""
    return [float(p) for p in benjamini_hochberg([effect.p_value for effect in effects])] if effects else []


def ladder(scores: Mapping[str, Mapping[str, float]], conditions: Sequence[str]) -> list[dict[str, Any]]:
    """Mean score of each condition with its 95 % interval over items, in the order given."""
    found = []
    for name in conditions:
        values = np.array(list(scores.get(name, {}).values()), dtype=np.float64)
        if len(values):
            level = bootstrap_mean(values, rng=named_rng("view", "ladder", name), resamples=QUICK_FLIPS)
            found.append(
                {"name": name, "value": level.value, "low": level.low, "high": level.high, "n": len(values)}
            )
    return found


class Span(NamedTuple):
    """A piece of a text beside another: ``same``, ``gone`` or ``new``."""

    kind: str
    text: str


def word_diff(old: str, new: str, most: int = 20_000) -> list[Span]:
    """The words of two texts set against each other, white space kept; texts beyond ``most`` characters are cut.

    >>> [tuple(span) for span in word_diff("a red fox", "a grey fox")]
    [('same', 'a '), ('gone', 'red'), ('new', 'grey'), ('same', ' fox')]
    """
    first, second = (re.findall(r"\s+|\w+|[^\w\s]", text[:most]) for text in (old, new))
    spans: list[Span] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        if tag == "equal":
            spans.append(Span("same", "".join(first[i:j])))
            continue
        if i < j:
            spans.append(Span("gone", "".join(first[i:j])))
        if k < m:
            spans.append(Span("new", "".join(second[k:m])))
    return spans


class Block(NamedTuple):
    """A piece of a prompt, and the operator that brought it; empty for what the bare prompt has."""

    operator: str
    text: str


def prompt_blocks(
    prompts: Mapping[str, str], bundles: Mapping[str, Sequence[str]], condition: str
) -> list[Block]:
    """A prompt in pieces named after the operators that brought them.

    Found by setting a condition against those with fewer operators.
    A line that a condition has and its twin (the same operators less one) lacks belongs to that one operator; a line
    that comes with several at once is named after all of them. ``prompts`` are those of one item by condition.

    >>> prompts = {"C0": "Sort it.", "C1": "Be brief.\\nSort it."}
    >>> prompt_blocks(prompts, {"C0": [], "C1": ["TONE"]}, "C1")
    [Block(operator='TONE', text='Be brief.\\n'), Block(operator='', text='Sort it.')]
    """
    lines = prompts[condition].splitlines(keepends=True)
    owner: list[str | None] = [None] * len(lines)
    own = set(bundles.get(condition, ()))
    below = sorted(
        (name for name in prompts if name != condition and set(bundles.get(name, ())) < own),
        key=lambda name: -len(set(bundles.get(name, ()))),
    )
    # From the nearest condition down to the barest: what each lacks came with the operators it lacks.
    held = own
    for name in [*below, None]:
        less = set(bundles.get(name, ())) if name is not None else set()
        if name is not None and not less < held:
            continue
        other = prompts[name].splitlines(keepends=True) if name is not None else lines
        matcher = difflib.SequenceMatcher(
            None, [line.strip() for line in other], [line.strip() for line in lines], autojunk=False
        )
        kept = {k + d for _, k, size in matcher.get_matching_blocks() for d in range(size)}
        came = "+".join(operator for operator in bundles.get(condition, ()) if operator in held - less)
        for index in range(len(lines)):
            if owner[index] is None and index not in kept:
                owner[index] = came
        held = less if name is not None else held
    blocks: list[Block] = []
    for line, operator in zip(lines, owner, strict=True):
        name = operator or ""
        if blocks and blocks[-1].operator == name:
            blocks[-1] = Block(name, blocks[-1].text + line)
        else:
            blocks.append(Block(name, line))
    return blocks


def scatter_points(
    scores: Mapping[str, Mapping[str, float]], first: str, second: str
) -> list[dict[str, Any]]:
    """Points of two columns against each other: each pair of scores with how many items have it, and some of them."""
    places: dict[tuple[float, float], list[str]] = {}
    for item in sorted(scores.get(first, {}).keys() & scores.get(second, {}).keys()):
        place = (round(scores[first][item], 2), round(scores[second][item], 2))
        places.setdefault(place, []).append(item)
    return [
        {"x": x, "y": y, "n": len(items), "items": items[:12]} for (x, y), items in sorted(places.items())
    ]
