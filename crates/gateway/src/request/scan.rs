//! Finds the top-level members of a JSON object without parsing it, and changes single values in place.
//!
//! A request body of 200 KB is mostly prompt. The gateway needs only a few small members;
//! everything else is skipped and forwarded byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

/// Where a member's value lies in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScannedMember {
    /// The name with its escapes resolved.
    pub(crate) name: String,
    /// The bytes of the value.
    pub(crate) value: Range<usize>,
}

/// The members of interest of one object.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ScannedObject {
    members: Vec<ScannedMember>,
    /// Just behind the opening brace, where a new member can be put.
    inside: usize,
    is_empty: bool,
    /// A name occurs twice: readers disagree about which one counts.
    pub(crate) ambiguous: bool,
}

/// Byte classes for skipping over values: 0 is nothing of interest.
const QUOTE: u8 = 1;
const OPEN: u8 = 2;
const CLOSE: u8 = 3;
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    class[b'"' as usize] = QUOTE;
    class[b'{' as usize] = OPEN;
    class[b'[' as usize] = OPEN;
    class[b'}' as usize] = CLOSE;
    class[b']' as usize] = CLOSE;
    class
};

impl ScannedObject {
    /// Scans the object that fills `range` of `text` for members with these names. `None` if it is
    /// not a complete object.
    pub(crate) fn scan(text: &[u8], range: Range<usize>, names: &[&str]) -> Option<Self> {
        let text = &text[..range.end];
        let mut at = skip_blank(text, range.start);
        if text.get(at) != Some(&b'{') {
            return None;
        }
        at += 1;
        let mut object = Self {
            inside: at,
            ..Self::default()
        };
        at = skip_blank(text, at);
        if text.get(at) == Some(&b'}') {
            object.is_empty = true;
            return (skip_blank(text, at + 1) == text.len()).then_some(object);
        }
        loop {
            at = skip_blank(text, at);
            let name_end = skip_string(text, at)?;
            let name = unescape(&text[at..name_end]);
            at = skip_blank(text, name_end);
            if text.get(at) != Some(&b':') {
                return None;
            }
            at = skip_blank(text, at + 1);
            let end = skip_value(text, at)?;
            if let Some(name) = name
                && names.contains(&&*name)
            {
                object.note(name.into_owned(), at..end);
            }
            at = skip_blank(text, end);
            match text.get(at) {
                Some(b',') => at += 1,
                Some(b'}') => return (skip_blank(text, at + 1) == text.len()).then_some(object),
                _ => return None,
            }
        }
    }

    fn note(&mut self, name: String, value: Range<usize>) {
        if self.members.iter().any(|known| known.name == name) {
            self.ambiguous = true;
        }
        self.members.push(ScannedMember { name, value });
    }

    /// Where the value of this member lies: the last one counts, as it does for most readers.
    pub(crate) fn find(&self, name: &str) -> Option<Range<usize>> {
        let found = self.members.iter().rev().find(|m| m.name == name);
        found.map(|member| member.value.clone())
    }

    /// The member as a text, if it is one.
    pub(crate) fn text(&self, text: &[u8], name: &str) -> Option<String> {
        serde_json::from_slice(&text[self.find(name)?]).ok()
    }

    /// The member as a whole number, if it is one.
    pub(crate) fn whole(&self, text: &[u8], name: &str) -> Option<u64> {
        serde_json::from_slice(&text[self.find(name)?]).ok()
    }

    /// The member as a number, if it is one.
    pub(crate) fn number(&self, text: &[u8], name: &str) -> Option<f64> {
        serde_json::from_slice(&text[self.find(name)?]).ok()
    }

    /// Whether the member is `true`.
    pub(crate) fn is_true(&self, text: &[u8], name: &str) -> bool {
        self.find(name).is_some_and(|range| &text[range] == b"true")
    }

    /// The edit that gives this member this value, which is JSON.
    pub(crate) fn set(&self, name: &str, value: &str) -> Edit {
        match self.find(name) {
            Some(range) => Edit {
                range,
                text: value.to_owned(),
            },
            None => Edit {
                range: self.inside..self.inside,
                text: format!("\"{name}\":{value}{}", if self.is_empty { "" } else { "," }),
            },
        }
    }
}

/// A change of some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    range: Range<usize>,
    text: String,
}

/// The text with all edits made. They must not overlap.
pub(crate) fn apply(text: &Bytes, mut edits: Vec<Edit>) -> Bytes {
    if edits.is_empty() {
        return text.clone();
    }
    edits.sort_by_key(|edit| edit.range.start);
    let added: usize = edits.iter().map(|edit| edit.text.len() + 1).sum();
    let mut out = BytesMut::with_capacity(text.len() + added);
    let mut from = 0;
    for (index, edit) in edits.iter().enumerate() {
        out.extend_from_slice(&text[from..edit.range.start]);
        let joins = index > 0 && edits[index - 1].range == edit.range && !out.ends_with(b",");
        if joins {
            // Two new members of an object that was empty.
            out.extend_from_slice(b",");
        }
        out.extend_from_slice(edit.text.as_bytes());
        from = edit.range.end;
    }
    out.extend_from_slice(&text[from..]);
    out.freeze()
}

fn skip_blank(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// The end of the string that starts here.
fn skip_string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The end of the value that starts here.
fn skip_value(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => skip_string(text, at),
        b'{' | b'[' => skip_nested(text, at),
        _ => {
            let scalar =
                |byte: &u8| !matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
            let length = text[at..].iter().take_while(|byte| scalar(byte)).count();
            (length > 0).then_some(at + length)
        }
    }
}

fn skip_nested(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match CLASS[usize::from(*text.get(at)?)] {
            QUOTE => {
                at = skip_string(text, at)?;
                continue;
            }
            OPEN => depth += 1,
            CLOSE => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

fn unescape(quoted: &[u8]) -> Option<Cow<'_, str>> {
    let plain = &quoted[1..quoted.len() - 1];
    if plain.contains(&b'\\') {
        return serde_json::from_slice(quoted).ok().map(Cow::Owned);
    }
    std::str::from_utf8(plain).ok().map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const NAMES: &[&str] = &["model", "stream", "max_tokens", "temperature"];

    fn scan(text: &str) -> Option<ScannedObject> {
        ScannedObject::scan(text.as_bytes(), 0..text.len(), NAMES)
    }

    #[test]
    fn only_top_level_members_are_found() {
        let text = r#" {"messages":[{"model":"no","x":"}]\"{"}], "model" : "m-1","stream":true,
            "max_tokens":12,"temperature":0.5, "tools":{"stream":false}} "#;
        let object = scan(text).unwrap();
        let bytes = text.as_bytes();
        assert_eq!(object.text(bytes, "model").as_deref(), Some("m-1"));
        assert!(object.is_true(bytes, "stream"));
        assert_eq!(object.whole(bytes, "max_tokens"), Some(12));
        assert_eq!(object.number(bytes, "temperature"), Some(0.5));
        assert!(!object.ambiguous);
    }

    #[test]
    fn escaped_and_duplicate_names_are_found() {
        let text = r#"{"mod\u0065l":"hidden"}"#;
        let object = scan(text).unwrap();
        assert_eq!(
            object.text(text.as_bytes(), "model").as_deref(),
            Some("hidden")
        );
        let twice = r#"{"model":"a","x":1,"model":"b"}"#;
        let object = scan(twice).unwrap();
        assert_eq!(object.text(twice.as_bytes(), "model").as_deref(), Some("b"));
        assert!(object.ambiguous);
    }

    #[test]
    fn incomplete_object_is_none() {
        for text in [
            "",
            "[]",
            "{",
            r#"{"a""#,
            r#"{"a":"#,
            r#"{"a":1"#,
            r#"{"a":"x\"#,
            "{} x",
        ] {
            assert_eq!(scan(text), None, "{text}");
        }
    }

    #[test]
    fn edit_changes_only_its_value() {
        let text = Bytes::from_static(b"{ \"model\": \"a\",\"x\" :[1] }");
        let object = ScannedObject::scan(&text, 0..text.len(), NAMES).unwrap();
        let edits = vec![object.set("max_tokens", "5"), object.set("model", "\"bb\"")];
        assert_eq!(
            apply(&text, edits),
            "{\"max_tokens\":5, \"model\": \"bb\",\"x\" :[1] }"
        );
        let empty = Bytes::from_static(b"{}");
        let object = ScannedObject::scan(&empty, 0..2, NAMES).unwrap();
        let edits = vec![object.set("stream", "true"), object.set("model", "1")];
        assert_eq!(apply(&empty, edits), "{\"stream\":true,\"model\":1}");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z\"\\\\{}\\[\\],: ü]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z\"\\\\]{0,4}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn edit_in_place_equals_edit_of_a_tree(
            other in any_json(), model in proptest::option::of(any_json()),
        ) {
            let mut tree = json!({"a": other, "z": [1]});
            if let Some(model) = model {
                tree["model"] = model;
            }
            let text = Bytes::from(tree.to_string());
            let object = ScannedObject::scan(&text, 0..text.len(), NAMES).unwrap();
            let edited = apply(&text, vec![object.set("model", "\"new\"")]);
            tree["model"] = "new".into();
            prop_assert_eq!(serde_json::from_slice::<Value>(&edited).unwrap(), tree);
        }

        #[test]
        fn no_input_causes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut text = b"{\"model\":".to_vec();
            text.extend(bytes);
            let _ = ScannedObject::scan(&text, 0..text.len(), NAMES);
        }
    }
}
