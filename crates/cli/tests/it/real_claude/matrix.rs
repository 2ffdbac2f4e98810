//! One version of Claude Code that the environment names. `scripts/test matrix` runs these tests for each version of its
//! list; they are not part of CI.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use proctor_scripted_model::{Action, Answer, ApiError, Script};
use proctor_testkit::llm;
use serde_json::{Value, json};

use super::{Trial, transports::reports_all_processes};

/// Longer than the CLI needs for its retries, shorter than the three minutes of those that are not limited.
const LIMIT: Duration = Duration::from_mins(1);

/// The version under test.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are configured by the environment"
)]
fn version() -> String {
    std::env::var("PROCTOR_TEST_CLAUDE_VERSION").expect("scripts/test matrix sets the version")
}

/// Versions before 2 do not let root skip permissions.
fn is_before_2() -> bool {
    version().starts_with("1.")
}

/// Versions before 1.0.60 cannot edit as root: Proctor refuses to start them.
fn is_refused() -> bool {
    let patch = version().strip_prefix("1.0.").map(str::parse::<u32>);
    let is_early = matches!(patch, Some(Ok(patch)) if patch < 60);
    if is_early {
        let trial =
            Trial::of(&version(), llm::says("never")).expect("scripts/test matrix installs it");
        trial.run(json!({"transport": "control"})).assert_code(2);
    }
    is_early
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn edits_a_file_over_pipes() {
    if is_refused() {
        return;
    }
    let transport = if is_before_2() { "control" } else { "print" };
    reports_all_processes(&version(), transport);
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn edits_a_file_in_a_terminal() {
    if !is_before_2() {
        reports_all_processes(&version(), "pty");
    }
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn edits_a_file_with_the_transport_that_suits_it() {
    if is_refused() {
        return;
    }
    reports_all_processes(&version(), "auto");
}

/// A provider's failure and the outcome that it must have.
fn failures() -> Vec<(&'static str, Script, &'static str)> {
    let refusal = |status, message: &str| {
        let error = ApiError {
            status,
            message: Some(message.to_owned()),
            retry_after: None,
        };
        Script::new([Answer::new(Action::Error(error)).forever()])
    };
    let cut = Answer::text("half a word").cut_after(3).forever();
    vec![
        ("403", llm::always_fails(403), "auth"),
        ("429", llm::always_fails(429), "rate_limit"),
        ("500", llm::always_fails(500), "network"),
        ("503", llm::always_fails(503), "overloaded"),
        ("529", llm::always_fails(529), "overloaded"),
        (
            "quota",
            refusal(400, "Your credit balance is too low"),
            "quota",
        ),
        (
            "quota behind 429",
            refusal(429, "You exceeded your current quota"),
            "quota",
        ),
        ("dropped connection", Script::new([cut]), "network"),
    ]
}

/// The outcome of a trial whose provider fails. `config` is added to the test case.
fn outcome(script: Script, mut config: Value, base_url: Option<&str>) -> String {
    let trial = Trial::of(&version(), script).expect("scripts/test matrix installs it");
    if is_before_2() {
        config["allowed_tools"] = json!(["Read"]);
    }
    let mut program = trial.program_within(LIMIT, config);
    if let Some(base_url) = base_url {
        program = program.env("ANTHROPIC_BASE_URL", base_url);
    }
    program.run();
    trial.assert_tidy();
    let outcome = trial.record()["outcome"].as_str().map(str::to_owned);
    outcome.unwrap_or_default()
}

/// Tries each failure once more instead of ten times: the last words of the CLI are what is tested.
fn check_failures(config: &Value) {
    let mut config = config.clone();
    config["env"] = json!({"CLAUDE_CODE_MAX_RETRIES": "1"});
    let outcomes = failures().into_iter().map(|(name, script, expected)| {
        let found = outcome(script, config.clone(), None);
        (found != expected).then(|| format!("{name}: {found} instead of {expected}"))
    });
    let mut wrong: Vec<String> = outcomes.flatten().collect();
    let unreadable = UnreadableProvider::start();
    let found = outcome(llm::says("never"), config.clone(), Some(&unreadable.url));
    if found != "network" {
        wrong.push(format!("invalid JSON: {found} instead of network"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn failures_of_the_provider_are_infrastructure() {
    check_failures(&json!({}));
}

#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn failures_of_the_provider_are_infrastructure_in_plain_text() {
    check_failures(&json!({"transport": "text"}));
}

/// With the retries that Proctor sets, and those of the CLI where it reports them.
#[test]
#[ignore = "scripts/test matrix runs it for each version"]
fn refused_credentials_do_not_use_up_the_time_limit() {
    for config in [json!({}), json!({"transport": "text"})] {
        assert_eq!(outcome(llm::always_fails(401), config, None), "auth");
    }
}

/// Answers every request with text that is not JSON, until the test ends.
struct UnreadableProvider {
    url: String,
}

impl UnreadableProvider {
    fn start() -> UnreadableProvider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                std::thread::spawn(move || answer_badly(connection));
            }
        });
        UnreadableProvider { url }
    }
}

/// Reads the request up to the end of its body, so that the client sees the answer.
fn answer_badly(mut connection: TcpStream) -> Option<()> {
    let mut request = Vec::new();
    let mut part = vec![0; 65536];
    loop {
        let read = connection.read(&mut part).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&part[..read]);
        let Some(head) = request.windows(4).position(|it| it == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
        let length = text.lines().find_map(|line| {
            let length = line.strip_prefix("content-length:")?;
            length.trim().parse::<usize>().ok()
        });
        if request.len() >= head + 4 + length.unwrap_or_default() {
            break;
        }
    }
    let body = "<html>this is not JSON</html>";
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).ok()?;
    connection.write_all(body.as_bytes()).ok()
}
