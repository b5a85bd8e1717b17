"""Runs documented commands in an environment that has nothing but what the README installs; no pytest there.

Takes a JSON file with pages and their commands and prints, as JSON, what every command ended with. Each page starts in a
fresh copy of the desk, as in ``tests/test_documented_commands.py``.
"""

import contextlib
import io
import json
import os
import shutil
import sys
import time
import webbrowser
from pathlib import Path

from pcsuite.cli import main


def ran(words):
    """Exit status and what was said on standard error."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            status = main(words)
    except SystemExit as ended:
        status = ended.code
    return int(status), said.getvalue()


if __name__ == "__main__":
    webbrowser.open = lambda url: True
    desk, pages = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    results = []
    for number, (page, commands) in enumerate(pages.items()):
        folder = desk.parent / f"page{number}"
        shutil.copytree(desk, folder)
        os.chdir(folder)
        for words in commands:
            start = time.monotonic()
            status, said = ran(words)
            results.append([page, words, status, said, round(time.monotonic() - start, 2)])
    print(json.dumps(results))
