"""What a release is made of, as a CycloneDX document: the project and every locked package, with its files' hashes.

    python scripts/sbom.py --out build/sbom.cdx.json

It is made of ``requirements.lock`` alone, so the same lock gives the same document.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
NAME = "prompt-control-suite"
_PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^ \\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def packages(lock: str) -> dict[tuple[str, str], list[str]]:
    """The sha256 of the files of every package of a lock, by name and version."""
    found: dict[tuple[str, str], list[str]] = {}
    current: list[str] = []
    for line in lock.split("\n"):
        if match := _PIN.match(line):
            current = found[match["name"], match["version"]] = []
        current += _HASH.findall(line)
    return found


def version() -> str:
    """The project's own version."""
    text = (ROOT / "src" / "pcsuite" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    assert match is not None
    return match[1]


def document(lock: str) -> dict[str, Any]:
    """The CycloneDX 1.6 document of a lock."""
    root = f"pkg:pypi/{NAME}@{version()}"
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{number}",
            "name": name,
            "version": number,
            "purl": f"pkg:pypi/{name}@{number}",
            "properties": [{"name": "pcsuite:file:sha256", "value": value} for value in hashes],
        }
        for (name, number), hashes in packages(lock).items()
    ]
    identity = uuid.uuid5(uuid.NAMESPACE_URL, root + hashlib.sha256(lock.encode()).hexdigest())
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application", "bom-ref": root, "name": NAME, "version": version(), "purl": root,
            }
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [one["bom-ref"] for one in components]}],
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Write the document."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="file to write (default: standard output)")
    args = parser.parse_args(argv)
    text = json.dumps(document(LOCK.read_text(encoding="utf-8")), indent=1) + "\n"
    if args.out is None:
        print(text, end="")
    else:
        args.out.write_text(text, encoding="utf-8")
        print(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
