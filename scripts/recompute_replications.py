"""Every word and number of the replications' results, computed again from the published rows.

    python scripts/recompute_replications.py          # prints what differs on the pages; exit status 1 if anything
    python scripts/recompute_replications.py --show   # prints what should stand on them

A second opinion: nothing of pcsuite is imported, and nothing that is not in Python itself. What is read are the rows
(`docs/studies/replications/rows`), the profiles' contrasts and conditions, and the hashes in `registered.json`. The
cluster-robust errors are computed from the matrix of their quadratic form, Student's distribution from the incomplete
beta function, the exact tests by counting every way to flip signs. A page must be the same line by line; of its text
only the results between their marks are compared.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "studies" / "replications"
PROFILES = ROOT / "configs" / "replications"
NAMES = ("prompt_twice", "expert_roles", "text_behind", "reading_artefact")
MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
TASKS = ("agnews_json", "trec", "boolq", "csqa_json", "strategyqa", "svamp")
BY_CHANCE = {
    "agnews_json": 1 / 4,
    "trec": 1 / 6,
    "boolq": 1 / 2,
    "csqa_json": 1 / 5,
    "strategyqa": 1 / 2,
    "svamp": 0.0,
}
LOOKS = ((60, 0.010), (120, 0.015), (200, 0.025))
MARGIN = 0.05
FLOOR = 0.10
ONE_ANSWER = 0.9
FORM = "the form, not the answer"
MARKS = ("<!-- results: written by scripts/replication_pages.py -->\n", "\n<!-- end of results -->")
Row = dict[str, str]
Pair = tuple[str, str]


# What is registered.


@cache
def operators_of() -> dict[str, str]:
    """By condition what stands behind its name in `conditions.yaml`, with that of the conditions that it extends."""
    found: dict[str, str] = {}
    for line in (PROFILES / "conditions.yaml").read_text(encoding="utf-8").splitlines():
        if named := re.match(r"  (\w+): (\{.*)", line):
            base = re.search(r"extends: (\w+)", named[2])
            found[named[1]] = named[2] + (found[base[1]] if base else "")
    return found


def shows_examples(*conditions: str) -> bool:
    """Whether one of the conditions shows examples, so that items with the same ones are related."""
    return any("EXEMPLARS" in operators_of()[name] for name in conditions)


@cache
def contrasts_of(name: str) -> list[Pair]:
    """The registered contrasts of a claim."""
    profile = (PROFILES / f"{name}.yaml").read_text(encoding="utf-8")
    return re.findall(r"^    - (\w+) - (\w+)$", profile, re.MULTILINE)


@cache
def conditions_of(name: str) -> list[str]:
    """The conditions of a claim, in the order of its profile."""
    profile = (PROFILES / f"{name}.yaml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^  conditions: \[(.*?)\]", profile, re.MULTILINE | re.DOTALL)
    return re.findall(r"\w+", listed)


# Distributions and tests.


def beta_share(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_share(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x)
    )
    value, c, d = 1.0, 1.0, 0.0
    for step in range(400):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / (1 + term * d)
        c = 1 + term / c
        value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * (value - 1) / a


def t_beyond(t: float, df: float) -> float:
    """Two-sided p-value of Student's t."""
    return beta_share(df / 2, 0.5, df / (df + t * t))


@cache
def t_limit(df: float, level: float) -> float:
    """Student's t within which that share of its distribution lies."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        if t_beyond(middle, df) > 1 - level:
            low = middle
        else:
            high = middle
    return high


def mean_error(values: Sequence[float], clusters: Sequence[object]) -> tuple[float, float, float]:
    """Mean, its cluster-robust standard error, and degrees of freedom.

    The variance is the larger of CR2's and the jackknife's; the degrees of freedom are Satterthwaite's, the smaller of
    those where items of a cluster are independent and where they are one and the same, from the covariance of the
    clusters' adjusted residuals in either world.
    """
    n, mean = len(values), fmean(values)
    sums: defaultdict[object, float] = defaultdict(float)
    sizes: Counter[object] = Counter(clusters)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value
    names = list(sizes)
    k = len(names)
    share = [sizes[name] / n for name in names]
    residual = [sums[name] - sizes[name] * mean for name in names]
    reduced = sum((r / n) ** 2 / (1 - a) for r, a in zip(residual, share, strict=True))
    without = [(n * mean - sums[name]) / (n - sizes[name]) for name in names]
    middle = fmean(without)
    jackknife = (k - 1) / k * sum((one - middle) ** 2 for one in without)
    freedoms = [k - 1.0]
    for power in (1, 2):
        own = [sizes[name] ** power for name in names]
        total = sum(own)
        matrix = [
            [
                (
                    (own[g] if g == h else 0)
                    - share[h] * own[g]
                    - share[g] * own[h]
                    + share[g] * share[h] * total
                )
                / math.sqrt((1 - share[g]) * (1 - share[h]))
                for h in range(k)
            ]
            for g in range(k)
        ]
        trace = sum(matrix[g][g] for g in range(k))
        freedoms.append(trace**2 / sum(entry**2 for line in matrix for entry in line))
    return mean, math.sqrt(max(reduced, jackknife)), min(freedoms)


def flips(moved: Iterable[float]) -> float:
    """Share of all ways to flip signs whose sum is at least as far from 0 as the one seen; of whole numbers."""
    ways: dict[int, int] = {0: 1}
    seen = 0
    for step in map(round, moved):
        seen += step
        after: defaultdict[int, int] = defaultdict(int)
        for total, count in ways.items():
            after[total + step] += count
            after[total - step] += count
        ways = after
    return sum(count for total, count in ways.items() if abs(total) >= abs(seen)) / sum(ways.values())


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values after Holm's correction."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


# A model's rows at a look.


class Look:
    """The rows of one model up to a look, judged with the look's part of α."""

    def __init__(self, name: str, rows: Sequence[Row], items: int, alpha: float) -> None:
        self.name, self.alpha = name, alpha
        self._judged: dict[tuple[str, tuple[str, ...]], dict[Pair, str]] = {}
        self.rows = [row for row in rows if int(row["place"]) < items]
        self.cells: defaultdict[Pair, dict[str, Row]] = defaultdict(dict)
        for row in self.rows:
            self.cells[row["task"], row["condition"]][row["item"]] = row
        there = {row["task"] for row in self.rows}
        self.tasks = [task for task in TASKS if task in there]
        self.dead = {task: why for task in self.tasks if (why := self.why_dead(task))}
        self.live = [task for task in self.tasks if task not in self.dead]

    def why_dead(self, task: str) -> str:
        """Why a task does not count; empty where it does."""
        rows = [row for row in self.rows if row["task"] == task]
        level, chance = fmean(float(row["lenient"]) for row in rows), BY_CHANCE[task]
        if (level - chance) / (1 - chance) < FLOOR:
            return f"over all conditions {level:.2f} read leniently, with {chance:.2f} by chance"
        most = commonest([row["answer"] for row in rows])
        return f"{most:.0%} of all readable answers are one" if most >= ONE_ANSWER else ""

    def differences(self, pair: Pair, reading: str, tasks: Sequence[str]) -> tuple[list[float], list[object]]:
        """The contrast item by item, with each item's cluster."""
        together = shows_examples(*pair)
        values: list[float] = []
        clusters: list[object] = []
        for task in tasks:
            first, second = (self.cells[task, condition] for condition in pair)
            for item in sorted(first.keys() & second.keys()):
                values.append(float(first[item][reading]) - float(second[item][reading]))
                clusters.append((task, first[item]["examples"] if together else item))
        return values, clusters

    def limits(self, pair: Pair, reading: str, level: float) -> tuple[float, float, float]:
        """Mean over live tasks with Student's limits."""
        mean, error, freedom = mean_error(*self.differences(pair, reading, self.live))
        reach = t_limit(freedom, level) * error
        return mean, mean - reach, mean + reach

    def p_value(self, pair: Pair, reading: str, tasks: Sequence[str]) -> float:
        """Of the exact test over items, or where examples are shown the larger of t's and of the flips of clusters."""
        values, clusters = self.differences(pair, reading, tasks)
        if not any(values):
            return 1.0
        if not shows_examples(*pair):
            return flips(value for value in values if value)
        sums: defaultdict[object, float] = defaultdict(float)
        for value, cluster in zip(values, clusters, strict=True):
            sums[cluster] += value
        mean, error, freedom = mean_error(values, clusters)
        return max(t_beyond(mean / error, freedom), flips(total for total in sums.values() if round(total)))

    def judged(self, reading: str, tasks: tuple[str, ...]) -> dict[Pair, str]:
        """Which registered contrasts are better or worse over some tasks, after the correction over all of them."""
        if (reading, tasks) not in self._judged:
            self._judged[reading, tasks] = self._judge(reading, tasks)
        return self._judged[reading, tasks]

    def _judge(self, reading: str, tasks: tuple[str, ...]) -> dict[Pair, str]:
        pairs = contrasts_of(self.name) if tasks else []
        adjusted = holm([self.p_value(pair, reading, tasks) for pair in pairs])
        words = {}
        for pair, p_value in zip(pairs, adjusted, strict=True):
            gain = fmean(self.differences(pair, reading, tasks)[0])
            words[pair] = "neither" if p_value >= self.alpha else "better" if gain > 0 else "worse"
        return words

    def verdicts(self, reading: str) -> dict[Pair, str]:
        """The same over all live tasks."""
        return self.judged(reading, tuple(self.live))

    def rules_out(self, pair: Pair, reading: str) -> tuple[bool, bool]:
        """Whether a loss, and whether a gain of the margin is ruled out."""
        _, low, high = self.limits(pair, reading, 1 - 2 * self.alpha)
        return low > -MARGIN, high < MARGIN

    def word(self, pair: Pair, reading: str) -> str:
        """What is said of a contrast over all live tasks."""
        word = self.verdicts(reading)[pair]
        if word != "neither":
            return word
        loss, gain = self.rules_out(pair, reading)
        return "equivalent" if loss and gain else "no worse" if loss else "undecided"


def commonest(answers: Iterable[str]) -> float:
    """Share of the readable answers that are the commonest one."""
    counts = Counter(answer for answer in answers if answer)
    return max(counts.values()) / counts.total() if counts else 0.0


# Verdicts, as the pages state their rules.


def say_prompt_twice(look: Look, reading: str) -> tuple[str, str, bool]:
    """Verdict, counts, and whether it ends the study."""
    words = look.verdicts(reading)
    once = [pair for pair in words if pair[1] in ("zero", "few")]
    better, worse = ([pair for pair in once if words[pair] == word] for word in ("better", "worse"))
    beyond = [pair for pair in better if words[pair[0], f"{pair[1]}_filler"] == "better"]
    told = (
        f"twice is better than once in {len(better)} and worse in {len(worse)} of {len(once)} contrasts over live"
        f" tasks, and of the better ones {len(beyond)} are better than filler of the same length too"
    )
    if worse:
        return ("mixed" if better else "contradicted"), told, True
    if beyond:
        return "supported", told, True
    if better:
        return "supported, and not shown beyond length", told, False
    if once and all(all(look.rules_out(pair, reading)) for pair in once):
        return "contradicted: no difference of the margin", told, True
    return "inconclusive", told, False


def say_expert_roles(look: Look, reading: str) -> tuple[str, str, bool]:
    """Verdict, counts, and whether it ends the study."""
    words = look.verdicts(reading)
    roles = [pair for pair in words if pair[1] == "no_role" and pair[0] != "child"]
    same = sum(all(look.rules_out(pair, reading)) for pair in roles)
    moved = [pair for pair in roles if words[pair] != "neither"]
    told = f"{same} of {len(roles)} expert roles are equivalent to none within the margin, over live tasks"
    told += "".join(f"; {pair[0]} is {words[pair]}" for pair in moved)
    if roles and same == len(roles):
        return "supported", told, True
    return ("contradicted", told, True) if moved else ("inconclusive", told, False)


def say_text_behind(look: Look, reading: str) -> tuple[str, str, bool]:
    """Verdict, counts, and whether it ends the study."""
    if not look.live:
        return "inconclusive", "no task is live", False
    moved = {name: (f"{name}_behind", f"{name}_before") for name in ("sham", "line", "checks")}
    said = {name: look.word(pair, reading) for name, pair in moved.items()}
    free = {name for name, pair in moved.items() if look.rules_out(pair, reading)[0]}
    words = look.verdicts(reading)["checks_behind", "sham_behind"] == "worse"
    told = (
        f"behind the question, not before the examples: filler {said['sham']}, one line {said['line']}, the checklist"
        f" {said['checks']}; the checklist {'worse' if words else 'not shown to be worse'} than its filler there;"
        f" examples behind the question {look.word(('demos_behind', 'shots'), reading)}"
    )
    if said["sham"] == said["line"] == "worse":
        return "any text behind the question costs score", told, True
    if words and {"sham", "line"} <= free:
        return "the checklist's words cost score", told, True
    if len(free) == 3:
        return "text behind the question does not cost the margin", told, True
    return "inconclusive", told, False


def say_reading_artefact(look: Look, reading: str) -> tuple[str, str, bool]:
    """Verdict, figures, and whether it ends the study; both readings enter whichever is asked."""
    if not look.live:
        return "inconclusive", "no task is live", False
    share, error, weights = 1 / len(look.live), 0.0, 0.0
    totals = {"score": 0.0, "lenient": 0.0}
    for task in look.live:
        scores, sets = templates_of(look, task)
        for name in totals:
            totals[name] += share * spread(scores[name], sets)
        names = sorted(set(sets))
        without = []
        for name in names:
            left = [index for index, one in enumerate(sets) if one != name]
            kept = [sets[index] for index in left]
            lenient, strict = ([scores[one][index] for index in left] for one in ("lenient", "score"))
            without.append(spread(lenient, kept) - spread(strict, kept))
        middle = fmean(without)
        squared = (len(names) - 1) * fmean((one - middle) ** 2 for one in without) * share**2
        error, weights = error + squared, weights + squared**2 / (len(names) - 1)
    difference = totals["lenient"] - totals["score"]
    reach = t_limit(error**2 / weights, 1 - look.alpha) * math.sqrt(error) if error else 0.0
    low, high = difference - reach, difference + reach
    strict, lenient = (math.sqrt(max(totals[name], 0.0)) for name in ("score", "lenient"))
    told = (
        f"the spread is {strict:.3f} strict and {lenient:.3f} lenient, the difference of the variances"
        f" {difference:+.5f} [{low:+.5f}, {high:+.5f}]"
    )
    if strict:
        told += f", {difference / strict**2:+.0%} of the strict one"
    if high < 0:
        return "supported", told, True
    return ("contradicted", told, True) if low > 0 else ("inconclusive", told, False)


def templates_of(look: Look, task: str) -> tuple[dict[str, list[list[float]]], list[str]]:
    """Of a task's items with all templates: the scores under both readings, and the set of examples."""
    cells = [look.cells[task, condition] for condition in conditions_of(look.name)]
    items = sorted(set.intersection(*(set(cell) for cell in cells)))
    scores = {
        reading: [[float(cell[item][reading]) for cell in cells] for item in items]
        for reading in ("score", "lenient")
    }
    return scores, [cells[0][item]["examples"] for item in items]


def spread(scores: Sequence[Sequence[float]], sets: Sequence[str]) -> float:
    """Variance of the templates' means, less what the choice of items adds by chance (items of a set together)."""
    n, count = len(scores), len(scores[0])
    means = [fmean(row[template] for row in scores) for template in range(count)]
    middle = fmean(means)
    apart: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * count)
    for row, name in zip(scores, sets, strict=True):
        for template in range(count):
            apart[name][template] += (row[template] - means[template]) / n
    k = len(apart)
    # The noise of the variance of means: of each template's own part, what all templates have in common taken off.
    noise = sum(sum((value - fmean(of_set)) ** 2 for value in of_set) for of_set in apart.values()) / (
        count - 1
    )
    return sum((mean - middle) ** 2 for mean in means) / (count - 1) - k / (k - 1) * noise


SAY = {
    "prompt_twice": say_prompt_twice,
    "expert_roles": say_expert_roles,
    "text_behind": say_text_behind,
    "reading_artefact": say_reading_artefact,
}


# What should stand on the pages.


def read_rows(name: str, folder: Path) -> list[Row]:
    """All published rows of a claim."""
    rows: list[Row] = []
    for path in sorted((folder / "rows" / name).glob("*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
            rows += csv.DictReader(stream)
    return rows


def ended(name: str, rows: Sequence[Row]) -> tuple[str, str, int, Look | None, list[str]]:
    """Verdict (empty: none yet), counts, items a task, the look that said it, and what the next look lacks."""
    before: tuple[str, str, int, Look | None] = ("", "", 0, None)
    for number, (items, alpha) in enumerate(LOOKS, 1):
        look = Look(name, rows, items, alpha)
        missing = []
        for task in TASKS:
            wanted = min(items, 180 if task == "strategyqa" else 200)
            for condition in conditions_of(name):
                there = len(look.cells[task, condition])
                if there < 0.98 * wanted:
                    missing.append(f"{condition} on {task} ({there} of {wanted})")
        if missing:
            return *before, missing
        verdict, told, settled = SAY[name](look, "score")
        if settled or number == len(LOOKS):
            return verdict, told, items, look, []
        before = "", told, items, look
    raise AssertionError("the last look says something")


def page_of(name: str, folder: Path) -> str:
    """What should stand between the marks of a claim's page."""
    rows = read_rows(name, folder)
    design = json.loads((PROFILES / "registered.json").read_text(encoding="utf-8"))[name]["design"]
    if not rows:
        return (
            f"**Not yet run.** Registered as `{design[:12]}`. Verdicts, figure and tables will stand here, computed"
            " from published rows."
        )
    lines = [f"{len(rows):,} [rows](rows/{name}), registered as `{design[:12]}`.", ""]
    drawn = False
    for model in models_of(rows):
        mine = [row for row in rows if row["model"] == model]
        verdict, told, items, look, missing = ended(name, mine)
        engine = f"On the engine `{mine[0]['engine']}`"
        engine += "" if model in MODELS else " (not registered by name, judged by the same rule)"
        if verdict and look:
            lenient, counts, _ = SAY[name](look, "lenient")
            aside = f" (read leniently: {lenient})" if lenient != verdict else ""
            lines += [f"### {model}: {verdict}{aside}", "", f"{engine}, after {items} items a task: {told}."]
            if name != "reading_artefact":
                lines += ["", f"Read leniently at the same look: {lenient}; {counts}."]
            if later := len(mine) - len(look.rows):
                lines += [
                    "",
                    f"{later:,} rows were asked after that look; they change nothing and are in no table.",
                ]
        else:
            before = f"The look after {items} items settled nothing ({told}). " if items else ""
            after = next(count for count, _ in LOOKS if count > items)
            more = f" and {len(missing) - 3} more" if missing[3:] else ""
            lacks = f"The look after {after} items a task lacks {'; '.join(missing[:3])}{more}."
            lines += [f"### {model}: no verdict yet", "", f"{engine}. {before}{lacks}"]
        lines.append("")
        if look:
            drawn = True
            lines += tables_of(look)
    if drawn:
        shown = "scores of all templates" if name == "reading_artefact" else "registered contrasts"
        lines.append(f"![The {shown} over all live tasks]({name}.png)")
    return "\n".join(lines).rstrip("\n")


def models_of(rows: Sequence[Row]) -> list[str]:
    """Registered models first, others after them."""
    there = {row["model"] for row in rows}
    return [model for model in MODELS if model in there] + sorted(there - set(MODELS))


def tables_of(look: Look) -> list[str]:
    """The tables of a look."""
    lines = []
    if look.dead:
        lines = ["Not counted: " + "; ".join(f"{task} ({why})" for task, why in look.dead.items()) + ".", ""]
    head = ["condition", *look.tasks, "commonest answer", "abstained", "unreadable", "cut off"]
    lines += ["Score read strictly / leniently:", "", *header(head)]
    for condition in conditions_of(look.name):
        rows = [row for task in look.tasks for row in look.cells[task, condition].values()]
        levels = []
        for task in look.tasks:
            strict, lenient = (
                fmean(float(row[reading]) for row in look.cells[task, condition].values())
                for reading in ("score", "lenient")
            )
            levels.append(f"{strict:.2f} / {lenient:.2f}")
        most = max(
            commonest(row["answer"] for row in look.cells[task, condition].values()) for task in look.tasks
        )
        shares = [
            sum(row["abstained"] == "1" for row in rows),
            sum(not row["answer"] for row in rows),
            sum(row["outcome"] == "cut" for row in rows),
        ]
        told = " | ".join(f"{share / len(rows):.0%}" for share in shares)
        lines.append(f"| {condition} | {' | '.join(levels)} | up to {most:.0%} | {told} |")
    lines += ["", *header(["contrast, task by task", "better", "worse", "neither", "live tasks"])]
    by_task = [look.judged("score", (task,)) for task in look.live]
    for pair in contrasts_of(look.name) if look.live else []:
        words = Counter(words[pair] for words in by_task)
        counts = " | ".join(str(words[word]) for word in ("better", "worse", "neither"))
        lines.append(f"| {pair[0]} − {pair[1]} | {counts} | {len(look.live)} |")
    lines.append("")
    if look.name == "prompt_twice":
        alone = [
            (task, pair)
            for task in look.live
            for pair in contrasts_of(look.name)
            if pair[1] in ("zero", "few")
        ]
        moved = [
            fmean(look.differences(pair, "score", [task])[0])
            for task, pair in alone
            if look.p_value(pair, "score", [task]) < 0.1
        ]
        wins = sum(value > 0 for value in moved)
        losses = len(moved) - wins
        lines += [
            f"Counted as the paper counts (p < 0.1, uncorrected): {wins} wins and {losses} losses in {len(alone)}.",
            "",
        ]
    lines += header(["over all live tasks", "verdict", "strict, 95 % limits", "lenient, 95 % limits"])
    for pair in contrasts_of(look.name) if look.live else []:
        told = [
            "{:+.3f} [{:+.3f}, {:+.3f}]".format(*look.limits(pair, reading, 0.95))
            for reading in ("score", "lenient")
        ]
        form = f" ({FORM})" if is_form(look, pair) else ""
        lines.append(f"| {pair[0]} − {pair[1]} | {look.word(pair, 'score')}{form} | {' | '.join(told)} |")
    return [*lines, ""]


def is_form(look: Look, pair: Pair) -> bool:
    """Whether the readings disagree: in sign, or one alone holds and they are apart by half, or beyond chance.

    Chance is asked of the items' differences between the readings, by Student's limits.
    """
    strict, clusters = look.differences(pair, "score", look.live)
    lenient, _ = look.differences(pair, "lenient", look.live)
    held = [look.verdicts(reading)[pair] != "neither" for reading in ("score", "lenient")]
    values = fmean(strict), fmean(lenient)
    if held[0] != held[1]:
        apart = abs(values[0] - values[1])
        if apart >= 0.5 * max(map(abs, values)):
            return apart > 0
        by_item = [one - other for one, other in zip(strict, lenient, strict=True)]
        if not any(by_item):
            return False
        mean, error, freedom = mean_error(by_item, clusters)
        return abs(mean) > t_limit(freedom, 0.95) * error
    if not held[0] and all(look.rules_out(pair, reading)[0] for reading in ("score", "lenient")):
        return False
    return values[0] * values[1] < 0


def header(names: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def overview(folder: Path) -> str:
    """What should stand on the page of all claims."""
    body = []
    for name in NAMES:
        rows = read_rows(name, folder)
        title = (folder / f"{name}.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        for model in models_of(rows):
            mine = [row for row in rows if row["model"] == model]
            verdict, _, items, look, _ = ended(name, mine)
            lenient = SAY[name](look, "lenient")[0] if verdict and look else "–"
            engine, told = mine[0]["engine"], f"**{verdict}**" if verdict else "none yet"
            body.append(
                f"| [{title}]({name}.md) | {model} | `{engine}` | {told} | {lenient} | {items or '–'} | {len(mine):,} |"
            )
    if not body:
        return "No result is here yet."
    head = ["claim", "model", "engine", "verdict, strictly read", "read leniently", "items a task", "rows"]
    return "\n".join([*header(head), *body])


def expected(folder: Path) -> dict[str, str]:
    """What should stand between the marks of each page."""
    return {"README": overview(folder)} | {name: page_of(name, folder) for name in NAMES}


def differences(folder: Path = PAGES) -> list[str]:
    """Lines of the pages that say something else than the rows, with what they should say."""
    found = []
    for name, mine in expected(folder).items():
        text = (folder / f"{name}.md").read_text(encoding="utf-8")
        said = text.split(MARKS[0])[1].split(MARKS[1])[0]
        pairs = lines_of(said, mine)
        found += [f"{name}: {one!r} should be {other!r}" for one, other in pairs if one != other]
    return found


def lines_of(said: str, mine: str) -> list[tuple[str, str]]:
    """Two texts line by line, the shorter one filled up."""
    first, second = said.splitlines(), mine.splitlines()
    count = max(len(first), len(second))
    return [((first + [""] * count)[index], (second + [""] * count)[index]) for index in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--show", action="store_true", help="print what should stand on the pages")
    parser.add_argument("--pages", type=Path, default=PAGES, help="folder of the pages and rows")
    args = parser.parse_args()
    if args.show:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in expected(args.pages).items()))
        return 0
    found = differences(args.pages)
    print("\n".join(found) or "every line is the same")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
