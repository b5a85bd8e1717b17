"""The certificate: numbered sections, labels and plain tables."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scripts.buildingspec.assemble import Building
from scripts.buildingspec.wording import columns, layers, num, pages, paragraph, yes

Record = dict[str, Any]


def form(b: Building, record: Record) -> str:
    """The document of a building."""
    sections = [*_general(b, record), *_opaque(record), *_openings(record), *_roofs(record), *_floors(record)]
    sections += [*_systems(record), *_water(record)]
    blocks = [f"CERTIFICATE OF COMPLIANCE, RESIDENTIAL PERFORMANCE METHOD\nProject name: {b.title}"]
    for letter, (title, body) in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", sections, strict=False):
        blocks.append(f"{letter}. {title.upper()}\n\n{body}")
    blocks.append(
        paragraph("Remarks:", *b.remarks, "The signatures of author and designer are kept on file.")
    )
    return pages(blocks, f"Certificate of compliance, {b.address}")


def _pairs(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(label) for label, _ in rows)
    return "\n".join(f"{label.ljust(width, '.')}: {value}" for label, value in rows)


def _general(b: Building, record: Record) -> list[tuple[str, str]]:
    p, e = record["project"], record["envelope"]
    general = [
        ("Address", p["address"]), ("City", p["city"]), ("Climate zone", num(p["climate_zone"])),
        ("Building type", p["house_type"]), ("Fuel type", p["fuel_type"]), ("Dwelling units", num(p["dwelling_units"])),
        ("Stories", num(p["stories"])), ("Bedrooms", num(p["bedrooms"])), ("Attached garage", yes(p["attached_garage"])),
        ("Front orientation (deg from north)", num(p["front_orientation"])),
    ]  # fmt: skip
    areas = [
        ("Conditioned floor area (ft2)", num(e["conditioned_floor_area"])), ("Window area (ft2)", num(e["window_area"])),
        ("Window to floor area ratio", num(e["window_to_floor_ratio"])),
        ("Area-weighted fenestration U-factor", num(e["fenestration_u_factor"])),
        ("Exterior wall area (ft2)", num(e["exterior_wall_area"])),
        ("Underground wall area (ft2)", num(e["underground_wall_area"])),
        ("Slab floor area, conditioned zones (ft2)", num(e["slab_floor_area"])),
        ("Exposed slab floor area (ft2)", num(e["exposed_slab_floor_area"])),
        ("Below grade floor area (ft2)", num(e["below_grade_floor_area"])),
        ("Exposed below grade floor area (ft2)", num(e["exposed_below_grade_floor_area"])),
        ("Addition conditioned floor area (ft2)", num(e["addition_conditioned_floor_area"])),
    ]  # fmt: skip
    zone_rows = [
        [
            z["name"], z["zone_type"], z["status"], num(z["floor_area"]), num(z["ceiling_height"]), num(z["stories"]),
            num(z["volume"]), num(z["exterior_wall_area"]), num(z["exterior_wall_door_area"]),
        ]
        for z in record["zones"]
    ]  # fmt: skip
    heads = [
        "Zone",
        "Type",
        "Status",
        "Floor ft2",
        "Ceiling ft",
        "Stories",
        "Volume ft3",
        "Ext. wall ft2",
        "Doors ft2",
    ]
    more = [
        [
            z["name"], num(z["ceiling_below_attic_area"]), num(z["cathedral_ceiling_area"]), num(z["slab_floor_area"]),
            num(z["exterior_floor_area"]),
        ]
        for z in record["zones"]
    ]  # fmt: skip
    more_heads = [
        "Zone",
        "Ceiling below attic ft2",
        "Cathedral ceiling ft2",
        "Slab floor ft2",
        "Exterior floor ft2",
    ]
    zones = columns(heads, zone_rows) + "\n\n" + columns(more_heads, more)
    return [("General information", _pairs(general)), ("Building areas", _pairs(areas)), ("Zones", zones)]


def assemblies(items: Sequence[Record]) -> str:
    """Constructions with their layers below."""
    parts = []
    for c in items:
        parts.append(
            f"{c['name']} ({c['construction_type']}): cavity R-value {num(c['cavity_r_value'])}, thickness "
            f"{num(c['total_thickness'])} in, winter design U-value {num(c['winter_design_u_value'])}"
        )
        parts.append(paragraph(f"   layers: {layers(c['layers'])}"))
    return "\n".join(parts)


def wall_table(record: Record) -> str:
    """Exterior walls."""
    rows = [
        [
            w["name"], w["zone"], w["status"], w["construction_type"], num(w["orientation"]), num(w["area"]),
            num(w["window_area"]), num(w["door_area"]), num(w["tilt"]), num(w["framing_factor"]),
        ]
        for w in record["walls"]
    ]  # fmt: skip
    heads = [
        "Wall",
        "Zone",
        "Status",
        "Type",
        "Orient. deg",
        "Area ft2",
        "Windows",
        "Doors",
        "Tilt",
        "Framing",
    ]
    return columns(heads, rows)


def window_table(record: Record) -> str:
    """Windows."""
    rows = [
        [
            w["name"], w["wall"], w["status"], num(w["azimuth"]), num(w["multiplier"]), num(w["area"]), num(w["u_factor"]),
            num(w["shgc"]), w["exterior_shade"],
        ]
        for w in record["windows"]
    ]  # fmt: skip
    heads = ["Window", "Wall", "Status", "Azimuth", "Mult.", "Area ft2", "U-factor", "SHGC", "Exterior shade"]
    return columns(heads, rows)


def _opaque(record: Record) -> list[tuple[str, str]]:
    return [
        ("Opaque surfaces: exterior walls", wall_table(record)),
        ("Wall constructions", assemblies(record["wall_constructions"])),
    ]


def _openings(record: Record) -> list[tuple[str, str]]:
    return [("Fenestration", window_table(record))]


def roof_table(items: Sequence[Record]) -> str:
    """Cathedral ceilings."""
    rows = [
        [
            r["name"], r["zone"], r["status"], r["construction_type"], num(r["orientation"]), num(r["area"]),
            num(r["roof_rise"]), num(r["roof_pitch"]), num(r["roof_tilt"]), num(r["roof_reflectance"]),
            num(r["roof_emittance"]), num(r["framing_factor"]),
        ]
        for r in items
    ]  # fmt: skip
    heads = [
        "Ceiling", "Zone", "Status", "Type", "Orient.", "Area", "Rise/12", "Pitch", "Tilt", "Refl.", "Emit.", "Framing",
    ]  # fmt: skip
    return columns(heads, rows)


def attic_table(items: Sequence[Record]) -> str:
    """Attics."""
    rows = [
        [
            a["name"], a["status"], a["construction_type"], num(a["area"]), num(a["roof_rise"]), num(a["roof_pitch"]),
            num(a["roof_tilt"]), num(a["roof_reflectance"]), num(a["roof_emittance"]),
        ]
        for a in items
    ]  # fmt: skip
    heads = [
        "Attic",
        "Status",
        "Type",
        "Area ft2",
        "Rise/12",
        "Pitch",
        "Tilt deg",
        "Reflectance",
        "Emittance",
    ]
    return columns(heads, rows)


def surface_table(items: Sequence[Record], what: str) -> str:
    """Ceilings below an attic or raised floors."""
    rows = [[s["name"], s["zone"], s["status"], s["construction_type"], num(s["area"])] for s in items]
    return columns([what, "Zone", "Status", "Type", "Area ft2"], rows)


def _roofs(record: Record) -> list[tuple[str, str]]:
    sections = []
    if "ceilings" in record:
        sections.append(("Cathedral ceilings", roof_table(record["ceilings"])))
        sections.append(("Cathedral ceiling constructions", assemblies(record["ceiling_constructions"])))
    if "attics" in record:
        sections.append(("Attic", attic_table(record["attics"])))
        sections.append(("Attic constructions", assemblies(record["attic_constructions"])))
        sections.append(("Ceilings below attic", surface_table(record["ceilings_below_attic"], "Ceiling")))
        lids = assemblies(record["ceiling_below_attic_constructions"])
        sections.append(("Ceiling below attic constructions", lids))
    return sections


def slab_table(items: Sequence[Record]) -> str:
    """Slab floors."""
    rows = [
        [
            s["name"], s["zone"], s["status"], num(s["area"]), num(s["perimeter"]), num(s["edge_insulation_r_value"]),
            num(s["carpeted_fraction"]), yes(s["heated"]),
        ]
        for s in items
    ]  # fmt: skip
    return columns(
        ["Slab", "Zone", "Status", "Area ft2", "Perimeter ft", "Edge R-value", "Carpeted", "Heated"], rows
    )


def crawl_line(c: Record) -> str:
    """A crawl space."""
    return (
        f'Crawl space "{c["name"]}": floor area {num(c["floor_area"])} ft2, perimeter {num(c["perimeter"])} ft, volume '
        f"{num(c['volume'])} ft3"
    )


def _floors(record: Record) -> list[tuple[str, str]]:
    sections = []
    if "slab_floors" in record:
        sections.append(("Slab floors", slab_table(record["slab_floors"])))
    if "floors_over_crawlspace" in record:
        crawl = "\n".join(crawl_line(c) for c in record["crawlspaces"])
        body = surface_table(record["floors_over_crawlspace"], "Floor") + "\n\n" + crawl
        sections.append(("Floors over crawl space", body))
        floors = assemblies(record["floor_over_crawlspace_constructions"])
        sections.append(("Floor over crawl space constructions", floors))
    return sections


def system_tables(record: Record) -> str:
    """Heat pumps and ducts."""
    heating = [
        [
            s["name"], s["status"], s["system_type"], s["heating"]["system_type"], num(s["heating"]["hspf"]),
            num(s["heating"]["capacity_47"]), num(s["heating"]["capacity_17"]), yes(s["heating"]["ducted"]),
        ]
        for s in record["hvac_systems"]
    ]  # fmt: skip
    cooling = [
        [
            s["name"], s["cooling"]["system_type"], num(s["cooling"]["seer2"]), num(s["cooling"]["eer2"]),
            num(s["cooling"]["cfm_per_ton"]), s["cooling"]["ac_charge"], yes(s["cooling"]["ducted"]),
        ]
        for s in record["hvac_systems"]
    ]  # fmt: skip
    heads = ["System", "Status", "Type", "Heating unit", "HSPF", "Cap. 47F", "Cap. 17F", "Ducted"]
    parts = [
        columns(heads, heating),
        columns(
            ["System", "Cooling unit", "SEER2", "EER2", "CFM/ton", "Refrigerant charge", "Ducted"], cooling
        ),
    ]
    parts += [_ducts(s["name"], s["distribution"]) for s in record["hvac_systems"] if "distribution" in s]
    return "\n\n".join(parts)


def _ducts(system: str, d: Record) -> str:
    text = (
        f'Distribution of {system}: "{d["name"]}", {d["system_type"]}, leakage {num(d["percent_leakage"])} percent, '
        f"insulation R-{num(d['insulation_r_value'])}, bypass duct: {yes(d['bypass_duct'])}."
    )
    if "supply_area" in d:
        text += (
            f" Supply {num(d['supply_area'])} ft2, diameter {num(d['supply_diameter'])} in; return "
            f"{num(d['return_area'])} ft2, diameter {num(d['return_diameter'])} in."
        )
    return paragraph(text)


def water_lines(record: Record) -> str:
    """Hot water systems with their heaters."""
    parts = []
    for s in record["water_heating_systems"]:
        parts.append(f'System "{s["name"]}", status {s["status"]}, distribution type {s["system_type"]}')
        for h in s["water_heaters"]:
            text = (
                f'   heater "{h["name"]}": fuel {h["fuel"]}, volume {num(h["volume"])} gal, location '
                f"{h['tank_location']}, input rating in {h['input_rating_units']}"
            )
            if "energy_factor" in h:
                text += (
                    f" {num(h['input_rating'])}, tank type {h['tank_type']}, energy factor {num(h['energy_factor'])}, exterior"
                    f" insulation R-value {num(h['exterior_insulation_r_value'])}, first hour rating"
                    f" {num(h['first_hour_rating'])}, recovery efficiency {num(h['recovery_efficiency'])}"
                )
            parts.append(paragraph(text))
    return "\n".join(parts)


def _systems(record: Record) -> list[tuple[str, str]]:
    return [("Space conditioning systems", system_tables(record))]


def _water(record: Record) -> list[tuple[str, str]]:
    return [("Water heating systems", water_lines(record))]
