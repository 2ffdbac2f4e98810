//! Suggestions for unknown names.

use crate::{fault::Fault, span::Span};

/// The fault of a name that is not in `known`, with the nearest one.
pub fn unknown_name(span: Span, what: &str, name: &str, known: &[&str]) -> Fault {
    let fault = Fault::new(span, format!("unknown {what} `{name}`"));
    match hint(name, known) {
        Some(hint) => fault.with_hint(hint),
        None => fault,
    }
}

/// The nearest known name, else all of them; `None` if there are none.
fn hint(name: &str, known: &[&str]) -> Option<String> {
    if let Some(nearest) = nearest(name, known) {
        return Some(format!("did you mean `{nearest}`?"));
    }
    (!known.is_empty()).then(|| format!("known: {}", list(known)))
}

/// The nearest known name, if it is similar.
pub fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let bare = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let wanted = bare(name);
    // A long name must not cause a long search.
    if wanted.chars().count() > 64 {
        return None;
    }
    known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(&wanted, &bare(word)), *word))
        .filter(|(distance, word)| *distance <= 1.max(word.len() / 3) && *distance < wanted.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// Formats `a`, `b`, `c`.
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_name_is_suggested_or_all_names_listed() {
        let known = ["prompt", "prompt_file", "model"];
        assert_eq!(nearest("promt", &known), Some("prompt"));
        assert_eq!(nearest("promptFile", &known), Some("prompt_file"));
        assert_eq!(nearest("modle", &known), Some("model"));
        assert_eq!(nearest("zzz", &known), None);
        assert_eq!(
            hint("zzz", &known).unwrap(),
            "known: `prompt`, `prompt_file`, `model`"
        );
        assert_eq!(hint("zzz", &[]), None);
    }
}
