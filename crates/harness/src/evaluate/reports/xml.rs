//! XML as a small tree. Only the five predefined entities are expanded, and nesting is limited.

use quick_xml::{
    Reader, XmlVersion,
    escape::resolve_predefined_entity,
    events::{BytesRef, BytesStart, Event},
};

/// The maximum depth.
const DEPTH: usize = 100;

/// An element and its content.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    pub(super) text: String,
}

impl Element {
    /// The value of an attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        attributes
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of an attribute that is a whole number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.attribute(name)?.trim().parse().ok()
    }

    /// The first child with this name.
    pub(super) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }
}

/// Parses a document.
pub(super) fn read(text: &str) -> Result<Element, String> {
    let mut reader = Reader::from_str(text);
    // The first element represents the document, whose only child is the root.
    let mut open = vec![Element::default()];
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                if open.len() > DEPTH {
                    return Err(format!("more than {DEPTH} nested elements"));
                }
                open.push(element(&start)?);
            }
            Event::Empty(start) => {
                let empty = element(&start)?;
                top(&mut open).children.push(empty);
            }
            Event::End(_) => {
                let done = open.pop().unwrap_or_default();
                match open.last_mut() {
                    Some(parent) => parent.children.push(done),
                    None => return Err("an end tag without a start tag".to_owned()),
                }
            }
            Event::Text(text) => top(&mut open).text.push_str(&text.xml_content(VERSION)),
            Event::CData(text) => top(&mut open).text.push_str(&text.xml_content(VERSION)),
            Event::GeneralRef(reference) => resolve(&reference, &mut top(&mut open).text)?,
            Event::Eof => return root(open),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

const VERSION: XmlVersion = XmlVersion::Implicit1_0;

fn top(open: &mut [Element]) -> &mut Element {
    open.last_mut()
        .expect("the document element is never closed")
}

fn element(start: &BytesStart) -> Result<Element, String> {
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute
            .normalized_value(VERSION)
            .map_err(|error| error.to_string())?;
        attributes.push((attribute.key.0.to_owned(), value.into_owned()));
    }
    Ok(Element {
        name: start.name().0.to_owned(),
        attributes,
        ..Element::default()
    })
}

/// Resolves an entity. Unknown entities are kept.
fn resolve(reference: &BytesRef, text: &mut String) -> Result<(), String> {
    let character = reference.resolve_char_ref();
    if let Some(character) = character.map_err(|error| error.to_string())? {
        text.push(character);
        return Ok(());
    }
    let name = reference.xml_content(VERSION);
    match resolve_predefined_entity(&name) {
        Some(meaning) => text.push_str(meaning),
        None => text.extend(["&", &*name, ";"]),
    }
    Ok(())
}

fn root(mut open: Vec<Element>) -> Result<Element, String> {
    let document = open.pop().unwrap_or_default();
    if !open.is_empty() {
        return Err(format!("the document ends within <{}>", document.name));
    }
    let mut roots = document.children.into_iter();
    match (roots.next(), roots.next()) {
        (Some(root), None) => Ok(root),
        (None, _) => Err("the document has no element".to_owned()),
        (Some(_), Some(second)) => Err(format!("a second root <{}>", second.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_attributes_and_children_are_read() {
        let root = read("<a x='1 &lt; 2'>one &amp; &#116;wo <![CDATA[<3>]]><b/></a>").unwrap();
        assert_eq!(root.attribute("x"), Some("1 < 2"));
        assert_eq!(root.text, "one & two <3>");
        assert_eq!(root.child("b").map(|b| b.name.as_str()), Some("b"));
    }

    #[test]
    fn damage_is_reported() {
        for damaged in ["", "<a>", "<a></b>", "<a/><b/>", "</a>", "<a x=>"] {
            assert!(read(damaged).is_err(), "{damaged}");
        }
        assert!(read(&"<a>".repeat(1_000_000)).is_err());
    }

    #[test]
    fn entities_of_the_document_are_not_expanded() {
        let bomb = "<!DOCTYPE a [<!ENTITY x 'xxxxxxxx'>]><a>&x;</a>";
        assert_eq!(read(bomb).unwrap().text, "&x;");
    }
}
