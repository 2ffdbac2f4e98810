"""Which formulas depend on which cells, and the order in which they must be worked out.

A formula that reads a range is entered once per band of rows, not once per cell, so that ``SUM(A1:A5000)``
stays cheap. Cells are ``(sheet, row, col)``.
"""

_BAND = 64


class Graph:
    """The dependencies of a workbook."""

    def __init__(self):
        self._reads = {}
        self._bands = {}

    def clear(self):
        """Forget everything."""
        self._reads.clear()
        self._bands.clear()

    def put(self, cell, reads):
        """Say what a formula reads: ``(sheet, box)`` pairs. Replaces what was known about it."""
        self.remove(cell)
        self._reads[cell] = tuple(reads)
        for band in self._bands_of(cell):
            self._bands.setdefault(band, set()).add(cell)

    def remove(self, cell):
        """Forget a formula."""
        if cell not in self._reads:
            return
        for band in self._bands_of(cell):
            members = self._bands.get(band)
            if members is not None:
                members.discard(cell)
                if not members:
                    del self._bands[band]
        del self._reads[cell]

    def _bands_of(self, cell):
        for sheet, (top, _, bottom, _) in self._reads[cell]:
            for band in range(top // _BAND, bottom // _BAND + 1):
                yield sheet, band

    def readers(self, cell):
        """The formulas that read a cell."""
        sheet, row, col = cell
        for reader in self._bands.get((sheet, row // _BAND), ()):
            for read_sheet, (top, left, bottom, right) in self._reads[reader]:
                if read_sheet == sheet and top <= row <= bottom and left <= col <= right:
                    yield reader
                    break

    def order(self, changed):
        """The formulas to work out after a change, each after those it reads; and those in or behind a cycle."""
        affected = self._affected(changed)
        waiting = {cell: 0 for cell in affected}
        readers = {cell: [reader for reader in self.readers(cell) if reader in affected] for cell in affected}
        for followers in readers.values():
            for reader in followers:
                waiting[reader] += 1
        ready = [cell for cell, count in waiting.items() if count == 0]
        ordered = []
        while ready:
            cell = ready.pop()
            ordered.append(cell)
            for reader in readers[cell]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    ready.append(reader)
        stuck = affected.difference(ordered)
        return ordered, stuck

    def _affected(self, changed):
        affected = {cell for cell in changed if cell in self._reads}
        open_ = list(changed)
        seen = set(changed)
        while open_:
            for reader in self.readers(open_.pop()):
                affected.add(reader)
                if reader not in seen:
                    seen.add(reader)
                    open_.append(reader)
        return affected

    def formulas(self):
        """Every formula that is known."""
        return list(self._reads)
