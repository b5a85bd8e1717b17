"""Sixteen invented buildings. No address, town or owner here exists."""

# ruff: noqa: E501
from __future__ import annotations

from scripts.buildingspec.assemble import Building
from scripts.buildingspec.parts import (
    ATTIC_ROOF,
    R15_WALL,
    R21_WALL,
    R23_WALL,
    R30_FLOOR,
    R30_ROOF,
    R38_ROOF,
    R49_LID,
    ducts,
    gas_tank,
    heat_pump,
    hot_water,
    tank,
)

ELECTRIC, GAS = "All Electric", "Natural Gas"
SINGLE, DUPLEX = "Single Family", "Multi Family"

HERON_COTTAGE = Building(
    "heron-cottage", "test", "raw", "narrative", "Heron Cottage", "14 Paper Lantern Lane", "Quillhaven", 7, ELECTRIC,
    SINGLE, 1, 1, 2, False, 350.0,
    zones=(("Living", 512.0, 9.0, 1), ("Sleeping", 448.0, 8.5, 1)),
    wall_types=(R21_WALL,),
    walls=(
        ("Front Wall", "Living", "R-21 Wall", 0, 270.0, 20.0), ("Left Wall", "Living", "R-21 Wall", 90, 252.0, 0.0),
        ("Back Wall", "Sleeping", "R-21 Wall", 180, 255.0, 20.0),
        ("Right Wall", "Sleeping", "R-21 Wall", 270, 238.0, 0.0),
    ),
    windows=(
        ("101", "Front Wall", 1, 24.0, 0.29, 0.23), ("007", "Front Wall", 1, 16.0, 0.29, 0.23),
        ("No", "Left Wall", 1, 30.0, 0.29, 0.25), ("G02 (4080) 2", "Back Wall", 1, 32.0, 0.3, 0.23),
        ("G02 (4080) 3", "Back Wall", 1, 4.0, 0.3, 0.23), ("W-9", "Right Wall", 1, 12.0, 0.28, 0.23),
    ),
    roof_types=(R38_ROOF,),
    roofs=(
        ("Roof North", "Living", "R-38 Roof", 0, 520.0, 2.0), ("Roof South", "Sleeping", "R-38 Roof", 180, 455.0, 2.0),
    ),
    slabs=(
        ("Slab A", "Living", 512.0, 72.0, 0.0, 0.2, False), ("Slab B", "Sleeping", 448.0, 54.0, 0.0, 0.8, False),
    ),
    hot_water=(hot_water("DHW Sys 1", tank("DHW Heater 1", 50.0, "garage")),),
    hvac=(
        heat_pump(
            "Heat Pump1", "SplitHeatPump", 8.9, 24000.0, 15600.0, 16.0, 12.0,
            ducts("Air Distribution System 1", "DuctsAttic", 5.0, 8.0),
        ),
    ),
    remarks=("The owners asked us to keep the old persimmon tree, which shades part of the left side in summer.",),
)  # fmt: skip

BRASS_KETTLE = Building(
    "brass-kettle-studio", "test", "resaved", "schedules", "Brass Kettle Studio", "3 Unwritten Court", "Tamber Flats",
    12, ELECTRIC, SINGLE, 1, 1, 1, False, 45.0,
    zones=(("Studio", 396.0, 10.0, 1),),
    wall_types=(R21_WALL,),
    walls=(
        ("Street Side", "Studio", "R-21 Wall", 0, 180.0, 21.0), ("Garden Side", "Studio", "R-21 Wall", 180, 180.0, 0.0),
        ("East End", "Studio", "R-21 Wall", 90, 220.0, 0.0), ("West End", "Studio", "R-21 Wall", 270, 220.0, 0.0),
    ),
    windows=(
        ("A1", "Street Side", 1, 15.0, 0.3, 0.22), ("A2", "Street Side", 1, 15.0, 0.3, 0.22),
        ("6068", "Garden Side", 1, 40.8, 0.27, 0.21),
    ),
    roof_types=(R38_ROOF,),
    roofs=(("Shed Roof", "Studio", "R-38 Roof", 180, 410.0, 1.5),),
    skylights=(("Sky 1", "Shed Roof", 180, 8.0, 0.45, 0.25),),
    slabs=(("Slab", "Studio", 396.0, 80.0, 5.0, 0.0, True),),
    hot_water=(hot_water("DHW", tank("Wall Closet Tank", 40.0, "closet")),),
    hvac=(heat_pump("Mini Split", "DuctlessMiniSplit", 10.2, 12000.0, 9100.0, 20.5, 12.5, None),),
    remarks=("The loft shown on sheet A2 is storage only and is not counted as floor area.",),
)  # fmt: skip

TWO_GABLES = Building(
    "two-gables", "test", "raw", "form", "Two Gables Residence", "221 Hollow Drum Road", "Port Ferren", 3, GAS,
    SINGLE, 1, 2, 4, True, 90.0,
    zones=(("First Floor", 1080.0, 9.0, 1), ("Second Floor", 960.0, 8.0, 1)),
    wall_types=(R15_WALL, R21_WALL),
    walls=(
        ("1F East", "First Floor", "R-21 Wall", 0, 324.0, 24.0),
        ("1F South", "First Floor", "R-21 Wall", 90, 270.0, 0.0),
        ("1F West", "First Floor", "R-21 Wall", 180, 324.0, 0.0),
        ("2F East", "Second Floor", "R-15 Stucco Wall", 0, 280.0, 0.0),
        ("2F South", "Second Floor", "R-15 Stucco Wall", 90, 216.0, 0.0),
        ("2F West", "Second Floor", "R-15 Stucco Wall", 180, 280.0, 0.0),
        ("2F North", "Second Floor", "R-15 Stucco Wall", 270, 216.0, 0.0),
    ),
    windows=(
        ("E1", "1F East", 2, 30.0, 0.3, 0.28), ("S1", "1F South", 1, 24.0, 0.3, 0.28),
        ("S2", "1F South", 1, 24.0, 0.3, 0.28), ("W1 slider", "1F West", 1, 53.3, 0.31, 0.3),
        ("E2", "2F East", 2, 24.0, 0.3, 0.28), ("S3", "2F South", 1, 12.0, 0.3, 0.28),
        ("W2", "2F West", 2, 24.0, 0.3, 0.28), ("N1", "2F North", 1, 6.0, 0.32, 0.35),
    ),
    attic=("Attic over second floor", "Vented Attic Roof", 960.0, 5.0), attic_types=(ATTIC_ROOF,),
    lids=(("Upper Ceiling", "Second Floor", "R-49 Attic Floor", 960.0),), lid_types=(R49_LID,),
    floors=(("Raised Floor", "First Floor", "R-30 Raised Floor", 1080.0),), floor_types=(R30_FLOOR,),
    crawl=("Crawl Space", 1080.0, 134.0, 2160.0),
    hot_water=(hot_water("Main DHW", gas_tank("Garage Tank", 50.0, 0.68, 40000.0, "garage")),),
    hvac=(
        heat_pump(
            "Downstairs HP", "SplitHeatPump", 9.2, 30000.0, 19200.0, 15.2, 11.7,
            ducts("Crawl Ducts", "DuctsCrawl", 7.0, 8.0, (210.0, 8.0, 48.0, 14.0)),
        ),
        heat_pump(
            "Upstairs HP", "SplitHeatPump", 9.0, 24000.0, 15000.0, 15.2, 11.7,
            ducts("Attic Ducts", "DuctsAttic", 5.0, 8.0),
        ),
    ),
    remarks=("A gas range and a gas log fireplace are shown on the plans; neither is part of this calculation.",),
)  # fmt: skip

LANTERN_ROW = Building(
    "lantern-row-duplex", "test", "resaved", "form", "Lantern Row Duplex", "58 and 60 Lantern Row", "Mistle Crossing",
    10, ELECTRIC, DUPLEX, 2, 1, 4, False, 180.0,
    zones=(("Unit A", 824.0, 8.0, 1), ("Unit B", 824.0, 8.0, 1)),
    wall_types=(R23_WALL,),
    walls=(
        ("A South", "Unit A", "R-23 + R-4 Wall", 0, 208.0, 20.0), ("A West", "Unit A", "R-23 + R-4 Wall", 90, 256.0, 0.0),
        ("A North", "Unit A", "R-23 + R-4 Wall", 180, 208.0, 20.0),
        ("B South", "Unit B", "R-23 + R-4 Wall", 0, 208.0, 20.0), ("B East", "Unit B", "R-23 + R-4 Wall", 270, 256.0, 0.0),
        ("B North", "Unit B", "R-23 + R-4 Wall", 180, 208.0, 20.0),
    ),
    windows=(
        ("A-1", "A South", 1, 28.0, 0.28, 0.22), ("A-2", "A West", 2, 30.0, 0.28, 0.22),
        ("A-3", "A North", 1, 20.0, 0.28, 0.22), ("B-1", "B South", 1, 28.0, 0.28, 0.22),
        ("B-2", "B East", 2, 30.0, 0.28, 0.22), ("B-3", "B North", 1, 20.0, 0.28, 0.22),
    ),
    attic=("Common Attic", "Vented Attic Roof", 1648.0, 4.0), attic_types=(ATTIC_ROOF,),
    lids=(("Lid A", "Unit A", "R-49 Attic Floor", 824.0), ("Lid B", "Unit B", "R-49 Attic Floor", 824.0)),
    lid_types=(R49_LID,),
    slabs=(("Slab A", "Unit A", 824.0, 84.0, 0.0, 0.5, False), ("Slab B", "Unit B", 824.0, 84.0, 0.0, 0.5, False)),
    hot_water=(
        hot_water("DHW A", tank("Heater A", 50.0, "exterior closet")),
        hot_water("DHW B", tank("Heater B", 50.0, "exterior closet")),
    ),
    hvac=(
        heat_pump(
            "HP A", "SplitHeatPump", 8.8, 18000.0, 11800.0, 15.2, 11.7, ducts("Ducts A", "DuctsAttic", 5.0, 8.0),
        ),
        heat_pump(
            "HP B", "SplitHeatPump", 8.8, 18000.0, 11800.0, 15.2, 11.7, ducts("Ducts B", "DuctsAttic", 5.0, 8.0),
        ),
    ),
    remarks=("The party wall between the two units faces conditioned space on both sides and is not an exterior wall.",),
)  # fmt: skip

OTTER_BARN = Building(
    "otter-barn", "test", "raw", "schedules", "Otter Creek Barn Conversion", "900 Otter Creek Track", "Lower Vane", 16,
    ELECTRIC, SINGLE, 1, 1, 3, False, 0.0,
    zones=(("Great Room", 940.0, 12.0, 1), ("Bedrooms", 620.0, 9.0, 1)),
    wall_types=(R23_WALL,),
    walls=(
        ("North Face", "Great Room", "R-23 + R-4 Wall", 0, 480.0, 42.0),
        ("East Face", "Great Room", "R-23 + R-4 Wall", 90, 384.0, 0.0),
        ("South Face", "Bedrooms", "R-23 + R-4 Wall", 180, 342.0, 20.0),
        ("West Face", "Bedrooms", "R-23 + R-4 Wall", 270, 288.0, 0.0),
    ),
    windows=(
        ("Barn Door Glass", "North Face", 1, 96.0, 0.26, 0.3), ("E High 1", "East Face", 1, 18.0, 0.26, 0.3),
        ("E High 2", "East Face", 1, 18.0, 0.26, 0.3), ("S Bed 1", "South Face", 1, 22.5, 0.27, 0.32),
        ("S Bed 2", "South Face", 1, 22.5, 0.27, 0.32), ("W Bath", "West Face", 1, 6.25, 0.27, 0.2),
    ),
    roof_types=(R30_ROOF,),
    roofs=(
        ("East Slope", "Great Room", "R-30 Metal Roof", 90, 1090.0, 8.0),
        ("West Slope", "Bedrooms", "R-30 Metal Roof", 270, 720.0, 8.0),
    ),
    slabs=(
        ("Polished Slab", "Great Room", 940.0, 118.0, 10.0, 0.0, True),
        ("Bedroom Slab", "Bedrooms", 620.0, 82.0, 10.0, 0.6, True),
    ),
    hot_water=(hot_water("Barn DHW", tank("Tack Room Tank", 80.0, "tack room")),),
    hvac=(
        heat_pump("Great Room Split", "DuctlessMiniSplit", 11.0, 36000.0, 29500.0, 18.4, 11.0, None),
        heat_pump("Bedroom Split", "DuctlessMiniSplit", 11.5, 18000.0, 15200.0, 19.6, 11.8, None),
    ),
    remarks=("Existing trusses stay exposed below the new insulated roof deck.",),
)  # fmt: skip

SALT_TERRACE = Building(
    "salt-terrace", "test", "resaved", "narrative", "Salt Terrace Lot 9", "9 Salt Terrace", "Vallée Ombrine", 6,
    ELECTRIC, SINGLE, 1, 1, 3, True, 225.0,
    zones=(("Whole House", 1496.0, 9.0, 1),),
    wall_types=(R21_WALL,),
    walls=(
        ("Front", "Whole House", "R-21 Wall", 0, 342.0, 24.0), ("Left", "Whole House", "R-21 Wall", 90, 396.0, 0.0),
        ("Rear", "Whole House", "R-21 Wall", 180, 342.0, 0.0), ("Right", "Whole House", "R-21 Wall", 270, 396.0, 18.0),
    ),
    windows=(
        ("F-1", "Front", 1, 20.0, 0.3, 0.23), ("F-2", "Front", 1, 20.0, 0.3, 0.23), ("L-1", "Left", 1, 15.0, 0.3, 0.23),
        ("L-2", "Left", 1, 15.0, 0.3, 0.23), ("Patio (8068)", "Rear", 1, 54.4, 0.29, 0.22),
        ("R-1", "Right", 1, 8.0, 0.32, 0.3),
    ),
    attic=("Main Attic", "Vented Attic Roof", 1496.0, 4.0), attic_types=(ATTIC_ROOF,),
    lids=(("Ceiling", "Whole House", "R-49 Attic Floor", 1496.0),), lid_types=(R49_LID,),
    slabs=(("Slab on Grade", "Whole House", 1496.0, 156.0, 0.0, 0.35, False),),
    hot_water=(hot_water("DHW System", tank("HPWH", 65.0, "garage")),),
    hvac=(
        heat_pump(
            "Central HP", "SplitHeatPump", 8.2, 36000.0, 22400.0, 14.3, 11.7,
            ducts("Supply and Return", "DuctsAttic", 5.0, 8.0, (404.0, 9.0, 75.0, 16.0)),
        ),
    ),
    remarks=("Lot 8, next door, uses the mirrored plan and has its own report.",),
)  # fmt: skip

QUINCE_LOFT = Building(
    "quince-loft", "test", "raw", "schedules", "Quince Loft", "18 Quince Mews", "Dunmarrow", 4, ELECTRIC, SINGLE, 1, 1, 2,
    False, 120.0,
    zones=(("Loft", 742.0, 10.5, 1),),
    wall_types=(R15_WALL,),
    walls=(
        ("Mews Side", "Loft", "R-15 Stucco Wall", 0, 273.0, 21.0), ("Court Side", "Loft", "R-15 Stucco Wall", 180, 273.0, 0.0),
        ("Stair End", "Loft", "R-15 Stucco Wall", 270, 252.0, 0.0),
    ),
    windows=(
        ("M-101", "Mews Side", 1, 31.5, 0.29, 0.24), ("M-102", "Mews Side", 1, 31.5, 0.29, 0.24),
        ("C-7", "Court Side", 3, 45.0, 0.27, 0.2), ("0", "Stair End", 1, 7.5, 0.33, 0.31),
    ),
    roof_types=(R38_ROOF,),
    roofs=(("Saw Tooth Roof", "Loft", "R-38 Roof", 180, 815.0, 5.0),),
    skylights=(("North Light 1", "Saw Tooth Roof", 0, 14.0, 0.42, 0.27), ("North Light 2", "Saw Tooth Roof", 0, 14.0, 0.42, 0.27)),
    slabs=(("Ground Slab", "Loft", 742.0, 81.0, 0.0, 0.15, False),),
    hot_water=(hot_water("Loft DHW", tank("Under Stair Tank", 50.0, "stair closet")),),
    hvac=(heat_pump("Loft Split", "DuctlessMiniSplit", 10.8, 18000.0, 13400.0, 19.2, 12.2, None),),
    remarks=("The freight hoist on the court side is kept as an ornament and is sealed behind the new wall.",),
)  # fmt: skip

BRAMBLE_RIDGE = Building(
    "bramble-ridge", "test", "resaved", "narrative", "Bramble Ridge Plan 5", "1605 Bramble Ridge Way", "Castle Noon", 15,
    ELECTRIC, SINGLE, 1, 1, 4, True, 335.0,
    zones=(("Conditioned Space", 1876.0, 9.0, 1),),
    wall_types=(R21_WALL,),
    walls=(
        ("Wall A", "Conditioned Space", "R-21 Wall", 0, 405.0, 24.0), ("Wall B", "Conditioned Space", "R-21 Wall", 90, 432.0, 0.0),
        ("Wall C", "Conditioned Space", "R-21 Wall", 180, 405.0, 0.0), ("Wall D", "Conditioned Space", "R-21 Wall", 270, 432.0, 17.8),
    ),
    windows=(
        ("A/1", "Wall A", 1, 27.5, 0.3, 0.23), ("B/1", "Wall B", 1, 18.0, 0.3, 0.23), ("B/2", "Wall B", 1, 18.0, 0.3, 0.23),
        ("C/1", "Wall C", 1, 66.7, 0.28, 0.2), ("D/1", "Wall D", 1, 9.0, 0.31, 0.26),
    ),
    attic=("Truss Attic", "Vented Attic Roof", 1876.0, 5.0), attic_types=(ATTIC_ROOF,),
    lids=(("Drywall Lid", "Conditioned Space", "R-49 Attic Floor", 1876.0),), lid_types=(R49_LID,),
    slabs=(("Mono Slab", "Conditioned Space", 1876.0, 186.0, 0.0, 0.7, False),),
    hot_water=(hot_water("DHW Loop", tank("HPWH 80", 80.0, "garage")),),
    hvac=(
        heat_pump(
            "HP 4 ton", "SplitHeatPump", 8.4, 45000.0, 27800.0, 15.4, 11.9,
            ducts("Attic Flex", "DuctsAttic", 5.0, 8.0, (506.5, 8.0, 93.8, 18.0)),
        ),
    ),
    remarks=("Plan 4 on the facing lot has a casita; this plan has none.",),
)  # fmt: skip

MILL_RACE = Building(
    "mill-race-house", "test", "raw", "form", "Mill Race House", "2 Weir Walk", "Soke Ferry", 2, GAS, SINGLE, 1, 1, 2,
    False, 15.0,
    zones=(("Upper Wing", 638.0, 8.5, 1), ("River Wing", 506.0, 9.5, 1)),
    wall_types=(R23_WALL,),
    walls=(
        ("Weir Wall", "River Wing", "R-23 + R-4 Wall", 0, 266.0, 0.0), ("Lane Wall", "Upper Wing", "R-23 + R-4 Wall", 180, 246.5, 20.0),
        ("Mill Wall", "Upper Wing", "R-23 + R-4 Wall", 90, 187.0, 0.0),
    ),
    windows=(
        ("Weir Bay", "Weir Wall", 1, 58.0, 0.25, 0.33), ("Lane 1", "Lane Wall", 1, 14.5, 0.27, 0.3),
        ("Mill 1", "Mill Wall", 1, 14.5, 0.27, 0.3),
    ),
    roof_types=(R30_ROOF,),
    roofs=(
        ("Upper Roof", "Upper Wing", "R-30 Metal Roof", 90, 702.0, 6.0), ("River Roof", "River Wing", "R-30 Metal Roof", 0, 540.0, 4.0),
    ),
    floors=(
        ("Upper Deck Floor", "Upper Wing", "R-30 Raised Floor", 638.0), ("River Floor", "River Wing", "R-30 Raised Floor", 506.0),
    ),
    floor_types=(R30_FLOOR,),
    crawl=("Tail Race Crawl", 1144.0, 148.0, 2860.0),
    hot_water=(hot_water("Mill DHW", gas_tank("Cellar Tank", 40.0, 0.66, 36000.0, "cellar")),),
    hvac=(
        heat_pump(
            "Mill HP", "SplitHeatPump", 9.1, 30000.0, 20100.0, 15.8, 11.4, ducts("Underfloor Runs", "DuctsCrawl", 6.0, 8.0),
        ),
    ),
    remarks=("The old water wheel turns freely and drives nothing.",),
)  # fmt: skip

SPARROW_POINT = Building(
    "sparrow-point", "test", "resaved", "form", "Sparrow Point Studio", "640 Sparrow Point Drive", "Bahía Ceniza", 8, ELECTRIC,
    SINGLE, 1, 1, 1, True, 290.0,
    zones=(("Studio Suite", 505.0, 9.0, 1),),
    wall_types=(R21_WALL,),
    walls=(
        ("Point Wall", "Studio Suite", "R-21 Wall", 0, 198.0, 20.0), ("Bay Wall", "Studio Suite", "R-21 Wall", 90, 216.0, 0.0),
        ("Dune Wall", "Studio Suite", "R-21 Wall", 180, 198.0, 0.0),
    ),
    windows=(("P-1", "Point Wall", 1, 16.0, 0.3, 0.22), ("Yes", "Bay Wall", 1, 40.0, 0.28, 0.21), ("D-1", "Dune Wall", 1, 12.0, 0.3, 0.22)),
    attic=("Low Attic", "Vented Attic Roof", 505.0, 3.0), attic_types=(ATTIC_ROOF,),
    lids=(("Suite Ceiling", "Studio Suite", "R-49 Attic Floor", 505.0),), lid_types=(R49_LID,),
    slabs=(("Suite Slab", "Studio Suite", 505.0, 68.0, 0.0, 0.3, False),),
    hot_water=(hot_water("Suite DHW", tank("Closet HPWH", 40.0, "hall closet")),),
    hvac=(heat_pump("Suite Split", "DuctlessMiniSplit", 9.9, 12000.0, 8900.0, 20.2, 12.6, None),),
    remarks=("A kitchenette is drawn in dashed lines for a later permit.",),
)  # fmt: skip

FIG_LANE = Building(
    "fig-lane-flat", "dev", "raw", "schedules", "Fig Lane Garden Flat", "7B Fig Lane", "Orrin Vale", 9, ELECTRIC,
    SINGLE, 1, 1, 1, False, 270.0,
    zones=(("Flat", 480.0, 8.5, 1),),
    wall_types=(R15_WALL,),
    walls=(
        ("Lane Wall", "Flat", "R-15 Stucco Wall", 0, 204.0, 20.0), ("Yard Wall", "Flat", "R-15 Stucco Wall", 180, 204.0, 0.0),
        ("Short Wall", "Flat", "R-15 Stucco Wall", 90, 170.0, 0.0),
    ),
    windows=(("K1", "Lane Wall", 1, 12.0, 0.3, 0.23), ("Y1", "Yard Wall", 1, 33.4, 0.28, 0.22)),
    roof_types=(R38_ROOF,),
    roofs=(("Low Roof", "Flat", "R-38 Roof", 0, 490.0, 1.0),),
    slabs=(("Flat Slab", "Flat", 480.0, 68.0, 0.0, 0.4, False),),
    hot_water=(hot_water("DHW", tank("Tank", 40.0, "closet")),),
    hvac=(heat_pump("Wall Unit", "DuctlessMiniSplit", 9.6, 9000.0, 6900.0, 19.0, 11.9, None),),
    remarks=("The fourth side abuts the main house and is adiabatic.",),
)  # fmt: skip

COPPER_HILL = Building(
    "copper-hill", "dev", "resaved", "narrative", "Copper Hill House", "41 Copper Hill Spur", "Anselm", 11, GAS,
    SINGLE, 1, 1, 3, True, 135.0,
    zones=(("Day Wing", 910.0, 9.0, 1), ("Night Wing", 702.0, 9.0, 1)),
    wall_types=(R21_WALL,),
    walls=(
        ("Entry Wall", "Day Wing", "R-21 Wall", 0, 315.0, 24.0), ("View Wall", "Day Wing", "R-21 Wall", 180, 315.0, 0.0),
        ("Hill Wall", "Night Wing", "R-21 Wall", 90, 243.0, 0.0), ("Quiet Wall", "Night Wing", "R-21 Wall", 180, 234.0, 0.0),
    ),
    windows=(
        ("V1", "View Wall", 1, 64.0, 0.28, 0.21), ("V2", "View Wall", 1, 48.0, 0.28, 0.21),
        ("Q1", "Quiet Wall", 2, 30.0, 0.29, 0.23), ("H1", "Hill Wall", 1, 9.0, 0.29, 0.23),
    ),
    roof_types=(R38_ROOF,),
    roofs=(
        ("Day Roof", "Day Wing", "R-38 Roof", 180, 940.0, 3.0), ("Night Roof", "Night Wing", "R-38 Roof", 180, 725.0, 3.0),
    ),
    slabs=(
        ("Day Slab", "Day Wing", 910.0, 92.0, 0.0, 0.1, False), ("Night Slab", "Night Wing", 702.0, 78.0, 0.0, 0.9, False),
    ),
    hot_water=(hot_water("House DHW", gas_tank("Utility Tank", 40.0, 0.64, 38000.0, "utility room")),),
    hvac=(
        heat_pump(
            "House HP", "SplitHeatPump", 8.5, 42000.0, 26200.0, 15.0, 11.2,
            ducts("House Ducts", "DuctsCond", 5.0, 6.0),
        ),
    ),
    remarks=("The first submittal listed R-19 walls; that page is void.",),
)  # fmt: skip

THISTLE_ADU = Building(
    "thistle-adu", "train", "raw", "form", "Thistle ADU", "312 1/2 Thistle Street", "Gannet Bay", 5, ELECTRIC, SINGLE,
    1, 1, 1, False, 10.0,
    zones=(("ADU", 420.0, 9.0, 1),),
    wall_types=(R21_WALL,),
    walls=(("N", "ADU", "R-21 Wall", 0, 189.0, 20.0), ("S", "ADU", "R-21 Wall", 180, 189.0, 0.0)),
    windows=(("1", "N", 1, 10.0, 0.3, 0.25), ("2", "S", 1, 26.7, 0.3, 0.25)),
    roof_types=(R38_ROOF,),
    roofs=(("Roof", "ADU", "R-38 Roof", 180, 430.0, 2.0),),
    slabs=(("Slab", "ADU", 420.0, 82.0, 0.0, 0.25, False),),
    hot_water=(hot_water("DHW-1", tank("WH-1", 40.0, "exterior closet")),),
    hvac=(heat_pump("HP-1", "DuctlessMiniSplit", 10.0, 12000.0, 8700.0, 20.0, 12.4, None),),
    remarks=("Parking for the unit is provided on the existing driveway.",),
)  # fmt: skip

PEBBLE_HOUSE = Building(
    "pebble-house", "train", "resaved", "schedules", "Pebble House", "1 Pebble Strand", "Wick Harbor", 1, ELECTRIC,
    SINGLE, 1, 1, 2, False, 315.0,
    zones=(("House", 880.0, 8.0, 1),),
    wall_types=(R23_WALL,),
    walls=(
        ("Sea Wall", "House", "R-23 + R-4 Wall", 0, 256.0, 0.0), ("Road Wall", "House", "R-23 + R-4 Wall", 180, 256.0, 21.0),
        ("Gate Wall", "House", "R-23 + R-4 Wall", 90, 220.0, 0.0),
    ),
    windows=(
        ("Sea 1", "Sea Wall", 1, 45.0, 0.25, 0.35), ("Sea 2", "Sea Wall", 1, 45.0, 0.25, 0.35),
        ("Gate 1", "Gate Wall", 1, 12.0, 0.26, 0.3),
    ),
    attic=("Attic", "Vented Attic Roof", 880.0, 6.0), attic_types=(ATTIC_ROOF,),
    lids=(("Flat Ceiling", "House", "R-49 Attic Floor", 880.0),), lid_types=(R49_LID,),
    floors=(("Timber Floor", "House", "R-30 Raised Floor", 880.0),), floor_types=(R30_FLOOR,),
    crawl=("Crawl", 880.0, 122.0, 1760.0),
    hot_water=(hot_water("Hot Water", tank("Porch Tank", 50.0, "porch closet")),),
    hvac=(
        heat_pump(
            "Air Handler", "SplitHeatPump", 9.5, 24000.0, 16800.0, 16.2, 12.1, ducts("Crawl Runs", "DuctsCrawl", 6.0, 8.0),
        ),
    ),
    remarks=("Salt-resistant fasteners are specified throughout and have no bearing on energy use.",),
)  # fmt: skip

MARIGOLD_COURT = Building(
    "marigold-court", "train", "raw", "narrative", "Marigold Court Plan 2", "26 Marigold Court", "Sorrel Park", 13,
    ELECTRIC, SINGLE, 1, 1, 3, True, 60.0,
    zones=(("Main", 1320.0, 9.0, 1),),
    wall_types=(R15_WALL,),
    walls=(
        ("Front Elevation", "Main", "R-15 Stucco Wall", 0, 324.0, 24.0),
        ("Rear Elevation", "Main", "R-15 Stucco Wall", 180, 324.0, 0.0),
        ("Side Elevation", "Main", "R-15 Stucco Wall", 90, 360.0, 0.0),
    ),
    windows=(
        ("FE 1", "Front Elevation", 1, 25.0, 0.3, 0.23), ("RE 1", "Rear Elevation", 1, 40.0, 0.3, 0.23),
        ("RE 2", "Rear Elevation", 1, 20.0, 0.3, 0.23), ("SE 1", "Side Elevation", 1, 12.0, 0.3, 0.23),
    ),
    attic=("Attic Zone", "Vented Attic Roof", 1320.0, 4.0), attic_types=(ATTIC_ROOF,),
    lids=(("Insulated Ceiling", "Main", "R-49 Attic Floor", 1320.0),), lid_types=(R49_LID,),
    slabs=(("Post Tension Slab", "Main", 1320.0, 148.0, 0.0, 0.55, False),),
    hot_water=(hot_water("DHW", tank("Garage HPWH", 65.0, "garage")),),
    hvac=(
        heat_pump(
            "HP 3 ton", "SplitHeatPump", 8.1, 34000.0, 20800.0, 14.5, 11.7, ducts("Attic Trunk", "DuctsAttic", 5.0, 8.0),
        ),
    ),
    remarks=("Plan 2 was also submitted for lots 24 and 28 with other orientations.",),
)  # fmt: skip

WREN_CABIN = Building(
    "wren-cabin", "train", "resaved", "form", "Wren Cabin", "77 Switchback Six", "High Tarn", 16, ELECTRIC, SINGLE, 1,
    1, 1, False, 200.0,
    zones=(("Cabin", 560.0, 11.0, 1),),
    wall_types=(R23_WALL,),
    walls=(
        ("Porch Wall", "Cabin", "R-23 + R-4 Wall", 0, 264.0, 20.0), ("Creek Wall", "Cabin", "R-23 + R-4 Wall", 180, 264.0, 0.0),
    ),
    windows=(("P1", "Porch Wall", 1, 18.0, 0.24, 0.4), ("C1", "Creek Wall", 1, 36.0, 0.24, 0.4)),
    roof_types=(R30_ROOF,),
    roofs=(("Steep Roof", "Cabin", "R-30 Metal Roof", 0, 700.0, 10.0),),
    floors=(("Cabin Floor", "Cabin", "R-30 Raised Floor", 560.0),), floor_types=(R30_FLOOR,),
    crawl=("Stone Crawl", 560.0, 96.0, 1400.0),
    hot_water=(hot_water("Cabin DHW", tank("Loft Tank", 40.0, "loft")),),
    hvac=(heat_pump("Cabin Split", "DuctlessMiniSplit", 12.0, 15000.0, 13100.0, 21.0, 12.8, None),),
    remarks=("The wood stove is decorative and is left out of the model.",),
)  # fmt: skip

BUILDINGS: tuple[Building, ...] = (
    HERON_COTTAGE, BRASS_KETTLE, TWO_GABLES, LANTERN_ROW, OTTER_BARN, SALT_TERRACE, QUINCE_LOFT,
    BRAMBLE_RIDGE, MILL_RACE, SPARROW_POINT, FIG_LANE, COPPER_HILL, THISTLE_ADU, PEBBLE_HOUSE, MARIGOLD_COURT, WREN_CABIN,
)  # fmt: skip
