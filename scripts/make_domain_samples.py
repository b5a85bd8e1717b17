"""Write the evals of three domains besides buildings: invoices, CVs and laboratory forms, twenty invented records each.

Run from the repository root: ``python -m scripts.make_domain_samples [FOLDER]`` (default: the package's samples). The
first record of each domain is written by hand, since the tests work out by hand what one change to it costs; the others
are drawn from the lists below. ``extracted.jsonl`` is the truth with known mistakes, which ``quality.json`` counts;
``extracted_perfect.jsonl`` has none.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import random
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "src" / "pcsuite" / "data" / "samples" / "domains"
RECORDS = 20
Record = dict[str, Any]

INVOICES_MAPPING = """\
# Invoices: one CSV row for each line of an invoice (and each discount on it), extraction as JSON Lines.
version: "1.0"
record: free
record_key: number
tolerances:
  default: {absolute: 0.005}
fields:
  - {label: Invoice No, path: number, type: identifier}
  - {label: Issued, path: issued, type: date, day_first: true}
  - {label: Due, path: due, type: date, day_first: true}
  - {label: Status, path: status, type: enum, values: {paid: [settled, bezahlt], open: [unpaid, due], overdue: [late]}}
  - {label: Seller, path: seller.name, type: fuzzy, threshold: 0.9}
  - {label: Seller VAT, path: seller.vat, type: identifier}
  - {label: Buyer, path: buyer, type: text}
  - {label: Tags, path: tags, type: text_set, separator: "|"}
  - {label: Total, path: total, type: money, currency: EUR, weight: 3}
tables:
  - path: lines
    key: [item]
    columns:
      - {label: Item, path: item, type: text}
      - {label: SKU, path: sku, type: identifier}
      - {label: Qty, path: qty, type: integer}
      - {label: Unit price, path: unit_price, type: money, currency: EUR}
      - {label: VAT rate, path: vat_rate, type: percent}
      - {label: Net, path: net, type: money, currency: EUR}
  - path: lines[].discounts
    key: [reason]
    columns:
      - {label: Discount for, path: reason, type: text}
      - {label: Discount, path: amount, type: money, currency: EUR}
"""
CVS_MAPPING = """\
# CVs: truth and extraction as JSON Lines, one record a line.
version: "1.0"
record: free
record_key: cv
tolerances:
  default: {absolute: 0}
fields:
  - {path: name, type: text}
  - {path: email, type: text}
  - {path: phone, type: phone, region: DE}
  - {path: born, type: date, precision: year}
  - {path: summary, type: fuzzy, threshold: 0.8}
  - {path: skills, type: text_set}
tables:
  - path: jobs
    key: [employer, start]
    columns:
      - {path: employer, type: text}
      - {path: title, type: text}
      - {path: start, type: date, precision: month}
      - {path: end, type: date, precision: month, values: {present: [current, now, today]}}
      - {path: city, type: text}
      - {path: duties, type: text_list}
  - path: jobs[].projects
    key: [project]
    columns:
      - {path: project, type: text}
      - {path: year, type: integer}
  - path: education
    key: [school, degree]
    columns:
      - {path: school, type: text}
      - {path: degree, type: enum, values: {Bachelor: [BSc, BA], Master: [MSc, MA], Doctorate: [PhD, Dr.]}}
      - {path: year, type: integer}
  - path: languages
    key: language
    columns:
      - {path: language, type: text}
      - {path: level, type: enum, values: [A1, A2, B1, B2, C1, C2, native]}
"""
LABS_MAPPING = """\
# Laboratory forms: truth as a JSON list, extraction as JSON Lines; quantities are converted by pint (extra verify).
version: "1.0"
record: free
record_key: sample
tolerances:
  default: {relative: 0.005, absolute: 0.001}
  temperature: {absolute: 0.05}
fields:
  - {path: sample, type: identifier}
  - {path: patient.id, type: identifier}
  - {path: patient.born, type: date}
  - {path: patient.sex, type: enum, values: {female: [f, w, woman], male: [m, man]}}
  - {path: collected, type: date}
  - {path: fasting, type: boolean}
  - {path: weight, type: quantity, unit: kg}
  - {path: temperature, type: quantity, unit: degC, tolerance: temperature}
  - {path: pulses, type: number_list}
  - {path: codes, type: text_set}
tables:
  - path: panels
    key: panel
    columns:
      - {path: panel, type: text}
      - {path: specimen, type: enum, values: {serum: [], plasma: [], urine: [], whole blood: [blood, edta blood]}}
  - path: panels[].results
    key: [test]
    columns:
      - {path: test, type: text}
      - {path: value, type: number}
      - {path: unit, type: text}
      - {path: limit, type: quantity, unit: mg/L}
      - {path: flag, type: enum, values: {normal: [n, ok], high: [h, "+"], low: [l, "-"]}}
"""

FIRST_INVOICE: Record = {
    "number": "INV-2026-0001",
    "issued": "2026-03-01",
    "due": "2026-03-31",
    "status": "open",
    "seller": {"name": "Larkspur & Finch Provisions GmbH", "vat": "DE 123 456 789"},
    "buyer": "Quarry Lane School",
    "tags": ["export", "urgent"],
    "total": 1234.5,
    "lines": [
        {"item": "Apple juice", "sku": "AJ-100", "qty": 1, "unit_price": 5.0, "vat_rate": 7.0, "net": 5.0},
        {"item": "Zinc tablets", "sku": "ZT-30", "qty": 1, "unit_price": 5.0, "vat_rate": 7.0, "net": 5.0},
        {
            "item": "Copper kettle 2 l",
            "sku": "CK-002",
            "qty": 12,
            "unit_price": 90.0,
            "vat_rate": 19.0,
            "net": 1026.0,
            "discounts": [{"reason": "Volume", "amount": 44.0}, {"reason": "Early order", "amount": 10.0}],
        },
    ],
}
FIRST_CV: Record = {
    "cv": "cv-001",
    "name": "Ilse Vanterpool",
    "email": "ilse@vanterpool.example",
    "phone": "+49 30 901820",
    "born": "1984",
    "summary": "Process engineer who moves pilot plants to full production and trains the crews that run them.",
    "skills": ["Python", "Distillation", "Welding"],
    "jobs": [
        {
            "employer": "Marlow Brewing",
            "title": "Process engineer",
            "start": "2016-04",
            "end": "present",
            "city": "Bremen",
            "duties": ["Plans the brewing line", "Trains new staff"],
            "projects": [{"project": "Cold store", "year": 2018}, {"project": "Heat recovery", "year": 2021}],
        },
        {
            "employer": "Marlow Brewing",
            "title": "Trainee",
            "start": "2014-09",
            "end": "2016-03",
            "city": "Bremen",
            "duties": ["Kept the laboratory log"],
        },
        {
            "employer": "Hollis Foods",
            "title": "Laboratory assistant",
            "start": "2010-01",
            "end": "2014-08",
            "city": "Kiel",
            "duties": ["Sampled milk", "Calibrated scales"],
        },
    ],
    "education": [
        {"school": "University of Eastmere", "degree": "Bachelor", "year": 2007},
        {"school": "University of Eastmere", "degree": "Master", "year": 2009},
    ],
    "languages": [{"language": "German", "level": "native"}, {"language": "English", "level": "C1"}],
}
FIRST_FORM: Record = {
    "sample": "L-26-00417",
    "patient": {"id": "P-0099", "born": "1961-11-05", "sex": "female"},
    "collected": "2026-02-03",
    "fasting": True,
    "weight": "71.5 kg",
    "temperature": "37.0 degC",
    "pulses": [62, 64, 71],
    "codes": ["E11.9", "I10"],
    "panels": [
        {
            "panel": "Lipids",
            "specimen": "serum",
            "results": [
                {
                    "test": "Cholesterol",
                    "value": 212.0,
                    "unit": "mg/dL",
                    "limit": "2000 mg/L",
                    "flag": "high",
                },
                {
                    "test": "Triglycerides",
                    "value": 150.0,
                    "unit": "mg/dL",
                    "limit": "1500 mg/L",
                    "flag": "normal",
                },
                {
                    "test": "HDL cholesterol",
                    "value": 48.0,
                    "unit": "mg/dL",
                    "limit": "400 mg/L",
                    "flag": "normal",
                },
            ],
        },
        {
            "panel": "Glucose",
            "specimen": "plasma",
            "results": [
                {
                    "test": "Fasting glucose",
                    "value": 98.0,
                    "unit": "mg/dL",
                    "limit": "1000 mg/L",
                    "flag": "normal",
                }
            ],
        },
    ],
}

GOODS = (
    "Barley flour", "Beeswax candles", "Brass hinges", "Cedar boards", "Chalk crayons", "Clay pots", "Cork mats",
    "Felt slippers", "Glass jars", "Hemp rope", "Honey comb", "Ink bottles", "Iron nails", "Linen sheets",
    "Oat flakes", "Paper rolls", "Pine resin", "Rye bread", "Sea salt", "Slate tiles", "Tin whistles", "Walnut oil",
    "Wool yarn",
)  # fmt: skip
FIRMS = (
    "Alder Trading GmbH",
    "Brookside Supplies AG",
    "Cobalt Wares KG",
    "Dunlin & Sons GmbH",
    "Elmcroft Goods AG",
)
BUYERS = (
    "Harbour Clinic",
    "Millpond Theatre",
    "Northgate Library",
    "Orchard Hotel",
    "Penrose Museum",
    "Ridge Nursery",
)
REASONS = ("Volume", "Early order", "Damaged box", "Loyalty")
FIRST_NAMES = (
    "Ada",
    "Bruno",
    "Carla",
    "Dirk",
    "Esme",
    "Florian",
    "Greta",
    "Henrik",
    "Ines",
    "Jonas",
    "Karin",
    "Linus",
)
LAST_NAMES = (
    "Abelmann",
    "Brightwater",
    "Castellane",
    "Drosselmeyer",
    "Eisenhut",
    "Fairweather",
    "Gravenor",
    "Hartwig",
)
EMPLOYERS = ("Aster Optics", "Beacon Freight", "Cinder Works", "Delta Gardens", "Ember Textiles", "Foxglove Press",
             "Granite Bank", "Heron Airways")  # fmt: skip
TITLES = ("Analyst", "Bookkeeper", "Buyer", "Designer", "Fitter", "Planner", "Team lead", "Translator")
CITIES = ("Aachen", "Bonn", "Celle", "Dessau", "Emden", "Fulda", "Gera", "Hamm")
DUTIES = (
    "Answered enquiries",
    "Checked deliveries",
    "Drew plans",
    "Kept accounts",
    "Led a crew of six",
    "Wrote reports",
)
PROJECTS = ("Blue line", "Dockside", "Green roof", "Night shift", "Paperless", "Riverbank")
SKILLS = (
    "Accounting",
    "Carpentry",
    "Drafting",
    "Excel",
    "First aid",
    "Forklift",
    "Rhetoric",
    "SQL",
    "Statistics",
)
SCHOOLS = ("Eastmere College", "Westhaven University", "Institute of Trades", "Northern Academy")
TESTS = {
    "Lipids": (
        "serum",
        ("Cholesterol", 120, 260, 2000),
        ("Triglycerides", 60, 240, 1500),
        ("HDL cholesterol", 30, 80, 400),
    ),
    "Glucose": ("plasma", ("Fasting glucose", 70, 140, 1000), ("Glucose after two hours", 90, 200, 1400)),
    "Kidney": ("serum", ("Creatinine", 0.5, 2.0, 12), ("Urea", 15, 60, 500), ("Uric acid", 2, 9, 70)),
    "Iron": ("plasma", ("Iron", 0.4, 1.8, 1.6), ("Ferritin", 0.01, 0.4, 0.3)),
}


def invoice(number: int, rng: random.Random) -> Record:
    """An invoice with two to five lines, some of them with discounts."""
    lines = []
    for item in rng.sample(GOODS, rng.randint(2, 5)):
        qty, price = rng.randint(1, 40), rng.randint(100, 9_900) / 100
        line: Record = {
            "item": item,
            "sku": f"{item[:2].upper()}-{rng.randint(100, 999)}",
            "qty": qty,
            "unit_price": price,
            "vat_rate": rng.choice((7.0, 19.0)),
        }
        off = [
            {"reason": reason, "amount": rng.randint(100, 900) / 100}
            for reason in rng.sample(REASONS, rng.choice((0, 0, 1, 2)))
        ]
        line["net"] = round(qty * price - sum(one["amount"] for one in off), 2)
        lines.append(line | ({"discounts": off} if off else {}))
    month, day = rng.randint(1, 11), rng.randint(1, 28)
    total = sum(line["net"] * (1 + line["vat_rate"] / 100) for line in lines)
    return {
        "number": f"INV-2026-{number:04d}",
        "issued": f"2026-{month:02d}-{day:02d}",
        "due": f"2026-{month + 1:02d}-{day:02d}",
        "status": rng.choice(("paid", "open", "overdue")),
        "seller": {"name": rng.choice(FIRMS), "vat": f"DE {rng.randint(100_000_000, 999_999_999)}"},
        "buyer": rng.choice(BUYERS),
        "tags": sorted(rng.sample(("export", "fragile", "repeat", "urgent"), rng.randint(1, 3))),
        "total": round(total, 2),
        "lines": lines,
    }


def cv(number: int, rng: random.Random) -> Record:
    """A CV with two to four jobs, one after the other."""
    name = f"{FIRST_NAMES[number % len(FIRST_NAMES)]} {rng.choice(LAST_NAMES)}"
    jobs: list[Record] = []
    year = rng.randint(2002, 2008)
    for employer in rng.sample(EMPLOYERS, rng.randint(2, 4)):
        length = rng.randint(1, 4)
        job: Record = {
            "employer": employer,
            "title": rng.choice(TITLES),
            "start": f"{year}-{rng.randint(1, 12):02d}",
            "end": f"{year + length}-{rng.randint(1, 12):02d}",
            "city": rng.choice(CITIES),
            "duties": rng.sample(DUTIES, rng.randint(1, 3)),
        }
        projects = [
            {"project": project, "year": year + rng.randint(0, length)}
            for project in rng.sample(PROJECTS, rng.choice((0, 1, 2)))
        ]
        jobs.insert(0, job | ({"projects": projects} if projects else {}))
        year += length + 1
    return {
        "cv": f"cv-{number:03d}",
        "name": name,
        "email": f"{name.split()[0].lower()}{number}@post.example",
        "phone": f"+49 40 {rng.randint(200_000, 999_999)}",
        "born": str(rng.randint(1965, 1984)),
        "summary": f"{rng.choice(TITLES)} with {rng.randint(5, 20)} years of work in {rng.choice(CITIES)}, looking for"
        f" a place that needs {rng.choice(SKILLS).lower()} and patience.",
        "skills": rng.sample(SKILLS, rng.randint(2, 4)),
        "jobs": jobs,
        "education": [
            {"school": rng.choice(SCHOOLS), "degree": degree, "year": 1998 + offset}
            for offset, degree in enumerate(("Bachelor", "Master")[: rng.randint(1, 2)])
        ],
        "languages": [
            {"language": "German", "level": "native"},
            *(
                {"language": one, "level": rng.choice(("B1", "B2", "C1"))}
                for one in rng.sample(("English", "French"), 1)
            ),
        ],
    }


def form(number: int, rng: random.Random) -> Record:
    """A laboratory form with one to three panels."""
    panels = []
    for panel in rng.sample(sorted(TESTS), rng.randint(1, 3)):
        specimen, *tests = TESTS[panel]
        results = []
        for test, low, high, limit in tests:
            value = round(rng.uniform(low, high), 1 if high > 20 else 3)
            flag = "high" if value * 10 > limit else "normal"
            results.append(
                {"test": test, "value": value, "unit": "mg/dL", "limit": f"{limit} mg/L", "flag": flag}
            )
        panels.append({"panel": panel, "specimen": specimen, "results": results})
    return {
        "sample": f"L-26-{400 + 7 * number:05d}",
        "patient": {
            "id": f"P-{rng.randint(100, 9_999):04d}",
            "born": f"{rng.randint(1940, 2004)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            "sex": rng.choice(("female", "male")),
        },
        "collected": f"2026-{rng.randint(1, 9):02d}-{rng.randint(1, 28):02d}",
        "fasting": rng.random() < 0.7,
        "weight": f"{rng.randint(480, 990) / 10} kg",
        "temperature": f"{rng.randint(360, 385) / 10} degC",
        "pulses": [rng.randint(55, 95) for _ in range(3)],
        "codes": rng.sample(("E11.9", "I10", "E78.0", "N18.3", "Z00.0"), rng.randint(1, 2)),
        "panels": panels,
    }


def damage(domain: str, record: Record, rng: random.Random) -> tuple[Record, dict[str, int]]:
    """A record as a model might extract it, and the errors that it has by type.

    It is written in another form where the mapping says that forms are the same, and then one to three things in it
    are wrong.
    """
    result = copy.deepcopy(record)
    errors = dict.fromkeys(("omission", "hallucination", "format_error", "wrong_value"), 0)
    chosen = rng.sample(range(4), rng.choice((0, 1, 1, 2)))
    if domain == "invoices":
        result["issued"] = "{2}.{1}.{0}".format(*record["issued"].split("-"))
        result["number"] = record["number"].lower()
        result["total"] = f"{record['total']:.2f} EUR"
        rng.shuffle(result["lines"])
        if 0 in chosen:
            result["total"], errors["wrong_value"] = record["total"] + 10, 1
        if 1 in chosen:
            gone = result["lines"].pop()
            errors["omission"] += 6 + 2 * len(gone.get("discounts", ()))
        if 2 in chosen:
            result["lines"][0]["qty"] = f"{result['lines'][0]['qty']} pcs"
            errors["format_error"] += 1
        if 3 in chosen:
            result["tags"].append("checked")
            errors["hallucination"] += 1
        result["confidence"] = 0.95 if not chosen else 0.7
    elif domain == "cvs":
        result["skills"] = [skill.upper() for skill in record["skills"]]
        if 0 in chosen:
            result["jobs"][0]["start"], errors["wrong_value"] = "1999-01", 1
        if 1 in chosen:
            del result["education"][-1]
            errors["omission"] += 3
        if 2 in chosen:
            result["born"] = int(record["born"])
            errors["format_error"] += 1
        if 3 in chosen:
            result["languages"].append({"language": "Latin", "level": "A1"})
            errors["hallucination"] += 2
        result["confidence"] = 0.9
    else:
        result["weight"] = f"{round(1000 * float(record['weight'].split()[0]))} g"
        result["patient"]["sex"] = record["patient"]["sex"][0]
        if 0 in chosen:
            result["panels"][0]["results"][0]["value"] *= 10
            errors["wrong_value"] += 1
        if 1 in chosen:
            del result["panels"][0]["results"][-1]
            errors["omission"] += 5
        if 2 in chosen:
            result["fasting"] = "yes"
            errors["format_error"] += 1
        if 3 in chosen:
            result["codes"].append("R99")
            errors["hallucination"] += 1
        result["confidence"] = {"fasting": 0.6, "value": 0.9, "codes": 0.5}
        if 0 in chosen and 1 in chosen and len(record["panels"][0]["results"]) == 1:
            raise AssertionError("the first panel has one result alone")
    return result, errors


def invoices_csv(records: list[Record]) -> str:
    """The invoices as a table: a row for each line, and a further one for each discount after the first."""
    labels = ("Invoice No", "Issued", "Due", "Status", "Seller", "Seller VAT", "Buyer", "Tags", "Total", "Item", "SKU",
              "Qty", "Unit price", "VAT rate", "Net", "Discount for", "Discount")  # fmt: skip
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(labels)
    for one in records:
        head = [one["number"], one["issued"], one["due"], one["status"], one["seller"]["name"], one["seller"]["vat"],
                one["buyer"], "|".join(one["tags"]), f"{one['total']:.2f}"]  # fmt: skip
        for line in one["lines"]:
            cells = [line["item"], line["sku"], line["qty"], f"{line['unit_price']:.2f}", f"{line['vat_rate']:g} %",
                     f"{line['net']:.2f}"]  # fmt: skip
            for off in line.get("discounts") or [{}]:
                amount = f"{off['amount']:.2f}" if off else ""
                table.writerow([*head, *cells, off.get("reason", ""), amount])
    return text.getvalue()


def write(folder: Path) -> None:
    """Write every domain into a folder of its own."""
    domains = {
        "invoices": (INVOICES_MAPPING, FIRST_INVOICE, invoice, "ground_truth.csv"),
        "cvs": (CVS_MAPPING, FIRST_CV, cv, "ground_truth.jsonl"),
        "labs": (LABS_MAPPING, FIRST_FORM, form, "ground_truth.json"),
    }
    for domain, (mapping, first, make, truth_name) in domains.items():
        rng = random.Random(f"{domain} 2026")
        records = [first, *(make(number, rng) for number in range(2, RECORDS + 1))]
        batch = folder / domain / "batch"
        batch.mkdir(parents=True, exist_ok=True)
        (folder / domain / "mapping.yaml").write_text(mapping, encoding="utf-8")
        lines = [json.dumps(one, ensure_ascii=False) for one in records]
        if truth_name.endswith(".csv"):
            truth = invoices_csv(records)
        elif truth_name.endswith(".jsonl"):
            truth = "\n".join(lines) + "\n"
        else:
            truth = "[\n" + ",\n".join(lines) + "\n]\n"
        (batch / truth_name).write_text(truth, encoding="utf-8")
        total: dict[str, int] = {}
        extracted = []
        for one in records:
            result, errors = damage(domain, one, rng)
            extracted.append(json.dumps(result, ensure_ascii=False))
            for name, count in errors.items():
                total[name] = total.get(name, 0) + count
        (batch / "extracted_perfect.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (batch / "extracted.jsonl").write_text("\n".join(extracted) + "\n", encoding="utf-8")
        (batch / "quality.json").write_text(json.dumps(total, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES)
