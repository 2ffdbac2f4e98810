# A runner of unittest that writes its results in the Test Anything Protocol.
import sys, unittest
lines = []
class Result(unittest.TextTestResult):
    def note(self, test, word, more=""):
        lines.append("%s %d - %s%s" % (word, len(lines) + 1, test.id(), more))
    def addSuccess(self, test):
        super().addSuccess(test); self.note(test, "ok")
    def addFailure(self, test, err):
        super().addFailure(test, err); self.note(test, "not ok")
    def addError(self, test, err):
        super().addError(test, err); self.note(test, "not ok")
    def addSkip(self, test, reason):
        super().addSkip(test, reason); self.note(test, "ok", " # SKIP")
    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err); self.note(test, "ok")
    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test); self.note(test, "not ok")
    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(subtest, "not ok")
tests = unittest.defaultTestLoader.discover(".")
result = unittest.TextTestRunner(resultclass=Result).run(tests)
with open(sys.argv[1], "w") as report:
    report.write("TAP version 13\n1..%d\n" % len(lines) + "\n".join(lines) + "\n")
sys.exit(not result.wasSuccessful())
