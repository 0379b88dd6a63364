//! Texts of others, who may have put into them what terminals obey or eyes are deceived by.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Whether a terminal would obey the character (C0, delete and C1), or text around it be shown in another order or on
/// another line (marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm, UAX 9; separators).
pub fn is_obeyed(c: char) -> bool {
    let is_bidi = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_bidi || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text in which such characters are written as escapes.
pub fn escaped(text: &str) -> String {
    let escape = |c: char| if is_obeyed(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// Refuses a name that has such characters: those of a configuration are its author's to mend.
///
/// # Errors
/// One line, in which they are escaped.
pub fn showable(name: &str) -> Result<(), String> {
    if !name.contains(is_obeyed) {
        return Ok(());
    }
    Err(format!("`{}`: it has characters that terminals obey or that turn text round (leave them out)", escaped(name)))
}

/// Writes JSON without white space, in which such characters are escaped: the value is the same.
///
/// # Errors
/// As the writer fails, or a value that JSON has no form for.
pub fn write_json(writer: impl Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(writer, Escaping))
}

struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Delete, and the first bytes of the others; JSON itself escapes what is below the space.
        if !fragment.bytes().any(|byte| matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2)) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(is_obeyed) {
            let (plain, obeyed) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut obeyed = obeyed.chars();
            if let Some(c) = obeyed.next() {
                // All of them have four digits.
                write!(writer, "\\u{:04x}", u32::from(c))?;
            }
            rest = obeyed.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_obeyed_is_escaped_and_the_value_the_same() {
        let text = "\u{1b}[2Ja\u{9b}2J\u{7f}\u{80}\u{e9}\u{c2}\n\"\\\u{202e}cod\u{2069}\u{200e}\u{61c}\u{2028}€ ü ؟";
        let mut json = Vec::new();
        write_json(&mut json, text).unwrap();
        let json = String::from_utf8(json).unwrap();
        assert!(!json.contains(is_obeyed), "{json}");
        assert!(
            json.contains("a\\u009b2J\\u007f\\u0080éÂ\\n")
                && json.contains("\\u202ecod\\u2069")
                && json.contains("€ ü ؟"),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
