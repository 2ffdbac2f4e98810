#!/bin/sh
# Claude Code under the adapter contract: TASK_DIR is the workspace, TASK_DESCRIPTION the task's
# file, PROXY_URL the model proxy (empty: none). Its last event carries the figures; they go to the
# sidecar. CLAUDE_MODEL chooses the model. jq is used when it is there; without it there is no sidecar.
set -u

[ -f "${TASK_DESCRIPTION:-}" ] || { echo "there is no task file: ${TASK_DESCRIPTION:-}" >&2; exit 2; }
cd "${TASK_DIR:?}" || exit 2

events=$(mktemp -d)
agent=
clean_up() {
  [ -z "$agent" ] || kill "$agent" 2>/dev/null
  rm -rf "$events"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[ -z "${PROXY_URL:-}" ] || export ANTHROPIC_BASE_URL="$PROXY_URL"
# The container is the boundary; root in it is nobody outside.
export IS_SANDBOX=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1

set -- --print --verbose --output-format stream-json --permission-mode bypassPermissions
[ -z "${CLAUDE_MODEL:-}" ] || set -- "$@" --model "$CLAUDE_MODEL"

# A pipe with a name, so that the exit code is the agent's and not that of whoever reads it.
mkfifo "$events/pipe"
tee "$events/all" < "$events/pipe" &
reader=$!
claude "$@" < "$TASK_DESCRIPTION" > "$events/pipe" &
agent=$!
wait "$agent"
code=$?
agent=
wait "$reader"

if command -v jq >/dev/null 2>&1; then
  # Totals over all models, sub-agents included; a line that is no event is left out.
  jq -Rnc '
    [inputs | fromjson? | objects] as $events
    | ($events | map(select(.type == "result")) | last) as $result
    | select($result != null)
    | [$result.modelUsage // {} | .[]] as $models
    | {
        turns: $result.num_turns,
        duration_ms: $result.duration_ms,
        total_cost_usd: $result.total_cost_usd,
        tools_used: ([$events[] | select(.type == "assistant") | .message.content[]?
          | select(.type == "tool_use") | .name] | unique)
      }
      + (if $models == [] then {} else {
        input_tokens: ($models | map(.inputTokens // 0) | add),
        output_tokens: ($models | map(.outputTokens // 0) | add),
        cache_read_tokens: ($models | map(.cacheReadInputTokens // 0) | add),
        cache_creation_tokens: ($models | map(.cacheCreationInputTokens // 0) | add)
      } end)
    | with_entries(select(.value != null))
  ' "$events/all" > "$events/metrics" 2>/dev/null || : > "$events/metrics"
  [ ! -s "$events/metrics" ] || cp "$events/metrics" .thunderdome-metrics.json
fi
exit "$code"
