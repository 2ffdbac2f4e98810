"""Workbooks: recalculation, copying, sheets, names, undo."""

import os
import tempfile
import unittest

from gridcalc.errors import GridError
from tests.support import SessionTest


class Recalculation(SessionTest):
    def test_what_depends_on_a_change_is_worked_out_and_nothing_else(self):
        self.run_script("row A1 1 2 3\nset A2 =A1*2\nset A3 =A2+1\nset B2 =B1")
        self.assertEqual(self.run_script("set A1 5\nget A3\nstats"),
                         ["11", "cells 6, formulas 3, last recalculated 2"])

    def test_cycles_are_errors_until_they_are_broken(self):
        self.run_script("set A1 =B1\nset B1 =A1\nset C1 =B1+1")
        self.assertEqual([self.value(cell) for cell in ("A1", "B1", "C1")], ["#CYCLE!"] * 3)
        self.run_script("set A1 4")
        self.assertEqual([self.value(cell) for cell in ("A1", "B1", "C1")], ["4", "4", "5"])

    def test_a_formula_that_cannot_be_read_changes_nothing(self):
        self.run_script("set A1 7")
        with self.assertRaises(GridError):
            self.run_script("row A1 1 =SUM(")
        self.assertEqual(self.value("A1"), "7")


class Copying(SessionTest):
    def test_relative_references_move_and_fixed_ones_stay(self):
        self.run_script("row A1 1 2\nrow A2 3 4\nset C1 =A1+$A$1+A$1\nfill C1 C1:D2")
        self.assertEqual([self.input(cell) for cell in ("D1", "C2", "D2")],
                         ["=B1+$A$1+B$1", "=A2+$A$1+A$1", "=B2+$A$1+B$1"])
        self.assertEqual(self.value("D2"), "7")

    def test_what_leaves_the_grid_is_an_error(self):
        self.run_script("set B2 =A1\ncopy B2 A1")
        self.assertEqual(self.value("A1"), "#REF!")

    def test_rows_are_sorted_by_a_column(self):
        self.run_script("row A1 pear 3\nrow A2 fig 1\nrow A3 apple 2\nsort A1:B3 B desc")
        self.assertEqual([self.value(cell) for cell in ("A1", "A2", "A3")], ["pear", "apple", "fig"])


class RowsAndColumns(SessionTest):
    def test_a_range_grows_with_a_row_inserted_inside(self):
        self.run_script("set A1 1\nset A2 2\nset A3 =SUM(A1:A2)\ninsert rows 2\nset A2 10")
        self.assertEqual(self.input("A4"), "=SUM(A1:A3)")
        self.assertEqual(self.value("A4"), "13")

    def test_references_follow_columns(self):
        self.run_script("row A1 5 6\nset D1 =A1*B1\ninsert cols B 2")
        self.assertEqual(self.input("F1"), "=A1*D1")
        self.assertEqual(self.value("F1"), "30")

    def test_what_is_deleted_cannot_be_referred_to(self):
        self.run_script("row A1 5 6 7\nset E1 =B1+1\nset E2 =SUM(A1:C1)\ndelete cols B")
        self.assertEqual(self.value("D1"), "#REF!")
        self.assertEqual(self.input("D2"), "=SUM(A1:B1)")
        self.assertEqual(self.value("D2"), "12")

    def test_other_sheets_follow_too(self):
        self.run_script("set A7 9\nsheet add Report\nset A1 =Sheet1!A7\nsheet use Sheet1\ninsert rows 1 3")
        self.assertEqual(self.input("Report!A1"), "=Sheet1!A10")
        self.assertEqual(self.value("Report!A1"), "9")


class SheetsAndNames(SessionTest):
    def test_a_copied_sheet_refers_to_itself(self):
        self.run_script("row A1 1 =A1*10\nsheet copy Sheet1 Twin\nset Twin!A1 4")
        self.assertEqual([self.value("Sheet1!B1"), self.value("Twin!B1")], ["10", "40"])

    def test_formulas_follow_a_renamed_sheet(self):
        self.run_script("set A1 3\nsheet add Other\nset A1 =Sheet1!A1+1\nsheet rename Sheet1 'My data'")
        self.assertEqual(self.input("Other!A1"), "='My data'!A1+1")
        self.assertEqual(self.value("Other!A1"), "4")

    def test_names_stand_for_ranges(self):
        self.run_script("row A1 1 2 3\nname data =Sheet1!$A$1:$C$1\nset A2 =SUM(data)\nset B1 20")
        self.assertEqual(self.value("A2"), "24")


class UndoAndFiles(SessionTest):
    def test_changes_are_taken_back_and_made_again(self):
        self.run_script("set A1 1\nset B1 =A1+100\nset A1 2\nundo")
        self.assertEqual(self.value("B1"), "101")
        self.run_script("redo")
        self.assertEqual(self.value("B1"), "102")

    def test_a_deleted_row_comes_back(self):
        self.run_script("set A1 1\nset A2 2\nset A3 3\ndelete rows 2\nundo")
        self.assertEqual([self.value(cell) for cell in ("A1", "A2", "A3")], ["1", "2", "3"])

    def test_a_saved_workbook_comes_back_as_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "book.json")
            self.run_script(f"row A1 1.5 2\nset A2 =PRODUCT(A1:B1)\nformat A2 money:$\nsave {path}\nset A1 9\nload {path}")
            self.assertEqual(self.run_script("text A2"), ["$3.00"])

    def test_csv_goes_in_and_out(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "values.csv")
            self.run_script(f'row A1 name "a, b"\nrow A2 2 =A2*2\nexport {path}')
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), 'name,"a, b"\n2,4\n')
            self.run_script(f"import {path} D1")
            self.assertEqual(self.value("E2"), "4")


if __name__ == "__main__":
    unittest.main()
