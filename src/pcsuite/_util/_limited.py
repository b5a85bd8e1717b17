"""Starts a shell command with a limit of memory and, where the system lets it, without a network.

A script of its own, run by an interpreter that loads nothing else: limits must be set in the child, between its start
and the command's. ``_limited.py BYTES CUT COMMAND``: ``CUT`` is ``1`` where the network is to be cut, and an end with
status 126 says that it could not be. What the command prints comes as standard error. Without a command nothing is
started: that is how the parent asks whether it can.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import sys
from contextlib import suppress

CANNOT = 126
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_DIE_WITH_PARENT = 1


def cut_network() -> bool:
    """Leave the network: only a loopback of its own is left; ``False`` where the system does not let us."""
    if sys.platform != "linux":
        return False
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        user, group = os.getuid(), os.getgid()
        if user or libc.unshare(_NEW_NET):
            if libc.unshare(_NEW_USER | _NEW_NET):
                return False
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                    stream.write(text)
        import fcntl

        with socket.socket() as probe:
            fcntl.ioctl(probe, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))
    except (OSError, AttributeError):
        return False
    return True


def limit(memory: int) -> None:
    """Let each process have so many bytes of data, and write no core."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, ValueError, OSError):
        pass  # a system without such limits


def main() -> None:
    """Set the limits and become the command."""
    memory, cut, *command = sys.argv[1:]
    if cut == "1" and not cut_network():
        sys.exit(CANNOT)
    if not command:
        return
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and what it starts would too
    limit(int(memory))
    os.dup2(2, 1)
    os.execv("/bin/sh", ["sh", "-c", *command])


if __name__ == "__main__":
    main()
