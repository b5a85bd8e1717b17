"""Whether the function that a task asks for is there and right: the scorer of the tutorial's agent.

pcsuite runs it in the folder that the agent worked in, with the task as JSON on standard input; exit status 0 is a
success.
"""

import importlib.util
import json
import sys
from pathlib import Path

item = json.load(sys.stdin)["item"]
for path in sorted(Path().glob("*.py")):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit):
        continue
    if hasattr(module, item["name"]):
        break
else:
    sys.exit(f"no file has the function {item['name']}")
for test in item["tests"].split(";"):
    if not eval(test, vars(module)):
        sys.exit(f"not true: {test.strip()}")
