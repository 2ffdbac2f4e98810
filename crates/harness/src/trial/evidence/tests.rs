//! The outcome of every kind of evidence, as tables.

use super::*;

fn session(outcome: Outcome) -> Evidence {
    let mut evidence = Evidence::of(outcome, Cancelled::No);
    evidence.time.code = "AGENT_TIMEOUT";
    evidence
}

fn ended(outcome: Outcome, by: EndedBy) -> Evidence {
    let mut evidence = session(outcome);
    evidence.ending.ended_by = Some(by);
    evidence
}

fn oom(outcome: Outcome, has_memory_limit: bool) -> Evidence {
    let mut evidence = session(outcome);
    evidence.resources.oom_kills = 1;
    evidence.resources.has_memory_limit = has_memory_limit;
    evidence
}

fn disk(outcome: Outcome) -> Evidence {
    let mut evidence = session(outcome);
    evidence.resources.disk_exceeded = Some(1000);
    evidence
}

fn gateway(outcome: Outcome, gateway: GatewayEvidence) -> Evidence {
    Evidence {
        gateway: Some(gateway),
        ..session(outcome)
    }
}

fn failed_call(outcome: Outcome) -> Evidence {
    let failed = FailedCall {
        outcome: Outcome::RateLimit,
        what: "status 429".to_owned(),
    };
    let seen = GatewayEvidence {
        calls: 2,
        last_failure: Some(failed),
        ..GatewayEvidence::default()
    };
    gateway(outcome, seen)
}

fn exhausted(outcome: Outcome) -> Evidence {
    let seen = GatewayEvidence {
        calls: 2,
        exhausted: Some("usd".to_owned()),
        ..GatewayEvidence::default()
    };
    gateway(outcome, seen)
}

fn missed(outcome: Outcome) -> Evidence {
    let seen = GatewayEvidence {
        calls: 2,
        replay_misses: 1,
        ..GatewayEvidence::default()
    };
    gateway(outcome, seen)
}

fn unreachable(outcome: Outcome, calls_unreachable: u64) -> Evidence {
    let seen = GatewayEvidence {
        calls: 2,
        calls_unreachable,
        ..GatewayEvidence::default()
    };
    gateway(outcome, seen)
}

fn unknown_key(outcome: Outcome) -> Evidence {
    let seen = GatewayEvidence {
        shows_unknown_key: true,
        ..GatewayEvidence::default()
    };
    gateway(outcome, seen)
}

fn cancelled(outcome: Outcome, cancelled: Cancelled) -> Evidence {
    Evidence {
        cancelled,
        ..session(outcome)
    }
}

fn broken(outcome: Outcome) -> Evidence {
    Evidence {
        capture_error: Some("no space left".to_owned()),
        ..failed_call(outcome)
    }
}

/// Evidence, the expected outcome, and the code of the last error or `note`.
type Row = (Evidence, Outcome, &'static str);

#[track_caller]
fn check(rows: Vec<Row>) {
    for (evidence, outcome, code) in rows {
        let decision = super::outcome(&evidence, Vec::new());
        assert_eq!(decision.outcome, outcome, "{evidence:?}");
        let last = decision.errors.last().and_then(|it| it.code.as_deref());
        let note = decision.notes.last().map(|_| "note");
        assert_eq!(last.or(note).unwrap_or_default(), code, "{evidence:?}");
    }
}

#[test]
fn outcome_of_every_session_without_other_evidence_is_the_sessions() {
    for outcome in Outcome::ALL {
        let code = match outcome {
            Outcome::Timeout => "AGENT_TIMEOUT",
            _ => "",
        };
        check(vec![(session(outcome), outcome, code)]);
    }
}

#[test]
fn outcome_by_memory_and_disk() {
    use Outcome::{AgentError, Completed, OutOfMemory, Timeout};
    check(vec![
        (oom(Completed, false), Completed, "note"),
        (oom(Completed, true), Completed, "note"),
        (oom(AgentError, false), OutOfMemory, "OUT_OF_MEMORY"),
        (oom(AgentError, true), AgentError, "OUT_OF_MEMORY"),
        (oom(Timeout, false), OutOfMemory, "OUT_OF_MEMORY"),
        (disk(Completed), AgentError, "DISK_LIMIT"),
        (disk(AgentError), AgentError, "DISK_LIMIT"),
    ]);
}

#[test]
fn outcome_by_the_gateways_account() {
    use Outcome::{
        AgentError, Auth, BudgetExceeded, Completed, GaveUp, Loop, Network, OutputLimit,
        Overloaded, RateLimit, Sandbox, Timeout,
    };
    check(vec![
        (failed_call(Completed), Completed, ""),
        (failed_call(GaveUp), GaveUp, ""),
        (failed_call(OutputLimit), OutputLimit, ""),
        (failed_call(AgentError), RateLimit, "MODEL_CALLS_FAILED"),
        (failed_call(Timeout), RateLimit, "MODEL_CALLS_FAILED"),
        (failed_call(Loop), RateLimit, "MODEL_CALLS_FAILED"),
        // The session knows more about a failure that it classed.
        (failed_call(Overloaded), Overloaded, ""),
        (exhausted(Completed), Completed, ""),
        (exhausted(AgentError), BudgetExceeded, "BUDGET_EXCEEDED"),
        (exhausted(Auth), BudgetExceeded, "BUDGET_EXCEEDED"),
        (exhausted(Timeout), BudgetExceeded, "BUDGET_EXCEEDED"),
        (missed(Completed), Completed, "note"),
        (missed(AgentError), Sandbox, "REPLAY_MISS"),
        (unreachable(AgentError, 2), Network, "PROVIDER_UNREACHABLE"),
        (unreachable(GaveUp, 2), Network, "PROVIDER_UNREACHABLE"),
        (unreachable(AgentError, 1), AgentError, ""),
        (unreachable(Completed, 2), Completed, ""),
        (unknown_key(Completed), Completed, "note"),
        (unknown_key(AgentError), Auth, "UNKNOWN_API_KEY"),
        (unknown_key(Timeout), Auth, "UNKNOWN_API_KEY"),
    ]);
}

#[test]
fn outcome_without_a_model_call() {
    use Outcome::{AgentError, Completed, GaveUp, Timeout};
    let called = |outcome, calls, needs_model| {
        let seen = GatewayEvidence {
            calls,
            ..GatewayEvidence::default()
        };
        Evidence {
            needs_model,
            ..gateway(outcome, seen)
        }
    };
    let without_gateway = Evidence {
        needs_model: true,
        ..session(Completed)
    };
    check(vec![
        (called(Completed, 0, true), AgentError, "NO_MODEL_CALL"),
        (called(Completed, 1, true), Completed, ""),
        (called(Completed, 0, false), Completed, ""),
        (called(GaveUp, 0, true), GaveUp, ""),
        (called(Timeout, 0, true), Timeout, "AGENT_TIMEOUT"),
        (without_gateway, Completed, ""),
    ]);
}

#[test]
fn outcome_without_a_required_mcp_server() {
    use Outcome::{AgentError, Auth, Completed, Interrupted, Sandbox};
    let lacks = |outcome| Evidence {
        unusable_mcp: vec![McpServer {
            name: "db".to_owned(),
            status: "failed".to_owned(),
        }],
        ..session(outcome)
    };
    check(vec![
        (lacks(Completed), Sandbox, "MCP_SERVER_FAILED"),
        (lacks(AgentError), Sandbox, "MCP_SERVER_FAILED"),
        (lacks(Auth), Auth, ""),
        (lacks(Interrupted), Interrupted, ""),
    ]);
    let said = vec![LogError::new("CLAUDE_NO_RESULT", "ended without a result")];
    let decision = super::outcome(&lacks(AgentError), said);
    assert_eq!(decision.errors.len(), 1);
    let message = &decision.errors[0].message;
    assert!(message.contains("`db` (failed)"), "{message}");
}

#[test]
fn outcome_by_the_end_of_the_process() {
    use Outcome::{AgentError, Completed, Loop, Sandbox, Timeout};
    let repeated = Evidence {
        repeated: Some("the same call 9 times".to_owned()),
        ..ended(Loop, EndedBy::Loop)
    };
    let workspace = Evidence {
        workspace_error: Some("the container is gone".to_owned()),
        ..session(Completed)
    };
    check(vec![
        (ended(Timeout, EndedBy::WallLimit), Timeout, "AGENT_TIMEOUT"),
        (ended(Timeout, EndedBy::IdleLimit), Timeout, "AGENT_TIMEOUT"),
        (ended(Completed, EndedBy::WallLimit), Completed, ""),
        (repeated, Loop, "AGENT_LOOP"),
        (workspace, Sandbox, "SANDBOX_FAILED"),
        (broken(Completed), Sandbox, "SANDBOX_FAILED"),
        (broken(AgentError), Sandbox, "SANDBOX_FAILED"),
        (
            ended(AgentError, EndedBy::SupervisorLost),
            Sandbox,
            "SUPERVISOR_LOST",
        ),
    ]);
}

#[test]
fn outcome_of_a_cancelled_trial() {
    use Outcome::{AgentError, Completed, GaveUp, Interrupted, RateLimit, Timeout};
    let because = Cancelled::Because(Timeout);
    let lost = |by| Evidence {
        is_change_lost: true,
        ..cancelled(Completed, by)
    };
    let by_us = |outcome, by| Evidence {
        cancelled: Cancelled::Interrupted,
        ..ended(outcome, by)
    };
    let failed = Evidence {
        cancelled: Cancelled::Interrupted,
        ..failed_call(AgentError)
    };
    check(vec![
        (cancelled(Interrupted, Cancelled::No), Interrupted, ""),
        (
            cancelled(Interrupted, Cancelled::Interrupted),
            Interrupted,
            "",
        ),
        (cancelled(Interrupted, because), Timeout, ""),
        // The agent was killed with us.
        (
            cancelled(AgentError, Cancelled::Interrupted),
            Interrupted,
            "",
        ),
        (cancelled(AgentError, because), Timeout, ""),
        (cancelled(AgentError, Cancelled::No), AgentError, ""),
        (by_us(AgentError, EndedBy::OutputLimit), AgentError, ""),
        (cancelled(GaveUp, Cancelled::Interrupted), GaveUp, ""),
        (failed, RateLimit, "MODEL_CALLS_FAILED"),
        // Completed work stands, unless it is unknown.
        (cancelled(Completed, Cancelled::Interrupted), Completed, ""),
        (lost(Cancelled::Interrupted), Interrupted, ""),
        (lost(because), Timeout, ""),
        (lost(Cancelled::No), Completed, ""),
    ]);
}

#[test]
fn timeout_error_of_the_session_is_replaced() {
    let mut evidence = ended(Outcome::Timeout, EndedBy::IdleLimit);
    evidence.time.limit = Some(Duration::from_secs(3));
    evidence.time.took_ms = 3010;
    let said = vec![
        LogError::new("AGENT_TIMEOUT", "less exact"),
        LogError::new("OTHER", "kept"),
    ];
    let decision = super::outcome(&evidence, said);
    let messages: Vec<_> = decision
        .errors
        .iter()
        .map(|it| it.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "kept",
            "idle timeout of 3000 ms: the agent was ended after 3010 ms; its output up to then is kept"
        ]
    );
}
