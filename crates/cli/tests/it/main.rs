//! End-to-end tests of the `proctor` binary.

mod leaks;
