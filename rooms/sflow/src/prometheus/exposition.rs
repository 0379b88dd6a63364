//! The text formats of Prometheus and OpenMetrics, for names that are known at run time only.

use std::fmt::{self, Display, Write as _};
use std::io::Write;

use weir_service::metrics::Format;

use crate::escape::is_obeyed;

/// A name of a metric, of any text: what a name cannot have becomes `_`.
pub(super) fn name_of(prefix: &str, text: &str) -> String {
    let name: String = prefix.chars().chain(text.chars()).map(plain).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() { format!("_{name}") } else { name }
}

/// A name of a label; those that begin with two underlines are Prometheus's own.
pub(super) fn label_of(text: &str) -> String {
    let name = name_of("", text);
    match name.strip_prefix("__") {
        Some(rest) => format!("_{}", rest.trim_start_matches('_')),
        None => name,
    }
}

fn plain(c: char) -> char {
    if c.is_ascii_alphanumeric() { c } else { '_' }
}

/// The head of a family. It goes up and down; a name that ends as a counter's or a histogram's is left without a type, as
/// the format demands of whatever is none (`sflow_mem_total`).
pub(super) fn untyped(page: &mut Vec<u8>, name: &str, format: Format, help: fmt::Arguments<'_>) {
    let reserved = ["_total", "_count", "_sum", "_bucket", "_created", "_info"];
    let kind = match format {
        _ if !reserved.iter().any(|suffix| name.ends_with(suffix)) => "gauge",
        Format::OpenMetrics => "unknown",
        Format::Text => "untyped",
    };
    // Writing to memory does not fail.
    let _ = write!(page, "# HELP {name} ");
    // In help, a quote stands for itself in the older format; escaped it is right in both only where it is left out.
    let _ = write!(Escaped(page), "{}", help.to_string().replace('"', "'"));
    let _ = writeln!(page, "\n# TYPE {name} {kind}");
}

/// A sample. Labels whose value is empty are left out: they say the same.
pub(super) fn sample<'a, V: Display>(
    page: &mut Vec<u8>,
    name: &str,
    labels: impl IntoIterator<Item = (&'a str, V)>,
    value: f64,
) {
    page.extend_from_slice(name.as_bytes());
    let mut between = b'{';
    for (label, value) in labels {
        let begin = page.len();
        page.push(between);
        page.extend_from_slice(label.as_bytes());
        page.extend_from_slice(b"=\"");
        let empty = page.len();
        // Writing to memory does not fail.
        let _ = write!(Escaped(page), "{value}");
        if page.len() == empty {
            page.truncate(begin);
        } else {
            page.push(b'"');
            between = b',';
        }
    }
    if between == b',' {
        page.push(b'}');
    }
    let _ = match value {
        value if value == f64::INFINITY => page.write_all(b" +Inf\n"),
        value if value == f64::NEG_INFINITY => page.write_all(b" -Inf\n"),
        value => writeln!(page, " {value}"),
    };
}

/// Escapes what the format gives a meaning of its own. Characters that terminals or eyes obey become U+FFFD: names come from others,
/// and people read expositions on terminals.
struct Escaped<'a>(&'a mut Vec<u8>);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '\\' => self.0.extend_from_slice(b"\\\\"),
                '"' => self.0.extend_from_slice(b"\\\""),
                '\n' => self.0.extend_from_slice(b"\\n"),
                ' '..='~' => self.0.push(c as u8),
                c if is_obeyed(c) => self.0.extend_from_slice("\u{fffd}".as_bytes()),
                c => self.0.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(labels: &[(&str, &str)], value: f64) -> String {
        let mut page = Vec::new();
        sample(&mut page, "m", labels.iter().copied(), value);
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn names_hold_what_names_may() {
        assert_eq!(name_of("sflow_", "mask:ipsource:24"), "sflow_mask_ipsource_24");
        assert_eq!(name_of("", "1é-"), "_1__");
        assert_eq!(name_of("", ""), "_");
        assert_eq!(label_of("__name__"), "_name__");
        assert_eq!(label_of("ip source"), "ip_source");
    }

    #[test]
    fn values_are_escaped_and_empty_labels_left_out() {
        let hostile = [("a", "\"x\\\n\u{1b}\u{7f}\u{9b}\u{202e}\u{2066}"), ("b", ""), ("c", "ü")];
        assert_eq!(
            written(&hostile, 0.5),
            "m{a=\"\\\"x\\\\\\n\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\",c=\"ü\"} 0.5\n"
        );
        assert_eq!(written(&[("a", "")], f64::INFINITY), "m +Inf\n");
        assert_eq!(written(&[], f64::NAN), "m NaN\n");
        assert_eq!(written(&[], 1e21), "m 1000000000000000000000\n");
    }
}
