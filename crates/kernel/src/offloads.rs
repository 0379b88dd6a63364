//! An interface's offloads: what `ethtool -k` shows and `ethtool -K` switches.
//!
//! The kernel knows some sixty *features* by name, one bit each; an [`Offload`] is the group of them that people speak
//! of. Features are switched by the `SIOCETHTOOL` call (include/uapi/linux/ethtool.h, ETHTOOL_SFEATURES).

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;

use crate::Error;
use crate::error::During;
use crate::ethtool::{open_socket, text};
use crate::namespaces::NetNs;
use crate::sys::{self, MOST_FEATURES, STRING_WORDS};

/// A group of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offload {
    /// Checksums of sent packets are left to the interface. Between namespaces nobody ever computes them: a packet is
    /// handed over with the note that it needs none. Without it there is no segmentation offload either.
    SendChecksum,
    /// TCP hands over super-packets of up to 64 KiB (TSO).
    TcpSegmentation,
    /// UDP hands over super-packets (UDP_SEGMENT).
    UdpSegmentation,
    /// The network stack cuts super-packets for an interface that cannot (GSO).
    GenericSegmentation,
    /// Received packets of a flow are joined into super-packets (GRO).
    GenericReceive,
}

impl Offload {
    /// All there are.
    pub const ALL: [Offload; 5] = [
        Offload::SendChecksum,
        Offload::TcpSegmentation,
        Offload::UdpSegmentation,
        Offload::GenericSegmentation,
        Offload::GenericReceive,
    ];

    /// Names of the features it stands for (net/ethtool/common.c, netdev_features_strings).
    fn features(self) -> &'static [&'static str] {
        match self {
            Offload::SendChecksum => {
                &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6", "tx-checksum-sctp"]
            }
            Offload::TcpSegmentation => &[
                "tx-tcp-segmentation",
                "tx-tcp-ecn-segmentation",
                "tx-tcp-mangleid-segmentation",
                "tx-tcp6-segmentation",
                "tx-tcp-accecn-segmentation",
            ],
            Offload::UdpSegmentation => &["tx-udp-segmentation"],
            Offload::GenericSegmentation => &["tx-generic-segmentation"],
            Offload::GenericReceive => &["rx-gro"],
        }
    }
}

impl fmt::Display for Offload {
    /// As ethtool calls it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Offload::SendChecksum => "tx-checksumming",
            Offload::TcpSegmentation => "tcp-segmentation-offload",
            Offload::UdpSegmentation => "tx-udp-segmentation",
            Offload::GenericSegmentation => "generic-segmentation-offload",
            Offload::GenericReceive => "generic-receive-offload",
        })
    }
}

/// Access to the offloads of one namespace's interfaces.
#[derive(Debug)]
pub struct Offloads {
    socket: OwnedFd,
    /// Names of the kernel's features, by bit.
    names: Vec<String>,
}

impl Offloads {
    /// Opens a socket inside `ns`; it stays there.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Offloads, Error> {
        Ok(Offloads { socket: open_socket(ns)?, names: Vec::new() })
    }

    /// Whether an offload is on: whether any of its features is.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn is_on(&mut self, interface: &str, offload: Offload) -> Result<bool, Error> {
        let operation = || format!("query {offload} of {interface}");
        let features = self.features(interface).during(operation)?;
        let bits = self.bits(offload);
        Ok(bits.iter().any(|bit| features.get(bit / 32).is_some_and(|block| block.active & (1 << (bit % 32)) != 0)))
    }

    /// Switches an offload; what the interface does not have is left out.
    ///
    /// # Errors
    /// If there is no interface of that name, without privilege over the namespace, or if the interface has only part
    /// of what was asked (EOPNOTSUPP): it cannot be switched, or needs another that is off.
    pub fn set(&mut self, interface: &str, offload: Offload, on: bool) -> Result<(), Error> {
        let operation = || format!("switch {offload} of {interface} {}", if on { "on" } else { "off" });
        let features = self.features(interface).during(operation)?;
        let mut request = vec![[0u32; 2]; features.len()];
        let mut wanted = Vec::new();
        for bit in self.bits(offload) {
            let (block, mask) = (bit / 32, 1 << (bit % 32));
            let Some(feature) = features.get(block) else { continue };
            if feature.available & mask == 0 || feature.never_changed & mask != 0 {
                continue;
            }
            let [valid, requested] = &mut request[block];
            *valid |= mask;
            if on {
                *requested |= mask;
            }
            wanted.push((block, mask));
        }
        let mut payload = vec![sys::ETHTOOL_SFEATURES, block_count(&request)];
        payload.extend(request.iter().flatten());
        sys::ethtool(self.socket.as_fd(), interface, &mut payload).during(operation)?;

        let now = self.features(interface).during(operation)?;
        let done = wanted.iter().all(|(block, mask)| (now[*block].active & mask != 0) == on);
        if done { Ok(()) } else { Err(Errno::EOPNOTSUPP).during(operation) }
    }

    fn bits(&self, offload: Offload) -> Vec<usize> {
        let bit = |name: &&str| self.names.iter().position(|known| known == name);
        offload.features().iter().filter_map(bit).collect()
    }

    /// Asks for an interface's features and, the first time, for their names.
    fn features(&mut self, interface: &str) -> Result<Vec<FeatureBlock>, Errno> {
        if self.names.is_empty() {
            self.names = self.read_names(interface)?;
        }
        let blocks = self.names.len().div_ceil(32);
        let mut payload = vec![0u32; 2 + 4 * blocks];
        payload[0] = sys::ETHTOOL_GFEATURES;
        payload[1] = u32::try_from(blocks).unwrap_or(u32::MAX);
        sys::ethtool(self.socket.as_fd(), interface, &mut payload)?;
        let block = |words: &[u32; 4]| {
            let [available, _requested, active, never_changed] = *words;
            FeatureBlock { available, active, never_changed }
        };
        Ok(payload[2..].as_chunks().0.iter().map(block).collect())
    }

    fn read_names(&self, interface: &str) -> Result<Vec<String>, Errno> {
        // struct ethtool_gstrings: command, set, count, names.
        let mut strings = vec![0u32; 3 + MOST_FEATURES * STRING_WORDS];
        strings[..2].copy_from_slice(&[sys::ETHTOOL_GSTRINGS, sys::ETH_SS_FEATURES]);
        sys::ethtool(self.socket.as_fd(), interface, &mut strings)?;
        let count = strings[2] as usize;
        Ok(strings[3..].as_chunks::<STRING_WORDS>().0.iter().take(count).map(|words| text(words)).collect())
    }
}

/// 32 features of an interface (struct ethtool_get_features_block).
#[derive(Clone, Copy)]
struct FeatureBlock {
    available: u32,
    active: u32,
    never_changed: u32,
}

fn block_count(blocks: &[[u32; 2]]) -> u32 {
    u32::try_from(blocks.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::{MacAddress, Netlink, VethEnd};

    #[test]
    fn offloads_are_switched_one_by_one() {
        let ns = NetNs::create().unwrap();
        let end = |name| VethEnd { ns: &ns, name, mac: MacAddress::local(1), mtu: 1500, queue_length: 100 };
        Netlink::open(&ns).unwrap().add_veth(&end("a"), &end("b")).unwrap();
        let mut offloads = Offloads::open(&ns).unwrap();
        let mut state = |interface: &str| Offload::ALL.map(|offload| offloads.is_on(interface, offload).unwrap());
        // As veth comes: all but GRO.
        assert_eq!(state("a"), [true, true, true, true, false]);

        let mut offloads = Offloads::open(&ns).unwrap();
        for (offload, on) in [
            (Offload::TcpSegmentation, false),
            (Offload::UdpSegmentation, false),
            (Offload::GenericSegmentation, false),
            (Offload::GenericReceive, true),
            (Offload::SendChecksum, false),
            (Offload::SendChecksum, true),
        ] {
            offloads.set("a", offload, on).unwrap();
            assert_eq!(offloads.is_on("a", offload), Ok(on), "{offload}");
        }
        assert_eq!(state("a"), [true, false, false, false, true]);
        assert_eq!(state("b"), [true, true, true, true, false]);
    }

    #[test]
    fn what_cannot_be_switched_says_so() {
        let ns = NetNs::create().unwrap();
        let end = |name| VethEnd { ns: &ns, name, mac: MacAddress::local(1), mtu: 1500, queue_length: 100 };
        Netlink::open(&ns).unwrap().add_veth(&end("a"), &end("b")).unwrap();
        let mut offloads = Offloads::open(&ns).unwrap();
        // Segmentation needs checksums.
        offloads.set("a", Offload::SendChecksum, false).unwrap();
        let refused = offloads.set("a", Offload::TcpSegmentation, true).unwrap_err();
        assert_eq!(refused.errno(), Some(Errno::EOPNOTSUPP));
        assert!(refused.to_string().starts_with("switch tcp-segmentation-offload of a on: "), "{refused}");
        let missing = offloads.is_on("c", Offload::GenericReceive).unwrap_err();
        assert_eq!(missing.to_string(), "query generic-receive-offload of c: no such device");
        let long = offloads.is_on("a-name-that-is-too-long", Offload::GenericReceive).unwrap_err();
        assert_eq!(long.errno(), Some(Errno::ENODEV));
    }
}
