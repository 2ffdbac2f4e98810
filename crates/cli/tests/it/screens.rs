//! Output without errors: help, lists, the report of a run, progress.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{
    VERSION, claude_case, context, install_claude, print, proctor_run, run, session, shown, with,
    write,
};

/// Runs `proctor` with these arguments and returns its output.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = context().proctor(args.iter().copied()).run();
    output.assert_code(0);
    let lines: Vec<&str> = output.stdout.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[test]
fn help_lists_commands() {
    assert_snapshot!(printed(&["--help"]), @"
    Run coding agents on tasks, observe them and judge their work

    Usage: proctor [OPTIONS] <COMMAND>

    Commands:
      run               Run agents on test cases or a suite, and judge the results
      ab                Compare two variants of an agent: is B better than A?
      experiment        Run the experiment of a suite: are the candidates better than the baseline?
      ablate            Find out which parts of a file, skills or servers help: remove each of them
      bisect            Find the version since which fewer trials pass
      trend             Watch the scores of nightly runs, with an alarm if they drop
      eval              Judge existing work in a directory, without changing it
      validate          Check test cases and suites without running anything
      init              Write a first suite and its task, for the detected agent and tests
      list              List the agents and tasks of a suite, the types of agents and evaluators, or
                        runs
      doctor            Show installed agents and tools, their versions and login status
      schema            Print the JSON Schema of a configuration file or output file
      install-agents    Write the definition of the built-in judge for Copilot and Claude Code
      suggest-testcase  Start an agent that suggests a test case for finished work
      config            Show and change the project settings (`.youbencharc`)
      status            Show the progress and results of a run
      show              Show a trial: verdicts, failing tests with their output, prompt and diff
      report            Summarize runs: scores with confidence intervals, per agent and per task
      compare           Compare two runs, agents or baselines, and fail on significant regressions
      gate              Apply rules to a run, such as `passed >= 80%`: pass, fail or undecided
      baseline          Save the results of a run to compare later runs with
      watch             Watch a run from another terminal, during or after it
      view              Show runs in the browser: progress, sessions, changes, search
      replay            Play back a trial's session
      rescore           Judge the trials of runs again from their records, without running agents
      clean             Remove workspaces, runs and leftovers of killed runs
      trial             Run one trial of a suite (used by cluster jobs)
      task              Work with tasks
      log               Work with agents' logs
      image             Work with container images for trials
      gateway           Run the model gateway on its own: keys, budgets, metering, recordings and
                        scripts
      prices            Show the prices of models, with date and source
      sdk-server        Serve one task to a Claude Code started with `--sdk-url` (used by adapter
                        scripts)
      self              Work with this installation of Proctor
      completions       Print a shell completion script
      help              Print this message or the help of the given subcommand(s)

    Options:
          --config <FILE>  Suite or test case; can also be given after the command
      -h, --help           Print help
      -V, --version        Print version

    Exit codes: 0 all passed · 1 a trial failed · 2 usage or configuration error · 3 infrastructure
    failure · 4 undecided · 130 interrupted
    ");
    assert_snapshot!(printed(&["log", "normalize", "-h"]), @"
    Convert an agent's raw output to youbencha-log.json on standard output

    Usage: proctor log normalize [OPTIONS] <FILE>

    Arguments:
      <FILE>  Output file: stream-json, terminal capture, plain text or session file; `-` is standard
              input

    Options:
          --agent <AGENT>          Agent that wrote the output [default: claude-code]
          --exit-code <EXIT_CODE>  Exit code of the agent, if known
          --format <FORMAT>        Output format [default: log] [possible values: log, atif]
      -h, --help                   Print help (see more with '--help')
    ");
    assert_snapshot!(printed(&["schema", "-h"]), @"
    Print the JSON Schema of a configuration file or output file

    Usage: proctor schema [NAME]

    Arguments:
      [NAME]  Schema to print [default: suite] [possible values: suite, eval, log, results, record,
              trial]

    Options:
      -h, --help  Print help (see more with '--help')
    ");
}

#[test]
fn help_of_run() {
    assert_snapshot!(printed(&["run", "--help"]), @"
    Run agents on test cases or a suite, and judge the results

    Usage: proctor run [OPTIONS] <PATH>...
           proctor run [OPTIONS] -c <FILE>
           proctor run [OPTIONS] [SUITE]

    Arguments:
      [PATH]...
              Test cases (YAML or JSON), directories of test cases or tasks, `git+URL@REF#DIRECTORY`, or
              one suite [default: `proctor.yaml` or `thunderdome.yaml`]

    Options:
      -c, --config <FILE>
              Test case or suite; same as PATH

          --json
              Print the result as one JSON object on standard output

          --keep-workspace <WHICH>
              Which workspaces of finished trials are kept whole; the diff is always kept

              Possible values:
              - all:    Every workspace; the default of test cases
              - failed: Those of trials that did not pass, and those that the diff cannot restore
              - needed: Those that the diff cannot restore; the default of suites
              - none:   None

          --delete-workspace
              Keep no workspace: the same as --keep-workspace none

          --progress <PROGRESS>
              How to show progress on standard error

              Possible values:
              - auto:  Lines on a terminal; elsewhere and in CI, one line every 30 seconds
              - plain: One line for each event
              - quiet: No progress

              [default: auto]

          --tui
              Show the live view (default on a terminal with more than one trial)

          --no-tui
              Print lines instead of the live view

      -h, --help
              Print help (see a summary with '-h')

    Models:
          --model-script <FILE>
              Answer model calls from this script, without a real model or cost

          --record-models <DIR>
              Record the model calls of each trial in this directory

          --replay-models <DIR>
              Answer model calls from the recordings in this directory

          --on-miss <HOW>
              How to handle calls that were not recorded

              Possible values:
              - strict:       Refuse the call
              - fall-through: Forward the call to the provider

          --max-cost <USD>
              Budget for all trials together, in US dollars

          --prices <FILE>
              Price file that overrides all other prices; see `proctor prices`

    Selection and execution:
          --agent <NAME>
              Only this agent of a suite; for test cases and task directories, the type of agent;
              repeatable

          --task <NAME>
              Only this task, by name, repo or last part of the repo; repeatable

          --category <CATEGORY>
              Only tasks of this category; `x/*` selects its subcategories; repeatable

          --include <PATTERN>
              Only tasks whose name matches this pattern; repeatable

          --exclude <PATTERN>
              No tasks whose name matches this pattern; repeatable

          --limit <N>
              At most this number of tasks: the first ones, or a sample with --sample-seed

          --sample-seed <N>
              Seed of a random sample of --limit tasks

          --trials <N>
              Number of trials of each agent on each task

          --parallel <N>
              Number of trials that run in parallel

          --sandbox <KIND>
              Where trials run; overrides the suite

              Possible values:
              - local:  In directories and process trees of this machine
              - docker: In containers

          --image <NAME>
              Image of trials in containers whose agent and task name none; overrides the suite

          --network <NETWORK>
              Network of trials in containers; overrides suite and tasks

              Possible values:
              - gateway: Only the gateway
              - open:    Unrestricted
              - none:    No network

          --seed <N>
              Seed for the order of the trials

          --label <KEY=VALUE>
              Label of the run, to select it later: `proctor trend --label`; repeatable

          --retry-infra <N>
              Number of retries of a trial after an infrastructure failure

              [default: 0]

          --resume [<RUN>]
              Resume an earlier run; the latest one unless RUN is given

          --accept-changes
              With --resume, run the remaining trials with changed definitions, listed apart in reports

          --on-interrupt <HOW>
              On Ctrl-C, keep or cancel the jobs on the cluster [default: prompt on a terminal, else
              detach]

              Possible values:
              - detach: Keep jobs running; `--resume` continues the run
              - cancel: Cancel jobs

          --dry-run
              Print the trials in order, and run nothing

    Gate and reports:
          --gate
              Apply the rules of the suite to the run; they decide the exit code

          --report <FILE>
              Write a report in the format of the extension: .xml (JUnit), .md, .html, .json, .csv or
              .txt; repeatable

          --rule <RULE>
              Rule instead of those of the suite: 'passed >= 80%', 'every task: pass^3'; repeatable

          --baseline <NAME>
              Saved baseline or run to compare with [default: the suite's]

          --undecided <HOW>
              Count undecided rules as passed or failed [default: exit with 4]

              Possible values:
              - pass: As if they held
              - fail: As if they were broken

          --baselines <DIR>
              Directory of saved baselines

              [default: baselines]
    ");
}

#[test]
fn help_of_gateway_and_prices() {
    assert_snapshot!(printed(&["gateway", "-h"]), @"
    Run the model gateway on its own: keys, budgets, metering, recordings and scripts

    Usage: proctor gateway [OPTIONS]

    Options:
          --listen <ADDRESS>  Address to listen on [default: 127.0.0.1:4000]
      -c, --config <FILE>     File with the settings of a suite's `gateway` section, and `keys` with
                              overrides per key name
          --env-file <FILE>   File of NAME=value lines with API keys; the environment takes precedence
          --key-name <NAME>   Create a key with this name; repeatable [default: `default`]
          --keys-file <FILE>  Write the keys to this private file instead of printing them
          --log <FILE>        Append one line of JSON per call to this file
          --json              Print one JSON object with the keys at the start, and one at the end
      -h, --help              Print help (see more with '--help')

    Each key:
          --budget-usd <USD>     Budget in US dollars
          --budget-tokens <N>    Budget in tokens
          --budget-calls <N>     Maximum number of calls
          --allow-model <MODEL>  Allow only this model; a trailing `*` matches any suffix; repeatable
          --rename <FROM=TO>     Replace a model in requests; repeatable
          --temperature <T>      Temperature of all requests
          --max-tokens <N>       Maximum length of a response, in tokens
          --retries <N>          Number of retries after a provider error
          --faults <FAULTS>      Inject faults, such as '{rate: 0.2, seed: 7, status: [429, 529]}'

    Models:
          --model-script <FILE>  Answer model calls from this script, without a real model or cost
          --record-models <DIR>  Record the model calls of each trial in this directory
          --replay-models <DIR>  Answer model calls from the recordings in this directory
          --on-miss <HOW>        How to handle calls that were not recorded [possible values: strict,
                                 fall-through]
          --max-cost <USD>       Budget for all trials together, in US dollars
          --prices <FILE>        Price file that overrides all other prices; see `proctor prices`

    API keys are read from ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY; ANTHROPIC_BASE_URL etc.
    set the upstream URLs. The status page is at /, Prometheus metrics at /metrics. Ctrl-C stops the
    gateway and prints a summary.
    ");
    assert_snapshot!(printed(&["prices", "-h"]), @"
    Show the prices of models, with date and source

    Usage: proctor prices [OPTIONS] [MODEL]

    Arguments:
      [MODEL]  Only this model, with the source of its price

    Options:
      -c, --config <FILE>  Suite or test case whose `gateway.prices` apply as well
          --prices <FILE>  Price file that overrides all other prices
          --json           Print JSON
      -h, --help           Print help
    ");
}

#[test]
fn wrong_command_line_is_a_usage_error() {
    let context = context();
    for args in [
        &["run"] as &[&str],
        &["rnu"],
        &["run", "--jsn", "x"],
        &["schema", "nope"],
    ] {
        let output = context.proctor(args.iter().copied()).run();
        output.assert_code(2);
        assert!(output.stderr.contains("error:"), "{output}");
    }
    let output = context.proctor(["run", "cases"]).run();
    output.assert_code(2);
    assert_snapshot!(output.stderr, @"
    error: no test cases found in cases
    hint: test cases end in .yaml, .yml or .json, and task directories contain a task.toml; create one with `proctor init` or `proctor task new`
    ");
}

#[test]
fn list_shows_agents_and_evaluators() {
    assert_snapshot!(printed(&["list"]), @"
    Agents:
      claude-code     Claude Code, Anthropic's CLI
      aider           aider: edits from the model's text, no tools
      codex           Codex, OpenAI's CLI
      copilot-cli     GitHub Copilot CLI
      gemini-cli      Gemini CLI, Google's
      mini-swe-agent  mini-swe-agent: a model and a shell
      opencode        OpenCode, with models of any maker
      qwen-code       Qwen Code, Alibaba's CLI
      command         any program, with the prompt on its standard input
      adapter         a shell script that drives an agent, as in Thunderdome
      oracle          applies the reference solution: the ceiling of a task
      null            does nothing: the floor of a task
    Evaluators:
      tests           runs the tests in a clean copy and reads the runner's report, test by test
      lint            runs a linter; only findings that the base does not have count
      build           runs a build; only new findings count
      typecheck       runs a type checker; only new findings count
      coverage        measures the code coverage of the tests
      file            checks a file of the result
      output          checks the agent's last message
      trajectory      checks turns, tokens, cost, time, tools and commands
      git-diff        measures the change and checks its size and distribution
      command         runs a command in a clean copy of the result; its exit code decides
      expected-diff   compares the change with that of the reference solution
      agentic-judge   an agent or a model judges by criteria that must all hold
      rubric          an agent or a model judges by weighted criteria with anchors
    ");
    let list: Value = serde_json::from_str(&printed(&["list", "--json"])).unwrap();
    assert_eq!(list["agents"][0]["name"], "claude-code");
}

/// `init` writes a valid suite and does not overwrite files.
#[test]
fn init_writes_a_valid_suite() {
    let context = context();
    let output = context.proctor(["init"]).run();
    output.assert_code(0);
    assert_snapshot!(output.stdout, @"
    wrote proctor.yaml, a suite, and testcase.yaml, its task
    agent: claude-code (not installed; see `proctor doctor`)
    tests: none detected; see --test-cmd
    run it with: proctor run
    ");
    context.proctor(["validate"]).run().assert_code(0);
    fs_err::write(context.root().join("testcase.yaml"), "mine").unwrap();
    let output = context.proctor(["init"]).run();
    output.assert_code(2);
    assert_snapshot!(output.stderr, @"
    error: testcase.yaml already exists
    hint: use --force to overwrite it
    ");
    assert_eq!(
        fs_err::read_to_string(context.root().join("testcase.yaml")).unwrap(),
        "mine"
    );
    context.proctor(["init", "--force"]).run().assert_code(0);
}

/// The first line names the schema for editors, relative to the file.
#[test]
fn init_writes_the_schema_for_editors_and_a_workflow() {
    let context = context();
    let output = context.proctor(["init", "cases/one.yaml", "--ci"]).run();
    output.assert_code(0);
    let case = fs_err::read_to_string(context.root().join("cases/one.yaml")).unwrap();
    let first = "# yaml-language-server: $schema=../.proctor/schema.json\n";
    assert!(case.starts_with(first), "{case}");
    let schema = fs_err::read(context.root().join(".proctor/schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let published = context.proctor(["schema"]).run().stdout;
    assert_eq!(schema, serde_json::from_str::<Value>(&published).unwrap());
    let workflow = context.root().join(".github/workflows/proctor.yml");
    let workflow = fs_err::read_to_string(workflow).unwrap();
    assert!(workflow.starts_with("name: proctor\n"), "{workflow}");
    let output = context.proctor(["init", "two.yaml", "--ci"]).run();
    output.assert_code(2);
    assert!(!context.root().join("two.yaml").exists(), "{output}");
    // A suite that exists is kept.
    fs_err::remove_dir_all(context.root().join(".github")).unwrap();
    let suite = context.root().join("proctor.yaml");
    fs_err::write(&suite, "kept").unwrap();
    context.proctor(["init", "--ci"]).run().assert_code(0);
    assert_eq!(fs_err::read_to_string(suite).unwrap(), "kept");
    assert!(context.root().join(".github").exists());
    assert!(!context.root().join("testcase.yaml").exists());
}

#[test]
fn doctor_shows_installed_agents_and_hints() {
    let context = context();
    let doctor = |code| {
        let output = context.proctor(["doctor"]).run();
        let text = shown(&context, &output.assert_code(code).stdout);
        let (git, rest) = text.split_once('\n').unwrap();
        assert!(git.starts_with("git             installed"), "{git}");
        assert!(git.ends_with("/git"), "{git}");
        let (claude, others) = rest.split_once("\naider ").unwrap();
        assert!(others.contains("pip install aider-chat"), "{others}");
        (format!("[GIT]\n{claude}"), output.stderr)
    };
    let (missing, next) = doctor(3);
    assert_snapshot!(next, @"next: claude-code: install it with: npm install -g @anthropic-ai/claude-code");
    assert_snapshot!(missing, @"
    [GIT]
    claude-code     not installed
                    hint: install it with: npm install -g @anthropic-ai/claude-code
    ");
    install_claude(&context, &[]);
    let (ready, next) = doctor(0);
    assert!(ready.contains(VERSION));
    assert_eq!(next, "");
    assert_snapshot!(ready, @"
    [GIT]
    claude-code     ready          2.1.197     [ROOT]/bin/claude
    ");
}

#[test]
fn doctor_explains_which_agent_auto_selects() {
    let context = context();
    install_claude(&context, &[]);
    let auto = || {
        let output = context.proctor(["doctor"]).run();
        let text = output.assert_code(0).stdout.clone();
        text.split_once("\nagent type auto ").unwrap().1.to_owned()
    };
    let usual = auto();
    assert!(
        usual.contains("claude-code     chosen: the first"),
        "{usual}"
    );
    assert!(usual.contains("codex           not installed"), "{usual}");
    context.install_fake("codex", &json!([print("codex-cli 0.166.0\n")]));
    assert!(auto().contains("codex           comes after claude-code"));
    let settings = context.root().join(".youbencharc");
    fs_err::write(&settings, "agent: {order: [gemini-cli, codex]}\n").unwrap();
    assert_snapshot!(auto(), @"
    (order from .youbencharc):
      gemini-cli      not installed
      codex           chosen: the first in the order that is installed
    ");
    let output = context.proctor(["doctor", "--json"]).run();
    let found: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let claude = found
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "claude-code");
    assert_eq!(claude.unwrap()["auto"], "not in the order");
    fs_err::write(&settings, "agent: {order: [codex, codecs]}\n").unwrap();
    let output = context.proctor(["doctor"]).run();
    output.assert_code(2);
    assert!(output.stderr.contains("unknown agent `codecs`"), "{output}");
}

#[test]
fn auto_selects_first_installed_agent_of_its_order() {
    let context = context();
    install_claude(&context, &session(&[write("new.txt", "a\n")]));
    let auto = |order: serde_json::Value| {
        with(
            &claude_case(),
            &json!({"agent": {"type": "auto", "order": order}}),
        )
    };
    run(&context, &auto(json!(["codex", "claude-code"]))).assert_code(0);
    assert_eq!(context.record()["agent"]["type"], "claude-code");
    let output = run(&context, &auto(json!(["codex"])));
    output.assert_code(2);
    assert!(
        output.stderr.contains("no agent installed; tried: codex"),
        "{output}"
    );
    let named = with(&claude_case(), &json!({"agent": {"order": ["codex"]}}));
    let output = run(&context, &named);
    output.assert_code(2);
    assert!(
        output.stderr.contains("`order` requires `type: auto`"),
        "{output}"
    );
}

/// The report that `proctor run` prints.
#[test]
fn run_prints_its_result() {
    let context = context();
    install_claude(&context, &session(&[write("new.txt", "a\n")]));
    let output = run(&context, &claude_case());
    output.assert_code(0);
    assert_eq!(output.stderr, "", "no progress without a terminal");
    let text = shown(&context, &output.stdout);
    let text = text.replace(context.only_run_dir().file_name().unwrap(), "[RUN]");
    insta::with_settings!({filters => vec![(r"\d+(\.\d+)? (s|ms)\b", "[TIME]")]}, {
        assert_snapshot!(text, @"
        PASSED case
          agent       claude-code · 2.1.197 · claude-sonnet-4-5-20250929
          outcome     completed after [TIME]
          usage       10 in · 40 out · 100 cache read · 30 cache written · $0.0153 (reported by the agent)
          change      1 file, +1 −0 lines
          git-diff    ✓ 1 file changed (+1/-0 lines)
          record      [ROOT]/.proctor/[RUN]/artifacts/record.json
        ");
    });
}

/// Progress in plain lines: the agent's tool and its target.
#[test]
fn progress_shows_tool_and_target() {
    let context = context();
    let call = json!({"line": {"type": "assistant", "message": {
        "id": "m-1", "model": "m", "content": [{
            "type": "tool_use", "id": "t-1", "name": "Edit", "input": {"file_path": "src/\u{1b}[31mlib.rs"},
        }],
    }}});
    install_claude(&context, &session(&[call]));
    let program = proctor_run(&context, &claude_case());
    let output = program.arg("--progress").arg("plain").run();
    output.assert_code(0);
    assert!(output.stderr.contains("Edit"), "{output}");
    assert!(output.stderr.contains("lib.rs"), "{output}");
    assert!(
        !output.stderr.contains('\u{1b}'),
        "escape sequences of the agent are removed"
    );
}
