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
async fn silence_ends_a_process_and_output_keeps_it() {
    let marker = Marker::new();
    let script = "for i in 1 2 3 4; do echo $i; sleep 0.2; done; sleep MARK";
    let mut command = sh(&script.replace("MARK", &marker.0));
    command.limits.idle = Some(Duration::from_millis(600));
    let run = run(command).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::Idle));
    assert_eq!(run.text(), "1\n2\n3\n4\n");
    assert!(
        run.report.duration >= Duration::from_millis(1200),
        "{:?}",
        run.report.duration
    );
    assert!(
        run.took < Duration::from_millis(1400) + PROMPT,
        "{:?}",
        run.took
    );
    marker.assert_gone();
}

#[tokio::test]
async fn too_much_output_ends_a_process_at_that_byte() {
    let marker = Marker::new();
    let mut command = sh(&format!(": {}; exec yes", marker.0));
    command.limits.output = Some(1_000_001);
    let run = run(command).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::OutputLimit));
    assert_eq!(run.stdout.len(), 1_000_001);
    assert!(run.report.stdout_bytes > 1_000_001);
    assert!(run.took < PROMPT, "{:?}", run.took);
    marker.assert_gone();
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

#[tokio::test]
async fn endless_graces_are_fine() {
    let mut command = sh("exit 0");
    command.limits.wall = Some(Duration::MAX);
    command.limits.idle = Some(Duration::MAX);
    command.limits.term_grace = Duration::MAX;
    command.limits.leak_grace = Duration::MAX;
    assert!(run(command).await.report.exit.success());
}
