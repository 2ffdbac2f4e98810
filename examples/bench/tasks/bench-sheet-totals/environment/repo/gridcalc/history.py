"""Undo and redo.

A change to cells is kept as those cells before it; a change of the grid itself as a picture of the whole workbook.
"""

from gridcalc.errors import GridError

_DEPTH = 100


class CellsBefore:
    """Some cells as they were."""

    def __init__(self, workbook, cells):
        self.cells = [(cell, *_content(workbook, cell)) for cell in cells]

    def restore(self, workbook):
        """Put them back; gives what would undo that."""
        inverse = CellsBefore(workbook, [cell for cell, _, _ in self.cells])
        for (sheet, row, col), source, style in self.cells:
            target = workbook.sheets[sheet]
            target.put(row, col, source)
            target.put_style(row, col, style)
        workbook.recalculate([cell for cell, _, _ in self.cells])
        return inverse


def _content(workbook, cell):
    sheet, row, col = cell
    return workbook.sheets[sheet].source(row, col), workbook.sheets[sheet].style(row, col)


class Picture:
    """A whole workbook as it was."""

    def __init__(self, workbook):
        self.current = workbook.current
        self.names = dict(workbook.name_sources())
        self.sheets = [
            (sheet.name, dict(sheet.widths),
             [(position, cell.source, cell.style) for position, cell in sheet.cells.items()])
            for sheet in workbook.sheets.values()
        ]

    def restore(self, workbook):
        """See ``CellsBefore.restore``."""
        inverse = Picture(workbook)
        workbook.replace_all(self.sheets, self.names, self.current)
        return inverse


class History:
    """What can be undone and what can be done again."""

    def __init__(self, workbook):
        self.workbook = workbook
        self._done = []
        self._undone = []

    def record(self, state):
        """Remember the state before a change."""
        self._done.append(state)
        del self._done[:-_DEPTH]
        self._undone.clear()

    def undo(self):
        """Take the last change back."""
        self._step(self._done, self._undone, "undo")

    def redo(self):
        """Make the change again that was taken back last."""
        self._step(self._undone, self._done, "redo")

    def _step(self, source, target, word):
        if not source:
            raise GridError(f"nothing to {word}")
        target.append(source.pop().restore(self.workbook))
