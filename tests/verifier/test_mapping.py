import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pcsuite.errors import ConfigError
from pcsuite.verifier.mapping import bundled_mapping, load_mapping, record_paths
from pcsuite.verifier.model import BuildingSpec

DEFAULT, CLASSES = bundled_mapping(), bundled_mapping("field_mapping_classes.yaml")


def edited(tmp_path, change):
    data = yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))
    change(data)
    path = tmp_path / "mapping.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return path


def test_every_field_of_the_model_is_mapped_or_metadata():
    mapping = load_mapping()
    mapped = {pattern for pattern, _ in mapping.patterns()} | set(mapping.metadata)
    assert {path for path, _ in record_paths(BuildingSpec)} == mapped


def test_the_default_mapping_uses_one_class_for_all():
    assert {rule.tolerance for _, rule in load_mapping().patterns()} == {"default"}
    assert load_mapping().tolerances["default"].relative == 0.005
    assert load_mapping().tolerances["default"].absolute == 0.01


def test_what_documents_do_not_contain_is_excluded():
    excluded = {
        pattern.rpartition(".")[2] for pattern, rule in load_mapping().patterns() if not rule.extractable
    }
    assert excluded == {
        "run_id", "run_title", "run_number", "run_scope", "standards_version", "all_orientations",
        "infiltration_ach50", "infiltration_cfm50", "pv_credit_available", "pv_generation_max_credit",
        "credit_available_for_pv", "final_pv_credit", "zonal_control", "quality_insulation_installation", "height",
        "width",
    }  # fmt: skip


def test_classes_of_the_second_mapping():
    rules = {pattern: rule.tolerance for pattern, rule in load_mapping(CLASSES).patterns()}
    assert rules["walls[].area"] == rules["envelope.conditioned_floor_area"] == "area"
    assert rules["windows[].u_factor"] == rules["slab_floors[].carpeted_fraction"] == "ratio"
    assert rules["ceilings[].roof_pitch"] == "ratio"
    assert rules["ceilings[].roof_tilt"] == rules["windows[].azimuth"] == "angle"
    assert rules["hvac_systems[].heating.hspf"] == "efficiency"
    assert rules["zones[].volume"] == "default"


def test_angles_are_those_in_degrees():
    turned = {pattern for pattern, rule in load_mapping().patterns() if rule.modulo}
    assert turned == {
        "project.front_orientation", "walls[].orientation", "walls[].tilt", "windows[].azimuth", "skylights[].azimuth",
        "ceilings[].orientation", "ceilings[].roof_tilt", "attics[].roof_tilt",
    }  # fmt: skip


def test_the_second_mapping_follows_from_the_first(tmp_path):
    root = Path(__file__).resolve().parents[2]
    code = (
        "from scripts.make_field_mapping_classes import with_classes; import sys;"
        "sys.stdout.write(with_classes(sys.stdin.read()))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        input=DEFAULT.read_text(),
        capture_output=True,
        text=True,
        cwd=root,
        check=True,
    )
    assert made.stdout == CLASSES.read_text()


@pytest.mark.slow
def test_rules_hash_follows_the_content_not_the_layout(tmp_path):
    same = edited(tmp_path, lambda data: None)
    assert load_mapping(same).rules_hash() == load_mapping().rules_hash()
    other = edited(tmp_path, lambda data: data["tolerances"]["default"].update(absolute=0.02))
    assert load_mapping(other).rules_hash() != load_mapping().rules_hash()
    assert load_mapping(CLASSES).rules_hash() != load_mapping().rules_hash()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["fields"][6].update(path="project.climate_zon"), "did you mean 'project.climate_zone'"),
        (lambda d: d["fields"][6].update(path="project.city"), "mapped twice"),
        (lambda d: d["fields"][6].update(type="text"), "BuildingSpec says integer"),
        (lambda d: d["fields"][6].update(type="integr"), "type"),
        (lambda d: d["fields"][6].update(tolerance="areas"), "did you mean 'area'"),
        (lambda d: d["fields"][6].update(wieght=2), "did you mean 'weight'"),
        (lambda d: d["tolerances"].pop("default"), "'default' is missing"),
        (lambda d: d.update(metadata=["project.nothing"]), "unknown metadata path"),
        (lambda d: d["tables"][0]["columns"].pop(0), "must be its name"),
        (lambda d: d["fields"][5].update(path="project..city"), "'project..city' is no path"),
        (lambda d: d["fields"][5].update(path=".city"), "'.city' is no path"),
        (lambda d: d["fields"][5].update(path="project.city."), "'project.city.' is no path"),
        (lambda d: d["fields"][5].update(path=""), "is no path"),
        (lambda d: d["tables"][1].update(path="windows[0]"), "is no path"),
        (lambda d: d.update(metadata=["project..x"]), "'project..x' is no path"),
        (lambda d: d["tables"][0].update(columns=[]), "columns"),
        (lambda d: d["blocks"][0].update(fields=[]), "fields"),
        (lambda d: d["pairing"].update(gate=1.5), "gate"),
        (lambda d: d["pairing"].update(lists={"windws": {"gate": 0.6}}), "did you mean 'windows'"),
        (lambda d: d["pairing"].update(lists={"windows": {"gaet": 0.6}}), "did you mean 'gate'"),
    ],
)
def test_wrong_mappings_are_one_line(tmp_path, change, words):
    with pytest.raises(ConfigError) as caught:
        load_mapping(edited(tmp_path, change))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "mapping.yaml" in str(caught.value)


@pytest.mark.parametrize("name", ["nothing.yaml", "field_mapping.yaml"])
def test_a_missing_mapping_is_never_replaced_by_another(tmp_path, name):
    with pytest.raises(ConfigError, match="no such mapping file"):
        load_mapping(tmp_path / name)


def test_bundled_names_are_found_from_anywhere():
    assert load_mapping(Path("schemas/field_mapping.yaml")).rules_hash() == load_mapping().rules_hash()


def test_paths_of_a_free_mapping_must_fit_together(tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(
        "tolerances: {default: {}}\nfields: [{path: a, type: text}, {path: a.b, type: text}]\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError, match=r"m\.yaml: 'a\.b' does not fit"):
        load_mapping(path)
