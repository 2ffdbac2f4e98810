//! `tests`: runs the task's tests in a clean copy and reads the runner's report, test by test. A
//! missing report is not a result: the untouched task shows whether the work is the cause.

mod examiner;
mod expected;
mod grade;
mod placement;
mod sentinel;
mod settings;
mod trace;

use self::examiner::{Attempt, Examiner, Results};
pub(super) use self::examiner::{bounded, judge};
pub(super) use self::sentinel::lexer::{Kind, Language, Token, tokens};
pub(super) use self::{
    sentinel::Edit,
    settings::{TestsSettings, Unread},
};
