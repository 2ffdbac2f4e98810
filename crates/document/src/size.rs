//! Sizes of memory and disks with a unit.

/// The bytes of a size such as `512m`, `4g` or `1.5GiB`, in powers of 1024, as in container tools.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor: u64 = match unit.trim() {
        "b" | "" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "sizes are far below 2^53, and digits have no sign"
    )]
    let size = (number * factor as f64) as u64;
    (size > 0).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expect) in [
            ("512m", Some(512 << 20)),
            ("4g", Some(4 << 30)),
            ("1.5GiB", Some(3 << 29)),
            ("1000", Some(1000)),
            ("0", None),
            ("4 apples", None),
            ("", None),
            ("-1g", None),
        ] {
            assert_eq!(parse_size(text), expect, "{text}");
        }
    }
}
