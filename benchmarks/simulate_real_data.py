"""Data as people have them: copies, clusters, failures that depend on the score, lopsided scores, selected figures.

Cells of ``coverage_simulation.py``. Every study is judged by the functions that the commands call: an ablation of five
blocks by ``judge_blocks``, its trimmed prompt by ``confirm_drops``, a run that stops early by ``judge_look``. In worlds
without an effect a false claim is any *helps* or *hurts* among the blocks.

    OMP_NUM_THREADS=1 python benchmarks/coverage_simulation.py --only "copies and clusters" --write
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from simulation_cells import Cell, family

from pcsuite.ablation.arms import FULL
from pcsuite.ablation.trim import confirm_drops
from pcsuite.ablation.verdicts import BlockVerdict, judge_blocks
from pcsuite.contrasts import ArmScores, Contrast, Family, judge, judge_look, measure

BLOCKS = ("a", "b", "c", "d", "e")
BATCH = 24
Rng = np.random.Generator
Arms = dict[str, ArmScores]


def logistic(logit: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logit))


def judged(arms: Mapping[str, ArmScores], rng: Rng, **more) -> list[BlockVerdict]:
    blocks = [name[1:] for name in arms if name != FULL]
    return judge_blocks(arms, blocks, margin=0.05, rng=rng, resamples=500, **more)


def claims_something(verdicts: list[BlockVerdict]) -> bool:
    return any(entry.verdict.startswith(("helps", "hurts")) for entry in verdicts)


# Copies and clusters. Nothing works on average.


def copied_texts(rng: Rng, texts: int, copies: int | None, *, labelled: bool = True) -> Arms:
    """Texts that stand in the table several times (1 to 9 times where not told): copies have one answer."""
    sizes = rng.integers(1, 10, texts) if copies is None else np.full(texts, copies)
    clusters = np.repeat(np.arange(texts), sizes)
    chance = logistic(rng.normal(0.5, 1.0, texts))
    return {
        name: ArmScores(
            (rng.random(texts) < chance)[clusters].astype(float),
            bounds=(0.0, 1.0),
            clusters=clusters if labelled else None,
        )
        for name in (FULL, *(f"-{block}" for block in BLOCKS))
    }


def customers(rng: Rng, count: int, size: int, spread: float, *, unequal: bool = False) -> Arms:
    """Cases of a few customers; what a block does differs between them, by ``spread`` logits around 0."""
    sizes = np.maximum(1, np.rint(size * rng.uniform(0.3, 1.7, count)).astype(int)) if unequal else size
    clusters = np.repeat(np.arange(count), sizes)
    ease = rng.normal(0.0, 1.0, len(clusters))
    arms = {
        FULL: ArmScores((rng.random(len(ease)) < logistic(ease)) * 1.0, bounds=(0.0, 1.0), clusters=clusters)
    }
    for block in BLOCKS:
        shift = rng.normal(0.0, spread, count)[clusters]
        values = (rng.random(len(ease)) < logistic(ease + shift)) * 1.0
        arms[f"-{block}"] = ArmScores(values, bounds=(0.0, 1.0), clusters=clusters)
    return arms


def false_claim(rng: Rng, world: Callable[[Rng], Arms], **more) -> bool:
    return claims_something(judged(world(rng), rng, **more))


def until_decided(rng: Rng, texts: int, copies: int) -> bool:
    """``--until decided``: looks after every 24 items, at whole clusters, until each block is decided; any claim."""
    arms = copied_texts(rng, texts, copies)
    order = np.repeat(rng.permutation(texts), copies) * copies + np.tile(np.arange(copies), texts)
    family_ = Family("bonferroni", margin=0.05, size=len(BLOCKS))
    for block in BLOCKS:
        earlier = None
        for end in range(BATCH, len(order) + 1, BATCH):
            seen = {
                name: ArmScores(
                    arms[name].values[order[:end]], bounds=(0, 1), clusters=arms[name].clusters[order[:end]]
                )
                for name in (f"-{block}", FULL)
            }
            look = judge_look(seen, Contrast.of(f"-{block}", FULL), family_, earlier=earlier)
            if look.verdict in ("better", "worse"):
                return True
            if look.verdict != "undecided":
                break
            earlier = look.estimate, look.p_value
    return False


def copied_counts(rng: Rng, texts: int, copies: int) -> bool:
    """Micro-F1 of copied texts, both conditions alike: any claim."""
    clusters = np.repeat(np.arange(texts), copies)
    hard = rng.beta(2, 2, texts)

    def counts() -> np.ndarray:
        right = rng.binomial(4, hard)
        return np.column_stack([right, rng.binomial(2, 0.4, texts), 4 - right]).astype(float)[clusters]

    arms = {name: ArmScores(counts(), clusters=clusters) for name in ("new", "old")}
    (result,) = judge(measure(arms, [Contrast.of("new", "old")], rng=rng, resamples=500), Family())
    return result.verdict in ("better", "worse")


def customer_effect(rng: Rng, count: int, size: int) -> bool:
    """Whether the limits of a mean difference cover it, customers differing in it."""
    effect = rng.normal(0.1, 0.15, count)
    clusters = np.repeat(np.arange(count), size)
    values = np.clip(rng.normal(effect[clusters], 0.2), -1, 1)
    # Clipped where |difference| exceeds 1, which at these figures hardly happens.
    arms = {
        "new": ArmScores((values > rng.random(len(values)) - 0.5) * 1.0, clusters=clusters, bounds=(0, 1)),
        "old": ArmScores((rng.random(len(values)) < 0.5) * 1.0, clusters=clusters, bounds=(0, 1)),
    }
    (change,) = measure(arms, [Contrast.of("new", "old")], rng=rng)
    return change.estimate.low <= 0.1 <= change.estimate.high


@family("copies and clusters")
def copies_and_clusters() -> Iterator[Cell]:
    """Ablations of five blocks that do nothing on average, and limits."""
    claims = "any false helps or hurts"
    for texts, copies in ((20, 5), (20, 3), (40, 4), (20, None)):
        name = f"{texts} texts × {copies or '1 to 9'}"
        world = partial(copied_texts, texts=texts, copies=copies)
        yield Cell(name, claims, partial(false_claim, world=world), at_most=0.05)
    unknown = partial(copied_texts, texts=20, copies=5, labelled=False)
    yield Cell("20 texts × 5 as single items", claims, partial(false_claim, world=unknown), note="as it was")
    for count, size, spread in ((8, 15, 1.0), (8, 15, 2.0), (6, 20, 1.0), (20, 6, 1.5)):
        world = partial(customers, count=count, size=size, spread=spread)
        yield Cell(
            f"{count} customers × {size}, {spread:g} logits",
            claims,
            partial(false_claim, world=world),
            at_most=0.05,
        )
    world = partial(customers, count=8, size=15, spread=1.5, unequal=True)
    yield Cell(
        "8 customers of unequal size, 1.5 logits", claims, partial(false_claim, world=world), at_most=0.05
    )
    yield Cell("--until, 60 texts × 4", claims, partial(until_decided, texts=60, copies=4), at_most=0.05)
    yield Cell(
        "micro-F1, 20 texts × 4", "false better or worse", partial(copied_counts, texts=20, copies=4), at_most=0.05
    )  # fmt: skip
    yield Cell(
        "8 customers × 30, effect 0.1 ± 0.15", "coverage", partial(customer_effect, count=8, size=30), at_least=0.95
    )  # fmt: skip


# Lopsided scores: a rare large gain and a frequent small loss, 0 on average.


def lopsided(rng: Rng, n: int, *, rare: float = 0.04, clusters: int | None = None, sign: int = 1) -> Arms:
    """Blocks that gain 0.5 on a few items and lose so little on 40 % that the mean is 0."""
    units = n if clusters is None else clusters
    lost = 0.5 * rare / 0.4
    labels = None if clusters is None else np.repeat(np.arange(units), n // units)
    arms = {FULL: ArmScores(np.full(n, 0.5), bounds=(0.0, 1.0), clusters=labels)}
    for block in BLOCKS:
        u = rng.random(units)
        effect = sign * np.where(u < rare, 0.5, np.where(u < rare + 0.4, -lost, 0.0))
        values = 0.5 - (effect if labels is None else effect[labels])
        arms[f"-{block}"] = ArmScores(values, bounds=(0.0, 1.0), clusters=labels)
    return arms


def lopsided_covered(rng: Rng, n: int, *, simultaneous: bool) -> bool:
    verdicts = judged(lopsided(rng, n), rng)
    if simultaneous:
        return all(entry.effect.low <= 0 <= entry.effect.high for entry in verdicts)
    alone = verdicts[0].alone
    return alone is not None and alone.low <= 0 <= alone.high


def lost_margin(rng: Rng, n: int) -> bool:
    """A block worth exactly the margin, by a loss of 0.5 without it on one item in ten: "no worse" is false."""
    without = 0.5 - 0.5 * (rng.random(n) < 0.1)
    arms = {FULL: ArmScores(np.full(n, 0.5), bounds=(0, 1)), "-a": ArmScores(without, bounds=(0, 1))}
    return judged(arms, rng)[0].no_worse


def averaged_seeds(rng: Rng, n: int, seeds: int) -> bool:
    """0/1 scores averaged over seeds; a block moves the chance of a right answer as lopsidedly as above: any claim."""
    arms = {FULL: ArmScores(rng.binomial(seeds, 0.5, n) / seeds, replicates=seeds, bounds=(0.0, 1.0))}
    for block in BLOCKS:
        u = rng.random(n)
        effect = np.where(u < 0.04, 0.5, np.where(u < 0.44, -0.05, 0.0))
        arms[f"-{block}"] = ArmScores(
            rng.binomial(seeds, 0.5 - effect) / seeds, replicates=seeds, bounds=(0.0, 1.0)
        )
    return claims_something(judged(arms, rng))


def real_gain(rng: Rng, n: int, effect: float) -> bool:
    """Whether a graded block of so large an effect (sd 0.25) beside five that do nothing is found."""
    blocks = (*BLOCKS, "x")
    arms = {FULL: ArmScores(np.full(n, 0.7), bounds=(0.0, 1.0))}  # room for a gain of 0.33 ± 0.25
    for block in blocks:
        change = np.clip(rng.normal(effect if block == "x" else 0.0, 0.25, n), -0.3, 0.7)
        arms[f"-{block}"] = ArmScores(0.7 - change, bounds=(0.0, 1.0))
    return judged(arms, rng)[-1].verdict == "helps"


@family("lopsided scores")
def lopsided_scores() -> Iterator[Cell]:
    """Graded scores whose mean is 0 and whose signs are not."""
    claims = "any false helps or hurts"
    for n in (12, 24, 60, 120, 400):
        name = f"+0.5 on 4 %, −0.05 on 40 %, {n} items"
        yield Cell(name, claims, partial(false_claim, world=partial(lopsided, n=n)), at_most=0.05)
        yield Cell(
            f"{name}, symmetry assumed",
            claims,
            partial(false_claim, world=partial(lopsided, n=n), assume="symmetric"),
            note="what --assume symmetric risks",
        )
        yield Cell(
            name, "coverage of one effect", partial(lopsided_covered, n=n, simultaneous=False), at_least=0.95
        )
        yield Cell(
            name, "coverage of all effects", partial(lopsided_covered, n=n, simultaneous=True), at_least=0.95
        )
    world = partial(lopsided, n=60, clusters=20)
    yield Cell("the same by 20 clusters of 3", claims, partial(false_claim, world=world), at_most=0.05)
    for n in (24, 60, 120, 400):
        yield Cell(
            f"worth the margin of 0.05, {n} items", "false no worse", partial(lost_margin, n=n), at_most=0.05
        )
    for n, seeds in ((24, 3), (24, 10), (120, 10)):
        yield Cell(
            f"0/1 over {seeds} seeds, {n} items", claims, partial(averaged_seeds, n=n, seeds=seeds), at_most=0.05
        )  # fmt: skip
    for n, effect in ((24, 0.33), (40, 0.22), (60, 0.15), (120, 0.10)):
        name = f"effect {effect:g}, sd 0.25, {n} items, six blocks"
        yield Cell(name, "power", partial(real_gain, n=n, effect=effect), note="forecast: 0.8")


# Failures that depend on the score.


def failing(rng: Rng, n: int, share: float, *, missing: str) -> bool:
    """Without the block nothing changes, but so many of the wrong answers fail instead: any claim."""
    chance = logistic(rng.normal(0.5, 1.0, n))
    arms = {FULL: ArmScores((rng.random(n) < chance) * 1.0, failed=np.zeros(n), bounds=(0.0, 1.0))}
    for block in BLOCKS:
        values = (rng.random(n) < chance) * 1.0
        failed = (values == 0) & (rng.random(n) < share)
        values[failed] = np.nan
        arms[f"-{block}"] = ArmScores(values, failed=failed * 1.0, bounds=(0.0, 1.0))
    return claims_something(judged(arms, rng, missing=missing))


def hidden_loss(rng: Rng, n: int) -> bool:
    """Without the block one right answer in ten fails: dropped, nothing is lost; the margin is 0.05."""
    full = (rng.random(n) < 0.8) * 1.0
    failed = (full == 1) & (rng.random(n) < 0.125)
    without = np.where(failed, np.nan, full)
    arms = {
        FULL: ArmScores(full, failed=np.zeros(n), bounds=(0.0, 1.0)),
        "-a": ArmScores(without, failed=failed * 1.0, bounds=(0.0, 1.0)),
    }
    return judged(arms, rng)[0].no_worse


@family("failures that depend on the score")
def failures() -> Iterator[Cell]:
    """Verdicts must hold whatever the missing answers would have been."""
    for share in (0.3, 0.8):
        for missing, bound in (("bound", 0.05), ("drop", None)):
            yield Cell(
                f"100 items, {share:.0%} of wrong answers fail, --missing {missing}",
                "any false helps or hurts",
                partial(failing, n=100, share=share, missing=missing),
                at_most=bound,
                note="" if bound else "what --missing drop risks",
            )
    yield Cell(
        "200 items, 1 right answer in 10 fails", "false no worse", partial(hidden_loss, n=200), at_most=0.05
    )


# Selected figures.


def effects_world(rng: Rng, n: int, truth: np.ndarray) -> Arms:
    """0/1 answers; full prompt 0.7, without a block so much less."""
    arms = {FULL: ArmScores((rng.random(n) < 0.7) * 1.0, bounds=(0.0, 1.0))}
    for block, effect in zip(BLOCKS, truth, strict=True):
        arms[f"-{block}"] = ArmScores((rng.random(n) < 0.7 - effect) * 1.0, bounds=(0.0, 1.0))
    return arms


def selection_covered(rng: Rng, n: int, truth: np.ndarray, which: str) -> bool | None:
    verdicts = judged(effects_world(rng, n, truth), rng)
    covered = [
        entry.effect.low <= effect <= entry.effect.high for entry, effect in zip(verdicts, truth, strict=True)
    ]
    if which == "all":
        return all(covered)
    if which == "largest":
        return covered[int(np.argmax([abs(entry.effect.value) for entry in verdicts]))]
    picked = [
        (low <= effect <= high)
        for entry, effect in zip(verdicts, truth, strict=True)
        if claims_something([entry])
        for low, high in [
            (entry.effect.low, entry.effect.high)
            if which == "claimed"
            else (entry.alone.low, entry.alone.high)
        ]
    ]
    return all(picked) if picked else None


def trimmed_covered(rng: Rng, n: int) -> bool:
    """Whether the limits of every set of blocks that was tried cover what it loses, 0.05 for each block."""
    full = ArmScores((rng.random(n) < 0.7) * 1.0, bounds=(0.0, 1.0))
    search = confirm_drops(("a", "b", "c"), [full], margin=0.2, rng=rng)
    dropped, tried = next(search), []
    try:
        while True:
            loss = 0.05 * len(dropped)
            tried.append(loss)
            dropped = search.send([ArmScores((rng.random(n) < 0.7 - loss) * 1.0, bounds=(0.0, 1.0))])
    except StopIteration as end:
        (trim,) = end.value
    return all(
        step.simultaneous.low <= -loss <= step.simultaneous.high
        for step, loss in zip(trim.steps, tried, strict=False)
    )


@family("selected figures")
def selected_figures() -> Iterator[Cell]:
    """Limits of figures that were picked because of what they are."""
    nothing, small, mixed = np.zeros(5), np.full(5, 0.05), np.array([0.3, 0.1, 0.05, 0.0, -0.1])
    for label, n, truth in (
        ("24 items, no effect", 24, nothing),
        ("24 items, 0.3 to −0.1", 24, mixed),
        ("60 items, small effects", 60, small),
        ("200 items, 0.3 to −0.1", 200, mixed),
    ):
        for which, measure_, bound in (
            ("all", "all five covered", 0.95),
            ("largest", "the largest covered", 0.95),
            ("claimed", "covered where claimed", None),
            ("alone", "covered where claimed, limits of one block alone", None),
        ):
            study = partial(selection_covered, n=n, truth=truth, which=which)
            note = "" if bound else "given selection: simulated, not promised"
            yield Cell(label, measure_, study, at_least=bound, note=note)
    for n in (24, 100):
        yield Cell(
            f"trimming on {n} items",
            "every set tried is covered",
            partial(trimmed_covered, n=n),
            at_least=0.95,
        )
