//! Threshold crossings, as sFlow-RT writes them.

use std::fmt;
use std::net::IpAddr;

use serde::{Serialize, Serializer};
use weir_wire::sflow::DataSource;

use crate::flows::Ends;

/// A data source as sFlow-RT writes it: an interface by its index alone, anything else with its class before a point.
#[derive(Clone, Copy, Debug)]
pub struct Short(pub DataSource);

impl fmt::Display for Short {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DataSource { class: DataSource::IF_INDEX, index } => write!(formatter, "{index}"),
            DataSource { class, index } => write!(formatter, "{class}.{index}"),
        }
    }
}

/// Serialises a field as [`Short`].
pub fn short<S: Serializer>(source: &DataSource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Short(*source))
}

/// A threshold was crossed. Field names are sFlow-RT's, as far as it has them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Grows by one an event, from 1.
    #[serde(rename = "eventID")]
    pub id: u64,
    /// When the value was seen, in milliseconds since 1970.
    pub timestamp: u64,
    /// The threshold's name.
    #[serde(rename = "thresholdID")]
    pub threshold_id: String,
    /// Whose value it is.
    pub agent: IpAddr,
    /// Of which of its sources.
    #[serde(serialize_with = "short")]
    pub data_source: DataSource,
    /// The metric or flow definition.
    pub metric: String,
    /// What it was.
    pub value: f64,
    /// What it was not to exceed.
    pub threshold: f64,
    /// Which flow it was, where flows have events of their own; of several, the one that came first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_key: Option<String>,
    /// Who was dropped, why and where; absent where it is no threshold on discarded packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<Dropped>,
}

/// What is known of discarded packets (sFlow v5, discarded packet 0:5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Between whom the packet went that made it cross.
    #[serde(skip_serializing_if = "nobody")]
    pub who: Ends,
    /// The reason's name in the specification: `ttl_exceeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The interface, hook or queue at which it was.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

fn nobody(ends: &Ends) -> bool {
    *ends == Ends::default()
}

/// Where threshold crossings go.
pub trait Crossings: fmt::Debug + Send + Sync {
    /// Takes one, and gives it its number.
    fn crossed(&self, event: Event);
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde_json::json;

    use super::*;
    use crate::flows::End;

    #[test]
    fn an_event_reads_as_sflow_rt_writes_it() {
        let event = Event {
            id: 7,
            timestamp: 1_700_000_000_123,
            threshold_id: "ddos".into(),
            agent: Ipv4Addr::new(10, 0, 0, 16).into(),
            data_source: DataSource { class: 0, index: 4 },
            metric: "incoming".into(),
            value: 1531.5,
            threshold: 1000.0,
            flow_key: None,
            drop: None,
        };
        let plain = json!({"eventID": 7, "timestamp": 1_700_000_000_123_u64, "thresholdID": "ddos", "agent": "10.0.0.16",
            "dataSource": "4", "metric": "incoming", "value": 1531.5, "threshold": 1000.0});
        assert_eq!(serde_json::to_value(&event).unwrap(), plain);
        let who = Ends { source: Some(End::Mac([2, 0, 0, 0, 0, 10])), destination: None };
        let drop = Dropped { who, why: Some("ttl_exceeded".into()), place: Some("eth0".into()) };
        let dropped = Event { flow_key: Some("a,b".into()), drop: Some(drop), ..event };
        let value = serde_json::to_value(&dropped).unwrap();
        assert_eq!(value["flowKey"], "a,b");
        assert_eq!(value["drop"], json!({"who": {"source": "02000000000A"}, "why": "ttl_exceeded", "where": "eth0"}));
    }

    #[test]
    fn interfaces_are_written_without_their_class() {
        for (class, index, text) in [(0, 5, "5"), (2, 1, "2.1")] {
            assert_eq!(Short(DataSource { class, index }).to_string(), text);
        }
    }
}
