//! Influx line protocol: `measurement,tag=value field=1.5,other=2i 1700000000000000000`.

use super::{Look, Unit, Unreadable, put_tags, time};

/// A value is named `measurement.field`, with tags `measurement.field{tag=value}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Influx {
    /// Of times.
    pub unit: Unit,
    /// The tags that are in names; `None`: all.
    pub tags: Option<Vec<String>>,
}

impl Influx {
    /// Reads a line.
    pub(super) fn line(&self, line: &str, look: &mut Look<'_>) -> Result<(), Unreadable> {
        let wrong = Unreadable("Influx line protocol");
        if line.starts_with('#') {
            return Ok(());
        }
        let (series, rest) = cut(line, ' ', false).ok_or(wrong)?;
        let (fields, written) = cut(rest.trim_start(), ' ', true).unwrap_or((rest.trim_start(), ""));
        let at = match written.trim() {
            "" => None,
            written => Some(time(written, Some(self.unit)).ok_or(wrong)?),
        };
        let mut series = parts(series, false);
        let measurement = series.next().filter(|name| !name.is_empty()).ok_or(wrong)?;
        let mut tags = String::new();
        put_tags(&mut tags, series.map(unescaped).collect(), self.tags.as_deref(), '=');
        let mut read = Ok(());
        for field in parts(fields, true) {
            let Some((key, value)) = cut(field, '=', true).filter(|(key, _)| !key.is_empty()) else {
                read = Err(wrong);
                continue;
            };
            let value = match value {
                "t" | "T" | "true" | "True" | "TRUE" => Some(1.0),
                "f" | "F" | "false" | "False" | "FALSE" => Some(0.0),
                text if text.starts_with('"') => continue,
                number => number.strip_suffix(['i', 'u']).unwrap_or(number).parse().ok(),
            };
            match value {
                Some(value) => look(&format!("{}.{}{tags}", unescaped(measurement), unescaped(key)), at, value),
                None => read = Err(wrong),
            }
        }
        read
    }
}

/// Bytes of the first line. A quoted text of a field may have line breaks.
pub(super) fn line_end(bytes: &[u8]) -> Option<usize> {
    let (mut is_escaped, mut is_quoted, mut has_fields, mut before) = (false, false, false, b' ');
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if !is_quoted => return Some(at + 1),
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' if is_quoted || has_fields && before == b'=' => is_quoted = !is_quoted,
            b' ' if before != b' ' && !bytes.trim_ascii_start().starts_with(b"#") => has_fields = true,
            _ => {}
        }
        before = byte;
    }
    None
}

/// What commas separate.
fn parts(text: &str, has_texts: bool) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (part, behind) = cut(text, ',', has_texts).map_or((text, None), |(part, behind)| (part, Some(behind)));
        rest = behind;
        Some(part)
    })
}

/// In front of and behind the first such character that is neither escaped nor, in fields, within a quoted text.
fn cut(text: &str, at: char, has_texts: bool) -> Option<(&str, &str)> {
    let (mut is_escaped, mut is_quoted) = (false, false);
    for (place, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' if has_texts && (is_quoted || text[..place].ends_with('=')) => is_quoted = !is_quoted,
            c if c == at && !is_quoted => return Some((&text[..place], &text[place + c.len_utf8()..])),
            _ => {}
        }
    }
    None
}

fn unescaped(text: &str) -> String {
    let (mut to, mut rest) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(c @ (',' | '=' | ' ' | '"' | '\\')) => to.push(c),
                other => to.extend(['\\'].into_iter().chain(other)),
            },
            c => to.push(c),
        }
    }
    to
}
