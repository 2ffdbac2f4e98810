//! Input and output, byte for byte.

use proctor_process::{Event, JobInput, Limits, Status, TerminalSize};

use crate::support::{Rig, finish, sh};

#[tokio::test]
async fn twenty_megabytes_of_both_streams_arrive_byte_for_byte() {
    let Some(rig) = Rig::new().await else { return };
    let folder = rig.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    // Every byte value at every place of a frame, and no period that a buffer could hide.
    let bytes = |seed: u64| -> Vec<u8> {
        let mut state = seed;
        let step = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(seed);
            state.to_be_bytes()[0]
        };
        (0..20_000_000).map(step).collect()
    };
    let (out, err) = (bytes(1), bytes(3));
    std::fs::write(folder.join("out"), &out).unwrap();
    std::fs::write(folder.join("err"), &err).unwrap();
    let mut spec = rig.spec();
    spec.mounts = vec![proctor_sandbox::docker::BindMount {
        host: folder,
        inside: "/data".to_owned(),
        read_only: true,
    }];
    let script = "cat /data/err >&2 & cat /data/out; wait";
    let run = rig.run(spec, script, Limits::default()).await;
    assert_eq!(
        (run.report.stdout_bytes, run.report.stderr_bytes),
        (20_000_000, 20_000_000)
    );
    assert!(run.stdout == out, "stdout differs");
    assert!(run.stderr == err, "stderr differs");
}

#[tokio::test]
async fn stdin_is_forwarded_and_closing_it_ends_input() {
    let Some(rig) = Rig::new().await else { return };
    let container = rig.container().await;
    let mut job = sh("cat; echo over >&2");
    job.input = JobInput::Container;
    let mut process = container.start(job, Limits::default()).await.unwrap();
    process.send(b"first\0\xff");
    let Event::Output { bytes, .. } = process.next().await.unwrap() else {
        panic!("it ended early");
    };
    assert_eq!(bytes, b"first\0\xff");
    process.send(&vec![b'x'; 300_000]);
    process.close_stdin();
    process.send(b"too late");
    let run = finish(&mut process).await.unwrap();
    assert!(run.stdout == vec![b'x'; 300_000]);
    assert_eq!(run.stderr, b"over\n");
    container.remove().await.unwrap();
}

#[tokio::test]
async fn nothing_to_read_is_the_end_of_input_at_once() {
    let Some(rig) = Rig::new().await else { return };
    let run = rig
        .run(rig.spec(), "cat; echo done", Limits::default())
        .await;
    assert_eq!(run.text(), "done\n");
}

#[tokio::test]
async fn terminal_has_its_size_and_flushes_partial_lines() {
    let Some(rig) = Rig::new().await else { return };
    let container = rig.container().await;
    let script = "printf '\\001prompt> '; read line; stty size <&1; [ -t 1 ] && [ -t 2 ] && echo tty; echo \"$line\" >&2";
    let mut job = sh(script);
    job.input = JobInput::Container;
    job.terminal = Some(TerminalSize {
        columns: 123,
        rows: 45,
    });
    let mut process = container.start(job, Limits::default()).await.unwrap();
    let Event::Output { bytes, .. } = process.next().await.unwrap() else {
        panic!("it ended early");
    };
    assert_eq!(bytes, b"\x01prompt> ");
    process.send(b"answer\n");
    let run = finish(&mut process).await.unwrap();
    assert_eq!(run.text(), "45 123\r\ntty\r\nanswer\r\n");
    assert_eq!(run.report.exit.status, Some(Status::Code(0)));
    container.remove().await.unwrap();
}
