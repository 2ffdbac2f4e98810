//! A part of a dataset: the tasks that patterns name, and a sample of them.

use globset::{Glob, GlobSet, GlobSetBuilder};
use proctor_record::shuffle::Shuffle;

/// A part of a dataset. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Patterns of names; all tasks if empty.
    pub include: Vec<String>,
    /// Patterns of names that are left out.
    pub exclude: Vec<String>,
    /// The largest number of tasks.
    pub limit: Option<usize>,
    /// The seed of a random sample; without it the first tasks are taken.
    pub sample_seed: Option<u64>,
}

impl Selection {
    /// The selected items, in their order. An error names the setting.
    pub fn apply<T>(
        &self,
        items: Vec<T>,
        is_called: impl Fn(&T, &dyn Fn(&str) -> bool) -> bool,
    ) -> Result<Vec<T>, (&'static str, String)> {
        let include = globs("include", &self.include)?;
        let exclude = globs("exclude", &self.exclude)?;
        if self.sample_seed.is_some() && self.limit.is_none() {
            let message = "a seed for the sample has no effect without a limit";
            return Err(("sample_seed", message.to_owned()));
        }
        if self.limit == Some(0) {
            return Err(("limit", "the limit must be at least 1".to_owned()));
        }
        let is_included =
            |item: &T| self.include.is_empty() || is_called(item, &|name| include.is_match(name));
        let is_excluded = |item: &T| is_called(item, &|name| exclude.is_match(name));
        let mut found: Vec<T> = items
            .into_iter()
            .filter(|item| is_included(item) && !is_excluded(item))
            .collect();
        if found.is_empty() {
            let key = if self.include.is_empty() {
                "exclude"
            } else {
                "include"
            };
            return Err((key, "the patterns leave no task".to_owned()));
        }
        let limit = self.limit.unwrap_or(found.len());
        if let Some(seed) = self.sample_seed {
            found = sample(found, limit, seed);
        }
        found.truncate(limit);
        Ok(found)
    }
}

/// A random sample, in the order of the items.
fn sample<T>(items: Vec<T>, limit: usize, seed: u64) -> Vec<T> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    Shuffle::new(seed).apply(&mut order);
    order.truncate(limit);
    let numbered = items.into_iter().enumerate();
    numbered
        .filter_map(|(index, item)| order.contains(&index).then_some(item))
        .collect()
}

fn globs(key: &'static str, patterns: &[String]) -> Result<GlobSet, (&'static str, String)> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern);
        let glob = glob.map_err(|error| {
            (
                key,
                format!("invalid pattern `{pattern}`: {}", error.kind()),
            )
        })?;
        set.add(glob);
    }
    set.build().map_err(|error| (key, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(selection: &Selection) -> Result<Vec<u32>, (&'static str, String)> {
        let items = (0..20).collect();
        selection.apply(items, |item, matches| matches(&format!("task-{item}")))
    }

    #[test]
    fn patterns_and_limits_select_tasks_in_order() {
        let patterns = |patterns: &[&str]| patterns.iter().map(|it| (*it).to_owned()).collect();
        let by = |include: &[&str], exclude: &[&str], limit| {
            selected(&Selection {
                include: patterns(include),
                exclude: patterns(exclude),
                limit,
                sample_seed: None,
            })
        };
        assert_eq!(by(&[], &[], None).unwrap().len(), 20);
        assert_eq!(by(&["task-1?"], &["*-1[1-9]"], None).unwrap(), [10]);
        assert_eq!(by(&[], &["task-0"], Some(2)).unwrap(), [1, 2]);
        assert_eq!(by(&["other"], &[], None).unwrap_err().0, "include");
        assert_eq!(by(&[], &["*"], None).unwrap_err().0, "exclude");
        assert_eq!(by(&["[x"], &[], None).unwrap_err().0, "include");
        assert_eq!(by(&[], &[], Some(0)).unwrap_err().0, "limit");
    }

    #[test]
    fn sample_depends_on_the_seed_only() {
        let by = |seed| {
            let limit = Some(5);
            let sample_seed = Some(seed);
            selected(&Selection {
                limit,
                sample_seed,
                ..Selection::default()
            })
            .unwrap()
        };
        assert_eq!(by(1), by(1));
        assert_ne!(by(1), by(2));
        assert!(by(3).is_sorted());
        assert_eq!(by(3).len(), 5);
        let idle = Selection {
            sample_seed: Some(1),
            ..Selection::default()
        };
        assert_eq!(selected(&idle).unwrap_err().0, "sample_seed");
    }
}
