//! Tests for every platform: exits, limits, leaks, streams and helpers, with scripted programs.

use std::io::{BufRead, BufReader};
use std::process::{Command as Driver, Stdio};
use std::time::{Duration, Instant};

use proctor_process::quick::{QuickCommand, Source, output, pipeline};
use proctor_process::{Command, EndReason, Error, Event, Status, Stdin};

use crate::support::{Nest, PATIENCE, PROMPT, finish, player, program, run, spawn};

const WALL: Duration = Duration::from_millis(1500);

/// Time for scripted programs to start and act before a limit.
fn bounded(script: &str) -> Command {
    let mut command = player(script);
    command.limits.wall = Some(WALL);
    command
}

#[tokio::test]
async fn an_exit_code_is_reported_with_all_output() {
    let nest = Nest::new();
    let run = run(player(&nest.script("alive; out one; err two; exit 7"))).await;
    assert_eq!(run.report.exit.status, Some(Status::Code(7)));
    assert_eq!(run.report.exit.ended_by, None);
    assert_eq!((run.text(), &run.stderr[..]), ("one\n", &b"two\n"[..]));
    assert_eq!((run.report.stdout_bytes, run.report.stderr_bytes), (4, 4));
    assert_eq!(run.report.leaked, []);
    nest.assert_gone();
}

#[tokio::test]
async fn output_is_whole_when_its_reader_rests_after_the_end() {
    const COUNT: usize = 60_000;
    let mut process = spawn(player(&format!("zeros {COUNT}"))).await.unwrap();
    let mut read = 0;
    // Longer than a stream may stay open in silence; Windows hands out what a pipe holds in small pieces.
    for _ in 0..3 {
        let Event::Output { bytes, .. } = process.next().await else {
            break;
        };
        read += bytes.len();
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let rest = finish(process).await;
    assert_eq!(read + rest.stdout.len(), COUNT);
    assert_eq!(rest.report.stdout_bytes, COUNT as u64);
}

#[tokio::test]
async fn cpu_time_and_memory_are_counted() {
    let run = run(player("spin 50")).await;
    let usage = run.report.usage.unwrap();
    assert!(
        usage.cpu_user + usage.cpu_system > Duration::from_millis(10),
        "{usage:?}"
    );
    // Wine does not count it, and a reported amount is a real one.
    let untold = cfg!(windows) && usage.max_rss_bytes.is_none();
    assert!(untold || usage.max_rss_bytes > Some(500_000), "{usage:?}");
    assert!(run.report.duration > Duration::from_millis(10));
}

#[tokio::test]
async fn folder_arguments_and_variables_arrive_as_they_are() {
    let folder = tempfile::Builder::new()
        .prefix("with space ")
        .tempdir()
        .unwrap();
    let nasty = [
        "",
        "a b",
        "\"",
        "\\",
        "a\\\"b",
        "c:\\x y\\",
        "%PATH%",
        "$HOME",
        "*",
        "line\nbreak",
        "ünï→",
        "^&|<>()!",
    ];
    let mut command = player("cwd; arguments; variables");
    command.cwd = folder.path().to_owned();
    command.args.extend(nasty.map(Into::into));
    command
        .env
        .insert("PROCTOR_TEST".into(), "a=b %x% \"c\" → ".into());
    let run = run(command).await;
    let text = run.text();
    let mut lines = text.lines();
    let cwd = std::fs::canonicalize(lines.next().unwrap()).unwrap();
    assert_eq!(cwd, std::fs::canonicalize(folder.path()).unwrap());
    for argument in nasty {
        assert_eq!(lines.next().unwrap(), format!("{argument:?}"));
    }
    assert!(
        lines.any(|line| line == "PROCTOR_TEST=a=b %x% \"c\" → "),
        "{text}"
    );
}

#[tokio::test]
async fn nothing_of_our_environment_is_inherited() {
    let mut command = player("variables");
    let keep = |name: &&str| std::env::var_os(name).is_some();
    let needed = ["SystemRoot"].into_iter().filter(keep);
    command.env = needed
        .map(|name| (name.into(), std::env::var_os(name).unwrap()))
        .collect();
    command.env.insert("ONE".into(), "1".into());
    let run = run(command).await;
    assert!(run.text().lines().any(|line| line == "ONE=1"));
    assert!(
        !run.text().to_uppercase().contains("CARGO"),
        "{}",
        run.text()
    );
}

#[tokio::test]
async fn four_generations_end_within_a_second_of_the_limit() {
    let nest = Nest::new();
    let script = "alive; stubborn; start { alive; stubborn; start { alive; stubborn; start-apart { alive; stubborn; \
                  sleep 600000 }; sleep 600000 }; sleep 600000 }; sleep 600000";
    let mut command = player(&nest.script(script));
    command.limits.wall = Some(Duration::from_secs(6));
    command.limits.term_grace = Duration::from_millis(200);
    let process = spawn(command).await.unwrap();
    nest.wait_for(4).await;
    let run = finish(process).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::TimedOut));
    assert!(run.report.duration >= Duration::from_secs(6));
    assert!(
        run.report.duration < Duration::from_secs(6) + PROMPT,
        "{:?}",
        run.report
    );
    nest.assert_gone();
}

#[tokio::test]
async fn a_process_that_does_not_heed_the_request_is_killed_after_the_grace() {
    let mut command = player("stubborn; out ready; sleep 600000");
    command.limits.term_grace = Duration::from_millis(700);
    let mut process = spawn(command).await.unwrap();
    assert!(matches!(process.next().await, Event::Output { .. }));
    process.end(EndReason::Cancelled);
    process.end(EndReason::Asked);
    let run = finish(process).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::Cancelled));
    assert!(!run.report.exit.success());
    assert!(run.took >= Duration::from_millis(690), "{:?}", run.took);
    assert!(run.took < PROMPT, "{:?}", run.took);
}

#[tokio::test]
async fn survivors_of_the_main_process_are_reported_and_killed() {
    let nest = Nest::new();
    let script = "start { alive; sleep 600000 }; start-apart { alive; sleep 600000 }; sleep 1500; out done; exit 4";
    let run = run(player(&nest.script(script))).await;
    assert_eq!(run.report.exit.status, Some(Status::Code(4)));
    assert_eq!(run.report.exit.ended_by, None);
    let names: Vec<&str> = run
        .report
        .leaked
        .iter()
        .map(|leak| leak.name.as_str())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.iter().all(|name| name.starts_with("supervisor")),
        "{names:?}"
    );
    assert_eq!(run.text(), "done\n");
    assert!(run.took >= run.report.duration + Duration::from_millis(450));
    nest.assert_gone();
}

#[tokio::test]
async fn process_that_exits_within_the_grace_period_is_not_a_leak() {
    let mut command = player("start { sleep 300; out late }; exit 0");
    command.limits.leak_grace = Duration::from_secs(20);
    let run = run(command).await;
    assert_eq!(run.report.leaked, []);
    assert_eq!(run.text(), "late\n");
    assert!(run.took < Duration::from_secs(15), "{:?}", run.took);
}

#[tokio::test]
async fn a_dropped_process_is_killed() {
    let nest = Nest::new();
    let script = nest.script("alive; stubborn; start-apart { alive; sleep 600000 }; sleep 600000");
    let process = spawn(player(&script)).await.unwrap();
    nest.wait_for(2).await;
    drop(process);
    nest.wait_gone().await;
}

#[tokio::test]
async fn when_the_owner_is_killed_the_whole_tree_dies() {
    let nest = Nest::new();
    let script = "alive; stubborn; start { alive; start-apart { alive; sleep 600000 }; sleep 600000 }; sleep 600000";
    let mut driver = Driver::new(program())
        .args(["drive-player", &nest.script(script)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut started = String::new();
    let stdout = driver.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut started).unwrap();
    nest.wait_for(3).await;
    driver.kill().unwrap();
    driver.wait().unwrap();
    let killed = Instant::now();
    nest.wait_gone().await;
    assert!(killed.elapsed() < PROMPT, "{:?}", killed.elapsed());
}

#[tokio::test]
async fn a_loop_of_new_processes_is_caught() {
    let mut command = bounded("stubborn; sleep-again");
    command.limits.term_grace = Duration::from_millis(50);
    let run = run(command).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::TimedOut));
    assert!(run.took < WALL + PROMPT * 2, "{:?}", run.took);
}

#[tokio::test]
async fn silence_ends_a_process_and_output_keeps_it() {
    let mut command = player("out 1; sleep 500; out 2; sleep 500; out 3; sleep 600000");
    command.limits.idle = Some(Duration::from_millis(2500));
    let run = run(command).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::Idle));
    assert_eq!(run.text(), "1\n2\n3\n");
    assert!(
        run.report.duration >= Duration::from_secs(3),
        "{:?}",
        run.report.duration
    );
}

#[tokio::test]
async fn too_much_output_ends_a_process_at_that_byte() {
    let mut command = player("zeros 100000000000");
    command.limits.output = Some(1_000_001);
    let run = run(command).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::OutputLimit));
    assert_eq!(run.stdout.len(), 1_000_001);
    assert!(run.report.stdout_bytes > 1_000_001);
}

#[tokio::test]
async fn endless_limits_and_graces_are_fine() {
    let mut command = player("exit 0");
    command.limits.wall = Some(Duration::MAX);
    command.limits.idle = Some(Duration::MAX);
    command.limits.term_grace = Duration::MAX;
    command.limits.leak_grace = Duration::MAX;
    assert!(run(command).await.report.exit.success());
}

#[tokio::test]
async fn input_and_output_of_any_size_do_not_block_each_other() {
    let mut command = player("cat");
    let bytes: Vec<u8> = (0..750_000u32).flat_map(u32::to_le_bytes).collect();
    command.stdin = Stdin::Bytes(bytes.clone());
    assert!(run(command).await.stdout == bytes);
}

#[tokio::test]
async fn input_reaches_a_slow_reader_and_a_closed_pipe_is_not_an_error() {
    let mut command = player("sleep 200; read 100000; sleep 200; count");
    command.stdin = Stdin::Bytes(vec![b'x'; 3_000_000]);
    let count: u64 = run(command).await.text().trim().parse().unwrap();
    // The reader may have read ahead before it counted.
    assert!((2_800_000..=2_900_000).contains(&count), "{count}");
    let mut command = player("exit 0");
    command.stdin = Stdin::Bytes(vec![b'x'; 3_000_000]);
    assert!(run(command).await.report.exit.success());
}

#[tokio::test]
async fn an_open_stdin_is_a_conversation() {
    let mut command = player("answer");
    command.stdin = Stdin::Open;
    let mut process = spawn(command).await.unwrap();
    for word in ["one", "two"] {
        process.send(format!("{word}\n").as_bytes());
        let Event::Output { bytes, .. } = process.next().await else {
            panic!("an answer is expected");
        };
        assert_eq!(bytes, format!("<{word}>\n").as_bytes());
    }
    process.close_stdin();
    process.send(b"too late\n");
    assert_eq!(finish(process).await.text(), "end\n");
}

#[tokio::test]
async fn no_input_is_the_end_of_input() {
    assert_eq!(run(player("count")).await.text(), "0\n");
}

#[tokio::test]
async fn a_write_of_nothing_is_not_the_end() {
    assert_eq!(
        run(player("nothing; out end")).await.text(),
        "before after\nend\n"
    );
}

#[tokio::test]
async fn both_streams_are_heard_while_both_flood() {
    let run = run(player(
        "start { error-zeros 5000000 }; zeros 5000000; sleep 300",
    ))
    .await;
    assert_eq!((run.stdout.len(), run.stderr.len()), (5_000_000, 5_000_000));
}

#[tokio::test]
async fn waiting_may_be_given_up_and_taken_up_again() {
    let mut process = spawn(player("out 1; sleep 50; out 2; sleep 50; out 3"))
        .await
        .unwrap();
    let mut text = String::new();
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until);
        match tokio::time::timeout(Duration::from_millis(7), process.next()).await {
            Err(_elapsed) => {}
            Ok(Event::Output { bytes, .. }) => text.push_str(std::str::from_utf8(bytes).unwrap()),
            Ok(Event::Ended(report)) => break assert!(report.exit.success()),
        }
    }
    assert_eq!(text, "1\n2\n3\n");
}

#[tokio::test]
async fn causes_of_a_failed_start_are_distinguished() {
    let folder = tempfile::tempdir().unwrap();
    let error = spawn(Command::new("no-such-program", folder.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::ProgramNotFound { .. }), "{error}");
    let error = spawn(Command::new(folder.path().join("none"), folder.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::ProgramNotFound { .. }), "{error}");
    std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
    let error = spawn(Command::new("./notes.txt", folder.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotExecutable { .. }), "{error}");
    let mut command = player("exit 0");
    command.cwd = folder.path().join("none");
    let error = spawn(command).await.unwrap_err();
    assert!(matches!(error, Error::CwdMissing { .. }), "{error}");
}

#[test]
fn forty_runs_leave_nothing_open() {
    let output = Driver::new(program())
        .args(["repeat-player", "out x"])
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let (before, after) = output.trim().split_once(' ').unwrap();
    let (before, after): (i64, i64) = (before.parse().unwrap(), after.parse().unwrap());
    // A thread of the runtime may have come or gone meanwhile; a leak would show fortyfold.
    assert!((after - before).abs() < 20, "{before} {after}");
}

fn helper(script: &str) -> QuickCommand {
    QuickCommand::new(program())
        .args(["play", script])
        .envs(std::env::vars_os())
}

#[tokio::test]
async fn a_helper_returns_status_and_streams() {
    let result = output(helper("out one; err two; exit 3"), PATIENCE)
        .await
        .unwrap();
    assert_eq!(result.status, Status::Code(3));
    assert_eq!(
        (&result.stdout[..], &result.stderr[..]),
        (&b"one\n"[..], &b"two\n"[..])
    );
    let bytes = vec![b'x'; 1_000_000];
    let result = output(helper("cat").stdin(Source::Bytes(bytes.clone())), PATIENCE)
        .await
        .unwrap();
    assert!(result.success() && !result.truncated && result.stdout == bytes);
    let unread = helper("exit 0").stdin(Source::Bytes(bytes));
    assert!(output(unread, PATIENCE).await.unwrap().success());
}

#[tokio::test]
async fn a_helpers_write_of_nothing_is_not_the_end() {
    let result = output(helper("nothing; out end"), PATIENCE).await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&result.stdout),
        "before after\nend\n"
    );
}

#[tokio::test]
async fn one_helper_feeds_another() {
    let both = pipeline(helper("zeros 3000000; exit 2"), helper("count"), PATIENCE);
    let (first, second) = both.await.unwrap();
    assert_eq!(first.status, Status::Code(2));
    assert_eq!(second.stdout, b"3000000\n");
}

#[tokio::test]
async fn a_late_helper_is_killed_with_its_children() {
    let nest = Nest::new();
    let script = nest.script("alive; start { alive; sleep 600000 }; sleep 600000");
    let late = output(helper(&script), Duration::from_secs(3));
    let error = late.await.unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    nest.wait_gone().await;
}

#[tokio::test]
async fn a_dropped_helper_is_killed() {
    let nest = Nest::new();
    let script = nest.script("alive; start { alive; sleep 600000 }; sleep 600000");
    tokio::select! {
        _ = output(helper(&script), PATIENCE) => panic!("it sleeps"),
        () = nest.wait_for(2) => {}
    }
    nest.wait_gone().await;
}

#[tokio::test]
async fn missing_helper_is_reported() {
    let error = output(QuickCommand::new("no-such-program"), PATIENCE)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::ProgramNotFound { .. }), "{error}");
}
