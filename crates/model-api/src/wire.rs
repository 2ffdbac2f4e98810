//! The providers, their APIs and the kinds of requests.

use serde::{Deserialize, Serialize};

/// A model provider, with its own key and base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The Messages API.
    Anthropic,
    /// Chat completions and responses.
    OpenAi,
    /// `generateContent`.
    Gemini,
}

impl Provider {
    /// All providers.
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAi, Self::Gemini];

    /// The name in settings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Gemini => "gemini",
        }
    }
}

/// The API that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// Anthropic messages.
    Anthropic,
    /// OpenAI chat completions.
    OpenAiChat,
    /// OpenAI responses.
    OpenAiResponses,
    /// Gemini.
    Gemini,
}

impl Wire {
    /// The provider of this API.
    pub fn provider(self) -> Provider {
        match self {
            Self::Anthropic => Provider::Anthropic,
            Self::OpenAiChat | Self::OpenAiResponses => Provider::OpenAi,
            Self::Gemini => Provider::Gemini,
        }
    }
}

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The model generates output: metered and charged to budgets.
    Generate,
    /// The tokens of a prompt are counted, free of charge.
    CountTokens,
    /// Models are listed, free of charge.
    Lookup,
}

/// The API and endpoint of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The API.
    pub wire: Wire,
    /// The kind of request.
    pub kind: Kind,
    /// The canonical path, without the query.
    pub path: String,
    /// The model, if the path names it.
    pub model: Option<String>,
    /// Whether the path asks for a stream.
    pub streams: bool,
}

impl Route {
    pub(crate) fn new(wire: Wire, kind: Kind, path: impl Into<String>) -> Self {
        Self {
            wire,
            kind,
            path: path.into(),
            model: None,
            streams: false,
        }
    }
}
