//! A request, checked by its route: every parameter is known and of its kind before a handler sees it.

use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use weir_service::http::Held;

use super::problem::Problem;
use super::routes::Route;
use super::selection::MOST;
use crate::escape::{self, is_obeyed};

/// A parameter of a query.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Whole { least: i64, most: i64, default: Option<i64> },
    Real { least: f64, most: f64, default: f64 },
    Choice { of: &'static [&'static str] },
    Flag,
}

pub(crate) struct Call {
    pub(crate) route: &'static Route,
    pub(crate) path: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Tells the connection that it waits for good reason.
    pub(crate) held: Held,
}

impl Call {
    /// A part of the path; empty if the route has none of the name.
    pub(crate) fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(part, _)| part == name).map_or("", |(_, value)| value)
    }

    /// A name of the path that something is to be kept under.
    pub(crate) fn new_name(&self) -> Result<&str, Problem> {
        named(self.part("name")).map_err(Problem::request)
    }

    /// All values of a parameter.
    pub(crate) fn texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A parameter's first value.
    pub(crate) fn text<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.texts(name).next()
    }

    /// A whole number, or its default.
    pub(crate) fn whole(&self, name: &str) -> Option<i64> {
        let default = self.route.query.iter().find_map(|parameter| match parameter.kind {
            Kind::Whole { default, .. } if parameter.name == name => default,
            _ => None,
        });
        self.text(name).and_then(|text| text.parse().ok()).or(default)
    }

    /// A number, or its default.
    pub(crate) fn real(&self, name: &str) -> f64 {
        let default = self.route.query.iter().find_map(|parameter| match parameter.kind {
            Kind::Real { default, .. } if parameter.name == name => Some(default),
            _ => None,
        });
        self.text(name).and_then(|text| text.parse().ok()).or(default).unwrap_or_default()
    }

    /// A number of seconds.
    pub(crate) fn seconds(&self, name: &str) -> Duration {
        Duration::try_from_secs_f64(self.real(name)).unwrap_or_default()
    }

    /// A number to count things by.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.whole(name).and_then(|count| count.try_into().ok()).unwrap_or_default()
    }

    /// The body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let example = self.route.body.unwrap_or_default();
            // Of what is not there, a place tells nothing.
            let message = if self.body.is_empty() { "the body is empty".to_owned() } else { format!("body: {error}") };
            Problem::request(format!("{message}; an example: {example}"))
                .with("line", error.line())
                .with("column", error.column())
        })
    }

    /// Looks whether all parameters are known and of their kind.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.query.len() > MOST {
            return Err(Problem::request(format!("{} parameters: {MOST} at most", self.query.len())));
        }
        for (name, value) in &self.query {
            match self.route.query.iter().find(|parameter| parameter.name == name) {
                Some(parameter) => {
                    if let Err(range) = parameter.kind.check(value) {
                        return Err(
                            Problem::request(format!("{name}={value}: is to be {range}")).with("parameter", &**name)
                        );
                    }
                }
                None if self.route.conditions => {}
                None => return Err(self.unknown(name)),
            }
        }
        Ok(())
    }

    fn unknown(&self, name: &str) -> Problem {
        let names: Vec<&str> = self.route.query.iter().map(|parameter| parameter.name).collect();
        let message = if names.is_empty() {
            format!("unknown parameter {name:?}: this path takes none")
        } else {
            format!("unknown parameter {name:?}: this path takes {}", names.join(", "))
        };
        Problem::request(message).with("parameter", name)
    }
}

impl Kind {
    /// What it should be, if it is not.
    fn check(self, text: &str) -> Result<(), String> {
        let holds = match self {
            Self::Text => true,
            Self::Whole { least, most, .. } => text.parse().is_ok_and(|number: i64| (least..=most).contains(&number)),
            Self::Real { least, most, .. } => text.parse().is_ok_and(|number: f64| (least..=most).contains(&number)),
            Self::Choice { of } => of.contains(&text),
            Self::Flag => matches!(text, "true" | "false"),
        };
        if holds { Ok(()) } else { Err(self.range()) }
    }

    /// What it may be, in words.
    pub(crate) fn range(self) -> String {
        match self {
            Self::Text => "a text".into(),
            Self::Whole { least, most, .. } => format!("a whole number from {least} to {}", bound(most as f64)),
            Self::Real { least, most, .. } => format!("a number from {} to {}", bound(least), bound(most)),
            Self::Choice { of } => of.join(", "),
            Self::Flag => "true or false".into(),
        }
    }

    /// What it is when it is not given, in words.
    pub(crate) fn default(self) -> Option<String> {
        match self {
            Self::Whole { default, .. } => default.map(|number| number.to_string()),
            Self::Real { default, .. } => Some(default.to_string()),
            Self::Choice { of } => of.first().map(|&first| first.to_owned()),
            Self::Text | Self::Flag => None,
        }
    }
}

/// The greatest numbers are written as what they are good for.
fn bound(number: f64) -> String {
    match number {
        f64::MAX => "any".into(),
        f64::MIN => "any".into(),
        number if number == ANY as f64 => "any".into(),
        number => number.to_string(),
    }
}

/// No bound for a number of a record.
pub(crate) const ANY: i64 = i64::MAX;

/// A name that something is to be kept and shown under.
///
/// # Errors
/// Why it is none, in one line.
pub(crate) fn named(name: &str) -> Result<&str, String> {
    if (1..=LONGEST_NAME).contains(&name.len()) && !name.contains(|c| is_obeyed(c) || c == '/') {
        return Ok(name);
    }
    let name = escape::escaped(name);
    Err(format!("name \"{name}\": use 1 to {LONGEST_NAME} bytes without control characters and slashes"))
}

const LONGEST_NAME: usize = 128;
