"""What a child process gets of our environment: a list of variables, never all keys of the shell."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

# fmt: off
_EVERYWHERE = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA",
    "LOCALAPPDATA", "PROGRAMDATA", "NUMBER_OF_PROCESSORS",
))
_PREFIXES = ("LC_", "XDG_", "OMP_", "MKL_", "OPENBLAS_")
NETWORK = (
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC",
)
# fmt: on
"""For children that reach the network: proxies and certificates."""
PACKAGES = (*NETWORK, "PIP_", "UV_")
"""For installers: their own settings, the package index among them."""


def child_environment(allowed: Iterable[str] = (), values: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: where to find programs, files and a language, and what is named besides.

    ``allowed`` are further variables of ours, a name that ends in ``_`` standing for all that begin so; ``values`` are
    set on top. Everything else stays here, API keys first of all.

        child_environment(NETWORK, {"HF_HUB_OFFLINE": "1"})
    """
    more = tuple(allowed)
    names = _EVERYWHERE | {name for name in more if not name.endswith("_")}
    prefixes = (*_PREFIXES, *(name for name in more if name.endswith("_")))
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in names or name.upper() in _EVERYWHERE or name.startswith(prefixes)
    }
    return kept | dict(values or {})
