//! Processes that outlive the main process are reported and killed, also after the supervisor is
//! lost.

use std::io::{BufRead, BufReader};
use std::process::{Command as Driver, Stdio};
use std::time::{Duration, Instant};

use proctor_process::{Report, Status};

use crate::shell::{Marker, sh};
use crate::support::{PROMPT, program, run};

fn leaked(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = report
        .leaked
        .iter()
        .map(|leak| leak.name.as_str())
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_background_process_that_holds_stdout_is_named_and_killed() {
    let marker = Marker::new();
    let run = run(sh(&format!(
        "echo done; setsid sleep {} & exit 4",
        marker.0
    )))
    .await;
    assert_eq!(run.report.exit.status, Some(Status::Code(4)));
    assert_eq!(run.report.exit.ended_by, None);
    assert_eq!(leaked(&run.report), ["sleep"]);
    assert_eq!(run.text(), "done\n");
    assert!(run.took >= Duration::from_millis(450), "the grace is given");
    assert!(run.took < PROMPT, "{:?}", run.took);
    assert!(
        run.report.duration < Duration::from_millis(400),
        "the grace is not counted"
    );
    marker.assert_gone();
}

#[tokio::test]
async fn a_background_process_that_holds_nothing_is_a_leak_too() {
    let marker = Marker::new();
    let script = format!("setsid sleep {} <&- >/dev/null 2>&1 & exit 0", marker.0);
    let run = run(sh(&script)).await;
    assert_eq!(leaked(&run.report), ["sleep"]);
    marker.assert_gone();
}

#[tokio::test]
async fn escaped_processes_are_attributed_to_their_trial() {
    let marker = Marker::new();
    let processes = (1..=8usize).map(|count| {
        let escape = format!("setsid sleep {} & ", marker.0).repeat(count);
        async move { (count, run(sh(&format!("{escape} exit 0"))).await) }
    });
    let mut set = tokio::task::JoinSet::new();
    for process in processes {
        set.spawn(process);
    }
    for (count, run) in set.join_all().await {
        assert_eq!(run.report.leaked.len(), count);
        assert!(run.report.exit.success());
    }
    marker.assert_gone();
}

#[tokio::test]
async fn when_the_parent_is_killed_the_whole_tree_dies() {
    let marker = Marker::new();
    let script = "trap '' TERM HUP; (setsid sleep MARK &); env -i setsid sleep MARK & sleep MARK";
    let mut driver = Driver::new(program())
        .args(["drive", &script.replace("MARK", &marker.0)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut started = String::new();
    let stdout = driver.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut started).unwrap();
    // The driver itself, the shell and its three.
    marker.wait_for(5).await;
    driver.kill().unwrap();
    driver.wait().unwrap();
    let killed = Instant::now();
    marker.wait_gone().await;
    assert!(killed.elapsed() < PROMPT, "{:?}", killed.elapsed());
}

#[test]
fn a_hundred_runs_leave_no_descriptor_and_no_child() {
    let output = Driver::new(program())
        .args(["repeat", "echo x; exit 0"])
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let (before, after) = output.trim().split_once(' ').unwrap();
    assert_eq!(before, after);
}
