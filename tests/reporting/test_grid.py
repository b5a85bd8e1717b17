from pcsuite.reporting.grid import LONGEST_NAME, plain_grid


def test_a_value_and_its_limits_share_a_column():
    columns = ("model", "gain", "gain_low", "gain_high", "n_low", "note", "closed")
    records = [
        {
            "model": "m",
            "gain": 0.5,
            "gain_low": 0.25,
            "gain_high": 0.75,
            "n_low": 3,
            "note": "x" * 80,
            "closed": True,
        },
        {
            "model": "m",
            "gain": None,
            "gain_low": None,
            "gain_high": None,
            "n_low": 4,
            "note": None,
            "closed": False,
        },
    ]
    grid = plain_grid(columns, records)
    assert [column.label for column in grid.columns] == ["model", "gain", "n low", "note", "closed"]
    assert [cell.text for cell in grid.rows[0].cells] == ["m", "0.500 [0.250, 0.750]", "3", "x" * 80, "yes"]
    assert [cell.text for cell in grid.rows[1].cells] == ["m", "n/a", "4", "", "no"]


def test_names_stay_on_one_line_and_sentences_get_room():
    grid = plain_grid(("name", "note"), [{"name": "n" * LONGEST_NAME, "note": "s" * (LONGEST_NAME + 1)}])
    assert [cell.css for cell in grid.rows[0].cells] == ["keep", "prose"]


def test_columns_that_say_the_same_in_every_row_are_known():
    records = [{"task": "t", "model": name, "regime": "D0", "n": 4} for name in ("a", "b")]
    grid = plain_grid(("task", "model", "regime", "n"), records)
    assert grid.constant == {0: "t", 2: "D0"}  # numbers are what a table is read for
    assert plain_grid(("task", "model"), records[:1]).constant == {}
    assert plain_grid(("task", "regime"), records).constant == {}  # else nothing would be left of the table
