"""Every write, sync, rename and open of a small run fails once, at each point in turn; then the run resumes."""

import errno
import json

import pytest

import pcsuite as pcs
from pcsuite.cli import main
from pcsuite.errors import Exit
from pcsuite.logging.audit import audit_log
from pcsuite.logging.log import RunPaths
from pcsuite.logging.segments import read_log_lines
from support.fault_injection import InjectedFaults
from support.profiles import SIMULATED, write_profile

ERRORS = [errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES]
ROWS = 4


def profile_in(folder):
    folder.mkdir()
    return write_profile(
        folder,
        {"sim": SIMULATED},
        conditions=("C0", "C3"),
        regimes=("D0",),
        items=2,
        repro={"max_inflight": 1},
        # A closed file every two rows or so: renames, new files and compression are tried too.
        run={
            "name": "t",
            "output_dir": str(folder / "outputs"),
            "cache_dir": str(folder / "cache"),
            "rotate_log_mb": 0.003,
        },
    )


def content(paths):
    """The rows by run id, less what differs between runs of the same unit; each run id once."""
    rows = {}
    for line in read_log_lines(paths.log):
        row = json.loads(line)
        for volatile in ("timestamp_utc", "checksum", "profile", "git_commit", "config_hash"):
            row.pop(volatile)
        row["generation"].pop("latency_ms")
        assert row["run_id"] not in rows, "a row is there twice"
        rows[row["run_id"]] = row
    return rows


def run(profile):
    return main(["run", "--quiet", "--no-cache", "--config", str(profile)])


def resume(profile):
    """Go on with the run as the command does, less the table of results, which takes four times as long as the rows."""
    assert pcs.run(profile, quiet=True, use_cache=False).summary.tally.failed == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the run comes to, and how many operations it makes."""
    folder = tmp_path_factory.mktemp("undisturbed") / "w"
    profile = profile_in(folder)
    with InjectedFaults(folder / "outputs") as faults:
        assert run(profile) == Exit.DONE
    kinds = {operation.split()[0] for operation in faults.operations}
    assert kinds >= {"open", "write", "sync", "rename"}
    rows = content(RunPaths.of(folder / "outputs", "t"))
    assert len(rows) == ROWS
    return rows, len(faults.operations)


@pytest.mark.slow
@pytest.mark.parametrize("number", ERRORS, ids=lambda number: errno.errorcode[number])
def test_every_operation_fails_once(tmp_path, capsys, undisturbed, number):
    rows, operations = undisturbed
    told = {}
    for fail_at in range(1, operations + 1):
        folder = tmp_path / str(fail_at)
        profile = profile_in(folder)
        with InjectedFaults(folder / "outputs", fail_at, number) as faults:
            status = run(profile)
        shown = capsys.readouterr().err
        where = f"{errno.errorcode[number]} at {fail_at}: {faults.failed}\n{shown}"
        if faults.failed is None:  # the threads took another order and had less to do
            assert status == Exit.DONE, where
        assert status in (Exit.DONE, Exit.BAD_INPUT), where
        assert "Traceback" not in shown, where
        # Every row is there, and the table at the end of a run could not be made of them: that is said.
        stands = not shown or shown.startswith("pcsuite: no result table: ")
        assert shown.count("\n") == (1 if shown else 0), where
        assert status or stands, where
        told[faults.failed] = shown
        paths = RunPaths.of(folder / "outputs", "t")
        resume(profile)
        assert content(paths) == rows, where
        assert audit_log(paths).problems == [], where
    assert any(told.values())


@pytest.mark.slow
def test_an_operation_fails_while_it_resumes(tmp_path, capsys, undisturbed):
    rows, operations = undisturbed
    for fail_at in range(1, operations + 1, 3):
        folder = tmp_path / str(fail_at)
        profile = profile_in(folder)
        for moment, number in (
            (operations // 2, errno.EIO),
            (fail_at, errno.ENOSPC),
            (fail_at + 1, errno.EACCES),
        ):
            with InjectedFaults(folder / "outputs", moment, number):
                assert run(profile) in (Exit.DONE, Exit.BAD_INPUT)
            assert "Traceback" not in capsys.readouterr().err
        resume(profile)
        assert content(RunPaths.of(folder / "outputs", "t")) == rows, fail_at
