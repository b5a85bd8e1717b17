"""``pcsuite export-datasets``, ``init-task``, ``index`` and ``import``: items and logs from elsewhere."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections import Counter
from pathlib import Path

from pcsuite._util.text import one_line, underlying_stream
from pcsuite.commands import DIR, FILE, options
from pcsuite.commands.foreign import FOREIGN
from pcsuite.commands.options import Group, flag, several, switch
from pcsuite.config.profile import check_run_name
from pcsuite.config.spellings import dataset_name
from pcsuite.data.task_recipes import KIND_OF_ANSWER, RECIPES
from pcsuite.errors import ConfigError, Exit, did_you_mean
from pcsuite.retrieval.base import DEFAULT_K
from pcsuite.retrieval.bm25_local import Bm25Index, assign_index, ensure_index, find_pages


def configure_export_datasets(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite export-datasets``.

    examples:
      pcsuite export-datasets                                   # everything, from the Hugging Face hub
      pcsuite export-datasets --from originals                  # from original files in originals/<dataset>/
      pcsuite export-datasets --from originals --only gsm8k,trec
      pcsuite export-datasets --only conll,ag,csqa,truthfulqa   # datasets have several names, and tasks' ids do too
      pcsuite export-datasets --config profile_A --missing      # what a profile needs and the cache has not
      pcsuite export-datasets --hub-dir mirror                  # from tables saved in the hub's layout, offline
      pcsuite export-datasets --from originals --allow-partial  # accept short files and say so in the manifest

    Items go to <cache-dir>/datasets/<dataset>_<split>.jsonl, with a manifest.json of sources, counts and hashes.
    scripts/download_datasets.sh fetches the original files.
    """
    from pcsuite.data.export import EXPORTERS

    names = f"export these datasets only, by any of their names or by task id: {', '.join(EXPORTERS)}"
    missing = "leave out datasets whose items (the scored split of a bundled task) are in the cache already"
    version = "v1: the 817 questions (default); v2025: the 790 of the revision"
    wiki = "fetch FEVER's Wikipedia from the hub too: several GB (hub road)"
    flags = [
        several("--only", names),
        options.CONFIG.but("export the datasets of a profile's tasks only", default=None),
        switch("--missing", missing),
        flag("--cache-dir", "where to write (default: .cache)", **DIR, default=Path(".cache")),
    ]
    sources = [
        flag("--from", "read original published files under DIR", **DIR, dest="from_dir"),
        flag("--hub-dir", "read hub tables saved under DIR instead of the hub", **DIR),
        switch("--allow-partial", "accept sources with fewer records than published"),
        flag("--truthfulqa-version", version, choices=("v1", "v2025"), default="v1"),
        switch("--fever-wiki", wiki),
        flag("--spider-dir", "folder of Spider's tables.json and database/ (hub road)", **DIR),
    ]
    options.add_flags(parser, Group("", flags), Group("the sources", sources))


def execute_export_datasets(args: argparse.Namespace) -> int:
    """Export the datasets and print their counts and notes.

    Returns 2 where one of them failed; the others are written all the same.
    """
    from pcsuite.config.load import load_suite
    from pcsuite.data.export import EXPORTERS
    from pcsuite.data.export.base import ExportOptions
    from pcsuite.data.export.pipeline import export_datasets, exported_as, exported_datasets

    on_terminal = sys.stderr.isatty()

    def progress(line: str) -> None:
        if on_terminal:
            print(f"\r\033[K{one_line(line)}", end="", file=underlying_stream(sys.stderr), flush=True)

    only = args.only
    if args.config is not None:
        suite = load_suite(args.config)
        chosen = [suite.tasks[name].dataset for name in suite.profile.selection.tasks]
        chosen = [name for name in chosen if name in EXPORTERS]
        only = chosen if only is None else [name for name in only if exported_as(name) in chosen]
    if args.missing:
        there = exported_datasets(args.cache_dir)
        only = [name for name in only or EXPORTERS if exported_as(name) not in there]
        if not only:
            print(f"nothing is missing in {args.cache_dir / 'datasets'}")
            return Exit.DONE
    results = export_datasets(
        args.cache_dir,
        from_dir=args.from_dir,
        hub_dir=args.hub_dir,
        only=only,
        options=options.settings_from(ExportOptions, args),
        progress=progress,
    )
    progress("")
    width = max((len(name) for result in results for name in result.outputs), default=0)
    for result in results:
        for name, records in result.outputs.items():
            print(f"{name:<{width}}  {records:>7} records")
    for result in results:
        if result.error is not None:
            print(f"{result.dataset}: FAILED")
        if result.skipped is not None:
            print(f"{result.dataset}: skipped, {result.skipped}")
        for note in result.notes:
            print(f"{result.dataset}: {note}")
    print(f"{sum(len(result.outputs) for result in results)} files in {args.cache_dir / 'datasets'}")
    failed = [result for result in results if result.error is not None]
    for result in failed:
        print(f"pcsuite: {result.dataset}: {result.error}", file=sys.stderr)
    return Exit.BAD_INPUT if failed else Exit.DONE


def configure_init_task(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite init-task``.

    examples:
      pcsuite init-task tickets --data tickets.csv             # asks for what is not given
      pcsuite init-task tickets --data tickets.csv --kind classification --input text --answer queue
      pcsuite init-task invoices --data invoices.jsonl --kind extraction --input body --fields total,currency,due
      pcsuite init-task quiz --data quiz.csv --kind choice --input question --choices a,b,c,d --answer right
      pcsuite init-task tickets --data tickets.csv --answer-as label --input text --answer queue    # no JSON
      pcsuite init-task replies --data replies.csv --scorer my_scorer.py:score --input mail --answer wanted
      pcsuite init-task checks --data checks.csv --kind assert --input question --answer __expected

    then:
      pcsuite run --config tickets_profile.yaml
    """
    parser.add_argument("name", help="the task's id: small letters, digits and '_'")
    answer_as = (
        "what the model answers with: text, json, number or label (default: as the kind is usually answered)"
    )
    flags = [
        flag(
            "--data",
            "your table: .csv, .tsv, .xlsx, .jsonl or .json",
            type=Path,
            required=True,
            metavar="FILE",
        ),
        options.one("model", "model of the profile (default: smollm2-135m)", default="smollm2-135m"),
        flag("--out", "folder of task, schema and profile (default: .)", **DIR, default=Path()),
        flag("--cache-dir", "items go to DIR/datasets", **DIR, default=Path(".cache")),
        switch("--overwrite", "replace files of an earlier init-task"),
    ]
    table = options.table_group(
        "the table; what is left out is asked for",
        flag("--answer-as", answer_as, choices=("text", "json", "number", "label")),
        flag("--schema", "JSON schema of the answer (default: made from the table)", **FILE),
        flag(
            "--train-share",
            "share of rows for exemplars (default: 4 rows, and a tenth of those beyond 60)",
            type=float,
            metavar="X",
        ),
        flag(
            "--dev-share",
            "share of rows for tuning (default: none up to 99 rows, then a fifth of those beyond 60)",
            type=float,
            metavar="X",
        ),
        kind="; ".join(f"{kind}: {recipe.summary}" for kind, recipe in RECIPES.items()),
        scorer="a scoring function of yours, with --kind own",
        input="column of the input; several are shown as 'name: value' lines",
        answer="column of the right answer (kind assert: of assertions)",
        labels="classification: the labels, in order (default: those that occur)",
        fields="extraction: columns of the record (default: JSON in --answer)",
    )
    options.add_flags(parser, Group("", flags), table)


def execute_init_task(args: argparse.Namespace) -> int:
    """Write a task, its schema, its items and a profile, and say how to run them.

    What the flags leave open is asked for on a terminal; elsewhere it is a ``DataError`` that names the flag.
    """
    from pcsuite.data.init_task import TaskRequest, init_task
    from pcsuite.data.table_files import read_table
    from pcsuite.evaluation.own_scorer import check_scorer

    check_scorer(args.scorer)
    known = list(read_table(args.data)[0].values)
    settings = options.table_from(args)
    kind = args.kind or ("own" if args.scorer else KIND_OF_ANSWER.get(args.answer_as))
    kind = settings["kind"] = kind or options.ask("kind of task", "--kind", list(RECIPES))

    def ask_columns(key: str, what: str, name: str) -> None:
        settings[key] = tuple(options.listed(options.ask(what, name, known)))

    if not settings["inputs"]:
        ask_columns("inputs", "column of the input", "--input")
    if kind == "choice" and not settings["choices"]:
        ask_columns("choices", "list of the option columns", "--choices")
    if kind == "extraction" and not settings["fields"] and args.answer is None:
        ask_columns("fields", "list of the record's columns", "--fields")
    elif kind not in ("extraction", "own") and args.answer is None and not settings["fields"]:
        settings["answer"] = options.ask("column of the right answer", "--answer", known)
    if kind == "classification" and not settings["labels"] and sys.stdin.isatty() and args.answer is None:
        labels = input("labels, parted by commas (empty: those that occur): ")
        settings["labels"] = tuple(options.listed(labels))
    result = init_task(
        options.settings_from(TaskRequest, args, schema_file=args.schema, out_dir=args.out, **settings)
    )
    print(f"task     {result.task_file}")
    if result.schema_file is not None:
        print(f"schema   {result.schema_file}")
    for split, (path, count) in result.items.items():
        print(f"{split:<8} {path} ({count} items)")
    print(f"profile  {result.profile_file}")
    for sentence in filter(None, (result.numbers, result.related)):
        print(sentence)
    print(f"\nnext: {shlex.join(['pcsuite', 'run', '--config', str(result.profile_file)])}")
    return 0


def configure_index(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite index``.

    examples:
      pcsuite index build                                     # of the exported FEVER pages, else of the bundled sample
      pcsuite index build --pages my_pages.jsonl --dataset nq_open   # {"page": ..., "sentences": [...]} a line
      pcsuite index search "capital of Karvenia" -k 3
      pcsuite index search "who wrote it" --index .cache/wiki_bm25/3f…
    """
    actions = parser.add_subparsers(dest="action", required=True, metavar="build|search")
    build = actions.add_parser("build", help="build the index, unless it is there")
    search = actions.add_parser("search", help="print the best sentences for a query")
    dataset = flag("--dataset", "whose pages (default: fever)", default="fever")
    cache = flag("--cache-dir", "the profile's run.cache_dir", **DIR, default=Path(".cache"))
    pages = flag("--pages", "a pages file instead of the dataset's", **FILE)
    options.add_flags(build, Group("", [pages, dataset, cache]))
    search.add_argument("query", help="what to look for")
    most = flag("-k", f"how many (default: {DEFAULT_K})", type=int, default=DEFAULT_K)
    index = flag("--index", "an index folder, instead of the dataset's", **DIR)
    options.add_flags(search, Group("", [most, index, dataset, cache]))


def execute_index(args: argparse.Namespace) -> int:
    """Build the search index of a dataset's pages, or print the best sentences for a query.

    Raises ``ConfigError`` for pages that are not there, an empty query and a number of sentences below 1.
    """
    own_pages = args.pages if args.action == "build" else None
    if own_pages is not None and not own_pages.is_file():
        raise ConfigError(f"--pages {own_pages}: no such file")
    if args.action == "search" and not args.query.strip():
        raise ConfigError("the query is empty", hint='pcsuite index search "capital of Karvenia"')
    if args.action == "search" and args.k < 1:
        raise ConfigError(f"-k {args.k}: at least 1 is needed")
    started = time.perf_counter()
    folder = args.index if args.action == "search" else None
    if folder is None:
        dataset = dataset_name(args.dataset)
        pages = own_pages if own_pages is not None else find_pages(dataset, args.cache_dir).path
        folder = ensure_index(pages, args.cache_dir)
        if own_pages is not None:
            assign_index(dataset, folder)
    seconds = time.perf_counter() - started
    index = Bm25Index(folder)
    if args.action == "build":
        meta = index.meta
        print(f"{meta.passages:,} sentences of {meta.pages:,} pages ({meta.source}), {seconds:.1f} s")
        print(f"index: {folder}")
        return 0
    passages = index.search(args.query, args.k)
    for passage in passages:
        print(f"{passage.score:7.3f}  {passage.page} [{passage.sentence}]  {passage.text}")
    if not passages:
        print("nothing found")
    return 0


_MOST_REASONS = 8


def configure_import(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``pcsuite import``.

    Every sample becomes a row; repetitions (epochs) become seeds. Samples without a score are kept,
    counted and named. Importing the same log again adds nothing; a log that was scored anew or retried replaces its
    rows. To compare two files there is no need to import them: pcsuite compare base.json new.json.

    examples:
      pcsuite import results.json                 # the tool is known by the file, the run is called results
      pcsuite import --from inspect logs/a.eval --name a
      pcsuite import --from inspect logs/b.eval --name b --metric match
      pcsuite compare a b
      pcsuite import --from inspect logs/ --name study --metric match --condition-from eval.task_args.prompt
      pcsuite import --from lm-eval results/ --name base --metric exact_match,strict-match
      pcsuite import --from table answers.csv --item id --arm prompt --score correct --cluster customer
      pcsuite report outputs/runs/study.jsonl
    """
    parser.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="log files, or folders of them")
    flags = [
        flag("--name", "name of the run to write (default: that of the first log)"),
        flag("--condition", "name of the condition; C0 is the control", metavar="NAME"),
        options.RELATED.but("columns, variables or metadata of the items that say which are related"),
        options.OUTPUT_DIR.but("folder of results", default="outputs"),
        switch("--replace", "replace rows of another evaluation of the same cell"),
    ]
    rows = [
        flag("--first-seed", "seed of the first repetition (default 1)", type=int, default=1, metavar="N"),
        options.one("model", "id of the model, instead of the log's"),
        options.MODEL_OPTION.but("what the report is told of the model: family=NAME or size=CLASS"),
    ]
    options.add_flags(parser, Group("", flags), FOREIGN, Group("the rows", rows))


def execute_import(args: argparse.Namespace) -> int:
    """Import logs of another tool as rows of a run and say what came of each log.

    Raises ``ConfigError`` for flags that contradict each other or a name that is a path. All logs are opened before
    the first row is written.
    """
    from pcsuite.importers.import_run import ImportOptions, import_logs
    from pcsuite.logging.log import RunPaths

    if args.condition and args.condition_from:
        raise ConfigError("--condition and --condition-from exclude each other")
    options.check_named(args.cluster, "--cluster")
    name = args.name if args.name is not None else args.logs[0].stem
    try:
        check_run_name(name)
    except ValueError as error:
        raise ConfigError(f"--name {name}: {error}") from None
    paths = RunPaths.of(args.output_dir, name)
    about_model = options.key_values(args.model_option, "--model-option", "family=llama")
    for key in about_model:
        if key not in ("family", "size"):
            hint = did_you_mean(key, ("family", "size"))
            raise ConfigError(f"--model-option {key}: no key of an imported model", hint=hint)
    settings = options.settings_from(
        ImportOptions,
        args,
        by_content=args.match_by == "content",
        also=[*args.also, *args.scores[1:]],
        cluster=args.cluster or (),
        **{key: str(value) for key, value in about_model.items()},
    )
    for imported in import_logs(args.format, args.logs, paths, settings):
        about, header = imported.evaluation, imported.evaluation.header
        print(
            f"{imported.path.name}: {header.task} on {header.model}, condition {about.condition}, {about.decoding.id}\n"
            f"  {imported.samples:,} samples of {imported.items:,} items: {imported.new:,} new,"
            f" {imported.changed:,} changed, {imported.unchanged:,} already there"
        )
        if about.format != args.format:
            print(f"  read as {about.format}")
        if imported.mean is None:
            mean = "no sample is scored"
        elif imported.agrees is None:
            mean = f"mean {imported.mean:.6g} ({header.tool} reports no mean to check it against)"
        elif imported.agrees and math.isclose(imported.mean, imported.reported or 0.0, rel_tol=1e-9):
            mean = f"mean {imported.mean:.6g}, as {header.tool} reports"
        elif imported.agrees:
            mean = (
                f"mean {imported.sample_mean:.6g} over samples, as {header.tool} reports; over items, which have"
                f" unequal numbers of them, {imported.mean:.6g}"
            )
        else:
            mean = (
                f"mean {imported.mean:.6g}, but {header.tool} reports {imported.reported:.6g}: its figure is not the"
                " plain mean of the samples, or the log is not whole"
            )
        print(f"  score {about.measure}: {mean}")
        if imported.missing:
            print(f"  {imported.missing:,} of {header.expected:,} samples are not in the log")
        if imported.errors:
            print(f"  {imported.errors.total():,} samples without a score, kept as failed rows:")
            _print_counts(imported.errors)
        if imported.unmapped:
            print(
                f"  {imported.unmapped.total():,} values are no number and count as 0, as in {header.tool}:"
            )
            _print_counts(imported.unmapped)
        _print_counts(imported.remarks, indent="  ")
        for remark in (*header.remarks, *filter(None, [imported.open_range])):
            print(f"  note: {remark}")
    print(f"run     {paths.log}")
    return 0


def _print_counts(counts: Counter[str], indent: str = "    ") -> None:
    for text, count in counts.most_common(_MOST_REASONS):
        print(f"{indent}{count:,} × {text}")
    if len(counts) > _MOST_REASONS:
        print(f"{indent}… and {len(counts) - _MOST_REASONS:,} more kinds")
