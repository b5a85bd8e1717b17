"""The plan set: general notes in words, schedules as tables, in the order a draftsperson puts them."""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any

from scripts.buildingspec.assemble import Building
from scripts.buildingspec.form import (
    assemblies,
    attic_table,
    crawl_line,
    roof_table,
    slab_table,
    surface_table,
    system_tables,
    wall_table,
    water_lines,
    window_table,
)
from scripts.buildingspec.wording import columns, num, pages, paragraph, plural, sqft

Record = dict[str, Any]


def schedules(b: Building, record: Record) -> str:
    """The document of a building."""
    blocks = [
        f"{b.title.upper()}\n{b.address}, {b.city}\nSheets T1 to T4: energy notes and schedules",
        "GENERAL NOTES",
    ]
    notes = [*_notes(b, record), *[f"Zone notes: {_zone(zone)}" for zone in record["zones"]]]
    blocks += [paragraph(f"{number}. {note}") for number, note in enumerate(notes, start=1)]
    blocks += ["WINDOW SCHEDULE", window_table(record)]
    if "skylights" in record:
        blocks += ["SKYLIGHT SCHEDULE", _skylights(record)]
    blocks += ["WALL SCHEDULE", wall_table(record), assemblies(record["wall_constructions"])]
    if "ceilings" in record:
        blocks += [
            "ROOF SCHEDULE",
            roof_table(record["ceilings"]),
            assemblies(record["ceiling_constructions"]),
        ]
    if "attics" in record:
        blocks += ["ATTIC AND CEILING SCHEDULE", attic_table(record["attics"])]
        blocks += [assemblies(record["attic_constructions"])]
        blocks += [surface_table(record["ceilings_below_attic"], "Ceiling")]
        blocks += [assemblies(record["ceiling_below_attic_constructions"])]
    blocks.append("FLOOR SCHEDULE")
    if "slab_floors" in record:
        blocks.append(slab_table(record["slab_floors"]))
    if "floors_over_crawlspace" in record:
        blocks += [surface_table(record["floors_over_crawlspace"], "Floor")]
        blocks += [crawl_line(crawl) for crawl in record["crawlspaces"]]
        blocks += [assemblies(record["floor_over_crawlspace_constructions"])]
    blocks += ["MECHANICAL SCHEDULE", system_tables(record), "PLUMBING SCHEDULE", water_lines(record)]
    blocks.append(
        paragraph("Contractor to verify all dimensions on site before ordering windows.", *b.remarks)
    )
    return pages(blocks, f"{b.title}, energy notes")


def _notes(b: Building, record: Record) -> list[str]:
    p, e = record["project"], record["envelope"]
    garage = (
        "An attached garage is part of the project."
        if p["attached_garage"]
        else "There is no attached garage."
    )
    stories = plural(p["stories"], "story").replace("storys", "stories")
    return [
        f"Scope: {p['house_type']}, {plural(p['dwelling_units'], 'dwelling unit')}, {stories}, "
        f"{plural(p['bedrooms'], 'bedroom')}, {p['fuel_type']}, in climate zone {p['climate_zone']}. {garage}",
        f"The front of the building is turned to {num(p['front_orientation'])} degrees from north. Azimuths in the "
        "schedules are true, not relative to the front.",
        f"Conditioned floor area: {sqft(e['conditioned_floor_area'])}. Window area: {sqft(e['window_area'])}, which gives a "
        f"window to floor ratio of {num(e['window_to_floor_ratio'])} and a weighted U-factor of "
        f"{num(e['fenestration_u_factor'])}.",
        f"Exterior wall area: {sqft(e['exterior_wall_area'])}. Underground wall area: {num(e['underground_wall_area'])}. Slab "
        f"floor area of conditioned zones: {num(e['slab_floor_area'])}, exposed: {num(e['exposed_slab_floor_area'])}. "
        f"Below grade floor area: {num(e['below_grade_floor_area'])}, exposed: {num(e['exposed_below_grade_floor_area'])}. "
        f"Conditioned floor area of additions: {num(e['addition_conditioned_floor_area'])}.",
    ]


def _zone(z: Record) -> str:
    stories = plural(z["stories"], "story").replace("storys", "stories")
    return (
        f'"{z["name"]}" is a {z["zone_type"]} zone, status {z["status"]}, {sqft(z["floor_area"])} on {stories}, ceilings at '
        f"{num(z['ceiling_height'])} feet, {num(z['volume'])} cubic feet; exterior walls {num(z['exterior_wall_area'])}, doors "
        f"{num(z['exterior_wall_door_area'])}, ceiling below attic {num(z['ceiling_below_attic_area'])}, cathedral ceiling "
        f"{num(z['cathedral_ceiling_area'])}, slab {num(z['slab_floor_area'])}, exterior floor "
        f"{num(z['exterior_floor_area'])} square feet."
    )


def _skylights(record: Record) -> str:
    rows = [
        [
            s["name"],
            s["roof"],
            s["status"],
            num(s["azimuth"]),
            num(s["area"]),
            num(s["u_factor"]),
            num(s["shgc"]),
        ]
        for s in record["skylights"]
    ]
    return columns(["Skylight", "Roof", "Status", "Azimuth", "Area ft2", "U-factor", "SHGC"], rows)
