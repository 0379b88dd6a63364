//! Texts from untrusted sources, which may have characters that control terminals or mislead readers.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use weir_units::format::{shown, steers};

/// Whether the character controls a terminal or misleads readers: the same everywhere ([`steers`]).
pub fn is_obeyed(c: char) -> bool {
    steers(c)
}

/// A text with such characters escaped.
pub fn escaped(text: &str) -> String {
    shown(text).into_owned()
}

/// Refuses a name with such characters: authors of configurations can correct theirs.
///
/// # Errors
/// One line, in which they are escaped.
pub fn showable(name: &str) -> Result<(), String> {
    if !name.contains(is_obeyed) {
        return Ok(());
    }
    Err(format!("`{}`: it has characters that terminals obey or that turn text round (leave them out)", escaped(name)))
}

/// Writes JSON without white space, with such characters escaped: the value is the same.
///
/// # Errors
/// The writer fails, or JSON has no form for a value.
pub fn write_json(writer: impl Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(writer, Escaping))
}

struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // In ASCII only delete is left: JSON itself escapes the characters below the space.
        if !fragment.bytes().any(|byte| byte >= 0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(is_obeyed) {
            let (plain, obeyed) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut obeyed = obeyed.chars();
            if let Some(c) = obeyed.next() {
                for half in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{half:04x}")?;
                }
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
        let text = "\u{1b}[2Ja\u{9b}2J\u{7f}\u{80}\u{e9}\u{c2}\n\"\\\u{202e}cod\u{2069}\u{200e}\u{61c}\u{2028}€ ü ؟\u{feff}\u{e0041}";
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
