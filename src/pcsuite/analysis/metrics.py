"""What is known of each metric by its name in the tables, and sensible words for those that nobody declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from pcsuite.analysis.load.item_scores import LOGGED_SCORE, SCORE
from pcsuite.config.bundled import bundled_metric_specs
from pcsuite.config.definitions import MetricSpec
from pcsuite.contrasts import Direction


class Metrics(dict[str, MetricSpec]):
    """Metric specs by name, in the order of tables. Looking up an undeclared name gives a spec made of the name.

    >>> metrics = bundled_metrics()
    >>> metrics.label("json_valid"), metrics.label("edit_distance")
    ('JSON validity', 'edit distance')
    """

    def __missing__(self, name: str) -> MetricSpec:
        return MetricSpec(higher_is_better=None)

    def label(self, name: str) -> str:
        """A metric in words: its declared label, or its name with blanks for underscores."""
        return self[name].label or name.replace("_", " ")

    def compared_in(self, table: str) -> list[str]:
        """Names of the metrics that ``effects``, ``compare`` or ``mixed_model`` compares."""
        return [name for name, spec in self.items() if table in spec.compared]

    def tested_in_effects(self) -> list[str]:
        """Names of the metrics whose effects are claims that are tested: those compared there, costs left out."""
        return [name for name in self.compared_in("effects") if not self.is_cost(name)]

    def shown_in(self, table: str) -> list[str]:
        """Names of the declared metrics that are shown in a table.

        A table is ``summary_by_condition``, ``task_metrics`` or ``verdicts`` (the page's sentences).
        """
        return [name for name, spec in self.items() if table in spec.shown]

    def is_cost(self, name: str) -> bool:
        """Whether a metric is a price that is read off, not a claim that is tested."""
        return self[name].type == "efficiency"

    def better(self, name: str) -> Direction | None:
        """The sign of a change for the better; ``None`` where the metric has no good end or is not declared."""
        higher = self[name].higher_is_better
        return None if higher is None else 1 if higher else -1

    def improved(self, name: str, delta: float) -> bool | None:
        """Whether a change by ``delta`` is for the better.

        ``None`` where the metric has no good end, is not declared, or nothing changed.
        """
        # A change of 0 is neither, and of some metrics nobody can say which end is good.
        better = self[name].higher_is_better
        return None if better is None or not delta else (delta > 0) == better


def metrics_of(*layers: Mapping[str, MetricSpec | Mapping[str, Any]] | None) -> Metrics:
    """The bundled specs with further ones laid over them, the last word counting.

    A layer is a metrics file's content (``suite.metrics``) or what a manifest wrote down of one; entries of a
    manifest that another version wrote and this one cannot read are passed over.
    """
    merged = dict(bundled_metric_specs())
    for layer in layers:
        for name, spec in (layer or {}).items():
            try:
                merged[name] = spec if isinstance(spec, MetricSpec) else MetricSpec.model_validate(spec)
            except ValidationError:
                continue
    return Metrics({SCORE if name == LOGGED_SCORE else name: spec for name, spec in merged.items()})


def bundled_metrics() -> Metrics:
    """The specs of ``metrics_v1.yaml`` as it comes with the suite."""
    return metrics_of()


def declared_by(metrics: Mapping[str, MetricSpec]) -> dict[str, Any]:
    """What a profile's metrics say beyond the bundled file, as a manifest keeps it.

    ``metrics`` is ``suite.metrics``; a report on the log alone then names and compares them the same way.
    """
    bundled = bundled_metric_specs()
    return {
        name: spec.model_dump(mode="json", exclude_unset=True)
        for name, spec in metrics.items()
        if bundled.get(name) != spec
    }
