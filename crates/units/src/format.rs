//! Numbers as text, and text from untrusted sources.

use std::borrow::Cow;
use std::fmt::Write;

/// The text without control, bidirectional and invisible characters: others choose names.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) { ' ' } else { c }).collect()
}

/// A line of text with untrusted parts (names of processes, interfaces, namespaces, hosts) for a terminal: control,
/// line-ending, bidirectional and invisible characters are escaped, `\u{1b}`.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| if steers(c) { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escaped).collect())
}

/// The same for a JSON text, which keeps its meaning: the remaining such characters are in strings.
pub fn shown_in_json(json: &str) -> Cow<'_, str> {
    if !json.contains(steers) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if steers(c) {
            for half in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{half:04x}");
            }
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

/// Whether a character controls a terminal or misleads readers: control characters; bidirectional marks, line
/// separators and invisible joiners (Unicode's Cf, Zl and Zp).
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// `1 socket`, `2 sockets`, `2 addresses`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if noun.ends_with('s') { "es" } else { "s" };
    format!("{number} {noun}{}", if number == 1 { "" } else { plural })
}

/// At most six significant digits, always the whole integer part, no exponent. Empty if not finite.
pub fn plain(value: f64) -> String {
    significant(value, 6)
}

/// Three significant digits, thousands separated by thin spaces; a dash if not finite.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    grouped(&significant(value, 3))
}

/// A rate for a narrow column, aligned with others of its size: `912`, `37.3`, `0.35`.
pub fn rate(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "–".into(),
        0.0 => "0".into(),
        size if size >= 99.95 => grouped(&format!("{value:.0}")),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A duration given in s, in everyday units: `71.4 s`, `13 min 23 s`, `2 h 5 min`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round().clamp(0.0, 1e15) as u64;
    match whole {
        0..120 => duration(seconds * 1e6),
        120..7200 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A count with separated thousands.
pub fn count(value: i64) -> String {
    grouped(&value.to_string())
}

/// A duration given in us: `160 µs`, `8.04 ms`, `30 s`.
pub fn duration(us: f64) -> String {
    match us.abs() {
        size if size >= 999_500.0 => format!("{} s", short(us / 1e6)),
        size if size >= 999.5 => format!("{} ms", short(us / 1e3)),
        _ => format!("{} µs", short(us)),
    }
}

/// A size: `640 B`, `14.5 kB`, `1.2 MB`, in powers of 1000.
pub fn bytes(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5e6 => format!("{} GB", short(value / 1e9)),
        size if size >= 999.5e3 => format!("{} MB", short(value / 1e6)),
        size if size >= 999.5 => format!("{} kB", short(value / 1e3)),
        _ => format!("{} B", short(value)),
    }
}

/// A probability or level: `95 %`, `99.5 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 4))
}

/// At most this many significant digits, always the whole integer part, no exponent. Empty if not finite.
pub fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return String::new();
    }
    if value == 0.0 {
        return "0".into();
    }
    let decimals = (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".into() } else { text.into() }
}

/// Separates the thousands of the integer part with thin spaces, from five digits on.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, rest) = digits.find('.').map_or((digits, ""), |dot| digits.split_at(dot));
    if whole.len() < 5 {
        return text.to_owned();
    }
    let mut parted = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            parted.push('\u{2009}');
        }
        parted.push(digit);
    }
    parted + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped() {
        let evil = "a\u{1b}[31m\u{7}\nb\u{202e}c\u{9b}d\u{2066}\u{e0041}";
        let safe = "a\\u{1b}[31m\\u{7}\\nb\\u{202e}c\\u{9b}d\\u{2066}\\u{e0041}";
        assert_eq!(shown(evil), safe);
        for plain in ["eth0", "Gerät ä 漢字 🐎", ""] {
            assert!(matches!(shown(plain), Cow::Borrowed(text) if text == plain));
            assert!(matches!(shown_in_json(plain), Cow::Borrowed(text) if text == plain));
        }
        assert_eq!(shown_in_json("{\"a\":\"\u{202e}\u{9b}\u{e0041}\"}"), "{\"a\":\"\\u202e\\u009b\\udb40\\udc41\"}");
    }

    #[test]
    fn what_steers_or_turns_text_is_a_space() {
        assert_eq!(printable("a\u{1b}[2J\u{202e}b\u{2028}c\u{e0041}d\u{fff9}\u{61c}é"), "a [2J b c d  é");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(plain(93.716_666_7), "93.7167");
        assert_eq!(plain(840_000_000.4), "840000000");
        assert_eq!(
            (plain(0.0), plain(-0.0), plain(f64::NAN), plain(1e-20)),
            ("0".into(), "0".into(), "".into(), "0".into())
        );
        assert_eq!(
            (short(1_234_567.0), short(-12.345), short(9999.4)),
            ("1\u{2009}234\u{2009}567".into(), "-12.3".into(), "9999".into())
        );
        assert_eq!(
            (duration(160.4), duration(8040.0), duration(3e7)),
            ("160 µs".into(), "8.04 ms".into(), "30 s".into())
        );
        assert_eq!(
            (duration(999.9), duration(999_900.0), duration(8.4e8)),
            ("1 ms".into(), "1 s".into(), "840 s".into())
        );
        assert_eq!(
            [912.4, 37.28, 9.999, 0.352, 0.0, 1e5].map(rate),
            ["912", "37.3", "10.0", "0.35", "0", "100\u{2009}000"]
        );
        assert_eq!([71.4, 803.0, 7500.0].map(span), ["71.4 s", "13 min 23 s", "2 h 5 min"]);
        assert_eq!(
            (bytes(640.0), bytes(14_480.0), bytes(999_900.0), bytes(4.831e10)),
            ("640 B".into(), "14.5 kB".into(), "1 MB".into(), "48.3 GB".into())
        );
        assert_eq!([0, 1, 2].map(|number| counted(number, "socket")), ["0 sockets", "1 socket", "2 sockets"]);
        assert_eq!([1, 2].map(|number| counted(number, "address")), ["1 address", "2 addresses"]);
        assert_eq!((percent(0.95), percent(0.995)), ("95 %".into(), "99.5 %".into()));
    }

    proptest! {
        #[test]
        fn plain_numbers_read_back(value in -1e12f64..1e12) {
            let text = plain(value);
            prop_assert!(!text.contains('e'));
            let back: f64 = text.parse().unwrap();
            prop_assert!((back - value).abs() <= value.abs() * 1e-5 + 1e-12);
        }
    }
}
