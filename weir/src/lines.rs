//! Text lines, made from the JSON object of `--json`.

use serde_json::Value;
use weir_program::output::say;
use weir_units::format;

/// A label and a text with keys of the object in braces.
///
/// | text | is |
/// |---|---|
/// | `{key}` | its value, in the unit of the key's suffix |
/// | `{a%b}` | a as a share of b, in percent |
/// | `{?key}`, `{!key}` | nothing: a condition that the key is known, or unknown (null) |
/// | `+` at the beginning | nothing: a condition that the first value is not 0 |
/// | `[...]` | left out if a key in it is unknown |
///
/// A line with an unknown key is left out.
pub(crate) type Line<'a> = (&'a str, &'a str);

/// Prints the lines for which the object has values.
pub(crate) fn print(object: &Value, indent: &str, lines: &[Line<'_>]) {
    for (label, text) in lines {
        if let Some(text) = filled(object, text) {
            let width = 14 - indent.len();
            say!("{indent}{label:<width$}{text}");
        }
    }
}

/// The text with its values. `None`: a value is unknown.
pub(crate) fn filled(object: &Value, text: &str) -> Option<String> {
    let (text, mut not_zero) = text.strip_prefix('+').map_or((text, false), |text| (text, true));
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '[']) {
        filled.push_str(&rest[..at]);
        let close = if rest[at..].starts_with('{') { '}' } else { ']' };
        let (inner, after) = rest[at + 1..].split_once(close)?;
        rest = after;
        if close == ']' {
            filled.push_str(&self::filled(object, inner).unwrap_or_default());
            continue;
        }
        let known = |key: &str| Some(&object[key]).filter(|value| !value.is_null());
        if let Some(key) = inner.strip_prefix('?') {
            known(key)?;
        } else if let Some(key) = inner.strip_prefix('!') {
            if known(key).is_some() {
                return None;
            }
        } else if let Some((part, whole)) = inner.split_once('%') {
            let share = known(part)?.as_f64()? / known(whole)?.as_f64()?.max(1.0);
            filled.push_str(&format::short(share * 100.0));
        } else {
            let value = known(inner)?;
            if std::mem::take(&mut not_zero) && value.as_f64() == Some(0.0) {
                return None;
            }
            filled.push_str(&shown(inner, value));
        }
    }
    filled.push_str(rest);
    Some(filled)
}

fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64().unwrap_or(f64::NAN) {
            us if key.ends_with("_us") => format::duration(us),
            s if key.ends_with("_s") && !key.ends_with("per_s") => format::duration(s * 1e6),
            value if number.is_f64() => format::short(value),
            _ => number.to_string(),
        },
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_there_where_its_values_are_known() {
        let object =
            json!({"sent": 20, "lost": 5, "zero": 0, "mean_us": 1500.0, "used_s": 0.5, "gone": null, "to": "x"});
        for (text, expected) in [
            ("{sent} to {to} in {used_s}, mean {mean_us}", Some("20 to x in 500 ms, mean 1.5 ms")),
            ("{lost} ({lost%sent} %)", Some("5 (25 %)")),
            ("{sent} {gone}", None),
            ("{sent} {none}", None),
            ("{!gone}at least {sent}[, {gone}][, {lost}]", Some("at least 20, 5")),
            ("{!sent}at least {lost}", None),
            ("{?sent}known", Some("known")),
            ("{?gone}known", None),
            ("+{zero} of {sent}", None),
            ("+{sent} of {zero}", Some("20 of 0")),
            ("{zero}", Some("0")),
        ] {
            assert_eq!(filled(&object, text).as_deref(), expected, "{text}");
        }
    }
}
