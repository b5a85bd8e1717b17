"""The fixture logs are published with the repository: nothing of the machine that made them may be inside."""

import re
from contextlib import closing

import pytest

from pcsuite.importers.documents import ZipMembers
from support.import_logs import FIXTURES

LOGS = sorted(path for path in FIXTURES.rglob("*") if path.suffix in (".eval", ".json", ".jsonl"))
MACHINE = re.compile(
    rb'(?:^|["\s=(])(?:/(?:home|root|tmp|usr|opt|work|var|Users|mnt)/[^"\s]*)|[A-Z]:\\\\|file://'
    rb'|https?://(?!127\.0\.0\.1)[^"\s]*|"hostname"|site-packages'
)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_no_path_host_or_user_inside(path):
    if path.suffix != ".eval":
        assert MACHINE.findall(path.read_bytes()) == []
        return
    with closing(ZipMembers(path)) as members:
        for name in members.names:
            assert MACHINE.findall(members.read(name)) == [], name
