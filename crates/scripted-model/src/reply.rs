//! A message of a script on its way to a client: intents resolved, still independent of the wire.

use crate::content::RequestContent;
use crate::script::{Block, Message, ToolUse, Usage};
use crate::tools::{self, DeclaredTool};

/// The longest piece of text that one event of a stream carries, in characters.
const PIECE_CHARS: usize = 40;

/// A message with what only the request knows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FilledReply {
    pub(crate) said: Vec<RequestContent>,
    pub(crate) usage: Usage,
    pub(crate) model: String,
    /// A number that no other reply of this performance has.
    pub(crate) serial: usize,
}

impl FilledReply {
    pub(crate) fn new(
        message: &Message,
        asked: &str,
        offered: &[DeclaredTool],
        serial: usize,
    ) -> Self {
        let say = |block: &Block| match block {
            Block::Text(text) => RequestContent::Text(text.clone()),
            Block::Thinking(text) => RequestContent::Thinking(text.clone()),
            Block::ToolUse(call) => RequestContent::Call(call.clone()),
            Block::WriteFile(file) => tools::write_file(offered, file),
            Block::RunCommand(command) => tools::run_command(offered, command),
        };
        Self {
            said: message.content.iter().map(say).collect(),
            usage: message.usage,
            model: message.model.clone().unwrap_or_else(|| asked.to_owned()),
            serial,
        }
    }

    pub(crate) fn calls_tools(&self) -> bool {
        self.said
            .iter()
            .any(|said| matches!(said, RequestContent::Call(_)))
    }

    /// The text of all text blocks.
    pub(crate) fn text(&self) -> String {
        let texts = self.said.iter().filter_map(|said| match said {
            RequestContent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The calls with their positions.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (usize, &ToolUse)> {
        let calls = self.said.iter().filter_map(|said| match said {
            RequestContent::Call(call) => Some(call),
            _ => None,
        });
        calls.enumerate()
    }
}

/// A text in pieces, as streams bring it.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(PIECE_CHARS).map(String::from_iter).collect();
    pieces.into_iter()
}
