#!/bin/sh
# Only words of the shell: the agent may have replaced programs.
logs="${LOGS_DIR:-/logs}/verifier"
TEST_DIR="${TESTS_DIR:-/tests}"
export TEST_DIR
bash "$TEST_DIR/run-tests.sh" > "$logs/run-tests.txt" 2>&1
seen=0 passed=0 failed=0
while IFS= read -r line || [ -n "$line" ]; do
  printf '%s\n' "$line"
  case "$line" in
    *"short test summary info"*) seen=1 ;;
    PASSED* | XFAIL* | SKIPPED*) passed=$((passed + seen)) ;;
    FAILED* | ERROR* | XPASS*) failed=$((failed + seen)) ;;
  esac
done < "$logs/run-tests.txt"
reward=0
if [ "$passed" -gt 0 ] && [ "$failed" -eq 0 ]; then reward=1; fi
echo "$reward" > "$logs/reward.txt"
