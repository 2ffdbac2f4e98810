//! Reads a tree into a type. Every error is a `Fault` at its key or value, with the expected value,
//! the actual value, and a suggestion.

use std::{
    cell::{Cell, RefCell},
    fmt::{self, Display},
};

use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeOwned, DeserializeSeed, EnumAccess, Expected, IntoDeserializer, MapAccess,
        SeqAccess, Unexpected, VariantAccess, Visitor,
    },
    forward_to_deserialize_any,
};

use crate::{
    fault::{Fault, FaultKind},
    node::{Node, Value},
    span::Span,
    suggest,
};

impl Node {
    /// Reads this node as a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        T::deserialize(NodeReader::new(self)).map_err(|error| error.at(self.span).0)
    }

    /// Reads this map as a `T` with optional keys. A key with an invalid value is skipped and its
    /// fault is added to `faults`, so that one fault does not hide the others.
    pub fn read_collecting<T: DeserializeOwned>(&self, faults: &mut Vec<Fault>) -> Option<T> {
        let mut rest = self.clone();
        loop {
            let fault = match rest.read() {
                Ok(value) => return Some(value),
                Err(fault) => fault,
            };
            let is_faulty = |(key, _, node): &(Span, String, Node)| {
                key.start <= fault.span.start && fault.span.end <= node.span.end.max(key.end)
            };
            let removed = match &mut rest.value {
                Value::Map(entries) => entries
                    .iter()
                    .position(is_faulty)
                    .map(|at| entries.remove(at)),
                _ => None,
            };
            faults.push(fault);
            removed.as_ref()?;
        }
    }
}

/// The name by which [`Node`] asks [`NodeReader`] for the node itself.
const NODE: &str = "$proctor_document::Node";

thread_local! {
    /// The node that `NodeReader` passes to `NodeVisitor`, since serde has no type for it.
    static PASSED: RefCell<Option<Node>> = const { RefCell::new(None) };
}

/// A field of the type `Node` keeps its part of the tree, with positions. It can only be read from
/// a tree.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_newtype_struct(NODE, NodeVisitor)
    }
}

struct NodeVisitor;

impl Visitor<'_> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a config file")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        PASSED
            .take()
            .ok_or_else(|| E::invalid_type(Unexpected::Unit, &self))
    }
}

/// The keys of the struct `T`.
pub fn keys_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let keys = Cell::new(&[] as &[&str]);
    let read = T::deserialize(FieldNames(&keys));
    debug_assert!(read.is_err(), "a struct requests its fields");
    keys.get()
}

/// Records the names of the fields of a struct, and returns no value.
struct FieldNames<'k>(&'k Cell<&'static [&'static str]>);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ReadError> {
        Err(ReadError::new("not a struct".to_owned()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.0.set(fields);
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// An error during reading: the first node with a position adds it.
#[derive(Debug)]
pub(crate) struct ReadError(Fault, Placed);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    No,
    Yes,
}

impl ReadError {
    fn new(message: String) -> ReadError {
        ReadError(Fault::new(Span::default(), message), Placed::No)
    }

    fn hint(mut self, hint: impl Into<String>) -> ReadError {
        self.0 = self.0.with_hint(hint);
        self
    }

    fn at(mut self, span: Span) -> ReadError {
        if self.1 == Placed::No {
            self.0.span = span;
            self.1 = Placed::Yes;
        }
        self
    }
}

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ReadError {}

impl de::Error for ReadError {
    fn custom<T: Display>(message: T) -> ReadError {
        ReadError::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> ReadError {
        let wanted = expected.to_string();
        let error = ReadError::new(format!(
            "expected {}, found {}",
            words(&wanted),
            named(&found)
        ));
        match (wanted.as_str(), found) {
            (
                "a string",
                Unexpected::Signed(_)
                | Unexpected::Unsigned(_)
                | Unexpected::Float(_)
                | Unexpected::Bool(_),
            ) => error.hint("put it in quotes"),
            (_, Unexpected::Unit) => error.hint("add a value or remove the key"),
            (wanted, Unexpected::Float(value)) if is_integer(wanted) && value.fract() == 0.0 => {
                if value.abs() > TOO_LARGE {
                    error.hint("the number is too large")
                } else {
                    error.hint("write it without a fraction or an exponent")
                }
            }
            _ => error,
        }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> ReadError {
        let wanted = expected.to_string();
        let range = match wanted.as_str() {
            "u8" => "a whole number from 0 to 255".to_owned(),
            "u16" => format!("a whole number from 0 to {}", u16::MAX),
            "u32" => format!("a whole number from 0 to {}", u32::MAX),
            "u64" | "usize" => "a whole number, 0 or more".to_owned(),
            other => words(other),
        };
        ReadError::new(format!("expected {range}, found {}", named(&found)))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> ReadError {
        let fault = suggest::unknown_name(Span::default(), "key", field, expected);
        ReadError(
            fault.with_kind(FaultKind::UnknownKey(field.to_owned())),
            Placed::No,
        )
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> ReadError {
        let fault = suggest::unknown_name(Span::default(), "value", variant, expected);
        ReadError(fault, Placed::No)
    }

    fn missing_field(field: &'static str) -> ReadError {
        ReadError::new(format!("missing key `{field}`"))
    }
}

/// Whole numbers above it are read as floating-point numbers.
const TOO_LARGE: f64 = 9e18;

fn is_integer(expected: &str) -> bool {
    let names = [
        "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize",
    ];
    names.contains(&expected)
}

/// Serde's names of types, in plain words.
fn words(expected: &str) -> String {
    match expected {
        number if is_integer(number) => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a sequence" => "a list".to_owned(),
        other if other.starts_with("struct ") => "a map".to_owned(),
        other => other.to_owned(),
    }
}

fn named(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Signed(value) => format!("the whole number {value}"),
        Unexpected::Unsigned(value) => format!("the whole number {value}"),
        Unexpected::Float(value) => format!("the number {value}"),
        Unexpected::Str(text) => format!("the string {text:?}"),
        Unexpected::Unit | Unexpected::Option => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        other => other.to_string(),
    }
}

/// One node being read, and its key, which is the position of faults about the whole node.
#[derive(Clone, Copy)]
struct NodeReader<'n> {
    node: &'n Node,
    key: Option<Span>,
}

impl<'n> NodeReader<'n> {
    fn new(node: &'n Node) -> NodeReader<'n> {
        NodeReader { node, key: None }
    }

    /// The position of a fault about this value: the key for a map or a missing value.
    fn place(&self) -> Span {
        match (self.key, &self.node.value) {
            (Some(key), Value::Map(_)) => key,
            (Some(key), _) if self.node.span.is_empty() => key,
            _ => self.node.span,
        }
    }
}

impl<'de> Deserializer<'de> for NodeReader<'de> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let result = match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => match u64::try_from(*value) {
                Ok(value) => visitor.visit_u64(value),
                Err(_) => visitor.visit_i64(*value),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items(items.iter())),
            Value::Map(entries) => visitor.visit_map(Entries {
                rest: entries.iter(),
                value: None,
            }),
        };
        result.map_err(|error| error.at(self.place()))
    }

    /// A key without a value has no effect, so it is refused instead of treated as missing.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        if self.node.value == Value::Null {
            let hint = if self.node.span.is_empty() {
                "add a value or remove the key"
            } else {
                "put the word in quotes (`\"null\"`) if it is a name, or else leave the key out"
            };
            return Err(ReadError::new("the key has no value".to_owned())
                .hint(hint)
                .at(self.place()));
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name == NODE {
            PASSED.set(Some(self.node.clone()));
            return visitor.visit_unit();
        }
        visitor
            .visit_newtype_struct(self)
            .map_err(|error| error.at(self.place()))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let result = match &self.node.value {
            Value::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Value::Map(entries) if entries.len() == 1 => visitor.visit_enum(Variant(&entries[0])),
            other => Err(ReadError::new(format!(
                "expected one of {}, found {other}",
                suggest::list(variants)
            ))),
        };
        result.map_err(|error| error.at(self.place()))
    }

    /// A map only: derived types would also read a list as their fields in order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if let Value::List(_) = self.node.value {
            let error: ReadError = de::Error::invalid_type(Unexpected::Seq, &visitor);
            return Err(error.at(self.place()));
        }
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'n>(std::slice::Iter<'n, Node>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let read = |node| {
            seed.deserialize(NodeReader::new(node))
                .map_err(|error| error.at(node.span))
        };
        self.0.next().map(read).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Entries<'n> {
    rest: std::slice::Iter<'n, (Span, String, Node)>,
    value: Option<(Span, &'n Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some((span, name, node)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some((*span, node));
        let key: de::value::BorrowedStrDeserializer<'de, ReadError> =
            de::value::BorrowedStrDeserializer::new(name);
        seed.deserialize(key)
            .map(Some)
            .map_err(|error| error.at(*span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let (key, node) = self
            .value
            .take()
            .expect("serde requests a key before its value");
        let reader = NodeReader {
            node,
            key: Some(key),
        };
        seed.deserialize(reader)
            .map_err(|error| error.at(reader.place()))
    }
}

/// `{variant: content}`.
struct Variant<'n>(&'n (Span, String, Node));

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = ReadError;
    type Variant = VariantContent<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, VariantContent<'de>), ReadError> {
        let (span, name, node) = self.0;
        let name: de::value::StrDeserializer<'_, ReadError> = name.as_str().into_deserializer();
        let variant = seed.deserialize(name).map_err(|error| error.at(*span))?;
        let reader = NodeReader {
            node,
            key: Some(*span),
        };
        Ok((variant, VariantContent(reader)))
    }
}

struct VariantContent<'n>(NodeReader<'n>);

impl<'de> VariantAccess<'de> for VariantContent<'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Result<(), ReadError> {
        de::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ReadError> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, ReadError> {
        self.0.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.0.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::parse::parse_yaml;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        count: Option<u32>,
        ratio: Option<f64>,
        on: Option<bool>,
        mode: Option<Mode>,
        names: Option<Vec<String>>,
        any: Option<serde_json::Value>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Plan,
        Limit(u8),
        Both { first: u8 },
    }

    fn read(text: &str) -> Result<Sample, Fault> {
        parse_yaml(text).expect("the text is valid YAML").read()
    }

    /// Checks the message, and the text that it points at.
    fn check(text: &str, message: &str, marked: &str) {
        let fault = read(text).expect_err("reading should fail");
        assert_eq!(fault.message, message, "{text}");
        assert_eq!(&text[fault.span.start..fault.span.end], marked, "{text}");
    }

    #[test]
    fn values_of_every_kind_are_read() {
        let sample = read(
            "{count: 3, ratio: 1, on: true, mode: {limit: 7}, names: [a, b], any: {x: [1, null]}}",
        )
        .unwrap();
        assert_eq!(sample.count, Some(3));
        assert_eq!(sample.ratio, Some(1.0));
        assert_eq!(sample.mode, Some(Mode::Limit(7)));
        assert_eq!(sample.names.unwrap(), ["a", "b"]);
        assert_eq!(sample.any.unwrap(), serde_json::json!({ "x": [1, null] }));
        assert_eq!(read("mode: plan").unwrap().mode, Some(Mode::Plan));
        let both = read("mode: {both: {first: 1}}").unwrap().mode;
        assert_eq!(both, Some(Mode::Both { first: 1 }));
    }

    #[test]
    fn field_can_keep_its_part_of_the_tree() {
        #[derive(Deserialize)]
        struct Sections {
            first: Node,
            rest: Option<Vec<Node>>,
        }
        let text = "{first: {a: 1}, rest: [x, [y]]}";
        let sections: Sections = parse_yaml(text).unwrap().read().unwrap();
        let shown = |node: &Node| text[node.span.start..node.span.end].to_owned();
        assert_eq!(shown(&sections.first), "{a: 1}");
        let rest: Vec<String> = sections.rest.unwrap().iter().map(shown).collect();
        assert_eq!(rest, ["x", "[y]"]);
        assert!(serde_json::from_str::<Node>("1").is_err());
    }

    #[test]
    fn keys_of_a_struct_come_from_its_type() {
        let keys = ["count", "ratio", "on", "mode", "names", "any"];
        assert_eq!(keys_of::<Sample>(), keys);
    }

    #[test]
    fn all_faulty_keys_of_a_map_are_reported() {
        let mut faults = Vec::new();
        let text = "{count: x, ratio: 2, on: 3, cuont: 1}";
        let root = parse_yaml(text).unwrap();
        let sample: Sample = root.read_collecting(&mut faults).unwrap();
        assert_eq!((sample.count, sample.ratio), (None, Some(2.0)));
        let marked: Vec<&str> = faults
            .iter()
            .map(|it| &text[it.span.start..it.span.end])
            .collect();
        assert_eq!(marked, ["x", "3", "cuont"]);
        assert_eq!(faults[2].kind, FaultKind::UnknownKey("cuont".to_owned()));
        let none: Option<Sample> = parse_yaml("[]").unwrap().read_collecting(&mut faults);
        assert!(none.is_none());
    }

    #[test]
    fn whole_numbers_that_cannot_be_read_have_a_hint() {
        for (text, hint) in [
            (
                "count: 99999999999999999999999",
                Some("the number is too large"),
            ),
            (
                "count: 1e2",
                Some("write it without a fraction or an exponent"),
            ),
            ("count: 1.5", None),
            ("ratio: x", None),
        ] {
            let fault = read(text).expect_err("reading should fail");
            assert_eq!(fault.hint.as_deref(), hint, "{text}");
        }
    }

    #[test]
    fn errors_have_plain_messages_and_positions() {
        check(
            "count: x",
            "expected a whole number, found the string \"x\"",
            "x",
        );
        check(
            "count: 1.5",
            "expected a whole number, found the number 1.5",
            "1.5",
        );
        check(
            "count: 5000000000",
            "expected a whole number from 0 to 4294967295, found the whole number 5000000000",
            "5000000000",
        );
        check("ratio: [1]", "expected a number, found a list", "[1]");
        check(
            "on: yes",
            "expected `true` or `false`, found the string \"yes\"",
            "yes",
        );
        check(
            "names: [a, {b: c}]",
            "expected a string, found a map",
            "{b: c}",
        );
        check("names: x", "expected a list, found the string \"x\"", "x");
        check("mode: plann", "unknown value `plann`", "plann");
        check("mode: {both: {}}", "missing key `first`", "both");
        check(
            "mode: 3",
            "expected one of `plan`, `limit`, `both`, found the whole number 3",
            "3",
        );
        check("on:", "the key has no value", "on");
        check("cuont: 1", "unknown key `cuont`", "cuont");
    }
}
