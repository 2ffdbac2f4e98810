//! Reports of made-up runs.
