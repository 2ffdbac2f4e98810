"""What gridcalc must do after the repair. Every test runs a script in a process of its own."""

import os
import tempfile
import unittest

import program


class Grid(unittest.TestCase):
    """Runs scripts."""

    maxDiff = None

    def check(self, script, *expected):
        """The script must print exactly these lines."""
        code, out, err = program.run(["-m", "gridcalc", "run", "-"], script)
        self.assertEqual((out.splitlines(), err, code), (list(expected), "", 0))


class TheReports(Grid):
    def test_a_sheet_from_the_same_template_is_left_alone(self):
        self.check(
            "sheet rename Sheet1 North\nrow A1 Item Amount\nrow A2 rent 100\nrow A3 power 20\nrow A4 phone 10\n"
            "row A8 budget 1000\nrow D1 total =SUM(B2:B4)\nsheet copy North South\nsheet use North\ninsert rows 3 4\n"
            "get North!E1\ninput North!E1\nget South!E1\ninput South!E1",
            "130", "=SUM(B2:B8)", "130", "=SUM(B2:B4)")

    def test_undo_of_an_inserted_column_restores_what_a_formula_reads(self):
        self.check("row A1 1 2 3\nset E1 =SUM(A1:C1)\ninsert cols B\nundo\ninput E1\nset D1 1000\nget E1",
                   "=SUM(A1:C1)", "6")


class EqualFormulas(Grid):
    def test_two_cells_with_one_formula_are_adjusted_once_each(self):
        self.check("set A1 1\nset A2 2\nset A3 3\nset C1 =SUM(A1:A3)\nset D1 =SUM(A1:A3)\ninsert rows 2\nset A2 10\n"
                   "input C1\ninput D1\nget C1\nget D1",
                   "=SUM(A1:A4)", "=SUM(A1:A4)", "16", "16")

    def test_many_cells_with_one_formula_are_adjusted_once_each(self):
        cells = "".join(f"set C{row} =A$2*2\n" for row in range(1, 8))
        asked = "".join(f"input C{row}\nget C{row}\n" for row in (1, 3, 4, 8, 9))
        self.check(f"row A1 1\nrow A2 21\n{cells}insert rows 2 2\n{asked}",
                   "=A$4*2", "42", "", "", "=A$4*2", "42", "=A$4*2", "42", "=A$4*2", "42")

    def test_equal_references_inside_one_formula_are_adjusted_once_each(self):
        self.check("set B2 5\nset D1 =B2+B2*B2+SUM(B2:B2)\ninsert rows 1\ninput D2\nget D2", "=B3+B3*B3+SUM(B3:B3)", "35")

    def test_deleting_rows_adjusts_equal_formulas_once_each(self):
        self.check("row A1 1\nrow A2 2\nrow A3 3\nrow A4 4\nrow A5 5\nset C1 =SUM(A2:A5)\nset D1 =SUM(A2:A5)\n"
                   "delete rows 3\ninput C1\ninput D1\nget C1\nget D1",
                   "=SUM(A2:A4)", "=SUM(A2:A4)", "11", "11")

    def test_deleting_what_equal_formulas_read_breaks_them_and_no_others(self):
        self.check("row A1 1 2 3\nset A3 =B1+1\nset A4 =B1+1\nsheet copy Sheet1 Twin\ndelete cols B\n"
                   "get A3\nget A4\nget Twin!A3\ninput Twin!A4\nget Twin!A4",
                   "#REF!", "#REF!", "3", "=B1+1", "3")

    def test_columns_adjust_equal_formulas_once_each(self):
        self.check("row A1 1 2 3\nset A5 =C1*100\nset A6 =C1*100\ninsert cols A 3\ninput D5\ninput D6\nget D5\nget D6",
                   "=F1*100", "=F1*100", "300", "300")

    def test_formulas_with_the_sheet_written_out_follow_from_everywhere(self):
        self.check("set A5 50\nset C1 =Sheet1!A5\nsheet add Two\nset A1 =Sheet1!A5\nsheet add Three\nset A1 =Sheet1!A5\n"
                   "sheet use Sheet1\ninsert rows 5 2\ninput C1\ninput Two!A1\ninput Three!A1\nget Two!A1\nget Three!A1",
                   "=Sheet1!A7", "=Sheet1!A7", "=Sheet1!A7", "50", "50")

    def test_an_edit_of_one_copy_and_then_of_the_other(self):
        self.check("row A1 1\nrow A2 2\nset B1 =SUM(A1:A2)\nsheet copy Sheet1 Twin\ninsert rows 2\nsheet use Twin\n"
                   "insert rows 2 3\nset Twin!A3 7\ninput Sheet1!B1\nget Sheet1!B1\ninput Twin!B1\nget Twin!B1",
                   "=SUM(A1:A3)", "3", "=SUM(A1:A5)", "10")

    def test_filled_and_sorted_cells_are_adjusted_once_each(self):
        self.check("row A1 3\nrow A2 1\nrow A3 2\nset B1 =$A$1+$A$3\nfill B1 B1:B3\ninsert rows 1\n"
                   "input B2\ninput B3\ninput B4\nget B4", "=$A$2+$A$4", "=$A$2+$A$4", "=$A$2+$A$4", "5")


class TypedAgain(Grid):
    def test_a_formula_typed_after_an_insertion_means_what_it_says(self):
        self.check("row A1 1\nrow A2 2\nrow A3 4\nset C1 =SUM(A1:A2)\ninsert rows 2\nset C2 =SUM(A1:A2)\n"
                   "input C2\nget C2\nget C1", "=SUM(A1:A2)", "1", "3")

    def test_eval_means_what_it_says(self):
        self.check("row A1 1\nrow A2 2\nrow A3 4\nset C5 =A2*10\ndelete rows 1\neval =A2*10\nget C4\ninput C4",
                   "40", "20", "=A1*10")

    def test_a_loaded_workbook_means_what_it_says(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "book.json")
            self.check(f"row A1 1 2 3 4\nset A2 =SUM(A1:B1)\nsave {path}\ninsert cols B\nload {path}\nset C1 500\n"
                       "input A2\nget A2", "=SUM(A1:B1)", "3")

    def test_a_saved_workbook_has_every_reference_adjusted_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "book.json")
            self.check(f"row A1 1\nrow A2 2\nset C5 =A2\nset D5 =A2\ninsert rows 1\nsave {path}\nload {path}\n"
                       "input C6\ninput D6\nget C6\nget D6", "=A3", "=A3", "2", "2")


class UndoAndRedo(Grid):
    def test_undo_of_deleted_rows(self):
        self.check("row A1 1\nrow A2 2\nrow A3 3\nset C1 =SUM(A1:A3)\ndelete rows 2\nget C1\nundo\ninput C1\nget C1\n"
                   "set A3 30\nget C1", "4", "=SUM(A1:A3)", "6", "33")

    def test_redo_adjusts_again(self):
        self.check("row A1 1\nrow A2 2\nset C1 =SUM(A1:A2)\ninsert rows 2\nundo\nredo\nset A2 7\ninput C1\nget C1\nundo\n"
                   "undo\ninput C1\nget C1", "=SUM(A1:A3)", "10", "=SUM(A1:A2)", "3")

    def test_repeated_edits_and_undos_leave_no_trace(self):
        steps = "insert rows 1\ninsert cols A\ndelete rows 2\nundo\nundo\nundo\n" * 3
        self.check(f"row A1 5\nrow A2 6\nset B4 =A1-A2\nset B5 =A1-A2\n{steps}input B4\ninput B5\nget B4\nget B5",
                   "=A1-A2", "=A1-A2", "-1", "-1")


class Names(Grid):
    def test_a_name_and_a_cell_that_say_the_same(self):
        self.check("row A1 1\nrow A2 2\nrow A3 4\nname part =Sheet1!A1:A2\nset C1 =SUM(part)\nsheet add Two\n"
                   "set A1 =SUM(Sheet1!A1:A2)\nname again =Sheet1!A1:A2\nset A2 =SUM(again)\nsheet use Sheet1\n"
                   "insert rows 2\nnames\nget C1\nget Two!A1\nget Two!A2\nset A2 10\nget C1\nget Two!A2",
                   "again =Sheet1!A1:A3", "part =Sheet1!A1:A3", "3", "3", "3", "13", "13")

    def test_undo_gives_a_name_back_its_meaning(self):
        self.check("row A1 1\nrow A2 2\nrow A3 400\nname part =Sheet1!A1:A2\nset C1 =SUM(part)\ninsert rows 2\nundo\n"
                   "names\nget C1\nset A2 5\nget C1", "part =Sheet1!A1:A2", "3", "6")

    def test_a_name_defined_after_an_insertion_means_what_it_says(self):
        self.check("row A1 7\nrow A2 8\nrow A3 9\nname old =Sheet1!A2\ninsert rows 1\nname new =Sheet1!A2\n"
                   "names\neval old\neval new", "new =Sheet1!A2", "old =Sheet1!A3", "8", "7")

    def test_a_cell_typed_after_a_name_was_adjusted_means_what_it_says(self):
        self.check("row A1 7\nrow A2 8\nrow A3 9\nname old =Sheet1!A2\ninsert rows 1\nset C1 =Sheet1!A2\n"
                   "input C1\nget C1", "=Sheet1!A2", "7")


class WhatMustStay(Grid):
    def test_a_change_works_out_only_what_depends_on_it(self):
        many = "".join(f"set C{row} =B{row}+1\n" for row in range(1, 31))
        self.check(f"{many}set D1 =SUM(C1:C3)\ninsert rows 2\nset B1 4\nstats\nget D1",
                   "cells 32, formulas 31, last recalculated 2", "7")

    def test_references_to_other_sheets_do_not_move(self):
        self.check("row A1 1\nrow A2 2\nsheet add Two\nrow A1 3\nrow A2 4\nset C1 =A2+Sheet1!A2\nset C2 =Sheet1!A2+A2\n"
                   "insert rows 1\ninput C2\ninput C3\nget C2\nget C3",
                   "=A3+Sheet1!A2", "=Sheet1!A2+A3", "6", "6")

    def test_ranges_shrink_to_what_is_left(self):
        self.check("row A1 1\nrow A2 2\nrow A3 3\nrow A4 4\nset C1 =SUM(A1:A3)\nset D1 =SUM(A2:A3)\nset E1 =SUM(A3:A4)\n"
                   "delete rows 2 2\ninput C1\nget C1\nget D1\ninput E1\nget E1",
                   "=SUM(A1:A1)", "1", "#REF!", "=SUM(A2:A2)", "4")

    def test_fixed_references_follow_their_cells_too(self):
        self.check("row A1 9\nset C1 =$A$1\nset D1 =$A1\nset E1 =A$1\ninsert rows 1\ninsert cols A\n"
                   "input D2\ninput E2\ninput F2\nget F2", "=$B$2", "=$B2", "=B$2", "9")

    def test_renaming_a_sheet_changes_formulas_once(self):
        self.check("row A1 4\nsheet add Two\nset A1 =Sheet1!A1\nset A2 =Sheet1!A1\nsheet rename Sheet1 Data\n"
                   "input A1\ninput A2\nget A2\nundo\ninput A1\nget A1",
                   "=Data!A1", "=Data!A1", "4", "=Sheet1!A1", "4")

    def test_many_long_equal_formulas(self):
        formula = "=" + "+".join(f"SUM(A{row}:B{row})*{row}" for row in range(1, 40))
        many = "".join(f"set C{row} {formula}\n" for row in range(1, 200))
        self.check(f"set A1 1\n{many}insert rows 41\nget C1\nget C150", "1", "1")
