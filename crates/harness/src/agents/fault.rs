//! A failed call to a model's API, as a CLI tells of it, and what it stands for.

use crate::outcome::Outcome;

/// A failed call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ApiFault {
    /// The HTTP status, where it is told.
    pub(super) status: Option<u64>,
    /// What the CLI says about it. Never what a model said.
    pub(super) message: String,
}

const QUOTA: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "quota exceeded",
    "credit balance",
    "billing",
    "payment required",
    "out of credits",
];
const AUTH: &[&str] = &[
    "authentication",
    "unauthorized",
    "api key",
    "api_key",
    "not logged in",
    "invalid token",
    "permission denied by the api",
];
const RATE_LIMIT: &[&str] = &["rate limit", "rate_limit", "ratelimit", "too many requests"];
const OVERLOADED: &[&str] = &["overloaded", "service unavailable", "serviceunavailable"];
const NETWORK: &[&str] = &[
    "connection",
    "connect to",
    "econnrefused",
    "econnreset",
    "enotfound",
    "network",
    "fetch failed",
    "timed out",
    "timeout",
    "internal server error",
    "internalservererror",
    "socket",
    "transport_error",
];

impl ApiFault {
    /// A failed call of which only words are known.
    pub(super) fn said(message: impl Into<String>) -> ApiFault {
        ApiFault {
            status: None,
            message: message.into(),
        }
    }

    /// What it stands for; `None` when the request itself was refused, or when it is no
    /// failure of the API at all. The status decides, except that a spent quota hides behind
    /// the status of a rate limit.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        let said = self.message.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        match self.status {
            Some(402) => Some(Outcome::Quota),
            Some(403 | 429) if says(QUOTA) => Some(Outcome::Quota),
            Some(401 | 403) => Some(Outcome::Auth),
            Some(429) => Some(Outcome::RateLimit),
            Some(503 | 529) => Some(Outcome::Overloaded),
            Some(408 | 500..=599) => Some(Outcome::Network),
            Some(_) => None,
            None => [
                (QUOTA, Outcome::Quota),
                (RATE_LIMIT, Outcome::RateLimit),
                (AUTH, Outcome::Auth),
                (OVERLOADED, Outcome::Overloaded),
                (NETWORK, Outcome::Network),
            ]
            .into_iter()
            .find_map(|(words, outcome)| says(words).then_some(outcome)),
        }
    }

    /// The first line of what was said, for a message.
    pub(super) fn describe(&self) -> String {
        let line = self.message.trim().lines().next().unwrap_or_default();
        let line = &line[..line.floor_char_boundary(300)];
        match (self.status, line) {
            (Some(status), "") => format!("status {status}"),
            (Some(status), line) => format!("status {status}: {line}"),
            (None, "") => "no answer from the API".to_owned(),
            (None, line) => line.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Option<u64>, message: &str, expect: Option<Outcome>) {
        let fault = ApiFault {
            status,
            message: message.to_owned(),
        };
        assert_eq!(fault.outcome(), expect, "{fault:?}");
    }

    #[test]
    fn the_status_decides_and_words_only_where_there_is_none() {
        check(Some(401), "", Some(Outcome::Auth));
        check(Some(403), "forbidden", Some(Outcome::Auth));
        check(
            Some(429),
            "Rate limit reached; see your api key",
            Some(Outcome::RateLimit),
        );
        check(
            Some(429),
            "You exceeded your current quota",
            Some(Outcome::Quota),
        );
        check(Some(500), "rate limit", Some(Outcome::Network));
        check(Some(529), "", Some(Outcome::Overloaded));
        check(Some(400), "api key", None);
        check(Some(404), "connection", None);
        check(None, "connect ECONNREFUSED", Some(Outcome::Network));
        check(None, "AuthenticationError: bad", Some(Outcome::Auth));
        check(None, "litellm.RateLimitError", Some(Outcome::RateLimit));
        check(None, "the diff did not apply", None);
    }
}
