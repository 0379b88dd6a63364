//! By what own routes are known.

use std::fmt;
use std::str::FromStr;

/// One Weir's own number, random: nobody else's routes have it. On each of its routes it is the large community (RFC 8092)
/// `4200006343:A:B`, of a private AS, A and B being its halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance(pub u64);

/// What is put on a route besides what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marker {
    /// For people and filters; nothing is known by it.
    pub(super) community: Option<(u16, u16)>,
    /// By which it is ours.
    pub(super) instance: Option<Instance>,
}

impl Instance {
    /// As the attribute has it.
    pub(super) fn community(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&ADMINISTRATOR.to_be_bytes());
        bytes[4..].copy_from_slice(&self.0.to_be_bytes());
        bytes
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ADMINISTRATOR}:{}:{}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl FromStr for Instance {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let halves = || {
            let (administrator, halves) = text.split_once(':')?;
            let (first, second) = halves.split_once(':')?;
            let (first, second): (u32, u32) = (first.parse().ok()?, second.parse().ok()?);
            (administrator.parse() == Ok(ADMINISTRATOR)).then_some(Self(u64::from(first) << 32 | u64::from(second)))
        };
        halves().ok_or("no large community of Weir's")
    }
}

impl From<(u16, u16)> for Marker {
    fn from(community: (u16, u16)) -> Self {
        Self { community: Some(community), instance: None }
    }
}

/// Whether a route with these large communities is some Weir's, whichever.
pub(super) fn is_of_weir<'a>(large: impl IntoIterator<Item = &'a [u8; 12]>) -> bool {
    large.into_iter().any(|community| community.starts_with(&ADMINISTRATOR.to_be_bytes()))
}

/// An AS for private use (RFC 6996), chosen by sFlow's port.
const ADMINISTRATOR: u32 = 4_200_006_343;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_read_as_it_is_written() {
        for number in [0, 1, 0x1234_5678_9abc_def0, u64::MAX] {
            let instance = Instance(number);
            assert_eq!(instance.to_string().parse(), Ok(instance));
        }
        assert_eq!(Instance(1 << 32 | 7).to_string(), "4200006343:1:7");
        assert!("65001:1:7".parse::<Instance>().is_err() && "4200006343:1".parse::<Instance>().is_err());
    }
}
