"""A run at a service that keeps a part of schemas only: C6 is not asked, C6P is, and says what was left to the check."""

from __future__ import annotations

import json

from aiohttp import web

from pcsuite.config.load import load_suite
from pcsuite.logging.log import RunPaths, iter_newest_rows
from pcsuite.logging.manifest import read_manifest
from pcsuite.runners.run_suite import run_suite
from support.profiles import write_profile
from support.threaded_server import ThreadedServer

LONG = "because " * 40


class StrictService(ThreadedServer):
    """Anthropic's messages; a schema with a bound is refused, any other is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.schemas: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/messages", self._message)
        return app

    async def _message(self, request: web.Request) -> web.Response:
        body = await request.json()
        schema = json.dumps(body.get("output_config", {}))
        self.schemas.append(schema)
        if any(f'"{word}"' in schema for word in ("minimum", "maximum", "maxLength")):
            error = {"type": "invalid_request_error", "message": "property is not supported"}
            return web.json_response({"type": "error", "error": error}, status=400)
        text = json.dumps({"label": "World", "confidence": 0.5, "rationale": LONG})
        text = '{"reply": "zqx7 violet marmot", "size": 733}' if "zqx7" in schema else text
        usage = {"input_tokens": 9, "output_tokens": 9}
        content = [{"type": "text", "text": text}]
        return web.json_response(
            {
                "type": "message",
                "role": "assistant",
                "content": content,
                "stop_reason": "end_turn",
                "usage": usage,
            }
        )


def test_what_a_service_does_not_keep_is_left_out_named_and_checked_afterwards(tmp_path):
    with StrictService() as service:
        model = {
            "provider": "anthropic",
            "family": "claude",
            "size": "unknown",
            "base_url": service.base_url,
            "omit": ["top_p"],
        }
        path = write_profile(tmp_path, {"claude": model}, conditions=("C6", "C6P"), regimes=("D0",), items=2)
        suite = load_suite(path)
        summary = run_suite(suite, quiet=True)
    assert [entry.condition_id for entry in summary.not_applicable] == ["C6"]
    assert service.schemas
    assert not any("minimum" in schema for schema in service.schemas), "it was sent all the same"
    log = RunPaths.of(suite.profile.run.output_dir, "t").log
    rows = list(iter_newest_rows(log))
    assert {row.condition.id for row in rows} == {"C6P"}
    for row in rows:
        assert row.condition.operators[-1] == "TYPE_CONSTRAIN_IN_PART"
        # The rationale is longer than the whole schema allows, and just what the part allows.
        assert row.parsed.schema_valid is False
        assert (row.metrics["constraint_failed"], row.metrics["constraint_broken"]) == (True, False)
    (note,) = read_manifest(log).enforced_in_part
    assert "/properties/rationale: 'maxLength' taken out" in note.reason
