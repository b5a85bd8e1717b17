"""A run with known answers, another beside it, and a server over both."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.synthetic_log import make_row, write_log

HOSTILE = (
    "</pre></textarea><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
)
RIGHT = {"C0": (0, 1, 2), "C1": (0, 1, 2, 3, 4, 5), "C4": (1, 2, 3, 4, 5, 6, 7, 8, 9)}
"""Items that each condition gets right; C4 breaks item 0 and fixes 3 to 9."""


def rows_of(run, shift=0):
    for condition, right in RIGHT.items():
        for number in range(12):
            for seed in (0, 1):
                good = number in right and not (number == 5 and seed == 1)
                yield make_row(
                    item=f"i{number:02d}",
                    condition=condition,
                    seed=seed,
                    score=float(good and number >= shift),
                    text=f"{condition} says {'yes' if good else 'no'} to number {number}",
                    answer="yes" if good else "no",
                    profile=run,
                )
    yield make_row(
        item="i01", condition="C4", seed=2, score=0.0, text="cut", finish_reason="length", answer=None
    )
    yield make_row(item="i10", condition="C1", seed=2, errors=["the server said no"])


ODD_NAMES = (
    "../../../etc/passwd", "..", ".", "a/../b", "~tilde", "a?b=c#d", "50%", "a b", "ü/ñ", "a\\b", "%2e%2e", "//host/x",
)  # fmt: skip


def settle(log):
    """Let a log look as if it was written long ago."""
    old = time.time() - 3600
    os.utime(log, (old, old))


def ask(site, path, *, method="GET", headers=None, body=None, token="t0ken"):
    """A request to the server and its text."""
    address = urlsplit(site)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    sent = {"Cookie": f"pcsuite-view-{address.port}={token}"} if token else {}
    connection.request(method, path, body=body, headers={**sent, **(headers or {})})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("view")
    write_log(made / "runs" / "first.jsonl", rows_of("first"), prompts=True)
    write_log(made / "runs" / "second.jsonl", rows_of("second", shift=2), prompts=True)
    hostile = [
        make_row(
            item=f"{HOSTILE}{n}",
            condition=f"C{c}",
            text=HOSTILE * 3 + "\u202e\x1b[31mred",
            answer=HOSTILE,
            score=float(c % 2),
        )
        for n in range(3)
        for c in range(300)
    ]
    hostile += [make_row(item="huge", condition="C0", text="<b>" * 350_000, answer="x")]
    write_log(made / "runs" / "hostile.jsonl", hostile, prompts=False)
    failures = [
        make_row(item=f"i{n}", condition=c, errors=["503"], score=None)
        for n in range(3)
        for c in ("C0", "C1")
    ]
    write_log(made / "runs" / "failures.jsonl", failures)
    formal = [
        make_row(
            item=f"i{n}", condition=c, score=float(c == "C1"), answer="yes", metrics={"lenient_score": 1.0}
        )
        for n in range(12)
        for c in ("C0", "C1")
    ]
    write_log(made / "runs" / "formal.jsonl", formal)
    odd = [
        make_row(item=name, condition=c, score=float(c == "C1"), text=f"said of {name!r}", answer="yes")
        for name in ODD_NAMES
        for c in ("C0", "C1")
    ]
    write_log(made / "runs" / "odd.jsonl", odd, prompts=True)
    unsure = [
        make_row(item=f"i{n}", condition=c, text="A or B", answer="a") for n in range(3) for c in ("C0", "C1")
    ]
    unsure[-1].parsed.reading = "ambiguous"
    write_log(made / "runs" / "unsure.jsonl", unsure)
    one = [make_row(item=f"i{n}", score=float(n % 2), answer="yes", text="yes") for n in range(3)]
    write_log(made / "runs" / "single.jsonl", one)
    unscored = [make_row(item=f"i{n}", condition=c) for n in range(3) for c in ("C0", "C1")]
    for row in unscored:
        row.metrics.clear()
    write_log(made / "runs" / "unscored.jsonl", unscored)
    models = [
        make_row(item=f"i{n}", condition=c, model=m, score=float(n < k), text=f"{m} on {c}", answer="yes")
        for n in range(6)
        for k, c in enumerate(("C0", "C1"), 2)
        for m in ("m1", "m2")
    ]
    models += [make_row(task="svamp", item="s1", condition="C7", model="m9", attempts=2)]
    write_log(made / "runs" / "models.jsonl", models)
    for log in made.glob("runs/*.jsonl"):
        settle(log)
    return made


@contextmanager
def served(folder: Path, evals: Path | None = None, viewer=None):
    """The address of a server over a folder, or of a viewer, for as long as it is asked."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra 'view' is not installed")
    pytest.importorskip("starlette", reason="the extra 'view' is not installed")
    pytest.importorskip("duckdb")
    from pcsuite.view.server import make_app
    from pcsuite.view.viewer import Viewer

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    viewer = viewer or Viewer(folder, evals=evals)
    app = make_app(viewer, token="t0ken", hosts=frozenset({f"127.0.0.1:{port}"}))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        viewer.close()


@pytest.fixture(scope="session")
def site(folder):
    """The address of a running server, its token last."""
    from pcsuite.verifier.evals import copy_samples

    copy_samples(folder / "evals")
    with served(folder, folder / "evals") as address:
        yield address


@pytest.fixture
def held_back(tmp_path, monkeypatch):
    """A viewer of one run whose reading goes on only when an event is set, and that event."""
    from pcsuite.view import data
    from pcsuite.view.viewer import Viewer

    write_log(tmp_path / "runs" / "one.jsonl", [make_row(item="a")])
    go_on = threading.Event()
    make_cells = data.make_cells
    monkeypatch.setattr(
        data, "make_cells", lambda tables, folder: go_on.wait(60) and make_cells(tables, folder)
    )
    return Viewer(tmp_path, max_wait=0.01), go_on


@pytest.fixture
def half_read(tmp_path, monkeypatch):
    """A viewer of a run of twenty items of which two are read, an event that is set when the rest has become Parquet,
    and one that lets pages have it."""
    from pcsuite.view import data, viewer

    rows = [make_row(item=f"item-{number:02d}") for number in range(20)]
    log = write_log(tmp_path / "runs" / "one.jsonl", rows)
    monkeypatch.setattr(viewer, "LOOKED_INTO", 1)
    monkeypatch.setattr(viewer, "BEGINNING", 1 + log.stat().st_size // 10)
    converted, go_on = threading.Event(), threading.Event()
    make_cells = data.make_cells

    def held(tables, folder):
        if tables.loaded.share == 1:
            converted.set()
            assert go_on.wait(60)
        make_cells(tables, folder)

    monkeypatch.setattr(data, "make_cells", held)
    opened = viewer.Viewer(tmp_path, max_wait=60)
    yield opened, converted, go_on
    go_on.set()
    opened.close()
