#!/usr/bin/env python3
"""Export datasets from the Hugging Face hub: ``pcsuite export-datasets`` under its older name.

    python scripts/export_hf_datasets.py --cache-dir .cache --only gsm8k,ag_news

All options of ``pcsuite export-datasets`` work here too.
"""

from __future__ import annotations

import sys

from pcsuite.cli import main

if __name__ == "__main__":
    sys.exit(main(["export-datasets", *sys.argv[1:]]))
