"""Whether the files here follow a rule: ``python follows.py RULE`` in the folder that the agent worked in."""

import ast
import sys
from pathlib import Path

files = sorted(Path().glob("*.py"))
texts = [path.read_text(encoding="utf-8") for path in files]
try:
    trees = [ast.parse(text) for text in texts]
except SyntaxError:
    sys.exit("no Python")
functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
if not functions:
    sys.exit("no function")
RULES = {
    "name": all(Path(f"{node.name}.py").exists() for node in functions),
    "docstring": all(map(ast.get_docstring, functions)),
    "types": all(node.returns and all(arg.annotation for arg in node.args.args) for node in functions),
}
sys.exit(not RULES[sys.argv[1]])
