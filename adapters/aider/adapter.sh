#!/bin/sh
# Aider under the adapter contract: TASK_DIR is the workspace, TASK_DESCRIPTION the task's file,
# PROXY_URL the model proxy (empty: none). AIDER_MODEL chooses the model. Aider tells its figures
# for each call only, so there is no sidecar: a proxy knows them.
set -u

[ -f "${TASK_DESCRIPTION:-}" ] || { echo "there is no task file: ${TASK_DESCRIPTION:-}" >&2; exit 2; }
cd "${TASK_DIR:?}" || exit 2

agent=
clean_up() {
  [ -z "$agent" ] || kill "$agent" 2>/dev/null
  rm -rf .aider.tags.cache.*
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[ -z "${PROXY_URL:-}" ] || export ANTHROPIC_BASE_URL="$PROXY_URL" ANTHROPIC_API_BASE="$PROXY_URL"

# The evaluation handles commits: the change is the work, committed or not.
aider --yes-always --no-auto-commits --no-check-update --no-show-model-warnings --analytics-disable \
  --message-file "$TASK_DESCRIPTION" --model "${AIDER_MODEL:-anthropic/claude-sonnet-4-5}" </dev/null &
agent=$!
wait "$agent"
code=$?
agent=
exit "$code"
