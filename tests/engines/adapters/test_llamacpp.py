from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial

import jsonschema
import pytest

from pcsuite.cli import main
from pcsuite.engines.adapters.base import Constraint, Decoding, Request
from pcsuite.engines.adapters.llamacpp import (
    RANDOM_SEED,
    LlamaCppAdapter,
    LlamaCppOptions,
)
from pcsuite.engines.canary import is_enforced
from pcsuite.engines.constrained import generate_constrained
from pcsuite.errors import ConfigError, ConstraintUnavailableError, EngineError
from pcsuite.prompts.verbatim import chat_piece

D0 = Decoding("d0", temperature=0.0, top_p=1.0, max_tokens=16)
D1 = Decoding("d1", temperature=0.7, top_p=0.95, max_tokens=16)
LONG = Decoding("d0", temperature=0.0, top_p=1.0, max_tokens=3000)
PROMPT = "Write one sentence about rivers."
ENDLESS = Constraint(
    "json_schema", '{"type": "array", "items": {"const": "again and again"}, "minItems": 900}'
)
"""Has an answer go on until its worker is ended."""
CALLS = [
    (prompt, decoding, seed)
    for prompt in (PROMPT, "Name a fruit and say why you like it.")
    for decoding, seed in ((D0, 0), (D1, 1), (D1, 2))
]


def test_files_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PCS_CACHE_DIR", str(tmp_path))
    with pytest.raises(EngineError, match="pcsuite models pull smollm2-135m-instruct-q4_1"):
        LlamaCppAdapter("m", LlamaCppOptions(weights="smollm2-135m-instruct-q4_1"))
    with pytest.raises(EngineError, match=r"there is no file .*none\.gguf"):
        LlamaCppAdapter("m", LlamaCppOptions(path=tmp_path / "none.gguf"))
    with pytest.raises(ConfigError, match="did you mean 'smollm2-135m-instruct-q4_1'"):
        LlamaCppAdapter("m", LlamaCppOptions(weights="smollm2-135m-instruct-q4"))


@pytest.mark.model
def test_a_file_that_is_no_model_is_one_clear_error(tmp_path):
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + b"\0" * 100)
    adapter = LlamaCppAdapter("broken", LlamaCppOptions(path=file, workers=1))
    try:
        with pytest.raises(EngineError, match=r"llama\.cpp cannot load the model|worker ended") as caught:
            adapter.generate(PROMPT, D0, 0)
        assert "\n" not in str(caught.value)
    finally:
        adapter.close()


@pytest.mark.model
def test_usage_and_finish_reason_are_the_engines_own(embedded):
    short = embedded.generate(
        "What is the capital of France? Answer with one word.", Decoding("d0", 0.0, 1.0, 60), 0
    )
    assert "Paris" in short["text"]
    assert short["finish_reason"] == "stop"
    cut = embedded.generate(PROMPT, Decoding("d0", 0.0, 1.0, 5), 0)
    assert cut["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] == 5
    assert cut["usage"]["total_tokens"] == cut["usage"]["prompt_tokens"] + 5
    assert cut["seed_honoured"] is True
    # The prompt's own tokens, and the chat template's beside them.
    assert cut["usage"]["prompt_tokens"] > embedded.count_tokens(PROMPT) > 5


@pytest.mark.model
def test_token_counts(embedded):
    assert embedded.count_tokens("") == 0
    assert embedded.count_tokens("Hello world") == 2
    # Special tokens in a user's text are text.
    assert embedded.count_tokens("<|im_start|>") > 1
    joined = embedded.count_tokens("one two three") + embedded.count_tokens(" four five")
    assert embedded.count_tokens("one two three four five") == joined


@pytest.mark.model
def test_same_question_same_text_in_any_worker_and_any_process(embedded, embedded_weights):
    async def ask_all(adapter):
        answers = await asyncio.gather(*(adapter.agenerate(Request(*call)) for call in CALLS))
        return [answer["text"] for answer in answers]

    first = asyncio.run(ask_all(embedded))
    second = asyncio.run(ask_all(embedded))  # another event loop, other workers
    single = LlamaCppAdapter("other", LlamaCppOptions(path=embedded_weights, workers=1))
    try:
        third = [single.generate(*call)["text"] for call in CALLS]
        assert single.identity() == embedded.identity()
    finally:
        single.close()
    assert first == second == third
    assert len(worker_process_ids(embedded)) == 2


@pytest.mark.model
def test_replicates_share_the_reading_of_their_prompt_and_keep_the_text_of_a_row_alone(embedded_weights):
    # The longest is read in two batches: llama.cpp takes 512 tokens at once.
    prompts = [f"{'A river runs from the hills to the sea. ' * n}Go on with the story." for n in (1, 9, 52)]
    rows = [
        (prompt, decoding, seed)
        for prompt in prompts
        for decoding, seed in ((D0, 0), (D1, 1), (D1, 2), (D1, 3))
    ]
    adapter = LlamaCppAdapter("m", LlamaCppOptions(path=embedded_weights, workers=1))
    unshared = LlamaCppAdapter("m", LlamaCppOptions(path=embedded_weights, workers=1, prefix_reuse=False))
    try:
        alone = {row: adapter.generate(*row)["text"] for row in sorted(rows, key=lambda row: row[2])}
        waiting = {row: adapter._submit(Request(*row)) for row in rows}
        replies = {row: future.result() for row, future in waiting.items()}
        assert {row: adapter._generation(reply, None)["text"] for row, reply in replies.items()} == alone
        assert {reply["result"]["timings"]["prompt_n"] for reply in replies.values()} == {1}
        usage = [reply["result"]["usage"]["prompt_tokens"] for reply in replies.values()]
        plain = [unshared._submit(Request(*row)).result()["result"] for row in rows[:2]]
        assert [answer["timings"]["prompt_n"] for answer in plain] == usage[:2]
        assert unshared.identity() != adapter.identity()
    finally:
        adapter.close()
        unshared.close()


BEGINNINGS = (
    "You read letters of customers and say how they feel. " * 4 + "Answer with one word.\n\nLetter: ",
    "Rules: be brief, be kind, never guess, name no names. " * 5 + "Then go on.\n\nText:\n",
)
LETTERS = ("The lamp came late and broken.", "Wonderful, thank you!", "12 boxes, all fine.", " (no text)")


def shared_requests():
    plain = [(beginning + letter, len(beginning)) for beginning in BEGINNINGS for letter in LETTERS]
    head = chat_piece(0, "system", BEGINNINGS[0]) + chat_piece(1, "user", "Letter: ")
    chats = [(head + letter, len(head)) for letter in LETTERS[:2]]
    return [
        Request(prompt, decoding, seed, shared_chars=shared)
        for prompt, shared in plain + chats
        for decoding, seed in ((D0, 0), (D1, 1))
    ]


@pytest.mark.model
def test_a_shared_beginning_is_read_once_and_every_text_is_that_of_a_row_alone(embedded_weights):
    requests = shared_requests()

    def texts(order, **options):
        adapter = LlamaCppAdapter("m", LlamaCppOptions(path=embedded_weights, workers=1, **options))
        try:
            waiting = {request: adapter._submit(request) for request in order}
            # A run counts tokens of prompts while others are answered.
            assert [adapter.count_tokens("one two three" + " four" * n) for n in range(50)] == [*range(3, 53)]
            replies = {request: future.result() for request, future in waiting.items()}
            answers = {request: adapter._generation(reply, None) for request, reply in replies.items()}
            identities.append(adapter.identity())
        finally:
            adapter.close()
        cuts = {request: answer.get("prompt_cut") for request, answer in answers.items()}
        return {request: answer["text"] for request, answer in answers.items()}, cuts

    identities: list[dict[str, str]] = []
    in_turn, cuts = texts(requests)
    shuffled = random.Random(3).sample(requests, len(requests))
    assert texts(shuffled) == (in_turn, cuts)
    assert texts(shuffled[::-1], kept_beginnings=1) == (in_turn, cuts)
    # The last word before the item is read with it: how it is split may depend on what follows.
    assert {cuts[request] for request in requests if request.prompt.startswith(BEGINNINGS[0])} == {
        len(BEGINNINGS[0]) - len("\n\nLetter: ")
    }
    assert identities[0] == identities[1] == identities[2]
    _, whole = texts(requests[:2], kept_beginnings=0)
    assert set(whole.values()) == {None}
    assert identities[-1] != identities[0]


@pytest.mark.model
def test_slots_answer_at_a_time_keep_constraints_and_are_named(embedded, embedded_weights):
    adapter = LlamaCppAdapter("m", LlamaCppOptions(path=embedded_weights, workers=1, slots=4))
    schema = Constraint(
        "json_schema", '{"type":"object","properties":{"n":{"enum":[4711]}},"required":["n"]}'
    )
    word, broken = Constraint("regex", "(yes|no)"), Constraint("cfg", "start: WORD\n")
    requests = [
        Request(f"Count to {n}.", D0, 0, (None, word, schema)[n % 3], shared_chars=9) for n in range(12)
    ]

    async def all_at_once():
        asked = [adapter.agenerate(request) for request in requests]
        refused = adapter.agenerate(Request("Say a word.", D0, 0, broken))
        return await asyncio.gather(*asked, refused, return_exceptions=True)

    try:
        *answers, refused = asyncio.run(all_at_once())
    finally:
        adapter.close()
    assert isinstance(refused, ConstraintUnavailableError)
    for request, answer in zip(requests, answers, strict=True):
        assert answer["seed_honoured"] is False
        assert "prompt_cut" not in answer
        if request.constraint is word:
            assert answer["text"] in ("yes", "no")
        if request.constraint is schema:
            assert json.loads(answer["text"])["n"] == 4711
    assert adapter.identity() == {
        name: text for name, text in embedded.identity().items() if name != "beginnings"
    } | {"slots": "4"}


@pytest.mark.model
def test_no_cut_where_a_beginning_is_short_or_ends_inside_a_token(embedded):
    short = Request("Letter: fine", D0, 0, shared_chars=8)
    # The last word of this beginning has no space before it: all that is left is too short.
    inside = Request("x" * 400 + " go on", D0, 0, shared_chars=390)
    for request in (short, inside):
        assert "prompt_cut" not in asyncio.run(embedded.agenerate(request))


@pytest.mark.model
def test_seeds_matter_only_when_sampling(embedded):
    greedy = {embedded.generate(PROMPT, D0, seed)["text"] for seed in (0, 1, RANDOM_SEED)}
    assert len(greedy) == 1
    sampled = {embedded.generate(PROMPT, D1, seed)["text"] for seed in (1, 2, 3)}
    assert len(sampled) == 3
    # llama.cpp would draw this seed anew each time.
    assert len({embedded.generate(PROMPT, D1, RANDOM_SEED)["text"] for _ in range(2)}) == 1


@pytest.mark.model
@pytest.mark.parametrize("kind", ["json_schema", "regex", "cfg"])
def test_the_canary_sings(embedded, kind):
    assert asyncio.run(is_enforced(partial(generate_constrained, embedded), kind)) is True


SCHEMA = {
    "type": "object",
    "properties": {
        "label": {"enum": ["World", "Sports"]},
        "score": {"type": "integer", "minimum": 3, "maximum": 7},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "minItems": 1, "maxItems": 2},
        "inner": {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}},
            "required": ["ok"],
            "additionalProperties": False,
        },
    },
    "required": ["label", "score", "tags", "inner"],
    "additionalProperties": False,
}


@pytest.mark.model
def test_schemas_are_obeyed_and_written_on_one_line(embedded):
    constraint = Constraint("json_schema", json.dumps(SCHEMA))
    for decoding, seed in ((D0, 0), (D1, 1), (D1, 2)):
        roomy = Decoding(decoding.id, decoding.temperature, decoding.top_p, 100)
        answer = embedded.generate_constrained("Classify: the match ended 2-1.", roomy, seed, constraint)
        assert answer["finish_reason"] == "stop"
        assert answer["constraint_backend"] == "native:llama.cpp"
        jsonschema.validate(json.loads(answer["text"]), SCHEMA)
        assert "\n" not in answer["text"]


@pytest.mark.model
def test_the_answer_line_expression_is_enforced(embedded):
    constraint = Constraint("regex", r"[A-Z][a-z ]{5,30}\. Answer/result:\n#### -?[0-9]{1,4}")
    answer = embedded.generate_constrained("What is 3 + 4?", Decoding("d0", 0.0, 1.0, 60), 0, constraint)
    head, _, tail = answer["text"].partition(". Answer/result:\n#### ")
    assert head[0].isupper()
    assert tail.lstrip("-").isdigit()


@pytest.mark.model
@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        (Constraint("json_schema", '{"type": "array", "uniqueItems": true}'), "uniqueItems"),
        (Constraint("regex", "(?=a)b"), "look-around"),
        (Constraint("cfg", 'start: "unfinished'), "lexer error"),
        (Constraint("cfg", "start: missing_rule"), "missing_rule"),
    ],
)
def test_what_cannot_be_enforced_is_refused_by_name_every_time(embedded, constraint, said):
    for _ in range(2):
        with pytest.raises(ConstraintUnavailableError, match=said):
            embedded.generate_constrained(PROMPT, D0, 0, constraint)


@pytest.mark.model
def test_a_prompt_beyond_the_context_is_explained(embedded):
    with pytest.raises(EngineError, match="raise context_tokens of model 'smollm2-135m'") as caught:
        embedded.generate("word " * 6000, D0, 0)
    assert not caught.value.retryable


@pytest.mark.model
def test_a_dying_worker_fails_its_call_as_retryable_and_is_replaced(embedded_weights):
    adapter = LlamaCppAdapter("m", LlamaCppOptions(path=embedded_weights, workers=1))
    try:
        before = adapter.generate(PROMPT, D0, 0)["text"]
        (process_id,) = worker_process_ids(adapter)

        async def kill_in_flight():
            call = asyncio.create_task(adapter.agenerate(Request(PROMPT, LONG, 0, ENDLESS)))
            await asyncio.sleep(0.2)
            os.kill(process_id, signal.SIGKILL)
            await call

        with pytest.raises(EngineError, match="worker ended with status -9") as caught:
            asyncio.run(kill_in_flight())
        assert caught.value.retryable
        assert adapter.generate(PROMPT, D0, 0)["text"] == before
        assert worker_process_ids(adapter) != [process_id]
    finally:
        adapter.close()
    with pytest.raises(EngineError, match="the model is closed"):
        adapter.generate(PROMPT, D0, 0)


@pytest.mark.model
def test_a_call_that_takes_too_long_is_retryable(embedded_weights):
    adapter = LlamaCppAdapter("m", LlamaCppOptions(path=embedded_weights, workers=1, timeout_s=1.5))
    try:
        with pytest.raises(EngineError, match=r"longer than 1\.5 s") as caught:
            adapter.generate_constrained(PROMPT, LONG, 0, ENDLESS)
        assert caught.value.retryable
    finally:
        adapter.close()


@pytest.mark.model
def test_workers_end_with_their_parent(embedded_weights):
    program = textwrap.dedent(
        """
        import os, sys
        from pcsuite.engines.adapters.base import Decoding
        from pcsuite.engines.adapters.llamacpp import LlamaCppAdapter, LlamaCppOptions

        adapter = LlamaCppAdapter("m", LlamaCppOptions(path=sys.argv[1], workers=1))
        adapter.count_tokens("x")
        print(adapter._pool._workers[0]._process.pid, flush=True)
        os.kill(os.getpid(), 9)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    finished = subprocess.run(
        [sys.executable, "-c", program, str(embedded_weights)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert finished.returncode == -9, finished.stderr
    worker = int(finished.stdout)
    deadline = time.monotonic() + 60
    while process_runs(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not process_runs(worker)


def worker_process_ids(adapter):
    return [worker._process.pid for worker in adapter._pool._workers if worker.alive]


def process_runs(process_id: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        with open(f"/proc/{process_id}/stat") as stream:
            return stream.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.model
def test_a_model_without_chat_template_continues_the_text(embedded_weights):
    adapter = LlamaCppAdapter("m", LlamaCppOptions(path=embedded_weights, workers=1, chat=False))
    try:
        answer = adapter.generate("The capital of France is", D0, 0)
        forced = adapter.generate_constrained(
            "The capital of France is", D0, 0, Constraint("regex", " zq[0-9]")
        )
        # Nothing but the text is sent: no template around it.
        assert answer["usage"]["prompt_tokens"] == adapter.count_tokens("The capital of France is")
        assert re.fullmatch(" zq[0-9]", forced["text"])
    finally:
        adapter.close()


@pytest.mark.model
def test_models_check_verifies_and_asks(embedded_weights, capsys):
    assert main(["models", "check", "smollm2-135m"]) == 0
    assert "smollm2-135m: sha256 ok, answered 'The capital of France is Paris.'" in capsys.readouterr().out
