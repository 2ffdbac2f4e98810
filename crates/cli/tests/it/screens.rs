//! What users see when nothing is wrong: help, lists, what a run reports, progress.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{
    VERSION, claude_case, context, install_claude, print, proctor_run, run, session, shown, with,
    write,
};

/// Runs `proctor` with these words and returns what it printed.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let output = context().proctor(args.iter().copied()).run();
    output.assert_code(0);
    let lines: Vec<&str> = output.stdout.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[test]
fn help_tells_what_there_is() {
    assert_snapshot!(printed(&["--help"]), @"
    Run coding agents on tasks, watch them, and judge what they did

    Usage: proctor [OPTIONS] <COMMAND>

    Commands:
      run          Run test cases or a suite: agents work on repos, evaluators judge the results
      eval         Judge work that is done already, in a directory that is not touched
      validate     Check test cases and suites without running anything
      init         Write a test case to start from
      list         List what a suite has, the kinds of agents and evaluators, or the runs on record
      doctor       Tell what is installed, which version, and whether it is logged in
      schema       Print a JSON Schema, for editors and for checking what Proctor writes
      status       Tell how far a run of a suite is, and what came of it
      report       Report what runs came to: agents with intervals, tasks, and what cannot be told apart
      compare      Compare two runs, agents or baselines, and fail when the second is certainly worse
      baseline     Keep the figures of a run to compare later ones with
      watch        Watch a run from another terminal, while it runs or afterwards
      replay       Play a trial's session back
      rescore      Judge the trials of runs again, from their records; no agent is run
      clean        Remove workspaces, runs, and what dead runs left behind
      trial        Run one trial of a suite, as the jobs of a cluster do
      task         Work with tasks
      log          Work with agents' logs
      image        Work with images for trials in containers
      gateway      Run the gateway alone: keys, budgets, metering, recordings and scripts for any agent
      prices       Show what models cost, since when, and according to whom
      sdk-server   Serve one task to a Claude Code that connects with `--sdk-url`, for adapter scripts
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
          --config <FILE>  The suite or test case; may also stand after the command
      -h, --help           Print help
      -V, --version        Print version

    Exit codes: 0 all passed · 1 something failed · 2 usage or config error · 3 infrastructure, nothing
    to judge · 130 interrupted
    ");
    assert_snapshot!(printed(&["log", "normalize", "-h"]), @"
    Turn an agent's raw output into youbencha-log.json on standard output

    Usage: proctor log normalize [OPTIONS] <FILE>

    Arguments:
      <FILE>  The output: stream-json, a terminal capture, plain text or a session file; `-` is standard
              input

    Options:
          --agent <AGENT>          The agent whose output it is [default: claude-code]
          --exit-code <EXIT_CODE>  The agent's exit code, if it is known
          --format <FORMAT>        What to write [default: log] [possible values: log, atif]
      -h, --help                   Print help (see more with '--help')
    ");
    assert_snapshot!(printed(&["schema", "-h"]), @"
    Print a JSON Schema, for editors and for checking what Proctor writes

    Usage: proctor schema [NAME]

    Arguments:
      [NAME]  Which schema to print [default: suite] [possible values: suite, eval, log, results,
              record, trial]

    Options:
      -h, --help  Print help (see more with '--help')
    ");
}

#[test]
fn help_tells_how_to_run() {
    assert_snapshot!(printed(&["run", "--help"]), @"
    Run test cases or a suite: agents work on repos, evaluators judge the results

    Usage: proctor run [OPTIONS] <PATH>...
           proctor run [OPTIONS] -c <FILE>
           proctor run [OPTIONS] [SUITE]

    Arguments:
      [PATH]...
              Test cases (YAML or JSON), folders of test cases or tasks, or one suite; `proctor.yaml` or
              `thunderdome.yaml` when left out

    Options:
      -c, --config <FILE>
              A test case or suite; the same as PATH

          --json
              Print one JSON object on standard output when all is done

          --delete-workspace
              Remove the workspaces of finished trials; the artifacts stay

          --progress <PROGRESS>
              How to show progress on standard error

              Possible values:
              - auto:  Lines on a terminal, nothing in CI
              - plain: A line for each thing that happens
              - quiet: Nothing

              [default: auto]

          --tui
              Show the live view (the default on a terminal with more than one trial)

          --no-tui
              Show lines instead of the live view

      -h, --help
              Print help (see a summary with '-h')

    Models:
          --model-script <FILE>
              Answer the agents' calls from this file: no model is asked, and nothing is paid

          --record-models <DIR>
              Record each trial's calls to models below this folder

          --replay-models <DIR>
              Answer the agents' calls from what was recorded below this folder

          --on-miss <HOW>
              What becomes of a call that was not recorded

              Possible values:
              - strict:       It is refused
              - fall-through: It goes to the provider

          --max-cost <USD>
              What all trials may spend together, in dollars

          --prices <FILE>
              A file with prices that win over all others; `proctor prices` shows them

    Selection and execution:
          --agent <NAME>
              Only this agent of a suite; for test cases and folders of tasks, the kind of agent;
              repeatable

          --task <NAME>
              Only this task, by its name, its repo or the last part of that; repeatable

          --category <CATEGORY>
              Only tasks of this category, or of all below it with `x/*`; repeatable

          --trials <N>
              How often each agent does each task

          --parallel <N>
              How many trials run at the same time

          --sandbox <KIND>
              Where trials execute; overrides the suite

              Possible values:
              - local:  In folders and process trees of this machine
              - docker: In containers

          --network <NETWORK>
              Network of trials in containers; overrides suite and tasks

              Possible values:
              - gateway: The gateway and nothing else
              - open:    Everything
              - none:    Nothing

          --seed <N>
              The seed of the order of the trials

          --retry-infra <N>
              Retries of a trial after an infrastructure failure

              [default: 0]

          --resume [<RUN>]
              Continue an earlier run; the newest one unless RUN is given

          --on-interrupt <HOW>
              Whether a cluster's jobs are cancelled at Ctrl-C; asked on a terminal, else they keep
              running

              Possible values:
              - detach: They go on; `--resume` takes the run up again
              - cancel: They are cancelled

          --dry-run
              Print the trials in their order and run nothing
    ");
}

#[test]
fn help_of_the_gateway_and_of_prices_tells_what_there_is() {
    assert_snapshot!(printed(&["gateway", "-h"]), @"
    Run the gateway alone: keys, budgets, metering, recordings and scripts for any agent

    Usage: proctor gateway [OPTIONS]

    Options:
          --listen <ADDRESS>  Where to listen [default: 127.0.0.1:4000]
      -c, --config <FILE>     A file with the keys of a suite's `gateway`, and `keys` with some of them
                              for each key's name
          --env-file <FILE>   A file of NAME=value lines with real keys; the environment wins
          --key-name <NAME>   Make a key of this name; may be given more than once; `default` when there
                              is none
          --keys-file <FILE>  Write the keys to this file, which only you can read, instead of showing
                              them
          --log <FILE>        Add a line of JSON for every call to this file
          --json              Print one JSON object at the start, with the keys, and one at the end
      -h, --help              Print help (see more with '--help')

    Each key:
          --budget-usd <USD>     The most dollars
          --budget-tokens <N>    The most tokens
          --budget-calls <N>     The most calls
          --allow-model <MODEL>  Only this model, `*` at the end for any ending; may be given more than
                                 once
          --rename <FROM=TO>     Send another model; may be given more than once
          --temperature <T>      The temperature of every request
          --max-tokens <N>       The longest answer, in tokens
          --retries <N>          How often to ask a provider again when it fails
          --faults <FAULTS>      Put faults in on purpose, such as '{rate: 0.2, seed: 7, status: [429,
                                 529]}'

    Models:
          --model-script <FILE>  Answer the agents' calls from this file: no model is asked, and nothing
                                 is paid
          --record-models <DIR>  Record each trial's calls to models below this folder
          --replay-models <DIR>  Answer the agents' calls from what was recorded below this folder
          --on-miss <HOW>        What becomes of a call that was not recorded [possible values: strict,
                                 fall-through]
          --max-cost <USD>       What all trials may spend together, in dollars
          --prices <FILE>        A file with prices that win over all others; `proctor prices` shows
                                 them

    Real keys come from the environment: ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY
    (ANTHROPIC_BASE_URL and the like say where the providers are). The status page is at /, metrics for
    Prometheus at /metrics. Ctrl-C ends it with a summary.
    ");
    assert_snapshot!(printed(&["prices", "-h"]), @"
    Show what models cost, since when, and according to whom

    Usage: proctor prices [OPTIONS] [MODEL]

    Arguments:
      [MODEL]  Only this model, and whose word its price is

    Options:
      -c, --config <FILE>  A suite or test case whose `gateway.prices` counts too
          --prices <FILE>  A file with prices that win over all others
          --json           Print JSON
      -h, --help           Print help
    ");
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
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
    error: there is no test case in cases
    hint: test cases end in .yaml, .yml or .json, and a task's folder has a task.toml; `proctor init` and `proctor task new` write one
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
      build           the same for a build
      typecheck       the same for a type checker
      coverage        measures how much of the code the tests reach
      file            checks a file that the agent left
      output          checks the last thing that the agent said
      trajectory      checks turns, tokens, cost, time, tools and commands
      git-diff        measures the change and checks its size and spread
      command         runs a command in a clean copy of the result; its exit code decides
      expected-diff   compares the change with that of the reference solution
      agentic-judge   an agent or a model judges by criteria, each of which has to hold
      rubric          an agent or a model judges by weighted criteria with anchors
    ");
    let list: Value = serde_json::from_str(&printed(&["list", "--json"])).unwrap();
    assert_eq!(list["agents"][0]["name"], "claude-code");
}

/// What `init` writes is in order, and never written over something.
#[test]
fn init_writes_a_test_case_that_is_in_order() {
    let context = context();
    let output = context.proctor(["init"]).run();
    output.assert_code(0);
    assert_snapshot!(output.stdout, @"wrote testcase.yaml; run it with: proctor run -c testcase.yaml");
    context
        .proctor(["validate", "-c", "testcase.yaml"])
        .run()
        .assert_code(0);
    fs_err::write(context.root().join("testcase.yaml"), "mine").unwrap();
    let output = context.proctor(["init"]).run();
    output.assert_code(2);
    assert_snapshot!(output.stderr, @"
    error: testcase.yaml already exists
    hint: use --force to write over it
    ");
    assert_eq!(
        fs_err::read_to_string(context.root().join("testcase.yaml")).unwrap(),
        "mine"
    );
    context.proctor(["init", "--force"]).run().assert_code(0);
}

#[test]
fn doctor_tells_what_is_installed_and_what_to_do() {
    let context = context();
    let doctor = || {
        let output = context.proctor(["doctor"]).run();
        let text = shown(&context, &output.assert_code(0).stdout);
        let (git, rest) = text.split_once('\n').unwrap();
        assert!(git.starts_with("git             installed"), "{git}");
        assert!(git.ends_with("/git"), "{git}");
        let (claude, others) = rest.split_once("\naider ").unwrap();
        assert!(others.contains("pip install aider-chat"), "{others}");
        format!("[GIT]\n{claude}")
    };
    assert_snapshot!(doctor(), @"
    [GIT]
    claude-code     not installed
                    hint: install it with: npm install -g @anthropic-ai/claude-code
    ");
    install_claude(&context, &[]);
    assert!(doctor().contains(VERSION));
    assert_snapshot!(doctor(), @"
    [GIT]
    claude-code     ready          2.1.197     [ROOT]/bin/claude
    ");
}

#[test]
fn doctor_says_which_agent_auto_is_and_why_not_the_others() {
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
    (the order of .youbencharc):
      gemini-cli      not installed
      codex           chosen: the first in the order that is installed
    ");
    let output = context.proctor(["doctor", "--json"]).run();
    let told: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let claude = told
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "claude-code");
    assert_eq!(claude.unwrap()["auto"], "not in the order");
    fs_err::write(&settings, "agent: {order: [codex, codecs]}\n").unwrap();
    let output = context.proctor(["doctor"]).run();
    output.assert_code(2);
    assert!(
        output.stderr.contains("no agent is called `codecs`"),
        "{output}"
    );
}

#[test]
fn auto_takes_the_first_of_its_order_that_is_installed() {
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
        output
            .stderr
            .contains("none of these agents is installed: codex"),
        "{output}"
    );
    let named = with(&claude_case(), &json!({"agent": {"order": ["codex"]}}));
    let output = run(&context, &named);
    output.assert_code(2);
    assert!(
        output.stderr.contains("`order` is for `type: auto`"),
        "{output}"
    );
}

/// What a run looks like to the one who started it.
#[test]
fn a_run_reports_its_result() {
    let context = context();
    install_claude(&context, &session(&[write("new.txt", "a\n")]));
    let output = run(&context, &claude_case());
    output.assert_code(0);
    assert_eq!(output.stderr, "", "quiet where nobody looks");
    let text = shown(&context, &output.stdout);
    let text = text.replace(context.only_run_dir().file_name().unwrap(), "[RUN]");
    insta::with_settings!({filters => vec![(r"\d+(\.\d+)? (s|ms)\b", "[TIME]")]}, {
        assert_snapshot!(text, @"
        PASSED case
          agent       claude-code · 2.1.197 · claude-sonnet-4-5-20250929
          outcome     completed after [TIME]
          usage       10 in · 40 out · 100 cache read · 30 cache written · $0.0153 (the agent's own account)
          change      1 file, +1 −0 lines
          git-diff    ✓ 1 file changed (+1/-0 lines)
          record      [ROOT]/.proctor/[RUN]/artifacts/record.json
        ");
    });
}

/// Progress in plain lines: what the agent does now, tool and target.
#[test]
fn progress_tells_what_the_agent_does() {
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
        "no escape of the agent reaches the terminal"
    );
}
