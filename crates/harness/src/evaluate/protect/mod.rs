//! Decides which version of a file is judged: the agent's or the task's. Files that determine how
//! tests are found, configured and run come from the task.

mod go_mod;
mod makefile;
mod manifest;
mod package_json;
mod patterns;
mod places;
mod question;
mod recipes;
mod rules;
mod settings_files;
mod toml_text;

pub use self::patterns::{is_test_file, test_patterns};
pub(crate) use self::rules::Protect;
pub(super) use self::{
    manifest::{Merged, is_manifest, merge},
    patterns::{has_settings, is_home_setting, settings},
    places::{includes, join, lenient_globs, makefiles, needs_modules, vendored_below},
    question::{named_files, scripts},
    recipes::{recipe_files, scripts_of_recipes},
    rules::{Circumstances, Owner},
    settings_files::files_of_settings,
};
