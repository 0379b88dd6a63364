//! What becomes of a datagram: one table, which cells, the ledger, metrics and the log go by.

use weir_wire::sflow::Malformed;

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

/// Each fate, its name in the ledger, in metrics and in the log, and what to do about it; `None`: nothing is lost by it, or it is as
/// configured.
const TABLE: [(Fate, &str, Option<&str>); 9] = [
    (Fate::Analysed, "analysed", None),
    (Fate::Duplicate, "duplicate", None),
    (Fate::Stale, "stale", Some("the network delays them by seconds, or somebody else speaks in the agent's name")),
    (Fate::NoRoom, "no_room", Some("raise limits.agents, or name your agents in `allow`")),
    (
        Fate::Crowded,
        "crowded",
        Some("too many senders have one agent address and sub-agent: give each its own, or raise limits.streams"),
    ),
    (Fate::NotAllowed, "not_allowed", None),
    (
        Fate::Version,
        "version",
        Some("only sFlow version 5 is read: set the agent to it, or its exporter to another port"),
    ),
    (Fate::Cut, "cut", Some("the agent sends them so, or something on the way cuts them")),
    (Fate::AddressType, "address_type", Some("the agent does not write its address as sFlow version 5 has it")),
];

impl Fate {
    /// How many there are.
    pub const COUNT: usize = TABLE.len();

    /// Every one, in their order.
    pub fn all() -> [Self; Self::COUNT] {
        TABLE.map(|(fate, ..)| fate)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// What to do about it.
    pub fn remedy(self) -> Option<&'static str> {
        TABLE[self as usize].2
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_its_own_order() {
        for (index, fate) in Fate::all().into_iter().enumerate() {
            assert_eq!(fate as usize, index, "{fate:?}");
        }
    }
}
