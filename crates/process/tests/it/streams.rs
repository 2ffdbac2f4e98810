//! Input and output: pipes, terminals, much and slow.

use std::process::Command as Driver;
use std::time::Duration;

use proctor_process::{Output, Stdin};

use crate::shell::{Marker, sh};
use crate::support::{program, run};

const TERMINAL: Output = Output::Pty {
    columns: 132,
    rows: 43,
};

#[tokio::test]
async fn stdout_is_a_terminal_while_stdin_is_a_pipe() {
    let marker = Marker::new();
    let script = "test -t 1 && test -t 2 && ! test -t 0 && echo yes; stty size <&1; cat; : MARK";
    let mut command = sh(&script.replace("MARK", &marker.0));
    command.output = TERMINAL;
    command.stdin = Stdin::Bytes(b"fed\n".to_vec());
    let run = run(command).await;
    assert_eq!(run.text(), "yes\r\n43 132\r\nfed\r\n");
    assert!(run.report.exit.success());
    marker.assert_gone();
}

#[tokio::test]
async fn the_terminal_is_the_controlling_one() {
    let mut command = sh("echo through >/dev/tty");
    command.output = TERMINAL;
    assert_eq!(run(command).await.text(), "through\r\n");
}

#[tokio::test]
async fn no_terminal_is_inherited() {
    let run = run(sh("exec 2>&1; echo through >/dev/tty")).await;
    assert!(!run.report.exit.success());
}

#[tokio::test]
async fn nothing_is_lost_at_the_end_of_a_terminal() {
    for _ in 0..20 {
        let mut command = sh("seq 1000");
        command.output = TERMINAL;
        assert!(run(command).await.text().ends_with("\r\n999\r\n1000\r\n"));
    }
}

#[tokio::test]
async fn a_process_that_left_its_terminal_dies_with_it() {
    let marker = Marker::new();
    let mut command = sh(&format!(
        "trap '' HUP TERM; setsid sleep {0} & sleep {0}",
        marker.0
    ));
    command.output = TERMINAL;
    command.limits.wall = Some(Duration::from_millis(300));
    run(command).await;
    marker.assert_gone();
}

#[tokio::test]
async fn large_arguments_and_environments_pass() {
    let mut command = sh("printf %s \"$BIG\" | wc -c; echo $#");
    command.env.insert("BIG".into(), "x".repeat(100_000).into());
    command
        .args
        .extend((0..10_000).map(|n| format!("argument-number-{n:060}").into()));
    let run = run(command).await;
    // The first argument after the script is the shell's name.
    assert_eq!(
        run.text().split_whitespace().collect::<Vec<_>>(),
        ["100000", "9999"]
    );
}

#[test]
fn a_flood_passes_without_growing_the_reader() {
    let output = Driver::new(program())
        .args(["peak-memory", "head -c 200000000 /dev/zero"])
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let (bytes, peak) = output.trim().split_once(' ').unwrap();
    assert_eq!(bytes, "200000000");
    let peak: u64 = peak.parse().unwrap();
    assert!(peak < 32 * 1024, "{peak} KiB");
}
