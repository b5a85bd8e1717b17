"""Labelling answers, blind: neither condition nor model nor the judge's word is shown.

They are the sampled answers of a judged run, in the order in which ``pcsuite judge sample`` drew them, or those that
can be read in two ways (:mod:`pcsuite.analysis.ambiguous`). Labels go to the run's own file
(:mod:`pcsuite.logging.labels`), and nothing else is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pcsuite.analysis.ambiguous import UnsureAnswer, ambiguous_sample
from pcsuite.errors import ConfigError
from pcsuite.logging.labels import CANNOT_TELL, LABEL_WORDS, JudgeSample, Labels, read_sample
from pcsuite.view.data import OpenRun
from pcsuite.view.filters import whole_number
from pcsuite.view.viewer import Viewer

if TYPE_CHECKING:
    from starlette.requests import Request


def label_page(viewer: Viewer, request: Request) -> tuple[str, dict[str, Any]]:
    """One drawn answer (or pair) with the rubric and a button for each label; by default the next without a label."""
    run = viewer.run(request.path_params["run"])
    return _labelling(request, run, sample_of(run), "label")


def ambiguous_page(viewer: Viewer, request: Request) -> tuple[str, dict[str, Any]]:
    """One answer that can be read in two ways, with what is true, and the same buttons."""
    run = viewer.run(request.path_params["run"])
    template, context = _labelling(request, run, unsure_of(run), "ambiguous")
    unit = context["unit"]
    item = run.items.get(unit.task, unit.item) if unit is not None else None
    return template, context | {"truth": None if item is None else dict(item.truth)}


def _labelling(request: Request, run: OpenRun, sample: JudgeSample, page: str) -> tuple[str, dict[str, Any]]:
    labels = Labels(run.log).read()
    units = sample.units
    open_units = [index for index, unit in enumerate(units) if unit.id not in labels]
    asked = whole_number(request.query_params, "at")
    index = asked - 1 if asked is not None else (open_units[0] if open_units else None)
    if index is not None and not 0 <= index < len(units):
        raise ConfigError(f"the sample has {len(units)} answers, there is no number {asked}")
    context: dict[str, Any] = {
        "run": run,
        "total": len(units),
        "done": len(units) - len(open_units),
        "index": index,
        "unit": None,
        "page": page,
        "truth": None,
    }
    if index is not None:
        unit = units[index]
        item = run.items.get(unit.task, unit.item)
        label = labels.get(unit.id)
        context |= {
            "unit": unit,
            "rubric": sample.rubrics.get(unit.task, ""),
            "input": item.input_text if item is not None else None,
            "words": [*enumerate(LABEL_WORDS[sample.scales[unit.task]], 1), (0, CANNOT_TELL)],
            "known": label,
        }
    return "label.html.j2", context


def add_label(viewer: Viewer, name: str, form: dict[str, str], page: str = "label") -> None:
    """Note what the form says about an answer of the page ``label`` or ``ambiguous``.

    Raises ``ConfigError`` for an answer that was not drawn, ``DataError`` for a word that is no label.
    """
    run = viewer.run(name)
    sample = sample_of(run) if page == "label" else unsure_of(run)
    unit = next((unit for unit in sample.units if unit.id == form["unit"]), None)
    if unit is None:
        raise ConfigError("this answer was not drawn to be labelled")
    Labels(run.log).add(unit, sample.scales[unit.task], form["label"], form["note"])


def unsure_of(run: OpenRun) -> JudgeSample:
    """The run's answers that can be read in two ways; a ``ConfigError`` where it has none that could be labelled."""
    rows = run.query(
        "SELECT task_id, item_id, text, run_id FROM runs WHERE kind = 'main' AND n_errors = 0"
        " AND reading = 'ambiguous' ORDER BY task_id, item_id, run_id"
    )
    sample = ambiguous_sample((UnsureAnswer(*row) for row in rows), run.manifest.tasks)
    if not sample.units:
        raise ConfigError(f"no answer of run '{run.name}' can be read in two ways")
    return sample


def sample_of(run: OpenRun) -> JudgeSample:
    """The run's sample; a ``ConfigError`` with the command that draws one where there is none."""
    sample = read_sample(run.log)
    if sample is None or not sample.units:
        raise ConfigError(
            f"no answers of run '{run.name}' were drawn to be labelled",
            hint="pcsuite judge sample --config PROFILE",
        )
    return sample
