//! Plain-text output: the fallback when there is no JSON. A few forms are understood
//! (`Model: NAME`, `Claude Code vX.Y.Z`, `Input tokens: N`, `Output tokens: N`,
//! `[TOOL: name] args`); everything else is what the assistant said.

use proctor_record::{
    session::{MessageKind, Role, SessionEvent, SessionHost, Text},
    usage::{Figures, Usage, UsageSource},
};

/// Lines become one message up to this size, so that memory stays flat.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Longer lines are prose or data, not one of the forms.
const MAX_FORM_BYTES: usize = 200;
/// Model names that the CLI takes besides full ones.
const MODEL_ALIASES: [&str; 4] = ["opus", "sonnet", "haiku", "opusplan"];

/// Reads plain text.
#[derive(Default)]
pub(super) struct TextReader {
    message: String,
    last_message: Option<String>,
    has_spoken: bool,
    input_tokens: Seen,
    output_tokens: Seen,
    pub(super) model: Option<String>,
    pub(super) version: Option<String>,
}

/// A figure that may be printed more than once, for each call or as a running total: the
/// largest one is right either way as a lower bound.
#[derive(Clone, Copy, Default)]
struct Seen {
    largest: Option<u64>,
    is_repeated: bool,
}

impl Seen {
    fn add(&mut self, value: Option<u64>) {
        let Some(value) = value else { return };
        self.is_repeated |= self.largest.is_some_and(|largest| largest != value);
        self.largest = self.largest.max(Some(value));
    }
}

impl TextReader {
    /// Take one line, without terminal escapes.
    pub(super) fn line(&mut self, line: &str, host: &mut dyn SessionHost) {
        // A terminal shows the text after the last carriage return.
        let line = line.trim_end();
        let line = line.rsplit('\r').next().unwrap_or(line);
        if let Some((name, arguments)) = tool_call(line) {
            self.flush(host);
            self.has_spoken = true;
            host.event(SessionEvent::ToolCall {
                id: None,
                name,
                arguments: Text::Plain(arguments),
                parent: None,
            });
            return;
        }
        if line.len() <= MAX_FORM_BYTES && self.form(line.trim()) {
            return;
        }
        if self.message.len() + line.len() > MAX_MESSAGE_BYTES {
            self.flush(host);
        }
        self.message.push_str(line);
        self.message.push('\n');
    }

    /// Whether events have gone out that cannot be taken back.
    pub(super) fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Whether there was any text.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_spoken && self.message.trim().is_empty()
    }

    /// The lines held back: the output was not plain text.
    pub(super) fn take_back(&mut self) -> String {
        std::mem::take(&mut self.message)
    }

    /// Give what was said so far as one message.
    pub(super) fn flush(&mut self, host: &mut dyn SessionHost) {
        let text = self.message.trim_matches('\n');
        if !text.trim().is_empty() {
            host.event(SessionEvent::Message {
                role: Role::Assistant,
                kind: MessageKind::Text,
                content: Text::Plain(text),
                timestamp: None,
                parent: None,
            });
            self.last_message = Some(text.to_owned());
            self.has_spoken = true;
        }
        self.message.clear();
    }

    /// The last message.
    pub(super) fn last_message(&self) -> Option<&str> {
        self.last_message.as_deref()
    }

    /// The tokens that were printed.
    pub(super) fn usage(&self) -> Option<Usage> {
        let (input, output) = (self.input_tokens, self.output_tokens);
        let total = Figures {
            input_tokens: input.largest,
            output_tokens: output.largest,
            total_tokens: input
                .largest
                .zip(output.largest)
                .map(|(input, output)| input.saturating_add(output)),
            ..Figures::default()
        };
        (total != Figures::default()).then_some(Usage {
            total,
            source: UsageSource::Text,
            lower_bound: input.is_repeated || output.is_repeated,
            per_model: std::collections::BTreeMap::new(),
        })
    }

    /// Look for the forms in a short line; true when the line is nothing else.
    fn form(&mut self, line: &str) -> bool {
        let input = after(line, "Input tokens:").and_then(number);
        let output = after(line, "Output tokens:").and_then(number);
        self.input_tokens.add(input);
        self.output_tokens.add(output);
        let model = after(line, "Model:").and_then(model_name);
        let version = after(line, "Claude Code v").and_then(version_number);
        let is_form = ["Input tokens:", "Output tokens:", "Model:", "Claude Code v"]
            .iter()
            .any(|form| line.starts_with(form));
        let is_understood =
            input.is_some() || output.is_some() || model.is_some() || version.is_some();
        self.model = self.model.take().or(model.map(str::to_owned));
        self.version = self.version.take().or(version.map(str::to_owned));
        is_form && is_understood && line.split_whitespace().count() <= 6
    }
}

fn tool_call(line: &str) -> Option<(&str, &str)> {
    let (name, arguments) = line.trim_start().strip_prefix("[TOOL:")?.split_once(']')?;
    let name = name.trim();
    (!name.is_empty()).then_some((name, arguments.trim()))
}

/// The text after `form` in `line`, where `form` starts a word.
fn after<'a>(line: &'a str, form: &str) -> Option<&'a str> {
    let at = line.find(form)?;
    let starts_word = !line[..at].ends_with(char::is_alphanumeric);
    starts_word.then(|| line[at + form.len()..].trim_start())
}

fn number(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != ',')
        .unwrap_or(text.len());
    text[..end].replace(',', "").parse().ok()
}

fn model_name(text: &str) -> Option<&str> {
    let name = text.split_whitespace().next()?;
    (name.contains("claude") || MODEL_ALIASES.contains(&name)).then_some(name)
}

fn version_number(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && !".-+".contains(c))
        .unwrap_or(text.len());
    let version = text[..end].trim_end_matches(['.', '-', '+']);
    let is_version = version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.');
    is_version.then_some(version)
}
