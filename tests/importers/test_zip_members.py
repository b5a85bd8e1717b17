import zipfile

import pytest

from pcsuite.errors import DataError
from pcsuite.importers.zip_members import ZipMembers
from support.import_logs import FIXTURES, repacked, zip_of_frames

zstandard = pytest.importorskip("zstandard")


def read(path, name):
    with ZipMembers(path) as members:
        return members.read(name)


def test_zstandard_members_are_read():
    with zipfile.ZipFile(FIXTURES / "odd.eval") as plain:
        assert {info.compress_type for info in plain.infolist()} == {93}
    assert read(FIXTURES / "odd.eval", "header.json").startswith(b'{"version":2')


def test_members_of_several_frames_are_read_whole(tmp_path):
    parts = [b'{"a": "' + b"x" * 5000, b"y" * 5000 + b'"}']
    frames = [zstandard.ZstdCompressor().compress(part) for part in parts]
    path = zip_of_frames(tmp_path / "frames.eval", "samples/1_epoch_1.json", frames, b"".join(parts))
    assert read(path, "samples/1_epoch_1.json") == b"".join(parts)


def test_a_wrong_checksum_and_a_cut_frame_are_named(tmp_path):
    frame = zstandard.ZstdCompressor().compress(b"something to read")
    wrong = zip_of_frames(tmp_path / "wrong.eval", "header.json", [frame], b"something to rea!")
    with pytest.raises(DataError, match=r"wrong.eval: member header.json is damaged \(checksum\)"):
        read(wrong, "header.json")
    garbled = zip_of_frames(tmp_path / "cut.eval", "header.json", [b"\x00" * 20], b"something to read")
    with pytest.raises(DataError, match=r"cut.eval: member header.json is damaged"):
        read(garbled, "header.json")


def test_deflate_and_the_last_of_equal_names(tmp_path):
    path = repacked(FIXTURES / "odd.eval", tmp_path / "older.eval")
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as added,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        added.writestr("header.json", b"the newer one")
    with ZipMembers(path) as members:
        assert members.read("header.json") == b"the newer one"
        assert members.names.count("header.json") == 1


def test_a_file_that_is_cut_off_is_one_line(tmp_path):
    path = tmp_path / "half.eval"
    path.write_bytes((FIXTURES / "odd.eval").read_bytes()[:2000])
    with pytest.raises(DataError, match=r"half.eval: not a whole zip file"):
        ZipMembers(path)
