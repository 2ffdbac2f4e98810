//! TOML documents that are read, edited and written.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// A value of a TOML document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Toml {
    /// A string, number, boolean or time in its source form.
    Literal(String),
    /// An array, also of tables.
    List(Vec<Toml>),
    /// A table.
    Table(BTreeMap<String, Toml>),
}

impl Default for Toml {
    fn default() -> Toml {
        Toml::Table(BTreeMap::new())
    }
}

impl Toml {
    /// Parses a document.
    pub(super) fn read(bytes: &[u8]) -> Option<Toml> {
        let text = str::from_utf8(bytes).ok()?;
        let document = DeTable::parse(text).ok()?;
        Some(table(document.get_ref()))
    }

    /// The value at a key path.
    pub(super) fn at(&self, place: &[&str]) -> Option<&Toml> {
        let [first, rest @ ..] = place else {
            return Some(self);
        };
        match self {
            Toml::Table(entries) => entries.get(*first)?.at(rest),
            _ => None,
        }
    }

    /// Sets or removes the value at a key path. Tables that become empty are removed.
    pub(super) fn put(&mut self, place: &[&str], value: Option<Toml>) {
        let (Toml::Table(entries), [first, rest @ ..]) = (&mut *self, place) else {
            return;
        };
        match (rest, value) {
            ([], Some(value)) => drop(entries.insert((*first).to_owned(), value)),
            ([], None) => drop(entries.remove(*first)),
            (_, None) if !entries.contains_key(*first) => {}
            (_, value) => {
                let below = entries.entry((*first).to_owned()).or_default();
                below.put(rest, value);
                if *below == Toml::default() {
                    entries.remove(*first);
                }
            }
        }
    }

    /// The keys of a table.
    pub(super) fn keys(&self) -> Vec<&str> {
        match self {
            Toml::Table(entries) => entries.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// The items of the list under a key; none if there is no list.
    pub(super) fn list(&self, key: &str) -> Vec<Toml> {
        match self.at(&[key]) {
            Some(Toml::List(items)) => items.clone(),
            _ => Vec::new(),
        }
    }

    /// Adds missing items to the list at a key path. Returns whether there were any.
    pub(super) fn extend_list(&mut self, place: &[&str], more: Option<&Toml>) -> bool {
        let Some(Toml::List(more)) = more else {
            return false;
        };
        let mut items = match self.at(place) {
            Some(Toml::List(items)) => items.clone(),
            _ => Vec::new(),
        };
        let missing: Vec<Toml> = more
            .iter()
            .filter(|it| !items.contains(it))
            .cloned()
            .collect();
        let is_changed = !missing.is_empty();
        items.extend(missing);
        if is_changed {
            self.put(place, Some(Toml::List(items)));
        }
        is_changed
    }

    /// The document as text, one line for each entry.
    pub(super) fn text(&self) -> String {
        let Toml::Table(entries) = self else {
            return String::new();
        };
        let line =
            |(key, value): (&String, &Toml)| format!("{} = {}\n", string(key), value.inline());
        entries.iter().map(line).collect()
    }

    fn inline(&self) -> String {
        match self {
            Toml::Literal(text) => text.clone(),
            Toml::List(items) => {
                let items: Vec<String> = items.iter().map(Toml::inline).collect();
                format!("[{}]", items.join(", "))
            }
            Toml::Table(entries) => {
                let entry = |(key, value): (&String, &Toml)| {
                    format!("{} = {}", string(key), value.inline())
                };
                let entries: Vec<String> = entries.iter().map(entry).collect();
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }
}

/// A TOML string. JSON escapes are valid in TOML.
fn string(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}

fn table(entries: &DeTable<'_>) -> Toml {
    let entry = |(key, value): (
        &toml::Spanned<toml::de::DeString<'_>>,
        &toml::Spanned<DeValue<'_>>,
    )| { (key.get_ref().to_string(), value_of(value.get_ref())) };
    Toml::Table(entries.iter().map(entry).collect())
}

fn value_of(value: &DeValue<'_>) -> Toml {
    match value {
        DeValue::String(text) => Toml::Literal(string(text)),
        DeValue::Integer(number) => {
            let prefix = match number.radix() {
                2 => "0b",
                8 => "0o",
                16 => "0x",
                _ => "",
            };
            Toml::Literal(format!("{prefix}{}", number.as_str()))
        }
        DeValue::Float(number) => Toml::Literal(number.as_str().to_owned()),
        DeValue::Boolean(is_true) => Toml::Literal(is_true.to_string()),
        DeValue::Datetime(time) => Toml::Literal(time.to_string()),
        DeValue::Array(items) => {
            Toml::List(items.iter().map(|item| value_of(item.get_ref())).collect())
        }
        DeValue::Table(entries) => table(entries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_survive_a_round_trip() {
        let text = "a = \"x\\\"\\n\u{1F600}\"\nb = [1, 0x1f, 2.5e3, true]\nc.d = 1979-05-27T07:32:00Z\n[e.\"f g\"]\nh = ''\n[[i]]\nj = 1\n[[i]]\nk = {}\n";
        let read = Toml::read(text.as_bytes()).unwrap();
        let again = Toml::read(read.text().as_bytes());
        assert_eq!(again, Some(read));
    }
}
