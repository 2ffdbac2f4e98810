"""Formulas: how they are read, written and worked out."""

import unittest

from gridcalc.errors import FormulaError
from gridcalc.nodes import formula_text
from gridcalc.parser import parse
from tests.support import SessionTest


class Writing(unittest.TestCase):
    def test_a_formula_is_written_with_the_parentheses_it_needs(self):
        for source in ["=1+2*3", "=(1+2)*3", "=-A1^2", "=2^(-1)", "=1-(2-3)", "=A1&\"x\"\"y\"", "=10%*B2",
                       "=SUM(A1:$B$9,'My sheet'!C3)", "=IF(A1>=2,TRUE,#N/A)"]:
            self.assertEqual(formula_text(parse(source)), source)

    def test_mistakes_are_told_with_their_position(self):
        for source, position in [("=1+", 2), ("=SUM(1", 5), ("=\"open", 0), ("=1 2", 2), ("=A0:B1!", 2)]:
            with self.assertRaises(FormulaError) as caught:
                parse(source)
            self.assertEqual(caught.exception.position, position, source)


class Evaluation(SessionTest):
    def evaluated(self, formula):
        return self.run_script(f"eval {formula}")[0]

    def test_operators(self):
        for formula, expected in [("1+2*3", "7"), ("-2^2", "-4"), ("2^3^2", "64"), ("7/2", "3.5"), ("1/0", "#DIV/0!"),
                                  ("50%*8", "4"), ('"a"&1', "a1"), ('"a"="A"', "TRUE"), ("1<>1", "FALSE"),
                                  ('"x"+1', "#VALUE!"), ("0.1+0.2", "0.3")]:
            self.assertEqual(self.evaluated(formula), expected, formula)

    def test_functions_over_ranges(self):
        self.run_script("row A1 4 8 text\nrow A2 15 16 TRUE\nrow A3 23 42")
        for formula, expected in [("SUM(A1:C3)", "108"), ("AVERAGE(A1:B1)", "6"), ("COUNT(A1:C3)", "6"),
                                  ("COUNTA(A1:C3)", "8"), ("MAX(A1:C3)", "42"), ("MEDIAN(A1:A3)", "15"),
                                  ('SUMIF(A1:A3,">=15")', "38"), ('COUNTIF(C1:C3,"te*")', "1"),
                                  ("VLOOKUP(15,A1:B3,2,FALSE)", "16"), ("INDEX(A1:B3,3,2)", "42"),
                                  ("MATCH(20,A1:A3)", "2"), ("SUMPRODUCT(A1:A3,B1:B3)", "1238"),
                                  ("LARGE(A1:B3,2)", "23"), ("RANK(8,A1:B3)", "5")]:
            self.assertEqual(self.evaluated(formula), expected, formula)

    def test_text_and_dates(self):
        for formula, expected in [('UPPER("ab")&LEN("abc")', "AB3"), ('MID("spread",2,3)', "pre"),
                                  ('TEXTJOIN("-",TRUE,"a","","b")', "a-b"), ('TEXT(0.256,"percent:1")', "25.6%"),
                                  ('TEXT(DATE(2024,2,30),"date")', "2024-03-01"), ("WEEKDAY(DATE(2024,1,1))", "2"),
                                  ('TEXT(EDATE(DATE(2024,1,31),1),"date")', "2024-02-29")]:
            self.assertEqual(self.evaluated(formula), expected, formula)

    def test_choices_evaluate_only_what_they_choose(self):
        for formula, expected in [("IF(TRUE,1,1/0)", "1"), ("IFERROR(1/0,9)", "9"), ('SWITCH(2,1,"a",2,"b")', "b"),
                                  ("IFS(FALSE,1,TRUE,2)", "2"), ("CHOOSE(2,1/0,5)", "5"), ("ISERROR(1/0)", "TRUE"),
                                  ("NOSUCH(1)", "#NAME?"), ("ABS(1,2)", "#VALUE!")]:
            self.assertEqual(self.evaluated(formula), expected, formula)


if __name__ == "__main__":
    unittest.main()
