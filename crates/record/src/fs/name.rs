//! Names of files and directories.

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// A sortable id: the time to the second, and random digits.
pub fn new_id() -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let random = uuid::Uuid::now_v7().simple().to_string();
    format!("{now}-{}", &random[random.len() - 8..])
}

/// Whether a name can be that of a file or directory everywhere, also when it is used in a command line.
pub fn is_safe_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_name_char)
}

/// Whether a character is safe within a name.
pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Turns any text, such as a task's name, into the name of a directory.
pub fn folder_name(text: &str) -> String {
    let safe = |c: char| if is_name_char(c) { c } else { '-' };
    let name: String = text.chars().map(safe).take(100).collect();
    name.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_two_digits_each() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }

    #[test]
    fn safe_names_start_with_a_letter_or_digit() {
        for name in ["a", "0", "Fix_the-bug.2"] {
            assert!(is_safe_name(name), "{name}");
        }
        for name in [
            "", ".", "..", ".a", "-a", "_a", "a/b", "a\\b", "a b", "é", "a\0",
        ] {
            assert!(!is_safe_name(name), "{name}");
        }
    }

    #[test]
    fn any_text_becomes_a_directory_name() {
        assert_eq!(folder_name("../fix: it"), "-fix--it");
        assert_eq!(folder_name(&"x".repeat(300)).len(), 100);
    }
}
