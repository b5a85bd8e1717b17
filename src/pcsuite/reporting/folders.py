"""Where a report's files lie: one folder per run, links to the newest at the old places, a page that lists them all.

``<output_dir>/reports/<run>/``, ``tables/<run>/`` and ``plots/<run>/`` hold the files of a run under fixed names.
``reports/index.html`` lists the runs. ``tables/effects.csv``, ``plots/…`` and ``reports/cache_report.md`` are links to
the files of the run that was reported on last.
"""

from __future__ import annotations

import json
import logging
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pcsuite._util.changes import FileChanges, changing_files
from pcsuite._util.files import LOCK_NAME, PARTIAL, file_lock, replace_atomically, replacing, write_errors
from pcsuite._util.hashing import sha256_hex
from pcsuite.errors import AnalysisError
from pcsuite.pages.render import render_page

_LOGGER = logging.getLogger("pcsuite")
RESULT_FILE = "result.json"
"""What the report says, for programs; it also tells whose folder this is."""
OWNER_FILE = "logs.json"
INDEX_FILE = "index.html"
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class ReportFolders:
    """The three folders of one run's report below ``output_dir``."""

    output_dir: Path
    name: str

    @property
    def reports(self) -> Path:
        """Pages: ``index.html``, ``report.md``, ``latex/``, ``result.json``, ``cache_report.md``."""
        return self.output_dir / "reports" / self.name

    @property
    def tables(self) -> Path:
        """Tables as CSV and Parquet."""
        return self.output_dir / "tables" / self.name

    @property
    def plots(self) -> Path:
        """Figures as PNG."""
        return self.output_dir / "plots" / self.name

    def publish(self) -> Path:
        """Make this run the newest: link to its files at the old places, and list all runs on the index page.

        Links to files of the report before are removed, so that the old places never mix two runs. Returns the index
        page. Raises ``AnalysisError`` where a folder cannot be written.
        """
        try:
            with file_lock(
                self.output_dir / "reports" / LOCK_NAME
            ):  # the old places are shared by all reports
                return self._publish()
        except OSError as error:
            where = error.filename or self.output_dir
            raise AnalysisError(f"{where}: cannot be written ({error.strerror})") from error

    @contextmanager
    def changing(self) -> Iterator[FileChanges]:
        """Files of this report that appear together when the block ends well; a second report waits, and says so.

        Raises ``AnalysisError`` where they cannot be written.
        """
        parts = self.tables / ".parts"

        def say(by: str) -> None:
            _LOGGER.warning("waiting: the report on %s is being made%s", self.name, by)

        with write_errors(AnalysisError, self.tables):
            parts.mkdir(parents=True, exist_ok=True)
        with (
            write_errors(AnalysisError, self.reports),
            file_lock(parts / "report.lock", waiting=say),
            # Made anew by the same command: it need not outlive a power cut.
            changing_files(parts / "report.changes", root=self.output_dir, durable=False) as changes,
        ):
            yield changes

    def _publish(self) -> Path:
        for folder in (self.reports, self.tables, self.plots):
            for path in folder.parent.glob("*"):  # links of ours lead to a file of one of the runs below
                if path.is_symlink() and len(path.readlink().parts) == 2:
                    path.unlink(missing_ok=True)
            for path in sorted(folder.glob("*")):
                if path.is_file() and path.name != INDEX_FILE and not path.name.endswith(PARTIAL):
                    _link(folder.parent / path.name, path)
        return write_index(self.output_dir, newest=self.name)


def report_folders(logs: Sequence[Path], output_dir: Path) -> ReportFolders:
    """The folders for a report on these logs: named after the run, or after all of them joined by ``+``.

    Where another run of the same name (a log elsewhere that still exists) has the folder, a few digits of the log's
    path are added, so that nothing of the other is overwritten.
    """
    name = "+".join(log.stem for log in logs)
    paths = [str(log.resolve()) for log in logs]
    mark = sha256_hex("\n".join(paths))[:6]
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 7]}-{mark}"
    folders = ReportFolders(output_dir, name)
    try:
        content = json.loads((folders.tables / ".parts" / OWNER_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = []
    owners = [str(path) for path in content] if isinstance(content, list) else []
    # Two runs of one name from different folders: the later one gets a mark, and neither loses its tables.
    if owners and owners != paths and any(Path(path).exists() for path in owners):
        folders = ReportFolders(output_dir, f"{name}-{mark}")
    return folders


def record_owner(folders: ReportFolders, logs: Sequence[Path]) -> None:
    """Note whose tables these are, for :func:`report_folders`; raises ``AnalysisError`` where it cannot be written."""
    note = folders.tables / ".parts" / OWNER_FILE
    with write_errors(AnalysisError, folders.tables):
        note.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(note, json.dumps([str(log.resolve()) for log in logs]))


def _link(link: Path, target: Path) -> None:
    """A relative link, so that a folder of results can be moved; a copy where the file system has no links."""
    link.unlink(missing_ok=True)
    try:
        link.symlink_to(Path(target.parent.name) / target.name)
    except FileExistsError:
        pass  # another report was faster, and the newest is as good
    except (OSError, NotImplementedError):
        shutil.copyfile(target, link)


def write_index(output_dir: Path, newest: str) -> Path:
    """Write ``reports/index.html``: every run that was reported on, ``newest`` first and with its results."""
    folder = output_dir / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    runs = sorted(
        (entry for path in folder.glob(f"*/{RESULT_FILE}") if (entry := _entry(path)) is not None),
        key=lambda entry: (entry["name"] == newest, entry["last"]),
        reverse=True,
    )
    page = render_page("reporting/templates/runs.html.j2", runs=runs)
    target = folder / INDEX_FILE
    with replacing(target) as partial:
        partial.write_text(page, encoding="utf-8", errors="backslashreplace")
    return target


def _entry(path: Path) -> dict[str, Any] | None:
    """What the list says of a run; ``None`` for a file that is no result of ours."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(result, Mapping) or not isinstance(result.get("run"), str):
        return None
    name = path.parent.name
    pages = [page for page in (INDEX_FILE, "report.md") if (path.parent / page).is_file()]
    return {
        "name": name,
        "last": str(result.get("last_row") or ""),
        "answers": result.get("answers") or 0,
        "tasks": result.get("tasks") or [],
        "models": result.get("models") or [],
        "sentence": result.get("sentence") or "",
        "alarms": result.get("alarms") or [],
        "page": f"{quote(name)}/{pages[0]}" if pages else None,
        "tables": f"../tables/{quote(name)}/",
        "view": f"pcsuite view {shlex.quote(result['run'])}",
    }
