"""The energy consultant's letter report: prose, one thing after the other."""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any

from scripts.buildingspec.assemble import Building
from scripts.buildingspec.wording import (
    compass,
    layers,
    listing,
    num,
    pages,
    paragraph,
    plural,
    spelled,
    sqft,
)

Record = dict[str, Any]


def narrative(b: Building, record: Record) -> str:
    """The document of a building."""
    blocks = [
        f"ENERGY COMPLIANCE REPORT\n{b.title}\n{b.address}, {b.city}",
        _introduction(b, record),
        _areas(record),
        "The thermal zones",
        *[_zone(zone) for zone in record["zones"]],
        "Walls",
        *[_assembly(item, "wall") for item in record["wall_constructions"]],
        *[_wall(wall) for wall in record["walls"]],
        "Windows and glazed doors",
        *[_window(window, index) for index, window in enumerate(record["windows"])],
        *_roof(record),
        *_floors(record),
        "Heating and cooling",
        *[_hvac(system) for system in record["hvac_systems"]],
        "Hot water",
        *[_hot_water(system) for system in record["water_heating_systems"]],
        _closing(b),
    ]
    return pages(blocks, f"{b.title}, energy compliance report")


def _introduction(b: Building, record: Record) -> str:
    project = record["project"]
    garage = "has an attached garage" if project["attached_garage"] else "has no attached garage"
    return paragraph(
        f"This report documents the performance calculation for {b.title}, a {project['house_type']} building at "
        f"{project['address']} in {project['city']}, which lies in climate zone {project['climate_zone']}.",
        f"The project consists of {plural(project['dwelling_units'], 'dwelling unit')} on "
        f"{plural(project['stories'], 'story').replace('storys', 'stories')} with "
        f"{plural(project['bedrooms'], 'bedroom')}, and it {garage}.",
        f"The fuel type of the project is {project['fuel_type']}.",
        f"Standing in the street and looking at the front door, one looks at a front that faces "
        f"{num(project['front_orientation'])} degrees, that is roughly {compass(project['front_orientation'])}; all "
        "orientations below are in degrees clockwise from true north.",
        *b.remarks,
    )


def _areas(record: Record) -> str:
    e = record["envelope"]
    return paragraph(
        f"The conditioned floor area is {sqft(e['conditioned_floor_area'])}.",
        f"Windows in the conditioned zones add up to {sqft(e['window_area'])}, a window to floor area ratio of "
        f"{num(e['window_to_floor_ratio'])}, and their area-weighted U-factor is {num(e['fenestration_u_factor'])}.",
        f"Exterior walls measure {sqft(e['exterior_wall_area'])} and underground walls {num(e['underground_wall_area'])}.",
        f"The slab floor of the conditioned zones covers {sqft(e['slab_floor_area'])}, of which "
        f"{num(e['exposed_slab_floor_area'])} is exposed.",
        f"Below grade there is a floor area of {num(e['below_grade_floor_area'])}, exposed "
        f"{num(e['exposed_below_grade_floor_area'])}, and the added conditioned floor area is "
        f"{num(e['addition_conditioned_floor_area'])} because nothing existing is being enlarged.",
    )


def _zone(z: Record) -> str:
    return paragraph(
        f'Zone "{z["name"]}" ({z["zone_type"]}, status {z["status"]}) has a floor area of {sqft(z["floor_area"])} on '
        f"{plural(z['stories'], 'story').replace('storys', 'stories')}, a ceiling height of {num(z['ceiling_height'])} "
        f"feet and a volume of {num(z['volume'])} cubic feet.",
        f"It is bounded by {sqft(z['exterior_wall_area'])} of exterior wall with {num(z['exterior_wall_door_area'])} of "
        f"doors, {num(z['ceiling_below_attic_area'])} of ceiling below attic, {num(z['cathedral_ceiling_area'])} of "
        f"cathedral ceiling, {num(z['slab_floor_area'])} of slab floor and {num(z['exterior_floor_area'])} of exterior "
        "floor (all in square feet).",
    )


def _assembly(c: Record, what: str) -> str:
    return paragraph(
        f'The {what} assembly called "{c["name"]}" is a {c["construction_type"]} with a total cavity R-value of '
        f"{num(c['cavity_r_value'])}, a total thickness of {num(c['total_thickness'])} inches and a winter design U-value "
        f"of {num(c['winter_design_u_value'])}.",
        f"Its layers are {layers(c['layers'])}.",
    )


def _wall(w: Record) -> str:
    door = "no doors (door area 0)" if not w["door_area"] else f"doors of {sqft(w['door_area'])}"
    return paragraph(
        f'{w["name"]} belongs to zone "{w["zone"]}", is {w["status"]} and built as "{w["construction_type"]}".',
        f"It faces {num(w['orientation'])} degrees at a tilt of {num(w['tilt'])}, has a gross area of {sqft(w['area'])} "
        f"with {sqft(w['window_area'])} of windows and {door}, and its framing factor is {num(w['framing_factor'])}.",
    )


def _window(w: Record, index: int) -> str:
    opening = (
        f'Window "{w["name"]}" sits in {w["wall"]}',
        f'In {w["wall"]} there is a window marked "{w["name"]}"',
        f'The window tagged "{w["name"]}" is part of {w["wall"]}',
    )[index % 3]
    return paragraph(
        f"{opening} (azimuth {num(w['azimuth'])} degrees, {w['status']}); it counts with a multiplier of "
        f"{w['multiplier']} and an area of {sqft(w['area'])}.",
        f"Its U-factor is {num(w['u_factor'])}, its SHGC {num(w['shgc'])}, and its exterior shade is {w['exterior_shade']}.",
    )


def _slope(r: Record) -> str:
    return (
        f"rises {num(r['roof_rise'])} in 12 (pitch {num(r['roof_pitch'])}, tilt {num(r['roof_tilt'])} degrees), reflectance "
        f"{num(r['roof_reflectance'])}, emittance {num(r['roof_emittance'])}"
    )


def _roof(record: Record) -> list[str]:
    blocks = ["Roof and ceilings"]
    for key in ("ceiling_constructions", "attic_constructions", "ceiling_below_attic_constructions"):
        what = {"ceiling_constructions": "cathedral ceiling", "attic_constructions": "attic roof"}.get(
            key, "ceiling"
        )
        blocks += [_assembly(item, what) for item in record.get(key, [])]
    for r in record.get("ceilings", []):
        blocks.append(
            paragraph(
                f'Cathedral ceiling "{r["name"]}" over zone "{r["zone"]}" ({r["status"]}, built as '
                f'"{r["construction_type"]}") is oriented to {num(r["orientation"])} degrees, covers {sqft(r["area"])}, '
                f"{_slope(r)}, framing factor {num(r['framing_factor'])}.",
            )
        )
    for a in record.get("attics", []):
        blocks.append(
            paragraph(
                f'The attic "{a["name"]}" ({a["status"]}, roof construction "{a["construction_type"]}") has an area of '
                f"{sqft(a['area'])}; its roof {_slope(a)}.",
            )
        )
    for c in record.get("ceilings_below_attic", []):
        blocks.append(
            paragraph(
                f'Ceiling "{c["name"]}" separates zone "{c["zone"]}" from the attic; it is {c["status"]}, of type '
                f'"{c["construction_type"]}", and has an area of {sqft(c["area"])}.',
            )
        )
    return blocks


def _floors(record: Record) -> list[str]:
    blocks = ["Floors"]
    for s in record.get("slab_floors", []):
        heated = "It is heated." if s["heated"] else "It is not heated."
        blocks.append(
            paragraph(
                f'Slab floor "{s["name"]}" in zone "{s["zone"]}" ({s["status"]}) covers {sqft(s["area"])} with an '
                f"exposed perimeter of {num(s['perimeter'])} feet, edge insulation of R-value "
                f"{num(s['edge_insulation_r_value'])} and a carpeted fraction of {num(s['carpeted_fraction'])}.",
                heated,
            )
        )
    return blocks


def _hvac(s: Record) -> str:
    h, c = s["heating"], s["cooling"]
    ducted = "ducted" if h["ducted"] else "ductless"
    sentences = [
        f'System "{s["name"]}" is a {s["system_type"]} ({s["status"]}).',
        f"In heating it is a {ducted} {h['system_type']} with an HSPF of {num(h['hspf'])}, {num(h['capacity_47'])} Btuh at "
        f"47 degrees and {num(h['capacity_17'])} Btuh at 17 degrees.",
        f"In cooling the {ducted} {c['system_type']} reaches SEER2 {num(c['seer2'])} and EER2 {num(c['eer2'])} at "
        f"{num(c['cfm_per_ton'])} CFM per ton; the refrigerant charge is {c['ac_charge']}.",
    ]
    if "distribution" in s:
        d = s["distribution"]
        sentences.append(
            f'Air is distributed by "{d["name"]}", type {d["system_type"]}, with {num(d["percent_leakage"])} percent '
            f"leakage, duct insulation of R-{num(d['insulation_r_value'])} and {'a' if d['bypass_duct'] else 'no'} bypass duct."
        )
        if "supply_area" in d:
            sentences.append(
                f"Supply ducts have {sqft(d['supply_area'])} of surface at a diameter of {num(d['supply_diameter'])} inches, "
                f"return ducts {sqft(d['return_area'])} at {num(d['return_diameter'])} inches."
            )
    return paragraph(*sentences)


def _hot_water(s: Record) -> str:
    sentences = [f'Hot water system "{s["name"]}" is {s["status"]} and of type {s["system_type"]}.']
    for h in s["water_heaters"]:
        text = (
            f'Its heater "{h["name"]}" runs on {h["fuel"]}, holds {num(h["volume"])} gallons and stands in the '
            f"{h['tank_location']}; its input rating is given in {h['input_rating_units']}"
        )
        if "energy_factor" in h:
            text += (
                f" ({num(h['input_rating'])}), it is a {h['tank_type']} tank with an energy factor of "
                f"{num(h['energy_factor'])}, exterior insulation of R-{num(h['exterior_insulation_r_value'])}, a first hour "
                f"rating of {num(h['first_hour_rating'])} and a recovery efficiency of {num(h['recovery_efficiency'])}"
            )
        sentences.append(text + ".")
    return paragraph(*sentences)


def _closing(b: Building) -> str:
    checks = listing(
        ["duct leakage where ducts are present", "window labels", "insulation before it is covered"]
    )
    return paragraph(
        f"The figures above are those of the model as submitted. The field inspector should verify {checks}.",
        f"Should any of the {spelled(3)} differ on site, the calculation for {b.address} has to be run again.",
    )
