//! A record as it is kept over a restart: its values, from which the next rate is.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_wire::sflow::{DataFormat, Space, Structure};

use super::{Block, Meaning, Moment, Reason, Total, unknown};

/// What is kept of a block besides its values.
#[derive(Serialize, Deserialize)]
struct Kept<V, T> {
    format: u32,
    identity: u32,
    moment: Moment,
    passed: u64,
    /// In the order of the structure; `None`: the agent does not know it.
    values: V,
    texts: T,
}

/// Texts by field.
type Texts = Vec<(u8, Vec<u8>)>;

/// Values, without a copy of them.
struct Values<'a>(&'a [Total]);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|total| total.known.then_some(total.value)))
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { structure, identity, moment, passed, fields, texts, .. } = self;
        let (format, values) = (u32::from(structure.format), Values(fields));
        Kept { format, identity: *identity, moment: *moment, passed: *passed, values, texts }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Block {
    /// Without rates: those of before are from another time.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kept: Kept<Vec<Option<u64>>, Texts> = Kept::deserialize(deserializer)?;
        let format = DataFormat::from(kept.format);
        let structure = Structure::find(Space::Counter, format)
            .ok_or_else(|| D::Error::custom(format!("counters of an unknown structure, {format}")))?;
        let mut fields = unknown(structure);
        if fields.len() != kept.values.len() {
            return Err(D::Error::custom(format!("{} values of {}", kept.values.len(), structure.name)));
        }
        for ((total, field), value) in fields.iter_mut().zip(structure.fields).zip(kept.values) {
            (total.value, total.known) = (value.unwrap_or(0), value.is_some());
            if field.meaning == Meaning::Counter {
                total.reason = Some(if total.known { Reason::First } else { Reason::Unknown });
            }
        }
        let Kept { identity, moment, passed, texts, .. } = kept;
        Ok(Self { structure, identity, moment, interval: 0.0, passed, fields, texts })
    }
}
