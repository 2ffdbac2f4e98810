//! The steps of a task in one trial: what is prepared for each, whether the next one starts, and
//! the verdict of all.
//!
//! Each step is an iteration of the agent with its own prompt, limits and verdicts, in the same
//! environment. A task without steps is one step.

use std::time::Instant;

use camino::Utf8Path;
use proctor_process::Background;
use proctor_record::{
    outcome::Outcome,
    record::{IterationReason, SandboxRecord, Verdict, VerdictStatus},
};
use proctor_sandbox::{
    ContainerEnv, ExecEnv, container_env,
    shell::{self, ShellCommand},
};
use serde_json::{Map, Value, json};

use super::{
    AgentRun, AgentStart, Agents, Contestant, Judged, Prepared, Site, Stage, Trial, container,
    iterate::kept, prepare::NotRun,
};
use crate::{
    evaluate::{self, CLEARED, PASSING, copy_without_ignored},
    plan::TrialPlan,
    task::{Step, StepStrategy},
    workspace::Healthcheck,
};

/// The code of a step whose set-up script or health check failed.
const NOT_READY: &str = "STEP_NOT_READY";
/// The output of set-up scripts and health checks, below the artifacts.
pub(super) const SETUP: &str = "setup";

/// The continuation after a judged step.
pub(super) enum NextStep {
    /// The agent ran the next step.
    Ran(Box<AgentRun>),
    /// There is no further step.
    Stopped(Box<Judged>),
}

impl<'a> Trial<'a> {
    /// The current step; `None` for a task without steps.
    pub(super) fn step(&self) -> Option<&'a Step> {
        self.steps?.all.get(self.step_index)
    }

    /// Why the current step starts.
    pub(super) fn first_reason(&self) -> IterationReason {
        match self.step_index {
            0 => IterationReason::First,
            _ => IterationReason::NextStep,
        }
    }

    /// Moves the verdicts of a judged step to its iteration.
    pub(super) fn note_step(&mut self) {
        // A step whose agent could not be started has no iteration.
        let step = self.step().map(|step| step.name.as_str());
        let last = self.record.iterations.last_mut();
        if let Some(last) = last.filter(|last| step.is_some() && last.step.as_deref() == step) {
            last.verdicts = std::mem::take(&mut self.record.verdicts);
            last.diff.clone_from(&self.record.diff);
        }
    }

    /// Runs the next step, unless the trial ends with the judged one.
    pub(super) async fn advance(&mut self, mut judged: Judged, next: &'a TrialPlan) -> NextStep {
        let goes_on = self.goes_on(&judged);
        let stage = match judged.stage.take() {
            Some(stage) if goes_on => stage,
            stage => {
                judged.stage = stage;
                return NextStep::Stopped(Box::new(judged));
            }
        };
        let Stage {
            mut agents,
            mut site,
        } = stage;
        match self.start_step(next, &mut agents, &mut site).await {
            Ok((prompt, start)) => {
                let prepared = Prepared {
                    agents,
                    site,
                    prompt,
                    start,
                };
                NextStep::Ran(Box::new(self.iterate(prepared).await))
            }
            // As in Harbor, the rewards of earlier steps stay.
            Err(NotRun::Infrastructure {
                code: NOT_READY,
                message,
                ..
            }) => {
                self.step_index -= 1;
                self.note(message);
                judged.stage = Some(Stage { agents, site });
                NextStep::Stopped(Box::new(judged))
            }
            Err(why) => NextStep::Ran(Box::new(AgentRun {
                end: self.not_started(why).of(&agents),
                stage: Some(Stage { agents, site }),
            })),
        }
    }

    /// Whether the next step starts after the judged one.
    fn goes_on(&mut self, judged: &Judged) -> bool {
        let last = self.record.iterations.last();
        let (Some(step), Some(last)) = (self.step(), last) else {
            return false;
        };
        let is_over = judged.outcome.is_infrastructure()
            || judged.outcome == Outcome::Interrupted
            || self.context.cancel.is_cancelled();
        let rewards = last.verdicts.iter().find_map(rewards_of);
        if is_over || rewards.is_none() {
            return false;
        }
        if judged.outcome == Outcome::BudgetExceeded {
            self.note("the budget was exhausted before the last step".to_owned());
            return false;
        }
        match step.missed(rewards.as_ref()) {
            None => true,
            Some(why) => {
                self.note(format!("the trial ended after step `{}`: {why}", step.name));
                false
            }
        }
    }

    /// Makes the next step the current one, and starts its agent in a fresh HOME.
    async fn start_step(
        &mut self,
        next: &'a TrialPlan,
        agents: &mut Agents,
        site: &mut Site,
    ) -> Result<(String, AgentStart), NotRun> {
        let filed = self.file_iteration(agents.contestant);
        self.plan = next;
        self.step_index += 1;
        filed.map_err(|error| kept(&error))?;
        agents.contestant = Contestant::Primary;
        agents.deadline = self.deadline();
        self.become_user(site);
        if let ExecEnv::Docker(exec_env) = &site.exec_env {
            let cleared = [CLEARED.as_slice(), &["/logs/agent"]].concat();
            exec_env.remove(&cleared).await.map_err(container::failed)?;
        }
        self.make_logs(&site.exec_env).await?;
        self.prepare_step(&site.exec_env).await?;
        if let Some(problem) = self.bring_workspace_out(site).await {
            return Err(std::io::Error::other(problem).into());
        }
        // The files of the step are not the agent's work.
        self.settle(&mut site.workspace).await?;
        let equipment = self.begin_iteration(agents, site, IterationReason::NextStep);
        let equipment = equipment.await?;
        let prompt = self.prompt(site.workspace.path(), agents.deadline.as_deref())?;
        let start = self.launch(agents, site, equipment, &prompt).await?;
        Ok((prompt, start))
    }

    /// Makes the user of the current step the agent's user.
    fn become_user(&mut self, site: &mut Site) {
        let environment = self.plan.task.environment();
        let own = environment.and_then(|it| it.user.clone());
        if let (ExecEnv::Docker(exec_env), SandboxRecord::Docker(record)) =
            (&mut site.exec_env, &mut self.record.sandbox)
        {
            let user = own.or_else(|| exec_env.image.user.clone());
            if record.user != user {
                exec_env.set_user(Some(user.clone().unwrap_or_else(|| "0:0".to_owned())));
                record.user = user;
            }
        }
    }

    /// Copies the files of the current step into the working directory, runs its set-up script and
    /// waits for its health check.
    pub(super) async fn prepare_step(&self, exec_env: &ExecEnv) -> Result<(), NotRun> {
        let (Some(step), ExecEnv::Docker(container)) = (self.step(), exec_env) else {
            return Ok(());
        };
        let workdir = self.workdir_in(container);
        if let Some(files) = &step.workdir {
            let stage = self.private.join(format!("step-{}", self.step_index));
            copy_without_ignored(files, &stage)?;
            self.hand_over(exec_env, &[&stage]).await?;
            let uploaded = container
                .container
                .upload(stage.as_std_path(), workdir.as_str());
            uploaded.await.map_err(container::failed)?;
            if files.join(Step::SETUP).is_file() {
                let line = format!("bash {}", Step::SETUP);
                let limit = self.plan.task.environment().map(|it| it.build_timeout);
                let ran = self.run_for_step(container, &workdir, (&line, limit));
                ran.await.map_err(|why| not_ready(step, &why))?;
            }
        }
        if let Some(check) = &step.healthcheck {
            let healthy = self.wait_until_healthy(container, &workdir, check);
            healthy.await.map_err(|why| not_ready(step, &why))?;
        }
        Ok(())
    }

    /// Runs a command of the task as the agent's user.
    async fn run_for_step(
        &self,
        exec_env: &ContainerEnv,
        workdir: &Utf8Path,
        (line, timeout): (&str, Option<std::time::Duration>),
    ) -> Result<(), String> {
        let mut env = container_env(&exec_env.image, Utf8Path::new("/root"));
        evaluate::use_own_home(&mut env, &exec_env.image);
        let own = self.plan.task.environment().map(|it| it.env.clone());
        env.extend(own.unwrap_or_default());
        let command = ShellCommand {
            argv: &shell::line(line),
            env,
            cwd: workdir,
            timeout,
            logs: self.artifacts.join(SETUP),
            background: Background::End,
        };
        let user = match &self.record.sandbox {
            SandboxRecord::Docker(record) => record.user.clone(),
            SandboxRecord::Local => None,
        };
        let user = user.or_else(|| exec_env.image.user.clone());
        let user = user.unwrap_or_else(|| "0:0".to_owned());
        let ran = command.run_as(Some(&user), exec_env, self.context.cancel);
        let ran = ran.await?;
        match ran.code(line)? {
            0 => Ok(()),
            code => Err(format!(
                "`{line}` exited with code {code}: {}",
                ran.last_line
            )),
        }
    }

    async fn wait_until_healthy(
        &self,
        exec_env: &ContainerEnv,
        workdir: &Utf8Path,
        check: &Healthcheck,
    ) -> Result<(), String> {
        let began = Instant::now();
        let mut failures = 0;
        loop {
            let limit = Some(check.timeout).filter(|it| !it.is_zero());
            let ran = self.run_for_step(exec_env, workdir, (&check.command, limit));
            let Err(why) = ran.await else {
                return Ok(());
            };
            let is_starting = began.elapsed() < check.start_period;
            failures += u32::from(!is_starting);
            if failures >= check.retries.max(1) || self.context.cancel.is_cancelled() {
                return Err(format!("the health check failed: {why}"));
            }
            let pause = if is_starting {
                check.start_interval
            } else {
                check.interval
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.context.cancel.cancelled() => {}
            }
        }
    }

    /// Makes one verdict from those of the steps.
    pub(super) fn combine_steps(&mut self) {
        let Some(steps) = self.steps else {
            return;
        };
        let iterations = self.record.iterations.iter();
        let judged: Vec<(&str, &Verdict)> = iterations
            .filter_map(|it| Some((it.step.as_deref()?, it.verdicts.first()?)))
            .collect();
        let verifier = self.plan.task.verifier();
        let key = verifier.and_then(|verifier| verifier.reward_key.as_deref());
        let rule = CombineRule {
            strategy: steps.strategy,
            steps: steps.all.len(),
            key,
        };
        if let Some(verdict) = rule.combine(&judged) {
            self.record.verdicts = vec![verdict];
        }
    }
}

fn not_ready(step: &Step, why: &str) -> NotRun {
    NotRun::Infrastructure {
        outcome: Outcome::Sandbox,
        code: NOT_READY,
        message: format!("step `{}` could not be prepared: {why}", step.name),
    }
}

/// The rewards in a verdict. Tests that an agent tampered with give none.
fn rewards_of(verdict: &Verdict) -> Option<Map<String, Value>> {
    let rewards = verdict.metrics.get("rewards")?.as_object()?;
    let mut rewards = rewards.clone();
    if verdict.metrics.contains_key("tampered") {
        rewards.values_mut().for_each(|reward| *reward = json!(0));
    }
    Some(rewards)
}

/// How the verdicts of steps become one.
struct CombineRule<'a> {
    strategy: StepStrategy,
    /// The number of steps of the task.
    steps: usize,
    /// The key of the deciding reward.
    key: Option<&'a str>,
}

impl CombineRule<'_> {
    /// The verdict of a trial; `None` if no step was judged.
    fn combine(&self, judged: &[(&str, &Verdict)]) -> Option<Verdict> {
        let (_, last) = judged.last()?;
        let is_unknown = |verdict: &Verdict| {
            matches!(
                verdict.status,
                VerdictStatus::Error | VerdictStatus::Skipped
            )
        };
        let unknown = judged.iter().find(|(_, verdict)| is_unknown(verdict));
        let all: Vec<Map<String, Value>> =
            judged.iter().filter_map(|(_, it)| rewards_of(it)).collect();
        if let Some((name, verdict)) = unknown.or(judged.last().filter(|_| all.is_empty())) {
            let mut verdict = (*verdict).clone();
            verdict.message = format!("step {name}: {}", verdict.message);
            return Some(verdict);
        }
        let rewards = match self.strategy {
            StepStrategy::Mean => mean(&all),
            StepStrategy::Final => rewards_of(last)?,
        };
        let reward = evaluate::deciding(&rewards, self.key);
        let of_steps: Vec<String> = judged
            .iter()
            .map(|(name, verdict)| {
                let own = rewards_of(verdict);
                let own = own.and_then(|own| evaluate::deciding(&own, self.key));
                format!(
                    "{name} {}",
                    own.map_or("none".to_owned(), |it| it.to_string())
                )
            })
            .collect();
        let missing = self.steps.saturating_sub(judged.len());
        let is_whole = missing == 0 && all.len() == judged.len();
        let is_passed = is_whole && reward.is_some_and(|reward| reward >= PASSING);
        let shown = reward.map_or("none".to_owned(), |reward| reward.to_string());
        let strategy = self.strategy.as_str();
        let rest = match missing {
            0 => String::new(),
            more => format!(", not started: {more}"),
        };
        let mut verdict = (*last).clone();
        verdict.message = format!(
            "reward {shown} ({strategy} of {}{rest})",
            of_steps.join(", ")
        );
        verdict.status = match reward {
            None => VerdictStatus::Error,
            Some(_) if is_passed => VerdictStatus::Passed,
            Some(_) => VerdictStatus::Failed,
        };
        verdict.score = reward.map(|reward| reward.clamp(0.0, 1.0));
        verdict.metrics.insert("reward".to_owned(), json!(reward));
        verdict.metrics.insert("rewards".to_owned(), rewards.into());
        verdict.duration_ms = judged.iter().map(|(_, it)| it.duration_ms).sum();
        let artifacts = judged.iter().flat_map(|(_, it)| it.artifacts.clone());
        verdict.artifacts = artifacts.collect();
        Some(verdict)
    }
}

/// The mean of each key; a missing key counts as 0.
fn mean(all: &[Map<String, Value>]) -> Map<String, Value> {
    let mut sums: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for (key, value) in all.iter().flatten() {
        *sums.entry(key).or_default() += value.as_f64().unwrap_or_default();
    }
    let count = all.len() as f64;
    let means = sums
        .into_iter()
        .map(|(key, sum)| (key.to_owned(), json!(sum / count)));
    means.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict of a step with these rewards; without rewards, one that failed.
    fn verdict(rewards: &Value) -> Verdict {
        let metrics = match rewards {
            Value::Null => json!({"rewards": null}),
            all => json!({"rewards": all}),
        };
        let read = serde_json::from_value(json!({
            "evaluator": "verifier", "status": "failed", "score": 0.0, "weight": 1.0,
            "metrics": metrics, "message": "said", "duration_ms": 2, "timestamp": "",
        }));
        read.unwrap()
    }

    #[track_caller]
    fn check(
        strategy: StepStrategy,
        steps: usize,
        rewards: &[Value],
        expect: (VerdictStatus, Value, &str),
    ) {
        let names = ["one", "two", "three"];
        let verdicts: Vec<Verdict> = rewards.iter().map(verdict).collect();
        let judged: Vec<(&str, &Verdict)> = names.into_iter().zip(&verdicts).collect();
        let rule = CombineRule {
            strategy,
            steps,
            key: None,
        };
        let found = rule.combine(&judged).unwrap();
        let (status, rewards, message) = expect;
        assert_eq!(found.message, message);
        assert_eq!(found.status, status);
        assert_eq!(found.metrics["rewards"], rewards);
    }

    #[test]
    fn rewards_of_steps_are_combined_like_harbors() {
        use StepStrategy::{Final, Mean};
        use VerdictStatus::{Failed, Passed};
        let one = |reward: f64| json!({"reward": reward});
        check(
            Mean,
            2,
            &[one(1.0), one(1.0)],
            (Passed, one(1.0), "reward 1 (mean of one 1, two 1)"),
        );
        check(
            Mean,
            2,
            &[one(1.0), one(0.0)],
            (Failed, one(0.5), "reward 0.5 (mean of one 1, two 0)"),
        );
        check(
            Final,
            2,
            &[one(0.0), one(1.0)],
            (Passed, one(1.0), "reward 1 (final of one 0, two 1)"),
        );
        // A key that a step does not have counts as 0.
        check(
            Mean,
            2,
            &[json!({"reward": 1, "speed": 3}), one(1.0)],
            (
                Passed,
                json!({"reward": 1.0, "speed": 1.5}),
                "reward 1 (mean of one 1, two 1)",
            ),
        );
        // Harbor leaves steps that were not started out of the mean. The trial did not pass.
        check(
            Mean,
            3,
            &[one(1.0)],
            (Failed, one(1.0), "reward 1 (mean of one 1, not started: 2)"),
        );
        // A step whose tests took too long has no reward.
        check(
            Mean,
            2,
            &[Value::Null, one(1.0)],
            (Failed, one(1.0), "reward 1 (mean of one none, two 1)"),
        );
        check(
            Mean,
            2,
            &[Value::Null],
            (Failed, Value::Null, "step one: said"),
        );
    }

    #[test]
    fn tampered_step_has_no_reward() {
        let mut cheat = verdict(&json!({"reward": 1}));
        cheat
            .metrics
            .insert("tampered".to_owned(), json!(["/bin/sh"]));
        assert_eq!(rewards_of(&cheat).unwrap()["reward"], 0);
    }

    #[test]
    fn step_without_a_verdict_makes_the_trial_unknown() {
        let mut broken = verdict(&Value::Null);
        broken.status = VerdictStatus::Error;
        let passed = verdict(&json!({"reward": 1}));
        let rule = CombineRule {
            strategy: StepStrategy::Mean,
            steps: 2,
            key: None,
        };
        let found = rule.combine(&[("one", &passed), ("two", &broken)]).unwrap();
        assert_eq!(found.status, VerdictStatus::Error);
        assert!(rule.combine(&[]).is_none());
    }
}
