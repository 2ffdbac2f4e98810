//! The interface to Slurm: `sbatch`, `squeue`, `scancel`, and the parsing of their output.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use proctor_process::quick::{self, QuickCommand, Source};
use proctor_record::record::GatewayPlace;
use proctor_sandbox::host::Host;

use super::planner::{Array, Queued, TaskEnd, TaskId};
use crate::{config::SlurmSettings, model_access, run::SlurmError};

/// The timeout of Slurm commands.
const PATIENCE: Duration = Duration::from_mins(1);
/// The maximum array size if the controller does not report one.
const USUAL_MOST: u32 = 1001;

/// The resources of a job: trials with the same resources form one array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Memory in MiB; the cluster's default when unset.
    pub memory_mib: Option<u64>,
    /// CPUs.
    pub cpus: Option<u32>,
}

/// The jobs of one run.
#[derive(Debug)]
pub struct Slurm<'a> {
    /// The host.
    pub host: &'a Host,
    /// The resources of jobs.
    pub settings: &'a SlurmSettings,
    /// The name of all jobs of the run.
    pub name: String,
    /// The directory of the run's files for the cluster.
    pub folder: Utf8PathBuf,
    /// The maximum number of concurrent tasks.
    pub parallel: usize,
}

impl Slurm<'_> {
    /// Submits arrays one after another, so that at most `parallel` tasks run at a time.
    pub async fn submit(
        &self,
        array: &Array<Shape>,
        after: Option<u64>,
    ) -> Result<u64, SlurmError> {
        let said = self
            .call(
                "sbatch",
                self.arguments(array, after),
                Some(self.script(array)),
            )
            .await?;
        let job = said.trim().split(';').next().unwrap_or_default();
        job.parse().map_err(|_| SlurmError::Failed {
            program: "sbatch",
            message: format!("unexpected output `{said}`"),
        })
    }

    fn arguments(&self, array: &Array<Shape>, after: Option<u64>) -> Vec<String> {
        let mut args = vec![
            "--parsable".to_owned(),
            // The environment of sbatch contains exactly the variables for the nodes.
            "--export=ALL".to_owned(),
            "--requeue".to_owned(),
            "--open-mode=append".to_owned(),
            "--ntasks=1".to_owned(),
            format!("--job-name={}", self.name),
            format!("--output={}", self.folder.join("logs/%A_%a.log")),
            format!("--chdir={}", self.folder),
            format!("--array={}%{}", expression(&array.indices), self.parallel),
        ];
        let settings = self.settings;
        let texts = [
            ("--partition", settings.partition.clone()),
            ("--account", settings.account.clone()),
            (
                "--time",
                settings
                    .time
                    .map(|time| time.as_secs().div_ceil(60).to_string()),
            ),
            (
                "--mem",
                array.shape.memory_mib.map(|memory| format!("{memory}M")),
            ),
            (
                "--cpus-per-task",
                array.shape.cpus.map(|cpus| cpus.to_string()),
            ),
            ("--dependency", after.map(|job| format!("afterany:{job}"))),
        ];
        for (name, value) in texts {
            args.extend(value.map(|value| format!("{name}={value}")));
        }
        args.extend(settings.args.iter().cloned());
        args
    }

    fn script(&self, array: &Array<Shape>) -> String {
        let binary = shell_words::quote(self.host.binary.as_str()).into_owned();
        let specs = self.folder.join("trials");
        let specs = shell_words::quote(specs.as_str()).into_owned();
        let number = format!("$(({} + SLURM_ARRAY_TASK_ID))", array.base);
        format!("#!/bin/sh\nexec {binary} trial --spec {specs}/{number}.json\n")
    }

    /// The tasks in Slurm's queue.
    pub async fn queue(&self) -> Result<BTreeMap<TaskId, Queued>, SlurmError> {
        Ok(parse_queue(&self.squeue(&[]).await?))
    }

    /// Why tasks ended, as far as Slurm remembers.
    pub async fn ends(&self) -> Result<BTreeMap<TaskId, TaskEnd>, SlurmError> {
        Ok(parse_ends(&self.squeue(&["--states=all"]).await?))
    }

    async fn squeue(&self, more: &[&str]) -> Result<String, SlurmError> {
        let mut args = vec![
            "--noheader".to_owned(),
            format!("--name={}", self.name),
            "--format=%i|%T".to_owned(),
        ];
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        self.call("squeue", args, None).await
    }

    /// Cancels all jobs of the run.
    pub async fn cancel(&self) -> Result<(), SlurmError> {
        let args = vec![format!("--name={}", self.name)];
        self.call("scancel", args, None).await.map(drop)
    }

    /// Cancels pending tasks.
    pub async fn cancel_pending(
        &self,
        tasks: &BTreeMap<u64, BTreeSet<u32>>,
    ) -> Result<(), SlurmError> {
        for (job, indices) in tasks {
            let args = vec![
                "--state=PENDING".to_owned(),
                format!("{job}_[{}]", expression(indices)),
            ];
            self.call("scancel", args, None).await?;
        }
        Ok(())
    }

    /// The maximum array size.
    pub async fn most(&self) -> u32 {
        let args = vec!["show".to_owned(), "config".to_owned()];
        let said = self.call("scontrol", args, None).await;
        let said = said.unwrap_or_default();
        let line = said.lines().find(|line| line.starts_with("MaxArraySize"));
        let most = line.and_then(|line| line.split_once('=')?.1.trim().parse().ok());
        most.filter(|most| *most > 1).unwrap_or(USUAL_MOST) - 1
    }

    async fn call(
        &self,
        program: &'static str,
        args: Vec<String>,
        input: Option<String>,
    ) -> Result<String, SlurmError> {
        let mut command = QuickCommand::new(program).args(args);
        command.env = self.env(program);
        command.stdin = input.map_or(Source::Null, |text| Source::Bytes(text.into_bytes()));
        let output = quick::output(command, PATIENCE).await;
        let output = output.map_err(|error| match error {
            // The program exists, but its controller does not answer.
            error @ proctor_process::Error::TimedOut { .. } => SlurmError::Failed {
                program,
                message: error.to_string(),
            },
            source => SlurmError::NotFound { program, source },
        })?;
        if output.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(SlurmError::Failed {
            program,
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// The environment of nodes: that of this process, without keys that stay on the head. It is
    /// passed between processes and never written to a file of Proctor. Only `sbatch` passes its
    /// environment on.
    fn env(&self, program: &str) -> BTreeMap<OsString, OsString> {
        let keeps_keys = self.settings.gateway == GatewayPlace::Head;
        let is_meant = |name: &str| {
            // Settings that limit a user's own commands to some jobs.
            let of_commands = ["SBATCH_", "SQUEUE_", "SCANCEL_", "SLURM_JOB"];
            let is_slurms = of_commands.iter().any(|start| name.starts_with(start));
            !(is_slurms || keeps_keys && model_access::is_provider_key(name))
        };
        let ours = match program {
            "sbatch" => self.host.env.clone(),
            _ => self.host.helper_env(&["SLURM_", "MUNGE_"]),
        };
        let ours = ours.into_iter().filter(|(name, _)| is_meant(name));
        let ours = ours.map(|(name, value)| (name.into(), value.into()));
        // Otherwise Slurm truncates lists of indices.
        ours.chain([("SLURM_BITSTR_LEN".into(), "0".into())])
            .collect()
    }
}

/// Formats indices for Slurm: `0-4,7`.
pub fn expression(indices: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indices {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Parses such a list; malformed parts are ignored.
pub fn indices(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let parts = text.split('%').next().unwrap_or_default();
    for part in parts.split(',') {
        // `2-18:4` has a step.
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = (first.trim().parse::<u32>(), last.trim().parse());
        if let ((Ok(first), Ok(last)), Ok(step @ 1..)) = (bounds, step.trim().parse()) {
            found.extend((first..=last).step_by(step));
        }
    }
    found
}

/// Parses `12_[5-9%2]|PENDING` and `12_3|RUNNING`, line by line.
fn tasks(said: &str) -> impl Iterator<Item = (TaskId, &str)> {
    said.lines().flat_map(|line| {
        let parsed = line.trim().split_once('|').and_then(|(id, state)| {
            let (job, rest) = id.split_once('_')?;
            let list = rest.trim_start_matches('[').trim_end_matches(']');
            Some((job.parse().ok()?, indices(list), state))
        });
        let (job, found, state) = parsed.unwrap_or_default();
        found
            .into_iter()
            .map(move |index| (TaskId { job, index }, state))
    })
}

fn parse_queue(said: &str) -> BTreeMap<TaskId, Queued> {
    let known = tasks(said).map(|(task, state)| match state {
        "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" => {
            (task, Queued::Pending)
        }
        _ => (task, Queued::Running),
    });
    known.collect()
}

fn parse_ends(said: &str) -> BTreeMap<TaskId, TaskEnd> {
    let known = tasks(said).map(|(task, state)| {
        let end = match state {
            "TIMEOUT" | "DEADLINE" => TaskEnd::Timeout,
            "OUT_OF_MEMORY" => TaskEnd::Memory,
            "CANCELLED" => TaskEnd::Cancelled,
            _ => TaskEnd::Gone,
        };
        (task, end)
    });
    known.collect()
}

/// The cause of a job's end from its log: some OOM kills leave no other trace.
pub fn end_in_log(log: &Utf8Path) -> Option<TaskEnd> {
    let text = fs_err::read(log).ok()?;
    let text = String::from_utf8_lossy(&text).to_lowercase();
    let slurms = text.lines().filter(|line| line.starts_with("slurmstepd"));
    let mut end = None;
    for line in slurms {
        if is_about_memory(line) {
            return Some(TaskEnd::Memory);
        }
        if line.contains("due to time limit") {
            end = Some(TaskEnd::Timeout);
        }
    }
    end
}

/// Whether the line reports a lack of memory. Not every `oom` does: it can be part of a node's
/// name.
fn is_about_memory(line: &str) -> bool {
    let words = [
        "memory limit",
        "out of memory",
        "oom-kill",
        "oom_kill",
        "oom kill",
    ];
    words.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_indices_are_written_and_read() {
        for (list, expect) in [
            (vec![0, 1, 2, 4, 7, 8], "0-2,4,7-8"),
            (vec![5], "5"),
            (vec![], ""),
        ] {
            let list: BTreeSet<u32> = list.into_iter().collect();
            assert_eq!(expression(&list), expect);
            assert_eq!(indices(&format!("{expect}%8")), list);
        }
    }

    #[test]
    fn steps_are_read() {
        assert_eq!(indices("2-8:3,11%2"), BTreeSet::from([2, 5, 8, 11]));
        assert_eq!(indices("0-4:0"), BTreeSet::new());
    }

    #[test]
    fn node_name_is_not_an_out_of_memory_error() {
        let line = "slurmstepd: error: *** job 7 on classroom07 cancelled at 12:00 ***";
        assert!(!is_about_memory(line));
        assert!(is_about_memory(
            "slurmstepd: error: detected 1 oom_kill event"
        ));
        assert!(is_about_memory(
            "slurmstepd: error: detected 1 oom-kill event(s)"
        ));
    }

    #[test]
    fn queue_is_parsed_with_index_lists() {
        let said = "12_[3-4,9%2]|PENDING\n12_1|RUNNING\n 12_2|COMPLETING\nnonsense\n";
        let queue = parse_queue(said);
        let task = |index| TaskId { job: 12, index };
        let expect = BTreeMap::from([
            (task(1), Queued::Running),
            (task(2), Queued::Running),
            (task(3), Queued::Pending),
            (task(4), Queued::Pending),
            (task(9), Queued::Pending),
        ]);
        assert_eq!(queue, expect);
    }

    #[test]
    fn causes_of_job_ends_are_parsed() {
        let said = "1_0|TIMEOUT\n1_1|OUT_OF_MEMORY\n1_2|CANCELLED\n1_3|NODE_FAIL\n";
        let ends: Vec<TaskEnd> = parse_ends(said).into_values().collect();
        let expect = [
            TaskEnd::Timeout,
            TaskEnd::Memory,
            TaskEnd::Cancelled,
            TaskEnd::Gone,
        ];
        assert_eq!(ends, expect);
    }
}
