//! How processes end by themselves or on request, and what keeps them from starting.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use proctor_process::{Command, EndReason, Error, Event, Exit, Status};

use crate::shell::{Marker, sh};
use crate::support::{PROMPT, finish, run, spawn};

fn by_itself(status: Status) -> Exit {
    Exit {
        status: Some(status),
        ended_by: None,
    }
}

#[tokio::test]
async fn a_signal_is_reported_as_such() {
    let run = run(sh("kill -USR1 $$")).await;
    assert_eq!(run.report.exit, by_itself(Status::Signal(10)));
}

#[tokio::test]
async fn cpu_time_and_memory_of_the_whole_tree_are_counted() {
    let run = run(sh(
        "(i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); exit 0",
    ))
    .await;
    let usage = run.report.usage.unwrap();
    assert!(usage.cpu_user + usage.cpu_system > Duration::from_millis(10));
    assert!(usage.max_rss_bytes > Some(500_000));
    assert!(run.report.duration > Duration::from_millis(10));
}

#[tokio::test]
async fn process_inherits_only_its_own_handles() {
    let mut command =
        sh("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= | sort; pwd; ls /proc/self/fd | wc -l");
    command.cwd = "/usr".into();
    let run = run(command).await;
    // `ls` itself has the folder open beside its three streams.
    assert_eq!(
        run.text().split_whitespace().collect::<Vec<_>>(),
        ["PATH=/usr/bin:/bin", "/usr", "4"]
    );
}

#[tokio::test]
async fn a_cancelled_process_ends_with_its_children() {
    let marker = Marker::new();
    let mut process = spawn(sh(&format!("sleep {0} & sleep {0}", marker.0)))
        .await
        .unwrap();
    marker.wait_for(3).await;
    process.end(EndReason::Cancelled);
    process.end(EndReason::Asked);
    let run = finish(process).await;
    assert_eq!(run.report.exit.status, Some(Status::Signal(15)));
    assert_eq!(run.report.exit.ended_by, Some(EndReason::Cancelled));
    assert!(run.took < PROMPT);
    marker.assert_gone();
}

#[tokio::test]
async fn a_process_that_heeds_the_signal_may_say_its_last_words() {
    let marker = Marker::new();
    let script = format!(
        "trap 'echo bye; exit 3' TERM; echo ready; sleep {} & wait",
        marker.0
    );
    let mut process = spawn(sh(&script)).await.unwrap();
    assert!(matches!(
        process.next().await,
        Event::Output {
            bytes: b"ready\n",
            ..
        }
    ));
    process.end(EndReason::Asked);
    let run = finish(process).await;
    assert_eq!(run.text(), "bye\n");
    assert_eq!(run.report.exit.status, Some(Status::Code(3)));
    assert_eq!(run.report.exit.ended_by, Some(EndReason::Asked));
    marker.assert_gone();
}

#[tokio::test]
async fn the_report_can_be_had_again() {
    let mut process = spawn(sh("exit 0")).await.unwrap();
    let Event::Ended(first) = process.next().await else {
        panic!("no output is expected");
    };
    let Event::Ended(again) = process.next().await else {
        panic!("no output is expected");
    };
    assert!(first.exit.success());
    assert_eq!(first, again);
}

#[tokio::test]
async fn a_missing_interpreter_is_an_error_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let error = spawn(Command::new("./script", folder.path()))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Start { .. }), "{error}");
}

#[tokio::test]
async fn a_program_that_cannot_supervise_is_refused() {
    let supervisor = proctor_process::Supervisor::at("/bin/true");
    let error = proctor_process::Process::spawn(sh("exit 0"), &supervisor)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Supervisor { .. }), "{error}");
}

#[test]
fn an_exit_is_plain_data() {
    let exit = Exit {
        status: Some(Status::Signal(15)),
        ended_by: Some(EndReason::TimedOut),
    };
    let text = serde_json::to_string(&exit).unwrap();
    assert_eq!(text, r#"{"status":{"signal":15},"ended_by":"timed_out"}"#);
    assert_eq!(serde_json::from_str::<Exit>(&text).unwrap(), exit);
}
