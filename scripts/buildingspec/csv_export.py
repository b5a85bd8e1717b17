"""Writing a record as a Detailed Report, in either dialect."""

# ruff: noqa: E501
from __future__ import annotations

from typing import Any

Record = dict[str, Any]
Cell = tuple[str, str]
"""Kind (``label``, ``text``, ``word``, ``number``, ``flag``) and content."""

_PADDED_WIDTH = 20
_CONSTRUCTION = " Name, Type, Total Cavity Rvalue, Total Thickness, Winter Design Uvalue, Layers:, "
_ROOF = " Roof Rise (x in 12), Roof Pitch, Roof Tilt (deg), Roof Reflectance, Roof Emittance"
_ROOF_KEYS = ("roof_rise", "roof_pitch", "roof_tilt", "roof_reflectance", "roof_emittance")

PROJECT = (
    ("Run ID", "run_id"), ("Run Title", "run_title"), ("Run Number", "run_number"), ("Run Scope", "run_scope"), None,
    ("Address", "address"), ("City", "city"), ("Climate Zone", "climate_zone"), None,
    ("Standards Version", "standards_version"), ("All Orientations", "all_orientations"), ("Fuel Type", "fuel_type"),
    None, ("House Type", "house_type"), ("Dwelling Units", "dwelling_units"), ("Stories", "stories"),
    ("Bedrooms", "bedrooms"), ("Attached Garage", "attached_garage"), None,
    ("Front Orientation", "front_orientation", "deg"),
)  # fmt: skip
ENVELOPE = (
    ("Conditioned Floor Area", "conditioned_floor_area", "ft2"),
    ("Total Conditioned Zone Window Area", "window_area", "ft2"), ("Window to Floor Area Ratio", "window_to_floor_ratio"),
    ("Area-Weighted Fenestration Ufactor", "fenestration_u_factor", "Btuh/ft2-?F"),
    ("Exterior Wall Area", "exterior_wall_area", "ft2"), ("Underground Wall Area", "underground_wall_area", "ft2"),
    ("Conditioned Zone Slab Floor Area", "slab_floor_area", "ft2"),
    ("Exposed Slab Floor Area", "exposed_slab_floor_area", "ft2"),
    ("Conditioned Zone Below Grade Floor Area", "below_grade_floor_area", "ft2"),
    ("Exposed Below Grade Floor Area", "exposed_below_grade_floor_area", "ft2"), None,
    ("Addition Conditioned Floor Area", "addition_conditioned_floor_area", "ft2"), None,
    ("PV Credit Available", "pv_credit_available"), ("PV Generation - Maximum Credit", "pv_generation_max_credit", "LSC $"),
    ("Credit Available for PV", "credit_available_for_pv", "LSC $"), ("Final PV Credit", "final_pv_credit", "LSC $/ft2-yr"),
    None, ("Zonal Control", "zonal_control"), ("Envelope Infiltration (ACH @ 50 Pa)", "infiltration_ach50"),
    ("Envelope Infiltration (CFM @ 50 Pa)", "infiltration_cfm50"),
    ("Quality Insulation Installation", "quality_insulation_installation"),
)  # fmt: skip
ZONE = (
    ("Zone Name", "name"), ("Zone Type", "zone_type"), ("Zone Status", "status"), ("Zone Floor Area", "floor_area", "ft2"),
    ("Zone Ceiling Height", "ceiling_height", "ft"), ("Zone Stories", "stories"), ("Zone Volume", "volume", "ft3"),
    ("Zone Exterior Wall Area", "exterior_wall_area", "ft2"),
    ("Zone Exterior Wall Door Area", "exterior_wall_door_area", "ft2"),
    ("Zone Ceiling Below Attic Area", "ceiling_below_attic_area", "ft2"),
    ("Zone Cathedral Ceiling Area", "cathedral_ceiling_area", "ft2"), ("Zone Slab Floor Area", "slab_floor_area", "ft2"),
    ("Zone Exterior Floor Area", "exterior_floor_area", "ft2"),
)  # fmt: skip
_SURFACE = " Name, Zone, Status, Type, Area (ft2), "
_SURFACE_KEYS = ("name", "zone", "status", "construction_type", "area")
TABLES = (
    ("Exterior Walls:", "walls", " Name, Zone, Status, Type, Orientation (deg), Area (ft2), Window Area (ft2),"
     "Door Area (ft2), Tilt (deg), Framing Factor, ",
     ("name", "zone", "status", "construction_type", "orientation", "area", "window_area", "door_area", "tilt",
      "framing_factor")),
    ("Windows:", "windows", " Name, Wall, Status, Azimuth (deg), Height (ft), Width (ft), Multiplier, Area (ft2),"
     "U-factor, SHGC, Ext. Shade, ",
     ("name", "wall", "status", "azimuth", "height", "width", "multiplier", "area", "u_factor", "shgc",
      "exterior_shade")),
    ("Ext. Wall Constructions:", "wall_constructions", _CONSTRUCTION, None),
    ("Cathedral Ceilings:", "ceilings", f" Name, Zone, Status, Type, Orientation, Area (ft2),{_ROOF}, Framing Factor, ",
     ("name", "zone", "status", "construction_type", "orientation", "area", *_ROOF_KEYS, "framing_factor")),
    ("Skylights:", "skylights", " Name, Ceiling, Status, Azimuth (deg), Area (ft2), U-factor, SHGC, ",
     ("name", "roof", "status", "azimuth", "area", "u_factor", "shgc")),
    ("Cathedral Ceiling Constructions:", "ceiling_constructions", _CONSTRUCTION, None),
    ("Attic:", "attics", f" Name, Status, Type, Floor Area (ft2),{_ROOF}, ",
     ("name", "status", "construction_type", "area", *_ROOF_KEYS)),
    ("Attic Constructions:", "attic_constructions", _CONSTRUCTION, None),
    ("Ceiling Below Attic:", "ceilings_below_attic", _SURFACE, _SURFACE_KEYS),
    ("Ceiling Below Attic Constructions:", "ceiling_below_attic_constructions", _CONSTRUCTION, None),
    ("Floors Over Crawlspace:", "floors_over_crawlspace", _SURFACE, _SURFACE_KEYS),
    ("Floors Over Crawlspace Constructions:", "floor_over_crawlspace_constructions", _CONSTRUCTION, None),
    ("CrawlSpace:", "crawlspaces", " Name, Status, Area (ft2), Perimeter (ft), Volume (ft3), ",
     ("name", "floor_area", "perimeter", "volume")),
    ("Slab Floors:", "slab_floors", " Name, Zone, Status, Area (ft2), Perimeter (ft),Edge Insul. Rvalue,"
     " Carpeted Fraction, Heated, ",
     ("name", "zone", "status", "area", "perimeter", "edge_insulation_r_value", "carpeted_fraction", "heated")),
)  # fmt: skip
_HEATER_KEYS = (
    "name", "fuel", "tank_type", "volume", "energy_factor", "input_rating", "input_rating_units",
    "interior_insulation_r_value", "exterior_insulation_r_value", "standby_loss", "make", "tank_location", "rated_flow",
    "first_hour_rating", "recovery_efficiency",
)  # fmt: skip
_MISSING = {
    "tank_type": "NA", "energy_factor": "NEEA Rated", "input_rating": "NA", "interior_insulation_r_value": "NA",
    "exterior_insulation_r_value": "NA", "standby_loss": "NA", "auxiliary_heating_capacity": "-99996.000",
}  # fmt: skip
_WORDS = {
    "status",
    "construction_type",
    "exterior_shade",
    "system_type",
    "fuel",
    "tank_type",
    "tank_location",
    "run_scope",
}


class DetailedReportWriter:
    """Writes one record; ``dialect`` is ``raw`` or ``resaved``."""

    def __init__(self, dialect: str) -> None:
        self.raw = dialect == "raw"
        self.lines: list[str] = []

    def write(self, record: Record) -> str:
        """The whole file, with line feeds."""
        for heading in ("2025 Building Energy Efficiency Standards", "Performance-based Compliance"):
            self._line([heading])
        self._line([])
        self._line(["Detailed Report For:", "User Input"], comma=True)
        self._line([])
        self._line(["Project"])
        for rows, part in ((PROJECT, record["project"]), (ENVELOPE, record["envelope"])):
            for row in rows:
                self._pair(row, part)
            self._line([])
        for header, key, columns, fields in TABLES:
            self._table(header, columns, fields, record.get(key, []), repeats=2 if key == "skylights" else 0)
        for zone in record["zones"]:
            for row in ZONE:
                self._pair(row, zone)
            self._line([])
        self._hot_water(record.get("water_heating_systems", []))
        self._hvac(record.get("hvac_systems", []))
        for _ in range(3):
            self._line([])
        self._line(["Compliance Manager Version:", "", self._text("BEMCmpMgr 2025.1.0 (2600)")], comma=True)
        self._line(["Software Version:", "", self._text("EnergyPro 10.0")], comma=True)
        return "\n".join(self.lines) + "\n"

    def _line(self, cells: list[str], comma: bool = False) -> None:
        if self.raw:
            self.lines.append(",".join(cells) + ("," if comma else ""))
        else:
            self.lines.append(",".join([*cells, *[""] * (_PADDED_WIDTH - len(cells))]))

    def _text(self, text: str) -> str:
        if self.raw or "," in text or '"' in text:
            return '"' + text.replace('"', '""') + '"'
        return text

    def _cell(self, key: str, value: Any) -> str:
        if value is None:
            mark = _MISSING.get(key, "")
            return mark if self.raw else mark.removesuffix(".000")
        if isinstance(value, bool):
            return self._text("Yes" if value else "No")
        if isinstance(value, str):
            return value if key in _WORDS and "," not in value else self._text(value)
        if not self.raw:
            return f"{value:g}" if abs(value) < 1e5 else str(value)
        if key in ("run_number", "climate_zone", "dwelling_units", "bedrooms", "front_orientation"):
            return f"{value:g}"
        return f"{value:.3f}"

    def _pair(self, row: tuple[str, ...] | None, part: Record) -> None:
        if row is None:
            self._line([])
            return
        label, key, *unit = row
        value = part.get(key)
        shown = self._text(" ") if key == "standards_version" else self._cell(key, value)
        self._line(["", label, shown, *unit], comma=True)

    def _header(self, header: str, columns: str, indent: int = 1) -> None:
        self._line([*[""] * indent, header, *columns.split(",")], comma=False)

    def _table(
        self, header: str, columns: str, fields: tuple[str, ...] | None, items: list[Record], repeats: int
    ) -> None:
        for _ in range(repeats):
            self._header(header, columns)
            self._line([])
        self._header(header, columns)
        for item in items:
            if fields is None:
                self._construction(item)
            else:
                self._line(["", "", *[self._cell(key, item.get(key)) for key in fields]], comma=True)
        self._line([])

    def _construction(self, item: Record) -> None:
        first, *others = item["layers"]
        numbers = ("cavity_r_value", "total_thickness", "winter_design_u_value")
        cells = [self._text(item["name"]), self._text(item["construction_type"])]
        cells += [self._cell(key, item[key]) for key in numbers]
        self._line(["", "", *cells, self._text(first)], comma=True)
        for layer in others:
            self._line([*[""] * 7, self._text(layer)], comma=True)

    def _hot_water(self, systems: list[Record]) -> None:
        self._header(
            "Water Heating System Data:",
            " Status, Type, Water Heaters:, Fuel, Tank, Volume (gal), Energy Factor, Input Rating,, Int. Insul. RValue,"
            " Ext. Insul. Rvalue, Standby Loss,Make & Model,Tank Location,Rated Flow,First Hour Rating,"
            "Recovery Efficiency",
        )
        for system in systems:
            own = [self._text(system["name"]), system["status"], self._text(system["system_type"])]
            for heater in system["water_heaters"]:
                cells = [self._cell(key, heater.get(key)) for key in _HEATER_KEYS]
                self._line(["", *own, *cells], comma=True)
                own = ["", "", ""]
        self._line([])

    def _hvac(self, systems: list[Record]) -> None:
        self._header("HVAC System Data:", "  Status, Type")
        for number, system in enumerate(systems, start=1):
            self._line(["", self._text(system["name"]), system["status"], system["system_type"]], comma=True)
            unit = self._text(f"Heat Pump System {number}")
            self._part(
                "Heat Pump (Heating):", " Type, HSPF, Cap47, Cap 17, Aux. Htg. Capacity, Ducted", unit, system["heating"],
                ("system_type", "hspf", "capacity_47", "capacity_17", "auxiliary_heating_capacity", "ducted"),
            )  # fmt: skip
            self._part(
                "Heat Pump (Cooling):", " Type, SEER2, EER2, CFM/Ton, AC Charge, Ducted", unit, system["cooling"],
                ("system_type", "seer2", "eer2", "cfm_per_ton", "ac_charge", "ducted"),
            )  # fmt: skip
            if "distribution" in system:
                ducts = system["distribution"]
                sizes = ("supply_area", "supply_diameter", "return_area", "return_diameter")
                given = sizes if "supply_area" in ducts else ()
                self._part(
                    "Distribution System:",
                    " Type, Percent Leakage, Insulation R-Value, Supply Area (ft2), Supply Dia (in), Return Area (ft2),"
                    " Return Dia (in), Bypass Duct",
                    self._text(ducts["name"]), ducts,
                    ("system_type", "percent_leakage", "insulation_r_value", *given, "bypass_duct"),
                )  # fmt: skip

    def _part(self, header: str, columns: str, first: str, part: Record, keys: tuple[str, ...]) -> None:
        self._header(header, columns, indent=2)
        self._line(["", "", first, *[self._cell(key, part.get(key)) for key in keys]], comma=True)
        self._line([])
