"""From a short description of a building to its full record, with all derived figures consistent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Building:
    """What is chosen freely; everything else follows."""

    id: str
    split: str
    dialect: str
    style: str
    title: str
    address: str
    city: str
    climate_zone: int
    fuel: str
    house: str
    units: int
    stories: int
    bedrooms: int
    garage: bool
    front: float
    zones: tuple[tuple[Any, ...], ...]
    """name, floor area, ceiling height, stories"""
    wall_types: tuple[tuple[Any, ...], ...]
    """name, cavity R, thickness, U, layers"""
    walls: tuple[tuple[Any, ...], ...]
    """name, zone, wall type, degrees from the front, area, door area"""
    windows: tuple[tuple[Any, ...], ...]
    """name, wall, multiplier, area, U-factor, SHGC"""
    roof_types: tuple[tuple[Any, ...], ...] = ()
    roofs: tuple[tuple[Any, ...], ...] = ()
    """name, zone, roof type, degrees from the front, area, rise in 12"""
    attic: tuple[Any, ...] | None = None
    """name, attic construction, area, rise; with ceilings below it"""
    attic_types: tuple[tuple[Any, ...], ...] = ()
    lids: tuple[tuple[Any, ...], ...] = ()
    """name, zone, ceiling type, area"""
    lid_types: tuple[tuple[Any, ...], ...] = ()
    slabs: tuple[tuple[Any, ...], ...] = ()
    """name, zone, area, perimeter, edge R, carpeted fraction, heated"""
    floors: tuple[tuple[Any, ...], ...] = ()
    """name, zone, floor type, area (over a crawl space)"""
    floor_types: tuple[tuple[Any, ...], ...] = ()
    crawl: tuple[Any, ...] | None = None
    """name, floor area, perimeter, volume"""
    skylights: tuple[tuple[Any, ...], ...] = ()
    """name, roof, degrees from the front, area, U-factor, SHGC"""
    hot_water: tuple[Record, ...] = ()
    hvac: tuple[Record, ...] = ()
    shade: str = "Insect Screen (default)"
    status: str = "New"
    remarks: tuple[str, ...] = field(default=())
    """Sentences of the document that carry no fact of the record."""


def assemble(b: Building) -> Record:
    """The whole record of a building."""
    record: Record = {"project": _project(b), "envelope": _envelope(b), "zones": _zones(b)}
    turn = _turner(b.front)
    record["walls"] = [
        {
            "name": name, "zone": zone, "status": b.status, "construction_type": kind,
            "orientation": turn(degrees), "area": area,
            "window_area": _sum(w[3] for w in b.windows if w[1] == name), "door_area": door,
            "tilt": 90.0, "framing_factor": 0.25,
        }
        for name, zone, kind, degrees, area, door in b.walls
    ]  # fmt: skip
    facing = {wall["name"]: wall["orientation"] for wall in record["walls"]}
    record["windows"] = [
        {
            "name": name, "wall": wall, "status": b.status, "azimuth": facing[wall], "multiplier": count,
            "area": area, "u_factor": u_factor, "shgc": shgc, "exterior_shade": b.shade,
        }
        for name, wall, count, area, u_factor, shgc in b.windows
    ]  # fmt: skip
    record["skylights"] = [
        {
            "name": name, "roof": roof, "status": b.status, "azimuth": turn(degrees), "area": area,
            "u_factor": u_factor, "shgc": shgc,
        }
        for name, roof, degrees, area, u_factor, shgc in b.skylights
    ]  # fmt: skip
    record["ceilings"] = [
        {
            "name": name, "zone": zone, "status": b.status, "construction_type": kind,
            "orientation": turn(degrees), "area": area, **_slope(rise), "roof_reflectance": 0.2,
            "roof_emittance": 0.85, "framing_factor": 0.07,
        }
        for name, zone, kind, degrees, area, rise in b.roofs
    ]  # fmt: skip
    if b.attic:
        name, kind, area, rise = b.attic
        record["attics"] = [
            {
                "name": name, "status": b.status, "construction_type": kind, "area": area, **_slope(rise),
                "roof_reflectance": 0.1, "roof_emittance": 0.9,
            }
        ]  # fmt: skip
    record["ceilings_below_attic"] = _surfaces(b, b.lids)
    record["floors_over_crawlspace"] = _surfaces(b, b.floors)
    if b.crawl:
        name, area, perimeter, volume = b.crawl
        record["crawlspaces"] = [{"name": name, "floor_area": area, "perimeter": perimeter, "volume": volume}]
    record["wall_constructions"] = _types(b.wall_types, "Wood Framed Wall")
    record["ceiling_constructions"] = _types(b.roof_types, "Wood Framed Ceiling")
    record["attic_constructions"] = _types(b.attic_types, "Wood Framed Ceiling")
    record["ceiling_below_attic_constructions"] = _types(b.lid_types, "Wood Framed Ceiling")
    record["floor_over_crawlspace_constructions"] = _types(b.floor_types, "Wood Framed Floor")
    record["slab_floors"] = [
        {
            "name": name, "zone": zone, "status": b.status, "area": area, "perimeter": perimeter,
            "edge_insulation_r_value": edge, "carpeted_fraction": carpet, "heated": heated,
        }
        for name, zone, area, perimeter, edge, carpet, heated in b.slabs
    ]  # fmt: skip
    record["water_heating_systems"] = [{"status": b.status, **system} for system in b.hot_water]
    record["hvac_systems"] = [{"status": b.status, **system} for system in b.hvac]
    return {key: value for key, value in record.items() if value}


def _project(b: Building) -> Record:
    return {
        "run_id": "User", "run_title": b.title, "run_number": 0, "run_scope": "Newly Constructed",
        "address": b.address, "city": b.city, "climate_zone": b.climate_zone, "all_orientations": False,
        "fuel_type": b.fuel, "house_type": b.house, "dwelling_units": b.units, "stories": b.stories,
        "bedrooms": b.bedrooms, "attached_garage": b.garage, "front_orientation": b.front,
    }  # fmt: skip


def _envelope(b: Building) -> Record:
    floor = _sum(zone[1] for zone in b.zones)
    glass = _sum(window[3] for window in b.windows)
    return {
        "conditioned_floor_area": floor, "window_area": glass, "window_to_floor_ratio": round(glass / floor, 3),
        "fenestration_u_factor": round(sum(w[3] * w[4] for w in b.windows) / glass, 3),
        "exterior_wall_area": _sum(wall[4] for wall in b.walls), "underground_wall_area": 0.0,
        "slab_floor_area": _sum(slab[2] for slab in b.slabs), "exposed_slab_floor_area": 0.0,
        "below_grade_floor_area": 0.0, "exposed_below_grade_floor_area": 0.0,
        "addition_conditioned_floor_area": 0.0, "pv_credit_available": True, "pv_generation_max_credit": 0.0,
        "credit_available_for_pv": 0.0, "final_pv_credit": 0.0, "zonal_control": False,
        "infiltration_ach50": 5.0, "infiltration_cfm50": round(floor * 0.75, 1),
        "quality_insulation_installation": True,
    }  # fmt: skip


def _zones(b: Building) -> list[Record]:
    return [
        {
            "name": name, "zone_type": "Conditioned", "status": b.status, "floor_area": area,
            "ceiling_height": height, "stories": stories, "volume": round(area * height, 1),
            "exterior_wall_area": _sum(wall[4] for wall in b.walls if wall[1] == name),
            "exterior_wall_door_area": _sum(wall[5] for wall in b.walls if wall[1] == name),
            "ceiling_below_attic_area": _sum(lid[3] for lid in b.lids if lid[1] == name),
            "cathedral_ceiling_area": _sum(roof[4] for roof in b.roofs if roof[1] == name),
            "slab_floor_area": _sum(slab[2] for slab in b.slabs if slab[1] == name),
            "exterior_floor_area": 0.0,
        }
        for name, area, height, stories in b.zones
    ]  # fmt: skip


def _turner(front: float) -> Any:
    def turn(degrees: float) -> float:
        return (front + degrees) % 360

    return turn


def _slope(rise: float) -> Record:
    tilt = math.degrees(math.atan(rise / 12))
    return {"roof_rise": rise, "roof_pitch": round(rise / 12, 3), "roof_tilt": round(tilt, 2)}


def _surfaces(b: Building, rows: tuple[tuple[Any, ...], ...]) -> list[Record]:
    return [
        {"name": name, "zone": zone, "status": b.status, "construction_type": kind, "area": area}
        for name, zone, kind, area in rows
    ]


def _types(rows: tuple[tuple[Any, ...], ...], kind: str) -> list[Record]:
    return [
        {
            "name": name, "construction_type": kind, "cavity_r_value": cavity, "total_thickness": thickness,
            "winter_design_u_value": u_value, "layers": list(layers),
        }
        for name, cavity, thickness, u_value, layers in rows
    ]  # fmt: skip


def _sum(values: Any) -> float:
    return round(float(sum(values)), 2)
