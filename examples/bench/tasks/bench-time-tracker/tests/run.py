"""Runs the hidden tests on the work in a folder and writes the verdict: ``run.py WORK LOGS``."""

import json
import os
import sys
import unittest

# At the end: what lies beside the tests must never stand in for the standard library.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import program  # noqa: E402
import test_hidden  # noqa: E402


def main(work, logs):
    program.WORK = work
    suite = unittest.defaultTestLoader.loadTestsFromModule(test_hidden)
    total = suite.countTestCases()
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    passed = total - len({test.id() for test, _ in result.failures + result.errors})
    verdict = {"reward": int(result.wasSuccessful() and passed == total), "tests_passed": passed, "tests_total": total}
    path = os.path.join(logs, "reward.json")
    with open(path + ".new", "w", encoding="utf-8") as out:
        json.dump(verdict, out)
    os.replace(path + ".new", path)
    print(verdict)


if __name__ == "__main__":
    main(*sys.argv[1:])
