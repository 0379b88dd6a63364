//! Between whom a packet went.

use std::fmt;
use std::net::IpAddr;

use serde::{Serialize, Serializer};

use super::field::Field;
use super::packet::Packet;
use super::value::{Scratch, Value};

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

/// One of them; serialised as keys of flows show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By its IP address.
    Ip(IpAddr),
    /// By its Ethernet address.
    Mac([u8; 6]),
}

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

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Mac([a, b, c, d, e, g]) => write!(f, "{a:02X}{b:02X}{c:02X}{d:02X}{e:02X}{g:02X}"),
        }
    }
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
