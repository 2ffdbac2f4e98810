"""The command language: one command per line, ``#`` begins a comment line."""

import shlex

from gridcalc import render, storage
from gridcalc.addresses import box_cells, box_name, cell_name, column_number, parse_box, parse_cell
from gridcalc.errors import CommandError, GridError
from gridcalc.formats import parse_format
from gridcalc.functions import names as function_names
from gridcalc.values import plain_text
from gridcalc.workbook import Workbook

_commands = {}


def command(name, usage):
    """Register a command."""

    def register(body):
        _commands[name] = (body, usage)
        return body

    return register


class Session:
    """A workbook and the commands that work on it. ``out`` takes the lines that commands print."""

    def __init__(self, out, workbook=None):
        self.out = out
        self.workbook = workbook or Workbook()

    def run(self, line):
        """Carry one line out."""
        line = line.strip()
        if not line or line.startswith("#"):
            return
        name, _, rest = line.partition(" ")
        found = _commands.get(name.lower())
        if found is None:
            raise CommandError(f"unknown command '{name}'; try 'help'")
        body, usage = found
        try:
            body(self, rest.strip())
        except _Usage:
            raise CommandError(f"usage: {usage}") from None

    @property
    def sheet(self):
        return self.workbook.sheet()

    def place(self, text):
        """``B2`` or ``Sheet!B2`` (or a range) as a sheet and the rest."""
        sheet, mark, rest = text.rpartition("!")
        if not mark:
            return self.sheet, text
        return self.workbook.sheet(sheet.strip("'")), rest


class _Usage(Exception):
    """The arguments do not fit."""


def _words(text, least, most=None):
    try:
        words = shlex.split(text)
    except ValueError:
        raise _Usage from None
    if not least <= len(words) <= (least if most is None else most):
        raise _Usage
    return words


def _count(words, index):
    if len(words) <= index:
        return 1
    if not words[index].isdigit():
        raise _Usage
    return int(words[index])


@command("set", "set CELL [INPUT]")
def set_cell(session, text):
    address, _, source = text.partition(" ")
    if not address:
        raise _Usage
    sheet, address = session.place(address)
    row, col = parse_cell(address)
    session.workbook.set_cell(sheet.name, row, col, source.strip())


@command("row", "row CELL VALUE...")
def set_row(session, text):
    """Several cells from left to right; values with spaces are quoted."""
    words = _words(text, 2, 1000)
    sheet, address = session.place(words[0])
    row, col = parse_cell(address)
    changes = [((row, col + index), word) for index, word in enumerate(words[1:])]
    session.workbook.set_cells(sheet.name, changes)


@command("get", "get CELL")
def get_cell(session, text):
    sheet, address = session.place(*_words(text, 1))
    session.out(plain_text(sheet.value(*parse_cell(address))))


@command("text", "text CELL")
def text_of_cell(session, text):
    sheet, address = session.place(*_words(text, 1))
    session.out(render.shown(sheet, *parse_cell(address)))


@command("input", "input CELL")
def input_of_cell(session, text):
    sheet, address = session.place(*_words(text, 1))
    session.out(sheet.source(*parse_cell(address)))


@command("eval", "eval FORMULA")
def evaluate(session, text):
    session.out(plain_text(session.workbook.evaluate(text)))


@command("show", "show [RANGE]")
def show(session, text):
    words = _words(text, 0, 1)
    if not words:
        session.out(render.table(session.sheet, session.sheet.used_box()))
        return
    sheet, address = session.place(words[0])
    session.out(render.table(sheet, parse_box(address)))


@command("formulas", "formulas")
def formulas(session, text):
    _words(text, 0)
    for line in render.formulas(session.sheet):
        session.out(line)


@command("clear", "clear RANGE")
def clear(session, text):
    sheet, address = session.place(*_words(text, 1))
    session.workbook.clear(sheet.name, parse_box(address))


@command("copy", "copy RANGE CELL")
def copy(session, text):
    source, target = _words(text, 2)
    sheet, source = session.place(source)
    session.workbook.copy(sheet.name, parse_box(source), parse_cell(target))


@command("fill", "fill CELL RANGE")
def fill(session, text):
    source, target = _words(text, 2)
    sheet, source = session.place(source)
    session.workbook.fill(sheet.name, parse_cell(source), parse_box(target))


@command("sort", "sort RANGE COLUMN [asc|desc]")
def sort(session, text):
    words = _words(text, 2, 3)
    direction = words[2] if len(words) == 3 else "asc"
    if direction not in ("asc", "desc"):
        raise _Usage
    sheet, address = session.place(words[0])
    session.workbook.sort(sheet.name, parse_box(address), column_number(words[1]), direction == "desc")


@command("insert", "insert rows ROW [COUNT] | insert cols COLUMN [COUNT]")
def insert(session, text):
    axis, at, count = _grid_arguments(text)
    session.workbook.insert(None, axis, at, count)


@command("delete", "delete rows ROW [COUNT] | delete cols COLUMN [COUNT]")
def delete(session, text):
    axis, at, count = _grid_arguments(text)
    session.workbook.delete(None, axis, at, count)


def _grid_arguments(text):
    words = _words(text, 2, 3)
    if words[0] == "rows" and words[1].isdigit() and int(words[1]) >= 1:
        return "row", int(words[1]) - 1, _count(words, 2)
    if words[0] == "cols":
        return "col", column_number(words[1]), _count(words, 2)
    raise _Usage


@command("format", "format RANGE FORMAT")
def set_format(session, text):
    address, style = _words(text, 2)
    sheet, address = session.place(address)
    session.workbook.set_style(sheet.name, parse_box(address), parse_format(style))


@command("width", "width COLUMN CHARACTERS")
def set_width(session, text):
    letters, width = _words(text, 2)
    if not width.isdigit() or not 1 <= int(width) <= 200:
        raise _Usage
    session.sheet.widths[column_number(letters)] = int(width)


@command("sheet", "sheet add|use|delete NAME | sheet copy|rename NAME NEW | sheet list")
def sheets(session, text):
    words = _words(text, 1, 3)
    action, names = words[0], words[1:]
    workbook = session.workbook
    if action == "list" and not names:
        for name in workbook.sheets:
            session.out(("* " if name == workbook.current else "  ") + name)
    elif action == "use" and len(names) == 1:
        workbook.current = workbook.sheet(names[0]).name
    elif action in ("add", "delete") and len(names) == 1:
        {"add": workbook.add_sheet, "delete": workbook.delete_sheet}[action](names[0])
    elif action in ("copy", "rename") and len(names) == 2:
        {"copy": workbook.copy_sheet, "rename": workbook.rename_sheet}[action](*names)
    else:
        raise _Usage


@command("name", "name NAME =FORMULA | name NAME none")
def define_name(session, text):
    name, _, source = text.partition(" ")
    source = source.strip()
    if source == "none":
        session.workbook.remove_name(name)
    elif source.startswith("="):
        session.workbook.define_name(name, source)
    else:
        raise _Usage


@command("names", "names")
def list_names(session, text):
    _words(text, 0)
    for name, source in sorted(session.workbook.name_sources()):
        session.out(f"{name} {source}")


@command("find", "find TEXT")
def find(session, text):
    """Cells of all sheets that show a text, without regard to case."""
    if not text:
        raise _Usage
    for sheet in session.workbook.sheets.values():
        for row, col in sorted(sheet.cells):
            if text.lower() in render.shown(sheet, row, col).lower():
                session.out(f"{sheet.name}!{cell_name(row, col)}")


@command("count", "count RANGE")
def count(session, text):
    """How many cells of a range are filled."""
    sheet, address = session.place(*_words(text, 1))
    box = parse_box(address)
    filled = sum(1 for row, col in box_cells(box) if sheet.source(row, col))
    session.out(f"{box_name(box)}: {filled}")


@command("check", "check")
def check(session, text):
    _words(text, 0)
    problems = session.workbook.check()
    for place, value in problems:
        session.out(f"{place} {value}")
    if not problems:
        session.out("no errors")


@command("stats", "stats")
def stats(session, text):
    _words(text, 0)
    workbook = session.workbook
    cells = sum(len(sheet.cells) for sheet in workbook.sheets.values())
    formulas_ = sum(len(sheet.formulas()) for sheet in workbook.sheets.values())
    session.out(f"cells {cells}, formulas {formulas_}, last recalculated {workbook.last_recalculated}")


@command("undo", "undo")
def undo(session, text):
    _words(text, 0)
    session.workbook.history.undo()


@command("redo", "redo")
def redo(session, text):
    _words(text, 0)
    session.workbook.history.redo()


@command("save", "save FILE")
def save(session, text):
    storage.save(session.workbook, *_words(text, 1))


@command("load", "load FILE")
def load(session, text):
    session.workbook = storage.load(*_words(text, 1))


@command("import", "import FILE [CELL]")
def import_csv(session, text):
    words = _words(text, 1, 2)
    top, left = parse_cell(words[1]) if len(words) == 2 else (0, 0)
    changes = [((top + row, left + col), source) for (row, col), source in storage.read_csv(words[0])]
    if not changes:
        raise GridError(f"{words[0]} has no values")
    session.workbook.set_cells(None, changes)


@command("export", "export FILE [shown]")
def export_csv(session, text):
    words = _words(text, 1, 2)
    if len(words) == 2 and words[1] != "shown":
        raise _Usage
    storage.write_text(words[0], render.csv_text(session.sheet, formatted=len(words) == 2))


@command("functions", "functions")
def functions(session, text):
    _words(text, 0)
    session.out(" ".join(function_names()))


@command("help", "help")
def help_(session, text):
    _words(text, 0)
    for name in sorted(_commands):
        session.out(_commands[name][1])
