//! A request, checked by its route: every parameter is known and of its kind before a handler sees it.

use std::fmt;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// A parameter of a query.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What it is for.
    pub about: &'static str,
    /// Whether it has to be given.
    pub is_needed: bool,
}

/// What a parameter may be, and what it is where it is not given.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "bounds and defaults")]
pub enum Kind {
    Text,
    Whole { least: i64, most: i64, default: Option<i64> },
    Real { least: f64, most: f64, default: f64 },
    Choice { of: &'static [&'static str], default: Option<&'static str> },
    Flag,
}

impl Parameter {
    /// Of this kind.
    pub const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about, is_needed: false }
    }

    /// A text.
    pub const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, Kind::Text, about)
    }

    /// A whole number.
    pub const fn whole(name: &'static str, least: i64, most: i64, default: Option<i64>, about: &'static str) -> Self {
        Self::new(name, Kind::Whole { least, most, default }, about)
    }

    /// A number.
    pub const fn real(name: &'static str, least: f64, most: f64, default: f64, about: &'static str) -> Self {
        Self::new(name, Kind::Real { least, most, default }, about)
    }

    /// Which has to be given.
    pub const fn needed(self) -> Self {
        Self { is_needed: true, ..self }
    }
}

/// For a reference.
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, about, is_needed } = self;
        let default = match kind.default() {
            Some(default) => format!("; {default} unless told"),
            None if *is_needed => "; needed".to_owned(),
            None => String::new(),
        };
        write!(f, "`{name}`: {about} ({}{default})", kind.range())
    }
}

/// A request as its handler sees it.
#[derive(Debug)]
pub struct Call {
    /// The head.
    pub parts: Parts,
    /// What its route knows.
    pub parameters: &'static [Parameter],
    /// The query.
    pub query: Vec<(String, String)>,
    /// The body, where its route has one.
    pub body: Bytes,
    pub(super) path: Vec<(String, String)>,
    /// An example of a body.
    pub(super) example: &'static str,
}

impl Call {
    /// With a query that these parameters permit; `further`: others are the handler's to look at.
    ///
    /// # Errors
    /// 400: a parameter is not known, not of its kind, or lacking.
    pub fn checked(parts: Parts, parameters: &'static [Parameter], further: bool) -> Result<Self, Problem> {
        let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let call = Self { parts, parameters, query, body: Bytes::new(), path: Vec::new(), example: "" };
        call.check(further)?;
        Ok(call)
    }

    /// A part of the path; empty if the route has none of the name.
    pub fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(part, _)| part == name).map_or("", |(_, value)| value)
    }

    /// A header, if it is text.
    pub fn header(&self, name: impl axum::http::header::AsHeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// All values of a parameter.
    pub fn texts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A parameter's first value.
    pub fn text<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.texts(name).next()
    }

    /// A whole number, or its default.
    pub fn whole(&self, name: &str) -> Option<i64> {
        let default = self.parameters.iter().find_map(|parameter| match parameter.kind {
            Kind::Whole { default, .. } if parameter.name == name => default,
            _ => None,
        });
        self.text(name).and_then(|text| text.parse().ok()).or(default)
    }

    /// A number, or its default.
    pub fn real(&self, name: &str) -> f64 {
        let default = self.parameters.iter().find_map(|parameter| match parameter.kind {
            Kind::Real { default, .. } if parameter.name == name => Some(default),
            _ => None,
        });
        self.text(name).and_then(|text| text.parse().ok()).or(default).unwrap_or_default()
    }

    /// A number of seconds.
    pub fn seconds(&self, name: &str) -> Duration {
        Duration::try_from_secs_f64(self.real(name)).unwrap_or_default()
    }

    /// A number to count things by.
    pub fn count(&self, name: &str) -> usize {
        self.whole(name).and_then(|count| count.try_into().ok()).unwrap_or_default()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// It is none of such a value.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // Of what is not there, a place tells nothing.
            let message = if self.body.is_empty() { "the body is empty".to_owned() } else { format!("body: {error}") };
            Problem::request(format!("{message}; an example: {}", self.example))
                .with("line", error.line())
                .with("column", error.column())
        })
    }

    fn check(&self, further: bool) -> Result<(), Problem> {
        if self.query.len() > MOST {
            return Err(Problem::request(format!("{} parameters: {MOST} at most", self.query.len())));
        }
        for (name, value) in &self.query {
            match self.parameters.iter().find(|parameter| parameter.name == name) {
                Some(parameter) => parameter.kind.check(value).map_err(|range| {
                    Problem::request(format!("{name}={value}: is to be {range}")).with("parameter", &**name)
                })?,
                None if further => {}
                None => return Err(unknown(name, self.parameters.iter().map(|parameter| parameter.name))),
            }
        }
        match self.parameters.iter().find(|parameter| parameter.is_needed && self.text(parameter.name).is_none()) {
            Some(parameter) => Err(Problem::request(format!("{}: this path needs it", parameter.name))),
            None => Ok(()),
        }
    }
}

/// 400: a parameter that a path does not take.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    let known: Vec<&str> = known.collect();
    let takes = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Problem::request(format!("unknown parameter {name:?}: this path takes {takes}")).with("parameter", name)
}

impl Kind {
    /// What it should be, if it is not.
    fn check(self, text: &str) -> Result<(), String> {
        let holds = match self {
            Self::Text => true,
            Self::Whole { least, most, .. } => text.parse().is_ok_and(|number: i64| (least..=most).contains(&number)),
            Self::Real { least, most, .. } => text.parse().is_ok_and(|number: f64| (least..=most).contains(&number)),
            Self::Choice { of, .. } => of.contains(&text),
            Self::Flag => matches!(text, "true" | "false"),
        };
        if holds { Ok(()) } else { Err(self.range()) }
    }

    /// What it may be, in words.
    pub fn range(self) -> String {
        match self {
            Self::Text => "a text".into(),
            Self::Whole { least, most, .. } => format!("a whole number from {least} to {}", bound(most as f64)),
            Self::Real { least: f64::MIN, most: f64::MAX, .. } => "a number".into(),
            Self::Real { least, most, .. } => format!("a number from {least} to {}", bound(most)),
            Self::Choice { of, .. } => of.join(", "),
            Self::Flag => "true or false".into(),
        }
    }

    /// What it is when it is not given, in words.
    pub fn default(self) -> Option<String> {
        match self {
            Self::Whole { default, .. } => default.map(|number| number.to_string()),
            Self::Real { default, .. } => Some(default.to_string()),
            Self::Choice { default, .. } => default.map(str::to_owned),
            Self::Text | Self::Flag => None,
        }
    }
}

/// The greatest numbers are written as what they are good for.
fn bound(number: f64) -> String {
    if number >= ANY as f64 { "any".into() } else { number.to_string() }
}

/// No bound for a number of a record.
pub const ANY: i64 = i64::MAX;

/// Parameters of a query.
const MOST: usize = 64;
