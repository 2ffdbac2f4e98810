//! Limits on time, silence and output hold for any process.

use std::time::Duration;

use proctor_process::quick::{QuickCommand, output};
use proctor_process::{Command, EndReason, Status};

use crate::shell::{Marker, sh};
use crate::support::{PATIENCE, PROMPT, Run, finish, run, spawn};

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
async fn all_descendants_of_a_killed_supervisor_are_killed() {
    for script in [
        "sleep MARK & kill -KILL $PPID; sleep MARK",
        "setsid sleep MARK & sleep 0.1; kill -KILL $PPID; sleep MARK",
        "(setsid sh -c '(setsid sleep MARK &); env -i sleep MARK' &); sleep 0.1; kill -KILL $PPID",
        "p=$PPID; (setsid sh -c \"sleep 0.1; kill -KILL $p; sleep MARK\" &); exec sleep MARK",
        "trap 'kill -KILL $PPID' TERM; setsid sleep MARK & kill -TERM $$; sleep MARK",
    ] {
        let marker = Marker::new();
        let run = run(sh(&script.replace("MARK", &marker.0))).await;
        assert_eq!(run.report.exit.status, None, "{script}");
        let ended_by = run.report.exit.ended_by;
        assert_eq!(ended_by, Some(EndReason::SupervisorLost), "{script}");
        assert_eq!(run.report.usage, None, "{script}");
        marker.assert_gone();
    }
}

/// Under `docker exec`, or wherever the shell that started us is outside our PID namespace, the kernel reports our
/// session and our process group as 0.
#[cfg(target_os = "linux")]
#[test]
fn lost_supervisors_are_cleaned_up_when_the_session_leader_is_outside_the_pid_namespace() {
    let program = std::env::current_exe().unwrap();
    let inside = std::process::Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(program)
        .args(["--exact", "--nocapture"])
        .args([
            "limits::all_descendants_of_a_killed_supervisor_are_killed",
            "limits::the_loss_of_one_supervisor_harms_no_other_process",
        ])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&inside.stdout);
    assert!(inside.status.success(), "{printed}");
    assert!(printed.contains("2 passed"), "{printed}");
}

#[tokio::test]
async fn a_process_that_kills_its_supervisor_at_a_limit_is_not_timed_out() {
    let marker = Marker::new();
    let script = "trap 'kill -KILL $PPID' TERM; setsid sleep MARK & while :; do sleep 0.05; done";
    let run = run(bounded(&script.replace("MARK", &marker.0))).await;
    let ended_by = run.report.exit.ended_by;
    assert_eq!(ended_by, Some(EndReason::SupervisorLost));
    marker.assert_gone();
}

/// Other supervised processes and helpers are children of ours as well.
#[tokio::test]
async fn the_loss_of_one_supervisor_harms_no_other_process() {
    let marker = Marker::new();
    let go = tempfile::tempdir().unwrap();
    let wait = format!(
        "(setsid sleep {} &); while [ ! -e {}/go ]; do sleep 0.02; done; echo done",
        marker.0,
        go.path().display()
    );
    let before = tokio::spawn(run(sh(&wait)));
    marker.wait_for(1).await;
    let lost = Marker::new();
    let script = format!("(setsid sleep {} &); kill -STOP $$", lost.0);
    let process = spawn(sh(&script)).await.unwrap();
    lost.wait_for(1).await;
    let after = tokio::spawn(run(sh(&wait)));
    let helper = QuickCommand::new("sh").args(["-c", &wait]);
    let helper = tokio::spawn(output(helper, PATIENCE));
    marker.wait_for(3).await;
    kill_supervisor_of(process.id());
    let report = finish(process).await.report;
    assert_eq!(report.exit.ended_by, Some(EndReason::SupervisorLost));
    lost.assert_gone();
    std::fs::write(go.path().join("go"), "").unwrap();
    for run in [before.await.unwrap(), after.await.unwrap()] {
        assert!(run.report.exit.success(), "{:?}", run.report);
        assert_eq!(run.text(), "done\n");
        assert_eq!(run.report.leaked.len(), 1);
    }
    assert!(helper.await.unwrap().unwrap().success());
}

fn kill_supervisor_of(pid: u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    let parent = parent.unwrap().trim().parse().unwrap();
    let parent = rustix::process::Pid::from_raw(parent).unwrap();
    rustix::process::kill_process(parent, rustix::process::Signal::KILL).unwrap();
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
async fn exceeded_output_limit_is_reported_after_exit() {
    let mut command = sh("printf 12345; printf 6789 >&2");
    command.limits.output = Some(8);
    let run = run(command).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::OutputLimit));
    assert_eq!(run.stdout.len() + run.stderr.len(), 8);
}
