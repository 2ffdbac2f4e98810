//! The fake agent: what a script may say, where the script is found, which part is played.
//!
//! A script is a JSON list. Its entries are steps, played in order, and alternatives: an object
//! `{"when_args": [..], "steps": [..]}` whose steps are played instead when its arguments occur, in
//! this order and side by side, among those of the program. The script comes from `--script FILE`
//! (first argument), else from the file that `FAKE_AGENT_SCRIPT` names, else from
//! `<program>.script.json` beside the program as it was called.
//!
//! Exit codes of its own: 97 for a script that is missing or wrong, 96 for a step that failed.

mod play;
mod script;

use self::script::STEPS_FLAG;
pub use self::script::{
    BAD_SCRIPT, Child, FAILED_STEP, FakeScript, Print, Step, Stream, TextFile, main,
};
pub use crate::platform::SignalName;
