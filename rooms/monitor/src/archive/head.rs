//! What an archive knows of a channel: the metadata of its sender, kept with it.

use std::str::FromStr;

use weir_wire::signal::{Channel, Element, Limits, Rate};

use super::file::Map;
use weir_signal::receive::Stream;

/// A channel of one session of a sender.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The session.
    pub session: u64,
    /// Who sends it: the station, or a server that sends it on.
    pub station: String,
    /// Its stream.
    pub stream: String,
    /// What it is.
    pub channel: Channel,
}

impl Head {
    /// Of a channel that a receiver has told.
    pub fn new(stream: &Stream, channel: &Channel) -> Self {
        Self {
            session: stream.session,
            station: stream.station.clone(),
            stream: stream.name.clone(),
            channel: channel.clone(),
        }
    }

    /// The station that it is of, whoever sends it.
    pub fn origin(&self) -> &str {
        if self.channel.origin.is_empty() { &self.station } else { &self.channel.origin }
    }

    /// The server that sends it on; empty: the station itself sends it.
    pub fn server(&self) -> &str {
        if self.channel.origin.is_empty() { "" } else { &self.station }
    }

    /// As the metadata of a channel in a file; what is not told is not there.
    pub(super) fn to_map(&self) -> Map {
        let Self { session, station, stream, channel } = self;
        let mut map = Map::new();
        let mut put = |key: &str, value: String| {
            if !value.is_empty() {
                map.insert(key.to_owned(), value);
            }
        };
        put("session", format!("{session:016x}"));
        put("station", station.clone());
        put("stream", stream.clone());
        put("number", channel.id.to_string());
        put("name", channel.name.clone());
        put("unit", channel.unit.clone());
        put("description", channel.description.clone());
        put("origin", channel.origin.clone());
        put("origin_stream", channel.origin_stream.clone());
        put("derived", if channel.derived { "1".into() } else { String::new() });
        put("scale", channel.scale.to_string());
        put("offset", channel.offset.to_string());
        put("ticks_per_second", channel.rate.per_second.to_string());
        put("ticks_per_sample", channel.rate.per_sample.to_string());
        put("element", (channel.element as u8).to_string());
        put("bucket", channel.bucket.to_string());
        put("priority", channel.priority.to_string());
        for (key, limit) in KEYS.into_iter().zip(limits(&channel.limits)) {
            put(key, limit.map_or_else(String::new, |limit| limit.to_string()));
        }
        map
    }

    /// From the metadata of a channel in a file. `None`: it is not one of ours.
    pub(super) fn from_map(map: &Map) -> Option<Self> {
        let text = |key: &str| map.get(key).cloned().unwrap_or_default();
        let limit = |key: &str| map.get(key).and_then(|text| text.parse().ok());
        let [display_low, display_high, very_low, low, high, very_high] = KEYS.map(limit);
        let tick = |key: &str| number::<u32>(map, key).filter(|&ticks| ticks > 0);
        Some(Self {
            session: u64::from_str_radix(map.get("session")?, 16).ok()?,
            station: text("station"),
            stream: text("stream"),
            channel: Channel {
                id: number(map, "number")?,
                name: text("name"),
                unit: text("unit"),
                description: text("description"),
                origin: text("origin"),
                origin_stream: text("origin_stream"),
                derived: map.contains_key("derived"),
                limits: Limits { display_low, display_high, very_low, low, high, very_high },
                scale: number(map, "scale").unwrap_or(1.0),
                offset: number(map, "offset").unwrap_or(0.0),
                rate: Rate { per_second: tick("ticks_per_second")?, per_sample: tick("ticks_per_sample")? },
                element: Element::from_code(number(map, "element")?)?,
                bucket: number(map, "bucket").unwrap_or(1),
                priority: number(map, "priority").unwrap_or(0),
            },
        })
    }
}

fn number<T: FromStr>(map: &Map, key: &str) -> Option<T> {
    map.get(key)?.parse().ok()
}

fn limits(limits: &Limits) -> [Option<f64>; 6] {
    let Limits { display_low, display_high, very_low, low, high, very_high } = *limits;
    [display_low, display_high, very_low, low, high, very_high]
}

const KEYS: [&str; 6] = ["display_low", "display_high", "very_low", "low", "high", "very_high"];
