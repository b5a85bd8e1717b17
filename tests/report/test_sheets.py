"""What figures have in common: groups of records, and a sheet that becomes one figure."""

from pcsuite.report.sheets import draw_series, grouped, legend, sheet_of, under_least_random, values_of

ROWS = [
    {"task": "b", "decoding": "hot", "condition": "C10", "model": "m", "score": 0.5},
    {"task": "a", "decoding": "cold", "condition": "C2", "model": "m", "score": 0.25},
    {"task": "b", "decoding": "cold", "condition": "C2", "model": "n", "score": 1.0},
]


def test_records_are_grouped_in_order_and_named_naturally():
    assert [(task, len(rows)) for task, rows in grouped(ROWS, "task")] == [("a", 1), ("b", 2)]
    assert [key[:2] for key in grouped(ROWS, "task", "model")] == [("a", "m"), ("b", "m"), ("b", "n")]
    assert values_of(ROWS, "condition") == ["C2", "C10"]


def test_the_least_random_regime_is_the_coldest():
    regime, rows = under_least_random(ROWS, {"hot": 1.0, "cold": 0.0})
    assert (regime, len(rows)) == ("cold", 2)


def test_a_sheet_becomes_a_figure_with_a_tooltip_for_each_point():
    made = []
    with sheet_of(made, None, "stem", "kind", "t", None, tail="grid") as sheet:
        draw_series(sheet.axes, sheet.tips, ROWS, "score", "model", ["m", "n"], tip=("decoding",))
        legend(sheet.axes)
        sheet.caption = "What it shows."
    (figure,) = made
    assert (figure.name, figure.kind, figure.caption, figure.png) == (
        "stem__t__grid",
        "kind",
        "What it shows.",
        None,
    )
    for words in ("C10, m, hot: 0.50", "C2, m, cold: 0.25", "C2, n, cold: 1.00"):
        assert f"<title>{words}</title>" in figure.svg
