//! A representative sample of candidates: by folder, size and kind of change.

use std::collections::BTreeMap;

/// Words of messages that describe a correction.
const CORRECTIONS: [&str; 6] = ["fix", "bug", "regression", "correct", "repair", "wrong"];

/// The properties of a candidate that a sample should cover.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Traits {
    /// The first folder of its first source file.
    folder: String,
    /// The number of decimal digits of its changed lines.
    size: u32,
    is_correction: bool,
}

impl Traits {
    pub(crate) fn of(first_source: &str, lines: u64, subject: &str) -> Traits {
        let folder = first_source
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        let folder = folder.split('/').take(2).collect::<Vec<_>>().join("/");
        let subject = subject.to_lowercase();
        Traits {
            folder,
            size: lines.max(1).ilog10(),
            is_correction: CORRECTIONS.iter().any(|word| subject.contains(word)),
        }
    }
}

/// The positions of a sample: one of each group in turn, until there are enough.
pub(crate) fn sample(candidates: &[Traits], wanted: usize) -> Vec<usize> {
    let mut groups: BTreeMap<&Traits, Vec<usize>> = BTreeMap::new();
    for (position, traits) in candidates.iter().enumerate() {
        groups.entry(traits).or_default().push(position);
    }
    let longest = groups.values().map(Vec::len).max().unwrap_or(0);
    let rounds = (0..longest).flat_map(|round| groups.values().filter_map(move |it| it.get(round)));
    let mut chosen: Vec<usize> = rounds.copied().take(wanted).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_covers_every_group_before_it_repeats_one() {
        let small_fix = Traits::of("src/a.py", 5, "Fix a");
        let large_fix = Traits::of("src/a.py", 50, "fix b");
        let feature = Traits::of("lib/x/y/z.py", 5, "Add c");
        let all = [&small_fix, &small_fix, &small_fix, &large_fix, &feature].map(Clone::clone);
        assert_eq!(sample(&all, 3), [0, 3, 4]);
        assert_eq!(sample(&all, 4), [0, 1, 3, 4]);
        assert_eq!(sample(&all, 9), [0, 1, 2, 3, 4]);
        assert_eq!(feature.folder, "lib/x");
    }
}
