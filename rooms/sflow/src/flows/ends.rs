//! Between whom a packet went.

use serde::Serialize;

use super::field::Field;
use super::packet::Packet;
use super::value::Scratch;

/// The ends of a packet, as far as it was sampled: IP addresses of its outermost header, else Ethernet addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Who was to receive it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
}

impl Packet<'_> {
    /// Its ends.
    pub fn ends(&self) -> Ends {
        let mut scratch = Scratch::default();
        let mut first = |fields: [Field; 3]| {
            let mut values = fields.into_iter().map(|field| self.field(field, 0, &mut scratch));
            let value = values.find(|value| !value.is_null())?;
            let span = scratch.render(value)?;
            Some(scratch.get(span).to_owned())
        };
        Ends {
            source: first([Field::IpSource, Field::Ip6Source, Field::MacSource]),
            destination: first([Field::IpDestination, Field::Ip6Destination, Field::MacDestination]),
        }
    }
}
