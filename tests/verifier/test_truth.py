"""The six kinds of row, both dialects, and what goes wrong in exports."""

import pytest

from pcsuite.errors import DataError
from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.truth import parse_truth

INVOICE = """
record: free
not_given: ["", n/a]
tolerances: {default: {relative: 0.0, absolute: 0.005}}
fields:
  - {label: Invoice Number, path: number, type: text}
  - {label: Total (EUR), path: total, type: number}
  - {label: Paid, path: paid, type: boolean}
  - {path: tags, type: text_list, separator: ";"}
tables:
  - path: lines
    columns:
      - {path: name, type: text}
      - {path: quantity, type: integer}
"""


@pytest.fixture
def mapping(tmp_path):
    path = tmp_path / "invoice.yaml"
    path.write_text(INVOICE)
    return load_mapping(path)


WANTED = {"number": "0042", "total": 119.5, "paid": False}


def test_long_by_label_or_path(mapping):
    data = b"Field,Value\nInvoice Number,0042\ntotal,119.50\nPaid,No\n"
    assert parse_truth(data, mapping).record == WANTED


def test_wide(mapping):
    data = b"number,Total (EUR),paid,tags\n0042,119.50,No,\n"
    assert parse_truth(data, mapping).record == WANTED


def test_both_forms_have_the_same_hash(mapping):
    long = parse_truth(b"field,value\nnumber,1\npaid,yes\n", mapping)
    wide = parse_truth(b"number,paid\n1,yes\n", mapping)
    assert long.content_hash == wide.content_hash


def test_lists_by_index_and_by_name(mapping):
    data = b"field,value\nlines[0].name,Tea\nlines[0].quantity,3\nlines[name=Cup].quantity,1\ntags,a; b\n"
    record = parse_truth(data, mapping).record
    assert record == {
        "lines": [{"name": "Tea", "quantity": 3}, {"name": "Cup", "quantity": 1}],
        "tags": ["a", "b"],
    }
    extracted = {
        "lines": [{"name": "Cup", "quantity": 1}, {"name": "Tea", "quantity": 4}],
        "tags": ["b", "a"],
    }
    counts = compare_records(record, extracted, mapping).counts
    assert (counts.matches, counts.errors["wrong_value"]) == (5, 1)


def test_buildingspec_truth_may_be_simple_too():
    data = b"field,value\nClimate Zone,7\nwindows[name=101].u_factor,.30\n"
    assert parse_truth(data, load_mapping()).record == {
        "project": {"climate_zone": 7},
        "windows": [{"name": "101", "u_factor": 0.3}],
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"field,value\nTotl,3\n", "row 2: unknown field 'Totl'"),
        (b"field,value\ntotal,abc\n", "row 2: total: 'abc' is not a number"),
        (b"field,value\ntotal,1\ntotal,2\n", "row 3: field 'total' is given again"),
        (b"number,colour\n1,red\n", "unknown field 'colour'"),
        (b"field,value\nlines[99999999].name,x\n", "beyond"),
        (b"field,value\nlines[0],x\n", "unknown field"),
    ],
)
def test_errors(mapping, data, words):
    with pytest.raises(DataError) as caught:
        parse_truth(data, mapping, "t.csv")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


PROJECT = """Project
,Run Title,"Test House",
,City,"Somewhere ",
,Climate Zone,7,
,Standards Version," ",
,Attached Garage,"No",
,Front Orientation,350,deg,
,Conditioned Floor Area,1024.0,ft2,
,Area-Weighted Fenestration Ufactor,0.290,Btuh/ft2-?F,
"""


def read(text):
    return parse_truth(text.encode("utf-8"), load_mapping(), "t.csv")


def test_key_value_rows():
    record = read(PROJECT).record
    assert record == {
        "project": {
            "run_title": "Test House",
            "city": "Somewhere",
            "climate_zone": 7,
            "attached_garage": False,
            "front_orientation": 350.0,
        },
        "envelope": {"conditioned_floor_area": 1024.0, "fenestration_u_factor": 0.29},
    }


WINDOWS = """,Windows:, Name, Wall, Status, Azimuth (deg), Height (ft), Width (ft), Multiplier, Area (ft2),U-factor, SHGC, Ext. Shade,
,,"101","Front",New,350.000,,,1.000,24.00,0.290,0.230,Insect Screen (default),
,,"007","Front",New,350.000,4.0,4.0,2.000,16.00,NA,0.230,,
,,"No","Front",New,,,,,,,,,
,,"NA","Front",New,,,,,,,,,
"""


def test_names_stay_text_and_marks_mean_nothing_given():
    windows = read(WINDOWS).record["windows"]
    assert windows[0] == {
        "name": "101", "wall": "Front", "status": "New", "azimuth": 350.0, "multiplier": 1, "area": 24.0,
        "u_factor": 0.29, "shgc": 0.23, "exterior_shade": "Insect Screen (default)",
    }  # fmt: skip
    assert windows[1] == {
        "name": "007", "wall": "Front", "status": "New", "azimuth": 350.0, "height": 4.0, "width": 4.0,
        "multiplier": 2, "area": 16.0, "shgc": 0.23,
    }  # fmt: skip
    assert [window["name"] for window in windows] == ["101", "007", "No", "NA"]


def test_headers_without_rows_and_headers_that_come_again():
    header = ",Skylights:, Name, Roof, Status, Azimuth (deg), Area (ft2), U-factor, SHGC,\n"
    assert read(header + "\n" + PROJECT).record.keys() == {"project", "envelope"}
    truth = read(f'{header}\n{header}\n{header},,"S1","Roof A",New,90.0,8.0,0.450,0.25,\n')
    assert truth.record == {
        "skylights": [
            {
                "name": "S1",
                "roof": "Roof A",
                "status": "New",
                "azimuth": 90,
                "area": 8,
                "u_factor": 0.45,
                "shgc": 0.25,
            }
        ]
    }


def test_continuations_are_layers_of_the_row_above():
    truth = read(
        """,Ext. Wall Constructions:, Name, Type, Total Cavity Rvalue, Total Thickness, Winter Design Uvalue, Layers:,
,,"A","Wood Framed Wall",21.0,6.875,0.069,"Inside: Gypsum",
,,,,,,,"Cavity: R-21",
,,"B","Wood Framed Wall",15.0,5.0,0.086,"Inside: Plaster, two coats",
,,,,,,,"Cavity: R-15",
,,,,,,,"Outside: Stucco",
"""
    )
    constructions = truth.record["wall_constructions"]
    assert [c["layers"] for c in constructions] == [
        ["Inside: Gypsum", "Cavity: R-21"],
        ["Inside: Plaster, two coats", "Cavity: R-15", "Outside: Stucco"],
    ]
    assert constructions[1]["cavity_r_value"] == 15.0


def test_zone_blocks():
    truth = read(
        ',Zone Name,"One",\n,Zone Floor Area,10.0,ft2,\n,Zone Stories,1.0,\n\n'
        ',Zone Name,"2",\n,Zone Floor Area,20.0,ft2,\n'
    )
    assert truth.record["zones"] == [
        {"name": "One", "floor_area": 10.0, "stories": 1},
        {"name": "2", "floor_area": 20.0},
    ]


WATER = (
    ",Water Heating System Data:, Status, Type, Water Heaters:, Fuel, Tank, Volume (gal), Energy Factor, Input Rating,,"
    " Int. Insul. RValue, Ext. Insul. Rvalue, Standby Loss,Make & Model,Tank Location,Rated Flow,First Hour Rating,"
    "Recovery Efficiency,\n"
)


def test_water_heating():
    truth = read(
        WATER
        + ',"DHW 1",New,"Standard","Heater 1",Heat Pump,NA,50.000,NEEA Rated,NA,"watts",NA,NA,NA,"Acme 5",garage,,,,\n'
        + ',,,,"Heater 2",Natural Gas,Small Storage,40.0,0.64,38000,"Btuh",NA,12.0,NA,,attic,,67.0,0.8,\n'
        + ',"DHW 2",New,"Standard","Heater 3",Electric,NA,30.0,0.95,4500,"watts",NA,NA,NA,,closet,,,,\n'
    )
    first, second = truth.record["water_heating_systems"]
    assert first["water_heaters"][0] == {
        "name": "Heater 1", "fuel": "Heat Pump", "volume": 50.0, "input_rating_units": "watts",
        "tank_location": "garage",
    }  # fmt: skip
    assert first["water_heaters"][1] == {
        "name": "Heater 2", "fuel": "Natural Gas", "tank_type": "Small Storage", "volume": 40.0, "energy_factor": 0.64,
        "input_rating": 38000.0, "input_rating_units": "Btuh", "exterior_insulation_r_value": 12.0,
        "tank_location": "attic", "first_hour_rating": 67.0, "recovery_efficiency": 0.8,
    }  # fmt: skip
    assert (second["name"], len(second["water_heaters"])) == ("DHW 2", 1)


HVAC_HEADER = ",HVAC System Data:,  Status, Type,\n"
HEATING = ",,Heat Pump (Heating):, Type, HSPF, Cap47, Cap 17, Aux. Htg. Capacity, Ducted,\n"
COOLING = ",,Heat Pump (Cooling):, Type, SEER2, EER2, CFM/Ton, AC Charge, Ducted,\n"
DUCTS = (
    ",,Distribution System:, Type, Percent Leakage, Insulation R-Value, Supply Area (ft2), Supply Dia (in),"
    " Return Area (ft2), Return Dia (in), Bypass Duct,\n"
)


def test_hvac_with_sub_tables_and_rows_without_the_duct_columns():
    truth = read(
        HVAC_HEADER
        + ',"HP 1",New,Heat Pump,\n'
        + HEATING
        + ',,"Unit",SplitHeatPump,8.9,24000.0,15600.0,-99996.000,"Yes",\n\n'
        + COOLING
        + ',,"Unit",SplitHeatPump,16.0,12.0,350.0,"Not  Verified","Yes",\n\n\n'
        + DUCTS
        + ',,"Ducts 1",DuctsAttic,5.000,8.000,"No",\n\n'
        + ',"HP 2",Existing,Heat Pump,\n'
        + HEATING
        + ',,"Unit",Ductless,10.0,12000.0,9000.0,5000.0,"No",\n\n'
        + DUCTS
        + ',,"Ducts 2",DuctsCrawl,5.0,8.0,200.0,8.0,40.0,14.0,"Yes",\n'
    )
    first, second = truth.record["hvac_systems"]
    assert first["heating"] == {
        "system_type": "SplitHeatPump", "hspf": 8.9, "capacity_47": 24000.0, "capacity_17": 15600.0, "ducted": True,
    }  # fmt: skip
    assert first["cooling"]["ac_charge"] == "Not  Verified"
    assert first["distribution"] == {
        "name": "Ducts 1", "system_type": "DuctsAttic", "percent_leakage": 5.0, "insulation_r_value": 8.0,
        "bypass_duct": False,
    }  # fmt: skip
    assert second["status"] == "Existing"
    assert second["heating"]["auxiliary_heating_capacity"] == 5000.0
    assert "cooling" not in second
    assert second["distribution"] == {
        "name": "Ducts 2", "system_type": "DuctsCrawl", "percent_leakage": 5.0, "insulation_r_value": 8.0,
        "supply_area": 200.0, "supply_diameter": 8.0, "return_area": 40.0, "return_diameter": 14.0, "bypass_duct": True,
    }  # fmt: skip


def test_systems_listed_together_take_their_sub_tables_in_order():
    truth = read(
        HVAC_HEADER
        + ',"HP 1",New,Heat Pump,\n,"HP 2",New,Heat Pump,\n'
        + HEATING
        + ',,"U1",Split,8.0,1.0,1.0,,"Yes",\n,,"U2",Split,9.0,1.0,1.0,,"Yes",\n'
    )
    assert [s["heating"]["hspf"] for s in truth.record["hvac_systems"]] == [8.0, 9.0]


def test_a_sub_table_row_too_many_is_named_not_swallowed():
    truth = read(HVAC_HEADER + ',"HP",New,Heat Pump,\n' + HEATING + ',,"U1",Split,8.0,\n,,"U2",Split,9.0,\n')
    assert truth.record["hvac_systems"][0]["heating"]["hspf"] == 8.0
    assert any("U2" in warning for warning in truth.warnings)


def test_crawl_space_rows_lack_the_status_column():
    header = ",CrawlSpace:, Name, Status, Floor Area (ft2), Perimeter (ft), Volume (ft3),\n"
    lacking = read(header + ',,"Crawl",1080.0,134.0,2160.0,\n').record["crawlspaces"]
    assert lacking == [{"name": "Crawl", "floor_area": 1080.0, "perimeter": 134.0, "volume": 2160.0}]
    full = read(header + ',,"Crawl",New,1080.0,134.0,2160.0,\n').record["crawlspaces"]
    assert full == [
        {"name": "Crawl", "status": "New", "floor_area": 1080.0, "perimeter": 134.0, "volume": 2160.0}
    ]


def test_tables_outside_the_mapping_are_passed_over_and_named():
    truth = read(PROJECT + ',\n,Interior Walls:, Name, Zone,\n,,"IW","One",\n,,"IW2","One",\n\n' + WINDOWS)
    assert len(truth.record["windows"]) == 4
    assert [w for w in truth.warnings if "Interior Walls" in w]


def test_unknown_labels_are_named():
    assert any("Colour" in warning for warning in read(PROJECT + ",Colour,red,\n").warnings)


@pytest.mark.parametrize(
    ("text", "row", "words"),
    [
        (PROJECT + ",Bedrooms,many,\n", 10, "'many' is not a number"),
        (PROJECT + ",Bedrooms,2.5,\n", 10, "whole"),
        (PROJECT + ",City,Elsewhere,\n", 10, "again"),
        (",Conditioned Floor Area,95.1,m2,\n", 1, "unit 'm2'"),
        (",Windows:, Name, Area (m2),\n", 1, "unit 'm2'"),
        (WINDOWS.replace("24.00", "large"), 2, "windows[].area"),
        (",Windows:, Name, Wall,\n,,,Front,\n", 2, "continues nothing"),
        (",Zone Floor Area,10.0,ft2,\n", 1, "before any 'Zone Name'"),
        ("hello\nworld\nthis is a letter\n", 1, "no label"),
        ("<html><body>\n<p>x</p>\n</body></html>", 1, "no label"),
    ],
)
def test_errors_name_file_and_row(text, row, words):
    with pytest.raises(DataError) as caught:
        read(text)
    message = str(caught.value)
    assert message.startswith(f"t.csv: row {row}:")
    assert words in message
    assert "\n" not in message


def test_values_outside_the_record_model_are_refused():
    with pytest.raises(DataError, match=r"climate_zone.*16"):
        read(",Climate Zone,17,\n")


def test_new_marks_can_be_declared():
    mapping = load_mapping().model_copy(update={"not_given_numbers": (-1.0, "unknown")})
    data = b",Bedrooms,unknown,\n,Stories,-1.0,\n,Dwelling Units,1,\n"
    assert parse_truth(data, mapping).record == {"project": {"dwelling_units": 1}}


ATTIC = (
    ",Attic:, Name, Status, Floor Area (ft2), Roof Rise (x in 12), Heel Height (in), Radiant Barrier,\n"
    ',,"Main",New,900.0,5.0,6.5,"Yes",\n,,"Low",New,300.0,4.0,,"No",\n'
)


def test_a_column_outside_the_mapping_gets_a_note_and_is_counted():
    truth = read(PROJECT + "\n" + ATTIC)
    assert truth.record["attics"] == [
        {"name": "Main", "status": "New", "area": 900.0, "roof_rise": 5.0, "radiant_barrier": True},
        {"name": "Low", "status": "New", "area": 300.0, "roof_rise": 4.0, "radiant_barrier": False},
    ]
    assert truth.warnings == (
        "row 12: column 'Heel Height (in)' of 'Attic:' is not in the mapping (1 value passed over)",
    )
    assert truth.unread.values == 1
    assert truth.unread.columns == {"attics[]": {"Heel Height (in)": 1}}


def test_tables_and_labels_outside_the_mapping_are_counted_too():
    truth = read(PROJECT + ",Colour,red,\n,Mood,,\n\n,Interior Walls:, Name, Zone,\n,,IW,One,\n,,IW2,NA,\n")
    assert truth.unread.tables == {"Interior Walls:": 3}
    assert truth.unread.labels == ["Colour"]
    assert truth.unread.values == 4
    assert len(truth.warnings) == 3


def test_cells_beyond_the_header_get_a_note():
    truth = read(',Windows:, Name, Wall,\n,,"A","Front",stray,\n')
    assert any("beyond the header" in warning for warning in truth.warnings)


def test_a_cell_that_may_be_unreadable_is_a_note_where_the_mapping_says_so():
    truth = read(ATTIC.replace('"Yes"', "Some"))
    assert "radiant_barrier" not in truth.record["attics"][0]
    assert any("'Some' is not Yes or No; it is not judged" in warning for warning in truth.warnings)
    assert truth.unread.cells == {("attics", 0, "radiant_barrier")}


def test_values_that_may_stand_in_what_was_not_read_are_not_judged():
    truth = read(
        PROJECT + ",Colour,red,\n\n,Interior Walls:, Name,\n,,IW,\n\n" + ATTIC.replace('"Yes"', "Some")
    )
    record = {
        **truth.record,
        "project": truth.record["project"] | {"colour": "red", "smell": "new"},
        "interior_walls": [{"name": "IW", "area": 5}],
        "attics": [
            truth.record["attics"][0] | {"heel_height": 6.5, "roof_pitch": 0.4, "radiant_barrier": True},
            truth.record["attics"][1],
        ],
        "skylights": [{"name": "S"}],
    }
    comparison = compare_records(truth.record, record, load_mapping(), truth)
    assert {entry.field_path for entry in comparison.not_judged} == {
        "project.colour", "interior_walls[0].name", "interior_walls[0].area", "attics[name=Main].heel_height",
        "attics[name=Main].roof_pitch", "attics[name=Main].radiant_barrier",
    }  # fmt: skip
    assert [entry.field_path for entry in comparison.discrepancies] == [
        "project.smell",
        "skylights[name=S].name",
    ]
    assert comparison.counts.invented == 2


def test_a_column_that_is_blank_in_the_truth_is_judged():
    truth = read(WINDOWS)
    record = {"windows": [window | {"shgc": 0.5} for window in truth.record["windows"]]}
    comparison = compare_records(truth.record, record, load_mapping(), truth)
    assert comparison.not_judged == []
    assert comparison.counts.invented == 2  # the last two rows give no SHGC


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolon"), ("\t", "tab")])
def test_other_separators(mark, name):
    plain = PROJECT.replace('"', "")
    truth = read(plain.replace(",", mark))
    assert truth.record == read(plain).record
    assert truth.warnings == (f"read as a {name}-separated file",)


def test_a_decimal_comma_is_refused_rather_than_guessed():
    with pytest.raises(DataError, match=r"row 2: envelope\.window_to_floor_ratio: '0,115' has a comma"):
        read(";City;X;\n;Window to Floor Area Ratio;0,115;\n")


REPORT = "Detailed Report For:,User Input,\n\n" + PROJECT
CLOSING = 'Software Version:,,"EnergyPro 10.0",\n'


def test_a_report_without_its_end_may_have_been_cut_off():
    assert read(REPORT + CLOSING).warnings == ()
    assert "cut off" in read(REPORT).warnings[0]
    assert "ends within a row" in read(WINDOWS + ',,"102","Front",New,35').warnings[0]
    assert read(WINDOWS.rstrip("\n")).warnings == ()


def test_paths_with_dots_for_brackets():
    data = b"field,value\nwindows.0.name,101\nwindows.0.u_factor,.30\nwindows[1].name,102\n"
    assert parse_truth(data, load_mapping()).record == {
        "windows": [{"name": "101", "u_factor": 0.3}, {"name": "102"}]
    }
    with pytest.raises(DataError, match=r"row 3: field 'windows\[0\]\.u_factor' is given again"):
        parse_truth(b"field,value\nwindows.0.u_factor,.3\nwindows[0].u_factor,.4\n", load_mapping(), "t")


def test_every_value_knows_its_row():
    truth = read(PROJECT + "\n" + WINDOWS + "\n" + ATTIC)
    assert truth.row_of(("project", "climate_zone")) == 4
    assert truth.row_of(("windows", 1, "area")) == 13
    assert truth.row_of(("attics", 1, "roof_rise")) == 19
    assert truth.row_of(("zones", 0, "name")) is None
    simple = parse_truth(b"field,value\nCity,X\nwindows[name=7].area,3\n", load_mapping())
    assert simple.row_of(("windows", 0, "area")) == 3


def test_more_windows_than_a_decoder_may_write():
    rows = "".join(f',,"W{n}","Front",New,,,,,{n}.0,,,,\n' for n in range(1, 600))
    assert len(read(WINDOWS.splitlines()[0] + "\n" + rows).record["windows"]) == 599
