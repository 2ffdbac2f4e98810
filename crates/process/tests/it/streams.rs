//! Input and output: pipes, terminals, much and slow.

use std::process::Command as Driver;
use std::time::Duration;

use proctor_process::{Event, Output, Stdin};

use crate::shell::{Marker, sh};
use crate::support::{PATIENCE, finish, program, run, spawn};

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
async fn five_megabytes_of_input_reach_a_slow_reader() {
    let marker = Marker::new();
    let script = format!(
        "sleep 0.2; head -c 100000 | wc -c; sleep 0.2; wc -c; : {}",
        marker.0
    );
    let mut command = sh(&script);
    command.stdin = Stdin::Bytes(vec![b'x'; 5_000_000]);
    let run = run(command).await;
    let counts = run.text().split_whitespace();
    let sum: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
    // `head` may have read more than it passed on.
    assert!((4_900_000..=5_000_000).contains(&sum), "{sum}");
    marker.assert_gone();
}

#[tokio::test]
async fn five_megabytes_of_input_for_nobody_are_no_error() {
    let mut command = sh("exit 0");
    command.stdin = Stdin::Bytes(vec![b'x'; 5_000_000]);
    assert!(run(command).await.report.exit.success());
}

#[tokio::test]
async fn input_and_output_of_any_size_do_not_block_each_other() {
    let mut command = sh("cat");
    let bytes: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    command.stdin = Stdin::Bytes(bytes.clone());
    assert!(run(command).await.stdout == bytes);
}

#[tokio::test]
async fn an_open_stdin_is_a_conversation() {
    let mut command = sh("while read -r line; do echo \"<$line>\"; done; echo end");
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
async fn waiting_may_be_given_up_and_taken_up_again() {
    let mut process = spawn(sh("for i in 1 2 3 4 5; do echo $i; sleep 0.05; done"))
        .await
        .unwrap();
    let mut text = String::new();
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        assert!(tokio::time::Instant::now() < until);
        match tokio::time::timeout(Duration::from_millis(7), process.next()).await {
            Err(_elapsed) => {}
            Ok(Event::Output { bytes, .. }) => text.push_str(std::str::from_utf8(bytes).unwrap()),
            Ok(Event::Ended(report)) => break assert!(report.exit.success()),
        }
    }
    assert_eq!(text, "1\n2\n3\n4\n5\n");
}

#[tokio::test]
async fn both_streams_are_heard_while_both_flood() {
    let run = run(sh(
        "head -c 20000000 /dev/zero & head -c 20000000 /dev/zero >&2; wait",
    ))
    .await;
    assert_eq!(
        (run.stdout.len(), run.stderr.len()),
        (20_000_000, 20_000_000)
    );
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
