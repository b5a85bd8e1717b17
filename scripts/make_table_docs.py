"""Write the reference pages that follow from declarations of the package: python scripts/make_table_docs.py.

They are docs/reference/tables.md, whole, and one table each of other pages (``DERIVED``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from pcsuite.ablation.across_picture import DIFFERENCES, MODELS
from pcsuite.ablation.rearranged import CHANGED
from pcsuite.ablation.records import BLOCKS
from pcsuite.analysis.analyse import ALL_TABLES
from pcsuite.analysis.table import TableSpec
from pcsuite.analysis.verdicts.hypotheses import CLAIMS
from pcsuite.config.model_names import provider_presets
from pcsuite.engines.schema_limits import schema_limits
from pcsuite.integrations.helm.evidence import BESIDE_OURS
from pcsuite.integrations.helm.results import INSTANCES, METRICS, RUNS
from pcsuite.verifier.error_types import ERROR_TYPES

SPECS = (*ALL_TABLES, BLOCKS, CHANGED, MODELS, DIFFERENCES, RUNS, METRICS, INSTANCES, BESIDE_OURS)
DOCS = Path(__file__).resolve().parents[1] / "docs"
REFERENCE = DOCS / "reference"
PAGE = REFERENCE / "tables.md"
EXCHANGES = DOCS.parent / "tests" / "engines" / "replay" / "exchanges"


def tables_page(specs: Sequence[TableSpec]) -> str:
    """``docs/reference/tables.md``: every table with its columns and their meanings.

    Limits of an interval share the line of their value.
    """
    parts = [
        "# Tables",
        "<!-- Made by scripts/make_table_docs.py from the TableSpecs of the package; change those. -->",
        "Every table that a report writes to `tables/`, with its columns in order. A column marked † is in the CSV file"
        " but not on the page. `x` … `x_high` stands for a value and the limits of its 95 % interval, `x_low` and"
        " `x_high`. Empty cells are undefined or do not apply.",
    ]
    for spec in specs:
        parts.append(f"## `{spec.name}.csv`\n\n{spec.title}: one row per {spec.row}. {spec.note}".rstrip())
        lines = ["| column | meaning |", "|---|---|"]
        for column in spec.columns:
            if not spec.is_limit(column.name):
                name = f"`{column.name}`"
                if f"{column.name}_high" in spec.names:
                    name += f" … `{column.name}_high`"
                lines.append(f"| {name}{'' if column.shown else ' †'} | {column.meaning} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def error_rows() -> Iterator[str]:
    """The verifier's kinds of error: what either side has, and which side of the score pays."""
    for one in ERROR_TYPES.values():
        truth = "none" if one.is_invented else "a value"
        paid = "a false negative" if one.is_missing else "a false positive" if one.is_invented else "both"
        yield f"| `{one.name}` | {truth} | {one.extraction} | {paid} |\n"


def provider_rows() -> Iterator[str]:
    """The declared servers: where they are, which variables name another address and the key, what they know."""
    words = {"logprobs": "log probabilities", "json_schema": "JSON schema"}
    for name, preset in provider_presets().items():
        wire = "" if preset.wire == "openai" else " (its own wire)"
        key = f"`{preset.key_env}`" + (", if set" if preset.self_hosted else "") if preset.key_env else ""
        whose = {"aws": "AWS's credentials", "google": "Google's credentials"}.get(
            str(preset.options.get("credentials")), ""
        )
        key = ", else ".join(filter(None, (key, whose))) or "none"
        knows = ", ".join(words.get(feature, feature.replace("_", " ")) for feature in preset.knows)
        yield f"| `{name}` | `{preset.base_url}`{wire} | `{preset.url_env}` | {key} | {knows} |\n"


def exchange_rows() -> Iterator[str]:
    """The written exchanges of the replay suite: how many of a provider, how many errors, and what they follow."""
    for path in sorted(EXCHANGES.glob("*.yaml")):
        file = yaml.safe_load(path.read_text(encoding="utf-8"))
        exchanges = file["exchanges"]
        failed = sum("error" in exchange for exchange in exchanges)
        about = " ".join(file["about"].split())
        yield f"| `{file['provider']}`, {file['wire']} | {len(exchanges)} | {failed} | {about} |\n"


def limit_rows() -> Iterator[str]:
    """What services keep of a schema that they enforce themselves, with the source and its date."""
    for name, limits in schema_limits().items():
        keeps = [
            word + (f" ({' or '.join(map(str, limits.values[word]))})" if word in limits.values else "")
            for word in limits.keeps
            if not word.startswith("$") or word == "$ref"
        ]
        keeps += ["bounds of integers"] if limits.integer_bounds else []
        demands = [
            words
            for words, holds in (
                ("closed objects", limits.closed),
                ("all properties required", limits.all_required),
                ("an object at the top", limits.object_at_top),
                ("no recursion", not limits.recursion),
            )
            if holds
        ]
        rest = "dropped in silence" if limits.drops else "refused"
        yield (
            f"| `{name}` | {', '.join(keeps)} | {', '.join(demands) or 'nothing'} | {rest} | {limits.source},"
            f" {limits.checked} |\n"
        )


def hypothesis_rows() -> Iterator[str]:
    """Hypotheses and criteria: what each claims and what it is judged by; bounds by their profile keys."""
    for one in CLAIMS.values():
        claim = re.sub(r"\{(analysis\.\w+):g\}", r"`\1`", one.claim).removesuffix(".")
        yield f"| {one.id} | {claim} | {one.rests_on} |\n"


class DerivedRows(NamedTuple):
    """Lines of a table in a page that somebody wrote: those between two lines, which stay."""

    page: Path
    before: str
    rows: Callable[[], Iterator[str]]
    after: str

    def renewed(self) -> str:
        """The page with the rows as they are declared now."""
        head, line, rest = self.page.read_text(encoding="utf-8").partition(self.before)
        _, end, tail = rest.partition(self.after)
        if not line or not end:  # the rest of the page would be lost
            raise SystemExit(f"{self.page}: no line begins with {self.before if not line else self.after!r}")
        return "".join([head, line, *self.rows(), end, tail])


DERIVED = (
    DerivedRows(
        DOCS / "how-to" / "read-a-report.md",
        "| rests on |\n|---|---|---|\n",
        hypothesis_rows,
        "\nWith one task",
    ),
    DerivedRows(REFERENCE / "verifier-error-types.md", "| a true positive |\n", error_rows, "| not judged |"),
    DerivedRows(
        REFERENCE / "constraints.md",
        "| source, read on |\n|---|---|---|---|---|\n",
        limit_rows,
        "\n## Cut answers",
    ),
    DerivedRows(
        REFERENCE / "models.md", "| knows |\n|---|---|---|---|---|\n", provider_rows, "| `hf`, `llamacpp`, "
    ),
    DerivedRows(
        REFERENCE / "models.md", "| the shapes follow |\n|---|---|---|---|\n", exchange_rows, "\nPlayed by"
    ),
)


if __name__ == "__main__":
    PAGE.write_text(tables_page(SPECS), encoding="utf-8")
    for one in DERIVED:  # each from the page as it is: a page may have two
        one.page.write_text(one.renewed(), encoding="utf-8")
    for path in (PAGE, *dict.fromkeys(one.page for one in DERIVED)):
        print(f"wrote {path}")
