"""The arms of an ablation: which blocks each prompt shows, with its controls, and the design that chooses them.

An arm is a condition like any other: blocks are verbatim operators. Every design has the full prompt and the prompt
without each block; richer ones add blocks alone, all subsets, a fraction of them, or sampled orders. Only a screening
begins with groups of blocks left out, and asks single ones where a group matters.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal, get_args

from pcsuite.errors import ConfigError
from pcsuite.prompts.blocks import PromptBlock, SplitPrompt
from pcsuite.prompts.verbatim import chat_piece

DesignName = Literal[
    "auto",
    "leave-one-out",
    "one-at-a-time",
    "factorial",
    "fractional",
    "shapley",
    "groups",
    "order",
    "repeat",
]
DESIGNS: tuple[DesignName, ...] = get_args(DesignName)
CHANGES: tuple[DesignName, ...] = ("order", "repeat")
"""Designs that move or repeat blocks instead of leaving them out: :mod:`pcsuite.ablation.rearranging` makes them."""
FULL, NONE, AGAIN = "full", "none", "again"
SHAM_PREFIX = "SHAM_"
NOTHING_OPERATOR = "NOTHING"
"""Stands alone where every block of a prompt that is sent without its item is left out: a line end."""
AGAIN_OPERATOR = "AGAIN"
MOST_FACTORIAL = 6
"""Blocks of a full factorial, which then has 64 arms."""
MOST_FRACTIONAL = 32
ARMS_WITHOUT_BUDGET = 30
"""Arms that ``auto`` allows itself where no budget is given; controls are not counted."""

Kind = Literal["full", "again", "sham", "blocks", "trimmed", "changed"]


@dataclass(frozen=True, slots=True)
class AddedPiece:
    """A text that an arm shows beside the prompt's own blocks: one that is moved, or said again."""

    name: str
    text: str
    role: str | None = None
    """Message that it opens, where the prompt is one text otherwise."""
    filler: bool = False
    """Whether its words are replaced by filler once the item is filled in."""
    jinja: bool = False


@dataclass(frozen=True, slots=True)
class PromptArm:
    """One prompt of the ablation."""

    id: str
    kept: frozenset[str]
    """Free blocks that it shows; pinned ones always stand."""
    kind: Kind = "blocks"
    sham: str = ""
    """Block whose place a sham of the same length and layout takes."""
    sequence: tuple[str | AddedPiece, ...] = ()
    """Of an arm that moves or repeats a block: all of its pieces in order, blocks and shams by their names."""
    emptied: frozenset[str] = frozenset()
    """Of a trimmed prompt: headings that have nothing left below them, and are left out too."""

    @property
    def added(self) -> tuple[AddedPiece, ...]:
        """Its pieces that are no blocks of the prompt."""
        return tuple(piece for piece in self.sequence if isinstance(piece, AddedPiece))

    def operators(self, prompt: SplitPrompt) -> list[str]:
        """Names of its operators in the order of the text.

        Blocks without text are none; where nothing is left it is :data:`NOTHING_OPERATOR`. The A/A arm has one more,
        :data:`AGAIN_OPERATOR`, where a further line end means nothing; a sham stands where its block would.
        """
        if self.sequence:
            return [piece.name if isinstance(piece, AddedPiece) else piece for piece in self.sequence]
        free = {block.name for block in prompt.free}
        names = []
        for block in prompt.blocks:
            if not block.text or block.name in self.emptied:
                continue
            if block.name == self.sham:
                names.append(SHAM_PREFIX + block.name)
            elif block.name in self.kept or block.name not in free:
                names.append(block.name)
        if self.kind == "again":
            names.insert(_again_position(prompt, names), AGAIN_OPERATOR)
        return names or [NOTHING_OPERATOR]


@dataclass(frozen=True, slots=True)
class Design:
    """The arms of an ablation and why they were chosen."""

    name: str
    arms: tuple[PromptArm, ...]
    why: str

    @property
    def first(self) -> tuple[PromptArm, ...]:
        """Arms that are asked before anything is judged: all but the shams.

        A sham is asked only where its block was found to help or to hurt: of no other block does it decide anything.
        """
        return tuple(arm for arm in self.arms if arm.kind != "sham")

    @property
    def measured(self) -> int:
        """Arms without the controls."""
        return sum(arm.kind in ("full", "blocks", "changed") for arm in self.arms)

    @property
    def changed(self) -> tuple[PromptArm, ...]:
        """Arms that move or repeat a block."""
        return tuple(arm for arm in self.arms if arm.kind == "changed")


def arm_of(kept: Iterable[str], free: Sequence[str]) -> PromptArm:
    """The arm that shows these of the free blocks; equal sets have equal ids, so an arm is never asked twice.

    >>> arm_of(["a", "c"], ["a", "b", "c"]).id, arm_of(["b"], ["a", "b", "c"]).id, arm_of([], ["a"]).id
    ('-b', '+b', 'none')
    """
    chosen = [name for name in free if name in set(kept)]
    dropped = [name for name in free if name not in set(kept)]
    if not dropped:
        return PromptArm(FULL, frozenset(chosen), "full")
    if not chosen:
        return PromptArm(NONE, frozenset())
    short = (
        [f"-{name}" for name in dropped] if len(dropped) <= len(chosen) else [f"+{name}" for name in chosen]
    )
    return PromptArm("".join(short), frozenset(chosen))


def trimmed_arm(prompt: SplitPrompt, dropped: Iterable[str]) -> PromptArm:
    """The arm of a shorter prompt as it is written: headings that have nothing left below them are gone too.

    Where there are such it is another arm than that of the design without the same blocks, with an id of its own.
    """
    free, gone = [block.name for block in prompt.free], set(dropped)
    arm = arm_of([name for name in free if name not in gone], free)
    emptied = prompt.emptied(gone)
    if not emptied:
        return arm
    name = arm.id + "".join(f"-{heading}" for heading in emptied)
    return replace(arm, id=name, kind="trimmed", emptied=frozenset(emptied))


def without(block: str, free: Sequence[str]) -> PromptArm:
    """The full prompt less one block.

    >>> without("b", ["a", "b", "c"]).id
    '-b'
    """
    return arm_of([name for name in free if name != block], free)


def controls(free: Sequence[str]) -> list[PromptArm]:
    """The negative controls: the full prompt again with a meaning-free change, and a sham of every block.

    The A/A arm shows what chance alone moves; a sham, neutral words of the same length and layout, what any text in
    the block's place does.
    """
    everything = frozenset(free)
    return [
        PromptArm(AGAIN, everything, "again"),
        *(PromptArm(f"~{name}", everything - {name}, "sham", name) for name in free),
    ]


_ORDERS_SEED = 1337
"""Of the orders that a Shapley design samples: the same blocks always have the same arms."""


def make_design(
    free: Sequence[str],
    name: DesignName = "auto",
    *,
    most_arms: int | None = None,
    with_controls: bool = True,
) -> Design:
    """The arms for these blocks.

    ``most_arms`` is what the budget allows, controls included; ``auto`` takes the richest design that fits and any
    other is taken as asked. Raises ``ConfigError`` for fewer than two blocks and for a design that the number of
    blocks forbids.

    >>> make_design(["a", "b"]).name
    'factorial'
    """
    if len(free) < 2:
        raise ConfigError(
            f"there {'is one block' if len(free) == 1 else 'are no blocks'} that could be left out: two are needed",
            hint="split it finer (--split), mark blocks with <!-- block: name -->, or pin fewer with --keep",
        )
    negative = controls(free) if with_controls else []
    if name != "auto":
        arms = _ARMS[name](free, Random(_ORDERS_SEED))
        return Design(name, (*arms, *negative), f"{name}: {_describe(name, free)}, as asked for")
    fitting = ARMS_WITHOUT_BUDGET if most_arms is None else most_arms - len(negative)
    limit = "without a budget" if most_arms is None else f"with a budget of {most_arms} arms"
    candidates: list[DesignName] = ["factorial"] if len(free) <= MOST_FACTORIAL else []
    if len(free) > 4:
        candidates += ["fractional"] if len(free) <= MOST_FRACTIONAL else ["shapley"]
    candidates += ["one-at-a-time", "leave-one-out"]
    for candidate in candidates:
        arms = _ARMS[candidate](free, Random(_ORDERS_SEED))
        if len(arms) <= fitting:
            why = f"{candidate}: {_describe(candidate, free)}, the richest that fits {limit}"
            return Design(candidate, (*arms, *negative), why)
    why = f"leave-one-out: {_describe('leave-one-out', free)}, the least there is, though {limit}"
    return Design("leave-one-out", (*arms, *negative), why)


def _describe(name: DesignName, free: Sequence[str]) -> str:
    count = len(free)
    return {
        "leave-one-out": f"the full prompt and {count} without one block",
        "one-at-a-time": f"each of {count} blocks left out, and each alone",
        "factorial": f"all {2**count} subsets of {count} blocks",
        "fractional": f"a foldover fraction of the {2**count:,} subsets of {count} blocks, each left out, each alone",
        "shapley": f"sampled orders of {count} blocks and each left out",
        "groups": f"{len(first_groups(free))} groups of {count} blocks left out, and what matters of them split",
    }[name]


def _leave_one_out(free: Sequence[str], rng: Random) -> list[PromptArm]:
    return [arm_of(free, free), *(without(name, free) for name in free)]


def _one_at_a_time(free: Sequence[str], rng: Random) -> list[PromptArm]:
    alone = [arm_of([name], free) for name in free]
    return _distinct([*_leave_one_out(free, rng), *alone, arm_of([], free)])


def _factorial(free: Sequence[str], rng: Random) -> list[PromptArm]:
    if len(free) > MOST_FACTORIAL:
        raise ConfigError(
            f"a factorial of {len(free)} blocks has {2 ** len(free):,} arms",
            hint=f"at most {MOST_FACTORIAL} blocks; pin some with --keep or choose --design fractional",
        )
    sizes = range(len(free), -1, -1)
    subsets = (subset for size in sizes for subset in itertools.combinations(free, size))
    return _distinct(arm_of(subset, free) for subset in subsets)


def fraction_of(free: Sequence[str]) -> list[PromptArm]:
    """A two-level fraction of resolution IV: its generators are products of odd numbers of the base factors.

    So every run's mirror image is a run too (it is its own foldover), main effects are free of two-factor
    interactions, and the full prompt and the bare one are among the arms (Box, Hunter and Hunter 2005, section 6).
    Fewer than five blocks, and more than 32, raise a ``ConfigError``.
    """
    count = len(free)
    if not 4 < count <= MOST_FRACTIONAL:
        hint = "--design factorial" if count <= 4 else "--design shapley"
        raise ConfigError(f"there is no fraction for {count} blocks", hint=hint)
    base = 3
    while 2 ** (base - 1) < count:
        base += 1
    odd = [product for size in range(3, base + 1, 2) for product in itertools.combinations(range(base), size)]
    generators = odd[: count - base]
    arms = []
    for signs in itertools.product((1, -1), repeat=base):
        levels = list(signs)
        for generator in generators:
            level = 1
            for factor in generator:
                level *= signs[factor]
            levels.append(level)
        arms.append(arm_of([name for name, sign in zip(free, levels, strict=True) if sign > 0], free))
    return arms


def _fractional(free: Sequence[str], rng: Random) -> list[PromptArm]:
    return _distinct([*_one_at_a_time(free, rng), *fraction_of(free)])


FEWEST_GROUPED = 4
"""Blocks below which there are no groups worth the name."""


def first_groups(free: Sequence[str]) -> list[tuple[str, ...]]:
    """The groups of a screening that are asked first: quarters of the prompt's blocks, of fewer than eight halves.

    >>> first_groups(["a", "b", "c", "d", "e"])
    [('a', 'b', 'c'), ('d', 'e')]
    """
    parts = 4 if len(free) >= 8 else 2
    ends = [-(-len(free) * part // parts) for part in range(parts + 1)]
    return [tuple(free[start:end]) for start, end in itertools.pairwise(ends)]


def halves(group: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The two halves of a group, the first the larger; none of a single block.

    >>> halves(("a", "b", "c")), halves(("a",))
    ([('a', 'b'), ('c',)], [])
    """
    middle = -(-len(group) // 2)
    return [group[:middle], group[middle:]] if len(group) > 1 else []


def _groups(free: Sequence[str], rng: Random) -> list[PromptArm]:
    """The full prompt and the first groups left out: which further ones are, :mod:`pcsuite.ablation.screen` says."""
    if len(free) < FEWEST_GROUPED:
        raise ConfigError(
            f"--design groups: {len(free)} blocks are too few to be grouped",
            hint="leave it out, or split finer (--split)",
        )
    without_group = [
        arm_of([name for name in free if name not in group], free) for group in first_groups(free)
    ]
    return [arm_of(free, free), *without_group]


def _shapley(free: Sequence[str], rng: Random) -> list[PromptArm]:
    """Prefixes of sampled orders, each with its reverse: differences along an order are marginal contributions."""
    arms = _one_at_a_time(free, rng)
    for _ in range(2):
        order = list(free)
        rng.shuffle(order)
        for sequence in (order, order[::-1]):
            arms += [arm_of(sequence[:size], free) for size in range(len(sequence) + 1)]
    return _distinct(arms)


_ARMS: Mapping[str, Any] = {
    "leave-one-out": _leave_one_out,
    "one-at-a-time": _one_at_a_time,
    "factorial": _factorial,
    "fractional": _fractional,
    "shapley": _shapley,
    "groups": _groups,
}


def _distinct(arms: Iterable[PromptArm]) -> list[PromptArm]:
    return list({arm.id: arm for arm in arms}.values())


def in_prefix_order(arms: Iterable[PromptArm], prompt: SplitPrompt) -> list[PromptArm]:
    """The arms in an order in which neighbours share as long a beginning as can be.

    An item's calls go out arm by arm, so a server's prompt cache (and our own prefix reuse) finds the beginning of
    each prompt in the one before.
    """
    arms = list(arms)
    texts = operator_texts(prompt, arms)

    def beginning(arm: PromptArm) -> tuple[str, ...]:
        return tuple(texts[name] for name in arm.operators(prompt))

    return sorted(arms, key=beginning)


def shared_prefix(arms: Sequence[PromptArm], prompt: SplitPrompt) -> float:
    """Share of the characters sent that the prompt before has at its beginning already, placeholders not filled.

    Servers that cache prompts by their beginning charge and compute only the rest, so the order of calls is chosen by
    it. The arms are taken in the order given; 0 where nothing is sent.
    """
    texts = operator_texts(prompt, arms)
    sent = ["".join(texts[name] for name in arm.operators(prompt)) for arm in arms]
    total = sum(map(len, sent))
    shared = 0
    for before, text in itertools.pairwise(sent):
        for left, right in zip(before, text, strict=False):
            if left != right:
                break
            shared += 1
    return shared / total if total else 0.0


def operator_texts(prompt: SplitPrompt, arms: Iterable[PromptArm] = ()) -> dict[str, str]:
    """The text of every operator that an arm may name: blocks, their shams, the meaning-free change, and what the given
    ``arms`` add.

    The A/A arm's is one more line end, of the kind that the prompt uses, in the message of a chat where it stands.
    """
    texts = {block.name: block.text for block in prompt.blocks if block.text}
    texts |= {SHAM_PREFIX + block.name: block.sham for block in prompt.free}
    if all(not block.text or not block.pinned for block in prompt.blocks):
        texts[NOTHING_OPERATOR] = chat_piece(0, "system", "\n") if prompt.is_chat else "\n"
    shown = [block for block in prompt.blocks if block.text]
    before = shown[_again_position(prompt, [block.name for block in shown]) - 1].text
    end = "\r\n" if before.endswith("\r\n") else "\n"
    pieces = re.findall(r"\x1e(\d+):(\w+)\n", before)
    texts[AGAIN_OPERATOR] = chat_piece(int(pieces[-1][0]), pieces[-1][1], end) if pieces else end
    return texts | {piece.name: piece.text for arm in arms for piece in arm.added}


def _again_position(prompt: SplitPrompt, names: Sequence[str]) -> int:
    """After the first block that ends in a line end, where another blank line means nothing; else at the end."""
    by_name: dict[str, PromptBlock] = {block.name: block for block in prompt.blocks}
    for position, name in enumerate(names[:-1], start=1):
        if by_name[name].text.endswith(("\n", "\r")):
            return position
    return len(names)
