"""``pcsuite view``: the browser over runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pcsuite._util.text import counted
from pcsuite.commands import DIR, options
from pcsuite.commands.options import Group, flag, switch
from pcsuite.errors import ConfigError, did_you_mean, require


def configure_view(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite view``.

    A small server on this computer's loopback address, behind a token: a matrix of items and conditions, items with
    their answers side by side, prompts by operator, effects that follow the filter, marks. Ctrl-C ends it.

    examples:
      pcsuite view                               # all runs of ./outputs
      pcsuite view mine                          # opens that run
      pcsuite view --config my_profile.yaml      # with the inputs and truths of its items
      pcsuite view --port 8765 --no-open
      pcsuite view mine --bundle mine.html       # the same pages in one file, to send to others
      pcsuite view mine --bundle shared_folder   # as a folder of files
    """
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run to open first")
    flags = [
        options.OUTPUT_DIR.but("where the runs are (default: the profile's, else outputs)", **DIR),
        options.CONFIG.but("profile whose items are shown; by default the bundled tasks'", default=None),
        flag("--evals", "folder of the verifier's evals, to look at them too", **DIR),
        flag("--port", "port (default: any that is free)", type=int, default=0),
        flag("--host", "address to listen on; anything but loopback needs --token", default="127.0.0.1"),
        flag("--token", "the token that addresses must carry (default: a new one)"),
        flag(
            "--bundle",
            "write the pages of RUN into a folder of files that open from disk, or with a name that ends in .html"
            " into one file, and stop",
            **DIR,
        ),
        switch("--no-open", "do not open a browser"),
    ]
    options.add_flags(parser, Group("", flags))


def execute_view(args: argparse.Namespace) -> int:
    """Serve the pages until Ctrl-C.

    Raises ``ConfigError`` where there is no run, or where others could reach the server without a token of one's own.
    """
    require("uvicorn", "view")
    require("starlette", "view")
    from pcsuite.config.load import load_suite
    from pcsuite.view.runs import list_runs
    from pcsuite.view.serving import Serving
    from pcsuite.view.viewer import Viewer

    suite = load_suite(args.config) if args.config else None
    output_dir = args.output_dir or Path(suite.profile.run.output_dir if suite is not None else "outputs")
    names = [entry.name for entry in list_runs(output_dir)]
    if not names and args.evals is None:
        raise ConfigError(f"there is no run in {output_dir / 'runs'}", hint="pcsuite run --config quickstart")
    if args.run is not None and args.run not in names:
        raise ConfigError(
            f"there is no run '{args.run}' in {output_dir / 'runs'}", hint=did_you_mean(args.run, names)
        )
    if args.bundle is not None:
        from pcsuite.view.bundle import write_bundle, write_bundle_file

        viewer = Viewer(output_dir, suite, args.evals)
        run = args.run or names[0]
        one_file = args.bundle.suffix.lower() in (".html", ".htm")
        try:
            files = (
                [write_bundle_file(viewer, run, args.bundle)]
                if one_file
                else write_bundle(viewer, run, args.bundle)
            )
        finally:
            viewer.close()
        size = sum(file.stat().st_size for file in files)
        first = args.bundle if one_file else args.bundle / "index.html"
        print(f"{first} ({counted(len(files), 'file')}, {size / 1e6:.1f} MB)")
        return 0
    serving = Serving(
        output_dir,
        args.run,
        suite,
        args.evals,
        host=args.host,
        port=args.port,
        token=args.token,
    )
    print(f"pcsuite view: {serving.url}\nCtrl-C ends it", flush=True)
    if not args.no_open:
        serving.open()
    serving.run()
    return 0
