"""Write ``constraints.txt`` and ``requirements.lock``: the versions of an environment, and the hashes of their files.

    python scripts/lock.py .venv-test/bin/python .venv-docs/bin/python

The environments are those that the tests ran in; where two have a package in different versions the first counts. The
hashes are those of every file of a version that the package index lists, so that the lock serves every platform, and no
name of an index stands in it. torch is left out: its build is chosen by the machine. To install from it:

    pip install --no-deps --require-hashes -r requirements.lock
    pip install torch==2.13.0        # only for the extra hf
    pip install --no-deps .
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS, LOCK = ROOT / "constraints.txt", ROOT / "requirements.lock"
LEFT_OUT = ("torch", "triton", "nvidia-", "pip", "setuptools", "wheel", "prompt-control-suite")
"""What is no part of the lock: torch with what its builds bring, the installers, and the project itself."""
CONSTRAINTS_HEAD = (
    "# Versions that the tests of this release ran with, for Python {python}:"
    " pip install -c constraints.txt 'prompt-control-suite[…]'\n"
)
LOCK_HEAD = (
    "# The same versions with the sha256 of every file; scripts/lock.py writes it. Installed first, then the\n"
    "# project without its dependencies (torch, where it is wanted, by itself):\n"
    "#   pip install --no-deps --require-hashes -r requirements.lock && pip install --no-deps .\n"
)


def normal(name: str) -> str:
    """A package's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(python: str) -> dict[str, str]:
    """Versions of an environment's packages by their names, those that are left out aside."""
    words = [python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    listed = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    versions = {normal(entry["name"]): entry["version"] for entry in listed}
    return {
        name: version
        for name, version in versions.items()
        if not any(name == out or (out.endswith("-") and name.startswith(out)) for out in LEFT_OUT)
    }


def index_addresses() -> list[str]:
    """The package indexes that pip is set up to ask, the usual one where it says nothing."""
    words = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(words, check=False, capture_output=True, text=True).stdout
    named = re.findall(r"index-url='([^']*)'", settings)
    named += [os.environ.get("PIP_INDEX_URL", ""), os.environ.get("PIP_EXTRA_INDEX_URL", "")]
    addresses = [address for text in named for address in text.split()]
    # An index that is only another one's addition is asked after the usual one.
    usual = [] if re.search(r"(?<!extra-)index-url=", settings) else ["https://pypi.org/simple"]
    return list(dict.fromkeys([*usual, *addresses]))


class _Links(HTMLParser):
    """The addresses on a page of an index."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a link leads."""
        self.addresses += [value for name, value in attrs if tag == "a" and name == "href" and value]


def files_of(address: str, name: str) -> dict[str, str]:
    """The sha256 of every file that an index lists of a package, by file name; none where it does not know it."""
    page = urljoin(address.rstrip("/") + "/", f"{name}/")
    accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
    if urlsplit(page).scheme == "file":
        page += "index.html"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(page, headers={"Accept": accept}), timeout=60
        ) as answer:
            kind, body = answer.headers.get("Content-Type", ""), answer.read()
    except OSError:
        return {}
    if "json" in kind:
        files = json.loads(body)["files"]
        return {file["filename"]: file["hashes"]["sha256"] for file in files if "sha256" in file["hashes"]}
    links = _Links()
    links.feed(body.decode("utf-8", "replace"))
    parts = [urlsplit(link) for link in links.addresses]
    return {
        unquote(part.path.rsplit("/", 1)[-1]): part.fragment.removeprefix("sha256=")
        for part in parts
        if part.fragment.startswith("sha256=")
    }


def is_version(file: str, name: str, version: str) -> bool:
    """Whether a file is one of that version: a wheel (PEP 427) or a source archive."""
    stem = file.removesuffix(".whl") if file.endswith(".whl") else re.sub(r"\.(tar\.(gz|bz2)|zip)$", "", file)
    if stem == file:
        return False
    if file.endswith(".whl"):
        parts = stem.split("-")
        return normal(parts[0]) == name and parts[1].replace("_", "-") == version
    return normal(stem) in (normal(f"{name}-{version}"), f"{name}-{normal(version)}")


def hashes(name: str, version: str, addresses: list[str]) -> list[str]:
    """The sha256 of every file of a version that any of the indexes lists, sorted."""
    known: set[str] = set()
    for address in addresses:
        known |= {value for file, value in files_of(address, name).items() if is_version(file, name, version)}
    return sorted(known)


def main(argv: list[str] | None = None) -> int:
    """Write both files; 1 where a package's files are in no index."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="interpreters of the environments")
    args = parser.parse_args(argv)
    versions: dict[str, str] = {}
    for python in args.pythons:
        versions = installed(python) | versions
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    words = [args.pythons[0], "-c", code]
    python = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    pins = "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))
    CONSTRAINTS.write_text(CONSTRAINTS_HEAD.format(python=python) + pins, encoding="utf-8")
    addresses = index_addresses()
    with ThreadPoolExecutor(8) as pool:
        pairs = sorted(versions.items())
        found = list(pool.map(lambda pair: hashes(*pair, addresses), pairs))
    unknown = [f"{name}=={version}" for (name, version), known in zip(pairs, found, strict=True) if not known]
    if unknown:
        print(f"in no index: {', '.join(unknown)}", file=sys.stderr)
        return 1
    lines = [
        " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{value}" for value in known)]) + "\n"
        for (name, version), known in zip(pairs, found, strict=True)
    ]
    LOCK.write_text(LOCK_HEAD + "".join(lines), encoding="utf-8")
    print(f"{CONSTRAINTS.name} and {LOCK.name}: {len(versions)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
