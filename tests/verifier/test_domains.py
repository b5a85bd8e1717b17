"""Invoices, CVs and laboratory forms: one change to the first of twenty records, and the verdict worked out by hand.

The records are invented (``scripts/make_domain_samples.py``). The first invoice has 32 compared values: 8 of its own, 2 tags,
three lines of 6, two discounts of 2. The first CV has 42: 5 of its own, 3 skills, three jobs of 5 with 5 duties and two
projects of 2, two degrees of 3, two languages of 2. The first form has 37: 8 of its own, 3 pulses, 2 codes, two panels of 2,
four results of 5.
"""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest

import pcsuite.data
from pcsuite.verifier.compare import compare_records
from pcsuite.verifier.mapping import load_mapping
from pcsuite.verifier.results import read_rules, score_bytes, score_file
from support.changes import added, all_of, each, edited, exchanged, gone, put

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = Path(pcsuite.data.__file__).parent / "samples" / "domains"
FIELDS = {"invoices": 32, "cvs": 42, "labs": 37}
TRUTHS = {"invoices": "ground_truth.csv", "cvs": "ground_truth.jsonl", "labs": "ground_truth.json"}
KETTLE = "lines.2"
NEW_LINE = {"item": "Tin drum", "sku": "TD-9", "qty": 2, "unit_price": 1.0, "vat_rate": 19, "net": 2.0}
NEW_JOB = {
    "employer": "Ember Textiles",
    "title": "Cook",
    "start": "2001-02",
    "end": "2002-02",
    "city": "Gera",
}
NEW_RESULT = {"test": "LDL cholesterol", "value": 1.0, "unit": "mg/dL", "limit": "3 mg/L", "flag": "low"}

# id, change, (omission, hallucination, format error, wrong value)
INVOICES = [
    ("perfect", all_of(), (0, 0, 0, 0)),
    # identifiers: letters and digits alone
    ("number in small letters", put("number", "inv 2026/0001"), (0, 0, 0, 0)),
    ("vat without blanks", put("seller.vat", "DE123456789"), (0, 0, 0, 0)),
    ("vat of another firm", put("seller.vat", "DE123456788"), (0, 0, 0, 1)),
    ("vat a list", put("seller.vat", ["DE123456789"]), (0, 0, 1, 0)),
    # dates, day first
    ("issued with points", put("issued", "01.03.2026"), (0, 0, 0, 0)),
    ("issued with slashes", put("issued", "1/3/2026"), (0, 0, 0, 0)),
    ("issued in words", put("issued", "March 1st, 2026"), (0, 0, 0, 0)),
    ("issued in January", put("issued", "3/1/2026"), (0, 0, 0, 1)),
    ("issued without its day", put("issued", "2026-03"), (0, 0, 0, 1)),
    ("issued on no day", put("issued", "31.02.2026"), (0, 0, 1, 0)),
    ("issued a number", put("issued", 20260301), (0, 0, 1, 0)),
    ("issued missing", gone("issued"), (1, 0, 0, 0)),
    # an enum
    ("status a synonym", put("status", "Unpaid"), (0, 0, 0, 0)),
    ("status another", put("status", "settled"), (0, 0, 0, 1)),
    ("status none of them", put("status", "pending"), (0, 0, 0, 1)),
    ("status a boolean", put("status", True), (0, 0, 1, 0)),
    # fuzzy text: 'Provisons' is 0.98 alike, 'Larkspur GmbH' is not 0.9
    ("seller misspelt", put("seller.name", "Larkspur and Finch Provisons GmbH"), (0, 0, 0, 0)),
    ("seller cut", put("seller.name", "Larkspur GmbH"), (0, 0, 0, 1)),
    ("buyer misspelt", put("buyer", "Quary Lane School"), (0, 0, 0, 1)),
    # money: to the cent, whatever the form
    ("total as text", put("total", "1.234,50 €"), (0, 0, 0, 0)),
    ("total with a code", put("total", "EUR 1,234.50"), (0, 0, 0, 0)),
    ("total an object", put("total", {"amount": 1234.5, "currency": "EUR"}), (0, 0, 0, 0)),
    ("total a cent off", put("total", 1234.51), (0, 0, 0, 1)),
    ("total in dollars", put("total", "$1,234.50"), (0, 0, 0, 1)),
    ("total in words", put("total", "about a thousand"), (0, 0, 1, 0)),
    # percent
    ("rate as a fraction", put("lines.0.vat_rate", 0.07), (0, 0, 0, 1)),
    ("rate with its sign", put("lines.0.vat_rate", "7,0 %"), (0, 0, 0, 0)),
    # a set of texts
    ("tags in another order, one twice", put("tags", ["urgent", "EXPORT", "urgent"]), (0, 0, 0, 0)),
    ("a tag missing", put("tags", ["export"]), (1, 0, 0, 0)),
    ("tags a text", put("tags", "export|urgent"), (0, 0, 2, 0)),
    # lines, paired by item
    ("lines reversed", edited("lines", lambda lines: lines[::-1]), (0, 0, 0, 0)),
    ("juice gone, zinc longer",
     edited("lines", lambda lines: [{**lines[1], "item": "Zinc tablets 30 pcs"}, lines[2]]), (6, 0, 0, 1)),
    ("zinc misspelt", put("lines.1.item", "Zink tablets"), (0, 0, 0, 1)),
    ("kettle of another size", put(f"{KETTLE}.item", "Copper kettle 3 l"), (0, 0, 0, 1)),
    ("kettle gone", gone(KETTLE), (10, 0, 0, 0)),
    ("a line invented", added("lines", NEW_LINE), (0, 6, 0, 0)),
    ("a line in place of juice", put("lines.0", NEW_LINE), (6, 6, 0, 0)),
    ("quantities exchanged", exchanged("lines.0.qty", f"{KETTLE}.qty"), (0, 0, 0, 2)),
    ("quantity with its unit", put(f"{KETTLE}.qty", "12 pcs"), (0, 0, 1, 0)),
    # discounts inside a line
    ("discounts reversed", edited(f"{KETTLE}.discounts", lambda some: some[::-1]), (0, 0, 0, 0)),
    ("a discount renamed", put(f"{KETTLE}.discounts.0.reason", "Volume (10+)"), (0, 0, 0, 1)),
    ("a discount missing", gone(f"{KETTLE}.discounts.1"), (2, 0, 0, 0)),
    ("discounts an object", put(f"{KETTLE}.discounts", {"Volume": 44.0}), (0, 0, 4, 0)),
    ("a field nobody asked for", put("iban", "DE02 1203 0000"), (0, 1, 0, 0)),
    ("a stated confidence", put("confidence", 0.9), (0, 0, 0, 0)),
]  # fmt: skip
CVS = [
    ("perfect", all_of(), (0, 0, 0, 0)),
    ("name in capitals", put("name", "ILSE VANTERPOOL"), (0, 0, 0, 0)),
    ("name turned round", put("name", "Vanterpool, Ilse"), (0, 0, 0, 1)),
    # phones
    ("phone without its country", put("phone", "030 901820"), (0, 0, 0, 0)),
    ("phone of another country", put("phone", "+43 30 901820"), (0, 0, 0, 1)),
    ("phone a number", put("phone", 30901820), (0, 0, 1, 0)),
    # dates, by year and by month
    ("born on a day", put("born", "1984-07-02"), (0, 0, 0, 0)),
    ("born another year", put("born", "1985"), (0, 0, 0, 1)),
    ("born a number", put("born", 1984), (0, 0, 1, 0)),
    ("start with its day", put("jobs.0.start", "01.04.2016"), (0, 0, 0, 0)),
    ("start in words", put("jobs.0.start", "April 2016"), (0, 0, 0, 0)),
    ("start another month", put("jobs.0.start", "2016-05"), (0, 0, 0, 1)),
    ("end 'current'", put("jobs.0.end", "Current"), (0, 0, 0, 0)),
    ("end a date", put("jobs.0.end", "2026-01"), (0, 0, 0, 1)),
    ("end of another word", put("jobs.0.end", "open"), (0, 0, 1, 0)),
    ("end missing", put("jobs.1.end", None), (1, 0, 0, 0)),
    # the summary: fuzzy, 0.8
    ("summary reworded a little", edited("summary", lambda text: text.replace("full production", "production")), (0, 0, 0, 0)),
    ("summary of somebody else", put("summary", "Pastry cook with a love of marzipan."), (0, 0, 0, 1)),
    # skills, a set
    ("skills in another order", edited("skills", lambda some: some[::-1]), (0, 0, 0, 0)),
    ("a skill invented", added("skills", "Juggling"), (0, 1, 0, 0)),
    ("a skill misread", put("skills.1", "Distillation of spirits"), (0, 0, 0, 1)),
    # jobs, paired by employer and start
    ("jobs reversed", edited("jobs", lambda jobs: jobs[::-1]), (0, 0, 0, 0)),
    ("trainee gone", gone("jobs.1"), (6, 0, 0, 0)),
    ("engineer gone", gone("jobs.0"), (11, 0, 0, 0)),
    ("employer longer", put("jobs.2.employer", "Hollis Foods Ltd."), (0, 0, 0, 1)),
    ("employer misspelt", put("jobs.2.employer", "Holis Foods"), (0, 0, 0, 1)),
    ("employer another", put("jobs.2.employer", "Ember Textiles"), (0, 0, 0, 1)),
    ("starts of one employer exchanged", exchanged("jobs.0.start", "jobs.1.start"), (0, 0, 0, 2)),
    ("a job invented", added("jobs", NEW_JOB), (0, 5, 0, 0)),
    ("a job in place of the last", put("jobs.2", NEW_JOB), (7, 5, 0, 0)),
    ("jobs an object", edited("jobs", lambda jobs: jobs[0]), (0, 0, 24, 0)),
    ("titles exchanged", exchanged("jobs.0.title", "jobs.1.title"), (0, 0, 0, 2)),
    ("every city in capitals", each("jobs", "city", str.upper), (0, 0, 0, 0)),
    # lists inside jobs
    ("duties in another order", edited("jobs.0.duties", lambda some: some[::-1]), (0, 0, 0, 0)),
    ("a duty missing", gone("jobs.0.duties.1"), (1, 0, 0, 0)),
    ("a duty reworded", put("jobs.0.duties.0", "Plans the bottling line"), (0, 0, 0, 1)),
    ("a project's year", put("jobs.0.projects.0.year", 2019), (0, 0, 0, 1)),
    ("a project's year as text", put("jobs.0.projects.0.year", "2018"), (0, 0, 1, 0)),
    ("a project missing", gone("jobs.0.projects.1"), (2, 0, 0, 0)),
    ("a project at another job", all_of(gone("jobs.0.projects.1"),
     put("jobs.1.projects", [{"project": "Heat recovery", "year": 2021}])), (2, 2, 0, 0)),
    # education and languages
    ("a degree abbreviated", put("education.1.degree", "MSc"), (0, 0, 0, 0)),
    ("degrees of one school reversed", edited("education", lambda some: some[::-1]), (0, 0, 0, 0)),
    ("a degree missing", gone("education.0"), (3, 0, 0, 0)),
    ("a level one too high", put("languages.1.level", "C2"), (0, 0, 0, 1)),
    ("a language invented", added("languages", {"language": "Latin", "level": "A1"}), (0, 2, 0, 0)),
]  # fmt: skip
LABS = [
    ("perfect", all_of(), (0, 0, 0, 0)),
    ("patient id a number", put("patient.id", 99), (0, 0, 0, 1)),
    ("patient id with blanks", put("patient.id", "p 0099"), (0, 0, 0, 0)),
    ("born with points", put("patient.born", "5.11.1961"), (0, 0, 0, 0)),
    ("born with slashes that can mean two days", put("patient.born", "05/11/1961"), (0, 0, 1, 0)),
    ("born with slashes that cannot", put("collected", "2026/02/03"), (0, 0, 0, 0)),
    ("sex a letter", put("patient.sex", "F"), (0, 0, 0, 0)),
    ("sex another", put("patient.sex", "m"), (0, 0, 0, 1)),
    ("fasting 'yes'", put("fasting", "yes"), (0, 0, 1, 0)),
    ("fasting 'true'", put("fasting", "true"), (0, 0, 0, 0)),
    ("fasting not", put("fasting", False), (0, 0, 0, 1)),
    # quantities: 0.5 % of 71.5 kg is 0.36 kg, 157.6 lb are 71.49 kg, 98.6 degF are 37 degC
    ("weight in grams", put("weight", "71500 g"), (0, 0, 0, 0)),
    ("weight in pounds", put("weight", "157.6 lb"), (0, 0, 0, 0)),
    ("weight a number", put("weight", 71.5), (0, 0, 0, 0)),
    ("weight an object", put("weight", {"value": 71500, "unit": "g"}), (0, 0, 0, 0)),
    ("weight within", put("weight", "71.8 kg"), (0, 0, 0, 0)),
    ("weight beyond", put("weight", "72 kg"), (0, 0, 0, 1)),
    ("weight a length", put("weight", "71.5 cm"), (0, 0, 0, 1)),
    ("weight in words", put("weight", "normal"), (0, 0, 1, 0)),
    ("weight of no unit there is", put("weight", "71.5 stonne"), (0, 0, 1, 0)),
    ("fever in Fahrenheit", put("temperature", "98.6 degF"), (0, 0, 0, 0)),
    ("fever beyond", put("temperature", "37.1 °C"), (0, 0, 0, 1)),
    # numbers in order, codes in any
    ("pulses in another order", put("pulses", [64, 62, 71]), (0, 0, 0, 2)),
    ("the first pulse missing", put("pulses", [64, 71]), (1, 0, 0, 0)),
    ("a pulse more", put("pulses", [62, 64, 70, 71]), (0, 1, 0, 0)),
    ("a pulse as text", put("pulses", [62, "64", 71]), (0, 0, 1, 0)),
    ("pulses a text", put("pulses", "62, 64, 71"), (0, 0, 3, 0)),
    ("codes in another order", put("codes", ["i10", "e11.9"]), (0, 0, 0, 0)),
    ("a code more", added("codes", "Z00.0"), (0, 1, 0, 0)),
    # panels and their results
    ("panels reversed", edited("panels", lambda some: some[::-1]), (0, 0, 0, 0)),
    ("a panel longer", put("panels.0.panel", "Lipids, fasting"), (0, 0, 0, 1)),
    ("a panel missing", gone("panels.1"), (7, 0, 0, 0)),
    ("a specimen's synonym", all_of(put("panels.1.specimen", "EDTA blood")), (0, 0, 0, 1)),
    ("results reversed", edited("panels.0.results", lambda some: some[::-1]), (0, 0, 0, 0)),
    ("total cholesterol for cholesterol", put("panels.0.results.0.test", "Total cholesterol"), (0, 0, 0, 1)),
    ("a result missing", gone("panels.0.results.1"), (5, 0, 0, 0)),
    ("a result invented", added("panels.0.results", NEW_RESULT), (0, 5, 0, 0)),
    ("a result in the other panel", all_of(gone("panels.0.results.1"),
     added("panels.1.results", {"test": "Triglycerides", "value": 150.0, "unit": "mg/dL", "limit": "1500 mg/L", "flag": "n"})),
     (5, 5, 0, 0)),
    ("values exchanged", exchanged("panels.0.results.0.value", "panels.0.results.1.value"), (0, 0, 0, 2)),
    ("a value ten times too large", put("panels.0.results.0.value", 2120), (0, 0, 0, 1)),
    ("a value within", put("panels.0.results.0.value", 213), (0, 0, 0, 0)),
    ("a value with its unit", put("panels.0.results.0.value", "212 mg/dL"), (0, 0, 1, 0)),
    ("a unit another", put("panels.0.results.0.unit", "mmol/L"), (0, 0, 0, 1)),
    ("a limit converted", put("panels.0.results.0.limit", "200 mg/dL"), (0, 0, 0, 0)),
    ("a flag's synonym", put("panels.0.results.0.flag", "H"), (0, 0, 0, 0)),
    ("a flag another", put("panels.0.results.0.flag", "low"), (0, 0, 0, 1)),
]  # fmt: skip
DOMAINS = {"invoices": INVOICES, "cvs": CVS, "labs": LABS}
CASES = [(domain, name, *case) for domain, cases in DOMAINS.items() for name, *case in cases]


@pytest.fixture(scope="module", params=list(DOMAINS))
def domain(request):
    return request.param


@pytest.fixture(scope="module")
def evals():
    """Rules and perfect records of each domain."""
    loaded = {}
    for name in DOMAINS:
        rules = read_rules(
            SAMPLES / name / "batch" / TRUTHS[name], load_mapping(SAMPLES / name / "mapping.yaml")
        )
        text = (SAMPLES / name / "batch" / "extracted_perfect.jsonl").read_text(encoding="utf-8")
        loaded[name] = (rules, [json.loads(line) for line in text.splitlines()])
    return loaded


def test_every_domain_has_twenty_records_and_forty_cases(domain, evals):
    rules, records = evals[domain]
    assert len(records) == len(rules.truths) == 20
    assert len({case[0] for case in DOMAINS[domain]}) == len(DOMAINS[domain]) >= 40


def test_a_perfect_extraction_is_right_in_every_record(domain, evals):
    rules, _ = evals[domain]
    scored = score_file(SAMPLES / domain / "batch" / "extracted_perfect.jsonl", rules)
    assert scored.comparison.counts.f1 == 1.0
    assert [one.counts.f1 for one in scored.comparison.records] == [1.0] * 20
    assert scored.comparison.records[0].counts.matches == FIELDS[domain]


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [(case[0], case[2], case[3]) for case in CASES],
    ids=[f"{case[0]}: {case[1]}" for case in CASES],
)
def test_one_change(name, change, expected, evals):
    rules, records = evals[name]
    record = copy.deepcopy(records[0])
    change(record)
    truth = next(iter(rules.truths.values()))
    # As for a file with many records: what tells them apart is no field unless the mapping has it.
    record = {key: value for key, value in record.items() if key != "cv"}
    counts = compare_records(truth.record, record, rules.mapping, truth).counts
    assert tuple(counts.errors_by_type().values()) == expected
    omission, _, mistyped, wrong = expected
    assert counts.matches == FIELDS[name] - omission - mistyped - wrong


def test_a_change_to_one_record_touches_no_other(domain, evals):
    rules, records = evals[domain]
    changed = copy.deepcopy(records)
    key = rules.mapping.record_key
    changed[0] = {key: changed[0][key].upper()}
    data = "\n".join(json.dumps(record) for record in reversed(changed)).encode()
    scored = score_bytes(data, rules, "changed.jsonl", strict=True)
    first, *others = scored.comparison.records
    assert scored.notes == ()
    assert first.counts.matches == (0 if domain == "cvs" else 1)
    assert all(one.counts.f1 == 1.0 for one in others)


def test_the_known_mistakes_of_the_samples_are_the_ones_that_are_counted(domain, evals):
    rules, _ = evals[domain]
    batch = SAMPLES / domain / "batch"
    quality = json.loads((batch / "quality.json").read_text(encoding="utf-8"))
    assert score_file(batch / "extracted.jsonl", rules).comparison.counts.errors_by_type() == quality


@pytest.mark.subprocess
def test_the_committed_samples_are_what_the_script_writes(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "scripts.make_domain_samples", str(tmp_path)],
        cwd=ROOT,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(SAMPLES): path.read_bytes() for path in SAMPLES.rglob("*") if path.is_file()}
    assert made == kept
