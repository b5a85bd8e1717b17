"""Assemblies and equipment that several buildings share."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

R21_WALL = (
    "R-21 Wall", 21.0, 6.875, 0.069,
    ("Inside Finish: Gypsum Board", "Cavity / Frame: R-21 / 2x6", "Exterior Finish: Wood Siding"),
)  # fmt: skip
R15_WALL = (
    "R-15 Stucco Wall", 15.0, 5.25, 0.086,
    ("Inside Finish: Gypsum Board", "Cavity / Frame: R-15 / 2x4", "Exterior Finish: 3 Coat Stucco"),
)  # fmt: skip
R23_WALL = (
    "R-23 + R-4 Wall", 23.0, 7.875, 0.048,
    (
        "Inside Finish: Gypsum Board", "Cavity / Frame: R-23 / 2x6", "Sheathing: R-4 Continuous Board",
        "Exterior Finish: Fiber Cement Siding",
    ),
)  # fmt: skip
R38_ROOF = (
    "R-38 Roof", 38.0, 12.9, 0.03,
    ("Roofing: Light Roof (Asphalt Shingle)", "Cavity / Frame: R-38 / 2x12", "Inside Finish: Gypsum Board"),
)  # fmt: skip
R30_ROOF = (
    "R-30 Metal Roof", 30.0, 10.5, 0.036,
    ("Roofing: Standing Seam Metal", "Cavity / Frame: R-30 / 2x10", "Inside Finish: Tongue and Groove Pine"),
)  # fmt: skip
ATTIC_ROOF = (
    "Vented Attic Roof", 0.0, 1.125, 0.64,
    ("Roofing: Concrete Tile", "Roof Deck: Wood Sheathing", "Cavity / Frame: No Insulation / 2x4"),
)  # fmt: skip
R49_LID = (
    "R-49 Attic Floor", 49.0, 17.2, 0.02,
    ("Over Ceiling Joists: R-40 Blown In", "Cavity / Frame: R-9 / 2x4", "Inside Finish: Gypsum Board"),
)  # fmt: skip
R30_FLOOR = (
    "R-30 Raised Floor", 30.0, 11.0, 0.034,
    ("Floor Surface: Carpeted", "Floor Deck: Wood Sheathing", "Cavity / Frame: R-30 / 2x10"),
)  # fmt: skip


def heat_pump(
    name: str,
    unit: str,
    hspf: float,
    warm: float,
    cold: float,
    seer2: float,
    eer2: float,
    ducts: Record | None,
) -> Record:
    """A split heat pump, ducted where it has ducts."""
    ducted = ducts is not None
    system: Record = {
        "name": name, "system_type": "Heat Pump",
        "heating": {
            "system_type": unit, "hspf": hspf, "capacity_47": warm, "capacity_17": cold, "ducted": ducted,
        },
        "cooling": {
            "system_type": unit, "seer2": seer2, "eer2": eer2, "cfm_per_ton": 350.0,
            "ac_charge": "Not Verified", "ducted": ducted,
        },
    }  # fmt: skip
    if ducts is not None:
        system["distribution"] = ducts
    return system


def ducts(
    name: str, kind: str, leakage: float, insulation: float, sizes: tuple[float, ...] | None = None
) -> Record:
    """A duct system; with sizes: supply area and diameter, return area and diameter."""
    system: Record = {
        "name": name, "system_type": kind, "percent_leakage": leakage, "insulation_r_value": insulation,
        "bypass_duct": False,
    }  # fmt: skip
    if sizes:
        keys = ("supply_area", "supply_diameter", "return_area", "return_diameter")
        system.update(zip(keys, sizes, strict=True))
    return system


def tank(name: str, volume: float, location: str) -> Record:
    """A heat pump water heater with a tank, listed by its rating body rather than by an energy factor."""
    return {
        "name": name, "fuel": "Heat Pump", "volume": volume, "input_rating_units": "watts",
        "tank_location": location,
    }  # fmt: skip


def gas_tank(name: str, volume: float, factor: float, rating: float, location: str) -> Record:
    """A gas water heater with a tank."""
    return {
        "name": name, "fuel": "Natural Gas", "tank_type": "Small Storage", "volume": volume,
        "energy_factor": factor, "input_rating": rating, "input_rating_units": "Btuh",
        "exterior_insulation_r_value": 12.0, "tank_location": location, "first_hour_rating": 67.0,
        "recovery_efficiency": 0.8,
    }  # fmt: skip


def hot_water(name: str, *heaters: Record) -> Record:
    """A hot water system with its heaters."""
    return {"name": name, "system_type": "Standard", "water_heaters": list(heaters)}
