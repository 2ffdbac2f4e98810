//! An engine that sees nothing of this machine: files go by archive, and connections to the
//! gateway over the streams of a container.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use camino::Utf8Path;
use proctor_scripted_model::ScriptedModel;
use proctor_testkit::{TestContext, llm};
use serde_json::{Value, json};

use super::{Rig, models::run, shell};

const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The engine of the tests at an address that says nothing of this machine.
fn elsewhere() -> Option<Rig> {
    let mut rig = Rig::new()?;
    rig.host = over_tcp(&rig.host);
    Some(rig)
}

/// An address of another kind for an engine that has a socket.
pub(super) fn over_tcp(host: &str) -> String {
    let socket = host.strip_prefix("unix://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for from in listener.incoming().flatten() {
            // An engine that was killed takes no connection, and so this one ends.
            if let Ok(to) = UnixStream::connect(&socket) {
                carry(&from, &to);
            }
        }
    });
    address
}

fn carry(from: &TcpStream, to: &UnixStream) {
    let (mut read, mut write) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut read, &mut write);
        let _ = write.shutdown(Shutdown::Write);
    });
    let (mut read, mut write) = (to.try_clone().unwrap(), from.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut read, &mut write);
        let _ = write.shutdown(Shutdown::Write);
    });
}

#[test]
fn agent_on_a_remote_engine_reaches_only_the_gateway() {
    let Some(rig) = elsewhere() else { return };
    let model = ScriptedModel::start_blocking(llm::says("hi")).unwrap();
    let other = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let probe = format!(
        "reach() {{ if curl -sS -m 3 -o /dev/null \"$1\" 2>/dev/null; then echo reached $1; else echo no $1; fi; }}
reach http://192.0.2.1/ ; reach http://172.17.0.1:{port}/ ; reach http://127.0.0.1:{port}/
getent hosts example.com && echo reached dns
ask() {{ curl -sS -m 20 \"$ANTHROPIC_BASE_URL/v1/messages\" -H \"x-api-key: $ANTHROPIC_API_KEY\" -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' -d '{{\"model\": \"claude-sonnet-4-5\", \"max_tokens\": 9, \"messages\": [{{\"role\": \"user\", \"content\": \"hello\"}}]}}'; }}
ask & ask & ask & wait
echo hello > greeting.txt"
    );
    let path = rig.suite(&json!([shell("probe", &probe)]), &json!({}));
    run(&rig, &model, &path);
    let printed = rig.printed("probe");
    assert!(!printed.contains("reached"), "{printed}");
    assert_eq!(printed.matches("\"id\":\"msg_").count(), 3, "{printed}");
    let record = rig.record("probe");
    assert_eq!(record["gateway"]["calls"], 3, "{record:#}");
    assert_eq!(record["status"], "passed", "{record:#}");
}

#[test]
fn claude_code_of_a_version_works_far_away_over_a_socket() {
    let Some(rig) = elsewhere() else { return };
    let Some(version) = rig.context.install_npm("2.1.30") else {
        return;
    };
    let script = llm::writes_file_then_says("/workspace/greeting.txt", "hello\n", "done");
    let model = ScriptedModel::start_blocking(script).unwrap();
    let agents = json!([{"name": "claude", "type": "claude-code", "version": version, "config": {"transport": "websocket"}}]);
    run(&rig, &model, &rig.suite(&agents, &json!({})));
    let record: Value = rig.record("claude");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(record["agent"]["version"], version, "{record:#}");
    // One copy for all containers; it stays, so that it is ours to remove.
    let volume = format!("proctor--anthropic-ai-claude-code-{version}");
    rig.docker(&["volume", "rm", &volume]);
}

/// An ssh server for one test, and an `ssh` that logs in to it. Dropped, it is ended.
pub(super) struct SshServer {
    server: Child,
    port: u16,
    /// Not in the test's own folder: what names that one is taken for a leftover.
    _folder: tempfile::TempDir,
}

impl SshServer {
    #[expect(
        clippy::disallowed_methods,
        reason = "a server of the test, ended with it"
    )]
    pub(super) fn start(context: &TestContext) -> SshServer {
        let own = tempfile::tempdir().unwrap();
        let folder = Utf8Path::from_path(own.path()).unwrap();
        for name in ["host", "user"] {
            let key = folder.join(name);
            let args = ["-q", "-t", "ed25519", "-N", "", "-f", key.as_str()];
            let made = context.program("ssh-keygen".into(), args);
            made.env("PATH", SYSTEM_PATH).run().assert_code(0);
        }
        // Outside the ephemeral range: a client that waits for an ephemeral port may connect to
        // itself.
        let ports = (20_000..30_000)
            .cycle()
            .skip(std::process::id() as usize % 10_000);
        let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let port = ports.take(100).find(is_free).expect("a free port");
        let config = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\n"
        );
        fs_err::write(folder.join("config"), config).unwrap();
        // The privilege separation directory of sshd, which its service would create.
        fs_err::create_dir_all("/run/sshd").unwrap();
        let server = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f", folder.join("config").as_str()])
            .stderr(
                fs_err::File::create(folder.join("log"))
                    .unwrap()
                    .into_file(),
            )
            .spawn()
            .unwrap();
        let known = format!("-oUserKnownHostsFile={folder}/known");
        let login = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F none -i {folder}/user -oStrictHostKeyChecking=accept-new {known} \"$@\"\n"
        );
        let ssh = context.bin().join("ssh");
        fs_err::write(&ssh, login).unwrap();
        fs_err::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !listens() {
            assert!(Instant::now() < deadline, "sshd does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        SshServer {
            server,
            port,
            _folder: own,
        }
    }

    /// The address of an engine that has a socket, behind this server.
    pub(super) fn before(&self, host: &str) -> String {
        let socket = host.strip_prefix("unix://").unwrap();
        format!("ssh://root@127.0.0.1:{}{socket}", self.port)
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn ssh_of_a_remote_engine_ends_with_the_run() {
    let Some(mut rig) = Rig::new() else { return };
    let server = SshServer::start(&rig.context);
    let engine = rig.host.clone();
    let socket = engine.strip_prefix("unix://").unwrap();
    let path = rig.suite(
        &json!([shell("greeter", "echo hello > greeting.txt")]),
        &json!({"network": "none"}),
    );
    rig.host = server.before(&engine);
    let output = rig.program(&path, &[]).run();
    // The client of the tests asks the engine itself.
    rig.host.clone_from(&engine);
    output.assert_code(0);
    rig.assert_tidy();
    let record = rig.record("greeter");
    assert_eq!(record["status"], "passed", "{record:#}");
    assert_eq!(record["sandbox"]["kind"], "docker", "{record:#}");

    rig.host = format!("ssh://missing-user@127.0.0.1:{}{socket}", server.port);
    let output = rig.program(&path, &[]).run();
    rig.host = engine;
    output.assert_code(3);
    let stderr = &output.stderr;
    assert!(stderr.contains("Permission denied"), "{stderr}");
    rig.assert_tidy();
}
