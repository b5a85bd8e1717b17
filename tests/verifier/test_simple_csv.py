import pytest

from pcsuite.errors import DataError
from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.truth import parse_truth

INVOICE = """
record: free
not_given: ["", n/a]
tolerances: {default: {relative: 0.0, absolute: 0.005}}
fields:
  - {label: Invoice Number, path: number, type: text}
  - {label: Total (EUR), path: total, type: number}
  - {label: Paid, path: paid, type: boolean}
  - {path: tags, type: text_list}
tables:
  - path: lines
    columns:
      - {path: name, type: text}
      - {path: quantity, type: integer}
"""


@pytest.fixture
def mapping(tmp_path):
    path = tmp_path / "invoice.yaml"
    path.write_text(INVOICE)
    return load_mapping(path)


WANTED = {"number": "0042", "total": 119.5, "paid": False}


def test_long_by_label_or_path(mapping):
    data = b"Field,Value\nInvoice Number,0042\ntotal,119.50\nPaid,No\n"
    assert parse_truth(data, mapping).record == WANTED


def test_wide(mapping):
    data = b"number,Total (EUR),paid,tags\n0042,119.50,No,\n"
    assert parse_truth(data, mapping).record == WANTED


def test_both_forms_have_the_same_hash(mapping):
    long = parse_truth(b"field,value\nnumber,1\npaid,yes\n", mapping)
    wide = parse_truth(b"number,paid\n1,yes\n", mapping)
    assert long.content_hash == wide.content_hash


def test_lists_by_index_and_by_name(mapping):
    data = b"field,value\nlines[0].name,Tea\nlines[0].quantity,3\nlines[name=Cup].quantity,1\ntags,a; b\n"
    record = parse_truth(data, mapping).record
    assert record == {
        "lines": [{"name": "Tea", "quantity": 3}, {"name": "Cup", "quantity": 1}],
        "tags": ["a", "b"],
    }
    extracted = {
        "lines": [{"name": "Cup", "quantity": 1}, {"name": "Tea", "quantity": 4}],
        "tags": ["b", "a"],
    }
    counts = compare_records(record, extracted, mapping).counts
    assert (counts.matches, counts.wrong_value) == (5, 1)


def test_buildingspec_truth_may_be_simple_too():
    data = b"field,value\nClimate Zone,7\nwindows[name=101].u_factor,.30\n"
    assert parse_truth(data, load_mapping()).record == {
        "project": {"climate_zone": 7},
        "windows": [{"name": "101", "u_factor": 0.3}],
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"field,value\nTotl,3\n", "row 2: unknown field 'Totl'"),
        (b"field,value\ntotal,abc\n", "row 2: total: 'abc' is not a number"),
        (b"field,value\ntotal,1\ntotal,2\n", "row 3: field 'total' is given again"),
        (b"number,colour\n1,red\n", "unknown field 'colour'"),
        (b"field,value\nlines[99999999].name,x\n", "beyond"),
        (b"field,value\nlines[0],x\n", "unknown field"),
    ],
)
def test_errors(mapping, data, words):
    with pytest.raises(DataError) as caught:
        parse_truth(data, mapping, "t.csv")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
