"""Writes task files that Harbor accepts, for crates/harness/tests/harbor_acceptance.rs.

    pip install harbor==0.25.0        # needs Python 3.12
    python scripts/harbor-corpus.py 500 > crates/harness/tests/data/harbor-accepts.jsonl

Each line is one `task.toml` as a JSON string. Files have every key of the format, in random subsets,
and mutations: unknown keys, removed keys, and values of other types. Harbor's own `TaskConfig`
decides which of them are kept. Features that Proctor refuses by name are left out: compose, `steps`,
GPUs, TPUs, Windows, MCP servers and skills.
"""

import json
import random
import sys
import tomllib
import warnings

from harbor.models.task.config import TaskConfig

chosen = random.Random(7)
NUMBERS = ["60", "0.5", "1e3", "600.0", '"30"', "7200"]
TEXTS = ['"a"', '"b c"', '"ü"']
WRONG = ['"x"', "[]", "true", "{}"]
ENV = ["{}", '{A = "1"}', '{A = "${NOT_SET}", B = "${X:-y}"}', '{K = "$HOME"}']
USERS = ['"root"', "1000", '"worker"']
NETWORKS = [
    {},
    {"network_mode": '"public"'},
    {"network_mode": '"no-network"'},
    {"network_mode": '"allowlist"', "allowed_hosts": '["a.org", "*.b.org", "10.0.0.0/8"]'},
    {"network_mode": '"allowlist"'},
    {"allowed_hosts": "[]"},
]
HEALTHCHECK = {
    "interval_sec": NUMBERS,
    "timeout_sec": NUMBERS,
    "start_period_sec": NUMBERS,
    "start_interval_sec": NUMBERS,
    "retries": ["1", "5", '"3"'],
}
ENVIRONMENT = {
    "build_timeout_sec": NUMBERS,
    "docker_image": ['"debian:12"', '"a/b@sha256:0"', '""'],
    "os": ['"linux"', '"Linux"'],
    "cpus": ["1", "0.5", "2.0", '"4"'],
    "memory_mb": ["512", "2048.0", '"1024"'],
    "storage_mb": ["1024", "10240"],
    "gpus": ["0"],
    "gpu_types": ["[]", '["H100"]'],
    "mcp_servers": ["[]"],
    "env": ENV,
    "workdir": ['"/app"', '"/"'],
    "allow_internet": ["true", "false"],
}
ROOT = {
    "schema_version": ['"1.4"', '"1.0"', '"2.0"', '"7"'],
    "source": TEXTS,
    "multi_step_reward_strategy": ['"mean"', '"final"'],
    "artifacts": [
        "[]",
        '["/a"]',
        '["/a/b", {source = "out", exclude = ["*.o"]}]',
        '[{source = "/x", destination = "y/z", service = "main"}]',
    ],
}
TASK = {
    "version": ['"1"'],
    "description": TEXTS,
    "authors": ["[]", '[{name = "n"}]', '[{name = "n", email = "e@x"}]'],
    "keywords": ['["k"]'],
}
METADATA = {
    "category": ['"c"', "3", "[1]"],
    "difficulty": TEXTS,
    "when": ["2024-01-02"],
    "deep": ["{a = {b = [1, 2.5, true]}}"],
    "tell_deadline": ["true", '"no"'],
}
VERIFIER = {"timeout_sec": NUMBERS, "env": ENV, "user": USERS}
COLLECT = {"service": ['"main"'], "timeout_sec": NUMBERS, "user": USERS}


def happens(share):
    return chosen.random() < share


def some(keys, share=0.35):
    return {key: chosen.choice(values) for key, values in keys.items() if happens(share)}


def environment():
    table = some(ENVIRONMENT, 0.25)
    if happens(0.15) and "memory_mb" not in table:
        table["memory"] = chosen.choice(['"2G"', '"512M"', '"1048576K"', '"1.5g"'])
    if happens(0.15) and "storage_mb" not in table:
        table["storage"] = '"10G"'
    network = chosen.choice(NETWORKS)
    if "allow_internet" not in table:
        table.update(network)
    if happens(0.2):
        check = {"command": '"true"', **some(HEALTHCHECK)}
        table["healthcheck"] = "{" + ", ".join(f"{k} = {v}" for k, v in check.items()) + "}"
    return table


def tables():
    found = [("", some(ROOT, 0.3))]
    if "schema_version" not in found[0][1] and happens(0.3):
        found[0][1]["version"] = '"1.0"'
    if happens(0.6):
        name = chosen.choice(['"org/name"', '"a-b/c.d"'])
        found.append(("task", {"name": name, **some(TASK)}))
    if happens(0.6):
        found.append(("metadata", some(METADATA)))
    if happens(0.7):
        agent = some({"timeout_sec": NUMBERS, "user": USERS})
        found.append(("agent", {**agent, **chosen.choice(NETWORKS)}))
    if happens(0.7):
        verifier = {**some(VERIFIER), **chosen.choice(NETWORKS)}
        is_separate = happens(0.25)
        if happens(0.3):
            verifier["environment_mode"] = '"separate"' if is_separate else '"shared"'
        found.append(("verifier", verifier))
        if is_separate:
            own = {**environment(), "docker_image": '"debian:12"'}
            found.append(("verifier.environment", own))
        if happens(0.2):
            found.append(("[verifier.collect]", {"command": '"true"', **some(COLLECT)}))
    if happens(0.8):
        found.append(("environment", environment()))
    if happens(0.3):
        found.append(("solution", {"env": chosen.choice(ENV)}))
    return found


def mutate(found):
    _, table = chosen.choice(found)
    kind = chosen.random()
    if kind < 0.5:
        key = chosen.choice(["extra", "unknown_key", "x-y", "timeout"])
        table[key] = chosen.choice(["1", '"a"', "{b = 1}", "[1]"])
    elif table and kind < 0.7:
        table.pop(chosen.choice(list(table)))
    elif table and kind < 0.9:
        table[chosen.choice(list(table))] = chosen.choice(WRONG + NUMBERS + TEXTS)
    elif table:
        key = chosen.choice(list(table))
        table[key.upper()] = table.pop(key)


def text():
    found = tables()
    for _ in range(chosen.choice([0, 0, 1, 1, 2])):
        mutate(found)
    lines = []
    for name, table in found:
        lines += [f"[{name}]"] if name else []
        lines += [f"{key} = {value}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def is_accepted(task):
    try:
        TaskConfig.model_validate(tomllib.loads(task))
    except ValueError:
        return False
    return True


warnings.simplefilter("ignore")
wanted = int(sys.argv[1])
while wanted:
    task = text()
    if is_accepted(task):
        print(json.dumps(task))
        wanted -= 1
