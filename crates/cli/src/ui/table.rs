//! Tables for a terminal: columns that are as wide as their widest cell.

use super::view::width;

/// Rows in aligned columns, two spaces apart. The first row is the head. Columns from `right` on are
/// aligned to the right.
pub fn table<const N: usize>(rows: &[[String; N]], right: usize) -> String {
    let widest = |column: usize| rows.iter().map(|row| width(&row[column])).max();
    let widths: [usize; N] = std::array::from_fn(|column| widest(column).unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - width(cell));
            if column > 0 {
                line.push_str("  ");
            }
            if column >= right {
                line.extend([pad.as_str(), cell]);
            } else {
                line.extend([cell.as_str(), &pad]);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["name", "n"], ["日本", "10"], ["a", ""]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows, 1), "name   n\n日本  10\na\n");
    }
}
