"""A shell on a terminal of its own, and what its line says after keys were pressed in it."""

from __future__ import annotations

import os
import pty
import re
import select
import stat
import sys
import time
from pathlib import Path

PATIENCE_S = 60
SETTINGS = {
    "bash": r"""bind -x '"\C-x\C-l": printf "<<%s>>" "$READLINE_LINE"'; bind 'set enable-bracketed-paste off'""",
    "zsh": r"""show() { print -rn -- "<<$BUFFER>>" }; zle -N show; bindkey '^X^L' show; autoload -Uz compinit; compinit -u -D""",
}
START = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


def command_on_path(folder: Path) -> Path:
    """A folder with an executable ``pcsuite`` that runs this interpreter's."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "pcsuite"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pcsuite.cli "$@"\n', encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


def line_after(shell: str, script: str, typed: str, folder: Path, commands: Path) -> str:
    """The line a shell holds after ``typed`` (tabs are presses of the key), with a completion script loaded."""
    environment = {
        **os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(folder), "PS1": "ready> ",
        "COLUMNS": "400", "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    (folder / "script").write_text(script, encoding="utf-8")
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(START[shell][0], START[shell], environment)
    seen = ""
    try:

        def until(pattern: str) -> re.Match[str]:
            nonlocal seen
            deadline = time.monotonic() + PATIENCE_S
            while (found := re.search(pattern, seen)) is None:
                assert time.monotonic() < deadline, f"{shell} showed {seen!r}"
                if select.select([terminal], [], [], 0.2)[0]:
                    seen += os.read(terminal, 65536).decode(errors="replace")
            seen = seen[found.end() :]
            return found

        until("ready> ")
        os.write(terminal, f"{SETTINGS[shell]}\nsource ./script; echo loa''ded\n".encode())
        until("loaded")
        until("ready> ")
        os.write(terminal, typed.encode())
        os.write(terminal, b"\x18\x0c")
        return until(r"<<(.*?)>>")[1]
    finally:
        os.close(terminal)
        os.waitpid(process, 0)
