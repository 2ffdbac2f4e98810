//! Evaluators: the ways of judging an agent's work. Each returns a verdict. If judging fails, the
//! verdict is an `error`, never a number.

mod above;
mod answer_cache;
mod case_files;
mod clean_copy;
mod command;
mod command_line;
mod content;
mod control;
mod coverage;
mod definition;
mod evaluator;
mod expected_diff;
mod fill;
mod git_diff;
mod inline_tests;
mod judge;
mod judging;
mod ownership;
mod protect;
mod report_file;
pub mod reports;
pub mod reward;
mod seal;
mod static_check;
mod tests;
mod trajectory;
mod verifier;

pub use self::evaluator::{EVALUATORS, Evaluator};
use self::evaluator::{EvidenceDir, Finding, Kind};
pub(crate) use self::evaluator::{HiddenTests, JudgesBy, RepoCommand};
pub use self::judging::{
    About, EVIDENCE, JudgeContext, JudgeFuture, JudgeTrial, Judging, RunTrial,
};
pub use self::{
    inline_tests::{RustTests, replace_tests},
    protect::{is_test_file, test_patterns},
};
pub(crate) use above::private_dir;
pub(crate) use clean_copy::patched_files;
pub(crate) use definition::of_image;
pub(crate) use git_diff::diff_record;
pub(crate) use protect::Protect;
pub(crate) use reward::deciding;
pub(crate) use verifier::{
    CLEARED, COLLECTED, PASSING, copy_without_ignored, lay_out_tests, make_executable, make_logs,
    use_own_home,
};
pub use verifier::{Collect, CollectedArtifact, Verifier, VerifierMode};
