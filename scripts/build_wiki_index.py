"""Build the search index of a dataset's pages: the same as ``pcsuite index build``."""

from __future__ import annotations

import sys

from pcsuite.cli import main

if __name__ == "__main__":
    sys.exit(main(["index", "build", *sys.argv[1:]]))
