"""Runs the hidden tests on the work in a folder and writes the verdict: ``run.py WORK LOGS``."""

import concurrent.futures
import json
import os
import sys
import unittest

# At the end: what lies beside the tests must never stand in for the standard library.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import program  # noqa: E402
import test_hidden  # noqa: E402

_AT_ONCE = 4  # tests mostly wait for the program they started


def run_test(test):
    """Run one test; gives whether it passed and what to say about it."""
    result = unittest.TestResult()
    test.run(result)
    problems = [text for _, text in result.failures + result.errors]
    passed = result.testsRun == 1 and not problems and not result.skipped
    return passed, "\n".join([f"{'ok    ' if passed else 'FAILED'}  {test.id()}", *problems])


def main(work, logs):
    program.WORK = work
    groups = unittest.defaultTestLoader.loadTestsFromModule(test_hidden)
    tests = [test for group in groups for test in group]
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(run_test, tests))
    for _, text in results:
        print(text)
    passed = sum(1 for ok, _ in results if ok)
    verdict = {"reward": int(passed == len(tests)), "tests_passed": passed, "tests_total": len(tests)}
    path = os.path.join(logs, "reward.json")
    with open(path + ".new", "w", encoding="utf-8") as out:
        json.dump(verdict, out)
    os.replace(path + ".new", path)
    print(verdict)


if __name__ == "__main__":
    main(*sys.argv[1:])
