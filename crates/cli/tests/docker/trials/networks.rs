//! Network access of agents for each kind of network.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use serde_json::{Value, json};

use super::{Rig, shell};

/// Says whether a host is reached through the proxy, as programs with its variables do it.
const REACH: &str =
    "reach() { curl -sS -m 10 -p --noproxy '' -x \"$HTTPS_PROXY\" \"$1\" 2>&1 || echo no $1; }";

/// Answers all requests on a loopback port of this machine.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(b"HTTP/1.0 200 OK\r\n\r\nthe allowed host\n");
        }
    });
    port
}

fn run(rig: &Rig, script: &str, network: &Value) -> Value {
    let script = format!("{script}\necho hello > greeting.txt");
    let path = rig.suite(
        &json!([shell("agent", &script)]),
        &json!({"network": network}),
    );
    let output = rig
        .program(&path, &[])
        .env("ANTHROPIC_API_KEY", "k-1")
        .run();
    rig.assert_tidy();
    output.assert_code(0);
    rig.record("agent")
}

#[test]
fn agent_reaches_only_hosts_of_the_allowlist() {
    let Some(rig) = Rig::new() else { return };
    let port = server();
    let script = format!(
        "{REACH}\nreach http://127.0.0.1:{port}/; reach http://127.0.0.2:{port}/; reach https://example.com/\ncurl -sS -m 3 http://127.0.0.1:{port}/ 2>/dev/null || echo not without the proxy"
    );
    let record = run(&rig, &script, &json!({"allowlist": ["127.0.0.1"]}));
    let printed = rig.printed("agent");
    assert_eq!(printed.matches("the allowed host").count(), 1, "{printed}");
    for refused in [
        "no http://127.0.0.2:",
        "no https://example.com/",
        "not without the proxy",
    ] {
        assert!(printed.contains(refused), "{printed}");
    }
    assert_eq!(record["sandbox"]["network"], "allowlist");
    let hosts = &record["gateway"]["refused_hosts"];
    assert_eq!(
        hosts,
        &json!({"127.0.0.2": 1, "example.com": 1}),
        "{record:#}"
    );
}

#[test]
fn agent_without_a_network_has_no_key() {
    let Some(rig) = Rig::new() else { return };
    let script = "env; ls /proctor/run 2>/dev/null; for name in /sys/class/net/*; do echo net ${name##*/}; done; curl -sS -m 3 http://127.0.0.1:4000/ || echo no listener";
    let script = script.replace("${", "$${");
    let record = run(&rig, &script, &json!("none"));
    let printed = rig.printed("agent");
    assert!(printed.contains("no listener"), "{printed}");
    assert!(!printed.contains("net eth"), "{printed}");
    for word in ["API_KEY", "BASE_URL", "gateway.sock", "_PROXY"] {
        assert!(!printed.contains(word), "{printed}");
    }
    assert_eq!(record["sandbox"]["network"], "none");
    assert_eq!(record.get("gateway"), None, "{record:#}");
}

#[test]
fn open_network_reaches_other_hosts_and_the_gateway() {
    let Some(rig) = Rig::new() else { return };
    let script = "for name in /sys/class/net/*; do echo net ${name##*/}; done; tail -n +2 /proc/net/route; curl -s -m 10 -o /dev/null $ANTHROPIC_BASE_URL/ && echo gateway answered; env | grep k-1";
    let script = script.replace("${", "$${");
    let record = run(&rig, &script, &json!("open"));
    let printed = rig.printed("agent");
    assert!(printed.contains("net eth0"), "{printed}");
    assert!(printed.contains("\t00000000\t"), "a way out: {printed}");
    assert!(printed.contains("gateway answered"), "{printed}");
    assert!(!printed.contains("k-1"), "{printed}");
    assert_eq!(record["sandbox"]["network"], "open");
}

#[test]
fn separate_verifier_reaches_only_the_allowed_hosts() {
    let Some(rig) = Rig::new() else { return };
    let port = server();
    let folder = rig.context.root().join("tasks/reach");
    let toml = "[verifier]\nenvironment_mode = \"separate\"\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"127.0.0.1\"]\n[environment]\nnetwork_mode = \"no-network\"\ndocker_image = \"proctor-test:debian\"\nworkdir = \"/srv\"\n";
    let test = format!(
        "{REACH}\nreach http://127.0.0.1:{port}/ > /tmp/seen; reach http://127.0.0.2:{port}/ >> /tmp/seen\ncat /tmp/seen; grep -q 'the allowed host' /tmp/seen && grep -q 'no http://127.0.0.2:' /tmp/seen && echo 1 > /logs/verifier/reward.txt\n"
    );
    for (name, text) in [
        ("task.toml", toml),
        ("instruction.md", "Reach.\n"),
        ("tests/test.sh", test.as_str()),
    ] {
        let path = folder.join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    let agents = json!([{"name": "floor", "type": "null"}]);
    let more = json!({"tasks": [{"folder": "tasks/reach"}], "gateway": {}});
    let path = rig.suite(&agents, &more);
    rig.run(&path, &[]);
    let record = rig.record("floor");
    assert_eq!(record["status"], "passed", "{record:#}");
}

/// The real key.
const KEY: &str = "sk-ant-canary-0123456789";

/// `proxy: {gateway: none}` as in Thunderdome: containers reach what the engine does. A real key
/// comes in only when the suite names it.
#[test]
fn containers_without_a_gateway_have_an_open_network() {
    let Some(rig) = Rig::new() else { return };
    let script = "for name in /sys/class/net/*; do echo net $${name##*/}; done; env; echo hello > greeting.txt";
    let run = |agent: &Value, more: &Value| {
        let mut suite = json!({"proxy": {"gateway": "none"}, "network": {"allowlist": []}});
        for (key, value) in more.as_object().unwrap() {
            suite[key] = value.clone();
        }
        let path = rig.suite(&json!([agent]), &suite);
        let output = rig.program(&path, &[]).env("ANTHROPIC_API_KEY", KEY).run();
        rig.assert_tidy();
        output
    };
    let agent = shell("agent", script);
    run(&agent, &json!({})).assert_code(0);
    let printed = rig.printed("agent");
    assert!(printed.contains("net eth0"), "{printed}");
    assert!(!printed.contains(KEY), "{printed}");
    let record = rig.record("agent");
    assert_eq!(record["sandbox"]["network"], "open");
    assert_eq!(record.get("gateway"), None, "{record:#}");
    // The agent's own environment would bring the key in.
    let mut keyed = agent.clone();
    keyed["config"]["env"] = json!({"AUTHORIZATION": "Bearer ${ANTHROPIC_API_KEY}"});
    let output = run(&keyed, &json!({}));
    output.assert_code(2);
    let refused = "refusing to pass ANTHROPIC_API_KEY into a container without a gateway";
    assert!(output.stderr.contains(refused), "{output}");
    let hint = "unsafe_pass_through: [ANTHROPIC_API_KEY]";
    assert!(output.stderr.contains(hint), "{output}");
    let passed = json!({"secrets": {"unsafe_pass_through": ["ANTHROPIC_API_KEY"]}});
    run(&keyed, &passed).assert_code(0);
    let printed = rig.printed("agent");
    for line in [
        format!("ANTHROPIC_API_KEY={KEY}"),
        format!("AUTHORIZATION=Bearer {KEY}"),
    ] {
        assert!(printed.contains(&line), "{printed}");
    }
    let notes = rig.record("agent")["notes"].to_string();
    assert!(notes.contains("ANTHROPIC_API_KEY"), "{notes}");
}
