//! Parses a YAML or JSON file into a tree of `Node`s: YAML 1.2 core scalars, anchors and merge
//! keys, duplicate keys as faults, and limits so that a small file cannot expand to a huge tree.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{
    self as granit, ErrorKind, Event, Parser, ScalarStyle, ScanError, Tag,
};

use crate::{
    fault::Fault,
    format::Format,
    node::{Node, Value},
    scalar,
    span::Span,
};

/// The maximum file size.
pub const MAX_FILE_BYTES: usize = 32 * 1024 * 1024;
/// The maximum number of values in one file, with aliases expanded.
const MAX_NODES: usize = 100_000;
/// The maximum size of text in one file, with aliases expanded.
const MAX_TEXT_BYTES: usize = 2 * MAX_FILE_BYTES;
/// The maximum nesting, with aliases expanded: a limit for recursive readers of the tree.
const MAX_DEPTH: usize = 64;

/// Parses `text`. Reports all faults that one pass can find.
pub(crate) fn parse(text: &str, format: Format) -> Result<Node, Vec<Fault>> {
    if format == Format::Json {
        check_json(text).map_err(|fault| vec![fault])?;
    }
    let mut builder = Builder::new(text);
    match builder.run() {
        Err(fault) => {
            builder.faults.push(fault);
            Err(builder.faults)
        }
        Ok(()) if builder.faults.is_empty() => Ok(builder.root.unwrap_or(Node {
            span: Span::default(),
            value: Value::Null,
        })),
        Ok(()) => Err(builder.faults),
    }
}

/// Checks JSON. It is parsed as YAML for the positions, but YAML accepts more.
fn check_json(text: &str) -> Result<(), Fault> {
    let body = text.trim_start_matches('\u{feff}');
    let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(body) else {
        return Ok(());
    };
    if body.trim().is_empty() {
        return Ok(());
    }
    let line_start: usize = body
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let offset = text.len() - body.len() + line_start + error.column().saturating_sub(1);
    let full = error.to_string();
    let message = full.split(" at line ").next().unwrap_or(&full);
    let start = (0..=offset.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0);
    let span = Span { start, end: start };
    Err(Fault::new(span, format!("not valid JSON: {message}")))
}

/// The content of an anchor, and the number of nodes that each use adds to the tree.
struct Anchored {
    node: Node,
    size: TreeSize,
}

#[derive(Clone, Copy, Default)]
struct TreeSize {
    nodes: usize,
    text: usize,
    height: usize,
}

/// An unfinished list or map.
struct OpenContainer {
    span: Span,
    anchor: usize,
    kind: OpenKind,
}

enum OpenKind {
    List(Vec<Node>),
    Map {
        entries: Vec<(Span, String, Node)>,
        seen: HashMap<String, Span>,
        merges: Vec<Node>,
        key: Option<MapKey>,
    },
}

enum MapKey {
    Name(Span, String),
    Merge,
    /// Invalid; its value is parsed and dropped.
    Bad,
}

struct Builder<'t> {
    text: &'t str,
    faults: Vec<Fault>,
    open: Vec<OpenContainer>,
    anchors: HashMap<usize, Anchored>,
    used: TreeSize,
    root: Option<Node>,
}

impl<'t> Builder<'t> {
    fn new(text: &'t str) -> Builder<'t> {
        Builder {
            text,
            faults: Vec::new(),
            open: Vec::new(),
            anchors: HashMap::new(),
            used: TreeSize::default(),
            root: None,
        }
    }

    fn run(&mut self) -> Result<(), Fault> {
        let mut options =
            granit::options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH };
        options.set_emit_comments(false);
        let mut documents = 0;
        for event in Parser::new_from_str_with_options(self.text, options) {
            let (event, span) = event.map_err(|error| syntax_fault(&error, self.text))?;
            let span = self.span(&span);
            if matches!(event, Event::DocumentStart(..)) {
                documents += 1;
                if documents > 1 {
                    return Err(Fault::new(span, "a second document in the file")
                        .with_hint("a file can have only one document; remove the `---`"));
                }
            }
            self.event(event, span)?;
        }
        Ok(())
    }

    fn span(&self, span: &granit::Span) -> Span {
        let range = span.byte_range().unwrap_or(0..0);
        Span {
            start: range.start.min(self.text.len()),
            end: range.end.min(self.text.len()),
        }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, tag.as_deref(), (span, anchor))
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.collection_tag(tag.as_deref(), "seq", span);
                self.start(span, anchor, OpenKind::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.collection_tag(tag.as_deref(), "map", span);
                let kind = OpenKind::Map {
                    entries: Vec::new(),
                    seen: HashMap::new(),
                    merges: Vec::new(),
                    key: None,
                };
                self.start(span, anchor, kind)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(id) => self.alias(id, span),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        (span, anchor): (Span, usize),
    ) -> Result<(), Fault> {
        if style == ScalarStyle::Plain && tag.is_none() && text == "<<" && self.wants_key() {
            self.set_key(MapKey::Merge);
            return Ok(());
        }
        if self.wants_key() && anchor == 0 && tag.is_none() {
            self.charge(
                TreeSize {
                    nodes: 1,
                    text: text.len(),
                    height: 0,
                },
                span,
            )?;
            self.key(text.to_owned(), span);
            return Ok(());
        }
        let value = match scalar::resolve(text, style, tag) {
            Ok(value) => value,
            Err(message) => {
                self.faults.push(Fault::new(span, message));
                Value::Null
            }
        };
        self.complete(Node { span, value }, anchor)
    }

    fn collection_tag(&mut self, tag: Option<&Tag>, expected: &str, span: Span) {
        let Some(tag) = tag else { return };
        if !tag.is_yaml_core_schema_tag(expected) {
            let message = format!("unsupported tag `{}`", tag.original());
            self.faults.push(Fault::new(span, message));
        }
    }

    fn start(&mut self, span: Span, anchor: usize, kind: OpenKind) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(span));
        }
        self.open.push(OpenContainer { span, anchor, kind });
        Ok(())
    }

    fn end(&mut self, end: Span) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let (value, last) = match open.kind {
            OpenKind::List(items) => {
                let last = items.last().map(|node| node.span.end);
                (Value::List(items), last)
            }
            OpenKind::Map {
                mut entries,
                seen,
                merges,
                ..
            } => {
                let last = entries
                    .last()
                    .map(|(key, _, node)| node.span.end.max(key.end));
                self.merge(&mut entries, seen, merges);
                (Value::Map(entries), last)
            }
        };
        // A block collection ends at the start of the next token; the end of its own last value is needed.
        let stop = if end.is_empty() { last } else { Some(end.end) };
        let span = Span {
            start: open.span.start,
            end: stop.unwrap_or(open.span.end).max(open.span.start),
        };
        self.complete(Node { span, value }, open.anchor)
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), Fault> {
        let Some(anchored) = self.anchors.get(&id) else {
            return Err(Fault::new(
                span,
                "this alias is inside the value that it repeats",
            ));
        };
        let size = anchored.size;
        // Charged before it is copied, because the limit must prevent the copy.
        self.charge(size, span)?;
        let value = self.anchors[&id].node.value.clone();
        self.place(Node { span, value });
        Ok(())
    }

    fn complete(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        let own = TreeSize {
            nodes: 1,
            text: node.as_str().map_or(0, str::len),
            height: 0,
        };
        self.charge(own, node.span)?;
        if anchor != 0 {
            let size = measure(&node);
            self.charge(size, node.span)?;
            self.anchors.insert(
                anchor,
                Anchored {
                    node: node.clone(),
                    size,
                },
            );
        }
        self.place(node);
        Ok(())
    }

    fn charge(&mut self, size: TreeSize, span: Span) -> Result<(), Fault> {
        self.used.nodes += size.nodes;
        self.used.text += size.text;
        if self.used.nodes > MAX_NODES || self.used.text > MAX_TEXT_BYTES {
            return Err(
                Fault::new(span, "the file is too large with its aliases expanded")
                    .with_hint("use fewer aliases"),
            );
        }
        if self.open.len() + size.height > MAX_DEPTH {
            return Err(too_deep(span));
        }
        Ok(())
    }

    fn wants_key(&self) -> bool {
        matches!(
            self.open.last().map(|open| &open.kind),
            Some(OpenKind::Map { key: None, .. })
        )
    }

    fn set_key(&mut self, new: MapKey) {
        if let Some(OpenContainer {
            kind: OpenKind::Map { key, .. },
            ..
        }) = self.open.last_mut()
        {
            *key = Some(new);
        }
    }

    fn key(&mut self, name: String, span: Span) {
        let Some(OpenContainer {
            kind: OpenKind::Map { key, seen, .. },
            ..
        }) = self.open.last_mut()
        else {
            return;
        };
        if let Some(first) = seen.get(&name) {
            let line = self.text[..first.start].matches('\n').count() + 1;
            let fault = Fault::new(span, format!("duplicate key `{name}`")).with_hint(format!(
                "it is already set on line {line}; remove one of them"
            ));
            self.faults.push(fault);
            *key = Some(MapKey::Bad);
        } else {
            seen.insert(name.clone(), span);
            *key = Some(MapKey::Name(span, name));
        }
    }

    /// Adds a finished value to its parent: the document, a list, a key or a value.
    fn place(&mut self, node: Node) {
        if self.wants_key() {
            if let Value::String(name) = node.value {
                self.key(name, node.span);
            } else {
                self.faults
                    .push(Fault::new(node.span, "a key must be plain text"));
                self.set_key(MapKey::Bad);
            }
            return;
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(OpenKind::List(items)) => items.push(node),
            Some(OpenKind::Map {
                entries,
                merges,
                key,
                ..
            }) => match key.take() {
                Some(MapKey::Name(span, name)) => entries.push((span, name, node)),
                Some(MapKey::Merge) => merges.push(node),
                Some(MapKey::Bad) | None => {}
            },
        }
    }

    /// `<<`: adds entries of other maps, for keys that this map does not have.
    fn merge(
        &mut self,
        entries: &mut Vec<(Span, String, Node)>,
        mut seen: HashMap<String, Span>,
        merges: Vec<Node>,
    ) {
        let maps = merges.into_iter().flat_map(|node| match node.value {
            Value::List(maps) => maps,
            _ => vec![node],
        });
        for map in maps {
            let Value::Map(more) = map.value else {
                let message = format!("`<<` takes a map or a list of maps, found {}", map.value);
                self.faults.push(Fault::new(map.span, message));
                continue;
            };
            for (span, name, node) in more {
                if seen.insert(name.clone(), span).is_none() {
                    entries.push((span, name, node));
                }
            }
        }
    }
}

fn measure(node: &Node) -> TreeSize {
    let mut size = TreeSize {
        nodes: 1,
        text: node.as_str().map_or(0, str::len),
        height: 0,
    };
    let mut add = |child: &Node, text: usize| {
        let inner = measure(child);
        size.nodes += inner.nodes;
        size.text += inner.text + text;
        size.height = size.height.max(inner.height + 1);
    };
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| add(item, 0)),
        Value::Map(entries) => entries
            .iter()
            .for_each(|(_, key, item)| add(item, key.len())),
        _ => {}
    }
    size
}

fn too_deep(span: Span) -> Fault {
    Fault::new(span, format!("nested more than {MAX_DEPTH} levels deep"))
}

fn syntax_fault(error: &ScanError, text: &str) -> Fault {
    let at = error.marker().byte_offset().unwrap_or(0).min(text.len());
    let fault = Fault::new(
        Span { start: at, end: at },
        format!("not valid YAML: {}", error.info()),
    );
    let hint = match error.kind() {
        ErrorKind::UnexpectedCharacter { .. } => "put the value in quotes",
        ErrorKind::MappingValueNotAllowed => {
            "put a value that contains `: ` in quotes; if there is none, look above for a key without its `:`, or a `-` without a space"
        }
        ErrorKind::InvalidQuotedScalarIndent | ErrorKind::UnclosedQuotedScalar => {
            "is a closing quote missing?"
        }
        ErrorKind::TabInIndentation
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabNotAllowed => "indent with spaces, not with tabs",
        ErrorKind::UnknownAnchor => {
            "`*name` repeats the value marked `&name`; put text that starts with `*` in quotes"
        }
        ErrorKind::InvalidIndentation | ErrorKind::SimpleKeyExpected => {
            "entries of a map must start in the same column, each as `key: value`"
        }
        _ => return fault,
    };
    fault.with_hint(hint)
}
