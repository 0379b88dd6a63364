//! Influx line protocol: `measurement,tag=value field=1.5,other=2i 1700000000000000000`.

use super::Unreadable;

/// Reads a line. A value is named `measurement.field`, with tags `measurement.field{tag=value}`; `name` is where that is written.
/// Times are ns, as the protocol has them where nobody says otherwise.
///
/// # Errors
/// No measurement, no field, a value that is neither number, truth nor text, a time that is no number.
pub fn influx(line: &str, name: &mut String, mut look: impl FnMut(&str, Option<i64>, f64)) -> Result<(), Unreadable> {
    let wrong = Unreadable("Influx line protocol");
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(());
    }
    let (series, rest) = cut(line, ' ').ok_or(wrong)?;
    let (fields, time) = cut(rest.trim_start(), ' ').unwrap_or((rest.trim_start(), ""));
    let time = match time.trim() {
        "" => None,
        time => Some(time.parse::<i64>().map_err(|_| wrong)?),
    };
    let (measurement, tags) = cut(series, ',').unwrap_or((series, ""));
    if measurement.is_empty() {
        return Err(wrong);
    }
    let (mut rest, mut read) = (Some(fields), Ok(()));
    while let Some(fields) = rest {
        let (field, behind) = cut(fields, ',').map_or((fields, None), |(field, rest)| (field, Some(rest)));
        rest = behind;
        let Some((key, value)) = cut(field, '=').filter(|(key, _)| !key.is_empty()) else {
            read = Err(wrong);
            continue;
        };
        let value = match value {
            "t" | "T" | "true" | "True" | "TRUE" => 1.0,
            "f" | "F" | "false" | "False" | "FALSE" => 0.0,
            text if text.starts_with('"') => continue,
            number => match number.strip_suffix(['i', 'u']).unwrap_or(number).parse() {
                Ok(value) => value,
                Err(_) => {
                    read = Err(wrong);
                    continue;
                }
            },
        };
        name.clear();
        unescape(measurement, name);
        name.push('.');
        unescape(key, name);
        if !tags.is_empty() {
            name.push('{');
            unescape(tags, name);
            name.push('}');
        }
        look(name, time, value);
    }
    read
}

/// In front of and behind the first such character that is neither escaped nor within a text.
fn cut(text: &str, at: char) -> Option<(&str, &str)> {
    let (mut escaped, mut quoted) = (false, false);
    for (place, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            // Texts are values only.
            '"' if quoted || text[..place].ends_with('=') || place == 0 => quoted = !quoted,
            c if c == at && !quoted => return Some((&text[..place], &text[place + c.len_utf8()..])),
            _ => {}
        }
    }
    None
}

fn unescape(text: &str, to: &mut String) {
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(c @ (',' | '=' | ' ' | '"' | '\\')) => to.push(c),
                other => to.extend(['\\'].into_iter().chain(other)),
            },
            c => to.push(c),
        }
    }
}
