"""``judges.csv``: how the judge of each task stands against gold labels, as ``pcsuite judge check`` found it.

Without that check a task's judge is *not validated*, and every table and figure of its scores says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite._util.text import figure_text, limits_text
from pcsuite.analysis.judging import EVERY_CONDITION, Gold, sample_words
from pcsuite.analysis.table import Column, Table, TableSpec, interval
from pcsuite.errors import LogError
from pcsuite.logging.manifest import JudgeNote
from pcsuite.logging.segments import Beside

NOT_VALIDATED = "judge not validated"
JUDGES = TableSpec(
    "judges",
    "Judges against gold labels",
    "judged task and condition, and one for all its conditions together",
    (
        Column("task", "id of the task"),
        Column("judge", "id of the model that judged"),
        Column("condition", "id of the condition, or all"),
        Column("n_items", "labelled items"),
        Column("n_labels", "labelled answers"),
        Column("agreement", "share of labels that the judge agrees with", digits=2),
        *interval("kappa", "Cohen's kappa: agreement beyond chance", label="κ", form="interval", digits=2),
        *interval(
            "alpha", "Krippendorff's alpha (ordinal for 1 to 5 and pairs)", label="α", form="interval", digits=2
        ),
        Column("judge_rate", "mean of the judge's scores: its base rate of passing", digits=2),
        Column("gold_rate", "mean of the gold scores", digits=2),
        *interval("bias", "judge's score less the gold one", form="difference", digits=2),
        Column("sensitivity", "share of good answers that the judge passes (pass_fail)", digits=2),
        Column("specificity", "share of bad answers that the judge fails (pass_fail)", digits=2),
        *interval(
            "length_bias", "bias on the longer half of the answers less that on the shorter half", form="difference",
            digits=2,
        ),
        Column("flips", "share of pairs whose verdict changed with the order of the answers", digits=2),
        Column("n_pairs", "pairs that were asked in both orders"),
        *interval(
            "self_consistency", "share of verdicts that stay when the same is asked again", form="interval", digits=2
        ),
        Column("n_again", "verdicts that were asked for again"),
        Column("unreadable", "labelled answers whose verdict could not be read"),
        Column("labelled_rate", "of all conditions: mean of the judge's scores of the labelled items", digits=2),
        Column("others_rate", "of all conditions: mean of its scores of the others", digits=2),
        *interval(
            "sample_difference",
            "of all conditions: the first less the second; labels of a random sample differ by chance only",
            form="difference",
            digits=2,
        ),
        Column("sample_p", "two-sided p-value of that difference, over items or their clusters", form="p"),
    ),
    note=(
        "A judge earns its place here: against labels of a random sample, condition by condition. A bias that differs"
        " between conditions makes effects of the judge's own scores wrong; prediction-powered effects are corrected"
        " for it."
    ),
)  # fmt: skip


class CheckedJudge(msgspec.Struct):
    """Which judge was checked."""

    model: str = ""
    prompt_hash: str = ""
    labels: int = 0


class JudgeCheck(msgspec.Struct):
    """``<run>.judge_check.json``."""

    checked_utc: str = ""
    tasks: dict[str, CheckedJudge] = {}
    records: list[dict[str, Any]] = []


def write_check(log: Path, check: JudgeCheck) -> Path:
    """Save a check beside its run, whole or not at all."""
    path = Beside.JUDGE_CHECK.of(log)
    with write_errors(LogError, path):
        replace_atomically(path, msgspec.json.format(msgspec.json.encode(check), indent=1) + b"\n")
    return path


def read_check(log: Path) -> JudgeCheck:
    """The check of a log, empty where there is none; raises :class:`LogError` where it cannot be read."""
    path = Beside.JUDGE_CHECK.of(log)
    try:
        return msgspec.json.decode(path.read_bytes(), type=JudgeCheck)
    except FileNotFoundError:
        return JudgeCheck()
    except (OSError, msgspec.MsgspecError) as error:
        raise LogError(f"{path}: not a check of a judge ({error})", hint="pcsuite judge check") from error


@dataclass(slots=True)
class JudgeStatus:
    """What is known of the judges of a report, by task."""

    words: dict[str, str] = field(default_factory=dict)
    """By judged task: "judge not validated", or what the check found, in a few words."""
    records: list[dict[str, Any]] = field(default_factory=list)
    unlike: dict[str, str] = field(default_factory=dict)
    """By judged task whose labelled items do not resemble the rest: that in a sentence."""

    @property
    def unvalidated(self) -> list[str]:
        """Judged tasks without a check."""
        return [task for task, words in self.words.items() if words == NOT_VALIDATED]

    def note(self, tasks: Sequence[str] | None = None) -> str:
        """A sentence on the judges of some tasks (default: all), empty where none of them is judged."""
        judged = [task for task in self.words if tasks is None or task in tasks]
        notes = ("; ".join(filter(None, (self.words[task], self.unlike.get(task)))) for task in judged)
        return " ".join(f"{task}: {words}." for task, words in zip(judged, notes, strict=True))

    def table(self) -> Table:
        """``judges.csv``."""
        return Table.of(JUDGES, self.records)


def judge_status(
    logs: Sequence[Path], judges: Mapping[str, JudgeNote], gold: Gold | None = None
) -> JudgeStatus:
    """The checks of some logs, as far as they are about the judges that the runs had.

    A check of another rubric, prompt or model counts for nothing: that was another judge. ``gold`` are the labels of
    the logs, of which it is told where they are no random sample of the items.
    """
    status = JudgeStatus(dict.fromkeys(judges, NOT_VALIDATED))
    for task in judges if gold is not None else ():
        sample = gold.sample(task) if gold is not None else None
        if sample is not None and not sample.alike:
            status.unlike[task] = sample_words(sample)
    for log in logs if judges else ():
        check = read_check(log)
        for task, about in check.tasks.items():
            judge = judges.get(task)
            # A check is of one model and one wording of its question; after a change of either it says nothing.
            if judge is None or (about.model, about.prompt_hash) != (judge.model, judge.prompt_hash):
                continue
            records = [record for record in check.records if record.get("task") == task]
            status.records += [{name: record.get(name) for name in JUDGES.names} for record in records]
            overall = next((r for r in records if r.get("condition") == EVERY_CONDITION), None)
            if overall is None:
                continue
            kappa, low, high = (overall.get(name) for name in ("kappa", "kappa_low", "kappa_high"))
            words = f"judge {judge.model} checked on {overall.get('n_labels')} labels"
            if kappa is None:
                words += ", of which κ cannot be told"
            else:
                chance = " and not shown to beat chance" if low is not None and low <= 0 else ""
                words += f"{chance} (κ {figure_text(kappa)}{limits_text(low, high)})"
            status.words[task] = words
    return status
