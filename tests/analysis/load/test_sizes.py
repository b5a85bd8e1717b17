"""Which class a model belongs to, and by which levels effects are compared."""

import pytest

from pcsuite.analysis.load.item_scores import item_scores
from pcsuite.analysis.load.runs import RunTables
from pcsuite.analysis.load.sizes import ModelInfo, model_levels
from pcsuite.config.profile import AnalysisSection
from support.synthetic_log import make_row, write_log

CLASSES = AnalysisSection().size_classes


@pytest.mark.parametrize(
    ("models", "parameters", "levels", "factor"),
    [
        ({"a": "8B", "b": "32B", "c": "frontier"}, {}, {"a": "S", "b": "M", "c": "L"}, "size class"),
        ({"a": "7B", "b": "tiny"}, {"b": 20.0}, {"a": "S", "b": "M"}, "size class"),
        ({"a": "m", "b": "40B"}, {}, {"a": "M", "b": "L"}, "size class"),
        ({"a": "135M", "b": "1.5B"}, {}, {"a": "135M", "b": "1.5B"}, "size"),
        ({"a": "9B", "b": "9B"}, {}, {"a": "S", "b": "S"}, "size class"),
    ],
)
def test_size_classes(models, parameters, levels, factor):
    found = model_levels(
        {name: ModelInfo("f", size, "p") for name, size in models.items()}, parameters, CLASSES
    )
    assert (dict(found.of), found.factor) == (levels, factor)
    assert list(found.order) == list(dict.fromkeys(levels.values()))


def test_a_model_keeps_its_literal_size_beside_its_class(tmp_path):
    rows = [
        make_row(item=f"{k}", model=model, size=size)
        for k in range(2)
        for model, size in (("a", "8B"), ("b", "24B"), ("c", "70B"), ("api", "frontier"))
    ]
    with RunTables([write_log(tmp_path / "a.jsonl", rows)], tmp_path / "tables") as tables:
        models = item_scores(tables).models
    assert {name: (info.size, info.size_class) for name, info in models.items()} == {
        "a": ("8B", "S"), "b": ("24B", "M"), "c": ("70B", "L"), "api": ("frontier", "L"),
    }  # fmt: skip
