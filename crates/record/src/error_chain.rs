//! Errors as text.

use std::error::Error;

/// An error with its causes, in one line. A cause whose text is already part of the previous one,
/// as in http libraries, is skipped.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let reported = cause.to_string();
        if !text.ends_with(&reported) {
            text = format!("{text}: {reported}");
        }
        next = cause.source();
    }
    text
}

/// The root cause of an error: libraries wrap errors of the system in their own.
pub fn root(mut error: &dyn Error) -> String {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
