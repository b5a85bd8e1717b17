"""Services as targets: a real server on loopback, request templates, JMESPaths and secrets."""

import json

import pytest
from aiohttp import web

from pcsuite.errors import ConfigError, EngineError
from pcsuite.prompts.verbatim import chat_piece
from support.targets import adapter_for, ask, request_for
from support.threaded_server import ThreadedServer


class Chat(ThreadedServer):
    """Answers every request with what it is told, and keeps what it saw."""

    def __init__(self, answer, status=200, content_type="application/json", delay_s=0.0, charset="utf-8"):
        super().__init__()
        self.charset = charset
        self.answer, self.status, self.content_type, self.delay_s = answer, status, content_type, delay_s
        self.bodies, self.headers = [], []

    def app(self):
        app = web.Application()
        app.router.add_post("/chat", self.chat)
        return app

    async def chat(self, request):
        import asyncio

        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        await asyncio.sleep(self.delay_s)
        answer = self.answer(self.bodies[-1]) if callable(self.answer) else self.answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return web.Response(
            text=text, status=self.status, content_type=self.content_type, charset=self.charset
        )


def asked(server, request=None, **options):
    with server:
        return ask(
            adapter_for(".", f"{server.origin}/chat", **options),
            request or request_for(item={"text": "Late"}),
        )[0]


def test_without_a_template_the_whole_call_is_posted_and_output_is_read():
    server = Chat({"output": "billing", "steps": 2, "cost_usd": 0.5})
    answer = asked(server)
    assert server.bodies == [{"prompt": "Be brief.", "item": {"text": "Late"}, "seed": 7, "files": {}}]
    assert (answer["text"], answer["steps"], answer["cost_usd"]) == ("billing", 2, 0.5)


def test_a_plain_text_is_the_answer():
    assert asked(Chat("just text\n", content_type="text/plain"))["text"] == "just text"


@pytest.mark.parametrize("charset", ["iso-8859-1", "utf-16", "cp1252"])
def test_a_text_is_read_in_the_character_set_that_the_service_names(charset):
    assert asked(Chat("Grüße", content_type="text/plain", charset=charset))["text"] == "Grüße"
    assert asked(Chat({"output": "Grüße"}, charset=charset))["text"] == "Grüße"


def test_a_template_is_filled_with_values_of_their_own_kind():
    server = Chat({"choices": [{"message": {"content": "ok"}}], "usage": {"total_tokens": 12}})
    body = {
        "system": "{{ prompt }}",
        "question": "Q: {{ item.text }} ({{ seed }})",
        "seed": "{{seed}}",
        "all": "{{ item }}",
        "messages": "{{ messages }}",
        "stream": False,
    }
    answer = asked(
        server,
        body=json.dumps(body),
        answer="choices[0].message.content",
        read={"tokens": "usage.total_tokens", "steps": "not.there"},
    )
    assert server.bodies == [
        {
            "system": "Be brief.",
            "question": "Q: Late (7)",
            "seed": 7,
            "all": {"text": "Late"},
            "messages": [{"role": "user", "content": "Be brief."}],
            "stream": False,
        }
    ]
    assert answer["text"] == "ok"
    assert answer["usage"]["total_tokens"] == 12
    assert "steps" not in answer


def test_a_secret_is_named_by_its_variable_and_never_shown(monkeypatch):
    monkeypatch.setenv("CHAT_TOKEN", "tok-0123456789-secret")
    server = Chat(lambda body: {"output": "you sent tok-0123456789-secret"})
    with server:
        adapter = adapter_for(
            ".", f"{server.origin}/chat", headers={"Authorization": "Bearer ${CHAT_TOKEN}", "X-Price": "$$5"}
        )
        answer = ask(adapter, request_for())[0]
    assert server.headers[0]["Authorization"] == "Bearer tok-0123456789-secret"
    assert server.headers[0]["X-Price"] == "$5"
    assert answer["text"] == "you sent ***"
    assert "tok-0123456789" not in str(adapter.identity()) + repr(adapter.options)


def test_its_own_limit_is_an_outcome_and_a_broken_connection_is_not():
    answer = asked(Chat({"output": "late"}, delay_s=3), timeout_s=0.3)
    assert answer["finish_reason"] == "out_of_time"
    with pytest.raises(EngineError) as error:
        ask(adapter_for(".", "http://127.0.0.1:9/chat"), request_for())
    assert error.value.retryable
    assert error.value.unreachable


@pytest.mark.parametrize(("status", "retryable"), [(503, True), (400, False), (302, False)])
def test_an_error_status_is_a_failed_call(status, retryable):
    with pytest.raises(EngineError) as error:
        asked(Chat({"error": "no"}, status=status))
    assert error.value.retryable is retryable


def test_a_path_that_finds_nothing_says_what_there_is():
    with pytest.raises(EngineError, match="'a.b' finds nothing in the response, which has reply, id"):
        asked(Chat({"reply": "x", "id": 3}), answer="a.b")


def test_a_response_that_is_no_json_is_told_so():
    with pytest.raises(EngineError, match="the response is no JSON"):
        asked(Chat("<html>", content_type="text/html"), answer="output")


def test_a_chat_needs_messages_in_the_template():
    chat = chat_piece(0, "system", "Be brief.")
    server = Chat({"output": "x"})
    with pytest.raises(EngineError, match="{{ messages }}"):
        asked(server, request_for(chat), body={"p": "{{ prompt }}"})


def test_a_column_that_the_item_has_not_is_named():
    with pytest.raises(EngineError, match=r"shows item.txt, and the item has text"):
        asked(Chat({"output": "x"}), body={"p": "{{ prompt }}", "t": "{{ item.txt }}"})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"body": '{"p": "{{ promt }}"}'}, "unknown placeholder {{ promt }}.*did you mean 'prompt'"),
        ({"body": '{"p": "fixed"}'}, "no place for the prompt"),
        ({"body": "{not json"}, "the request template is no JSON"),
        ({"answer": "choices["}, "'choices\\[' is no JMESPath"),
        ({"answer": "(" * 3000 + "a" + ")" * 3000}, "is no JMESPath that can be read: it is nested too deep"),
        ({"read": {"token": "a"}}, "'token' is nothing that is read .*tokens"),
        ({"headers": {"Authorization": "$NOT_SET_ANYWHERE"}}, "variable NOT_SET_ANYWHERE, which is not set"),
        ({"headers": {"Authorization": "Bearer abcdef123456"}}, "holds a secret: name its variable"),
        ({"worker": True}, "'worker' is for commands"),
    ],
)
def test_each_mistake_is_one_clear_line_before_anything_is_asked(options, problem):
    with pytest.raises(ConfigError, match=problem) as error:
        adapter_for(".", "http://127.0.0.1:9/chat", **options)
    assert "\n" not in str(error.value)


def test_no_secret_may_stand_in_the_address():
    with pytest.raises(ConfigError, match="no credentials in the address") as error:
        adapter_for(".", "http://127.0.0.1:9/chat?api_key=abcdef123456")
    assert "abcdef123456" not in str(error.value)


class Raw(Chat):
    """Answers with a response that is made for each request."""

    def __init__(self, *responses):
        super().__init__("")
        self.responses = list(responses)

    async def chat(self, request):
        await super().chat(request)
        return self.responses.pop(0)()


def test_a_text_is_read_in_the_character_set_that_it_names():
    spanish = "né à Besançon".encode("latin-1")
    response = Raw(
        lambda: web.Response(body=spanish, headers={"Content-Type": "text/plain; charset=ISO-8859-1"})
    )
    assert asked(response)["text"] == "né à Besançon"
    unknown = Raw(
        lambda: web.Response(body="né".encode(), headers={"Content-Type": "text/plain; charset=x-none"})
    )
    assert asked(unknown)["text"] == "né"


def test_compressed_and_chunked_answers_are_read_whole():
    def zipped():
        response = web.json_response({"output": "x" * 5000})
        response.enable_compression(web.ContentCoding.gzip)
        response.enable_chunked_encoding()
        return response

    assert asked(Raw(zipped))["text"] == "x" * 5000


def test_a_stream_of_events_is_no_answer():
    stream = Chat('data: {"output": "x"}\n\ndata: [DONE]\n\n', content_type="text/event-stream")
    with pytest.raises(EngineError, match="streams events, and an answer is read whole") as error:
        asked(stream)
    assert error.value.refuses_all


def test_a_web_page_in_place_of_an_answer_is_told_of_once(caplog):
    page = Chat("<!doctype html><title>Sign in</title>", content_type="text/html")
    with page:
        adapter = adapter_for(".", f"{page.origin}/chat")
        answers = ask(adapter, request_for(), request_for())
    assert [answer["text"][:9] for answer in answers] == ["<!doctype"] * 2
    (said,) = [record.getMessage() for record in caplog.records if record.name == "pcsuite"]
    assert "its answers are web pages (<!doctype html><title>Sign in</title>)" in said


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"message": "model overloaded", "type": "server"}, "model overloaded"),
        ("rate limited", "rate limited"),
        ({"code": 7}, '{"code": 7}'),
    ],
)
def test_an_error_in_a_success_is_that_call_s_and_says_what_it_says(error, words):
    with pytest.raises(EngineError, match="answered with an error: ") as caught:
        asked(Chat({"error": error}))
    assert caught.value.message.endswith(f"answered with an error: {words}")
    assert not caught.value.refuses_all


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "--target-header 'Authorization:"), (404, "--target must be"), (302, "--target must be")],
)
def test_what_to_do_about_a_status_is_said_in_the_words_of_targets(status, hint):
    with pytest.raises(EngineError) as caught:
        asked(Chat("no", status=status))
    assert hint in str(caught.value)
    assert "base_url" not in str(caught.value)
    assert "api_key_env" not in str(caught.value)
