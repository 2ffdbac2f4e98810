#!/bin/sh
# Claude Code under the adapter contract: TASK_DIR is the workspace, TASK_DESCRIPTION the task's
# file, PROXY_URL the model proxy (empty: none). Its last event carries the figures; they go to the
# sidecar. CLAUDE_MODEL chooses the model. It needs `claude` and what every POSIX system has.
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
# The container is the boundary; root in it has no rights outside.
export IS_SANDBOX=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1

set -- --print --verbose --output-format stream-json --permission-mode bypassPermissions
[ -z "${CLAUDE_MODEL:-}" ] || set -- "$@" --model "$CLAUDE_MODEL"

# A named pipe, so that the exit code is the agent's and not that of the reader.
mkfifo "$events/pipe"
tee "$events/all" < "$events/pipe" &
reader=$!
claude "$@" < "$TASK_DESCRIPTION" > "$events/pipe" &
agent=$!
wait "$agent"
code=$?
agent=
wait "$reader"

# The last result has the totals over all models, sub-agents included. Without escapes every second
# part between quotes is a string, so that text which looks like a figure is none.
export LC_ALL=C
sed -e 's/\\\\//g' -e 's/\\"//g' "$events/all" | awk '
  function value(text) {
    if (depth == 1) {
      if (key[1] == "type") type = text
      top[key[1]] = text
    } else if (depth == 2 && key[1] == "usage") {
      main[key[2]] = text
    } else if (depth == 3 && key[1] == "modelUsage") {
      models[key[3]] += text
      has_models = 1
    } else if (depth == 4 && key[1] == "message" && key[2] == "content") {
      block[key[4]] = text
    }
  }
  function structure(text,    i, c) {
    for (i = 1; i <= length(text); i++) {
      c = substr(text, i, 1)
      if (c ~ /[0-9.eE+-]/) { number = number c; continue }
      if (number ~ /^[0-9]/) value(number)
      number = ""
      if (is_waiting) {
        if (c == ":") { key[depth] = string; is_waiting = 0; continue }
        if (c != " ") { value(string); is_waiting = 0 }
      }
      if (c == "{" || c == "[") { depth++; key[depth] = "" }
      if (c == "}" || c == "]") {
        if (depth == 4 && block["type"] == "tool_use") used[++uses] = block["name"]
        if (depth == 4) { delete block["type"]; delete block["name"] }
        depth--
      }
    }
  }
  function count(name, other) {
    return sprintf("%.0f", has_models ? models[name] : main[other])
  }
  # Of all lines these are the ones that count; a quick look spares the others.
  /"result"/ || /"tool_use"/ {
    depth = 0; type = ""; number = ""; is_waiting = 0; has_models = 0; uses = 0
    split("", key); split("", top); split("", main); split("", models)
    split("", block); split("", used)
    parts = split($0, part, "\"")
    for (p = 1; p <= parts; p++) {
      if (p % 2 == 1) structure(part[p])
      else { string = part[p]; is_waiting = 1 }
    }
    if (type == "assistant") for (i = 1; i <= uses; i++) {
      if (!(used[i] in tools)) list = list (list == "" ? "" : ", ") "\"" used[i] "\""
      tools[used[i]] = 1
    }
    if (type == "result") {
      line = ""
      if ("num_turns" in top) line = line ", \"turns\": " top["num_turns"]
      if ("duration_ms" in top) line = line ", \"duration_ms\": " top["duration_ms"]
      if ("total_cost_usd" in top) line = line ", \"total_cost_usd\": " top["total_cost_usd"]
      if (has_models || "input_tokens" in main) {
        line = line ", \"input_tokens\": " count("inputTokens", "input_tokens")
        line = line ", \"output_tokens\": " count("outputTokens", "output_tokens")
        line = line ", \"cache_read_tokens\": " count("cacheReadInputTokens", "cache_read_input_tokens")
        line = line ", \"cache_creation_tokens\": " count("cacheCreationInputTokens", "cache_creation_input_tokens")
      }
      result = line
      has_result = 1
    }
  }
  END {
    if (!has_result) exit
    print "{\"tools_used\": [" list "]" result "}"
  }
' > "$events/metrics" || : > "$events/metrics"
[ ! -s "$events/metrics" ] || cp "$events/metrics" .thunderdome-metrics.json
exit "$code"
