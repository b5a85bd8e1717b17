"""``pcs.compare``: two runs, baselines, files of other tools or tables, whatever a user names, item by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcsuite.analysis.asked_items import RunPlan, clustered_scores, without_items
from pcsuite.analysis.baseline import Baseline, is_baseline
from pcsuite.analysis.compare import JudgedSide, compare_runs
from pcsuite.analysis.comparison import Comparison, Correction, ItemChange
from pcsuite.analysis.load.item_scores import (
    SCORE,
    ItemScores,
)
from pcsuite.analysis.metrics import Metrics, metrics_of
from pcsuite.analysis.probabilities import with_probabilities
from pcsuite.api.imports import is_own_log, read_foreign
from pcsuite.api.profiles import Profile, load
from pcsuite.api.runs import Run, items_of
from pcsuite.config.profile import MissingAnswers
from pcsuite.config.spellings import column_names
from pcsuite.contrasts import Assumption
from pcsuite.errors import AnalysisError, ConfigError
from pcsuite.logging.row import IMPORTED
from pcsuite.logging.segments import find_log, log_exists


def compare(
    first: Run | Baseline | str | Path | Any,
    second: Run | str | Path | Any,
    *,
    margin: float = 0.0,
    output_dir: str | Path = "outputs",
    missing: MissingAnswers | None = None,
    allow_different_items: bool = False,
    cluster: Sequence[str] | str = (),
    profile: Profile | None = None,
    posterior: bool = False,
    assume: Assumption = "nothing",
    conditions: Sequence[str] | str = (),
    arms: tuple[str, str] | None = None,
    correction: Correction | None = None,
    **reading: Any,
) -> Comparison:
    """Compare two runs item by item: did the second get better or worse, and how surely?

    Runs are results, names below ``output_dir``, logs, (the first) a baseline or its file, files of other tools, or
    tables: a frame of pandas or polars or an Arrow table, with ``item`` and ``score`` (and ``arm``, ``repeat``) among
    the ``reading`` options of :func:`read_foreign`. ``arms`` are the conditions to compare, of the
    first and of the second, where there are several. Changes up to ``margin``
    are no regression; with a margin ``standing`` also says whether the second is shown to be no worse by it. Items that
    were planned and have no score are bounded, unless ``missing`` is ``drop`` (by default as the second run's profile
    says); runs that were to ask different items are refused with an ``AnalysisError`` unless
    ``allow_different_items``. ``cluster`` are columns of the items that say which of them are related, instead of the
    clusters in the logs; the items are those of ``profile``, else of the profile that the runs were made from.
    ``posterior`` adds the probabilities that a cell is better, and within ``margin`` where there is one. What is said
    of graded scores holds whatever the shape of their differences, unless ``assume`` is ``symmetric``. ``conditions``
    are the only ones that are compared; ``"C3=C4"`` holds C4 of the second run against C3 of the first. Reliable is
    what holds after the ``correction``: ``bh`` over the cells of a metric (the default), or ``holm`` over all cells and
    metrics at once (the default of imported files and tables, whose metrics are all read at once).

        pcs.compare("before", "after", margin=0.05).standing
        pcs.compare("base.json", "new.json", margin=0.05).standing
        pcs.compare(frame_a, frame_b, item="question", score="correct", cluster="document").table
    """
    if margin < 0:
        raise ConfigError(f"--margin {margin}: a margin is not negative")
    columns = column_names(cluster)
    first = side_of(first, output_dir, reading, cluster=columns, name="first")
    later = side_of(second, output_dir, reading, cluster=columns, name="second", beside=first)
    if isinstance(later, Baseline):
        raise ConfigError("a baseline goes first", hint="pcsuite compare BASELINE.json RUN")
    check_reading(reading, (first, later))
    if missing is None and later.suite is not None:
        missing = later.suite.profile.missing
    elif missing is None:
        missing = "drop" if later.manifest.missing == "drop" else "bound"
    sides = _Sides.of_baseline(first, later) if isinstance(first, Baseline) else _Sides.of_runs(first, later)
    if cluster and later.keep is None:
        suite = load(profile) if profile is not None else None
        earlier = later if isinstance(first, Baseline) else first  # a baseline keeps no items
        sides.scores = (
            clustered_scores(sides.scores[0], items_of(earlier, suite), columns),
            clustered_scores(sides.scores[1], items_of(later, suite), columns),
        )
    if arms is not None:
        sides.scores = (_of_condition(sides.scores[0], arms[0]), _of_condition(sides.scores[1], arms[1]))
    if correction is None:
        correction = "holm" if later.manifest.profile.startswith(IMPORTED) else "bh"
    comparison = compare_runs(
        *sides.scores,
        metrics=sides.metrics,
        margin=margin,
        judged=(sides.judge, JudgedSide.of(later.log)),
        plans=sides.plans,
        allow_different_items=allow_different_items,
        missing=missing,
        assume=assume,
        conditions=condition_pairs(conditions),
        correction=correction,
    )
    return _with_posterior(comparison) if posterior else comparison


@dataclass(slots=True)
class _Sides:
    """What of two runs is compared: the scores of the first and of the second, and what is known of both."""

    scores: tuple[ItemScores, ItemScores]
    plans: tuple[RunPlan, RunPlan]
    metrics: Metrics
    judge: JudgedSide | None
    """What is known of the first run's judge; nothing of a baseline's."""

    @classmethod
    def of_runs(cls, first: Run, later: Run) -> _Sides:
        """Everything that both have."""
        return cls(
            (first.scores, later.scores),
            (RunPlan.of(first.manifest), RunPlan.of(later.manifest)),
            metrics_of(first.manifest.metrics, later.manifest.metrics),
            JudgedSide.of(first.log),
        )

    @classmethod
    def of_baseline(cls, first: Baseline, later: Run) -> _Sides:
        """A baseline's items that still read as they did; what else was to be asked of it is not known."""
        digests = later.digests()
        unchanged, _ = first.without_changed(digests)
        scores = (unchanged.scores, without_items(later.scores, first.changed(digests)))
        return cls(scores, (RunPlan(), RunPlan()), later.metrics, None)


def condition_pairs(conditions: Sequence[str] | str) -> dict[str, str]:
    """Conditions to compare, as they were typed, by the first run's name; a ``ConfigError`` for a half of a pair.

    >>> condition_pairs("full, C3=C4")
    {'full': 'full', 'C3': 'C4'}
    """
    pairs = {}
    for entry in conditions.split(",") if isinstance(conditions, str) else conditions:
        first, equals, second = (part.strip() for part in entry.partition("="))
        if equals and not (first and second):
            raise ConfigError(
                f"--conditions {entry.strip()}: expected A, or A=B for A of the first run and B of the second"
            )
        if first in pairs:
            raise ConfigError(f"--conditions: '{first}' is named twice")
        if first:
            pairs[first] = second or first
    return pairs


def side_of(
    source: Run | Baseline | str | Path | Any,
    output_dir: str | Path,
    reading: Mapping[str, Any],
    *,
    cluster: Sequence[str],
    name: str,
    beside: Run | Baseline | None = None,
) -> Run | Baseline:
    """One side of a comparison, whatever a user named: a run, a baseline, a file of another tool, or a table.

    Runs by name and logs of our own go first. ``beside`` is the other side: where both are imported and each has one
    task, the second gets the name of the first, because a title that was edited does not make another task.
    """
    if isinstance(source, (Run, Baseline)):
        return source
    foreign = not isinstance(source, (str, Path))
    if not foreign:
        path = Path(source)
        if is_baseline(path):
            return Baseline.read(path)
        by_name = path.name and log_exists(Path(output_dir) / "runs" / f"{source}.jsonl")
        foreign = bool(reading.get("format")) or (path.exists() and not by_name and not is_own_log(path))
    if not foreign:
        return Run(find_log(source, output_dir))
    task = None
    if isinstance(beside, Run) and beside.keep is not None and len(beside.manifest.tasks) == 1:
        task = next(iter(beside.manifest.tasks))
    return read_foreign(source, cluster=cluster, name=name, task=task, **reading)


def check_reading(reading: Mapping[str, Any], sides: Sequence[Run | Baseline]) -> None:
    """Refuse words about files of other tools, or misspelled ones, where neither side is read by them."""
    if reading and not any(isinstance(side, Run) and side.keep is not None for side in sides):
        words = ", ".join(reading)
        raise ConfigError(
            f"{words}: these are runs of ours, and that goes with files of other tools and tables"
        )


def _of_condition(scores: ItemScores, name: str) -> ItemScores:
    """The cells of one condition, named whole or by a beginning that no other has; ``AnalysisError`` where none is."""
    there = sorted({key.condition for key in scores.cells})
    meant = [name] if name in there else [condition for condition in there if condition.startswith(name)]
    if len(meant) != 1:
        listed = ", ".join(f"'{condition}'" for condition in there[:12])
        problem = "no condition is called" if not meant else "several conditions begin with"
        raise AnalysisError(f"{problem} '{name}'", hint=f"there are {listed}")
    return replace(
        scores, cells={key: cell for key, cell in scores.cells.items() if key.condition == meant[0]}
    )


def _with_posterior(comparison: Comparison) -> Comparison:
    """The comparison with probabilities beside each tested difference; cells of one metric are shrunk together."""
    metrics = comparison.metrics

    def better(record: Mapping[str, Any]) -> int | None:
        high = metrics[record["metric"]].higher_is_better
        tested = not metrics.is_cost(record["metric"]) and record["p_value"] is not None
        return None if high is None or not tested else 1 if high else -1

    table = with_probabilities(
        comparison.table,
        better,
        lambda record: record["metric"],
        margin=lambda record: comparison.margin or None if record["metric"] == SCORE else None,
    )
    return replace(comparison, table=table)


def changed_answers(
    first: Run | None, second: Run, changes: Sequence[ItemChange]
) -> dict[ItemChange, tuple[str, str]]:
    """What was answered before and now to items whose score changed; of several replicates the one that scores lowest.

    ``first`` is ``None`` where it is a baseline, which keeps no texts.
    """
    keys = [(change.key, change.item_id) for change in changes]
    now = second.answers(keys)
    before = first.answers(keys) if first is not None else {}
    return {
        change: (before.get(key, ""), now.get(key, "")) for change, key in zip(changes, keys, strict=True)
    }
