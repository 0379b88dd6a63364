//! Between whom a packet went.

use serde::{Serialize, Serializer};

use super::field::Field;
use super::packet::Packet;
use super::value::{Part, Scratch, Value};

/// The ends of a packet, as far as it was sampled: IP addresses of its outermost header, else Ethernet addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<End>,
    /// Who was to receive it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<End>,
}

/// One of them, by its IP address or its Ethernet address.
pub type End = Part<&'static str>;

impl Packet<'_> {
    /// Its ends.
    pub fn ends(&self) -> Ends {
        let mut scratch = Scratch::default();
        let mut first = |fields: [Field; 3]| {
            fields.into_iter().find_map(|field| match self.field(field, 0, &mut scratch) {
                Value::Ip(ip) => Some(End::Ip(ip)),
                Value::Mac(mac) => Some(End::Mac(mac)),
                _ => None,
            })
        };
        Ends {
            source: first([Field::IpSource, Field::Ip6Source, Field::MacSource]),
            destination: first([Field::IpDestination, Field::Ip6Destination, Field::MacDestination]),
        }
    }
}

impl<T: std::fmt::Display> Serialize for Part<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
