//! What a page may ask: `agents?find=leaf&sort=loss`. The same words are the same question, and have one answer.

use std::collections::HashMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use crate::api::Problem;
use crate::flows::AggMode;

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ask {
    /// How all are, in few numbers.
    Summary,
    /// A part of the list of agents.
    Agents { find: String, sort: String, troubled: bool, offset: usize, count: usize },
    /// One agent with its interfaces.
    Agent(IpAddr),
    /// Utilisation of the interfaces of the busiest agents.
    Heat { find: String, count: usize },
    /// The largest flows.
    Flows(Flows),
    /// The newest threshold crossings.
    Events { count: usize },
}

/// Which flows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flows {
    pub(super) of: Of,
    /// `None`: of all.
    pub(super) agent: Option<IpAddr>,
    pub(super) count: usize,
    pub(super) mode: Option<AggMode>,
}

/// By which definition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Of {
    /// One that there is.
    Name(String),
    /// One that lives as long as it is asked for: JSON, with [`SEPARATOR`] between its keys.
    Definition(Value),
}

/// Between the keys of flows, as no name has it.
pub(super) const SEPARATOR: &str = "\u{1f}";

impl Ask {
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let (kind, query) = text.split_once('?').unwrap_or((text, ""));
        let mut given: HashMap<String, String> =
            form_urlencoded::parse(query.as_bytes()).into_owned().filter(|(_, value)| !value.is_empty()).collect();
        let ask = Self::of(kind, &mut given)?;
        match given.into_keys().min() {
            Some(unknown) => Err(Problem::request(format!("ask={kind}: it has no {unknown:?}"))),
            None => Ok(ask),
        }
    }

    fn of(kind: &str, given: &mut HashMap<String, String>) -> Result<Self, Problem> {
        let find = given.remove("find").unwrap_or_default().to_lowercase();
        Ok(match kind {
            "summary" if find.is_empty() => Self::Summary,
            "agents" => Self::Agents {
                find,
                sort: given.remove("sort").unwrap_or_default(),
                troubled: given.remove("troubled").is_some(),
                offset: number(given, "offset", 0, usize::MAX)?,
                count: number(given, "count", 50, 500)?,
            },
            "agent" => {
                let address = agent(given)?;
                Self::Agent(address.ok_or_else(|| Problem::request("ask=agent: it needs agent=ADDRESS"))?)
            }
            "heat" => Self::Heat { find, count: number(given, "count", 40, 100)? },
            "flows" => Self::Flows(Flows {
                of: definition(given)?,
                agent: agent(given)?,
                count: number(given, "count", 10, 100)?,
                mode: given.remove("aggMode").as_deref().and_then(AggMode::named),
            }),
            "events" => Self::Events { count: number(given, "count", 100, 1000)? },
            _ => {
                let kinds = "summary, agents, agent, heat, flows, events";
                return Err(Problem::request(format!("ask={kind}: there is no such question; there are {kinds}")));
            }
        })
    }
}

fn definition(given: &mut HashMap<String, String>) -> Result<Of, Problem> {
    if let Some(name) = given.remove("name") {
        return Ok(Of::Name(name));
    }
    let mut definition = json!({"fs": SEPARATOR, "n": 10});
    for key in ["keys", "value", "filter", "values"] {
        if let Some(text) = given.remove(key) {
            definition[key] = text.into();
        }
    }
    if let Some(seconds) = given.remove("t") {
        let seconds: f64 = seconds.parse().map_err(|_| Problem::request(format!("t={seconds}: is to be seconds")))?;
        definition["t"] = seconds.into();
    }
    if given.remove("dropped").is_some() {
        definition["dropped"] = true.into();
    }
    Ok(Of::Definition(definition))
}

fn agent(given: &mut HashMap<String, String>) -> Result<Option<IpAddr>, Problem> {
    let Some(text) = given.remove("agent") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| Problem::request(format!("agent={text:?}: is to be an address")))
}

fn number(given: &mut HashMap<String, String>, name: &str, default: usize, most: usize) -> Result<usize, Problem> {
    let Some(text) = given.remove(name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| Problem::request(format!("{name}={text:?}: is to be a whole number up to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_understood_or_refused() {
        let agents = Ask::Agents { find: "leaf 1".into(), sort: "loss".into(), troubled: false, offset: 50, count: 50 };
        assert_eq!(Ask::parse("agents?find=Leaf+1&sort=loss&offset=50").unwrap(), agents);
        let Ask::Flows(flows) = Ask::parse("flows?keys=vlan&value=bytes&t=5&filter=ipttl%3D1").unwrap() else {
            panic!()
        };
        let definition =
            json!({"keys": "vlan", "value": "bytes", "t": 5.0, "filter": "ipttl=1", "fs": SEPARATOR, "n": 10});
        assert_eq!(flows.of, Of::Definition(definition));
        for wrong in
            ["", "agent", "agent?agent=leaf", "heat?count=101", "events?find=1&x=2", "summary?find=a", "flows?t=a"]
        {
            assert!(Ask::parse(wrong).is_err(), "{wrong}");
        }
    }
}
