//! Definitions of flows as sFlow-RT's `PUT /flow/NAME/json` takes them, and as configuration has them.

use std::str::FromStr;

use serde::de::{Deserializer, Error, Unexpected};
use serde::{Deserialize, Serialize};

use super::expression::{self, Expression};
use super::filter::{self, Filter};
use super::syntax::Syntax;
use super::values::{self, Column, Kind};

/// What a flow is: which packets belong to it, by what they are told apart, what is summed.
///
/// Numbers and switches may also be written as texts, and a text as `null`, which some of sFlow-RT's applications do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Definition {
    /// Keys and functions of keys, separated by commas: `ipsource,group:ipdestination:campus`. Packets that lack one of them
    /// are not counted. Empty: one flow a data source.
    #[serde(deserialize_with = "list")]
    pub keys: String,
    /// What is summed, averaged or counted: `bytes`, `frames`, `requests`, `avg:duration`, `count:ipsource` ...
    #[serde(deserialize_with = "list")]
    pub value: String,
    /// Further values of the same flows, separated by commas.
    #[serde(deserialize_with = "list", skip_serializing_if = "String::is_empty")]
    pub values: String,
    /// Which packets are counted; empty: all.
    #[serde(deserialize_with = "list", skip_serializing_if = "String::is_empty")]
    pub filter: String,
    /// How many flows an answer holds if the question does not say; [`Definition::bounded`] keeps it within 5 and 1,000. (All flows are kept, within
    /// the limit of the table, not only the largest.)
    #[serde(deserialize_with = "lenient")]
    pub n: u32,
    /// Time constant of the exponential smoothing in seconds; kept within 0.2 and 600.
    #[serde(deserialize_with = "lenient")]
    pub t: f64,
    /// Seconds after which a flow without packets is forgotten, and one that is logged is told of though it goes on; kept
    /// within 1 and 86,400.
    #[serde(deserialize_with = "lenient", alias = "active_timeout")]
    pub active_timeout: f64,
    /// Counts packets that devices told to have dropped (`discarded_packet`) instead of samples.
    #[serde(deserialize_with = "lenient")]
    pub dropped: bool,
    /// What stands between the parts of a key where it is shown.
    pub fs: String,
    /// Whether each flow is told of when it is over.
    #[serde(deserialize_with = "lenient")]
    pub log: bool,
    /// Whether it is told of when it begins instead.
    #[serde(deserialize_with = "lenient", alias = "flow_start")]
    pub flow_start: bool,
    /// How values of one flow from several data sources make one, if the question does not say.
    #[serde(alias = "agg_mode")]
    pub agg_mode: AggMode,
}

/// How the values of one flow at several data sources make one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AggMode {
    /// The largest: a flow is counted once, though several switches saw it.
    #[default]
    #[serde(alias = "MAX")]
    Max,
    /// The sum.
    #[serde(alias = "SUM")]
    Sum,
    /// The sum over the data sources of an agent, and of those the largest.
    #[serde(alias = "AGENT")]
    Agent,
}

impl AggMode {
    /// By its name.
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }
}

impl Default for Definition {
    fn default() -> Self {
        Self {
            keys: String::new(),
            value: "bytes".to_owned(),
            values: String::new(),
            filter: String::new(),
            n: 5,
            t: 2.0,
            active_timeout: 60.0,
            dropped: false,
            fs: ",".to_owned(),
            log: false,
            flow_start: false,
            agg_mode: AggMode::default(),
        }
    }
}

/// A mistake in a definition, with the text and the place in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{attribute}: {syntax}")]
pub struct Mistake {
    /// Which attribute: `keys`, `value`, `values`, `filter`, `t`.
    pub attribute: &'static str,
    /// What it says.
    pub text: String,
    /// What is wrong, and where.
    pub syntax: Syntax,
}

/// A definition without mistakes, ready to be compiled into any number of shards.
#[derive(Debug)]
pub struct Checked {
    pub(super) definition: Definition,
    pub(super) keys: Vec<Expression>,
    pub(super) columns: Vec<Column>,
    /// Sums besides the first.
    pub(super) further: usize,
    pub(super) filter: Option<Filter>,
}

impl Definition {
    /// Brings its numbers within their bounds, as sFlow-RT does; those that were not: the attribute, and a line that says what they
    /// were and are.
    ///
    /// # Errors
    /// One that is none.
    pub fn bounded(&mut self) -> Result<Vec<(&'static str, String)>, Mistake> {
        let mut n = f64::from(self.n);
        let mut beyond = Vec::new();
        for (attribute, number, least, most) in [
            ("n", &mut n, 5.0, 1000.0),
            ("t", &mut self.t, 0.2, 600.0),
            ("activeTimeout", &mut self.active_timeout, 1.0, 86_400.0),
        ] {
            if !number.is_finite() {
                let syntax = Syntax::new(0, "write a number of seconds");
                return Err(Mistake { attribute, text: number.to_string(), syntax });
            }
            let taken = number.clamp(least, most);
            if taken != *number {
                beyond.push((attribute, format!("{attribute}: {number} is not {least} to {most}: {taken} is taken")));
                *number = taken;
            }
        }
        self.n = n as u32;
        Ok(beyond)
    }

    /// Parses its texts and brings its numbers within their bounds.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(mut self) -> Result<Checked, Mistake> {
        self.bounded()?;
        let mistake = |attribute, text: &str, syntax| Mistake { attribute, text: text.to_owned(), syntax };
        let keys = expression::list(&self.keys).map_err(|error| mistake("keys", &self.keys, error))?;
        let mut columns = values::one(&self.value).map_err(|error| mistake("value", &self.value, error))?;
        columns.extend(values::list(&self.values).map_err(|error| mistake("values", &self.values, error))?);
        let mut further = 0;
        for (at, column) in columns.iter_mut().enumerate() {
            column.further = further;
            further += usize::from(at > 0) + usize::from(column.kind == Kind::Average);
        }
        let filter = filter::parse(&self.filter).map_err(|error| mistake("filter", &self.filter, error))?;
        Ok(Checked { definition: self, keys, columns, further, filter })
    }
}

impl Checked {
    /// The definition, its numbers within their bounds.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Names of all values, `value` first, as columns are asked for by number.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }
}

/// A number, a switch or a text that says it.
pub(crate) fn lenient<'de, D: Deserializer<'de>, T: FromStr + Primitive>(input: D) -> Result<T, D::Error> {
    let text = match serde_json::Value::deserialize(input)? {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    text.trim().parse().map_err(|_| D::Error::invalid_value(Unexpected::Str(&text), &T::WORDS))
}

/// What [`lenient`] reads, in words.
pub(crate) trait Primitive {
    const WORDS: &'static str;
}

impl Primitive for u32 {
    const WORDS: &'static str = "a whole number from 0";
}

impl Primitive for f64 {
    const WORDS: &'static str = "a number";
}

impl Primitive for bool {
    const WORDS: &'static str = "true or false";
}

/// A text, `null`, or a list of texts, which is joined by commas.
fn list<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "write a text, or a list of texts")]
    enum Written {
        Text(Option<String>),
        List(Vec<String>),
    }
    Ok(match Written::deserialize(input)? {
        Written::Text(text) => text.unwrap_or_default(),
        Written::List(list) => list.join(","),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Result<Definition, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_sflow_rt() {
        let d = json("{}").unwrap();
        assert_eq!((d.n, d.t, d.active_timeout, d.fs.as_str(), d.value.as_str()), (5, 2.0, 60.0, ",", "bytes"));
        assert!(!d.dropped && !d.log && !d.flow_start);
        assert_eq!(d.agg_mode, AggMode::Max);
    }

    #[test]
    fn json_and_toml_say_the_same() {
        let from_json = json(
            r#"{"keys":["ipsource","ipdestination"],"value":"frames","values":null,"filter":"ipprotocol=6",
                "n":"20","t":"10","activeTimeout":30,"dropped":"true","log":true,"flowStart":true,"aggMode":"sum","fs":"_SEP_"}"#,
        );
        let from_toml = toml::from_str::<Definition>(
            "keys = 'ipsource,ipdestination'\nvalue = 'frames'\nfilter = 'ipprotocol=6'\nn = 20\nt = 10\n\
             active_timeout = 30.0\ndropped = true\nlog = true\nflowStart = true\nagg_mode = 'sum'\nfs = '_SEP_'",
        );
        assert_eq!(from_json, Ok(from_toml.unwrap()));
    }

    #[test]
    fn what_it_writes_it_reads() {
        let definition = Definition { keys: "ipsource".to_owned(), t: 0.5, ..Definition::default() };
        assert_eq!(json(&serde_json::to_string(&definition).unwrap()), Ok(definition));
    }

    #[test]
    fn numbers_are_brought_within_bounds() {
        let bounds = |n, t| {
            let checked = Definition { n, t, active_timeout: 0.0, ..Definition::default() }.check().unwrap();
            (checked.definition.n, checked.definition.t, checked.definition.active_timeout)
        };
        assert_eq!(bounds(1, 0.0), (5, 0.2, 1.0));
        assert_eq!(bounds(5000, 1e9), (1000, 600.0, 1.0));
        assert!(Definition { t: f64::NAN, ..Definition::default() }.check().is_err());
        let told = Definition { n: 1, t: 1e9, ..Definition::default() }.bounded().unwrap();
        assert_eq!(
            told,
            [
                ("n", "n: 1 is not 5 to 1000: 5 is taken".to_owned()),
                ("t", "t: 1000000000 is not 0.2 to 600: 600 is taken".to_owned())
            ]
        );
    }

    #[test]
    fn mistakes_say_what_to_write() {
        assert!(json(r#"{"n":"many"}"#).unwrap_err().contains("a whole number from 0"));
        assert!(json(r#"{"keyz":"ipsource"}"#).unwrap_err().starts_with("unknown field `keyz`"));
        let mistake = Definition { keys: "ipsource,ipsorce".to_owned(), ..Definition::default() }.check().unwrap_err();
        assert_eq!(mistake.to_string(), "keys: unknown key `ipsorce`, did you mean `ipsource`?");
        assert_eq!((&*mistake.text, mistake.syntax.at), ("ipsource,ipsorce", 9));
    }

    /// As sFlow-RT's ddos-protect puts them: six kinds of attacks, over both versions of IP.
    #[test]
    fn what_ddos_protect_puts_is_taken() {
        for (ip, next, source, more) in [
            ("ip", "ipprotocol", "ipsource", "ipflags=001|range:ipfragoffset:1=true"),
            ("ip6", "ip6nexthdr", "ip6source", "ip6fragm=yes|range:ip6fragoffset:1=true"),
        ] {
            let icmp = if ip == "ip" { ("icmptype", 1) } else { ("icmp6type", 58) };
            let filter = format!(
                "first:stack:.:ip:ip6={ip}&group:{source}:ddos_protect=external&\
                 group:{ip}destination:ddos_protect!=external,private,multicast,exclude"
            );
            for (key, extra) in [
                (next, String::new()),
                (next, format!("({more})&")),
                ("udpsourceport", format!("{next}=17&")),
                ("udpdestinationport", format!("{next}=17&")),
                (icmp.0, format!("{next}={}&", icmp.1)),
                ("tcpdestinationport", format!("{next}=6&")),
            ] {
                let keys = format!("{ip}destination,group:{ip}destination:ddos_protect,{key}");
                for further in [r#""#, r#","values":"count:[or:ipsource:ip6source],bytes","aggMode":"AGENT","n":10"#] {
                    let put =
                        format!(r#"{{"keys":"{keys}","value":"frames","filter":"{extra}{filter}","t":"2"{further}}}"#);
                    let checked = json(&put).unwrap().check();
                    assert!(checked.is_ok(), "{put}: {:?}", checked.err());
                }
            }
        }
    }
}
