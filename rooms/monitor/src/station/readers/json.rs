//! JSON: an object of values, or an array of objects. `{"time": 1700000000.5, "coil": {"current": 3}}` has `coil.current`.

use serde_json::Value;

use super::{Unreadable, is_time, time};

/// Reads a text; `name` is where names are written. Times are numbers at the top of an object: s, ms, us or ns, as their size tells.
///
/// # Errors
/// It is no JSON, or neither an object nor an array of objects.
pub fn json(text: &str, name: &mut String, mut look: impl FnMut(&str, Option<i64>, f64)) -> Result<(), Unreadable> {
    match serde_json::from_str(text) {
        Ok(Value::Array(all)) if all.iter().all(Value::is_object) => {
            all.iter().for_each(|one| object(one, name, &mut look));
            Ok(())
        }
        Ok(one @ Value::Object(_)) => {
            object(&one, name, &mut look);
            Ok(())
        }
        _ => Err(Unreadable("a JSON object, or an array of objects")),
    }
}

fn object(value: &Value, name: &mut String, look: &mut impl FnMut(&str, Option<i64>, f64)) {
    let at = value.as_object().and_then(|fields| fields.iter().find(|(key, value)| is_time(key) && value.is_number()));
    let at = at.and_then(|(_, value)| match value.as_i64() {
        // As ns a float is not exact.
        Some(nanos) if nanos.unsigned_abs() >= 100_000_000_000_000_000 => Some(nanos),
        _ => value.as_f64().and_then(time),
    });
    name.clear();
    walk(value, name, at, true, look);
}

fn walk(
    value: &Value,
    name: &mut String,
    at: Option<i64>,
    is_top: bool,
    look: &mut impl FnMut(&str, Option<i64>, f64),
) {
    let length = name.len();
    let mut go = |key: &str, value: &Value| {
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(key);
        walk(value, name, at, false, look);
        name.truncate(length);
    };
    match value {
        Value::Object(fields) => {
            let values = fields.iter().filter(|(key, _)| !(is_top && is_time(key)));
            values.for_each(|(key, value)| go(key, value));
        }
        Value::Array(all) => all.iter().enumerate().for_each(|(index, value)| go(&index.to_string(), value)),
        Value::Number(number) => look(name, at, number.as_f64().unwrap_or(f64::NAN)),
        Value::Bool(truth) => look(name, at, f64::from(u8::from(*truth))),
        Value::Null | Value::String(_) => {}
    }
}
