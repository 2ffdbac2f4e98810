"""A workbook: sheets, defined names, and the values that follow from them."""

import re

from gridcalc import nodes, rewrite
from gridcalc.addresses import CellRef, box_cells, cell_name
from gridcalc.edits import Edit
from gridcalc.errors import CYCLE, AddressError, FormulaError, GridError
from gridcalc.evaluator import Evaluator
from gridcalc.graph import Graph
from gridcalc.history import CellsBefore, History, Picture
from gridcalc.parser import parse
from gridcalc.sheet import Sheet, is_formula
from gridcalc.values import sort_key

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


class Name:
    """A defined name: what was said, and its tree."""

    def __init__(self, source):
        self.source = source
        self.tree = parse(source)


class Workbook:
    """Sheets by name, in order."""

    def __init__(self, first_sheet="Sheet1"):
        self.sheets = {first_sheet: Sheet(first_sheet)}
        self.current = first_sheet
        self.names = {}
        self.graph = Graph()
        self.history = History(self)
        self.last_recalculated = 0

    # What the evaluator asks for.

    def has_sheet(self, name):
        """Whether there is such a sheet."""
        return name in self.sheets

    def cell_value(self, sheet, row, col):
        """The value of a cell."""
        return self.sheets[sheet].value(row, col)

    def name_tree(self, name):
        """The tree of a defined name, or None."""
        found = self.names.get(name.lower())
        return None if found is None else found.tree

    # Sheets.

    def sheet(self, name=None):
        """A sheet by name; the current one without a name."""
        name = name or self.current
        if name not in self.sheets:
            raise GridError(f"there is no sheet '{name}'")
        return self.sheets[name]

    def add_sheet(self, name):
        """A new, empty sheet at the end, which becomes the current one."""
        self._check_new_sheet(name)
        self.history.record(Picture(self))
        self.sheets[name] = Sheet(name)
        self.current = name
        self.rebuild()

    def copy_sheet(self, name, copy):
        """A copy of a sheet at the end. Its formulas refer to itself where they named no sheet."""
        original = self.sheet(name)
        self._check_new_sheet(copy)
        self.history.record(Picture(self))
        sheet = Sheet(copy)
        sheet.widths = dict(original.widths)
        for (row, col), cell in original.cells.items():
            sheet.put(row, col, cell.source)
            sheet.put_style(row, col, cell.style)
        self.sheets[copy] = sheet
        self.rebuild()

    def delete_sheet(self, name):
        """Remove a sheet. Formulas that refer to it become ``#REF!``."""
        self.sheet(name)
        if len(self.sheets) == 1:
            raise GridError("the last sheet cannot be deleted")
        self.history.record(Picture(self))
        del self.sheets[name]
        if self.current == name:
            self.current = next(iter(self.sheets))
        self.rebuild()

    def rename_sheet(self, old, new):
        """Give a sheet another name; formulas follow."""
        self.sheet(old)
        self._check_new_sheet(new)
        self.history.record(Picture(self))
        for sheet in self.sheets.values():
            for _, cell in sheet.formulas():
                if any(getattr(node, "ref", None) is not None and node.ref.sheet == old
                       for node in nodes.walk(cell.tree)):
                    self._replace_tree(cell, rewrite.renamed(cell.tree, old, new))
        for name in self.names.values():
            self._replace_tree(name, rewrite.renamed(name.tree, old, new))
        self.sheets = {new if key == old else key: sheet for key, sheet in self.sheets.items()}
        self.sheets[new].name = new
        if self.current == old:
            self.current = new
        self.rebuild()

    def _check_new_sheet(self, name):
        if not name or len(name) > 40 or any(char in name for char in "!:[]"):
            raise GridError(f"'{name}' cannot be the name of a sheet")
        if name in self.sheets:
            raise GridError(f"there is a sheet '{name}' already")

    # Cells.

    def set_cell(self, sheet, row, col, source):
        """Type something into a cell."""
        self.set_cells(sheet, [((row, col), source)])

    def set_cells(self, sheet_name, changes):
        """Type something into several cells, as one change."""
        sheet = self.sheet(sheet_name)
        for _, source in changes:
            if is_formula(source):
                parse(source)  # refuse all of them before any is entered
        cells = [(sheet.name, row, col) for (row, col), _ in changes]
        self.history.record(CellsBefore(self, cells))
        for (row, col), source in changes:
            sheet.put(row, col, source)
        self.recalculate(cells)

    def set_style(self, sheet_name, box, style):
        """Format a rectangle of cells."""
        sheet = self.sheet(sheet_name)
        cells = [(sheet.name, row, col) for row, col in box_cells(box)]
        self.history.record(CellsBefore(self, cells))
        for row, col in box_cells(box):
            sheet.put_style(row, col, style)

    def clear(self, sheet_name, box):
        """Empty a rectangle of cells; formats stay."""
        self.set_cells(sheet_name, [(position, "") for position in box_cells(box)])

    def copy(self, sheet_name, box, target):
        """Copy a rectangle to where ``target`` is its first cell; relative references move along."""
        top, left, _, _ = box
        rows, cols = target[0] - top, target[1] - left
        changes = []
        for row, col in box_cells(box):
            place = CellRef(row, col).offset(rows, cols)
            if place is None:
                raise GridError("the copy does not fit on the sheet")
            changes.append(((place.row, place.col), self._moved_source(sheet_name, row, col, rows, cols)))
        self.set_cells(sheet_name, changes)

    def fill(self, sheet_name, source, box):
        """Copy one cell into every cell of a rectangle."""
        row, col = source
        changes = [
            ((to_row, to_col), self._moved_source(sheet_name, row, col, to_row - row, to_col - col))
            for to_row, to_col in box_cells(box)
        ]
        self.set_cells(sheet_name, changes)

    def _moved_source(self, sheet_name, row, col, rows, cols):
        sheet = self.sheet(sheet_name)
        cell = sheet.get(row, col)
        if cell is None or cell.tree is None:
            return sheet.source(row, col)
        return nodes.formula_text(rewrite.moved(cell.tree, rows, cols))

    def sort(self, sheet_name, box, key_col, descending):
        """Sort the rows of a rectangle by one of its columns. Formulas move as they are copied."""
        sheet = self.sheet(sheet_name)
        top, left, bottom, right = box
        if not left <= key_col <= right:
            raise GridError("the column to sort by lies outside the range")
        rows = list(range(top, bottom + 1))
        filled = [row for row in rows if sheet.value(row, key_col) is not None]
        empty = [row for row in rows if sheet.value(row, key_col) is None]
        filled.sort(key=lambda row: sort_key(sheet.value(row, key_col)), reverse=descending)
        changes = []
        for to_row, from_row in zip(rows, filled + empty):
            for col in range(left, right + 1):
                source = self._moved_source(sheet_name, from_row, col, to_row - from_row, 0)
                changes.append(((to_row, col), source))
        self.set_cells(sheet_name, changes)

    # Rows and columns.

    def insert(self, sheet_name, axis, at, count):
        """Insert empty rows or columns before an index."""
        self._change_grid(Edit(self.sheet(sheet_name).name, axis, at, count, insert=True))

    def delete(self, sheet_name, axis, at, count):
        """Delete rows or columns from an index on."""
        self._change_grid(Edit(self.sheet(sheet_name).name, axis, at, count, insert=False))

    def _change_grid(self, edit):
        sheet = self.sheets[edit.sheet]
        if any(edit.insert and edit.position(*position) is None for position in sheet.cells):
            raise GridError("the cells would not fit on the sheet any more")
        self.history.record(Picture(self))
        for home in self.sheets.values():
            for _, cell in home.formulas():
                if rewrite.mentions(cell.tree, home.name, edit.sheet):
                    self._replace_tree(cell, rewrite.adjusted(cell.tree, home.name, edit))
        for name in self.names.values():
            self._replace_tree(name, rewrite.adjusted(name.tree, None, edit))
        places = ((edit.position(*position), cell) for position, cell in sheet.cells.items())
        sheet.cells = {place: cell for place, cell in places if place is not None}
        if edit.axis == "col":
            places = ((edit.index(col), width) for col, width in sheet.widths.items())
            sheet.widths = {col: width for col, width in places if col is not None}
        self.rebuild()

    @staticmethod
    def _replace_tree(holder, tree):
        holder.tree = tree
        holder.source = nodes.formula_text(tree)

    # Names.

    def define_name(self, name, source):
        """Give a name to a cell, a range or a calculation. References must name their sheet."""
        if not _NAME.match(name) or name.upper() in ("TRUE", "FALSE"):
            raise GridError(f"'{name}' cannot be a name")
        try:
            CellRef.parse(name)
        except AddressError:
            pass
        else:
            raise GridError(f"'{name}' is a cell")
        tree = parse(source)
        for node in nodes.walk(tree):
            if isinstance(node, (nodes.CellNode, nodes.RangeNode)) and node.ref.sheet is None:
                raise GridError(f"'{node.write()}' must say on which sheet it is")
            if isinstance(node, nodes.NameNode):
                raise GridError("a name cannot use another name")
        self.history.record(Picture(self))
        self.names[name.lower()] = Name(source)
        self.rebuild()

    def remove_name(self, name):
        """Forget a name. Formulas that use it become ``#NAME?``."""
        if name.lower() not in self.names:
            raise GridError(f"there is no name '{name}'")
        self.history.record(Picture(self))
        del self.names[name.lower()]
        self.rebuild()

    def name_sources(self):
        """Every name with what it stands for."""
        return [(name, found.source) for name, found in self.names.items()]

    # Values.

    def recalculate(self, cells):
        """Work out what follows from a change of these cells, and nothing else."""
        for cell in cells:
            self._enter_in_graph(cell)
        ordered, stuck = self.graph.order(cells)
        for sheet, row, col in stuck:
            self.sheets[sheet].get(row, col).value = CYCLE
        for sheet, row, col in ordered:
            cell = self.sheets[sheet].get(row, col)
            cell.value = Evaluator(self, sheet).value(cell.tree)
        self.last_recalculated = len(ordered) + len(stuck)

    def rebuild(self):
        """Work out everything anew."""
        self.graph.clear()
        cells = [(sheet.name, row, col) for sheet in self.sheets.values() for (row, col), _ in sheet.formulas()]
        self.recalculate(cells)

    def _enter_in_graph(self, cell):
        sheet, row, col = cell
        found = self.sheets[sheet].get(row, col)
        if found is None or found.tree is None:
            self.graph.remove(cell)
        else:
            self.graph.put(cell, self._reads(found.tree, sheet))

    def _reads(self, tree, home):
        for node in nodes.walk(tree):
            if isinstance(node, nodes.CellNode):
                yield node.ref.on_sheet(home), (node.ref.row, node.ref.col, node.ref.row, node.ref.col)
            elif isinstance(node, nodes.RangeNode):
                yield node.ref.on_sheet(home), node.ref.box()
            elif isinstance(node, nodes.NameNode):
                named = self.name_tree(node.name)
                if named is not None:
                    yield from self._reads(named, home)

    def evaluate(self, text, sheet_name=None):
        """The value of a formula that is in no cell."""
        source = text if text.startswith("=") else "=" + text
        if not is_formula(source):
            raise FormulaError("an empty formula", 0)
        return Evaluator(self, self.sheet(sheet_name).name).value(parse(source))

    def replace_all(self, sheets, names, current):
        """Take over the content of a whole workbook."""
        self.sheets = {}
        for sheet_name, widths, cells in sheets:
            sheet = Sheet(sheet_name)
            sheet.widths = dict(widths)
            for (row, col), source, style in cells:
                sheet.put(row, col, source)
                sheet.put_style(row, col, style)
            self.sheets[sheet_name] = sheet
        self.names = {name: Name(source) for name, source in names.items()}
        self.current = current
        self.rebuild()

    def check(self):
        """Every formula whose value is an error, as ``Sheet!A1`` with the value."""
        found = []
        for sheet in self.sheets.values():
            for (row, col), cell in sorted(sheet.formulas(), key=lambda item: item[0]):
                if hasattr(cell.value, "code"):
                    found.append((f"{sheet.name}!{cell_name(row, col)}", cell.value))
        return found
