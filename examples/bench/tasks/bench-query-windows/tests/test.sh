#!/usr/bin/env bash
# Judges the work in the current directory; leaves reward.json in the folder of the verifier's logs.
# Nothing of the work is imported here: the tests start it as a program of its own. Node gets no options from
# the environment, and the tests are .mjs so that no package.json has a say in how they are read.
set -eu
work="$PWD"
logs="${LOGS_DIR:-/logs}/verifier"
mkdir -p "$logs"
logs="$(cd "$logs" && pwd)"
cd "${TESTS_DIR:-/tests}"
exec env -i PATH="$PATH" node run.mjs "$work" "$logs"
