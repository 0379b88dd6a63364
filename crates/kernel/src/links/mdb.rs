//! Which groups a bridge forwards to which port: its multicast forwarding database (net/bridge/br_mdb.c).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::{Index, Netlink};
use crate::Error;
use crate::error::During;
use crate::netlink::{Events, MDB_CHANGES, Raw, attributes};

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
        let mut payload = vec![0; PORT_MESSAGE];
        payload[0] = libc::AF_BRIDGE as u8;
        let answers = self.socket.list(Raw { kind: RTM_GETMDB, payload }, || "list the groups of bridges")?;
        Ok(answers.iter().flat_map(|answer| group_ports(&answer.payload)).collect())
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

/// MDBA_MDB holds one MDBA_MDB_ENTRY a group, and that one MDBA_MDB_ENTRY_INFO a port (include/uapi/linux/if_bridge.h).
/// What does not look so is left out.
pub(crate) fn group_ports(payload: &[u8]) -> Vec<GroupPort> {
    let databases = of_kind(payload.get(PORT_MESSAGE..).unwrap_or_default(), MDBA_MDB);
    let entries = databases.flat_map(|database| of_kind(database, MDBA_MDB_ENTRY));
    let infos = entries.flat_map(|entry| of_kind(entry, MDBA_MDB_ENTRY_INFO));
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

/// The values of all attributes of a kind.
fn of_kind(bytes: &[u8], wanted: u16) -> impl Iterator<Item = &[u8]> {
    attributes(bytes).filter_map(move |(kind, value)| (kind == wanted).then_some(value))
}

const RTM_GETMDB: u16 = 86;

/// Length of `struct br_port_msg`: family, interface.
const PORT_MESSAGE: usize = 8;

const MDBA_MDB: u16 = 1;
const MDBA_MDB_ENTRY: u16 = 1;
const MDBA_MDB_ENTRY_INFO: u16 = 1;

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::attribute;

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
