//! The files that a makefile includes: they decide about targets and shells as the makefile itself does.

/// The names and patterns after `include`. Names that a variable makes are not known.
pub(super) fn includes(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let rests = text.lines().filter_map(|line| {
        let (verb, rest) = line.trim_start().split_once(char::is_whitespace)?;
        matches!(verb, "include" | "-include" | "sinclude").then_some(rest)
    });
    let rests = rests.map(|rest| rest.split('#').next().unwrap_or_default());
    let rests = rests.map(|rest| rest.replace("$(wildcard ", " ").replace("${wildcard ", " "));
    let names = rests.flat_map(|rest| {
        let words = rest.split_whitespace();
        let names = words.map(|word| word.trim_end_matches([')', '}']).to_owned());
        names.collect::<Vec<_>>()
    });
    let names = names.map(|name| name.trim_start_matches("./").to_owned());
    names
        .filter(|name| !name.is_empty() && !name.contains('$') && !name.starts_with('/'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_are_found() {
        let text = "include a.mk ./b.mk # c.mk\n-include $(wildcard more/*.mk) \\\n  d.mk\n  sinclude e.mk\ninclude $(X)/f.mk\nincluded = g.mk\n\tinclude-h\n";
        let expected = ["a.mk", "b.mk", "more/*.mk", "d.mk", "e.mk"];
        assert_eq!(includes(text), expected);
    }
}
