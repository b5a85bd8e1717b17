"""The kinds of error a compared field can have: one entry each, from which everything that names them derives.

Counts, ``eval-results.json``, pages, the commands' tables, JUnit and SARIF, the metrics of ``buildingspec_json``, what
a prompt rule may be meant for and the table of ``docs/reference/verifier-error-types.md`` read :data:`ERROR_TYPES`. A
new kind is an entry here and, in ``judge_value`` of ``values``, the line that decides it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcsuite.config.definitions import MetricSpec

FieldVerdict = str
"""``match``, or the name of one of :data:`ERROR_TYPES`."""


@dataclass(frozen=True, slots=True)
class ErrorType:
    """What the suite knows of one kind of error.

    ``costs_precision`` is whether the extraction has a value there, ``costs_recall`` whether the truth has one: what
    both have is a false positive and a false negative at once.
    """

    name: str
    """As results, SARIF rules and rows name it."""
    heading: str
    """As a column of a text table is headed."""
    explanation: str
    """One line for readers of a page."""
    costs_precision: bool
    costs_recall: bool
    extraction: str
    """What the extraction has where the truth has a value (or none), in the words of the reference."""
    metric: str
    """Name of the metric of ``buildingspec_json`` that counts it."""
    spec: MetricSpec
    """Label, direction and description of that metric."""
    series: int
    """Its colour on pages: which of the palette's series; 0 and 1 look like an effect."""

    @property
    def label(self) -> str:
        """Its name for people.

        >>> ERROR_TYPES["format_error"].label
        'Format error'
        """
        return self.name.replace("_", " ").capitalize()

    @property
    def css(self) -> str:
        """The class that gives a page its colour."""
        return f"c{self.series}"

    @property
    def is_missing(self) -> bool:
        """Whether the extraction has no value where the truth has one."""
        return not self.costs_precision

    @property
    def is_invented(self) -> bool:
        """Whether the truth has no value where the extraction has one."""
        return not self.costs_recall

    def sentence(self, expected: str, actual: str) -> str:
        """What is wrong, given both values as text.

        >>> ERROR_TYPES["hallucination"].sentence("null", "12")
        '12 is not in the truth'
        """
        if self.is_missing:
            return f"missing, the truth is {expected}"
        return f"{actual} is not in the truth" if self.is_invented else f"{actual}, the truth is {expected}"


def _fewer(label: str, description: str, **others: object) -> MetricSpec:
    """A count of errors: fewer are better."""
    fixed = {"higher_is_better": False, "range": (0, None)}
    return MetricSpec.model_validate({"label": label, "description": description, **fixed, **others})


ERROR_TYPES: dict[str, ErrorType] = {
    one.name: one
    for one in (
        ErrorType(
            "omission",
            "omitted",
            "in the truth, missing in the extraction",
            costs_precision=False,
            costs_recall=True,
            extraction='null, absent, or text without a visible character (`""`, `" "`)',
            metric="omissions",
            spec=_fewer("omissions", "Fields of the truth that the record leaves out."),
            series=5,
        ),
        ErrorType(
            "hallucination",
            "invented",
            "in the extraction, not in the truth",
            costs_precision=True,
            costs_recall=False,
            extraction="a value",
            metric="hallucinations",
            spec=_fewer(
                "hallucinations", "Fields of the record that the truth does not have.", type="hallucination"
            ),
            series=4,
        ),
        ErrorType(
            "format_error",
            "mistyped",
            "given, but of the wrong type",
            costs_precision=True,
            costs_recall=True,
            extraction="a value of the wrong type",
            metric="format_errors",
            spec=_fewer("format errors", "Fields whose value has the wrong type.", type="format"),
            series=7,
        ),
        ErrorType(
            "wrong_value",
            "wrong",
            "given, of the right type, but another value",
            costs_precision=True,
            costs_recall=True,
            extraction="the right type, another value",
            metric="wrong_values",
            spec=_fewer("wrong values", "Fields of the right type with another value."),
            series=6,
        ),
    )
}
"""By name, in the order of tables."""


def error_metrics() -> dict[str, MetricSpec]:
    """Specifications of the metrics of ``buildingspec_json`` that count errors, by their names in the log."""
    return {one.metric: one.spec for one in ERROR_TYPES.values()}
