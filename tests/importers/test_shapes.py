import pytest

from pcsuite.errors import DataError
from pcsuite.importers.base import detect_format
from pcsuite.importers.shapes import FileShape, matching_files


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_the_first_record_of_lines_lists_and_documents(tmp_path):
    for name, content in (
        ("a.jsonl", b'{"x": 1}\n{"y": 2}\n'),
        ("b.json", b'[{"x": 1}]'),
        ("c.json", b'{"x": 1}'),
    ):
        assert FileShape.of(written(tmp_path, name, content)).record == {"x": 1}


def test_keys_are_seen_at_any_depth_and_only_in_json(tmp_path):
    shape = FileShape.of(written(tmp_path, "a.json", b'\xef\xbb\xbf{"a": [{"b\\"c": {"d": "e"}}]}'))
    assert shape.keys == {"a", 'b\\"c', "d"}
    assert FileShape.of(written(tmp_path, "a.csv", b'x,"y":1')).keys == frozenset()


def test_a_folder_passes_over_what_cannot_be_read(tmp_path):
    written(tmp_path, "blank.json", b"  \n")
    (tmp_path / "folder.json").mkdir()
    known = written(tmp_path, "known.json", b'{"yes": 1}')
    assert matching_files(tmp_path, lambda shape: shape.has("yes")) == [known]
    with pytest.raises(DataError, match="of no format"):
        detect_format(tmp_path)


def test_an_empty_file_is_told(tmp_path):
    with pytest.raises(DataError, match="the file is empty"):
        detect_format(written(tmp_path, "a.json", b" "))
