"""Starts the program under test: in a process group, an environment and a folder that the tests choose."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

WORK = None
_DEADLINE_SECONDS = 20
# The program's modules are compiled once for all tests, and not from what lies in the work folder.
_BYTECODE = tempfile.TemporaryDirectory()


def run(arguments, text="", variables=None, folder=None):
    """Run ``python3 ARGUMENTS`` in the work folder or another, with the standard library only.

    Gives the exit code, stdout and stderr. Output that is not UTF-8 is kept readable, and whatever the program left
    running is ended.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "PYTHONPYCACHEPREFIX": _BYTECODE.name}
    environment.update(variables or {})
    process = subprocess.Popen(
        [sys.executable, "-S", *arguments], cwd=folder or WORK, env=environment, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(text.encode(), timeout=_DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        raise unittest.TestCase.failureException(f"no answer within {_DEADLINE_SECONDS} s") from None
    finally:
        _end_group(process)
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def _end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
