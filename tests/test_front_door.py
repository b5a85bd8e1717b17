"""``import pcsuite as pcs``: instant, lazy, and with the names that the documentation gives."""

import subprocess
import sys

import pytest

import pcsuite as pcs
from test_cli import HEAVY

NAMES = {
    "Ablation", "PcsuiteError", "Planned", "Run", "__version__", "ablate", "arun", "check", "compare", "effects", "load",
    "plan",
    "prompt", "read", "rearrange", "report", "run", "verify",
}  # fmt: skip


def modules_after(code):
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    return set(output.splitlines())


def test_importing_it_pulls_in_nothing_heavy():
    loaded = modules_after("import pcsuite as pcs")
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY | {"asyncio", "polars", "pyarrow"})
    assert {name for name in loaded if name.startswith("pcsuite")} == {"pcsuite", "pcsuite.specified"}


def test_the_public_names_are_pinned_and_all_resolve():
    assert set(pcs.__all__) == NAMES
    assert {name for name in dir(pcs) if not name.startswith("__")} == NAMES - {"__version__"}
    for name in NAMES:
        assert getattr(pcs, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'runn'"):
        _ = pcs.runn


def test_report_is_a_function_whatever_was_imported_first():
    code = """
import pcsuite.reporting.build
import pcsuite as pcs
try:
    pcs.report([])
except pcs.PcsuiteError as error:
    print("SAID", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "SAID nothing to report on" in done.stdout
