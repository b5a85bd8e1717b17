"""Tiny datasets of our own writing, once in the original layouts and once in the hub's."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pcsuite.data.export.base import ExportOptions
from pcsuite.data.export.pipeline import export_datasets

CONLL = {
    "train": [(["Mira", "Oak", "moved", "to", "Tarn"], ["B-PER", "I-PER", "O", "O", "B-LOC"])],
    "dev": [(["Nothing", "here", "."], ["O", "O", "O"])],
    "test": [
        (["Tarn", "Brack", "Lines", "hired", "Mira", "."], ["B-LOC", "B-ORG", "I-ORG", "O", "B-PER", "O"]),
        (["The", "Tarnish", "flag"], ["O", "B-MISC", "O"]),
    ],
}
AG_NEWS = {
    "train": [
        ("2", "Rowers win by a length", "The crew #39;s late sprint decided it."),
        ("3", "Mill shares rise", "Flour costs  #36;4 less &amp; sales grew."),
    ],
    "test": [
        ("1", "Talks resume", "Envoys met on\\Tuesday, a spokesman said."),
        ("4", "New probe", "It carries a  quot;cold quot; camera &lt;b&gt;...&lt;/b&gt; &lt;PRB.N&gt;"),
    ],
}
GSM8K = {
    "train": [("Lia has 3 pears and buys 4. How many now?", "3+4 = <<3+4=7>>7 pears.\n#### 7")],
    "test": [("A mill grinds 600 sacks twice. Sacks?", "600*2 = <<600*2=1200>>1,200 sacks.\n#### 1,200")],
}
CSQA = {
    "train": [("t1", "Where is flour ground?", ["mill", "lake", "roof", "sock", "song"], "A")],
    "validation": [("v1", "What floats?", ["anvil", "cork ", "brick", "key", "coin"], "B")],
}
TRUTHFUL = [
    ("Myths", "Do owls read?", "Owls cannot read", ["Owls cannot read", "No"], ["Owls read", "Yes"]),
    ("Law", "Who will win?", "I have no comment", ["I  have no comment", "Nobody knows"], ["The owls"]),
]
TRUTHFUL_MC = [
    ("Do owls read?", [("Owls cannot read.", 1), ("Owls read maps.", 0), ("Owls read at night.", 0)]),
    ("Is the moon far?", [("Yes.", 1), ("No.", 0)]),
]
FEVER = [
    (
        11,
        "SUPPORTS",
        "Tarn has a mill.",
        [
            [(1, 21, "Tarn_-LRB-town-RRB-", 0)],
            [(1, 22, "Tarn_-LRB-town-RRB-", 3), (1, 22, "Bræ", 1)],
            [(2, 23, "Tarn_-LRB-town-RRB-", 0)],
        ],
    ),
    (12, "NOT ENOUGH INFO", "Tarn is loud.", [[(3, None, None, None)]]),
    (13, "REFUTES", "Tarn is in Spain.", [[(4, 24, "Elsewhere", 0)]]),
]
PAGES = [
    ("Tarn_-LRB-town-RRB-", ["Tarn has a mill .", "It lies north .", "", "The mill is old ."]),
    ("Bræ", ["Bræ is a hill .", "It is near Tarn ."]),
]
SPIDER = [("barn", "How many goats?", "SELECT count(*) FROM goat"), ("lost", "How many?", "SELECT 1")]
SPIDER_TABLES = [
    {
        "db_id": db_id,
        "table_names_original": ["goat", "pen"],
        "column_names_original": [[-1, "*"], [0, "id"], [0, "pen id"], [1, "id"]],
        "column_types": ["text", "number", "number", "number"],
        "primary_keys": [1, 3],
        "foreign_keys": [[2, 3]],
    }
    for db_id in ("barn", "lost")
]
SVAMP = [
    ("chal-2", "Ana had 9 nuts. If she ate 4", "How many are left?", 5.0),
    ("chal-10", "Bo ran 2.5 km.", "How far is twice that?", 5.0),
    ("chal-1", "Half of 5 nuts is shared.", "How many nuts?", 2.5),
]
STRATEGY = {"dev": [("q1", "Could a goat outlive a mill?", False)], "train": [("q2", "Is ice cold?", True)]}
BOOLQ = {
    "dev": [("is tarn a town", "Tarn is a  town.", True)],
    "train": [("do goats fly", "They walk.", False)],
}
TREC = {
    "train": [("LOC:city", "Which is a sister\xf0town of Tarn ?"), ("HUM:ind", "Who owns the mill ?")],
    "test": [("NUM:date", "When was it built ?")],
}
NQ = {"dev": [("who built the mill", ["Mira Oak", "Oak"])], "train": [("where is tarn", ["north"])]}
RELATED = {
    "tokens": ["Mira", "Oak", "runs", "Brack", "Lines", "."],
    "entities": [{"type": "Peop", "start": 0, "end": 2}, {"type": "Org", "start": 3, "end": 5}],
    "relations": [{"type": "Work_For", "head": 0, "tail": 1}],
}
TERMS = {
    "tokens": ["A", "mill", "grinds", "flour", "."],
    "entities": [{"type": "Method", "start": 1, "end": 2}, {"type": "Material", "start": 3, "end": 4}],
    "relations": [{"type": "USED-FOR", "head": 0, "tail": 1}],
}
TERMS_DOCUMENT = {
    "doc_key": "m1",
    "sentences": [TERMS["tokens"]],
    "ner": [[[1, 1, "Method"], [3, 3, "Material"]]],
    "relations": [[[1, 1, 3, 3, "USED-FOR"]]],
}


def write_relations(root: Path) -> None:
    for split in ("train", "dev", "test"):
        write_json(root / "conll04" / f"conll04_{split}.json", [RELATED])
        write_lines(root / "scierc" / f"{split}.json", [TERMS_DOCUMENT])


def write_lines(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def write_conll(root: Path) -> None:
    for split, sentences in CONLL.items():
        lines = ["-DOCSTART- -X- -X- O", ""]
        for tokens, tags in sentences:
            lines += [f"{token} NN B-NP {tag}" for token, tag in zip(tokens, tags, strict=True)] + [""]
        root.mkdir(parents=True, exist_ok=True)
        (root / f"{split}.txt").write_text("\n".join(lines), encoding="utf-8")


def write_ag_news(root: Path) -> None:
    root.mkdir(parents=True)
    quoted = [",".join(f'"{cell}"' for cell in row) for row in AG_NEWS["test"]]
    (root / "test.csv").write_text("\n".join(quoted) + "\n", encoding="utf-8")
    headed = ["Class Index,Title,Description", *(f'{a},{b},"{c}"' for a, b, c in AG_NEWS["train"])]
    (root / "train.csv").write_text("\r\n".join(headed) + "\r\n", encoding="utf-8")


def write_truthful(root: Path) -> None:
    root.mkdir(parents=True)
    lines = ["Type,Category,Question,Best Answer,Correct Answers,Incorrect Answers,Source"]
    for category, question, best, correct, incorrect in TRUTHFUL:
        lines.append(f"Plain,{category},{question},{best},{'; '.join(correct)};,{';'.join(incorrect)},none")
    (root / "TruthfulQA.csv").write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    write_json(root / "mc_task.json", [{"question": q, "mc1_targets": dict(o)} for q, o in TRUTHFUL_MC])


def dump_lines(sentences: list[str]) -> str:
    return "\n".join(f"{n}\t{text}" + ("\tlink\tLink" if text else "") for n, text in enumerate(sentences))


def write_fever(root: Path) -> None:
    rows = [{"id": i, "label": label, "claim": claim, "evidence": sets} for i, label, claim, sets in FEVER]
    write_lines(root / "paper_dev.jsonl", rows)
    pages = [{"id": name, "text": "", "lines": dump_lines(sentences)} for name, sentences in PAGES]
    write_lines(root / "wiki-pages" / "wiki-001.jsonl", [{"id": "", "text": "", "lines": ""}, *pages])


def write_spider(root: Path) -> None:
    write_json(root / "dev.json", [{"db_id": d, "question": q, "query": s} for d, q, s in SPIDER])
    write_json(root / "tables.json", SPIDER_TABLES)
    folder = root / "database" / "barn"
    folder.mkdir(parents=True)
    connection = sqlite3.connect(folder / "barn.sqlite")
    connection.executescript('CREATE TABLE goat (id, "pen id"); INSERT INTO goat VALUES (1, 1);')
    connection.close()


def write_question_sets(root: Path) -> None:
    for split in ("dev", "train"):
        rows = [{"qid": i, "question": q, "answer": a} for i, q, a in STRATEGY[split]]
        write_json(root / "strategyqa" / f"{split}.json", rows)
        rows = [{"question": q, "title": "T", "answer": a, "passage": p} for q, p, a in BOOLQ[split]]
        write_lines(root / "boolq" / f"{split}.jsonl", rows)
        write_lines(
            root / "nq_open" / f"NQ-open.{split}.jsonl", [{"question": q, "answer": a} for q, a in NQ[split]]
        )
    (root / "trec").mkdir()
    with zipfile.ZipFile(root / "trec" / "qc.zip", "w") as archive:
        for split, rows in TREC.items():
            text = "".join(f"{label} {question}\n" for label, question in rows)
            archive.writestr(f"qc/{split}.txt", text.encode("latin-1"))


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    """Every dataset in its original layout."""
    root = tmp_path / "originals"
    write_conll(root / "conll2003")
    write_ag_news(root / "ag_news")
    for split, rows in GSM8K.items():
        write_lines(root / "gsm8k" / f"{split}.jsonl", [{"question": q, "answer": a} for q, a in rows])
    for split, name in (("train", "train_rand_split"), ("validation", "dev_rand_split")):
        questions = []
        for item_id, stem, texts, answer in CSQA[split]:
            choices = [{"label": letter, "text": text} for letter, text in zip("ABCDE", texts, strict=True)]
            question = {"stem": stem, "choices": choices, "question_concept": "x"}
            questions.append({"id": item_id, "answerKey": answer, "question": question})
        write_lines(root / "commonsenseqa" / f"{name}.jsonl", questions)
    write_truthful(root / "truthfulqa" / "v1")
    write_fever(root / "fever")
    write_spider(root / "spider")
    problems = [{"ID": i, "Body": b, "Question": q, "Answer": a} for i, b, q, a in SVAMP]
    write_json(root / "svamp" / "SVAMP.json", problems)
    write_question_sets(root)
    write_relations(root)
    return root


def hub_tables() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The same records with the hub's columns, by mirror folder and split."""
    tags = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]
    coarse = ["ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM"]
    validation = {"train": "train", "dev": "validation", "test": "test"}
    fever = [
        {
            "id": claim_id,
            "label": label,
            "claim": claim,
            "evidence_annotation_id": annotation,
            "evidence_id": -1 if evidence is None else evidence,
            "evidence_wiki_url": page or "",
            "evidence_sentence_id": -1 if number is None else number,
        }
        for claim_id, label, claim, sets in FEVER
        for evidence_set in sets
        for annotation, evidence, page, number in evidence_set
    ]
    svamp = [{"ID": i, "Body": b, "Question": q, "Answer": str(a)} for i, b, q, a in SVAMP]
    return {
        "conll2003": {
            validation[split]: [
                {"id": str(n), "tokens": words, "ner_tags": [tags.index(tag) for tag in marks]}
                for n, (words, marks) in enumerate(rows)
            ]
            for split, rows in CONLL.items()
        },
        "ag_news": {
            split: [{"text": f"{title} {text}", "label": int(label) - 1} for label, title, text in rows]
            for split, rows in AG_NEWS.items()
        },
        "gsm8k/main": {
            split: [{"question": q, "answer": a} for q, a in rows] for split, rows in GSM8K.items()
        },
        "commonsense_qa": {
            split: [
                {"id": i, "question": q, "choices": {"label": list("ABCDE"), "text": texts}, "answerKey": a}
                for i, q, texts, a in rows
            ]
            for split, rows in CSQA.items()
        },
        "truthful_qa/generation": {
            "validation": [
                {"category": c, "question": q, "best_answer": b, "correct_answers": t, "incorrect_answers": f}
                for c, q, b, t, f in TRUTHFUL
            ]
        },
        "truthful_qa/multiple_choice": {
            "validation": [
                {"question": q, "mc1_targets": {"choices": [t for t, _ in o], "labels": [n for _, n in o]}}
                for q, o in reversed(TRUTHFUL_MC)
            ]
        },
        "fever/v1.0": {"paper_dev": fever},
        "fever/wiki_pages": {
            "wikipedia_pages": [{"id": n, "text": "", "lines": dump_lines(s)} for n, s in PAGES]
        },
        "spider": {"validation": [{"db_id": d, "question": q, "query": s} for d, q, s in SPIDER]},
        "svamp": {"train": svamp[:1], "test": svamp[1:]},
        "strategyqa": {
            validation[split]: [{"qid": i, "question": q, "answer": a} for i, q, a in rows]
            for split, rows in STRATEGY.items()
        },
        "boolq": {
            validation[split]: [{"question": q, "passage": p, "answer": a} for q, p, a in rows]
            for split, rows in BOOLQ.items()
        },
        "trec": {
            split: [
                {"text": q.replace("\xf0", " "), "coarse_label": coarse.index(label.split(":")[0])}
                for label, q in rows
            ]
            for split, rows in TREC.items()
        },
        "nq_open": {
            validation[split]: [{"question": q, "answer": a} for q, a in rows] for split, rows in NQ.items()
        },
        "conll04": {split: [RELATED] for split in validation.values()},
        "scierc": {split: [TERMS] for split in validation.values()},
    }


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """Every dataset as the hub has it, saved to disk."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    root = tmp_path / "mirror"
    for folder, splits in hub_tables().items():
        tables = {split: datasets.Dataset.from_list(rows) for split, rows in splits.items()}
        datasets.DatasetDict(tables).save_to_disk(str(root / folder))
    return root


@pytest.fixture
def exported(originals: Path, tmp_path: Path):
    """Rows of an exported file, by its stem."""

    def rows(stem: str, only: str, **options: Any) -> list[dict[str, Any]]:
        settings = ExportOptions(allow_partial=True, **options)
        [result] = export_datasets(tmp_path / "c", from_dir=originals, only=[only], options=settings)
        if result.error is not None:
            raise result.error
        lines = (tmp_path / "c" / "datasets" / f"{stem}.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    return rows
