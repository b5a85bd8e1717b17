"""What a reader must know before any number: answers that cannot be read, constant answers, designs that cannot decide.

An alarm is about the clean main rows of a run. Its thresholds are shares of rows or items at which the comparison of
conditions stops being about what they say: they are constants of this module, not of a profile.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pcsuite._util.text import counted, signed
from pcsuite.analysis.load.item_scores import LOGGED_SCORE, SCORE, CellKey, ItemScores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.schema import CELL_KEY
from pcsuite.analysis.pairings import CONTROL
from pcsuite.analysis.tables.attribution import depending_on_the_bundle
from pcsuite.analysis.tables.effects import UNEQUAL_FAILURES
from pcsuite.analysis.tables.judges import NOT_VALIDATED
from pcsuite.analysis.twins import doing
from pcsuite.config.operator_definitions import SHAM
from pcsuite.contrasts import ALPHA
from pcsuite.logging.manifest import MergedManifest, TaskNote
from pcsuite.stats.f1 import micro_f1
from pcsuite.stats.power import items_to_hold, least_p

OUTSIDE = "outside their length band"
SHARES = {
    "unreadable": (0.2, 0.5),
    "ambiguous": (0.02, 0.05),
    "truncated": (0.1, 0.25),
    "abstained": (0.3, 0.5),
    "refused": (0.05, 0.2),
    "filtered": (0.05, 0.2),
    "too long": (0.05, 0.2),
    "failed": (0.05, 0.2),
    OUTSIDE: (0.1, 0.5),
}
"""Share of all rows, and of the rows of one condition, from which there is an alarm."""
CONSTANT_SHARE = 0.9
CONSTANT_ITEMS = 8
"""Answers of a cell that are nearly constant: at least this share of at least so many readable ones."""
# At the floor nothing can be shown to hurt, at the ceiling nothing to help: the items decide, not the conditions.
FLOOR, CEILING = 0.05, 0.98
DEAD = 0.02
"""Score below which both sides of a comparison must lie for it to be one of nothing with nothing."""
_MOST_NAMED = 4
_CLEAN_ROWS = "kind = 'main' AND perturbation_type = 'none'"
_ROWS_COUNTED = 500_000
"""Rows from which the most frequent answer is looked for among a part of the items."""


IN_FEW_WORDS = {
    "unreadable": "unreadable answers",
    "ambiguous": "answers that can be read in two ways",
    "truncated": "answers cut off",
    "abstained": "abstentions",
    "refused": "refusals",
    "filtered": "filtered answers",
    "too long": "prompts too long",
    "failed": "failed calls",
    OUTSIDE: "prompts of unequal length",
    "nearly constant": "the same answer whatever the item",
    "majority class": "no better than one answer for all",
    "floor": "nothing right under any condition",
    "ceiling": "everything right under every condition",
    "sham is best": "a sham scores best",
    "both at the floor": "comparisons of nothing with nothing",
    "form": "the form changed, not the answers",
    "interaction": "effects that do not add up",
    "cannot decide": "too few items to decide",
    NOT_VALIDATED: "a judge that nobody checked",
}
"""What a kind of alarm is about; of others the kind says it."""


class Alarm(NamedTuple):
    """One thing that is wrong with a run, in a sentence."""

    kind: str
    text: str

    @property
    def in_few_words(self) -> str:
        """What it is about, for a line that has no room for the sentence."""
        return IN_FEW_WORDS.get(self.kind, self.kind)


def find_alarms(
    tables: RunTables, scores: ItemScores, manifest: MergedManifest, effects: Iterable[Mapping[str, Any]]
) -> list[Alarm]:
    """The alarms of loaded logs, the gravest kind first, and one of each kind before the second of any.

    None for a run in order.
    ``effects`` are records of ``effects.csv``.
    """
    every = list(effects)
    records = [record for record in every if record["kind"] == CONTROL]
    # Where nobody controls the length of prompts, the task's band means nothing.
    shares = [alarm for alarm in _shares(tables) if alarm.kind != OUTSIDE or manifest.length_control != "off"]
    alarms = [
        *_simulated(scores),
        *shares,
        *_constant(tables, manifest.tasks),
        *_levels(scores, manifest.tasks),
        *_best_is_sham(scores),
        *_dead(records),
        *_form(records),
        *_not_additive(every),
        *_undecidable(records),
        *_unequal_failures(records),
        *_unchecked_judges(records),
    ]
    # A study has many of one kind; they must not hide that there are others.
    by_kind: Counter[str] = Counter()
    rank = [by_kind.update([alarm.kind]) or by_kind[alarm.kind] for alarm in alarms]
    return [alarm for _, alarm in sorted(zip(rank, alarms, strict=True), key=lambda pair: min(pair[0], 2))]


def _simulated(scores: ItemScores) -> list[Alarm]:
    names = [name for name, model in scores.models.items() if model.provider == "simulated"]
    if not names:
        return []
    what = "is not a language model" if len(names) == 1 else "are not language models"
    text = (
        "answers are drawn from effects that were set in the configuration and say nothing about real models"
    )
    return [Alarm("simulated", f"Simulated: {', '.join(names)} {what}; {text}.")]


_CONSEQUENCES = {
    "unreadable": "could not be read and score 0: differences are also about which answers can be read",
    "ambiguous": (
        "can be read in two ways and count as wrong until somebody settles them: label them (pcsuite view, or pcsuite"
        " judge ambiguous), then pcsuite rescore"
    ),
    "truncated": "were cut off at the token limit: raise max_tokens, or ask for shorter answers",
    "abstained": "decline to answer where there is an answer",
    "refused": "were refused by the model and score as the task scores such a text",
    "filtered": "were held back by the provider's filter and score as empty answers",
    "too long": "had a prompt too long for the model's context and score as empty answers",
    "failed": "ended in an error and are left out of averages",
    OUTSIDE: "had a prompt outside the task's range of tokens: conditions differ in length, not only in content",
}


def _shares(tables: RunTables) -> list[Alarm]:
    """Kinds of rows that are too many, over all conditions or in one of them."""
    abstained = tables.metric_column("abstained")
    declined = f"coalesce({abstained}, 0) > 0.5" if abstained else "false"
    # To decline is the right answer to some items: a third of FEVER's have too little evidence.
    right = tables.metric_column("abstain_correct")
    wrongly = f"{declined} AND NOT coalesce({right}, 0) > 0.5" if right else declined
    # An imported log may not say what was read from an answer; its rows have a score all the same.
    unreadable = "n_errors = 0 AND answer IS NULL AND profile NOT LIKE 'imported:%'"
    counted_rows = {
        "unreadable": f"{unreadable} AND NOT ({declined})",
        "ambiguous": "n_errors = 0 AND reading = 'ambiguous'",
        "truncated": "n_errors = 0 AND finish_reason = 'length'",
        "abstained": f"n_errors = 0 AND {wrongly}",
        "refused": "n_errors = 0 AND outcome = 'refused'",
        "filtered": "n_errors = 0 AND outcome = 'filtered'",
        "too long": "n_errors = 0 AND outcome = 'too_long'",
        "failed": "n_errors > 0",
        OUTSIDE: "band <> 'inside'",
    }
    counts = tables.query(
        f"SELECT condition_id, count(*), {', '.join(f'count(*) FILTER ({counted_rows[kind]})' for kind in SHARES)}"
        f" FROM runs WHERE {_CLEAN_ROWS} GROUP BY condition_id ORDER BY condition_id"
    )
    alarms = []
    for index, (kind, (overall, single)) in enumerate(SHARES.items()):
        by_condition = {condition: (parts[index], total) for condition, total, *parts in counts}
        counted = sum(part for part, _ in by_condition.values())
        rows = sum(total for _, total in by_condition.values())
        shares = {name: part / total for name, (part, total) in by_condition.items()}
        if not counted or (counted / rows < overall and max(shares.values()) < single):
            continue
        worst = sorted((name for name in shares if shares[name] > 0), key=lambda name: -shares[name])
        conditions = ", ".join(f"{name} {shares[name]:.0%}" for name in worst[:_MOST_NAMED])
        conditions += f" and {len(worst) - _MOST_NAMED} more" if len(worst) > _MOST_NAMED else ""
        what = f"{counted:,} of {rows:,} answers ({counted / rows:.0%}) {_CONSEQUENCES[kind]}"
        alarms.append(Alarm(kind, f"{what} ({conditions})." if len(shares) > 1 else f"{what}."))
    return alarms


def _constant(tables: RunTables, tasks: Mapping[str, TaskNote]) -> list[Alarm]:
    """Cells that give nearly the same answer whatever the item, unless that is what is true of nearly all of them."""
    (rows,) = tables.query("SELECT count(*) FROM runs WHERE kind = 'main'")[0]
    # A constant answer shows in any part of the items; counting all answers of a large log is what would cost.
    part = f" AND hash(item_id) % {math.ceil(rows / _ROWS_COUNTED)} = 0" if rows > _ROWS_COUNTED else ""
    score = tables.metric_column(LOGGED_SCORE)
    mean = f"coalesce(avg({score}), 0)" if score else "0"
    counts = (
        f"SELECT {CELL_KEY}, answer, count(*) AS times, {mean} AS mean_score FROM runs WHERE {_CLEAN_ROWS}"
        f" AND n_errors = 0 AND answer IS NOT NULL{part} GROUP BY ALL"
    )
    constant_cells = tables.query(
        f"SELECT {CELL_KEY}, max_by(answer, times), max(times) / sum(times) AS share FROM ({counts})"
        f" GROUP BY {CELL_KEY} HAVING sum(times) >= ? AND share >= ? AND max_by(mean_score, times) < ?"
        f" ORDER BY {CELL_KEY}",
        [CONSTANT_ITEMS, CONSTANT_SHARE, CONSTANT_SHARE],
    )
    regimes: dict[tuple[str, str], set[str]] = {}
    for task, model, decoding in tables.query(
        f"SELECT DISTINCT task_id, model_id, decoding_id FROM runs WHERE {_CLEAN_ROWS}"
    ):
        regimes.setdefault((task, model), set()).add(decoding)
    by_group: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for task, model, decoding, _, condition, answer, share in constant_cells:
        note = tasks.get(task, TaskNote())
        if note.majority_share is None or note.majority_share < CONSTANT_SHARE:
            constant = by_group.setdefault((task, model, str(answer)), {})
            constant.setdefault(condition, {})[decoding] = float(share)
    alarms = []
    for (task, model, answer), constant in by_group.items():
        names = ", ".join(
            condition if set(shares) == regimes[task, model] else f"{condition} under {', '.join(shares)}"
            for condition, shares in constant.items()
        )
        every = [share for shares in constant.values() for share in shares.values()]
        least = "all" if min(every) == 1 else f"{'at least ' * (len(every) > 1)}{min(every):.0%}"
        note = tasks.get(task, TaskNote())
        where = f"Nearly constant: {names} on {task} × {model}"
        text = f"{where}: {least} of the answers that could be read are “{answer[:60]}”"
        if note.majority_share is not None:
            text += f"; always answering “{note.majority_label}” would score {note.majority_share:.2f}"
        alarms.append(Alarm("nearly constant", f"{text}."))
    return alarms


def _levels(scores: ItemScores, tasks: Mapping[str, TaskNote]) -> list[Alarm]:
    """Groups at the floor, at the ceiling, or no better than the majority class under any condition."""
    alarms = []
    for (task, model, decoding), keys in scores.groups().items():
        means = [level for key in keys if (level := _level(scores, key)) is not None]
        if not means:
            continue
        where, best = f"{task} × {model} × {decoding}", max(means)
        note = tasks.get(task, TaskNote())
        if best <= FLOOR:
            text = f"At the floor: no condition scores above {best:.2f} on {where}, so none can be shown to hurt."
            alarms.append(Alarm("floor", text))
        elif min(means) >= CEILING:
            text = f"At the ceiling: every condition scores {min(means):.2f} or more on {where}: use harder items."
            alarms.append(Alarm("ceiling", text))
        elif note.majority_share is not None and best <= note.majority_share:
            text = (
                f"No condition beats the majority class on {where}: the best scores {best:.2f}, always answering"
                f" “{note.majority_label}” {note.majority_share:.2f}."
            )
            alarms.append(Alarm("majority class", text))
    return alarms


def _level(scores: ItemScores, key: CellKey) -> float | None:
    """A cell's mean score, or micro-F1 where counts are pooled; ``None`` without a scored item."""
    cell = scores.cells[key]
    values = cell.metric(SCORE)[1]
    if len(values) == 0:
        return None
    if scores.is_pooled(key.task):
        return float(micro_f1(cell.counts().sum(axis=0)[None, :])[0])
    return float(values.mean())


def _best_is_sham(scores: ItemScores) -> list[Alarm]:
    """Groups whose highest score is that of a negative control: a text that says nothing."""
    alarms = []
    for (task, model, decoding), keys in scores.groups().items():
        means = {key: level for key in keys if (level := _level(scores, key)) is not None}
        shams = {key for key in means if doing(scores, scores.operators_in(key), SHAM)}
        if not shams or not means.keys() - shams:
            continue
        best, rival = max(shams, key=means.__getitem__), max(means.keys() - shams, key=means.__getitem__)
        if means[best] > max(means[rival], FLOOR):
            text = (
                f"The best condition is a sham: {best.condition} scores {means[best]:.2f} on {task} × {model} ×"
                f" {decoding}, the best other one, {rival.condition}, {means[rival]:.2f}: length, place or chance does"
                " as much there as what any block says."
            )
            alarms.append(Alarm("sham is best", text))
    return alarms


def _dead(effects: Sequence[Mapping[str, Any]]) -> list[Alarm]:
    """Comparisons of nothing with nothing, which belong in no denominator."""
    compared = [record for record in effects if record["metric"] == SCORE and record["control"] is not None]
    dead = [record for record in compared if round(max(record["control"], record["treated"]), 9) < DEAD]
    # Where all are, the task's alarm of the floor says so.
    if not dead or len(dead) == len(compared):
        return []
    groups = Counter(f"{record['task']} × {record['model']}" for record in dead)
    where = ", ".join(f"{name} {times}" for name, times in groups.most_common(_MOST_NAMED))
    where += f" and {len(groups) - _MOST_NAMED} more" if len(groups) > _MOST_NAMED else ""
    text = (
        f"{len(dead)} of {len(compared)} comparisons have both sides below {DEAD} ({where}): they can show"
        f" nothing; count {len(compared) - len(dead)} where shares of comparisons are told."
    )
    return [Alarm("both at the floor", text)]


def _form(effects: Sequence[Mapping[str, Any]]) -> list[Alarm]:
    """Effects of which strict and lenient reading say different things."""
    formal = [record for record in effects if record["metric"] == SCORE and record.get("form")]
    if not formal:
        return []
    widest = max(formal, key=lambda record: abs(record["delta"] - record["lenient_delta"]))
    readings = f"{signed(widest['delta'])} strictly read, {signed(widest['lenient_delta'])} leniently"
    text = (
        f"Strict and lenient reading disagree on {counted(len(formal), 'effect')}: what changed is the form of the"
        f" answers, not the answers (most: {widest['condition']} on {widest['task']} × {widest['model']} ×"
        f" {widest['decoding']}, {readings})."
    )
    return [Alarm("form", text)]


def _not_additive(effects: Sequence[Mapping[str, Any]]) -> list[Alarm]:
    """Operators whose effect depends on the bundle they join, so that no one number is theirs."""
    alarms = []
    for (task, model, decoding, operator), records in depending_on_the_bundle(effects).items():
        ways = " and ".join(
            f"{signed(record['delta'])} from {record['baseline']} to {record['condition']}"
            for record in records
        )
        text = (
            f"Effects do not add up: {operator} changes the score by {ways} on {task} × {model} × {decoding}; a share"
            " by least squares divides among all blocks what belongs to their combination."
        )
        alarms.append(Alarm("interaction", text))
    return alarms


def _undecidable(effects: Sequence[Mapping[str, Any]]) -> list[Alarm]:
    """Tasks with so few items that an effect of the largest size would not stand after the correction.

    The sign-flip test of n items has no p-value below 2^(1−n); the correction multiplies that of a single effect by the
    number of comparisons.
    """
    # A family is a task's, as in effects.csv: the more is compared there, the less a single effect can hold.
    families: dict[str, list[int]] = {}
    for record in effects:
        if record["metric"] == SCORE and record["p_value"] is not None:
            families.setdefault(record["task"], []).append(record["n_items"])
    alarms = []
    for task, items in families.items():
        most, needed = max(items), items_to_hold(len(items), alpha=ALPHA)
        if most >= needed:
            continue
        what = (
            "Nothing can hold"
            if least_p(most) > ALPHA
            else f"No single effect can hold after correction over {len(items)} comparisons"
        )
        alarms.append(
            Alarm("cannot decide", f"{what} on {task}: {most} items are too few, {needed} the least.")
        )
    return alarms


def _unchecked_judges(effects: Sequence[Mapping[str, Any]]) -> list[Alarm]:
    tasks = dict.fromkeys(record["task"] for record in effects if record.get("judge") == NOT_VALIDATED)
    return [
        Alarm(
            NOT_VALIDATED,
            f"The judge of {task} is not validated: its scores are a model's opinion (pcsuite judge sample).",
        )
        for task in tasks
    ]


def _unequal_failures(effects: Sequence[Mapping[str, Any]]) -> list[Alarm]:
    uneven = [
        record
        for record in effects
        if record["metric"] == SCORE and UNEQUAL_FAILURES in (record.get("caution") or "")
    ]
    if not uneven:
        return []
    conditions = ", ".join(
        f"{record['condition']} {record['failed_treated']:.0%} against {record['failed_control']:.0%}"
        for record in uneven[:_MOST_NAMED]
    )
    bounds = "delta_least and delta_most in effects.csv bound what that hides"
    return [Alarm("unequal failures", f"Calls fail unequally often ({conditions}): {bounds}.")]
