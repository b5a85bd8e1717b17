"""The lock, the list of what a release is made of, and the documentation of where model files come from agree."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from pcsuite.engines.weights import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lock, sbom, audit, newest = (script(name) for name in ("lock", "sbom", "audit", "newest"))
LOCKED = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PINNED = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


def test_every_pin_is_locked_with_hashes_and_names_no_index():
    locked = sbom.packages(LOCKED)
    assert dict(locked.keys()) == PINNED
    assert all(hashes and len(set(hashes)) == len(hashes) for hashes in locked.values())
    assert len(PINNED) > 150
    assert "://" not in LOCKED
    assert "--index-url" not in LOCKED
    assert not {"torch", "pip", "prompt-control-suite"} & PINNED.keys()


def test_what_the_project_asks_for_is_locked_within_its_bounds():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    asked = re.findall(r'^  "([A-Za-z0-9_.-]+)(?:\[[a-z,]+\])?>=([\d.]+)(?:,<([\d.]+))?', text, re.MULTILINE)
    assert len(asked) > 30
    for name, least, below in asked:
        if (known := PINNED.get(lock.normal(name))) is None:
            assert name == "torch", name
            continue
        numbers = [tuple(map(int, re.findall(r"\d+", part)[:3])) for part in (least, known, below or "9999")]
        assert numbers[0] <= numbers[1] < numbers[2], (name, known)
    core = text.split("dependencies = [")[1].split("]")[0]
    assert all(",<" in line for line in core.splitlines() if line.strip()), "the core has upper bounds"


@pytest.mark.parametrize(
    ("file", "name", "version", "fits"),
    [
        ("PyYAML-6.0.3-cp311-cp311-manylinux2014_x86_64.whl", "pyyaml", "6.0.3", True),
        ("pyyaml-6.0.3.tar.gz", "pyyaml", "6.0.3", True),
        ("pyyaml-6.0.30.tar.gz", "pyyaml", "6.0.3", False),
        ("google_re2-1.1.20251105-1-cp311-cp311-win32.whl", "google-re2", "1.1.20251105", True),
        ("rouge_score-0.1.2.tar.gz", "rouge-score", "0.1.2", True),
        ("pyyaml_ft-6.0.3-py3-none-any.whl", "pyyaml", "6.0.3", False),
        ("pyyaml-6.0.3.exe", "pyyaml", "6.0.3", False),
    ],
)
def test_a_file_belongs_to_its_version_only(file, name, version, fits):
    assert lock.is_version(file, name, version) is fits


def test_hashes_are_read_from_an_index_of_either_form(tmp_path):
    page = tmp_path / "simple" / "one"
    page.mkdir(parents=True)
    (page / "index.html").write_text(
        f'<a href="../../one-1.0-py3-none-any.whl#sha256={"a" * 64}">x</a>'
        f'<a href="../../one-1.0.tar.gz#sha256={"b" * 64}">x</a><a href="one-2.0.tar.gz#sha256={"c" * 64}">x</a>'
    )
    address = (tmp_path / "simple").as_uri()
    assert lock.hashes("one", "1.0", [address, address]) == ["a" * 64, "b" * 64]
    assert lock.hashes("another", "1.0", [address]) == []


def test_the_list_of_parts_is_the_lock_and_the_same_every_time():
    document = sbom.document(LOCKED)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert {one["name"]: one["version"] for one in document["components"]} == PINNED
    assert document == sbom.document(LOCKED)
    changed = sbom.document(LOCKED.replace("aiohttp==", "aiohttq==", 1))
    assert document["serialNumber"] != changed["serialNumber"]


def test_an_audit_without_a_database_says_so(monkeypatch, capsys):
    monkeypatch.setattr(
        audit, "auditor", lambda: [sys.executable, "-c", "import sys; sys.exit('no network')"]
    )
    assert audit.main([]) == 0
    assert "not audited: no database of vulnerabilities can be reached" in capsys.readouterr().err
    assert audit.main(["--require"]) == 2
    answer = '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1"}]}]}'
    monkeypatch.setattr(audit, "auditor", lambda: [sys.executable, "-c", f"print('''{answer}''')"])
    assert audit.main([]) == 1
    assert "a 1: PYSEC-1" in capsys.readouterr().out


def test_the_job_that_looks_ahead_drops_bounds_at_majors_only():
    asked = newest.requirements(
        'dependencies = [\n "a>=1.2,<3",\n "b>=1,<1.4",\n]\ndev = ["c==1", "d>=2,<3; x"]\n', ("dev",)
    )
    assert asked == ["a>=1.2", "b>=1,<1.4", "c==1", "d>=2; x"]


def test_the_documentation_tells_where_every_model_file_comes_from():
    page = (ROOT / "docs" / "how-to" / "locked-installs.md").read_text(encoding="utf-8")
    for entry in CATALOGUE.values():
        assert f"`{entry.sha256[:12]}`" in page
        first = entry.parts[0].requirement.partition("==")
        assert f"`{first[0]}`" in page
        assert first[2] in page
        if entry.url is not None:
            assert entry.url.removeprefix("https://").partition("/resolve")[0] in page
