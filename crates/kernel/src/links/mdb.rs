//! Which groups a bridge forwards to which port: its multicast forwarding database (net/bridge/br_mdb.c).

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader, NetlinkPayload, NetlinkSerializable};
use nix::errno::Errno;

use super::socket::{Events, MDB_CHANGES};
use super::{Index, Netlink};
use crate::Error;
use crate::error::During;

/// A group that somebody behind a port listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPort {
    /// The port of the bridge.
    pub port: Index,
    /// The multicast group.
    pub group: IpAddr,
}

impl Netlink {
    /// The groups that the namespace's bridges forward, by port.
    ///
    /// # Errors
    /// If the kernel has no bridges.
    pub fn group_ports(&mut self) -> Result<Vec<GroupPort>, Error> {
        let answers = self.socket.list(MdbMessage::Get, || "list the groups of bridges")?;
        let payloads = answers.iter().filter_map(|answer| match answer {
            MdbMessage::Other(payload) => Some(payload),
            MdbMessage::Get => None,
        });
        Ok(payloads.flat_map(|payload| group_ports(payload)).collect())
    }

    /// Waits until a bridge knows that somebody behind a port listens to a group.
    ///
    /// # Errors
    /// If it does not learn so in time ([`Errno::ETIMEDOUT`]).
    pub fn wait_until_forwarded(&mut self, port: Index, group: IpAddr, patience: Duration) -> Result<(), Error> {
        let operation = || format!("wait until somebody behind port {port} has joined {group}");
        let deadline = Instant::now() + patience;
        // Listens before it asks.
        let events = self.ns.run(|| Events::open(MDB_CHANGES))??;
        while !self.group_ports()?.contains(&GroupPort { port, group }) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::ETIMEDOUT).during(operation);
            }
            events.wait(left)?;
        }
        Ok(())
    }
}

/// The request for the whole database, and any message that comes back, without its netlink header.
enum MdbMessage {
    Get,
    Other(Vec<u8>),
}

impl NetlinkSerializable for MdbMessage {
    fn message_type(&self) -> u16 {
        RTM_GETMDB
    }

    fn buffer_len(&self) -> usize {
        match self {
            MdbMessage::Get => PORT_MESSAGE,
            MdbMessage::Other(payload) => payload.len(),
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        match self {
            MdbMessage::Get => {
                buffer.fill(0);
                buffer[0] = libc::AF_BRIDGE as u8;
            }
            MdbMessage::Other(payload) => buffer.copy_from_slice(payload),
        }
    }
}

impl NetlinkDeserializable for MdbMessage {
    type Error = Infallible;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(MdbMessage::Other(payload.to_vec()))
    }
}

impl From<MdbMessage> for NetlinkPayload<MdbMessage> {
    fn from(message: MdbMessage) -> Self {
        NetlinkPayload::InnerMessage(message)
    }
}

/// MDBA_MDB holds one MDBA_MDB_ENTRY a group, and that one MDBA_MDB_ENTRY_INFO a port (include/uapi/linux/if_bridge.h).
/// What does not look so is left out.
fn group_ports(payload: &[u8]) -> Vec<GroupPort> {
    let databases = attributes(payload.get(PORT_MESSAGE..).unwrap_or_default(), MDBA_MDB);
    let entries = databases.into_iter().flat_map(|database| attributes(database, MDBA_MDB_ENTRY));
    let infos = entries.flat_map(|entry| attributes(entry, MDBA_MDB_ENTRY_INFO));
    infos.filter_map(group_port).collect()
}

/// `struct br_mdb_entry`: port, state, flags, VLAN, 16 bytes of address, its EtherType in network order.
fn group_port(entry: &[u8]) -> Option<GroupPort> {
    let port = Index::from_ne_bytes(*entry.first_chunk()?);
    let address: &[u8; 16] = entry.get(8..)?.first_chunk()?;
    let group = match u16::from_be_bytes(*entry.get(24..)?.first_chunk()?) {
        ETH_P_IP => Ipv4Addr::new(address[0], address[1], address[2], address[3]).into(),
        ETH_P_IPV6 => Ipv6Addr::from(*address).into(),
        _ => return None,
    };
    Some(GroupPort { port, group })
}

/// The values of all attributes of a kind (`struct nlattr`: length with its 4 bytes, type; padded to 4 bytes).
fn attributes(mut bytes: &[u8], wanted: u16) -> Vec<&[u8]> {
    let mut values = Vec::new();
    while let Some(&[a, b, c, d]) = bytes.first_chunk() {
        let (length, kind) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]) & NLA_TYPE_MASK);
        let Some(value) = bytes.get(4..length) else { break };
        if kind == wanted {
            values.push(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    values
}

const RTM_GETMDB: u16 = 86;

/// Length of `struct br_port_msg`: family, interface.
const PORT_MESSAGE: usize = 8;

const MDBA_MDB: u16 = 1;
const MDBA_MDB_ENTRY: u16 = 1;
const MDBA_MDB_ENTRY_INFO: u16 = 1;

/// Without NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const NLA_TYPE_MASK: u16 = 0x3fff;

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [(value.len() as u16 + 4).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn entry(port: u32, address: [u8; 16], ethertype: u16) -> Vec<u8> {
        let mut info = [&port.to_ne_bytes()[..], &[0, 0, 0, 0], &address, &ethertype.to_be_bytes(), &[0, 0]].concat();
        info.extend(attribute(1, &[0; 4])); // its timer
        attribute(1, &info)
    }

    #[test]
    fn groups_are_found_by_port() {
        let v4 = [239, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let v6 = "ff15::8".parse::<Ipv6Addr>().unwrap();
        let groups = [
            attribute(1, &[entry(3, v4, ETH_P_IP), entry(4, v4, ETH_P_IP)].concat()),
            attribute(1, &entry(4, v6.octets(), ETH_P_IPV6)),
            attribute(1, &entry(5, v4, 0)), // by Ethernet address
        ];
        let router = attribute(2, &attribute(1, &3u32.to_ne_bytes()));
        let message = [&[7, 0, 0, 0, 2, 0, 0, 0][..], &attribute(1, &groups.concat()), &router].concat();
        let v4 = "239.1.2.3".parse().unwrap();
        let expected = [(3, v4), (4, v4), (4, v6.into())].map(|(port, group)| GroupPort { port, group });
        assert_eq!(group_ports(&message), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            group_ports(&bytes);
        }
    }
}
