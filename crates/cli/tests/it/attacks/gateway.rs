//! Attacks on the gateway's account, end to end: agents that call models in ways that would not be counted, or that
//! would reach the provider past the rules. A scripted model stands in for the provider and shows what reached it.

use proctor_scripted_model::{Answer, RecordedRequest, Script, ScriptedModel, Usage};
use proctor_testkit::{Output, TestContext};
use serde_json::{Value, json};

use crate::support::context;

/// Sends a request with this path and body, and more arguments for curl. Every call of a row has the row's name in its
/// body.
const ASK: &str = r#"ask() {
  path=$1; body=$2; shift 2
  curl -s -o /dev/null --path-as-is "$ANTHROPIC_BASE_URL$path" -H "x-api-key: $ANTHROPIC_API_KEY" -H 'content-type: application/json' -d "$body" "$@" || true
}
"#;

/// The cost of one answer: 1,000 tokens in and 20,000 out.
const COST: f64 = 0.303;

/// The expected result of the calls of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Expect {
    /// The provider gets none of them, and the account has this many that were refused.
    Refused(u64),
    /// The gateway does not know these requests: the provider gets none of them, and there is no call.
    Unknown,
    /// The provider gets this many, and the account has all of them with their cost, or with an upper bound.
    Counted(usize),
}
use Expect::{Counted, Refused, Unknown};

/// One agent.
struct Row {
    name: &'static str,
    line: String,
    expect: Expect,
}

fn row(name: &'static str, expect: Expect, line: impl Into<String>) -> Row {
    Row {
        name,
        line: line.into(),
        expect,
    }
}

/// A call to this endpoint with these members besides the model and the name of the row.
fn call(path: &str, model: &str, more: &str) -> String {
    format!("ask {path} '{{\"model\":\"{model}\",\"metadata\":{{\"row\":\"ROW\"}}{more}}}'\n")
}

fn messages(more: &str) -> String {
    let more = format!(
        ",\"max_tokens\":4000,\"messages\":[{{\"role\":\"user\",\"content\":\"x\"}}]{more}"
    );
    call("/v1/messages", "claude-sonnet-4-5", &more)
}

/// Calls whose price or usage would not be known.
fn unpriced() -> Vec<Row> {
    let responses = |more: &str| call("/v1/responses", "gpt-5", &format!(",\"input\":\"x\"{more}"));
    let compressed = |program: &str, encoding: &str| {
        format!(
            "printf '{{\"model\":\"gpt-5\",\"input\":\"x\",\"background\":true}}' | {program} > body\nask /v1/responses '' --data-binary @body -H 'content-encoding: {encoding}'\n"
        )
    };
    vec![
        row(
            "a call in the background",
            Refused(1),
            responses(",\"background\":true"),
        ),
        row(
            "a call in the background, named with escapes",
            Refused(1),
            responses(",\"b\\u0061ckground\":true"),
        ),
        row(
            "a field that is named twice",
            Refused(1),
            responses(",\"background\":false,\"background\":true"),
        ),
        row(
            "a call that is compressed",
            Refused(1),
            compressed("gzip", "gzip"),
        ),
        row(
            "a call in UTF-16",
            Refused(1),
            compressed("iconv -t UTF-16LE", "identity"),
        ),
        row(
            "a batch of calls",
            Unknown,
            call("/v1/messages/batches", "claude-sonnet-4-5", ""),
        ),
        row(
            "a priority tier",
            Refused(1),
            responses(",\"service_tier\":\"priority\""),
        ),
        row("a fast mode", Refused(1), messages(",\"speed\":\"fast\"")),
        row(
            "a model without a price",
            Refused(1),
            call("/v1/messages", "no-such-model", ",\"max_tokens\":9"),
        ),
        row(
            "several choices in each of many calls",
            Counted(1),
            format!(
                "for i in 1 2 3 4 5 6 7 8; do\n{} done\nwait",
                call("/v1/chat/completions", "gpt-5", ",\"n\":8,\"messages\":[]")
                    .replace("}'\n", "}' &\n")
            ),
        ),
    ]
}

/// Streams that are left before their usage.
fn left_early() -> Vec<Row> {
    let leave = messages(",\"stream\":true").replace("}'\n", "}' --max-time 0.3");
    vec![
        row(
            "a stream that is left early",
            Counted(1),
            format!("{leave}\n"),
        ),
        row(
            "many streams that are left early",
            Counted(1),
            format!("for i in 1 2 3 4 5 6 7 8 9 10; do {leave} & done\nwait\n"),
        ),
        row(
            "a stream without its usage",
            Counted(1),
            call(
                "/v1/chat/completions",
                "gpt-5",
                ",\"messages\":[],\"stream\":true,\"stream_options\":{\"include_usage\":false}",
            ),
        ),
    ]
}

/// Other paths of the provider.
fn paths() -> Vec<Row> {
    let get = |path: &str| format!("ask '{path}' '' -X GET\n");
    let spellings = [
        "/v1/models/../files",
        "/v1/models/%2e%2e/files",
        "/v1/models/..%2ffiles",
        "/v1/messages/../files",
        "//v1//files",
        "/v1beta/files",
        "/v1beta/models/../files",
        "/v1/files?x=/v1/messages",
        "/v1/models/..;/files",
        "/v1/organizations/api_keys",
    ];
    let all: String = spellings.map(get).concat();
    vec![
        row("other paths of the provider", Unknown, all),
        row(
            "another method",
            Unknown,
            "ask /v1/messages '{\"row\":\"ROW\"}' -X PUT\nask /v1/messages '{\"row\":\"ROW\"}' -X DELETE\n",
        ),
        row(
            "the provider's address in the request line",
            Unknown,
            "ask '' '{\"row\":\"ROW\"}' --request-target http://provider.invalid/v1/files\n",
        ),
    ]
}

/// Tools that run at the provider.
fn tools() -> Vec<Row> {
    let with = |more: &str| messages(&format!(",{more}"));
    vec![
        row(
            "a search of the provider",
            Refused(1),
            with("\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]"),
        ),
        row(
            "a search between tools of the client",
            Refused(1),
            with(
                "\"tools\":[{\"name\":\"a\",\"input_schema\":{}},{\"type\":\"web_fetch_20250910\",\"name\":\"f\"}]",
            ),
        ),
        row(
            "an image at an address",
            Refused(1),
            call(
                "/v1/messages",
                "claude-sonnet-4-5",
                ",\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://x.invalid\"}}]}]",
            ),
        ),
        row(
            "a file at an address",
            Refused(1),
            call(
                "/v1/responses",
                "gpt-5",
                ",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_file\",\"file_url\":\"https://x.invalid\"}]}]",
            ),
        ),
        row(
            "a stored prompt with tools",
            Refused(1),
            call("/v1/responses", "gpt-5", ",\"prompt\":{\"id\":\"pmpt_1\"}"),
        ),
        row(
            "a remote MCP server",
            Refused(1),
            with(
                "\"mcp_servers\":[{\"type\":\"url\",\"url\":\"https://x.invalid\",\"name\":\"x\"}]",
            ),
        ),
        row(
            "a remote MCP server as a tool",
            Refused(1),
            call(
                "/v1/responses",
                "gpt-5",
                ",\"input\":\"x\",\"tools\":[{\"type\":\"mcp\",\"server_label\":\"x\",\"server_url\":\"https://x.invalid\"}]",
            ),
        ),
        row(
            "a search of Google",
            Refused(1),
            "ask /v1beta/models/gemini-2.5-pro:generateContent '{\"contents\":[{\"parts\":[{\"text\":\"ROW\"}]}],\"tools\":[{\"google_search\":{}}]}'\n",
        ),
    ]
}

/// All rows, for the list of attacks.
pub fn names() -> Vec<&'static str> {
    let all = [unpriced(), left_early(), paths(), tools()];
    all.iter().flatten().map(|row| row.name).collect()
}

fn provider() -> ScriptedModel {
    let usage = Usage {
        input: 1000,
        output: 20_000,
        ..Usage::default()
    };
    let answer = Answer::text("hello").usage(usage).pace_ms(200).forever();
    ScriptedModel::start_blocking(Script::new([answer])).unwrap()
}

/// Run each line as an agent of one suite with the gateway.
fn run(
    context: &TestContext,
    provider: &ScriptedModel,
    lines: &[String],
    gateway: &Value,
) -> Output {
    context.repo().commit("base", &[("README", "x\n")]);
    let agent = |(number, line): (usize, &String)| {
        let line = line.replace("ROW", &format!("row-{number}."));
        // `${` would be a variable of the suite.
        let line = format!("{ASK}{line}").replace("${", "$${");
        json!({"name": format!("row-{number}"), "type": "command", "config": {"command": ["bash", "-ec", line]}})
    };
    let agents: Vec<Value> = lines.iter().enumerate().map(agent).collect();
    let case = json!({
        "name": "attacked", "description": "a task", "repo": context.repo().path(), "timeout": 60_000,
        "agent": {"type": "claude-code", "config": {"prompt": "attack"}}, "evaluators": ["git-diff"],
    });
    context.testcase(&case.to_string());
    let suite = json!({
        "agents": agents, "tasks": [{"testcase": "cases/testcase.yaml"}], "parallel": 4, "gateway": gateway,
    });
    let path = context.root().join("suite.yaml");
    fs_err::write(&path, suite.to_string()).unwrap();
    let url = provider.url();
    context
        .proctor(["run", path.as_str()])
        .model(provider)
        .env("OPENAI_API_KEY", "sk-fake")
        .env("OPENAI_BASE_URL", format!("{url}/v1"))
        .env("GEMINI_API_KEY", "g-fake")
        .env("GOOGLE_GEMINI_BASE_URL", &url)
        .run()
}

#[track_caller]
fn check(rows: &[Row]) {
    let (context, provider) = (context(), provider());
    let lines: Vec<String> = rows.iter().map(|row| row.line.clone()).collect();
    let gateway = json!({"budget_usd": 0.05, "server_tools": "refuse"});
    let output = run(&context, &provider, &lines, &gateway);
    let requests = provider.requests();
    let wrong: Vec<String> = rows
        .iter()
        .enumerate()
        .filter_map(|(number, row)| {
            row.problem(number, &requests, &crate::table::record(&context, number))
        })
        .collect();
    assert!(wrong.is_empty(), "{}\n{output}", wrong.join("\n"));
    // Nothing else reached the provider.
    let is_known = |request: &RecordedRequest| request.body.to_string().contains("row-");
    let unknown: Vec<_> = requests
        .iter()
        .filter(|request| !is_known(request))
        .collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
}

impl Row {
    /// How the account differs from what it must be.
    fn problem(
        &self,
        number: usize,
        requests: &[RecordedRequest],
        record: &Value,
    ) -> Option<String> {
        let marker = format!("row-{number}.");
        let of_row = |request: &&RecordedRequest| request.body.to_string().contains(&marker);
        let reached = requests.iter().filter(of_row).count();
        let account = &record["gateway"];
        let number = |name: &str| account[name].as_u64().unwrap_or(0);
        let cost = account["cost_usd"]
            .as_f64()
            .or(account["cost_at_most_usd"].as_f64());
        let is_right = match self.expect {
            Unknown => reached == 0 && number("calls") == 0,
            Refused(count) => reached == 0 && number("calls_refused") == count,
            Counted(count) => {
                let known = cost.is_some_and(|cost| cost >= COST * 0.2);
                reached == count && number("calls") >= count as u64 && known
            }
        };
        let (name, expect) = (self.name, self.expect);
        (!is_right).then(|| format!("{name}: expected {expect:?}, reached {reached}: {account:#}"))
    }
}

#[test]
fn calls_without_a_price_or_usage() {
    check(&unpriced());
}

#[test]
fn streams_that_are_left_early() {
    check(&left_early());
}

#[test]
fn paths_of_the_provider() {
    check(&paths());
}

#[test]
fn tools_of_the_provider() {
    check(&tools());
}

/// One trial holds all connections that its key can have, while another one asks.
#[test]
fn one_key_does_not_starve_another() {
    let (context, provider) = (context(), provider());
    let flags = context.root().join("flags");
    fs_err::create_dir(&flags).unwrap();
    let hold = format!(
        r#"url=${{ANTHROPIC_BASE_URL#http://}}
ulimit -n 1024 || true
for i in $(seq 400); do
  fd=$((i + 20))
  eval "exec $fd<>/dev/tcp/${{url%:*}}/${{url#*:}}" || break
  printf 'POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: %s\r\ncontent-length: 9000000\r\n\r\n{{' "$ANTHROPIC_API_KEY" >&$fd || break
done
touch {flags}/held
for i in $(seq 300); do test -e {flags}/answered && exit 0; sleep 0.1; done
exit 1"#
    );
    let ask = format!(
        "for i in $(seq 300); do test -e {flags}/held && break; sleep 0.1; done\n{}test -s answer\ntouch {flags}/answered\n",
        messages("").replace("}'\n", "}' -D answer --max-time 20\n")
    );
    let output = run(&context, &provider, &[hold, ask], &json!({}));
    output.assert_code(0);
    let record = crate::table::record(&context, 1);
    assert_eq!(record["gateway"]["calls"], 1, "{record:#}");
    assert_eq!(record["gateway"]["output_tokens"], 20_000, "{record:#}");
}
