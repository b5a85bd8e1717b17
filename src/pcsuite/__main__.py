"""``python -m pcsuite``: the command line where the script of that name is not on the path."""

import sys

from pcsuite.cli import main

sys.exit(main())
