//! Time, silence and output have bounds, whatever the process does about it.

use std::time::Duration;

use proctor_process::{Command, EndReason, Status};

use crate::shell::{Marker, sh};
use crate::support::{PROMPT, Run, run};

const WALL: Duration = Duration::from_millis(300);

fn bounded(script: &str) -> Command {
    let mut command = sh(script);
    command.limits.wall = Some(WALL);
    command
}

/// Runs a script in which `MARK` stands for the marker until it is timed out.
async fn timed_out(script: &str) -> Run {
    let marker = Marker::new();
    let run = run(bounded(&script.replace("MARK", &marker.0))).await;
    marker.assert_gone();
    assert_eq!(
        run.report.exit.ended_by,
        Some(EndReason::TimedOut),
        "{:?}",
        run.report
    );
    assert!(run.report.duration >= WALL);
    assert!(run.took < WALL + PROMPT, "{:?}", run.took);
    run
}

#[tokio::test]
async fn a_sleeping_grandchild_ends_with_its_parent() {
    let run = timed_out("sh -c 'sleep MARK; :'; :").await;
    assert_eq!(run.report.exit.status, Some(Status::Signal(15)));
    assert!(
        run.report.duration < WALL + Duration::from_millis(450),
        "no grace was needed"
    );
}

#[tokio::test]
async fn a_process_that_ignores_the_signal_is_killed() {
    let run = timed_out("trap '' TERM; while :; do sleep MARK; done").await;
    assert_eq!(run.report.exit.status, Some(Status::Signal(9)));
    assert!(run.report.duration >= WALL + Duration::from_millis(500));
}

#[tokio::test]
async fn a_grandchild_in_its_own_session_holding_stdout_is_killed() {
    timed_out("trap '' TERM; setsid sleep MARK & sleep MARK").await;
}

#[tokio::test]
async fn a_double_fork_does_not_escape() {
    timed_out("(setsid sh -c 'trap \"\" TERM; (setsid sleep MARK &) ; sleep MARK' &); sleep MARK")
        .await;
}

#[tokio::test]
async fn an_empty_environment_does_not_hide_anyone() {
    timed_out("env -i setsid env -i sleep MARK & env -i sleep MARK").await;
}

#[tokio::test]
async fn a_stopped_process_heeds_the_signal() {
    let run = timed_out("sleep MARK & kill -STOP $!; kill -STOP $$; :").await;
    assert_eq!(run.report.exit.status, Some(Status::Signal(15)));
}

#[tokio::test]
async fn a_process_that_stops_its_supervisor_gains_nothing() {
    timed_out("kill -STOP $PPID; trap '' TERM; setsid sleep MARK & sleep MARK").await;
}

#[tokio::test]
async fn a_process_that_kills_its_supervisor_dies_with_its_session() {
    let marker = Marker::new();
    let script = format!("sleep {0} & kill -KILL $PPID; sleep {0}", marker.0);
    let run = run(sh(&script)).await;
    assert_eq!(run.report.exit.status, None);
    assert_eq!(run.report.usage, None);
    marker.assert_gone();
}

#[tokio::test]
async fn a_chain_of_processes_that_fork_and_exit_is_caught() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("chain");
    std::fs::write(&script, "trap '' TERM; setsid sh \"$0\" \"$1\" & exit").unwrap();
    timed_out(&format!("sh {} MARK; sleep MARK", script.display())).await;
}

#[tokio::test]
async fn a_loop_of_new_sessions_is_caught() {
    let marker = Marker::new();
    let script = "trap '' TERM; while :; do setsid sleep MARK & done";
    let mut command = bounded(&script.replace("MARK", &marker.0));
    command.limits.term_grace = Duration::from_millis(50);
    let run = run(command).await;
    marker.assert_gone();
    assert_eq!(run.report.exit.status, Some(Status::Signal(9)));
    assert!(run.took < WALL + PROMPT, "{:?}", run.took);
}

#[tokio::test]
async fn output_up_to_the_limit_is_fine() {
    let mut command = sh("printf 12345; printf 678 >&2");
    command.limits.output = Some(8);
    let run = run(command).await;
    assert!(run.report.exit.success(), "{:?}", run.report.exit);
}

#[tokio::test]
async fn output_beyond_the_limit_is_told_even_if_the_process_is_gone() {
    let mut command = sh("printf 12345; printf 6789 >&2");
    command.limits.output = Some(8);
    let run = run(command).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::OutputLimit));
    assert_eq!(run.stdout.len() + run.stderr.len(), 8);
}
