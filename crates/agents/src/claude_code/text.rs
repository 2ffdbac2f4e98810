//! Plain-text output: the fallback without JSON. A few forms are recognized (`Model: NAME`, `Claude
//! Code vX.Y.Z`, `Input tokens: N`, `Output tokens: N`, `[TOOL: name] args`); all other text is the
//! assistant's message.

use proctor_record::{
    session::{MessageKind, Role, SessionEvent, SessionHost, Text},
    usage::{Figures, Usage, UsageSource},
};

use crate::text_cap::TextCap;

/// The maximum size of a message that is combined from lines, to limit memory.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// The maximum length of a form; longer lines are text.
const MAX_FORM_BYTES: usize = 200;
/// Model aliases that the CLI accepts.
const MODEL_ALIASES: [&str; 4] = ["opus", "sonnet", "haiku", "opusplan"];

/// Reads plain text.
#[derive(Default)]
pub(super) struct TextReader {
    message: String,
    last_message: Option<String>,
    has_spoken: bool,
    cap: TextCap,
    input_tokens: PrintedFigure,
    output_tokens: PrintedFigure,
    pub(super) model: Option<String>,
    pub(super) version: Option<String>,
}

/// A figure that may be printed repeatedly, for each call or as a running total. The largest value
/// is a lower bound in both cases.
#[derive(Clone, Copy, Default)]
struct PrintedFigure {
    largest: Option<u64>,
    is_repeated: bool,
}

impl PrintedFigure {
    fn add(&mut self, value: Option<u64>) {
        let Some(value) = value else { return };
        self.is_repeated |= self.largest.is_some_and(|largest| largest != value);
        self.largest = self.largest.max(Some(value));
    }
}

impl TextReader {
    /// Reads one line, without terminal escapes.
    pub(super) fn line(&mut self, line: &str, host: &mut dyn SessionHost) {
        // A terminal shows only the text after the last carriage return.
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

    /// Whether events have been reported, which cannot be undone.
    pub(super) fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Whether there was any text.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_spoken && self.message.trim().is_empty()
    }

    /// The pending lines, if the output is not plain text.
    pub(super) fn take_back(&mut self) -> String {
        std::mem::take(&mut self.message)
    }

    /// Reports the pending text as one message.
    pub(super) fn flush(&mut self, host: &mut dyn SessionHost) {
        let text = self.message.trim_matches('\n');
        if !text.trim().is_empty() {
            let logged = self.cap.take(text);
            if !logged.is_empty() {
                say(Role::Assistant, logged, host);
            }
            self.last_message = Some(text.to_owned());
            self.has_spoken = true;
        }
        self.message.clear();
    }

    /// The output is over: give the rest as a message.
    pub(super) fn finish(&mut self, host: &mut dyn SessionHost) {
        self.flush(host);
        if let Some(note) = self.cap.note() {
            say(Role::System, &note, host);
        }
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

    /// Reads the forms in a short line. Returns whether the line is only a form.
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

fn say(role: Role, text: &str, host: &mut dyn SessionHost) {
    host.event(SessionEvent::Message {
        role,
        kind: MessageKind::Text,
        content: Text::Plain(text),
        timestamp: None,
        parent: None,
    });
}

fn tool_call(line: &str) -> Option<(&str, &str)> {
    let (name, arguments) = line.trim_start().strip_prefix("[TOOL:")?.split_once(']')?;
    let name = name.trim();
    (!name.is_empty()).then_some((name, arguments.trim()))
}

/// The text after `form` in `line`, if `form` starts a word.
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
