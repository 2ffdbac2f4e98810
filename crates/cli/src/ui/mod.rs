//! Terminal output: progress on standard error, results on standard output.

mod print;
mod progress;
mod report;
mod show;
mod table;
mod view;

pub use self::print::{
    error, json_error, note, print, print_json, print_wrapped, reader_is_gone, stream,
};
pub use proctor_record::text::counted;
pub use progress::Progress;
pub use report::{count, exclusion_reasons, replay as replay_report, report, suite_report};
pub use show::{ShownTrial, colored_diff, next_step, page, trial_list, trial_text};
pub use table::table;
pub use view::{Steering, View, clock, is_possible, line, replay, tame};
