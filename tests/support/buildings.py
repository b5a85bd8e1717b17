"""An invented building as a Detailed Report, in the layout and under the headers that real exports have.

Written by hand for these tests: two zones, names that look like numbers, two windows of nearly one name, an attic, a crawl
space whose row lacks its Status, floors over it, skylights in a ceiling, and constructions with layers.
"""

from __future__ import annotations

import re

RAW = """2025 Building Energy Efficiency Standards
Performance-based Compliance

Detailed Report For:,User Input,

Project
,Run ID,"User",
,Run Title,"Juniper House",
,Run Number,0,
,Run Scope,Newly Constructed,

,Address,"48 Lower Orchard Road",
,City,"Fennimore ",
,Climate Zone,12,

,Standards Version," ",
,All Orientations,"No",
,Fuel Type,"Natural Gas",

,House Type,"Single Family",
,Dwelling Units,1,
,Stories,2,
,Bedrooms,4,
,Attached Garage,"Yes",

,Front Orientation,45,deg,

,Conditioned Floor Area,2140.0,ft2,
,Total Conditioned Zone Window Area,176.0,ft2,
,Window to Floor Area Ratio,0.082,
,Area-Weighted Fenestration Ufactor,0.310,Btuh/ft2-?F,
,Exterior Wall Area,2210.0,ft2,
,Underground Wall Area,0.0,ft2,
,Conditioned Zone Slab Floor Area,860.0,ft2,
,Exposed Slab Floor Area,172.0,ft2,

,Exterior Walls:, Name, Zone, Status, Type, Orientation (deg), Area (ft2), Window Area (ft2),Door Area (ft2), Tilt (deg), Framing Factor,
,,"Front Wall","Ground",New,R-21 Wall,45.000,580.000,64.000,24.000,90.000,0.250,
,,"Left Wall","Ground",New,R-21 Wall,135.000,520.000,32.000,0.000,90.000,0.250,
,,"Back Wall","Upper",New,R-19 Wall,225.000,590.000,56.000,20.000,90.000,0.240,
,,"Right Wall","Upper",New,R-19 Wall,315.000,520.000,24.000,0.000,90.000,0.240,

,Windows:, Name, Wall, Status, Azimuth (deg), Height (ft), Width (ft), Multiplier, Area (ft2),U-factor, SHGC, Ext. Shade,
,,"D03 (8080)","Front Wall",New,45.000,,,1.000,64.00,0.310,0.220,Insect Screen (default),
,,"101","Left Wall",New,135.000,,,2.000,16.00,0.300,0.240,Insect Screen (default),
,,"6068","Back Wall",New,225.000,,,1.000,40.00,0.320,0.260,None,
,,"G02 (4040) 2","Back Wall",New,225.000,,,1.000,10.00,0.290,0.230,Insect Screen (default),
,,"G02 (4040) 3","Back Wall",New,225.000,,,1.000,6.00,0.280,0.210,Insect Screen (default),
,,"W-9","Right Wall",New,315.000,,,1.000,24.00,0.330,0.250,Insect Screen (default),

,Ext. Wall Constructions:, Name, Type, Total Cavity Rvalue, Total Thickness, Winter Design Uvalue, Layers:,
,,"R-21 Wall","Wood Framed Wall",21.000,6.875,0.069,"Inside Finish: Gypsum Board",
,,,,,,,"Cavity / Frame: R-21 / 2x6",
,,,,,,,"Exterior Finish: Wood Siding",
,,"R-19 Wall","Wood Framed Wall",19.000,6.375,0.074,"Inside Finish: Gypsum Board",
,,,,,,,"Cavity / Frame: R-19 / 2x6",
,,,,,,,"Exterior Finish: 3 Coat Stucco",

,Skylights:, Name, Ceiling, Status, Azimuth (deg), Multiplier, Area (ft2), U-factor, SHGC,

,Skylights:, Name, Ceiling, Status, Azimuth (deg), Multiplier, Area (ft2), U-factor, SHGC,
,,"Sky East","Hall Lid",New,135.000,2.000,6.00,0.450,0.300,
,,"Sky West","Hall Lid",New,315.000,1.000,4.00,0.460,0.310,

,Attic:, Name, Status, Type, Floor Area (ft2), Roof Rise (x in 12), Roof Pitch, Roof Tilt (deg), Roof Reflectance, Roof Emittance, Roof Framing Factor, Radiant Barrier,
,,"Main Attic",New,Vented Roof,1280.00,5.000,0.417,22.620,0.200,0.850,0.070,"Yes",

,Ceiling Below Attic:, Name, Zone, Status, Type, Area (ft2), Framing Factor,
,,"Hall Lid","Upper",New,R-38 Lid,720.00,0.070,
,,"Bed Lid","Upper",New,R-38 Lid,560.00,0.070,

,Ext. Floor Constructions:, Name, Type, Total Cavity Rvalue, Total Thickness, Winter Design Uvalue, Layers:,
,,"R-30 Floor","Wood Framed Floor",30.000,10.250,0.034,"Floor Surface: Hardwood",
,,,,,,,"Cavity / Frame: R-30 / 2x10",

,Floors Over Crawlspace:, Name, Zone, Status, Type, Area (ft2), Framing Factor,
,,"Crawl Floor","Ground",New,R-19 Crawl Floor,420.00,0.100,

,CrawlSpace:, Name, Status, Type, Area (ft2), Perimeter (ft), Avg. Height (ft),
,,"North Crawl",Vented,420.00,88.000,2.500,

,Slab Floors:, Name, Zone, Status, Area (ft2), Perimeter (ft),Edge Insul. Rvalue, Carpeted Fraction, Heated,
,,"Slab A","Ground",New,500.00,70.000,0.000,0.200,"No",
,,"Slab B","Ground",New,360.00,52.000,5.000,0.800,"Yes",

,Zone Name,"Ground",
,Zone Type,"Conditioned",
,Zone Status,"New",
,Zone Floor Area,1280.00,ft2,
,Zone Ceiling Height,9.00,ft,
,Zone Stories,1.0,
,Zone Volume,11520.00,ft3,

,Zone Name,"Upper",
,Zone Type,"Conditioned",
,Zone Status,"New",
,Zone Floor Area,860.00,ft2,
,Zone Ceiling Height,8.00,ft,
,Zone Stories,1.0,
,Zone Volume,6880.00,ft3,

,Water Heating System Data:, Status, Type, Water Heaters:, Fuel, Tank, Volume (gal), Energy Factor, Input Rating,, Int. Insul. RValue, Ext. Insul. Rvalue, Standby Loss,Make & Model,Tank Location,Rated Flow,First Hour Rating,Recovery Efficiency,
,"DHW Sys 1",New,"Standard","DHW Heater 1",Natural Gas,Small Storage,50.000,0.680,40000.000,"Btuh",NA,12.000,NA,"Acme 50",garage,NA,82.000,0.800,

,HVAC System Data:,  Status, Type,
,"Heat Pump1",New,Heat Pump,
,,Heat Pump (Heating):, Type, HSPF, Cap47, Cap 17, Aux. Htg. Capacity, Ducted,
,,"Heat Pump System 1",SplitHeatPump,9.200,36000.000,22400.000,-99996.000,"Yes",

,,Heat Pump (Cooling):, Type, SEER2, EER2, CFM/Ton, AC Charge, Ducted,
,,"Heat Pump System 1",SplitHeatPump,16.500,12.500,350.000,"Verified","Yes",

,,Distribution System:, Type, Percent Leakage, Insulation R-Value, Supply Area (ft2), Supply Dia (in), Return Area (ft2), Return Dia (in), Bypass Duct,
,,"Air Distribution System 1",DuctsAttic,5.000,8.000,"No",

Compliance Manager Version:,,"BEMCmpMgr 2025.1.0 (2600)",
Software Version:,,"EnergyPro 10.0",
"""


def resaved(raw: str, width: int = 20) -> str:
    """The report as a spreadsheet saves it again: no quotes, rows padded with empty cells, no trailing zeros."""
    lines = []
    for line in raw.splitlines():
        cells = [cell.strip() for cell in line.replace('"', "").split(",")]
        plain = [re.sub(r"^(-?\d+)\.0+$", r"\1", re.sub(r"^(-?\d+\.\d*?)0+$", r"\1", cell)) for cell in cells]
        lines.append(",".join([*plain, *[""] * (width - len(plain))]))
    return "\r\n".join(lines) + "\r\n"
