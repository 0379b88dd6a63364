//! Every place where Linux loses a UDP datagram: one table, from which accounts, metrics, remedies and `docs/loss.md`
//! are made.

mod table;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_kernel::counters::Counter;

use self::table::TABLE;

/// A place. Their order is that of tables for people, and means nothing else: [`Stage`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Sending: no route led there.
    NoRoute,
    /// Sending: a firewall rule (nftables' or iptables' output) or a control group's program forbade it.
    FirewallOut,
    /// Sending: the send buffer was full and the socket does not wait.
    SendBuffer,
    /// Sending: the call failed for another reason, which is told beside it.
    SendError,
    /// Sending: the next hop's hardware address is not known.
    Neighbour,
    /// Sending: the interface's queue (qdisc) was full, or a filter at egress dropped it.
    Qdisc,
    /// Sending: the interface or its ring, a tun device's reader included, did not take it.
    Transmit,
    /// Between two hosts: left the one and did not come to the other.
    Network,
    /// Receiving: the card's ring was full.
    ReceiveRing,
    /// Receiving: the frame came damaged.
    Frame,
    /// Receiving: an XDP program dropped it.
    Xdp,
    /// Receiving: a tc filter at ingress dropped it.
    IngressFilter,
    /// Receiving: the processor's backlog was full.
    Backlog,
    /// Receiving: a malformed IP header, or its checksum.
    IpHeader,
    /// Receiving: an address that is not ours, or no way on.
    IpAddress,
    /// Receiving: the way back to the sender leads through another interface.
    ReversePath,
    /// Receiving or forwarding: a firewall rule or connection tracking dropped it.
    Firewall,
    /// Receiving: not all fragments came in time.
    Reassembly,
    /// Receiving: a group that was joined on no such interface.
    NotJoined,
    /// Receiving: a group that is joined, but by no socket of this port.
    NoMatchingSocket,
    /// Receiving: nobody has bound the port.
    PortClosed,
    /// Receiving: the UDP checksum is wrong.
    UdpChecksum,
    /// Receiving: the socket's own filter (SO_ATTACH_FILTER, SO_ATTACH_BPF) dropped it.
    SocketFilter,
    /// Receiving: the socket's receive buffer was full.
    ReceiveBuffer,
    /// Receiving: the memory of all UDP sockets was used up.
    UdpMemory,
    /// Receiving: the socket was closed before they were read.
    ClosedUnread,
    /// Receiving: the program gave too small a buffer and got a part.
    Truncated,
    /// Dropped by the kernel for a reason this table does not have; reason and function are told beside it. The last one.
    Other,
}

/// Which part of the way a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the call that sends, before a group's copy for this host leaves the way.
    Sending,
    /// Between there and the interface.
    NextHop,
    /// Behind the point at which the trace counts departures.
    Departed,
    /// Between two hosts.
    Wire,
    /// Before the point at which the trace counts arrivals.
    Arriving,
    /// In the stack of a host that it comes to, or passes through.
    Stack,
    /// Come to its host, with no socket for it.
    Port,
    /// At a socket.
    Socket,
    /// Nobody knows.
    Anywhere,
}

/// What is known of a place.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The place.
    pub place: Place,
    /// In JSON and as a label: `receive_buffer`.
    pub name: &'static str,
    /// In a table for people.
    pub title: &'static str,
    /// Which part of the way it is in.
    pub stage: Stage,
    /// Counters that count it and nothing else. Those of one group may count the same losses, of which the largest count
    /// is believed; those of several groups never do.
    pub counters: &'static [&'static [Counter]],
    /// What else tells of it, outside the kernel's counters.
    pub calls: &'static str,
    /// Drop reasons that mean it: (reason, function that must have dropped it or empty for any).
    pub reasons: &'static [(&'static str, &'static str)],
    /// What to change.
    pub remedy: &'static str,
}

impl Place {
    const COUNT: usize = Place::Other as usize + 1;

    /// What is known of it.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// In JSON and as a label.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Which part of the way it is in.
    pub fn stage(self) -> Stage {
        self.row().stage
    }

    /// The counters that tell it.
    pub fn counters(self) -> impl Iterator<Item = Counter> {
        self.row().counters.iter().copied().flatten().copied()
    }

    /// All places, in the order in which a datagram passes them.
    pub fn all() -> impl Iterator<Item = Place> {
        TABLE.iter().map(|row| row.place)
    }

    /// What to change, for drops of this reason by this function.
    pub fn remedy(self, reason: &str, function: &str) -> &'static str {
        match (self, reason, function) {
            (Place::IpHeader, _, "ip_forward" | "ip6_forward") => {
                "the sender's TTL is too small for the hops on the way: IP_TTL, for a group IP_MULTICAST_TTL"
            }
            _ => self.row().remedy,
        }
    }

    /// The place of a name.
    pub fn named(name: &str) -> Option<Place> {
        Place::all().find(|place| place.name() == name)
    }

    /// The place that a traced drop means. `outgoing`: the datagram was being sent.
    pub fn of_drop(reason: &str, function: &str, outgoing: bool) -> Place {
        if reason == "NETFILTER_DROP" {
            return if outgoing { Place::FirewallOut } else { Place::Firewall };
        }
        // The compiler may have split a function: `udp_destruct_common.part.0`.
        let function = function.split('.').next().unwrap_or_default();
        let means = |row: &&Row| row.reasons.iter().any(|(r, f)| *r == reason && (f.is_empty() || *f == function));
        TABLE.iter().find(means).map_or(Place::Other, |row| row.place)
    }
}

/// All places as a table for `docs/loss.md`.
pub fn table() -> String {
    let mut table = "| place | counter | drop reason | what to change |\n|---|---|---|---|\n".to_owned();
    for row in &TABLE {
        let of_group = |group: &&[Counter]| {
            let names: Vec<String> = group.iter().map(|counter| of_some_interface(*counter)).collect();
            if names.len() == 1 { names.concat() } else { format!("the largest of ({})", names.join(", ")) }
        };
        let others = Some(row.calls.to_owned()).filter(|calls| !calls.is_empty());
        let counters: Vec<String> = row.counters.iter().map(of_group).chain(others).collect();
        let reason = |(reason, function): &(&str, &str)| match *function {
            "" => format!("`{reason}`"),
            function => format!("`{reason}` in `{function}`"),
        };
        let reasons: Vec<String> = row.reasons.iter().map(reason).collect();
        let (name, title, remedy) = (row.name, row.title, row.remedy.replace('|', "\\|"));
        let row = format!("| `{name}`: {title} | {} | {} | {remedy} |\n", counters.join(", "), reasons.join(", "));
        table.push_str(&row);
    }
    table
}

/// A counter's name in the table.
fn of_some_interface(counter: Counter) -> String {
    match counter {
        Counter::Qdisc => "IF fq_codel (or another qdisc)".to_owned(),
        counter if counter.is_of_interface() => format!("IF {counter}"),
        counter => counter.to_string(),
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Place::named(&name).ok_or_else(|| serde::de::Error::custom(format!("`{name}`: no such place")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_kernel::counters::snmp;
    use weir_kernel::namespaces::NetNs;

    use super::*;

    #[test]
    fn names_are_names() {
        for row in &TABLE {
            assert_eq!(row.name, row.name.to_lowercase());
            assert_eq!(Place::named(row.name), Some(row.place));
        }
    }

    #[test]
    fn a_counter_means_one_place() {
        let all: Vec<Counter> = Place::all().flat_map(Place::counters).collect();
        let different: BTreeSet<Counter> = all.iter().copied().collect();
        assert_eq!(all.len(), different.len());
    }

    #[test]
    fn the_kernel_has_the_counters_of_its_protocols() {
        let kernel = snmp(&NetNs::current().unwrap()).unwrap();
        for counter in Place::all().flat_map(Place::counters) {
            if let Counter::Snmp(table, name) = counter {
                // A kernel without IPv6 has none of its tables.
                let has_table = !table.ends_with('6') || kernel.iter().any(|(known, ..)| known == table);
                assert!(!has_table || kernel.get(table, name).is_some(), "{counter}");
            }
        }
    }

    #[test]
    fn drops_find_their_places() {
        assert_eq!(Place::of_drop("SOCKET_RCVBUFF", "udp_queue_rcv_one_skb", false), Place::ReceiveBuffer);
        assert_eq!(Place::of_drop("NETFILTER_DROP", "nf_hook_slow", true), Place::FirewallOut);
        assert_eq!(Place::of_drop("NETFILTER_DROP", "nf_hook_slow", false), Place::Firewall);
        assert_eq!(Place::of_drop("NOT_SPECIFIED", "udp_destruct_common.part.0", false), Place::ClosedUnread);
        assert_eq!(Place::of_drop("NOT_SPECIFIED", "somewhere", false), Place::Other);
    }
}
