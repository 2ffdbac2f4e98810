//! Remarks about parts of a file that are accepted although they have no effect here. The same
//! remark about several tasks or agents is one line.

/// Further names are only counted.
const MOST_NAMES: usize = 4;

/// Remarks, in the order of their discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remarks {
    entries: Vec<(String, Vec<String>)>,
}

impl Remarks {
    /// Adds a remark about the whole file.
    pub(crate) fn add(&mut self, text: impl Into<String>) {
        self.entry(text.into());
    }

    /// Adds a remark about one task or agent.
    pub(crate) fn add_about(&mut self, text: impl Into<String>, name: &str) {
        let names = self.entry(text.into());
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }

    fn entry(&mut self, text: String) -> &mut Vec<String> {
        let known = self.entries.iter().position(|(known, _)| *known == text);
        let at = known.unwrap_or_else(|| {
            self.entries.push((text, Vec::new()));
            self.entries.len() - 1
        });
        &mut self.entries[at].1
    }

    /// The lines to print, one for each remark.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(text, names): &(String, Vec<String>)| match names.as_slice() {
            [] => text.clone(),
            names => format!("{text} ({})", some(names)),
        };
        self.entries.iter().map(line).collect()
    }
}

/// The first few names, and the number of the others.
fn some(names: &[String]) -> String {
    let shown = &names[..names.len().min(MOST_NAMES)];
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_remarks_are_merged_with_their_names() {
        let mut remarks = Remarks::default();
        remarks.add("whole");
        for name in ["a", "b", "c", "a", "d", "e"] {
            remarks.add_about("part", name);
        }
        remarks.add("whole");
        assert_eq!(remarks.lines(), ["whole", "part (a, b, c, d and 1 more)"]);
    }
}
