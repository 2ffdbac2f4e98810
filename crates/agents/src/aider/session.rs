//! Reads aider's text and its analytics log.

use proctor_record::{
    outcome::Ending,
    session::{Role, SessionHost},
    transcript::strip_ansi,
    usage::{Usage, UsageSource, Usd},
};
use serde_json::Value;

use crate::{
    fault::ApiFault,
    reader::Reader,
    tokens::{self, Tokens},
    transcript::{self, Transcript, text},
    verdict::End,
};

/// Prefixes of lines that aider itself prints. The model's text does not matter if the analytics
/// log shows whether its call was answered.
const OWN: &[&str] = &[
    "Applied edit to ",
    "Commit ",
    "Repo-map: ",
    "Git repo: ",
    "Weak model: ",
    "Editor model: ",
    "Model: ",
    "Aider respects your privacy",
    "HTTPSConnectionPool(",
    "Summarization failed",
    "Added ",
    "Creating empty file ",
    "The LLM did not conform to the edit format.",
    "Failed to generate commit message!",
];

/// The text that aider adds to every server error, including a closed connection. It has no further
/// meaning.
const ADVICE: &str = "The API provider's servers are down or overloaded.";

/// Reads the output of one aider process.
#[derive(Default)]
pub(super) struct AiderReader {
    transcript: Transcript,
    /// The model's text, until a line of aider itself ends it.
    said: String,
    /// The lines of an error, which are wrapped at 80 columns.
    error: Option<String>,
    printed: Tokens,
    logged: Option<Analytics>,
    is_empty: bool,
    has_side_calls: bool,
}

/// The data of the analytics log.
#[derive(Default)]
struct Analytics {
    tokens: Tokens,
    answers: u64,
    /// Whether a call was started and not answered.
    is_open: bool,
}

impl Reader for AiderReader {
    fn transcript(&mut self) -> &mut Transcript {
        &mut self.transcript
    }

    fn line(&mut self, line: &[u8], host: &mut dyn SessionHost) {
        let line = String::from_utf8_lossy(line);
        self.text(strip_ansi(&line).trim_end(), host);
    }

    fn file(&mut self, bytes: &[u8], _host: &mut dyn SessionHost) {
        let mut analytics = Analytics::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(event) = serde_json::from_slice::<Value>(line) {
                analytics.event(&event);
            }
        }
        self.logged = Some(analytics);
    }

    fn finish(&mut self, _ending: &Ending, host: &mut dyn SessionHost) -> Option<Usage> {
        self.flush(host);
        self.end_error();
        if let Some(logged) = &self.logged {
            // The text is not evidence: the model wrote most of it.
            let is_answered = logged.answers > 0 && !logged.is_open;
            self.transcript.turns = Some(logged.answers);
            match (is_answered, &self.transcript.end) {
                (true, End::GaveUp { .. }) => {}
                (true, _) => self.transcript.end = End::Done,
                (false, End::Done) => self.transcript.end = End::Open,
                (false, _) => {}
            }
        }
        if self.is_empty && self.transcript.end == End::Done {
            self.transcript.end = End::Failed(ApiFault::said("the model's answer was empty"));
        }
        let (tokens, source) = match &self.logged {
            Some(logged) => (logged.tokens, UsageSource::Sidecar),
            None => (self.printed, UsageSource::Text),
        };
        let mut usage = tokens.usage(source)?;
        usage.lower_bound = self.has_side_calls || self.transcript.end != End::Done;
        Some(usage)
    }
}

impl AiderReader {
    fn text(&mut self, line: &str, host: &mut dyn SessionHost) {
        if let Some(error) = &mut self.error {
            if !line.is_empty() && !line.starts_with("Retrying in ") {
                error.push(' ');
                error.push_str(line);
                return;
            }
            self.end_error();
        }
        match line {
            _ if line.starts_with("Aider v") => {
                self.transcript.version = Some(line["Aider v".len()..].to_owned());
            }
            _ if line.starts_with("Main model: ") || line.starts_with("Model: ") => {
                self.introduce(line, host);
            }
            _ if line.starts_with("litellm.") => {
                self.flush(host);
                self.error = Some(line.to_owned());
            }
            _ if line.starts_with("Retrying in ") => self.retry(line, host),
            _ if line.starts_with("Tokens: ") => self.tokens(line, host),
            _ if line.starts_with("Only ") && line.ends_with("reflections allowed, stopping.") => {
                self.flush(host);
                self.transcript.end = End::gave_up("MAX_TURNS", format!("gave up: {line}"));
            }
            _ if line.starts_with("Empty response received from LLM") => self.is_empty = true,
            _ if OWN.iter().any(|own| line.starts_with(own)) => self.own(line, host),
            _ => {
                self.said.push_str(line);
                self.said.push('\n');
            }
        }
    }

    fn introduce(&mut self, line: &str, host: &mut dyn SessionHost) {
        let model = line.split_whitespace().nth(2);
        if self.transcript.model.is_none() {
            self.transcript.model = model.map(str::to_owned);
            self.transcript.started(host);
        }
    }

    fn own(&mut self, line: &str, host: &mut dyn SessionHost) {
        // Its figures do not include the call for a commit message.
        self.has_side_calls |= line.starts_with("Commit ");
        if line.strip_prefix("Applied edit to ") == Some(self.said.trim()) {
            // aider repeats the file name before the edit.
            self.said.clear();
        }
        self.flush(host);
        transcript::say(host, Role::System, line, None);
    }

    /// Reports the model's text.
    fn flush(&mut self, host: &mut dyn SessionHost) {
        let said = std::mem::take(&mut self.said);
        if !said.trim().is_empty() {
            self.is_empty = false;
            self.transcript.said(said.trim(), host);
        }
    }

    fn end_error(&mut self) {
        if let Some(error) = self.error.take() {
            let error = error.replace(ADVICE, "");
            self.transcript.end = End::Failed(ApiFault::said(error.trim_end()));
        }
    }

    fn retry(&mut self, line: &str, host: &mut dyn SessionHost) {
        if let End::Failed(fault) = &self.transcript.end {
            self.transcript.end = End::Retrying(fault.clone());
        }
        self.transcript.retry(line, host);
    }

    /// Parses `Tokens: 1.0k sent, 50 received. Cost: $0.0030 message, $0.0030 session.` of one
    /// call.
    fn tokens(&mut self, line: &str, host: &mut dyn SessionHost) {
        self.flush(host);
        self.transcript.end = End::Done;
        let mut tokens = Tokens::default();
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.windows(2) {
            let what = pair[1].trim_end_matches([',', '.']);
            match what {
                "sent" => tokens.input = count(pair[0]),
                "received" => tokens.output = count(pair[0]),
                "message" => tokens.cost = money(pair[0]),
                _ => {}
            }
        }
        self.printed = self.printed.plus(tokens);
        self.printed.report(host);
    }
}

impl Analytics {
    fn event(&mut self, event: &Value) {
        match text(event, "/event") {
            Some("message_send_starting") => self.is_open = true,
            Some("message_send") => {
                self.is_open = false;
                self.answers += 1;
                self.tokens = self.tokens.plus(Tokens {
                    input: tokens::number(event, "/properties/prompt_tokens"),
                    output: tokens::number(event, "/properties/completion_tokens"),
                    // aider reports a cost of 0 for a model without a price.
                    cost: tokens::dollars(event, "/properties/cost")
                        .filter(|cost| cost.nanos() > 0),
                    ..Tokens::default()
                });
            }
            _ => {}
        }
    }
}

/// Parses a rounded number: `50`, `1.0k`, `2M`.
fn count(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 1e3),
        (at, 'M') => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    let number: f64 = number.replace(',', "").parse().ok()?;
    let count = (number * unit).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked first"
    )]
    (0.0..1e15).contains(&count).then_some(count as u64)
}

fn money(text: &str) -> Option<Usd> {
    let dollars: f64 = text.trim_start_matches('$').parse().ok()?;
    Usd::from_dollars(dollars)
}
