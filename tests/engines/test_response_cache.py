from __future__ import annotations

import multiprocessing
import sqlite3
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.response_cache import ROW_OVERHEAD_BYTES, ResponseCache, response_key
from pcsuite.errors import EngineError

D1 = Decoding("d1", temperature=0.7, top_p=0.95, max_tokens=20)
IDENTITY = {"engine": "x 1", "weights_sha256": "ab"}
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def answer(text="hi"):
    return {"text": text, "finish_reason": "stop", "latency_ms": 12.5, "usage": USAGE, "seed_honoured": True}


def key(**changes):
    arguments = {
        "identity": IDENTITY,
        "model_id": "m",
        "prompt": "p",
        "decoding": D1,
        "seed": 1,
        "constraint": None,
    }
    chosen = {**arguments, **changes}
    return response_key(chosen.pop("identity"), chosen.pop("model_id"), Request(**chosen))


def test_each_part_of_the_key_tells_answers_apart():
    keys = [
        key(),
        key(identity={**IDENTITY, "engine": "x 2"}),
        key(model_id="m2"),
        key(prompt="p "),
        key(seed=2),
        key(decoding=Decoding("d1", 0.8, 0.95, 20)),
        key(decoding=Decoding("d1", 0.7, 0.9, 20)),
        key(decoding=Decoding("d1", 0.7, 0.95, 21)),
        key(constraint=Constraint("regex", "a")),
        key(constraint=Constraint("cfg", "a")),
        key(constraint=Constraint("regex", "b")),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(value) == 64 for value in keys)
    # The same numbers under another name are the same question.
    assert key(decoding=Decoding("renamed", 0.7, 0.95, 20)) == key()


def test_a_hit_keeps_the_usage_and_says_it_is_a_hit(tmp_path):
    path = tmp_path / "sub" / "responses.sqlite"
    with ResponseCache(path) as cache:
        assert cache.get(key()) is None
        cache.put(key(), answer("ünï\ud800"))
        assert cache.get(key()) == {**answer("ünï\ud800"), "cache_hit": True}
    with ResponseCache(path) as cache:  # another run
        assert cache.get(key()) == {**answer("ünï\ud800"), "cache_hit": True}
        assert cache.get(key(seed=2)) is None
        stats = cache.stats()
    assert (stats.hits, stats.misses, stats.puts, stats.entries) == (2, 2, 1, 1)
    assert stats.hit_rate == 0.5


def test_the_first_answer_stays(tmp_path):
    with ResponseCache(tmp_path / "c") as cache:
        cache.put(key(), answer("first"))
        cache.flush()
        cache.put(key(), answer("second"))
        cache.flush()
        assert cache.get(key())["text"] == "first"
        assert cache.stats().entries == 1


def test_the_least_recently_used_go_first(tmp_path):
    ticks = iter(range(10_000))
    size = len(msgspec.json.encode(answer("0" * 100))) + ROW_OVERHEAD_BYTES
    with ResponseCache(tmp_path / "c", max_bytes=10 * size, clock=lambda: next(ticks)) as cache:
        for number in range(10):
            cache.put(f"k{number}", answer("0" * 100))
            cache.flush()
        assert cache.stats().entries == 10
        assert cache.get("k0") is not None  # now the most recent
        cache.put("k10", answer("0" * 100))
        stats = cache.stats()
        # 11 rows pass the limit of 10; eviction leaves 9 (nine tenths): k1 and k2 go, k0 was used since.
        assert (stats.entries, stats.evicted, stats.bytes) == (9, 2, 9 * size)
        assert cache.get("k1") is None
        assert cache.get("k2") is None
        assert cache.get("k0") is not None
        assert cache.get("k3") is not None


def _write_many(path: str, start: int) -> None:
    with ResponseCache(Path(path)) as cache:
        for number in range(start, start + 300):
            cache.put(f"key{number}", answer(str(number)))
            cache.get("nothing")


def test_processes_share_one_file(tmp_path):
    path = tmp_path / "responses.sqlite"
    context = multiprocessing.get_context("spawn")
    # 0..299, 200..499, 400..699: overlaps of 100 are stored once.
    workers = [context.Process(target=_write_many, args=(str(path), start)) for start in (0, 200, 400)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    with ResponseCache(path) as cache:
        stats = cache.stats()
        assert (stats.entries, stats.puts, stats.misses) == (700, 900, 900)
        assert cache.get("key699")["text"] == "699"
    total = sqlite3.connect(path).execute("SELECT SUM(bytes) FROM answers").fetchone()[0]
    assert total == stats.bytes


def test_writes_are_batched(tmp_path):
    path = tmp_path / "c"
    with ResponseCache(path, clock=lambda: 5.0) as cache:
        for number in range(520):
            cache.put(f"k{number}", answer())
        other = sqlite3.connect(path)
        assert other.execute("SELECT COUNT(*) FROM answers").fetchone()[0] == 512
        other.close()
        assert cache.get("k519") is not None


def test_answers_of_a_slow_model_are_written_as_they_come(tmp_path):
    now = [5.0]
    cache = ResponseCache(tmp_path / "c", clock=lambda: now[0])
    for number, moment in enumerate([5.2, 6.5, 6.9, 8.0]):
        now[0] = moment
        cache.put(f"k{number}", answer())
    now[0] = 8.9
    cache.put("waits", answer())
    with sqlite3.connect(tmp_path / "c") as other:
        kept = [digest for (digest,) in other.execute("SELECT digest FROM answers ORDER BY id")]
    other.close()
    assert kept == [blake2b(f"k{number}".encode(), digest_size=16).digest() for number in range(4)]
    cache.close()


def test_a_file_that_is_no_cache_is_one_clear_error(tmp_path):
    path = tmp_path / "responses.sqlite"
    path.write_bytes(b"this is not a database, not at all" * 100)
    with pytest.raises(EngineError, match=r"responses\.sqlite: response cache failed: .*delete the file"):
        ResponseCache(path)


def test_answers_of_the_first_layout_are_taken_over(tmp_path):
    path = tmp_path / "c"
    ResponseCache(path).close()
    text = b'{"text":"kept","finish_reason":"stop","latency_ms":1.0,"usage":{"total_tokens":3}}'
    with sqlite3.connect(path) as database:
        database.executescript("DROP TABLE answers; UPDATE counters SET value = 1 WHERE name = 'format';")
        database.execute(
            "CREATE TABLE responses (key TEXT PRIMARY KEY, value BLOB NOT NULL, bytes INTEGER NOT NULL, "
            "used REAL NOT NULL) WITHOUT ROWID"
        )
        rows = [(f"key{number}", text, 200 + number, float(number)) for number in range(3)]
        database.executemany("INSERT INTO responses VALUES (?, ?, ?, ?)", rows)
        database.execute("UPDATE counters SET value = 603 WHERE name = 'bytes'")
    database.close()
    for _ in range(2):
        with ResponseCache(path) as cache:
            assert cache.get("key1")["text"] == "kept"
            assert cache.get("key7") is None
            assert (cache.stats().entries, cache.stats().bytes) == (3, 603)


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "c"
    ResponseCache(path).close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE counters SET value = 99 WHERE name = 'format'")
    database.close()
    with pytest.raises(EngineError, match="has format 99"):
        ResponseCache(path)
