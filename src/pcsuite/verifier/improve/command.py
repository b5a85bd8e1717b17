"""``improve --extractor CMD``: a user's own extractor in place of a model of the suite.

Documents are whatever the extractor reads: PDFs, scans, text. It gets the document and the prompt as files in a folder
of their own, away from the truth, and prints one JSON object. Everything that guards the loop (held-out evals,
rollback, nothing asked twice, a state that survives a kill) is the loop's and holds for it as well.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pcsuite._util.files import sha256_file
from pcsuite.errors import ConfigError, DataError
from pcsuite.verifier.evals import Eval
from pcsuite.verifier.improve import state

_PLACES = ("{prompt}", "{document}")
_SHOWN = 300


def document_of(one: Eval) -> tuple[str, str]:
    """The path of an eval's only ``document.*`` file and the hash of its content.

    Raises ``DataError`` where there is none or more than one.
    """
    files = sorted(path for path in one.folder.glob("document.*") if path.is_file())
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        hint = "an eval has one file document.pdf, document.txt or the like"
        raise DataError(f"{one.folder}: document files: {names}", hint=hint)
    return str(files[0]), sha256_file(files[0])


@dataclass(frozen=True, slots=True)
class CommandExtractor:
    """``extract`` of the loop: runs a command and takes what it prints for the answer."""

    command: str
    """With ``{prompt}`` and ``{document}`` where the paths of the two files belong."""
    timeout_seconds: float

    def check(self) -> None:
        """Raise ``ConfigError`` where the command cannot be run or would not see prompt and document.

        Nothing is run: the program must be found, both ``{prompt}`` and ``{document}`` must occur among its words,
        and the time limit must be above 0.
        """
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ConfigError(f"--extractor: {error}", hint="quote it as a shell would") from None
        for place in _PLACES:
            if not any(place in word for word in words):
                hint = "for example: --extractor 'python extract.py {prompt} {document}'"
                raise ConfigError(f"--extractor: {place} does not occur in it", hint=hint)
        if shutil.which(words[0]) is None:
            raise ConfigError(f"--extractor: '{words[0]}' is no program that can be run")
        if self.timeout_seconds <= 0:
            raise ConfigError(f"--extractor-timeout {self.timeout_seconds:g}: it must be more than 0")

    def __call__(self, prompt: state.PromptVersion, document: str) -> str:
        """What the command prints for a document, as text; whether it is a record is judged with the score.

        Raises ``DataError`` where the command fails or takes too long: that is no answer, and nothing is stored.
        """
        source = Path(document)
        name = source.parent.name
        with tempfile.TemporaryDirectory(prefix="pcsuite-extract-") as folder:
            # A copy, so that the folder of the truth is not the next thing an extractor finds.
            files = {"{prompt}": Path(folder) / "prompt.txt", "{document}": Path(folder) / source.name}
            files["{prompt}"].write_bytes(prompt.text.encode("utf-8", "backslashreplace"))
            shutil.copyfile(source, files["{document}"])
            words = shlex.split(self.command)
            for place, path in files.items():
                words = [word.replace(place, str(path)) for word in words]
            try:
                done = subprocess.run(
                    words,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=self.timeout_seconds,
                    check=False,
                    env={**os.environ, "PCS_PROMPT_VERSION": f"v{prompt.version:03d}"},
                )
            except subprocess.TimeoutExpired:
                took = f"took more than {self.timeout_seconds:g} seconds"
                raise DataError(f"--extractor: {name}: {took}", hint="--extractor-timeout") from None
            except OSError as error:
                raise DataError(f"--extractor: {words[0]}: {error.strerror or error}") from None
        if done.returncode != 0:
            message = " ".join(done.stderr.decode("utf-8", "replace").split())[-_SHOWN:] or "it said nothing"
            raise DataError(f"--extractor: {name}: exit status {done.returncode}: {message}")
        return done.stdout.decode("utf-8", "replace")
