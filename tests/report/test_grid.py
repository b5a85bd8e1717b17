from pcsuite.report.grid import LONGEST_NAME, plain_grid


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
