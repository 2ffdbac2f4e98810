#!/usr/bin/env bash
# Wrong: the next id is one above the highest there is, so that the id of a removed entry is used again.
set -eu
sed 's/return Log(entries, value\["next_id"\])/return Log(entries, max((entry.id for entry in entries), default=0) + 1)/' \
  "${SOLUTION_DIR:?}/../../solution/tt.py" >tt.py
