//! What becomes of a datagram: one table, which cells, the ledger, metrics and the log go by.

use weir_wire::sflow::Malformed;

use crate::agents::Verdict;

/// What became of a datagram. Each has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its samples were taken into account, those that could be read.
    Analysed,
    /// It was here before.
    Duplicate,
    /// Too late to know whether it was here before.
    Stale,
    /// There is no room for its agent.
    NoRoom,
    /// There is no room for its sender beside the others that its agent has.
    Crowded,
    /// `allow` does not name its agent.
    NotAllowed,
    /// Another protocol, or another version.
    Version,
    /// It ends within its header.
    Cut,
    /// Its agent's address is of no known type.
    AddressType,
}

impl Fate {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Analysed,
        Self::Duplicate,
        Self::Stale,
        Self::NoRoom,
        Self::Crowded,
        Self::NotAllowed,
        Self::Version,
        Self::Cut,
        Self::AddressType,
    ];

    /// Its name in the ledger, in metrics and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Analysed => "analysed",
            Self::Duplicate => "duplicate",
            Self::Stale => "stale",
            Self::NoRoom => "no_room",
            Self::Crowded => "crowded",
            Self::NotAllowed => "not_allowed",
            Self::Version => "version",
            Self::Cut => "cut",
            Self::AddressType => "address_type",
        }
    }

    /// Whether it could not be read.
    pub fn is_malformed(self) -> bool {
        matches!(self, Self::Version | Self::Cut | Self::AddressType)
    }

    /// What to do about it; `None`: nothing is lost by it, or it is as configured.
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Analysed | Self::Duplicate | Self::NotAllowed => None,
            Self::Stale => Some("the network delays them by seconds, or somebody else speaks in the agent's name"),
            Self::NoRoom => Some("raise limits.agents, or name your agents in `allow`"),
            Self::Crowded => Some(
                "too many senders have one agent address and sub-agent: give each its own, or raise limits.streams",
            ),
            Self::Version => Some("only sFlow version 5 is read: set the agent to it, or its exporter to another port"),
            Self::Cut => Some("the agent sends them so, or something on the way cuts them"),
            Self::AddressType => Some("the agent does not write its address as sFlow version 5 has it"),
        }
    }
}

impl From<Malformed> for Fate {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Version(_) => Self::Version,
            Malformed::AddressType(_) => Self::AddressType,
            Malformed::Cut(_) | Malformed::Length { .. } => Self::Cut,
        }
    }
}

impl From<&Verdict> for Fate {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Placed(_) => Self::Analysed,
            Verdict::Duplicate => Self::Duplicate,
            Verdict::Stale => Self::Stale,
            Verdict::Refused => Self::NoRoom,
            Verdict::Crowded => Self::Crowded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_its_own_order() {
        for (index, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, index, "{fate:?}");
            assert!(!fate.is_malformed() || fate.remedy().is_some(), "{fate:?}");
        }
    }
}
