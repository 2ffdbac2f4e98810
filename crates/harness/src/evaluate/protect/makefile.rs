//! The files that a makefile includes: they define targets and shells like the makefile itself.

/// The names and patterns after `include`. A variable may stand for anything: it becomes `*`.
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
        let names = words.map(|word| {
            if word.contains('$') {
                word.to_owned()
            } else {
                word.trim_end_matches([')', '}']).to_owned()
            }
        });
        names.collect::<Vec<_>>()
    });
    let names = names.map(|name| without_variables(&name));
    let names = names.map(|name| name.trim_start_matches("./").to_owned());
    names
        .filter(|name| !name.is_empty() && !name.starts_with('/'))
        .collect()
}

/// A name with patterns in the place of variables. One that is a variable as a whole is some file with the usual end.
fn without_variables(name: &str) -> String {
    let mut pattern = String::new();
    let mut rest = name;
    while let Some((before, variable)) = rest.split_once('$') {
        pattern.push_str(before);
        pattern.push('*');
        rest = match variable.chars().next() {
            Some('(') => variable.split_once(')').map_or("", |(_, after)| after),
            Some('{') => variable.split_once('}').map_or("", |(_, after)| after),
            Some(letter) => &variable[letter.len_utf8()..],
            None => "",
        };
    }
    pattern.push_str(rest);
    match pattern.trim_matches('*') {
        "" if !pattern.is_empty() => "*.mk".to_owned(),
        _ => pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_are_found() {
        let text = "include a.mk ./b.mk # c.mk\n-include $(wildcard more/*.mk) \\\n  d.mk\n  sinclude e.mk\ninclude $(X)/f.mk\nincluded = g.mk\n\tinclude-h\n";
        let expected = ["a.mk", "b.mk", "more/*.mk", "d.mk", "e.mk", "*/f.mk"];
        assert_eq!(includes(text), expected);
        let variables = "include $(RULES) ${DIR}/x/$Y.mk\n";
        assert_eq!(includes(variables), ["*.mk", "*/x/*.mk"]);
    }
}
