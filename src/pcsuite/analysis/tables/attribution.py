"""``attribution.csv``: what each operator of the bundles contributed, by every method that the conditions identify.

One record per task, model, regime, set of conditions, metric, operator and method. The set is all conditions of the
group, and each design by itself where the group has more. What cannot be told apart is a record without a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pcsuite._util.hashing import named_rng
from pcsuite._util.text import limits_text, signed
from pcsuite.analysis.load.item_scores import SCORE, CellKey, ItemScores
from pcsuite.analysis.metrics import Metrics
from pcsuite.analysis.pairings import CONTROL, TWIN, item_matrix
from pcsuite.analysis.table import (
    MAIN_CELL,
    N_CLUSTERS,
    Column,
    Table,
    TableSpec,
    corrected_columns,
    interval,
    number,
)
from pcsuite.analysis.tables.effects import add_corrected_p, tested_columns
from pcsuite.prompts.compiled import COMPILED_OPERATOR
from pcsuite.stats.attribution import SHARING_METHODS, attribute, unidentified
from pcsuite.stats.related_rows import count_clusters

ALL_CONDITIONS = "all conditions"
NOT_IDENTIFIED = "not identified"
PAIRED = "conditions that differ in it alone"
DIVIDED = "share of a combination"
ATTRIBUTION = TableSpec(
    "attribution",
    "Which operator did it",
    "operator, method, metric and set of conditions of a task, model and regime",
    (
        *MAIN_CELL[:3],
        Column("design", "the conditions used: all of the group, or the members of one design", form="text"),
        Column("metric", "name of the metric", form="text"),
        Column("operator", "the operator, or operators that always come together", form="text"),
        Column(
            "method",
            "leave-one-out (lost without it), add-one-in (gained by it alone), least squares (its share if effects add"
            " up), shapley (mean gain on joining), or not identified",
            form="text",
        ),
        Column("n_conditions", "conditions used", label="conditions", form="number", late=True),
        Column("n_items", "items that all of them have", label="items", form="number", late=True),
        *interval("effect", "what the operator adds to the metric", form="difference"),
        Column("interval_method", "how the interval was made", shown=False),
        Column(
            "p_value",
            "two-sided sign-flip p-value over items; of least squares at least that of the pairs of conditions that"
            " differ in the operator alone",
            shown=False,
        ),
        Column("p_method", "how the p-value was made", shown=False),
        *corrected_columns("adjusted over all operators, models and regimes of the task, metric and method"),
        Column("orders", "orders of joining that a Shapley value averages over", shown=False),
        Column("note", "what a reader must know of the number, or why there is none"),
        Column(
            "depends",
            f"“{DIVIDED}” where what the operator changes depends on the bundle it joins, so no number is its own",
            label="whose",
            form="text",
            late=True,
            sparse=True,
        ),
        N_CLUSTERS,
    ),
    note=(
        "The effect of each operator on the same items. Leave-one-out is what the full bundle loses without it,"
        " add-one-in what it gains alone, least squares its share if effects add up, the Shapley value its mean gain"
        " over the orders in which operators can join. Where they differ, operators work with or against each other;"
        " then least squares gives an operator that stands in few conditions, a sham too, what the sum of the others"
        " leaves over there. So its p-value is at least that of the pairs that differ in the operator alone, and the"
        " note has what those differ by. A share of an operator whose effects in two bundles differ reliably is marked:"
        " it divides among all what belongs to their combination."
    ),
)  # fmt: skip


def attribution(scores: ItemScores, metrics: Metrics) -> Table:
    """Attribute the change of every compared metric (costs left out) to the operators, group by group."""
    names = metrics.tested_in_effects()
    records: list[dict[str, Any]] = []
    for keys in scores.groups().values():
        for design, members in _designs(scores, keys).items():
            bundles = [scores.operators_in(key) for key in members]
            common = {**members[0].group(), "design": design, "n_conditions": len(members)}
            for sentence in unidentified(bundles):
                records.append(common | {"metric": SCORE, "method": NOT_IDENTIFIED, "note": sentence})
            for metric in names:
                records += [
                    common | record for record in _attributed(scores, members, bundles, metric, design)
                ]
    add_corrected_p(records, [(record["task"], record["metric"], record["method"]) for record in records])
    return Table.of(ATTRIBUTION, records)


def depending_on_the_bundle(
    effects: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str, str, str], tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Operators whose effect on the score depends on the bundle they join, so that no one number is theirs.

    ``effects`` are records of ``effects.csv``. By task, model, regime and operator: the records of its lowest and its
    highest effect, where the limits of the two, which hold for the whole family at once, are apart.
    """
    by_operator: dict[tuple[str, str, str, str], list[Mapping[str, Any]]] = {}
    for record in effects:
        alone = record["kind"] in (CONTROL, TWIN) and record["metric"] == SCORE and record["operator"]
        if alone and record.get("joint_low") is not None:
            group = (record["task"], record["model"], record["decoding"], record["operator"])
            by_operator.setdefault(group, []).append(record)
    limits = {}
    for group, records in by_operator.items():
        low, high = min(records, key=itemgetter("joint_high")), max(records, key=itemgetter("joint_low"))
        if low["joint_high"] < high["joint_low"]:
            limits[group] = (low, high)
    return limits


def mark_divided(table: Table, effects: Table) -> Table:
    """The attribution with its shares marked where they divide what belongs to a combination of operators."""
    divided = depending_on_the_bundle(effects.records())
    cell = ("task", "model", "decoding", "operator")

    def mark(record: Mapping[str, Any]) -> str | None:
        share = record["metric"] == SCORE and record["method"] in SHARING_METHODS
        return DIVIDED if share and tuple(record[name] for name in cell) in divided else None

    return Table.of(ATTRIBUTION, [{**record, "depends": mark(record)} for record in table.records()])


def _designs(scores: ItemScores, keys: Sequence[CellKey]) -> dict[str, list[CellKey]]:
    """The group's conditions, each bundle once, and those of each design in it; sets that vary one thing are left out.

    A compiled prompt is not a bundle of operators, whatever cues its words show.
    """
    control = scores.baseline(keys)
    ordered = [*([control] if control else []), *keys]
    by_bundle: dict[frozenset[str], CellKey] = {}
    for key in ordered:
        if COMPILED_OPERATOR not in scores.operators_in(key):
            by_bundle.setdefault(frozenset(scores.operators_in(key)), key)
    sets = {ALL_CONDITIONS: sorted(by_bundle.values(), key=list(keys).index)}
    for key in keys:
        name, colon, _ = key.condition.partition(":")
        if colon:
            bundles = [frozenset(scores.operators_in(member)) for member in sets.get(name, [])]
            if frozenset(scores.operators_in(key)) not in bundles:
                sets.setdefault(name, []).append(key)
    # Two conditions are one contrast, which effects.csv has; a design that is all of the group would say it twice.
    every = len(sets[ALL_CONDITIONS])
    return {
        name: members
        for name, members in sets.items()
        if len(members) > 2 and (name == ALL_CONDITIONS or len(members) < every)
    }


def _attributed(
    scores: ItemScores, keys: Sequence[CellKey], bundles: Sequence[tuple[str, ...]], metric: str, design: str
) -> list[dict[str, Any]]:
    if any(metric not in scores.cells[key].values for key in keys):
        return []
    items, values = item_matrix(scores, keys, metric)
    if len(values) < 2:
        return []
    rng = named_rng("attribution", *keys[0][:3], design, metric)
    pooled = scores.is_pooled(keys[0].task, metric)
    clusters = scores.clusters_of(keys[0].task, items)
    records = []
    for share in attribute(values, bundles, rng=rng, clusters=clusters):
        notes = ["micro-F1, linearised"] if pooled else []
        if share.method == "shapley" and not share.exact:
            notes.append(f"over the {share.orders:,.0f} orders whose every step was run, not all")
        if share.pairs is not None:
            limits = share.pairs
            notes.append(f"{PAIRED}: {signed(limits.value)}{limits_text(limits.low, limits.high)}")
        records.append(
            {
                "metric": metric,
                "operator": share.operator,
                "method": share.method,
                "n_items": len(values),
                "n_clusters": count_clusters(clusters),
                **tested_columns("effect", share.effect, share.test),
                "orders": number(share.orders),
                "note": "; ".join(notes) or None,
            }
        )
    return records
