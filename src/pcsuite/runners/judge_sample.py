"""Drawing answers of a run to be labelled, and the table that people fill in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pcsuite._util.files import replace_atomically, write_errors
from pcsuite.analysis.judging import draw_sample
from pcsuite.config.load import Suite
from pcsuite.data.items import load_items
from pcsuite.errors import LogError
from pcsuite.logging.labels import JudgeSample, Labels, read_sample, sheet_csv, write_sample
from pcsuite.logging.log import RunPaths
from pcsuite.logging.manifest import read_manifest
from pcsuite.logging.segments import Beside


class LabellingSheet(NamedTuple):
    """A drawn sample and the table that asks for its labels."""

    sample: JudgeSample
    log: Path
    table: Path
    labelled: int
    """Answers of the sample that have a label already."""
    outside: int
    """Labels of an earlier sample that are not in this one."""


def write_labelling_sheet(
    suite: Suite,
    *,
    items: int,
    tasks: Sequence[str] = (),
    models: Sequence[str] = (),
    conditions: Sequence[str] = (),
    table: Path | None = None,
) -> LabellingSheet:
    """Draw ``items`` random items of each judged task of a run, and write their answers to a table to label.

    The sample is kept beside the log; ``table`` is by default beside it too. Raises :class:`LogError` where there is no
    run or the table cannot be written, :class:`~pcsuite.errors.AnalysisError` where there is nothing to label.
    """
    run = suite.profile.run
    log = RunPaths.of(run.output_dir, run.name).log
    manifest = read_manifest(log)
    if manifest is None:
        raise LogError(f"{log}: no run to draw from", hint="pcsuite run --config PROFILE")
    sample = draw_sample(log, manifest, items=items, tasks=tasks, models=models, conditions=conditions)
    earlier, labels = read_sample(log), Labels(log).read()
    drawn = {unit.id for unit in sample.units}
    outside = [
        unit for unit in (earlier.units if earlier else ()) if unit.id in labels and unit.id not in drawn
    ]
    write_sample(log, sample)
    inputs: dict[tuple[str, str], str] = {}
    for task in sample.items:
        spec = suite.tasks.get(task)
        if spec is not None:
            loaded = load_items(spec.dataset, spec.split, Path(run.cache_dir))
            inputs |= {(task, item.item_id): item.input_text for item in loaded.items}
    table = table or Beside.TO_LABEL.of(log)
    with write_errors(LogError, table):
        replace_atomically(table, sheet_csv(sample, inputs, labels).encode("utf-8"))
    labelled = sum(unit.id in labels for unit in sample.units)
    return LabellingSheet(sample, log, table, labelled, len(outside))
