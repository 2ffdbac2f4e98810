//! The first record of a trial, which remains if Proctor is killed.

use jiff::Timestamp;
use proctor_record::{
    VERSION,
    outcome::Outcome,
    record::{self, Record, TrialStatus},
    session::Counts,
};

use crate::plan::{TrialDefinitions, TrialPlan};

/// The record of a starting trial.
pub(crate) fn first_record(plan: &TrialPlan, run_id: &str) -> Record {
    let definitions = plan.definitions.as_ref();
    Record {
        version: record::RECORD_VERSION.to_owned(),
        run_id: run_id.to_owned(),
        trial: plan.number,
        outcome: Outcome::Interrupted,
        status: TrialStatus::Interrupted,
        score: None,
        agent: record::AgentRecord {
            name: plan.name.clone(),
            kind: plan.adapter.name().to_owned(),
            version: None,
            adapter_version: VERSION.to_owned(),
            program: None,
            package: plan.package.as_ref().map(ToString::to_string),
            model_requested: plan.agent.model().map(str::to_owned),
            model: None,
            mcp_servers: None,
            credentials: None,
            definition: definitions.map(TrialDefinitions::agent_record),
        },
        task: record::TaskRecord {
            name: plan.task.name.clone(),
            kind: Some(plan.task.kind),
            category: plan.task.category.clone(),
            config_file: plan.task.config_file().to_string(),
            config_hash: plan.task.config_hash.clone(),
            repo: plan.task.origin(),
            branch: plan.task.branch().map(str::to_owned),
            commit: None,
            tree: None,
            prompt_hash: None,
            notes: plan.task.notes.clone(),
            definition: definitions.map(TrialDefinitions::task_record),
            evaluators: definitions.map(|it| it.evaluators.digest.clone()),
        },
        started_at: Timestamp::now().to_string(),
        completed_at: None,
        duration_ms: None,
        limits: (&plan.task.limits).into(),
        sandbox: record::SandboxRecord::default(),
        gateway: None,
        delivery: Vec::new(),
        process: None,
        usage: None,
        agent_usage: None,
        session_id: None,
        turns: None,
        session_ms: None,
        tools_used: None,
        counts: Counts::default(),
        diff: None,
        sidecar: None,
        verdicts: Vec::new(),
        hooks: Vec::new(),
        judged_by: None,
        history: Vec::new(),
        iterations: Vec::new(),
        errors: Vec::new(),
        notes: Vec::new(),
        host: record::HostRecord::this(),
        proctor_version: VERSION.to_owned(),
    }
}
