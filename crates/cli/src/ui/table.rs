//! Tables for a terminal.

use proctor_record::text::columns;

/// Rows in aligned columns. The first row is the head. Columns from `right` on are aligned to the right.
pub fn table<const N: usize>(rows: &[[String; N]], right: usize) -> String {
    let right: Vec<usize> = (right..N).collect();
    columns(rows, &right)
}
