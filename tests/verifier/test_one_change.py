"""One change to a perfect record, and the verdict that follows: each worked out by hand from the contract.

The building is invented (``support.buildings``). Its truth has 248 compared values: project 10, envelope 8, two zones of 7,
four walls of 10, six windows of 9, two skylights of 8, an attic of 11, two ceilings below it of 6, a floor over a crawl space
of 6, a crawl space of 5, two wall constructions of 8, a floor construction of 7, two slabs of 8, a water heating system of 3
with a heater of 11, and an HVAC system of 3 with 5 of heating, 6 of cooling and 5 of distribution.
"""

import copy

import pytest

from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.tree import compared_record
from pcsuite.verifier.truth import parse_truth
from support.buildings import RAW, resaved
from support.changes import added, all_of, each, edited, exchanged, gone, put

MAPPING = load_mapping()
TRUTH = parse_truth(RAW.encode(), MAPPING, "juniper.csv")
PERFECT = compared_record(TRUTH.record, MAPPING)
FIELDS = 248


OTHER_WINDOW = {
    "wall": "Elsewhere", "status": "Old", "azimuth": 1.0, "multiplier": 5, "area": 1.0, "u_factor": 0.9,
    "shgc": 0.9, "exterior_shade": "Awning",
}  # fmt: skip
FIVE_OTHERS = {"wall": "Elsewhere", "azimuth": 1.0, "area": 1.0, "u_factor": 0.9, "shgc": 0.9}
GHOST = {"name": "Ghost"}

# id, change, (omission, hallucination, format error, wrong value)
CASES = [
    # numbers: the larger of 0.5 % and 0.01, bounds included; 0.5 % of 2140 is 10.7
    ("area within", put("envelope.conditioned_floor_area", 2150), (0, 0, 0, 0)),
    ("area at the bound", put("envelope.conditioned_floor_area", 2150.7), (0, 0, 0, 0)),
    ("area below at the bound", put("envelope.conditioned_floor_area", 2129.3), (0, 0, 0, 0)),
    ("area beyond", put("envelope.conditioned_floor_area", 2151), (0, 0, 0, 1)),
    ("area negative", put("envelope.conditioned_floor_area", -2140), (0, 0, 0, 1)),
    ("area as text", put("envelope.conditioned_floor_area", "2140"), (0, 0, 1, 0)),
    ("area with unit", put("envelope.conditioned_floor_area", "2,140 sq ft"), (0, 0, 1, 0)),
    ("area null", put("envelope.conditioned_floor_area", None), (1, 0, 0, 0)),
    ("area absent", gone("envelope.conditioned_floor_area"), (1, 0, 0, 0)),
    ("area empty text", put("envelope.conditioned_floor_area", ""), (1, 0, 0, 0)),
    ("area blank text", put("envelope.conditioned_floor_area", " \t"), (1, 0, 0, 0)),
    ("area in a list", put("envelope.conditioned_floor_area", [2140]), (0, 0, 1, 0)),
    ("area in an object", put("envelope.conditioned_floor_area", {"value": 2140}), (0, 0, 1, 0)),
    ("area true", put("envelope.conditioned_floor_area", True), (0, 0, 1, 0)),
    ("area as a whole number", put("envelope.conditioned_floor_area", 2140), (0, 0, 0, 0)),
    ("area astronomic", put("envelope.conditioned_floor_area", 10**400), (0, 0, 0, 1)),
    ("zero within", put("envelope.underground_wall_area", 0.01), (0, 0, 0, 0)),
    ("zero beyond", put("envelope.underground_wall_area", 0.02), (0, 0, 0, 1)),
    ("zero missing", put("envelope.underground_wall_area", None), (1, 0, 0, 0)),
    ("zero false", put("envelope.underground_wall_area", False), (0, 0, 1, 0)),
    ("ratio at the bound", put("envelope.window_to_floor_ratio", 0.092), (0, 0, 0, 0)),
    ("ratio beyond", put("envelope.window_to_floor_ratio", 0.0931), (0, 0, 0, 1)),
    ("ratio in percent", put("envelope.window_to_floor_ratio", 8.2), (0, 0, 0, 1)),
    ("u-factor at the bound", put("envelope.fenestration_u_factor", 0.32), (0, 0, 0, 0)),
    ("u-factor beyond", put("envelope.fenestration_u_factor", 0.321), (0, 0, 0, 1)),
    # whole numbers
    ("zone as a float", put("project.climate_zone", 12.0), (0, 0, 0, 0)),
    ("zone not whole, near", put("project.climate_zone", 12.05), (0, 0, 0, 1)),
    ("zone not whole, within", put("project.climate_zone", 12.001), (0, 0, 0, 1)),
    ("zone another", put("project.climate_zone", 13), (0, 0, 0, 1)),
    ("zone as text", put("project.climate_zone", "12"), (0, 0, 1, 0)),
    ("zone with letters", put("project.climate_zone", "CZ12"), (0, 0, 1, 0)),
    ("stories and a half", put("project.stories", 2.5), (0, 0, 0, 1)),
    # angles, modulo 360; 0.5 % of 45 is 0.225
    ("front a turn on", put("project.front_orientation", 405), (0, 0, 0, 0)),
    ("front a turn back", put("project.front_orientation", -315), (0, 0, 0, 0)),
    ("front within", put("project.front_orientation", 45.2), (0, 0, 0, 0)),
    ("front beyond", put("project.front_orientation", 45.3), (0, 0, 0, 1)),
    ("front as a compass point", put("project.front_orientation", "NE"), (0, 0, 1, 0)),
    # booleans
    ("garage 'true'", put("project.attached_garage", "true"), (0, 0, 0, 0)),
    ("garage 'TRUE'", put("project.attached_garage", "TRUE"), (0, 0, 0, 0)),
    ("garage 1", put("project.attached_garage", 1), (0, 0, 0, 0)),
    ("garage false", put("project.attached_garage", False), (0, 0, 0, 1)),
    ("garage 0", put("project.attached_garage", 0), (0, 0, 0, 1)),
    ("garage 'yes'", put("project.attached_garage", "yes"), (0, 0, 1, 0)),
    ("garage 2", put("project.attached_garage", 2), (0, 0, 1, 0)),
    ("garage null", put("project.attached_garage", None), (1, 0, 0, 0)),
    ("garage ''", put("project.attached_garage", ""), (1, 0, 0, 0)),
    # texts
    ("city in capitals", put("project.city", "FENNIMORE"), (0, 0, 0, 0)),
    ("city with blanks", put("project.city", "  fennimore "), (0, 0, 0, 0)),
    ("city misspelt", put("project.city", "Fenimore"), (0, 0, 0, 1)),
    ("city a number", put("project.city", 7), (0, 0, 1, 0)),
    ("city in a list", put("project.city", ["Fennimore"]), (0, 0, 1, 0)),
    ("city missing", gone("project.city"), (1, 0, 0, 0)),
    ("fuel with two blanks", put("project.fuel_type", "natural  gas"), (0, 0, 0, 0)),
    ("fuel shortened", put("project.fuel_type", "Gas"), (0, 0, 0, 1)),
    ("house type hyphenated", put("project.house_type", "Single-Family"), (0, 0, 0, 1)),
    # what counts nowhere
    ("an excluded field", put("project.run_title", "Anything"), (0, 0, 0, 0)),
    ("an excluded field mistyped", put("envelope.pv_credit_available", [1]), (0, 0, 0, 0)),
    ("metadata at the top", put("extraction_status", "partial"), (0, 0, 0, 0)),
    ("metadata that is a list", put("conflicts", [{"field": "x"}]), (0, 0, 0, 0)),
    ("metadata of the project", put("project.orientation_confidence", 0.9), (0, 0, 0, 0)),
    ("an excluded column", put("windows.0.height", 8.0), (0, 0, 0, 0)),
    # inventions
    ("a field nobody asked for", put("project.colour", "red"), (0, 1, 0, 0)),
    ("a part nobody asked for", put("pool", {"depth": 6, "heated": True}), (0, 2, 0, 0)),
    ("a null nobody asked for", put("project.colour", None), (0, 0, 0, 0)),
    ("an empty text nobody asked for", put("project.colour", ""), (0, 0, 0, 0)),
    ("a field the truth leaves out", put("envelope.below_grade_floor_area", 5.0), (0, 1, 0, 0)),
    ("a zero the truth leaves out", put("envelope.below_grade_floor_area", 0), (0, 1, 0, 0)),
    ("a null the truth leaves out", put("envelope.below_grade_floor_area", None), (0, 0, 0, 0)),
    # whole parts
    ("no project", put("project", None), (10, 0, 0, 0)),
    ("project a list", put("project", []), (0, 0, 10, 0)),
    ("project a text", put("project", "see page 2"), (0, 0, 10, 0)),
    ("project an empty text", put("project", ""), (10, 0, 0, 0)),
    ("no envelope", gone("envelope"), (8, 0, 0, 0)),
    ("no windows", gone("windows"), (54, 0, 0, 0)),
    ("windows an empty list", put("windows", []), (54, 0, 0, 0)),
    ("windows a text", put("windows", "see plans"), (0, 0, 54, 0)),
    ("windows an object", put("windows", {}), (0, 0, 54, 0)),
    ("windows within a list", edited("windows", lambda items: [items]), (54, 54, 0, 0)),
    # order never matters
    ("windows reversed", edited("windows", lambda items: items[::-1]), (0, 0, 0, 0)),
    ("windows rotated", edited("windows", lambda items: items[2:] + items[:2]), (0, 0, 0, 0)),
    ("walls reversed", edited("walls", lambda items: items[::-1]), (0, 0, 0, 0)),
    ("zones reversed", edited("zones", lambda items: items[::-1]), (0, 0, 0, 0)),
    # items that are missing, invented or there twice
    ("first window missing", gone("windows.0"), (9, 0, 0, 0)),
    ("last window missing", gone("windows.5"), (9, 0, 0, 0)),
    ("two windows missing", all_of(gone("windows.3"), gone("windows.0")), (18, 0, 0, 0)),
    ("a window invented", added("windows", {"name": "Bay", "area": 99.0}), (0, 2, 0, 0)),
    ("a window twice", edited("windows", lambda w: [*w, copy.deepcopy(w[2])]), (0, 9, 0, 0)),
    ("a null among windows", added("windows", None), (0, 0, 0, 0)),
    ("a text among windows", added("windows", "W-9"), (0, 1, 0, 0)),
    ("an empty window", added("windows", {}), (0, 0, 0, 0)),
    ("a wall missing", gone("walls.2"), (10, 0, 0, 0)),
    ("zones missing", gone("zones"), (14, 0, 0, 0)),
    # names
    ("a name in part", put("windows.0.name", "D03"), (0, 0, 0, 1)),
    ("a name in part, two values exchanged",
     all_of(put("windows.0.name", "D03"), exchanged("windows.0.u_factor", "windows.0.shgc")), (0, 0, 0, 3)),
    ("a name in part, another area",
     all_of(put("windows.0.name", "D03"), put("windows.0.area", 80.0)), (0, 0, 0, 2)),
    ("a name in part, nothing else right",
     edited("windows.0", lambda w: {**OTHER_WINDOW, "name": "D03"}), (0, 0, 0, 9)),
    ("another name", put("windows.5.name", "Kitchen light"), (0, 0, 0, 1)),
    ("a name without its hyphen", put("windows.5.name", "W9"), (0, 0, 0, 1)),
    ("a name in lower case", put("windows.5.name", "w-9"), (0, 0, 0, 0)),
    ("a numeric name as a number", put("windows.1.name", 101), (0, 0, 1, 0)),
    ("a numeric name cut", put("windows.1.name", "1"), (0, 0, 0, 1)),
    ("a name null", put("windows.1.name", None), (1, 0, 0, 0)),
    ("a name empty", put("windows.1.name", ""), (1, 0, 0, 0)),
    ("all names missing", each("windows", "name", lambda _: None), (6, 0, 0, 0)),
    ("all windows renamed", each("windows", "name", lambda name: f"Unit {name[::-1]}x"), (0, 0, 0, 6)),
    ("two names cut to one",
     all_of(put("windows.3.name", "G02 (4040)"), put("windows.4.name", "G02 (4040)")), (0, 0, 0, 2)),
    # areas 10 and 6 and SHGC .23 and .21 differ; U-factors .29 and .28 are within .01
    ("two names exchanged", exchanged("windows.3.name", "windows.4.name"), (0, 0, 0, 4)),
    ("renamed, two values wrong",
     edited("windows.5", lambda w: {**w, "name": "Stair", "area": 55.0, "azimuth": 12.0}), (0, 0, 0, 3)),
    ("renamed, half wrong",
     edited("windows.5", lambda w: {**w, "name": "Stair", "area": 55.0, "azimuth": 12.0, "wall": "X", "u_factor": 0.9}),
     (0, 0, 0, 5)),
    ("renamed, most wrong, lists equally long",
     edited("windows.5", lambda w: {**w, **FIVE_OTHERS, "name": "Stair"}), (0, 0, 0, 6)),
    ("renamed, most wrong, an item too many",
     all_of(edited("windows.5", lambda w: {**w, **FIVE_OTHERS, "name": "Stair"}), added("windows", GHOST)), (9, 10, 0, 0)),
    ("one status alone in common is no pair",
     all_of(put("windows.5", {"name": "Stair", "status": "New"}), added("windows", GHOST)), (9, 3, 0, 0)),
    # values of windows
    ("multiplier as a float", put("windows.1.multiplier", 2.0), (0, 0, 0, 0)),
    ("multiplier not whole", put("windows.1.multiplier", 2.4), (0, 0, 0, 1)),
    ("multiplier as text", put("windows.1.multiplier", "2"), (0, 0, 1, 0)),
    ("azimuth a turn on", put("windows.2.azimuth", 585.0), (0, 0, 0, 0)),
    ("all azimuths turned", each("windows", "azimuth", lambda a: (a + 90) % 360), (0, 0, 0, 6)),
    ("all areas in square metres", each("windows", "area", lambda a: round(a * 0.0929, 2)), (0, 0, 0, 6)),
    ("shade shortened", put("windows.0.exterior_shade", "Insect Screen"), (0, 0, 0, 1)),
    ("a field of a window nobody asked for", put("windows.0.colour", "white"), (0, 1, 0, 0)),
    ("u-factor as text", put("windows.0.u_factor", "0.31"), (0, 0, 1, 0)),
    ("u-factor missing", gone("windows.0.u_factor"), (1, 0, 0, 0)),
    ("wall of a window", put("windows.0.wall", "Back Wall"), (0, 0, 0, 1)),
    ("two windows merged",
     all_of(gone("windows.4"), put("windows.3.area", 16.0), put("windows.3.name", "G02 (4040)")), (9, 0, 0, 2)),
    ("a window split",
     edited("windows", lambda w: [*w[:2], {**w[2], "area": 20.0}, {**w[2], "name": "6068 b", "area": 20.0}, *w[3:]]),
     (0, 9, 0, 1)),
    # walls and zones
    ("wall named in part", put("walls.0.name", "Front"), (0, 0, 0, 1)),
    ("wall renamed", put("walls.0.name", "North Elevation"), (0, 0, 0, 1)),
    ("walls turned", each("walls", "orientation", lambda a: (a + 90) % 360), (0, 0, 0, 4)),
    ("tilt a turn on", put("walls.0.tilt", 450.0), (0, 0, 0, 0)),
    ("framing at the bound", put("walls.0.framing_factor", 0.26), (0, 0, 0, 0)),
    ("framing beyond", put("walls.0.framing_factor", 0.27), (0, 0, 0, 1)),
    ("wall areas as text", each("walls", "area", lambda a: f"{a:g} sq ft"), (0, 0, 4, 0)),
    ("zone with more words", put("zones.0.name", "Ground Floor"), (0, 0, 0, 1)),
    ("zone stories not whole", put("zones.0.stories", 1.2), (0, 0, 0, 1)),
    ("volume within", put("zones.0.volume", 11570.0), (0, 0, 0, 0)),
    ("volume beyond", put("zones.0.volume", 11600.0), (0, 0, 0, 1)),
    # constructions and their layers
    ("layers reversed", edited("wall_constructions.0.layers", lambda x: x[::-1]), (0, 0, 0, 0)),
    ("a layer missing", gone("wall_constructions.0.layers.1"), (1, 0, 0, 0)),
    ("a layer too many", added("wall_constructions.0.layers", "Vapor Retarder"), (0, 1, 0, 0)),
    ("a blank layer", added("wall_constructions.0.layers", " "), (0, 0, 0, 0)),
    ("a layer misread", put("wall_constructions.0.layers.0", "Inside Finish: Plaster Board"), (0, 0, 0, 1)),
    ("a layer that is a number", put("wall_constructions.0.layers.0", 7), (0, 0, 1, 0)),
    ("no layers", put("wall_constructions.0.layers", None), (3, 0, 0, 0)),
    ("layers a text", put("wall_constructions.0.layers", "gypsum, R-21, siding"), (0, 0, 3, 0)),
    ("a construction's name cut", put("wall_constructions.0.name", "R-21 W."), (0, 0, 0, 1)),
    ("a construction missing", gone("wall_constructions.1"), (8, 0, 0, 0)),
    # R 21/19 and thickness differ, U .069/.074 does not; a cavity layer is misread, a finish is another one
    ("constructions' names exchanged",
     exchanged("wall_constructions.0.name", "wall_constructions.1.name"), (2, 2, 0, 6)),
    # further sections
    ("skylights missing", gone("skylights"), (16, 0, 0, 0)),
    ("skylight without multiplier", gone("skylights.0.multiplier"), (1, 0, 0, 0)),
    ("skylight in another ceiling", put("skylights.0.roof", "Bed Lid"), (0, 0, 0, 1)),
    ("skylight named in part", put("skylights.0.name", "East"), (0, 0, 0, 1)),
    ("skylights both cut to one name",
     all_of(put("skylights.0.name", "Sky"), put("skylights.1.name", "Sky")), (0, 0, 0, 2)),
    ("attic area within", put("attics.0.area", 1286.0), (0, 0, 0, 0)),
    ("attic area beyond", put("attics.0.area", 1290.0), (0, 0, 0, 1)),
    ("radiant barrier no", put("attics.0.radiant_barrier", False), (0, 0, 0, 1)),
    ("radiant barrier 'Yes'", put("attics.0.radiant_barrier", "Yes"), (0, 0, 1, 0)),
    ("roof framing missing", gone("attics.0.roof_framing_factor"), (1, 0, 0, 0)),
    ("a pitch is no angle", put("attics.0.roof_pitch", 360.417), (0, 0, 0, 1)),
    ("a roof tilt is one", put("attics.0.roof_tilt", 382.62), (0, 0, 0, 0)),
    ("attic named in part", put("attics.0.name", "Attic"), (0, 0, 0, 1)),
    ("attic missing", gone("attics.0"), (11, 0, 0, 0)),
    ("ceilings below the attic named in part",
     all_of(put("ceilings_below_attic.0.name", "Hall"), put("ceilings_below_attic.1.name", "Bed")), (0, 0, 0, 2)),
    ("ceilings below the attic renamed",
     all_of(put("ceilings_below_attic.0.name", "L1"), put("ceilings_below_attic.1.name", "L2")), (0, 0, 0, 2)),
    ("ceiling framing beyond", put("ceilings_below_attic.0.framing_factor", 0.09), (0, 0, 0, 1)),
    ("the only floor renamed and mostly wrong",
     edited("floors_over_crawlspace.0", lambda f: {**f, "name": "F1", "zone": "X", "area": 1.0, "status": "Old"}),
     (0, 0, 0, 4)),
    ("crawl space another type", put("crawlspaces.0.crawlspace_type", "Unvented"), (0, 0, 0, 1)),
    ("crawl space height within", put("crawlspaces.0.average_height", 2.51), (0, 0, 0, 0)),
    ("crawl space height beyond", put("crawlspaces.0.average_height", 2.52), (0, 0, 0, 1)),
    ("crawl space area as text", put("crawlspaces.0.floor_area", "420"), (0, 0, 1, 0)),
    ("a status the crawl space's row lacks", put("crawlspaces.0.status", "New"), (0, 1, 0, 0)),
    ("floor construction missing", gone("exterior_floor_constructions"), (7, 0, 0, 0)),
    # slabs
    ("slabs renamed", all_of(put("slab_floors.0.name", "S1"), put("slab_floors.1.name", "S2")), (0, 0, 0, 2)),
    ("a slab's name cut", put("slab_floors.0.name", "Slab"), (0, 0, 0, 1)),
    ("heated 'No'", put("slab_floors.0.heated", "No"), (0, 0, 1, 0)),
    ("carpet at the bound", put("slab_floors.0.carpeted_fraction", 0.21), (0, 0, 0, 0)),
    ("edge R within", put("slab_floors.1.edge_insulation_r_value", 5.02), (0, 0, 0, 0)),
    ("slabs merged", all_of(gone("slab_floors.1"), put("slab_floors.0.area", 860.0)), (8, 0, 0, 1)),
    # water heating
    ("water system renamed", put("water_heating_systems.0.name", "Boiler"), (0, 0, 0, 1)),
    ("heater renamed", put("water_heating_systems.0.water_heaters.0.name", "WH-1"), (0, 0, 0, 1)),
    ("heater missing", put("water_heating_systems.0.water_heaters", []), (11, 0, 0, 0)),
    ("heaters null", put("water_heating_systems.0.water_heaters", None), (11, 0, 0, 0)),
    ("heater volume within", put("water_heating_systems.0.water_heaters.0.volume", 50.25), (0, 0, 0, 0)),
    ("heater volume beyond", put("water_heating_systems.0.water_heaters.0.volume", 50.3), (0, 0, 0, 1)),
    ("units of the rating", put("water_heating_systems.0.water_heaters.0.input_rating_units", "Btu/h"), (0, 0, 0, 1)),
    ("a loss marked NA", put("water_heating_systems.0.water_heaters.0.standby_loss", 5.0), (0, 1, 0, 0)),
    ("make and model are not scored", put("water_heating_systems.0.water_heaters.0.make_and_model", "Acme"), (0, 0, 0, 0)),
    ("water heating missing", gone("water_heating_systems"), (14, 0, 0, 0)),
    # HVAC
    ("hvac renamed", put("hvac_systems.0.name", "HVAC-1"), (0, 0, 0, 1)),
    ("heating missing", gone("hvac_systems.0.heating"), (5, 0, 0, 0)),
    ("heating a list", put("hvac_systems.0.heating", ["9.2 HSPF"]), (0, 0, 5, 0)),
    ("an auxiliary capacity marked -99996", put("hvac_systems.0.heating.auxiliary_heating_capacity", 5000), (0, 1, 0, 0)),
    ("cooling ducted 'yes'", put("hvac_systems.0.cooling.ducted", "yes"), (0, 0, 1, 0)),
    ("seer within", put("hvac_systems.0.cooling.seer2", 16.55), (0, 0, 0, 0)),
    ("seer beyond", put("hvac_systems.0.cooling.seer2", 16.6), (0, 0, 0, 1)),
    ("hspf and seer exchanged",
     exchanged("hvac_systems.0.heating.hspf", "hvac_systems.0.cooling.seer2"), (0, 0, 0, 2)),
    ("distribution null", put("hvac_systems.0.distribution", None), (5, 0, 0, 0)),
    ("a duct area the row lacks", put("hvac_systems.0.distribution.supply_area", 100.0), (0, 1, 0, 0)),
    ("hvac renamed, heating missing",
     all_of(put("hvac_systems.0.name", "AC"), gone("hvac_systems.0.heating")), (5, 0, 0, 1)),
    ("a hollow hvac of another name",
     put("hvac_systems.0", {"name": "AC", "system_type": "Heat Pump"}), (17, 0, 0, 1)),
    # the whole record
    ("perfect", all_of(), (0, 0, 0, 0)),
]  # fmt: skip


def judged(record):
    return compare_records(TRUTH.record, record, MAPPING, TRUTH)


def test_there_are_at_least_150_cases():
    assert len(CASES) >= 150
    assert len({name for name, _, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("change", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_one_change(change, expected):
    record = copy.deepcopy(PERFECT)
    change(record)
    comparison = judged(record)
    counts = comparison.counts
    assert tuple(counts.errors_by_type().values()) == expected
    omission, hallucination, mistyped, wrong = expected
    # The sums again, from the verdict alone.
    assert counts.matches == FIELDS - omission - mistyped - wrong
    assert (counts.false_positives, counts.false_negatives) == (
        hallucination + mistyped + wrong,
        omission + mistyped + wrong,
    )
    assert counts.f1 == pytest.approx(2 * counts.matches / (2 * counts.matches + sum(counts.triple[1:])))
    assert len(comparison.discrepancies) == len(comparison.locations) == sum(expected)
    assert sum(card.matches for card in comparison.items) == counts.matches
    assert sorted(i for card in comparison.items for i in card.errors) == list(range(sum(expected)))
    for part in (comparison.by_section, comparison.by_field):
        assert sum(one.matches for one in part.values()) == counts.matches
        assert sum(sum(one.errors_by_type().values()) for one in part.values()) == sum(expected)


def test_a_perfect_record_is_1_and_an_empty_one_0():
    assert judged(PERFECT).counts.f1 == 1.0
    empty = judged({}).counts
    assert (empty.f1, empty.errors["omission"]) == (0.0, FIELDS)


def test_both_dialects_read_the_same():
    other = parse_truth(resaved(RAW).encode("latin-1"), MAPPING)
    assert (other.content_hash, other.record) == (TRUTH.content_hash, TRUTH.record)
    assert TRUTH.warnings == other.warnings == ()
