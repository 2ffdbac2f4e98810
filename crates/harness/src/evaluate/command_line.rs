//! A command in a configuration file: a list of words, or a shell command.

use proctor_sandbox::shell;
use schemars::JsonSchema;
use serde::Deserialize;

/// A list of words, or a shell command.
#[derive(Clone, Debug)]
pub(super) struct CommandLine(pub(super) Vec<String>);

impl CommandLine {
    /// Whether the program is missing.
    pub(super) fn is_empty(&self) -> bool {
        let line = [String::from("sh"), String::from("-c")];
        match self.0.strip_prefix(line.as_slice()) {
            Some([text]) => text.trim().is_empty(),
            _ => self.0.first().is_none_or(String::is_empty),
        }
    }
}

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> serde::de::Visitor<'de> for Words {
            type Value = Vec<String>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of words or a shell command")
            }
            fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<Vec<String>, E> {
                Ok(shell::line(line))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> Result<Vec<String>, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(words)
            }
        }
        deserializer.deserialize_any(Words).map(CommandLine)
    }
}

impl JsonSchema for CommandLine {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Command".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "oneOf": [
                { "type": "string", "minLength": 1, "description": "a shell command" },
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
            ]
        })
    }
}
