//! A failed model call in a CLI's output.

use proctor_record::outcome::{Outcome, provider_failure};

/// A failed call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ApiFault {
    /// The HTTP status, if reported.
    pub(super) status: Option<u64>,
    /// The error message of the CLI, never the model's text.
    pub(super) message: String,
}

impl ApiFault {
    /// A failed call with only a message.
    pub(super) fn said(message: impl Into<String>) -> ApiFault {
        ApiFault {
            status: None,
            message: message.into(),
        }
    }

    /// Adds error words of another event about the same call.
    pub(super) fn add_words(&mut self, words: &str) {
        if !self.message.is_empty() && !words.is_empty() {
            self.message.push_str(", ");
        }
        self.message.push_str(words);
    }

    /// The outcome of the call; `None` if the API refused the request itself, or no call failed.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        let status = self.status.and_then(|status| u16::try_from(status).ok());
        provider_failure(status, &self.message)
    }

    /// The first line of the message.
    pub(super) fn describe(&self) -> String {
        let line = self.message.trim().lines().next().unwrap_or_default();
        let line = &line[..line.floor_char_boundary(300)];
        match (self.status, line) {
            (Some(status), "") => format!("status {status}"),
            (Some(status), line) => format!("status {status}: {line}"),
            (None, "" | "unknown") => "no answer from the API".to_owned(),
            (None, line) => line.to_owned(),
        }
    }
}
