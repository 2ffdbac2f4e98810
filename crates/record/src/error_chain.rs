//! Errors as text.

use std::error::Error;

/// An error with its causes, in one line. A cause that the one before has told already, as those
/// of http libraries do, is not told again.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let told = cause.to_string();
        if !text.ends_with(&told) {
            text = format!("{text}: {told}");
        }
        next = cause.source();
    }
    text
}

/// What is at the bottom of an error: libraries wrap what the system said in words of their own.
pub fn root(mut error: &dyn Error) -> String {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}
