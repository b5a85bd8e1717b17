import json
import zipfile
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcsuite.errors import DataError
from pcsuite.importers.documents import JsonDocument, ZipMembers
from support.import_logs import FIXTURES, repacked, zip_of_frames

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=12) | st.floats(allow_nan=True)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["version", "eval", "plan", "results", "stats", "error"])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("documents") / "log.json"


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    before=st.dictionaries(KEYS, VALUES, max_size=3),
    samples=st.lists(VALUES, max_size=4),
    after=st.dictionaries(st.just("reductions"), VALUES),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
)
def test_pieces_are_what_the_whole_document_says(path, before, samples, after, indent, ascii_only):
    document = {**before, "samples": samples, **after}
    path.write_text(json.dumps(document, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    opened = JsonDocument(path)
    values = {key: json.loads(text) for key, text in opened.values(without="samples").items()}
    elements = [json.loads(text) for text in opened.elements("samples")]
    opened.close()
    assert repr((values, elements)) == repr(({**before, **after}, samples))  # repr: NaN equals itself there


def test_a_document_that_ends_early_is_an_error(path):
    path.write_text('{"eval": {"task": "t"}, "samples": [{"id": 1}, {"id"')
    opened = JsonDocument(path)
    with pytest.raises(DataError, match="not whole"):
        opened.values(without="samples")
    opened.close()
    path.write_text("")
    with pytest.raises(DataError, match="the file is empty"):
        JsonDocument(path)


zstandard = pytest.importorskip("zstandard")


def read(path, name):
    with closing(ZipMembers(path)) as members:
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
    with closing(ZipMembers(path)) as members:
        assert members.read("header.json") == b"the newer one"
        assert members.names.count("header.json") == 1


def test_a_file_that_is_cut_off_is_one_line(tmp_path):
    path = tmp_path / "half.eval"
    path.write_bytes((FIXTURES / "odd.eval").read_bytes()[:2000])
    with pytest.raises(DataError, match=r"half.eval: not a whole zip file"):
        ZipMembers(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file is empty"),
        (b"hello\n", "neither a zip archive nor"),
        (b"\x89PNG", "neither a zip archive nor"),
    ],
)
def test_a_file_of_another_kind_is_named_for_what_it_is(tmp_path, content, problem):
    file = tmp_path / "log.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match=problem):
        JsonDocument(file)
