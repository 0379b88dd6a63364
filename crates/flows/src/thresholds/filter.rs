//! Which agents and data sources are meant: conditions on their metrics, `os_name=linux&host_name=*web*`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_program::config::did_you_mean;
use weir_units::format::printable;

use crate::counters::{Form, Metric, Number};

/// Metrics by name, each with the values that will do. All names must match, by any of their values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Written>")]
pub struct Filter(BTreeMap<String, Vec<Pattern>>);

/// A value of a metric: a number, or a text in which `*` stands for any.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "String")]
pub struct Pattern {
    text: String,
    number: Option<f64>,
}

/// The value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<'a> {
    /// A rate, a gauge, a speed.
    Number(f64),
    /// A name.
    Text(Cow<'a, str>),
}

impl<'a> From<Number<'a>> for Fact<'a> {
    fn from(number: Number<'a>) -> Self {
        match number {
            Number::Number(number) => Self::Number(number),
            Number::Name(name) => Self::Text(name.into()),
            Number::Text(text) => Self::Text(printable(&String::from_utf8_lossy(text)).into()),
        }
    }
}

/// What is known of a data source and its agent.
pub trait Facts {
    /// A metric's value; none if it is not known.
    fn fact(&self, name: &str) -> Option<Fact<'_>>;
}

/// Nothing is known.
impl Facts for () {
    fn fact(&self, _name: &str) -> Option<Fact<'_>> {
        None
    }
}

impl Filter {
    /// Of pairs of name and value; values of one name are alternatives.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut names: BTreeMap<String, Vec<Pattern>> = BTreeMap::new();
        for (name, value) in pairs {
            names.entry(name.to_owned()).or_default().push(Pattern::new(value));
        }
        Self(names)
    }

    /// Whether it lets everything pass.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all its names match. What is not known does not.
    pub fn matches(&self, facts: &(impl Facts + ?Sized)) -> bool {
        self.iter().all(|(name, wanted)| {
            facts.fact(name).is_some_and(|fact| wanted.iter().any(|pattern| pattern.matches(&fact)))
        })
    }

    /// Looks whether each of its names is a metric, or one of `others`, and can have one of its values.
    ///
    /// # Errors
    /// One line: the first that is none, or that it can never be.
    pub fn check(&self, others: &[&str]) -> Result<(), String> {
        for (name, patterns) in &self.0 {
            let metric = Metric::find(name);
            if metric.is_none() && !others.contains(&&**name) {
                let names = Metric::all().iter().map(|metric| &*metric.name).chain(others.iter().copied());
                return Err(format!("there is no metric `{}`{}", name.escape_debug(), did_you_mean(name, names)));
            }
            if patterns.is_empty() {
                return Err(format!("{name}: there is no value: write one, or leave it out"));
            }
            let Some(form) = metric.and_then(Metric::form) else { continue };
            if let Some(pattern) = patterns.iter().find(|pattern| !pattern.can_match(&form)) {
                return Err(format!("`{name}` is {form}, never `{}`", pattern.text.escape_debug()));
            }
        }
        Ok(())
    }

    /// Its names, each with the values that will do.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Pattern])> {
        self.0.iter().map(|(name, wanted)| (&**name, &**wanted))
    }
}

impl Pattern {
    /// Of a text as a query has it.
    pub fn new(text: &str) -> Self {
        Self { number: text.parse().ok(), text: text.to_owned() }
    }

    fn can_match(&self, form: &Form) -> bool {
        self.text == "*"
            || match form {
                Form::Number => self.number.is_some(),
                Form::Words(words) => words.iter().any(|word| matches(self.text.as_bytes(), word.as_bytes())),
            }
    }

    /// Whether a value is meant.
    pub fn matches(&self, fact: &Fact<'_>) -> bool {
        match fact {
            Fact::Number(value) => self.number == Some(*value) || self.text == "*",
            Fact::Text(text) => matches(self.text.as_bytes(), text.as_bytes()),
        }
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

/// Whether a text is as a pattern, in which `*` stands for any text, the empty one too. Takes at most the product of their
/// lengths: only the last star is tried again.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, begin)) = star {
            star = Some((at, begin + 1));
            p = at + 1;
            t = begin + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a value or a list of values: [\"linux\"]")]
enum Written {
    One(Value),
    Several(Vec<Value>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(f64),
}

impl From<BTreeMap<String, Written>> for Filter {
    fn from(names: BTreeMap<String, Written>) -> Self {
        let pattern = |value| match value {
            Value::Text(text) => Pattern::new(&text),
            Value::Number(number) => Pattern::new(&number.to_string()),
        };
        let patterns = |written| match written {
            Written::One(value) => vec![pattern(value)],
            Written::Several(values) => values.into_iter().map(pattern).collect(),
        };
        Self(names.into_iter().map(|(name, written)| (name, patterns(written))).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Host;

    impl Facts for Host {
        fn fact(&self, name: &str) -> Option<Fact<'_>> {
            match name {
                "host_name" => Some(Fact::Text("eu-web-7".into())),
                "os_name" => Some(Fact::Text("linux".into())),
                "cpu_num" => Some(Fact::Number(2.0)),
                _ => None,
            }
        }
    }

    #[test]
    fn texts_of_agents_have_nothing_that_terminals_obey() {
        assert_eq!(Fact::from(Number::Text("a\u{1b}\u{202e}é".as_bytes())), Fact::Text("a  é".into()));
    }

    #[test]
    fn all_names_match_by_any_of_their_values() {
        let matches = |pairs: &[(&str, &str)]| Filter::new(pairs.iter().copied()).matches(&Host);
        assert!(matches(&[]));
        assert!(matches(&[("os_name", "windows"), ("os_name", "linux"), ("cpu_num", "2.0"), ("host_name", "*web*")]));
        assert!(!matches(&[("os_name", "linux"), ("cpu_num", "4")]));
        assert!(!matches(&[("unknown", "*")]));
        assert!(!matches(&[("cpu_num", "two")]));
    }

    #[test]
    fn what_no_source_can_have_is_refused() {
        let check = |pairs: &[(&str, &str)]| Filter::new(pairs.iter().copied()).check(&["agent"]);
        for pairs in [
            &[("ifspeed", "1000000000"), ("ifspeed", "1e9")][..],
            &[("ifspeed", "*"), ("os_name", "lin*"), ("ifadminstatus", "u*"), ("agent", "10.*")],
        ] {
            assert_eq!(check(pairs), Ok(()), "{pairs:?}");
        }
        for (name, value, expected) in [
            ("ifsped", "1", "there is no metric `ifsped`, did you mean `ifspeed`?"),
            ("agnt", "1", "there is no metric `agnt`, did you mean `agent`?"),
            ("ifspeed", "10G", "`ifspeed` is a number, never `10G`"),
            ("ifadminstatus", "1", "`ifadminstatus` is up or down, never `1`"),
            ("\u{1b}[2J", "1", "there is no metric `\\u{1b}[2J`"),
        ] {
            let said = check(&[(name, value)]).unwrap_err();
            assert!(said.contains(expected) && !said.contains(char::is_control), "{name}={value}: {said}");
        }
        let empty: Filter = serde_json::from_str(r#"{"ifspeed":[]}"#).unwrap();
        assert!(empty.check(&[]).unwrap_err().starts_with("ifspeed: there is no value"));
    }

    proptest! {
        /// A pattern made from pieces of a text, with stars for the rest, matches it; and the naive definition agrees.
        #[test]
        fn stars_stand_for_any_text(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
            fn naive(pattern: &[u8], text: &[u8]) -> bool {
                match pattern.split_first() {
                    None => text.is_empty(),
                    Some((b'*', rest)) => (0..=text.len()).any(|skip| naive(rest, &text[skip..])),
                    Some((byte, rest)) => text.first() == Some(byte) && naive(rest, &text[1..]),
                }
            }
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), naive(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
