"""What the tests share."""

import unittest

from gridcalc.commands import Session


class SessionTest(unittest.TestCase):
    """Runs scripts on a workbook of its own."""

    def setUp(self):
        self.lines = []
        self.session = Session(self.lines.append)

    def run_script(self, script):
        """Carry out commands; gives the lines they printed."""
        self.lines.clear()
        for line in script.strip().splitlines():
            self.session.run(line)
        return list(self.lines)

    def value(self, address):
        return self.run_script(f"get {address}")[0]

    def input(self, address):
        return self.run_script(f"input {address}")[0]
