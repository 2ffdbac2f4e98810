"""The command line: run scripts, look at workbooks, calculate."""

import argparse
import sys

from gridcalc import __version__, render, storage
from gridcalc.commands import Session
from gridcalc.errors import GridError
from gridcalc.values import plain_text
from gridcalc.workbook import Workbook


def main(arguments):
    """Run the program; gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return options.action(options)
    except GridError as error:
        print(f"gridcalc: {error}", file=sys.stderr)
        return 1


def _parser():
    parser = argparse.ArgumentParser(prog="gridcalc", description="A small spreadsheet engine.")
    parser.add_argument("--version", action="version", version=f"gridcalc {__version__}")
    actions = parser.add_subparsers(required=True, metavar="ACTION")

    run = actions.add_parser("run", help="carry out a script of commands")
    run.add_argument("script", help="a file, or - for standard input")
    run.add_argument("--book", help="start with this workbook")
    run.add_argument("--keep-going", action="store_true", help="report errors and carry on")
    run.set_defaults(action=_run)

    show = actions.add_parser("show", help="print a sheet of a workbook")
    show.add_argument("book")
    show.add_argument("--sheet")
    show.add_argument("--csv", action="store_true", help="as CSV")
    show.set_defaults(action=_show)

    evaluate = actions.add_parser("eval", help="work out a formula")
    evaluate.add_argument("formula")
    evaluate.add_argument("--book", help="with the cells of this workbook")
    evaluate.set_defaults(action=_evaluate)

    check = actions.add_parser("check", help="list the errors of a workbook")
    check.add_argument("book")
    check.set_defaults(action=_check)
    return parser


def _run(options):
    workbook = storage.load(options.book) if options.book else None
    session = Session(print, workbook)
    failed = False
    for number, line in enumerate(_script_lines(options.script), start=1):
        try:
            session.run(line)
        except GridError as error:
            print(f"line {number}: {error}", file=sys.stderr)
            failed = True
            if not options.keep_going:
                break
    return 1 if failed else 0


def _script_lines(path):
    if path == "-":
        return sys.stdin.read().splitlines()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError as error:
        raise GridError(f"cannot read {path}: {error.strerror}") from None


def _show(options):
    sheet = storage.load(options.book).sheet(options.sheet)
    if options.csv:
        sys.stdout.write(render.csv_text(sheet, formatted=False))
    else:
        print(render.table(sheet, sheet.used_box()))
    return 0


def _evaluate(options):
    workbook = storage.load(options.book) if options.book else Workbook()
    print(plain_text(workbook.evaluate(options.formula)))
    return 0


def _check(options):
    problems = storage.load(options.book).check()
    for place, value in problems:
        print(f"{place} {value}")
    return 1 if problems else 0
