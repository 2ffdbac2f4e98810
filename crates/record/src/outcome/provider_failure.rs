//! The only mapping from a failed model call to an [`Outcome`], by its HTTP status and its error
//! words. Adapters use it for the messages of their CLIs, the gateway for the calls that it
//! observes.

use std::ops::RangeInclusive;

use super::Outcome;

/// Outcomes by status. The first match is used; other statuses mean that the request itself was
/// refused.
const BY_STATUS: &[(RangeInclusive<u16>, Outcome)] = &[
    (401..=401, Outcome::Auth),
    (402..=402, Outcome::Quota),
    (403..=403, Outcome::Auth),
    (408..=408, Outcome::Network),
    (429..=429, Outcome::RateLimit),
    (503..=503, Outcome::Overloaded),
    (529..=529, Outcome::Overloaded),
    (500..=599, Outcome::Network),
];

/// Words of an exhausted quota. Providers send them with several statuses.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "exceeded your current quota",
    "quota exceeded",
    "exhausted your",
    "credit balance",
    "billing_error",
    "billing_hard_limit",
    "billing_not_active",
    "billing details",
    "check your billing",
    "payment required",
    "out of credits",
    "insufficient credits",
];

/// Words that indicate a temporary limit although it is called a quota, as in Gemini.
const RETRY_SOON: &[&str] = &["please retry in", "retrydelay"];

/// Words of an overloaded provider, also with a generic server error.
const OVERLOADED: &[&str] = &[
    "overloaded",
    "service unavailable",
    "serviceunavailable",
    "high demand",
    "at capacity",
];

/// Words of refused credentials, also with status 400.
const BAD_CREDENTIALS: &[&str] = &[
    "authentication_failed",
    "authentication_error",
    "api key not valid",
    "api_key_invalid",
    "oauth_org_not_allowed",
];

const RATE_LIMIT: &[&str] = &[
    "rate limit",
    "rate_limit",
    "rate-limit",
    "ratelimit",
    "too many requests",
    "'ve hit your",
    "’ve hit your",
    "usage limit reached",
    "hour limit reached",
    "daily limit reached",
    "weekly limit reached",
    "session limit reached",
    "reached your usage limit",
    "out of extra usage",
];

const AUTH: &[&str] = &[
    "authentication",
    "failed to authenticate",
    "unauthenticated",
    "unauthorized",
    "api key",
    "api_key",
    "not logged in",
    "please run /login",
    "invalid token",
    "oauth token",
    "oauth_org_not_allowed",
    "permission_error",
    "permission denied by the api",
    "does not have access to claude",
    "organization has been disabled",
];

const NETWORK: &[&str] = &[
    "connection",
    "connect to",
    "econnrefused",
    "econnreset",
    "enotfound",
    "eai_again",
    "network",
    "fetch failed",
    "error: terminated",
    "premature close",
    "timed out",
    "timeout",
    "etimedout",
    "internal server error",
    "internalservererror",
    "server_error",
    "api_error",
    "bad gateway",
    "socket",
    "stream disconnected",
    "stream ended without a finish reason",
    "transport_error",
    // Answers that are not the JSON of the API.
    "malformed response",
    "could not parse message into json",
    "incomplete json segment",
    "is not valid json",
    "in json at position",
    "unexpected end of json",
    "invalid json",
    "json parse error",
    "failed to parse json",
    "jsondecodeerror",
];

/// Words without a status, in order of precedence.
const BY_WORDS: &[(&[&str], Outcome)] = &[
    (QUOTA, Outcome::Quota),
    (RATE_LIMIT, Outcome::RateLimit),
    (AUTH, Outcome::Auth),
    (OVERLOADED, Outcome::Overloaded),
    (NETWORK, Outcome::Network),
];

/// Words before a status in messages of CLIs.
const BEFORE_STATUS: &[&str] = &[
    "api error: ",
    "api error (",
    "request rejected (",
    "error code: ",
    "status code ",
];

/// The outcome of a failed model call.
///
/// `words` are the error words of the provider or the CLI, never those of a model. `None` means
/// that the provider refused this request itself, or that the words do not describe a failed call.
/// The status decides, with three exceptions: words of an exhausted quota, refused credentials and
/// an overload take precedence over a less exact status.
pub fn provider_failure(status: Option<u16>, words: &str) -> Option<Outcome> {
    let words = words.to_lowercase();
    let contains = |any: &[&str]| any.iter().any(|word| words.contains(word));
    let status = status.or_else(|| status_in(&words));
    let by_status = |status: u16| {
        let found = BY_STATUS.iter().find(|(range, _)| range.contains(&status));
        found.map(|(_, outcome)| *outcome)
    };
    match status.filter(|status| *status >= 400) {
        Some(400 | 403 | 429) | None if contains(QUOTA) => Some(quota(&contains)),
        Some(400) if contains(BAD_CREDENTIALS) => Some(Outcome::Auth),
        Some(500..=599) if contains(OVERLOADED) => Some(Outcome::Overloaded),
        Some(status) => by_status(status),
        None => {
            let found = BY_WORDS.iter().find(|(any, _)| contains(any));
            found.map(|(_, outcome)| *outcome)
        }
    }
}

/// A quota per minute is a rate limit: the provider reports when to retry.
fn quota(contains: &dyn Fn(&[&str]) -> bool) -> Outcome {
    if contains(RETRY_SOON) && !contains(&["perday", "per day"]) {
        Outcome::RateLimit
    } else {
        Outcome::Quota
    }
}

/// The HTTP status in the error words of a CLI, such as `API Error: 529 busy`.
pub fn status_in(words: &str) -> Option<u16> {
    let words = words.to_lowercase();
    BEFORE_STATUS.iter().find_map(|before| {
        let (_, after) = words.split_once(before)?;
        let status = after.get(..3)?.parse().ok()?;
        (400..600).contains(&status).then_some(status)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rows: &[(Option<u16>, &str)], expect: Option<Outcome>) {
        for (status, words) in rows {
            assert_eq!(
                provider_failure(*status, words),
                expect,
                "{status:?} {words}"
            );
        }
    }

    #[test]
    fn credentials() {
        let rows = [
            (Some(401), ""),
            (Some(403), "forbidden"),
            (Some(400), "API key not valid. Please pass a valid API key."),
            (None, "authentication_failed"),
            (None, "AuthenticationError: bad"),
            (
                None,
                "Failed to authenticate. API Error: 401 {\"type\":\"error\"}",
            ),
            (None, "Not logged in · Please run /login"),
            (None, "Invalid API key · Fix external API key"),
            (None, "OAuth token revoked · Please run /login"),
            (None, "Your account does not have access to Claude"),
            (Some(401), "invalid API key: unknown to the gateway"),
        ];
        check(&rows, Some(Outcome::Auth));
    }

    #[test]
    fn quotas_behind_any_status() {
        let rows = [
            (Some(402), ""),
            (
                Some(429),
                "You exceeded your current quota, please check your plan and billing details",
            ),
            (Some(429), "insufficient_quota"),
            (
                None,
                "API Error: Request rejected (429) · You exceeded your current quota",
            ),
            (Some(403), "Quota exceeded"),
            (
                Some(400),
                "Your credit balance is too low to access the Anthropic API",
            ),
            (Some(400), "billing_error"),
            (None, "Credit balance is too low"),
            (
                None,
                "API Error: 429 {\"error\":{\"type\":\"insufficient_quota\"}}",
            ),
            (
                Some(429),
                "quota exceeded for GenerateRequestsPerDay. Please retry in 3h",
            ),
        ];
        check(&rows, Some(Outcome::Quota));
    }

    #[test]
    fn rate_limits() {
        let rows = [
            (Some(429), ""),
            (Some(429), "Rate limit reached; see your api key"),
            // OpenAI's message refers to the billing page.
            (
                Some(429),
                "Rate limit reached. Add a payment method at https://platform.openai.com/account/billing",
            ),
            // Gemini calls a limit per minute a quota.
            (
                Some(429),
                "You exceeded your current quota. Please retry in 32.5s.",
            ),
            (Some(429), "too many concurrent calls with this key"),
            (None, "rate_limit"),
            (None, "API Error: Request rejected (429) · Slow down"),
            (None, "litellm.RateLimitError"),
            (
                None,
                "Sorry, you have been rate-limited. Please wait 2 minutes before trying again",
            ),
            (None, "You've hit your limit · resets 9pm (UTC)"),
            (None, "You’ve hit your usage limit. Try again at 3:05 PM."),
            (None, "Claude AI usage limit reached|1763413200"),
            (None, "5-hour limit reached ∙ resets 3pm"),
        ];
        check(&rows, Some(Outcome::RateLimit));
    }

    #[test]
    fn overloaded_providers() {
        let rows = [
            (Some(503), ""),
            (Some(503), "server_error"),
            (Some(529), "server_error"),
            (Some(500), "overloaded_error"),
            (None, "Overloaded"),
            (None, "API Error: 529 busy"),
            (
                None,
                "API Error: 503 Service temporarily unavailable. Check your inference gateway",
            ),
            (None, "API Error: Repeated 529 Overloaded errors"),
            (Some(200), "overloaded_error"),
        ];
        check(&rows, Some(Outcome::Overloaded));
    }

    #[test]
    fn connections_servers_and_unreadable_answers() {
        let rows = [
            (Some(500), "rate limit"),
            (Some(502), "cannot reach the provider"),
            (Some(408), ""),
            (None, "connect ECONNREFUSED"),
            (None, "API Error: terminated"),
            (None, "API Error: Connection error."),
            (None, "API Error: Request timed out."),
            (None, "server_error"),
            (
                None,
                "API Error: Unexpected token '<', \"<html>\" is not valid JSON",
            ),
            (None, "API Error: Unexpected end of JSON input"),
            (None, "API Error: JSON Parse error: Unrecognized token '<'"),
            (None, "API Error: Failed to parse JSON"),
            (
                None,
                "API Error: API returned an empty or malformed response (HTTP 200)",
            ),
            (None, "Could not parse message into JSON: {not json"),
        ];
        check(&rows, Some(Outcome::Network));
    }

    #[test]
    fn refused_requests_and_other_words() {
        let rows = [
            (Some(400), "api key"),
            (Some(400), "Not logged in"),
            (Some(404), "connection"),
            (Some(413), ""),
            (None, "API Error: 400 {\"message\":\"connection\"}"),
            (None, "the diff did not apply"),
            (None, "Prompt is too long"),
            (None, "invalid_request"),
            (None, "max_output_tokens"),
            (None, ""),
        ];
        check(&rows, None);
    }
}
