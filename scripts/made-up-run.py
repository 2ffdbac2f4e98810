#!/usr/bin/env python3
"""Writes a run of a suite that never ran, for tests and measurements of reports.

    made-up-run.py DIR TRIALS [SEED] [--hostile]

DIR/runs/<id> gets a plan and a record, events, log, diff and calls for each trial: 12 agents (a floor and a ceiling among
them), 5 trials of each task, and as many tasks as it takes. With --hostile what agents say tries to break pages.
"""

import json
import pathlib
import random
import sys

args = [arg for arg in sys.argv[1:] if not arg.startswith("--")]
hostile = "--hostile" in sys.argv
root, wanted = pathlib.Path(args[0]), int(args[1])
draw = random.Random(int(args[2]) if len(args) > 2 else 7)
NASTY = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">\x1b[31m\x00\u202e" + "x" * 20000

agents = [f"agent-{n:02}" for n in range(10)] if wanted >= 600 else [f"agent-{n}" for n in "abcde"[: max(2, min(5, wanted // 12))]]
agents += ["null", "oracle"]
trials_each = 5
tasks = [f"task-{n:04}" for n in range(max(1, round(wanted / trials_each / len(agents))))]
if hostile:
    agents[0] = "<b>agent</b>&\"'"
    tasks[0] = "</script>task|with,every;thing"
run = root / "runs" / "20261101-000000-0000000a"
run.mkdir(parents=True)
(run / ".lock").touch()
hardness = {task: draw.random() for task in tasks}
skill = {agent: 0.35 + 0.5 * n / len(agents) for n, agent in enumerate(agents)}


def folder_name(task):
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in task[:100])
    return safe.lstrip(".")


def verdict(name, score, message, **more):
    return {"evaluator": name, "status": "passed" if score == 1.0 else "failed", "score": score, "weight": 1.0, "message": message,
            "metrics": more, "duration_ms": 40, "timestamp": "2026-11-01T00:00:00Z"}


def record(agent, task, number):
    lost = agent not in ("null", "oracle") and draw.random() < 0.02
    if agent == "null":
        score = 0.0
    elif agent == "oracle":
        score = 1.0
    else:
        likely = min(0.98, max(0.02, skill[agent] + 0.5 - hardness[task]))
        score = 1.0 if draw.random() < likely else round(0.6 * draw.random(), 3)
    passed = score == 1.0
    words = NASTY if hostile else f"{task} of trial {number}"
    cost = round((0.02 + 0.3 * skill[agent]) * (0.5 + draw.random()), 4)
    verdicts = [] if lost else [verdict("tests", score, f"{round(score * 20)} of 20 tests passed: {words}", total=20), verdict("lint", 1.0, "no new findings")]
    status = "error" if lost else "passed" if passed else "failed"
    value = None if lost else {"value": (score + 1) / 2, "judged": (score + 1) / 2, "components": [
        {"evaluator": "tests", "weight": 1.0, "value": score}, {"evaluator": "lint", "weight": 1.0, "value": 1.0}]}
    return {
        "version": "1.0.0", "run_id": run.name, "trial": number, "outcome": "rate_limit" if lost else "completed", "status": status, "score": value,
        "agent": {"name": agent, "type": agent if agent in ("null", "oracle") else "claude-code", "version": "2.1.0", "adapter_version": "0.1.0", "model": "claude-opus-5-5"},
        "task": {"name": task, "category": "made-up", "config_file": "suite.yaml", "config_hash": "00" * 32, "repo": "./repo"},
        "started_at": "2026-11-01T00:00:00Z", "completed_at": "2026-11-01T00:02:00Z", "duration_ms": 120000, "sandbox": {"kind": "local"},
        "process": {"argv": ["claude", "-p"], "duration_ms": draw.randrange(20000, 200000), "exit_code": 0, "leaked": [],
                    "output": {"stdout_bytes": 100000, "stderr_bytes": 0, "transcript_truncated": False, "raw_truncated": False}},
        "usage": {"input_tokens": 1000, "output_tokens": draw.randrange(500, 9000), "total_tokens": 4000, "cache_read_tokens": draw.randrange(10000, 90000),
                  "cost_usd": cost, "source": "result_event"},
        "turns": 12, "counts": {"retries": 0, "unknown_events": 0, "malformed_lines": 0, "oversized_lines": 0, "permission_denials": 0, "compactions": 0, "hooks": 0, "subagent_tool_calls": 0},
        "diff": {"files_changed": 1, "lines_added": 3, "lines_removed": 1, "tree": "00" * 20, "patch_hash": "00" * 32},
        "verdicts": verdicts, "errors": [{"message": "429: rate limit", "timestamp": None}] if lost else [], "notes": [],
        "host": {"os": "linux", "arch": "x86_64", "cpus": 2}, "proctor_version": "0.1.0",
    }


def session(words):
    events = [{"event": "phase", "phase": "running"}, {"event": "session", "model": "claude-opus-5-5", "version": "2.1.0"}, {"event": "thought", "text": "First I look around."}]
    for n in range(8):
        events += [{"event": "said", "text": f"Step {n}: {words[:2000]}"}, {"event": "tool", "id": f"t{n}", "tool": "Edit", "target": f"src/part{n}.rs"},
                   {"event": "tool_result", "id": f"t{n}", "is_error": n == 3}]
    events += [{"event": "phase", "phase": "judging"}, {"event": "judged", "evaluator": "tests", "status": "passed", "message": "20 of 20"}]
    return [dict(t=900 * n, **event) for n, event in enumerate(events)]


plan = []
totals = []
for agent in agents:
    for task in tasks:
        for number in range(1, trials_each + 1):
            plan.append({"agent": agent, "task": task, "trial": number})
            artifacts = run / "trials" / agent / folder_name(task) / f"trial-{number}" / "artifacts"
            artifacts.mkdir(parents=True)
            words = NASTY if hostile else "the parser skips a token when the line ends in a comment, so the last field is lost. " * 3
            made = record(agent, task, number)
            (artifacts / "record.json").write_text(json.dumps(made))
            totals.append({"agent": agent, "task": task, "status": made["status"], "cost_usd": made["usage"]["cost_usd"]})
            (artifacts / "prompt.md").write_text(f"`cargo test {task}` fails: the last field of a line is lost. Fix it.\n")
            context = {"system": "You are a careful engineer.", "tools": [{"type": "function", "function": {"name": name}} for name in ("Bash", "Edit", "Read")],
                       "messages": ["# AGENTS.md\n\nRun the tests before you finish.", f"`cargo test {task}` fails: the last field of a line is lost. Fix it."]}
            (artifacts / "model-context.json").write_text(json.dumps(context))
            (artifacts / "events.ndjson").write_text("".join(json.dumps(event) + "\n" for event in session(words)))
            tools = [{"name": "Edit", "id": f"t{n}", "arguments": json.dumps({"file_path": f"src/part{n}.rs", "new": words[:500]}), "result": words[:300]} for n in range(8)]
            (artifacts / "youbencha-log.json").write_text(json.dumps({"messages": [], "tool_calls": tools}))
            (artifacts / "calls.ndjson").write_text("".join(json.dumps({"call": n, "at": f"2026-11-01T00:00:{2 + 4 * n:02}.500Z", "path": "/v1/messages", "model": "claude-opus-5-5", "status": 429 if n == 1 else 200, "total_ms": 2800, "cost_nano_usd": 9000000, "retries": 0,
                "usage": {"input": 4100 + 900 * n, "output": 240, "cache_read": 9000 * n}}) + "\n" for n in range(3)))
            diff = "diff --git a/src/parse.rs b/src/parse.rs\n--- a/src/parse.rs\n+++ b/src/parse.rs\n@@ -1,4 +1,6 @@\n fn parse(line: &str) -> Option<Field> {\n-    let end = line.find('#')?; // the last field was lost\n+    let end = line.find('#').unwrap_or(line.len());\n+    let number = 42;\n+    return Field::new(\"name\", &line[..end]);\n }\n"
            (artifacts / "git-diff.patch").write_text(diff + (f"+{NASTY}\n" if hostile else ""), encoding="utf-8", errors="surrogatepass")
(run / "summary.json").write_text(json.dumps({"not_run": 0, "trials": totals}))
(run / "plan.json").write_text(json.dumps({"suite": "made-up.yaml", "seed": 7, "trials": plan}))
