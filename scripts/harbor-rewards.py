"""Compares rewards of Harbor and Proctor on the same task folders, with their oracle and null agents.

    pip install harbor==0.25.0        # needs Python 3.12, and the plugin `docker compose`
    python scripts/harbor-rewards.py .cache/harbor-rewards HARBOR PROCTOR [TASK...]

HARBOR and PROCTOR are the programs; DOCKER_HOST names the engine, which needs the images of
`scripts/docker`. The task folders are written to the first argument, and results to `jobs` and
`proctor` in it; Harbor's are used again if they exist. Prints a table; the exit code is
1 if a reward differs.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

DEBIAN = "FROM proctor-test:debian\nWORKDIR /app\n"
REWARD = 'if {}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
SERVE = "nohup python3 -m http.server 8123 > server.log 2>&1 &\nuntil curl -sf localhost:8123 > /dev/null; do sleep 0.1; done\n"
IS_SERVED = "curl -sf -m 5 localhost:8123/page | grep -qx page"


def toml(name, more=""):
    return f'schema_version = "1.4"\n{more}\n[task]\nname = "rewards/{name}"\n[agent]\ntimeout_sec = 30.0\n'


def task(name, test, solve, dockerfile=DEBIAN, more="", **files):
    """The files of one task. Names of further files have `__` for a slash."""
    return {
        "task.toml": toml(name, more),
        "instruction.md": "Do it.\n",
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": "#!/bin/bash\n" + test,
        "solution/solve.sh": "#!/bin/bash\n" + solve,
    } | {path.replace("__", "/"): text for path, text in files.items()}


def steps(name, first, second, **more):
    """A task of two steps, each a pair of test and solution."""
    files = {
        "task.toml": toml(name) + '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n',
        "environment/Dockerfile": DEBIAN,
    }
    for step, (test, solve) in (("one", first), ("two", second)):
        files[f"steps/{step}/instruction.md"] = "Do it.\n"
        files[f"steps/{step}/tests/test.sh"] = "#!/bin/bash\n" + test
        files[f"steps/{step}/solution/solve.sh"] = "#!/bin/bash\n" + solve
    return files | more


def has(path):
    return REWARD.format(f"test -f {path}")


COMPOSE = """services:
  main:
    depends_on:
      web: {condition: service_healthy}
  web:
    image: proctor-test:debian
    working_dir: /etc
    command: ["python3", "-m", "http.server", "8000"]
    healthcheck:
      test: ["CMD", "curl", "-sf", "localhost:8000/hostname"]
      interval: 1s
      retries: 30
"""

TASKS = {
    "simple": task("simple", has("/app/a"), "touch a\n"),
    "fraction": task("fraction", "test -f /app/a && echo 0.5 > /logs/verifier/reward.txt || echo 0.25 > /logs/verifier/reward.txt\n", "touch a\n"),
    "several": task(
        "several",
        "n=$(test -f /app/a && echo 1 || echo 0)\necho \"{\\\"reward\\\": $n, \\\"speed\\\": 0.5, \\\"size\\\": -2}\" > /logs/verifier/reward.json\n",
        "touch a\n",
    ),
    "exit-code": task("exit-code", has("/app/a") + "exit 7\n", "touch a\nexit 3\n"),
    "home": task(
        "home",
        REWARD.format('test "$HOME" = /root -a -f /root/.config/a -a -f ~/b'),
        "mkdir -p ~/.config && touch ~/.config/a \"$HOME/b\"\n",
    ),
    "user": task(
        "user",
        REWARD.format('test "$(id -un):$HOME" = worker:/home/worker -a -O /app/a'),
        "touch a\n",
        DEBIAN + "RUN useradd --create-home worker && chown worker /app\nUSER worker\n",
    ),
    "solution": task("solution", has("/app/answer"), "cp /solution/answer.txt answer\n") | {"solution/answer.txt": "42\n"},
    "entry-point": task(
        "entry-point",
        REWARD.format("test -f /app/a"),
        "test -f /up && touch a\n",
        DEBIAN + "RUN printf 'sleep 1; touch /up; exec \"$@\"' > /entry.sh\nENTRYPOINT [\"sh\", \"/entry.sh\"]\n",
        "[environment.healthcheck]\ncommand = \"test -f /up\"\ninterval_sec = 1.0\nretries = 10\n",
    ),
    "service": task("service", REWARD.format(IS_SERVED), "echo page > page\n" + SERVE),
    "daemon": task("daemon", REWARD.format(IS_SERVED), "echo page > page\n" + SERVE.replace("nohup", "setsid")),
    "separate": task(
        "separate",
        REWARD.format("test -f /app/out/a -a ! -e /app/b -a ! -e /app/out/c.tmp"),
        "mkdir out; touch out/a out/c.tmp b\n",
        more='artifacts = [{source = "/app/out", exclude = ["*.tmp"]}]\n[verifier]\nenvironment_mode = "separate"\n',
        tests__Dockerfile="FROM proctor-test:debian\nCOPY . /tests\n",
    ),
    "steps": steps("steps", (has("/app/a"), "touch a\n"), (has("/app/b"), "test -f a && touch b\n")),
    "steps-service": steps(
        "steps-service",
        (REWARD.format(IS_SERVED), "echo page > page\n" + SERVE),
        (REWARD.format(IS_SERVED), "true\n"),
    ),
    "compose": task(
        "compose",
        REWARD.format("grep -q . /app/a"),
        "curl -sf web:8000/hostname > a\n",
    )
    | {"environment/docker-compose.yaml": COMPOSE},
}


def write(folder):
    for name, files in TASKS.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        for path, text in files.items():
            file = folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755 if path.endswith(".sh") else 0o644)


def by_harbor(program, folder, name, agent):
    """The rewards of a trial by Harbor, or why there are none."""
    job = f"{name}-{agent}"
    jobs = folder / "jobs"
    found = list((jobs / job).glob("*/result.json"))
    if not found:
        shutil.rmtree(jobs / job, ignore_errors=True)
        command = [program, "run", "--path", folder / name, "--agent", agent]
        command += ["--jobs-dir", jobs, "--job-name", job, "--yes"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        found = list((jobs / job).glob("*/result.json"))
    results = [json.loads(path.read_text()) for path in found]
    if not results:
        return "no result: " + (ran.stdout + ran.stderr)[-300:]
    rewards = (results[0].get("verifier_result") or {}).get("rewards")
    problem = (results[0].get("exception_info") or {}).get("exception_type")
    return rewards if rewards is not None else problem


def by_proctor(program, folder, name, agent):
    """The same by Proctor."""
    kind = {"nop": "null"}.get(agent, agent)
    results = folder / "proctor" / f"{name}-{agent}"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    suite = {"agents": [{"type": kind}], "sandbox": "docker", "tasks": [{"folder": str(folder / name)}]}
    (results / "suite.json").write_text(json.dumps(suite))
    ran = subprocess.run([program, "run", results / "suite.json"], cwd=results, capture_output=True, text=True)
    records = [json.loads(path.read_text()) for path in results.rglob("record.json")]
    if not records:
        return "no record: " + (ran.stdout + ran.stderr)[-300:]
    verdicts = [it for it in records[0]["verdicts"] if it["evaluator"] == "verifier"]
    rewards = verdicts and verdicts[0]["metrics"].get("rewards")
    return rewards or records[0]["outcome"]


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    harbor, proctor = (shutil.which(os.path.abspath(it)) or it for it in sys.argv[2:4])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder)
    differs = False
    print("| task | agent | Harbor | Proctor | |\n|---|---|---|---|---|")
    for name in sys.argv[4:] or TASKS:
        for agent in ("oracle", "nop"):
            one, other = by_harbor(harbor, folder, name, agent), by_proctor(proctor, folder, name, agent)
            differs |= one != other
            print(f"| {name} | {agent} | {json.dumps(one)} | {json.dumps(other)} | {'same' if one == other else 'differs'} |", flush=True)
    sys.exit(differs)


main()
