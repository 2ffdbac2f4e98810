//! Images and files that a request names by their address. The provider fetches them, so they reach the Internet like
//! its own tools do.
//!
//! Inputs and results of the client's own tools may have any shape and are never fetched. They are skipped.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Members that a provider passes on without reading them: arguments of tools, and results that are objects.
const OPAQUE: [&str; 6] = ["arguments", "args", "input", "metadata", "response", "text"];

/// Members with the address of an image or a file, or with an object that has one.
const ADDRESSES: [&str; 8] = [
    "audio_url",
    "file_data",
    "fileData",
    "file_uri",
    "fileUri",
    "file_url",
    "image_url",
    "video_url",
];

/// The member by which a conversation names remote content, or `messages` if it is not readable.
pub(super) fn find(conversation: &[u8]) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_slice(conversation);
    let found = Search.deserialize(&mut reader);
    found.unwrap_or_else(|_| Some("messages".to_owned()))
}

/// Whether a value is an address, or an object with one. Data in the request itself is none.
fn has_address(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let text = text.trim_start().to_lowercase();
            !text.starts_with("data:") && text.contains(':')
        }
        Value::Object(members) => {
            let names = ["url", "fileUri", "file_uri", "file_data", "file_url"];
            let mut values = names.iter().filter_map(|name| members.get(*name));
            values.any(has_address)
        }
        _ => false,
    }
}

/// Whether the source of a block is an address.
fn is_remote(source: &Value) -> bool {
    source["type"] == "url" || has_address(source)
}

/// Reads a value as far as needed, and yields the member that names remote content.
struct Search;

impl<'de> DeserializeSeed<'de> for Search {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search {
    type Value = Option<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a conversation")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let remote = if OPAQUE.contains(&&*name) {
                map.next_value::<IgnoredAny>()?;
                false
            } else if ADDRESSES.contains(&&*name) {
                has_address(&map.next_value()?)
            } else if name == "source" {
                let source: Value = map.next_value()?;
                let inner = find(source["content"].to_string().as_bytes());
                found = found.or(inner);
                source.is_object() && is_remote(&source)
            } else {
                found = found.or(map.next_value_seed(Search)?);
                false
            };
            if remote {
                found = found.or(Some(name.into_owned()));
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(inner) = list.next_element_seed(Search)? {
            found = found.or(inner);
        }
        Ok(found)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_images_and_files_are_found() {
        for (conversation, name) in [
            (
                r#"[{"content":[{"type":"image","source":{"type":"url","url":"https://x/a.png"}}]}]"#,
                "source",
            ),
            (
                r#"[{"content":[{"type":"document","source":{"ty\u0070e":"u\u0072l","url":"http://x"}}]}]"#,
                "source",
            ),
            (
                r#"[{"content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"x"}}]}]}]"#,
                "source",
            ),
            (
                r#"[{"content":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"url"}}]}}]}]"#,
                "source",
            ),
            (
                r#"[{"content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]"#,
                "image_url",
            ),
            (
                r#"[{"content":[{"type":"input_image","image_url":" HTTPS://x"}]}]"#,
                "image_url",
            ),
            (
                r#"[{"content":[{"type":"input_file","file_url":"https://x"}]}]"#,
                "file_url",
            ),
            (
                r#"[{"content":[{"type":"file","file":{"file_data":"https://x"}}]}]"#,
                "file_data",
            ),
            (
                r#"[{"output":[{"type":"input_image","image_url":"ftp://x"}]}]"#,
                "image_url",
            ),
            (
                r#"[{"parts":[{"fileData":{"fileUri":"https://x"}}]}]"#,
                "fileData",
            ),
            (
                r#"{"parts":[{"file_data":{"file_uri":"gs://x"}}]}"#,
                "file_data",
            ),
            (
                r#"[{"parts":[{"functionResponse":{"response":{},"parts":[{"fileData":{"fileUri":"https://x"}}]}}]}]"#,
                "fileData",
            ),
            (r#"[{"content":"#, "messages"),
        ] {
            assert_eq!(
                find(conversation.as_bytes()).as_deref(),
                Some(name),
                "{conversation}"
            );
        }
    }

    #[test]
    fn data_and_objects_of_tools_are_not_addresses() {
        for conversation in [
            r#""https://x""#,
            "null",
            r#"[{"role":"user","content":"see https://x","n":[1,-1,0.5,true,null]}]"#,
            r#"[{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]"#,
            r#"[{"content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]"#,
            r#"[{"content":[{"type":"tool_use","input":{"source":{"type":"url","url":"https://x"},"image_url":"https://x"}}]}]"#,
            r#"[{"content":[{"type":"search_result","source":"https://x","content":[{"type":"text","text":"t"}]}]}]"#,
            r#"[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]"#,
            r#"[{"content":[{"type":"input_image","image_url":null,"file_id":"f"}]}]"#,
            r#"[{"content":[{"type":"file","file":{"file_data":"data:application/pdf;base64,AA","filename":"a"}}]}]"#,
            r#"[{"type":"function_call","arguments":"{\"image_url\":\"https://x\"}"}]"#,
            r#"[{"parts":[{"functionCall":{"args":{"fileData":{"fileUri":"https://x"}}}},{"inlineData":{"data":"AA"}}]}]"#,
            r#"[{"parts":[{"functionResponse":{"response":{"image_url":"https://x"}}}]}]"#,
        ] {
            assert_eq!(find(conversation.as_bytes()), None, "{conversation}");
        }
    }
}
