"""One sheet: its cells and their formats."""

import copy

from gridcalc.formats import GENERAL
from gridcalc.parser import parse
from gridcalc.values import from_input


class Cell:
    """A cell's input, what it was read as, and its value."""

    __slots__ = ("source", "tree", "value", "style")

    def __init__(self, source, style=GENERAL):
        self.style = style
        self.source = ""
        self.tree = None
        self.value = None
        self.enter(source)

    def enter(self, source):
        """Replace the input. A formula has no value until it is worked out."""
        tree = copy.deepcopy(parse(source)) if is_formula(source) else None
        self.source = source
        self.tree = tree
        self.value = None if tree is not None else from_input(source)

    @property
    def is_empty(self):
        return not self.source and self.style == GENERAL


def is_formula(source):
    """A formula begins with ``=`` and says something."""
    return len(source) > 1 and source.startswith("=")


class Sheet:
    """The cells of one sheet, by ``(row, col)``. Cells that are empty and plain are not kept."""

    def __init__(self, name):
        self.name = name
        self.cells = {}
        self.widths = {}

    def get(self, row, col):
        """The cell, or None."""
        return self.cells.get((row, col))

    def value(self, row, col):
        """The value of a cell; None when it is empty."""
        cell = self.cells.get((row, col))
        return None if cell is None else cell.value

    def source(self, row, col):
        """What was typed into a cell."""
        cell = self.cells.get((row, col))
        return "" if cell is None else cell.source

    def style(self, row, col):
        """The format of a cell."""
        cell = self.cells.get((row, col))
        return GENERAL if cell is None else cell.style

    def put(self, row, col, source):
        """Type something into a cell."""
        cell = self.cells.get((row, col))
        if cell is None:
            cell = Cell(source)
            self.cells[row, col] = cell
        else:
            cell.enter(source)
        self._drop_if_empty(row, col)

    def put_style(self, row, col, style):
        """Format a cell."""
        cell = self.cells.get((row, col))
        if cell is None:
            cell = Cell("")
            self.cells[row, col] = cell
        cell.style = style
        self._drop_if_empty(row, col)

    def _drop_if_empty(self, row, col):
        if self.cells[row, col].is_empty:
            del self.cells[row, col]

    def formulas(self):
        """Every formula cell with its position."""
        return [(position, cell) for position, cell in self.cells.items() if cell.tree is not None]

    def used_box(self):
        """The rectangle from A1 to the last cell in use; None for an empty sheet."""
        if not self.cells:
            return None
        bottom = max(row for row, _ in self.cells)
        right = max(col for _, col in self.cells)
        return (0, 0, bottom, right)
