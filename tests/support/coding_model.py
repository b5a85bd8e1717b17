"""A model of the tutorial's agent on loopback: it writes each function as its tests want it, under the rules it is given."""

from __future__ import annotations

import json
import re

from aiohttp import web

from support.threaded_server import ThreadedServer

BODIES = {
    "last_letter": "text[-1]", "first_word": "text.split()[0]", "last_word": "text.split()[-1]",
    "count_words": "len(text.split())", "total": "sum(text)", "largest": "max(text)", "smallest": "min(text)",
    "first_entry": "text[0]", "lower_case": "text.lower()", "without_spaces": "text.replace(' ', '')",
    "is_palindrome": "text == text[::-1]", "sort_down": "sorted(text, reverse=True)", "sort_up": "sorted(text)",
    "twice": "text * 2", "without_first": "text[1:]", "without_last": "text[:-1]", "turn_around": "text[::-1]",
}  # fmt: skip
"""What some of the tutorial's functions return; of the others it knows nothing."""


class CodingModel(ThreadedServer):
    """Answers chats with one call of ``write_file``; it begins functions with a guard where the rules ask for one."""

    def app(self) -> web.Application:
        application = web.Application()
        application.router.add_post("/v1/chat/completions", self._answer)
        return application

    async def _answer(self, request: web.Request) -> web.Response:
        messages = (await request.json())["messages"]
        rules, task = messages[0]["content"], messages[1]["content"]
        name = re.search(r"Write a function (\w+)", task)[1]
        guard = "    if not text: return None\n" if "if not text" in rules else ""
        code = f"def {name}(text):\n{guard}    return {BODIES.get(name, 'None')}\n"
        call = {"tool": "write_file", "path": f"{name}.py", "content": code}
        choices = [{"message": {"role": "assistant", "content": json.dumps(call)}}]
        return web.json_response(
            {"choices": choices, "usage": {"prompt_tokens": 100, "completion_tokens": 30}}
        )
