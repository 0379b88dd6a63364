//! JSON: an object of values, or an array of objects. `{"time": 1700000000.5, "coil": {"current": 3}}` has `coil.current`.

use serde_json::{Deserializer, Value};

use super::{Look, Unit, Unreadable, is_time, time};

/// Objects, one a line; a datagram may have one over several lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Json {
    /// Whether it comes in datagrams, not in lines.
    pub is_datagram: bool,
    /// Of times: numbers at the top of an object.
    pub unit: Option<Unit>,
}

impl Json {
    /// Reads objects. If not all of the text is readable, each line counts for itself.
    pub(super) fn text(&self, text: &str, look: &mut Look<'_>) -> Result<(), Unreadable> {
        let wrong = Unreadable("JSON objects, or an array of objects");
        let (mut all, mut read) = (objects(text).unwrap_or_default(), Ok(()));
        if all.is_empty() {
            for line in text.lines() {
                match objects(line) {
                    Some(objects) => all.extend(objects),
                    None => read = Err(wrong),
                }
            }
        }
        for object in &all {
            let written = object.as_object().and_then(|fields| {
                fields.iter().find(|(key, value)| is_time(key) && value.is_number()).map(|(_, value)| value.to_string())
            });
            walk(object, &mut String::new(), written.and_then(|text| time(&text, self.unit)), look);
        }
        read
    }
}

/// All objects of a text; `None`: something else is in it.
fn objects(text: &str) -> Option<Vec<Value>> {
    let values = |text: &str| Deserializer::from_str(text).into_iter().collect::<Result<Vec<Value>, _>>();
    let values = values(text).or_else(|_| values(&without_words(text))).ok()?;
    let objects = values.into_iter().flat_map(|value| match value {
        Value::Array(all) => all,
        one => vec![one],
    });
    let objects: Vec<Value> = objects.collect();
    objects.iter().all(Value::is_object).then_some(objects)
}

/// Numbers that JSON does not have, which others write all the same (`NaN`, `-inf`), are null.
fn without_words(text: &str) -> String {
    let part = |part: &str| {
        let word = part.trim_start().trim_start_matches('-');
        let rest = word.trim_start_matches(char::is_alphabetic);
        match &word[..word.len() - rest.len()] {
            "NaN" | "nan" | "Infinity" | "inf" => format!("null{rest}"),
            _ => part.to_owned(),
        }
    };
    text.split_inclusive([':', ',', '[']).map(part).collect()
}

fn walk(value: &Value, name: &mut String, at: Option<i64>, look: &mut Look<'_>) {
    let length = name.len();
    let mut go = |key: &str, value: &Value| {
        if length > 0 {
            name.push('.');
        }
        name.push_str(key);
        walk(value, name, at, look);
        name.truncate(length);
    };
    match value {
        Value::Object(fields) => {
            // At the top, times are not values.
            let values = fields.iter().filter(|(key, _)| length > 0 || !is_time(key));
            values.for_each(|(key, value)| go(key, value));
        }
        Value::Array(all) => all.iter().enumerate().for_each(|(index, value)| go(&index.to_string(), value)),
        Value::Number(number) => look(name, at, number.as_f64().unwrap_or(f64::NAN)),
        Value::Bool(truth) => look(name, at, f64::from(u8::from(*truth))),
        Value::Null | Value::String(_) => {}
    }
}
