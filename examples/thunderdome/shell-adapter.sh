#!/bin/sh
# A contender in a few lines: it does the task by itself and tells its own figures.
[ -f "$TASK_DESCRIPTION" ] || exit 2
cd "$TASK_DIR" || exit 2
echo "$GREETING" > greeting.txt
echo '{"input_tokens": 12, "output_tokens": 3, "turns": 1, "tools_used": ["sh"], "total_cost_usd": 0.001}' \
  > .thunderdome-metrics.json
