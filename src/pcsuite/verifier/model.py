"""BuildingSpec: what an extraction team reads out of a building's compliance documents.

Every value may be missing (``null`` or absent); a list item needs only its ``name``. Text and lists are
bounded, so that decoding constrained to the emitted schema always ends.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict

Text = Annotated[str, Strict(), Field(max_length=200)]
Name = Annotated[str, Strict(), Field(min_length=1, max_length=200)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Count = Annotated[int, Strict(), Field(ge=0)]
Flag = Annotated[bool, Strict()]
Fraction = Annotated[float, Strict(), Field(ge=0, le=1)]
Layers = Annotated[list[Text], Field(max_length=30)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Project(_Part):
    """What the building is and where it stands."""

    run_id: Text | None = None
    run_title: Text | None = None
    run_number: int | None = None
    run_scope: Text | None = None
    address: Text | None = None
    city: Text | None = None
    climate_zone: Annotated[int, Strict(), Field(ge=1, le=16)] | None = None
    standards_version: Text | None = None
    all_orientations: Flag | None = None
    fuel_type: Text | None = None
    house_type: Text | None = None
    dwelling_units: Count | None = None
    stories: Count | None = None
    bedrooms: Count | None = None
    attached_garage: Flag | None = None
    front_orientation: Number | None = None
    orientation_confidence: Text | Number | None = None
    orientation_verification: Text | Flag | None = None


class Envelope(_Part):
    """Areas and whole-building figures."""

    conditioned_floor_area: Number | None = None
    window_area: Number | None = None
    window_to_floor_ratio: Fraction | None = None
    fenestration_u_factor: Number | None = None
    exterior_wall_area: Number | None = None
    underground_wall_area: Number | None = None
    slab_floor_area: Number | None = None
    exposed_slab_floor_area: Number | None = None
    below_grade_floor_area: Number | None = None
    exposed_below_grade_floor_area: Number | None = None
    addition_conditioned_floor_area: Number | None = None
    pv_credit_available: Flag | None = None
    pv_generation_max_credit: Number | None = None
    credit_available_for_pv: Number | None = None
    final_pv_credit: Number | None = None
    zonal_control: Flag | None = None
    infiltration_ach50: Number | None = None
    infiltration_cfm50: Number | None = None
    quality_insulation_installation: Flag | None = None


class _Named(_Part):
    name: Name


class Zone(_Named):
    """A thermal zone."""

    zone_type: Text | None = None
    status: Text | None = None
    floor_area: Number | None = None
    ceiling_height: Number | None = None
    stories: Count | None = None
    volume: Number | None = None
    exterior_wall_area: Number | None = None
    exterior_wall_door_area: Number | None = None
    ceiling_below_attic_area: Number | None = None
    cathedral_ceiling_area: Number | None = None
    slab_floor_area: Number | None = None
    exterior_floor_area: Number | None = None


class Wall(_Named):
    """An exterior wall."""

    zone: Text | None = None
    status: Text | None = None
    construction_type: Text | None = None
    orientation: Number | None = None
    area: Number | None = None
    window_area: Number | None = None
    door_area: Number | None = None
    tilt: Number | None = None
    framing_factor: Number | None = None


class Window(_Named):
    """A window or glazed door."""

    wall: Text | None = None
    status: Text | None = None
    azimuth: Number | None = None
    height: Number | None = None
    width: Number | None = None
    multiplier: Count | None = None
    area: Number | None = None
    u_factor: Number | None = None
    shgc: Number | None = None
    exterior_shade: Text | None = None


class Skylight(_Named):
    """A window in a roof."""

    roof: Text | None = None
    status: Text | None = None
    azimuth: Number | None = None
    multiplier: Count | None = None
    area: Number | None = None
    u_factor: Number | None = None
    shgc: Number | None = None


class Ceiling(_Named):
    """A cathedral ceiling."""

    zone: Text | None = None
    status: Text | None = None
    construction_type: Text | None = None
    orientation: Number | None = None
    area: Number | None = None
    roof_rise: Number | None = None
    roof_pitch: Number | None = None
    roof_tilt: Number | None = None
    roof_reflectance: Number | None = None
    roof_emittance: Number | None = None
    framing_factor: Number | None = None


class Attic(_Named):
    """An attic, with the roof above it."""

    status: Text | None = None
    construction_type: Text | None = None
    area: Number | None = None
    roof_rise: Number | None = None
    roof_pitch: Number | None = None
    roof_tilt: Number | None = None
    roof_reflectance: Number | None = None
    roof_emittance: Number | None = None
    roof_framing_factor: Number | None = None
    radiant_barrier: Flag | None = None


class Surface(_Named):
    """A ceiling below an attic or a floor that is not a slab."""

    zone: Text | None = None
    status: Text | None = None
    construction_type: Text | None = None
    area: Number | None = None
    framing_factor: Number | None = None


class CrawlSpace(_Named):
    """A crawl space."""

    status: Text | None = None
    crawlspace_type: Text | None = None
    floor_area: Number | None = None
    perimeter: Number | None = None
    average_height: Number | None = None
    volume: Number | None = None


class Construction(_Named):
    """An assembly and its layers."""

    construction_type: Text | None = None
    cavity_r_value: Number | None = None
    total_thickness: Number | None = None
    winter_design_u_value: Number | None = None
    layers: Layers | None = None


class SlabFloor(_Named):
    """A slab on grade."""

    zone: Text | None = None
    status: Text | None = None
    area: Number | None = None
    perimeter: Number | None = None
    edge_insulation_r_value: Number | None = None
    carpeted_fraction: Fraction | None = None
    heated: Flag | None = None


class Heating(_Part):
    """The heating side of a system."""

    system_type: Text | None = None
    hspf: Number | None = None
    capacity_47: Number | None = None
    capacity_17: Number | None = None
    auxiliary_heating_capacity: Number | None = None
    ducted: Flag | None = None


class Cooling(_Part):
    """The cooling side of a system."""

    system_type: Text | None = None
    seer2: Number | None = None
    eer2: Number | None = None
    cfm_per_ton: Number | None = None
    ac_charge: Text | None = None
    ducted: Flag | None = None


class Distribution(_Part):
    """The ducts of a system."""

    name: Text | None = None
    system_type: Text | None = None
    percent_leakage: Number | None = None
    insulation_r_value: Number | None = None
    supply_area: Number | None = None
    supply_diameter: Number | None = None
    return_area: Number | None = None
    return_diameter: Number | None = None
    bypass_duct: Flag | None = None


class HvacSystem(_Named):
    """A space-conditioning system."""

    status: Text | None = None
    system_type: Text | None = None
    heating: Heating | None = None
    cooling: Cooling | None = None
    distribution: Distribution | None = None


class WaterHeater(_Named):
    """One water heater of a system."""

    fuel: Text | None = None
    tank_type: Text | None = None
    volume: Number | None = None
    energy_factor: Number | None = None
    input_rating: Number | None = None
    input_rating_units: Text | None = None
    interior_insulation_r_value: Number | None = None
    exterior_insulation_r_value: Number | None = None
    standby_loss: Number | None = None
    tank_location: Text | None = None
    rated_flow: Number | None = None
    first_hour_rating: Number | None = None
    recovery_efficiency: Number | None = None


class WaterHeatingSystem(_Named):
    """A domestic hot water system."""

    status: Text | None = None
    system_type: Text | None = None
    water_heaters: Annotated[list[WaterHeater], Field(max_length=50)] | None = None


def _items() -> Any:
    return Field(default=None, max_length=400)


class BuildingSpec(_Part):
    """The whole record."""

    project: Project | None = None
    envelope: Envelope | None = None
    zones: list[Zone] | None = _items()
    walls: list[Wall] | None = _items()
    windows: list[Window] | None = _items()
    skylights: list[Skylight] | None = _items()
    ceilings: list[Ceiling] | None = _items()
    attics: list[Attic] | None = _items()
    ceilings_below_attic: list[Surface] | None = _items()
    exterior_floors: list[Surface] | None = _items()
    floors_over_crawlspace: list[Surface] | None = _items()
    crawlspaces: list[CrawlSpace] | None = _items()
    wall_constructions: list[Construction] | None = _items()
    ceiling_constructions: list[Construction] | None = _items()
    attic_constructions: list[Construction] | None = _items()
    ceiling_below_attic_constructions: list[Construction] | None = _items()
    exterior_floor_constructions: list[Construction] | None = _items()
    floor_over_crawlspace_constructions: list[Construction] | None = _items()
    slab_floors: list[SlabFloor] | None = _items()
    hvac_systems: list[HvacSystem] | None = _items()
    water_heating_systems: list[WaterHeatingSystem] | None = _items()
    extraction_status: Any = None
    conflicts: Any = None
