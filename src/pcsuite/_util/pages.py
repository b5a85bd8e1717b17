"""Templates of the pages that the suite writes or serves, and the one script that such a page may run."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined


@lru_cache(maxsize=8)
def page_templates(package: str) -> Environment:
    """The templates of a package, in its folder ``templates``, each compiled once a process.

    Whatever is put into them is escaped, since models and users wrote most of it, and a name that a page forgot is an
    error.

        page_templates("pcsuite.report").get_template("runs.html.j2").render(runs=[])
    """
    return Environment(
        loader=PackageLoader(package, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def script_hash(script: str) -> str:
    """The sha256 (base64) of a page's script, by which its policy allows this script and no other."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
