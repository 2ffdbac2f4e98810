//! The schema of a value that has two forms, such as a name or a map.

use schemars::JsonSchema;

// The forms are read from the tree by hand, which gives better error messages.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[expect(dead_code, reason = "used for its schema")]
pub(super) enum Either<A, B> {
    One(A),
    Other(B),
}
