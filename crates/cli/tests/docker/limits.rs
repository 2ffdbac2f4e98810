//! Resource limits of containers, and their reporting.

use std::time::{Duration, Instant};

use proctor_process::{EndReason, Limits};
use proctor_sandbox::docker::{BindMount, DiskLimit, Root, Tmpfs};

use crate::support::{Rig, wall};

#[tokio::test]
async fn memory_limit_is_reported_as_out_of_memory() {
    let Some(rig) = Rig::new().await else { return };
    let mut spec = rig.spec();
    spec.memory = Some(64 << 20);
    let script = "tail /dev/zero; echo \"code $?\"; exit 3";
    let run = rig.run(spec, script, wall(Duration::from_mins(1))).await;
    assert!(run.facts.oom_kills >= Some(1), "{run:?}");
    assert_eq!(run.text(), "code 137\n");
    assert!(
        run.facts
            .peak_memory_bytes
            .is_some_and(|peak| peak > 32 << 20)
    );
    let calm = rig.run(rig.spec(), "true", Limits::default()).await;
    assert_eq!(calm.facts.oom_kills, Some(0));
}

#[tokio::test]
async fn a_fork_bomb_stays_within_its_number_of_processes() {
    let Some(rig) = Rig::new().await else { return };
    let mut spec = rig.spec();
    spec.pids = Some(64);
    // A shell that cannot fork any more gives up: the one that stays has another bomb for it.
    let script = "bomb() { bomb | bomb & }; (bomb) 2>/dev/null; exec sleep 1000";
    let limits = wall(Duration::from_secs(2));
    let began = Instant::now();
    let run = rig.run(spec, script, limits).await;
    assert_eq!(run.report.exit.ended_by, Some(EndReason::TimedOut));
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn disk_limit_stops_an_agent_that_fills_the_disk_anywhere() {
    let Some(rig) = Rig::new().await else { return };
    let work = rig.path().join("work");
    std::fs::create_dir(&work).unwrap();
    for target in ["/root/filler", "/work/filler"] {
        let mut spec = rig.spec();
        spec.disk = Some(50 << 20);
        spec.mounts = vec![BindMount {
            host: work.clone(),
            inside: "/work".to_owned(),
            read_only: false,
        }];
        // Steadily, and with an end of its own far beyond the limit.
        let script = format!(
            "for i in $(seq 400); do dd if=/dev/zero bs=1M count=1 2>/dev/null >> {target}; sleep 0.02; done; sleep 1000"
        );
        let run = rig.run(spec, &script, wall(Duration::from_mins(1))).await;
        match run.facts.disk_limit {
            Some(DiskLimit::Watched) => {
                assert!(run.facts.disk_exceeded.is_some_and(|used| used > 50 << 20));
                assert_eq!(run.report.exit.ended_by, Some(EndReason::Asked), "{target}");
            }
            by => assert_eq!(by, Some(DiskLimit::Engine)),
        }
    }
}

#[tokio::test]
async fn hardened_container_has_no_capabilities_and_a_read_only_root() {
    let Some(rig) = Rig::new().await else { return };
    let mut spec = rig.spec();
    spec.root = Root::ReadOnly;
    spec.user = Some("1000:1000".to_owned());
    spec.tmpfs = vec![Tmpfs {
        inside: "/tmp".to_owned(),
        size: Some(1 << 20),
    }];
    let script = "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t'; id -u; \
                  touch /file 2>&1; echo ok > /tmp/file && cat /tmp/file; \
                  head -c 2000000 /dev/zero > /tmp/big 2>/dev/null || echo full; \
                  echo x > /proctor/job/job.json 2>/dev/null || echo sealed";
    let run = rig.run(spec, script, Limits::default()).await;
    let expect = "CapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1\nSeccomp:2\n1000\n\
                  touch: /file: Read-only file system\nok\nfull\nsealed\n";
    assert_eq!(run.text(), expect);
}
