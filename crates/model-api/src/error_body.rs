//! Error bodies in the form that clients of each API expect.

use serde_json::{Value, json};

use crate::wire::{Provider, Wire};

impl Wire {
    /// An error in the form that clients of this API expect.
    pub fn error_body(self, status: u16, message: &str) -> Value {
        match self {
            Self::Anthropic => anthropic(status, message),
            Self::OpenAiChat | Self::OpenAiResponses => openai(status, message),
            Self::Gemini => gemini(status, message),
        }
    }

    /// The status of a response to a key whose budget is spent. Clients do not retry it for minutes.
    pub fn quota_status(self) -> u16 {
        match self.provider() {
            Provider::Anthropic | Provider::Gemini => 403,
            Provider::OpenAi => 429,
        }
    }

    /// The body of that response.
    pub fn quota_body(self, message: &str) -> Value {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => openai_quota(message),
            Self::Anthropic | Self::Gemini => self.error_body(self.quota_status(), message),
        }
    }
}

/// The type that the Anthropic API gives to an error of this status.
pub fn anthropic_error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn anthropic(status: u16, message: &str) -> Value {
    json!({"type": "error", "error": {"type": anthropic_error_type(status), "message": message}})
}

/// An error of both OpenAI APIs.
fn openai(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        403 => ("invalid_request_error", Some("permission_denied")),
        404 => ("invalid_request_error", Some("not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        500.. => ("server_error", None),
        _ => ("invalid_request_error", None),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// An error of both OpenAI APIs for a spent budget.
fn openai_quota(message: &str) -> Value {
    let kind = "insufficient_quota";
    json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
}

fn gemini(status: u16, message: &str) -> Value {
    let name = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}
