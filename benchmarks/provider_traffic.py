"""Hold the readers of providers' answers against traffic that other projects recorded and published.

The folders hold cassettes (VCR's YAML, also gzipped) of public repositories: pydantic/pydantic-ai, simonw/llm,
traceloop/openllmetry, langchain-ai/langchain. They are read where they lie and never copied here. An answer to a call
of chat completions, responses, messages, generateContent or Converse that was not streamed is read twice: by the
adapter, and by the vendor's own client types (Converse: botocore's parser); text, finish reason and tokens (prompt,
completion, cached) must be the same. Answers with an error status are listed with what is made of them.

Run: python benchmarks/provider_traffic.py FOLDER... [--differences] [--errors]
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from pcsuite._util.http import HttpResponse
from pcsuite.engines.adapters._http_adapter import HttpAdapter
from pcsuite.engines.adapters.anthropic_api import AnthropicAdapter, AnthropicOptions
from pcsuite.engines.adapters.base import Decoding, Request
from pcsuite.engines.adapters.bedrock import BedrockAdapter, ConverseOptions
from pcsuite.engines.adapters.gemini_api import GeminiAdapter, GeminiOptions
from pcsuite.engines.adapters.openai_api import OpenAIAdapter, OpenAIOptions
from pcsuite.engines.adapters.responses_api import ResponsesAdapter, ResponsesOptions
from pcsuite.errors import EngineError

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ASKED = Request("Hi", Decoding("D0", 0.0, 1.0, 64))
ADDRESS = "http://127.0.0.1:9/v1"
WIRES = {
    "/chat/completions": "chat", "/responses": "responses", "/messages": "messages", ":rawPredict": "messages",
    ":generateContent": "generateContent", "/converse": "converse",
}  # fmt: skip
FINISH = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "stop", "max_tokens": "length",
    "STOP": "stop", "MAX_TOKENS": "length", "model_length": "length", "eos": "stop", "function_call": "tool_calls",
}  # fmt: skip
"""The vendors' words that have another word here; any other is compared as it is, without case."""


@dataclass(frozen=True)
class Interaction:
    """One recorded exchange."""

    file: str
    host: str
    path: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def wire(self) -> str | None:
        if self.path.endswith("/invoke") and ".claude-" in self.path:  # on Bedrock; its old completions apart
            return "messages" if b'"content"' in self.body or self.status >= 400 else None
        return next((wire for end, wire in WIRES.items() if self.path.endswith(end)), None)


def interactions(folder: Path) -> Iterator[Interaction]:
    """What the cassettes below a folder recorded, streams left out."""
    for path in sorted(p for p in folder.rglob("*") if p.name.endswith((".yaml", ".yml", ".yaml.gz"))):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        try:
            cassette = yaml.load(content, Loader=LOADER)
        except yaml.YAMLError:
            continue
        if not isinstance(cassette, dict):
            continue
        pairs = [(each.get("request"), each.get("response")) for each in cassette.get("interactions") or ()]
        pairs += zip(cassette.get("requests") or (), cassette.get("responses") or (), strict=False)
        for request, response in pairs:
            if isinstance(request, dict) and isinstance(response, dict):
                address = urlsplit(request.get("uri") or request.get("url") or "")
                headers = {
                    str(name).casefold(): str(values[0] if isinstance(values, list) else values)
                    for name, values in (response.get("headers") or {}).items()
                }
                status = response.get("status") or response.get("status_code") or 200
                status = status["code"] if isinstance(status, dict) else status
                file, host = str(path.relative_to(folder)), address.hostname or ""
                yield Interaction(file, host, address.path, int(status), headers, _body(response))


def _body(response: dict[str, Any]) -> bytes:
    if "parsed_body" in response:
        return json.dumps(response["parsed_body"]).encode()
    body = response.get("body")
    content = body.get("string", b"") if isinstance(body, dict) else body
    raw = content.encode() if isinstance(content, str) else content or b""
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


@dataclass(frozen=True)
class Read:
    """What is compared of an answer."""

    text: str
    finish: str
    prompt: int
    completion: int
    cached: int


def by_vendor(wire: str, answer: dict[str, Any]) -> Read | None:
    """An answer as the vendor's own client has it; ``None`` where it is no answer but an error within a success."""
    if wire == "chat":
        return _by_openai(answer)
    if wire == "responses":
        return _by_responses(answer)
    if wire == "converse":
        return _by_botocore(answer)
    if wire == "messages":
        from anthropic.types import Message

        message = Message.construct(**answer)
        if not isinstance(message.content, list):
            return None
        used = message.usage
        texts = [block.text for block in message.content if block.type == "text"]
        calls = [block.input for block in message.content if block.type == "tool_use"]
        cached = used.cache_read_input_tokens or 0
        prompt = used.input_tokens + cached + (used.cache_creation_input_tokens or 0)
        text = "".join(texts) + "".join(json.dumps(call, ensure_ascii=False) for call in calls)
        return Read(text, _word(message.stop_reason), prompt, used.output_tokens, cached)
    from google.genai.types import GenerateContentResponse

    response = GenerateContentResponse.model_validate(_known_to_google(answer))
    used, candidates = response.usage_metadata, response.candidates or []
    parts = (candidates[0].content.parts if candidates and candidates[0].content else None) or []
    text = "".join(part.text for part in parts if part.text is not None and not part.thought)
    finish = candidates[0].finish_reason.value if candidates and candidates[0].finish_reason else "not_given"
    feedback = response.prompt_feedback
    if not candidates and feedback is not None and feedback.block_reason is not None:
        finish = f"blocked: {feedback.block_reason.value}"
    if used is None:
        return Read(text, _word(finish), 0, 0, 0)
    completion = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
    return Read(
        text, _word(finish), used.prompt_token_count or 0, completion, used.cached_content_token_count or 0
    )


def _known_to_google(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without the fields that are newer than the installed client, which refuses what it does not know."""
    from google.genai.types import GenerateContentResponse
    from pydantic import ValidationError

    answer = json.loads(json.dumps(answer))
    try:
        GenerateContentResponse.model_validate(answer)
    except ValidationError as error:
        for problem in error.errors():
            *path, name = problem["loc"]
            holder: Any = answer
            for step in path:
                holder = holder[step]
            del holder[name]
    return answer


def _by_openai(answer: dict[str, Any]) -> Read | None:
    from openai.types.chat import ChatCompletion

    completion = ChatCompletion.construct(**answer)
    choices = completion.choices
    if not choices or choices[0].message is None or choices[0].finish_reason == "error":  # type: ignore[comparison-overlap]
        return None
    message, used = choices[0].message, completion.usage
    content: Any = message.content
    if isinstance(content, list):  # a provider's own extension, which the vendor's client hands on as it is
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    text = content or message.refusal or ""
    finish = "refusal" if message.refusal and not content else _word(choices[0].finish_reason)
    if used is None:
        return Read(text, finish, 0, 0, 0)
    details = used.prompt_tokens_details
    cached = details.cached_tokens if details is not None else None
    for name in (
        "prompt_cache_hit_tokens",
        "num_cached_tokens",
        "cached_tokens",
    ):  # providers' own extensions
        cached = getattr(used, name, None) if cached is None else cached
    return Read(text, finish, used.prompt_tokens, used.completion_tokens, cached or 0)


def _by_responses(answer: dict[str, Any]) -> Read | None:
    from openai.types.responses import Response

    response = Response.construct(**answer)
    if response.status not in ("completed", "incomplete"):
        return None
    used, details = response.usage, response.incomplete_details
    refusals = [
        part.refusal
        for item in response.output
        if item.type == "message"
        for part in item.content
        if part.type == "refusal"
    ]
    calls = any(item.type == "function_call" for item in response.output)
    finish = "tool_calls" if calls else "stop"
    if details is not None and details.reason:
        finish = {"max_output_tokens": "length"}.get(details.reason, details.reason)
    text = response.output_text
    if refusals and not text:
        text, finish = "".join(refusals), "refusal"
    if used is None:
        return Read(text, finish, 0, 0, 0)
    cached = used.input_tokens_details.cached_tokens if used.input_tokens_details else 0
    return Read(text, finish, used.input_tokens, used.output_tokens, cached or 0)


def _by_botocore(answer: dict[str, Any]) -> Read:
    from botocore.parsers import ResponseParserFactory
    from botocore.session import Session

    model = Session().get_service_model("bedrock-runtime").operation_model("Converse")
    http = {"status_code": 200, "headers": {}, "body": json.dumps(answer).encode()}
    read = ResponseParserFactory().create_parser("rest-json").parse(http, model.output_shape)
    blocks, used = read["output"]["message"]["content"], read["usage"]
    texts = [block["text"] for block in blocks if "text" in block]
    calls = [
        json.dumps(block["toolUse"]["input"], ensure_ascii=False) for block in blocks if "toolUse" in block
    ]
    cached = used.get("cacheReadInputTokens", 0)
    prompt = used["inputTokens"] + cached + used.get("cacheWriteInputTokens", 0)
    finish = {"guardrail_intervened": "content_filter", "content_filtered": "content_filter"}
    stop = finish.get(read["stopReason"], read["stopReason"])
    return Read("".join([*texts, *calls]), _word(stop), prompt, used["outputTokens"], cached)


def _word(finish: str | None) -> str:
    return FINISH.get(finish or "not_given", finish or "not_given").casefold()


def adapters() -> dict[str, HttpAdapter]:
    """A reader a wire."""
    return {
        "chat": OpenAIAdapter("m", OpenAIOptions(base_url=ADDRESS)),
        "responses": ResponsesAdapter("m", ResponsesOptions(base_url=ADDRESS)),
        "converse": BedrockAdapter("m", ConverseOptions(base_url=ADDRESS)),
        "messages": AnthropicAdapter("m", AnthropicOptions(base_url=ADDRESS)),
        "generateContent": GeminiAdapter("m", GeminiOptions(base_url=ADDRESS)),
    }


def by_adapter(adapter: HttpAdapter, each: Interaction) -> Read:
    """An answer as the suite reads it; raises :class:`EngineError` for one that is none."""
    reply = HttpResponse(each.status, each.headers, each.body)
    path = each.path if each.wire == "generateContent" else f"/{each.path.rpartition('/')[2]}"
    path = "/chat/completions" if each.wire == "chat" else path
    generations = adapter.read_answer(ASKED, path, adapter.decoded(reply))
    used = [each["usage"] for each in generations]  # samples of one request share its counts
    return Read(
        generations[0]["text"],
        generations[0]["finish_reason"].casefold(),
        sum(each["prompt_tokens"] for each in used),
        sum(each["completion_tokens"] for each in used),
        sum(each.get("cached_tokens", 0) for each in used),
    )


def same(ours: Read, theirs: Read, answer: dict[str, Any]) -> bool:
    """Whether both read the same; where tools are called, our text has them after the vendor's."""
    calls = any(choice.get("message", {}).get("tool_calls") for choice in answer.get("choices") or ())
    items = answer["output"] if isinstance(answer.get("output"), list) else ()
    calls = calls or any(item.get("type") == "function_call" for item in items)
    text_same = ours.text.startswith(theirs.text.rstrip()) if calls else ours.text == theirs.text
    return text_same and ours.__dict__ | {"text": ""} == theirs.__dict__ | {"text": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="cassettes, as fetched")
    parser.add_argument("--differences", action="store_true", help="print each answer that is read otherwise")
    parser.add_argument("--errors", action="store_true", help="print what is made of each error status")
    args = parser.parse_args()
    readers, answers, identical, within, errors = adapters(), Counter(), Counter(), Counter(), Counter()
    for folder in args.folders:
        for each in interactions(folder):
            if each.wire is None or "event-stream" in each.headers.get("content-type", ""):
                continue
            if each.status >= 400:
                problem = error_of(readers[each.wire], each)
                errors[each.host, each.status, problem] += 1
                continue
            try:
                answer = json.loads(each.body)
            except ValueError:  # a stream without its header, or nothing
                continue
            if not isinstance(answer, dict) or answer.get("object") in ("list", "thread.message"):
                continue  # the assistants' messages, which is another API
            theirs = by_vendor(each.wire, answer)
            try:
                ours: Read | str = by_adapter(readers[each.wire], each)
            except EngineError as error:
                ours = f"{error.outcome}, {'retryable' if error.retryable else 'final'}: {error}"
            if theirs is None:
                within[
                    each.host, ours if isinstance(ours, str) else f"an answer that ends with {ours.finish}"
                ] += 1
                continue
            answers[each.wire] += 1
            if isinstance(ours, Read) and same(ours, theirs, answer):
                identical[each.wire] += 1
            elif args.differences:
                print(f"{each.file} ({each.host}{each.path})\n  ours:   {ours}\n  theirs: {theirs}")
    for wire, count in answers.items():
        print(f"{wire}: {identical[wire]} of {count} answers are read identically")
    print(f"together: {identical.total()} of {answers.total()}")
    print(f"errors within a success: {within.total()}")
    for (host, problem), count in sorted(within.items()):
        print(f"  {count} {host}: {problem}")
    print(f"error statuses: {errors.total()}")
    if args.errors:
        for (host, status, problem), count in sorted(errors.items()):
            print(f"  {count} {host} {status}: {problem}")


def error_of(adapter: HttpAdapter, each: Interaction) -> str:
    """What is made of an error status, in one line."""
    try:
        adapter.decoded(HttpResponse(each.status, each.headers, each.body))
    except EngineError as error:
        wait = "" if error.retry_after is None else f", after {error.retry_after:g} s"
        return f"[{error.outcome}, {'retryable' if error.retryable else 'final'}{wait}] {error}"
    return "what it says was generated is read as the answer"


if __name__ == "__main__":
    main()
