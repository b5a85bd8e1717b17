"""Looks are kept whole, read back in order, and a torn line is worked out again."""

import msgspec

from pcsuite.logging.looks import ArmKey, Look, LooksFile, last_looks, read_looks
from pcsuite.logging.segments import Beside

FIRST = Look(
    "t", "m", "D0", "C3", "C0", "task_score", 10, 9, 0.25, -0.1, 0.6, 0.975, 0.2, None, "undecided", False
)
SECOND = msgspec.structs.replace(FIRST, visited=20, items=18, low=0.02, verdict="better", stopped=True)


def test_looks_are_read_back_in_order(tmp_path):
    log = tmp_path / "r.jsonl"
    assert read_looks(log) == []
    file = LooksFile(log, fresh=True)
    file.append(FIRST)
    file.append(SECOND)
    file.close()
    assert Beside.LOOKS.of(log) == tmp_path / "r.looks.ndjson"
    assert read_looks(log) == [FIRST, SECOND]
    assert last_looks(read_looks(log)) == {ArmKey("t", "m", "D0", "C3", "C0"): SECOND}


def test_a_torn_line_is_cut_off(tmp_path):
    log = tmp_path / "r.jsonl"
    file = LooksFile(log, fresh=True)
    file.append(FIRST)
    file.close()
    with Beside.LOOKS.of(log).open("ab") as stream:
        stream.write(b'{"task":"t","mod')
    assert read_looks(log) == [FIRST]
    file = LooksFile(log, fresh=False)
    assert file.earlier == [FIRST]
    file.append(SECOND)
    file.close()
    assert read_looks(log) == [FIRST, SECOND]


def test_looks_of_a_log_set_aside_are_set_aside(tmp_path):
    log = tmp_path / "r.jsonl"
    for _ in range(2):
        file = LooksFile(log, fresh=True)
        file.append(FIRST)
        file.close()
    assert (tmp_path / "r.old-1.looks.ndjson").is_file()
    assert read_looks(log) == [FIRST]
