"""A process that outlives nobody: it ends process groups whose parent is gone. Run as a script, with nothing imported.

Each line of its standard input adds a group (``+123``) or forgets one (``-123``). The end of the input means that the
process which wrote to it has ended, however it did: what is still known then is killed.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Follow the lines of standard input; at its end kill what is left."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        number = int(line)
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()
