#!/usr/bin/env bash
# A small coding agent, agent.sh MODEL: asks a model for a sed expression that fixes a script, and applies it. The model
# gets the workspace's AGENTS.md. If that file wants the tests to be run, the agent runs them and asks again, with their
# output, when they fail. Bash alone speaks HTTP here, so that the example needs nothing else.
set -euo pipefail

ask() { # ask MESSAGES: prints the text that the model answers
  local server=${ANTHROPIC_BASE_URL#http://} body="{\"model\":\"$model\",\"max_tokens\":200,\"messages\":[$1]}" reply
  exec 3<>"/dev/tcp/${server%%:*}/${server##*:}"
  printf 'POST /v1/messages HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nX-Api-Key: %s\r\n' "$server" "$ANTHROPIC_API_KEY" >&3
  printf 'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "${#body}" "$body" >&3
  reply=$(cat <&3)
  [[ $reply =~ \"text\":\"([^\"]*)\" ]] || { echo "no answer: $reply" >&2; exit 1; }
  printf '%s' "${BASH_REMATCH[1]}"
}

message() { printf '{"role":"%s","content":"%s"}' "$1" "$2"; }

edit() { # edit FILE EXPRESSION
  echo "sed '$2' $1"
  local edited
  edited=$(sed "$2" "$1")
  printf '%s\n' "$edited" >"$1"
}

model=$1
prompt=$(cat)
[[ $prompt =~ Fix\ ([a-z]+)\.sh ]]
name=${BASH_REMATCH[1]}
rules=$(cat AGENTS.md 2>/dev/null || true)
conversation=$(message user "$rules $prompt")
answer=$(ask "$conversation")
edit "$name.sh" "$answer"
if [[ $rules == *"run the tests"* ]] && ! found=$(sh test.sh "$name"); then
  echo "$found"
  git checkout --quiet "$name.sh"
  conversation+=",$(message assistant "$answer"),$(message user "$found")"
  edit "$name.sh" "$(ask "$conversation")"
fi
