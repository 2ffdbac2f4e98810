//! A task of Terminal-Bench 1 with a second service.

use serde_json::json;

use super::Rig;

const COMPOSE: &str = r#"
services:
  client:
    build: {dockerfile: Dockerfile}
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [sh, -c, sleep infinity]
    environment: ["TEST_DIR=${T_BENCH_TEST_DIR}"]
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
    depends_on: {site: {condition: service_healthy}}
  site:
    image: proctor-test:busybox
    container_name: ${T_BENCH_TASK_DOCKER_NAME_PREFIX}__site
    command: [httpd, -f, -p, "8000", -h, /www]
    volumes: ["./www:/www:ro"]
    healthcheck:
      test: [CMD, wget, -q, -O, /dev/null, "http://127.0.0.1:8000/word"]
      interval: 1s
"#;
const TESTS: &str = "import urllib.request\n\ndef test_greeting():\n    word = urllib.request.urlopen('http://site:8000/word').read()\n    assert open('/app/greeting.txt', 'rb').read() == word\n";

#[test]
fn agent_and_tests_use_the_other_services() {
    let Some(rig) = Rig::new() else { return };
    let folder = rig.context.root().join("tasks/greet");
    for (name, text) in [
        (
            "task.yaml",
            "instruction: Greet.\nparser_name: pytest\nmax_agent_timeout_sec: 60.0\n",
        ),
        ("Dockerfile", "FROM proctor-test:debian\nWORKDIR /app\n"),
        ("docker-compose.yaml", COMPOSE),
        ("www/word", "hello\n"),
        (
            "run-tests.sh",
            "python3 -m pytest -rA \"$TEST_DIR/test_outputs.py\"\n",
        ),
        ("tests/test_outputs.py", TESTS),
        (
            "solution.sh",
            "curl -sf http://tb__site:8000/word > greeting.txt\n",
        ),
    ] {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    let agents = json!([
        {"name": "floor", "type": "null"},
        {"name": "ceiling", "type": "oracle"},
    ]);
    let path = rig.suite(&agents, &json!({"tasks": [{"folder": "tasks/greet"}]}));
    rig.run(&path, &[]).assert_code(1);
    for (agent, reward) in [("floor", 0.0), ("ceiling", 1.0)] {
        let record = rig.record(agent);
        assert_eq!(record["outcome"], "completed", "{record:#}");
        assert_eq!(
            record["verdicts"][0]["metrics"]["reward"], reward,
            "{agent}: {record:#}"
        );
    }
}
