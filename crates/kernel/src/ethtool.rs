//! What a card's driver tells and lets be set: what `ethtool` shows with -S, -g, -c, -a, -l, -n and -i.
//!
//! All by the `SIOCETHTOOL` call (include/uapi/linux/ethtool.h). Virtual interfaces do little of it: whatever a driver
//! does not do is `None`. The offloads are in [`crate::offloads`].

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::Error;
use crate::error::During;
use crate::namespaces::NetNs;
use crate::sys;

/// All that a driver tells of one interface. What it does not do is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Name of the driver: `virtio_net`, `ixgbe`.
    pub driver: Option<String>,
    /// Its own counters by name (`ethtool -S`), as it calls them: `rx_missed_errors`, `rx_queue_0_drops`. They may
    /// begin again when the interface is set up anew.
    pub statistics: Option<Vec<(String, u64)>>,
    /// Lengths of its rings (-g).
    pub rings: Option<Rings>,
    /// Interrupt moderation (-c).
    pub coalescing: Option<Coalescing>,
    /// Pause frames (-a).
    pub pause: Option<Pause>,
    /// Queues (-l).
    pub channels: Option<Channels>,
    /// Speed and duplex.
    pub mode: Option<LinkMode>,
    /// By what it spreads UDP over IPv4 to its queues (-n rx-flow-hash udp4).
    pub udp4_hash: Option<FlowHash>,
    /// The same over IPv6.
    pub udp6_hash: Option<FlowHash>,
}

/// Lengths of rings, in descriptors; a packet takes one or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// The receive ring of each queue.
    pub receive: u32,
    /// The longest that it may be.
    pub receive_max: u32,
    /// The transmit ring of each queue.
    pub transmit: u32,
    /// The longest that it may be.
    pub transmit_max: u32,
}

/// Interrupt moderation. A value the driver does not have reads 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds from a packet's arrival until the interrupt.
    pub receive_us: u32,
    /// Packets after which the interrupt comes at once.
    pub receive_frames: u32,
    /// Microseconds from a transmission's end until the interrupt.
    pub transmit_us: u32,
    /// Transmissions after which it comes at once.
    pub transmit_frames: u32,
    /// The driver adapts the first two to the load.
    pub receive_adaptive: bool,
    /// And the others.
    pub transmit_adaptive: bool,
}

/// Pause frames (IEEE 802.3x).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// The two ends agree on the rest.
    pub autonegotiation: bool,
    /// It stops sending when it is asked to.
    pub receive: bool,
    /// It asks the other end to stop when its ring is full.
    pub transmit: bool,
}

/// Queues of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// That receive only.
    pub receive: u32,
    /// The most there may be.
    pub receive_max: u32,
    /// That transmit only.
    pub transmit: u32,
    /// The most there may be.
    pub transmit_max: u32,
    /// That do both.
    pub combined: u32,
    /// The most there may be.
    pub combined_max: u32,
}

/// Speed and duplex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkMode {
    /// Mbit/s; `None`: no carrier, or the driver does not know. A veth claims 10,000.
    pub speed_mbit: Option<u32>,
    /// Both ends may send at once; `None`: the driver does not know.
    pub full_duplex: Option<bool>,
    /// The two ends agreed on it.
    pub autonegotiation: bool,
}

/// By what a card spreads packets to its queues (RXH_*). By nothing: it has one queue, or ways of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowHash {
    /// Source address.
    pub source: bool,
    /// Destination address.
    pub destination: bool,
    /// Source port. Without the ports all of a sender's streams share one queue.
    pub source_port: bool,
    /// Destination port.
    pub destination_port: bool,
}

/// Access to the drivers of one namespace's interfaces.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens a socket inside `ns`; it stays there.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Ethtool, Error> {
        Ok(Ethtool { socket: open_socket(ns)? })
    }

    /// All that the driver of an interface tells.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn device(&self, interface: &str) -> Result<Device, Error> {
        Ok(Device {
            driver: self.driver(interface)?,
            statistics: self.statistics(interface)?,
            rings: self.rings(interface)?,
            coalescing: self.coalescing(interface)?,
            pause: self.pause(interface)?,
            channels: self.channels(interface)?,
            mode: self.mode(interface)?,
            udp4_hash: self.flow_hash(interface, sys::UDP_V4_FLOW)?,
            udp6_hash: self.flow_hash(interface, sys::UDP_V6_FLOW)?,
        })
    }

    /// The driver's own counters, by name; `None`: it has none.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn statistics(&self, interface: &str) -> Result<Option<Vec<(String, u64)>>, Error> {
        let mut info = [sys::ETHTOOL_GSSET_INFO, 0, 1 << sys::ETH_SS_STATS, 0, 0];
        if self.ask(interface, "statistics", &mut info)?.is_none() || info[2] & (1 << sys::ETH_SS_STATS) == 0 {
            return Ok(None);
        }
        let count = info[4];
        if count == 0 || count > sys::MOST_STATISTICS {
            return Ok(None);
        }
        let room = sys::room_for_statistics(count);
        let mut names = vec![0u32; 3 + room * sys::STRING_WORDS];
        names[..3].copy_from_slice(&[sys::ETHTOOL_GSTRINGS, sys::ETH_SS_STATS, count]);
        let mut values = vec![0u32; 2 + room * 2];
        values[..2].copy_from_slice(&[sys::ETHTOOL_GSTATS, count]);
        for payload in [&mut names, &mut values] {
            if self.ask(interface, "statistics", payload)?.is_none() {
                return Ok(None);
            }
        }
        // Queues added between the two requests move the names.
        if names[2] != values[1] {
            return Ok(None);
        }
        let count = names[2] as usize;
        let names = names[3..].as_chunks::<{ sys::STRING_WORDS }>().0.iter().map(|words| text(words));
        let values = values[2..].as_chunks::<2>().0.iter().map(|&[a, b]| {
            let ([a, b, c, d], [e, f, g, h]) = (a.to_ne_bytes(), b.to_ne_bytes());
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        });
        Ok(Some(names.zip(values).take(count).collect()))
    }

    /// The lengths of its rings.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn rings(&self, interface: &str) -> Result<Option<Rings>, Error> {
        let mut words = [sys::ETHTOOL_GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0];
        let done = self.ask(interface, "rings", &mut words)?;
        let [_, receive_max, _, _, transmit_max, receive, _, _, transmit] = words;
        Ok(done.map(|()| Rings { receive, receive_max, transmit, transmit_max }))
    }

    /// Gives the rings other lengths; most cards lose their link for a moment.
    ///
    /// # Errors
    /// If there is no interface of that name, without privilege over the namespace, or if the driver cannot do it.
    pub fn set_rings(&self, interface: &str, receive: Option<u32>, transmit: Option<u32>) -> Result<(), Error> {
        let operation = || format!("set the rings of {interface}");
        let mut words = [sys::ETHTOOL_GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0];
        sys::ethtool(self.socket.as_fd(), interface, &mut words).during(operation)?;
        words[0] = sys::ETHTOOL_SRINGPARAM;
        words[5] = receive.unwrap_or(words[5]);
        words[8] = transmit.unwrap_or(words[8]);
        sys::ethtool(self.socket.as_fd(), interface, &mut words).during(operation).map(drop)
    }

    /// Its interrupt moderation.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn coalescing(&self, interface: &str) -> Result<Option<Coalescing>, Error> {
        let mut words = [0; sys::COALESCE_WORDS];
        words[0] = sys::ETHTOOL_GCOALESCE;
        let done = self.ask(interface, "interrupt moderation", &mut words)?;
        let [_, receive_us, receive_frames, _, _, transmit_us, transmit_frames, _, _, _, adapt_rx, adapt_tx, ..] =
            words;
        Ok(done.map(|()| Coalescing {
            receive_us,
            receive_frames,
            transmit_us,
            transmit_frames,
            receive_adaptive: adapt_rx != 0,
            transmit_adaptive: adapt_tx != 0,
        }))
    }

    /// Changes its interrupt moderation.
    ///
    /// # Errors
    /// If there is no interface of that name, without privilege over the namespace, or if the driver cannot do it.
    pub fn set_coalescing(&self, interface: &str, wanted: &Coalescing) -> Result<(), Error> {
        let operation = || format!("set the interrupt moderation of {interface}");
        let mut words = [0; sys::COALESCE_WORDS];
        words[0] = sys::ETHTOOL_GCOALESCE;
        sys::ethtool(self.socket.as_fd(), interface, &mut words).during(operation)?;
        words[0] = sys::ETHTOOL_SCOALESCE;
        [words[1], words[2]] = [wanted.receive_us, wanted.receive_frames];
        [words[5], words[6]] = [wanted.transmit_us, wanted.transmit_frames];
        [words[10], words[11]] = [wanted.receive_adaptive.into(), wanted.transmit_adaptive.into()];
        sys::ethtool(self.socket.as_fd(), interface, &mut words).during(operation).map(drop)
    }

    /// Its pause frames.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn pause(&self, interface: &str) -> Result<Option<Pause>, Error> {
        let mut words = [sys::ETHTOOL_GPAUSEPARAM, 0, 0, 0];
        let done = self.ask(interface, "pause frames", &mut words)?;
        let [_, autonegotiation, receive, transmit] = words.map(|word| word != 0);
        Ok(done.map(|()| Pause { autonegotiation, receive, transmit }))
    }

    /// Its queues.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn channels(&self, interface: &str) -> Result<Option<Channels>, Error> {
        let mut words = [sys::ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
        let done = self.ask(interface, "queues", &mut words)?;
        let [_, receive_max, transmit_max, _, combined_max, receive, transmit, _, combined] = words;
        Ok(done.map(|()| Channels { receive, receive_max, transmit, transmit_max, combined, combined_max }))
    }

    /// Its speed and duplex.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn mode(&self, interface: &str) -> Result<Option<LinkMode>, Error> {
        let mut words = [0; sys::GSET_WORDS];
        words[0] = sys::ETHTOOL_GSET;
        let done = self.ask(interface, "speed", &mut words)?;
        Ok(done.map(|()| link_mode(&words)))
    }

    /// The driver's name.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn driver(&self, interface: &str) -> Result<Option<String>, Error> {
        let mut words = [0; sys::GDRVINFO_WORDS];
        words[0] = sys::ETHTOOL_GDRVINFO;
        let done = self.ask(interface, "driver", &mut words)?;
        Ok(done.map(|()| text(&words[1..9])).filter(|name| !name.is_empty()))
    }

    fn flow_hash(&self, interface: &str, flow: u32) -> Result<Option<FlowHash>, Error> {
        let mut words = vec![0; sys::RXNFC_WORDS];
        [words[0], words[1]] = [sys::ETHTOOL_GRXFH, flow];
        let done = self.ask(interface, "flow hash", &mut words)?;
        Ok(done.map(|()| flow_hash(u64::from(words[2]) | u64::from(words[3]))))
    }

    /// `None`: the driver does not do it.
    fn ask(&self, interface: &str, what: &str, payload: &mut [u32]) -> Result<Option<()>, Error> {
        match sys::ethtool(self.socket.as_fd(), interface, payload) {
            Ok(_) => Ok(Some(())),
            Err(Errno::ENODEV) => Err(Errno::ENODEV).during(|| format!("query {what} of {interface}")),
            // EOPNOTSUPP mostly; EINVAL and EPERM from some drivers and sandboxes.
            Err(_) => Ok(None),
        }
    }
}

/// A socket that stays inside `ns`.
pub(crate) fn open_socket(ns: &NetNs) -> Result<OwnedFd, Error> {
    let open = || socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    ns.run(open)?.during(|| "open a socket for ethtool requests")
}

/// `struct ethtool_cmd`: after three words speed (16 bits), duplex, port; phy, transceiver, autonegotiation, MDIO; two
/// words; the speed's upper half.
fn link_mode(words: &[u32; sys::GSET_WORDS]) -> LinkMode {
    let [low_a, low_b, duplex, _] = words[3].to_ne_bytes();
    let [_, _, autonegotiation, _] = words[4].to_ne_bytes();
    let [high_a, high_b, ..] = words[7].to_ne_bytes();
    let (low, high) = (u16::from_ne_bytes([low_a, low_b]), u16::from_ne_bytes([high_a, high_b]));
    let speed = u32::from(high) << 16 | u32::from(low);
    LinkMode {
        // SPEED_UNKNOWN
        speed_mbit: (speed != 0 && speed != u32::MAX).then_some(speed),
        full_duplex: (duplex <= 1).then_some(duplex == 1),
        autonegotiation: autonegotiation == 1,
    }
}

/// RXH_IP_SRC, RXH_IP_DST, RXH_L4_B_0_1, RXH_L4_B_2_3.
fn flow_hash(bits: u64) -> FlowHash {
    let bit = |number: u32| bits & (1 << number) != 0;
    FlowHash { source: bit(4), destination: bit(5), source_port: bit(6), destination_port: bit(7) }
}

/// Text up to the first zero.
pub(crate) fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::links::{MacAddress, Netlink, VethEnd};
    use crate::sys::tests::open_tun;

    #[test]
    fn virtual_interfaces_tell_little() {
        let ns = NetNs::create().unwrap();
        let end = |name| VethEnd { ns: &ns, name, mac: MacAddress::local(1), mtu: 1500, queue_length: 100 };
        let mut netlink = Netlink::open(&ns).unwrap();
        netlink.add_veth(&end("a"), &end("b")).unwrap();
        let ethtool = Ethtool::open(&ns).unwrap();

        let veth = ethtool.device("a").unwrap();
        assert_eq!(veth.driver.as_deref(), Some("veth"));
        assert_eq!(veth.mode.and_then(|mode| mode.speed_mbit), Some(10_000));
        assert_eq!(veth.mode.and_then(|mode| mode.full_duplex), Some(true));
        let channels = veth.channels.unwrap();
        assert_eq!((channels.receive, channels.transmit, channels.combined), (1, 1, 0));
        // drivers/net/veth.c names the peer among its statistics.
        let peer = netlink.link("b").unwrap().index.into();
        assert!(veth.statistics.unwrap().contains(&("peer_ifindex".into(), peer)));
        assert_eq!((veth.coalescing, veth.pause, veth.udp4_hash), (None, None, None));

        let lo = ethtool.device("lo").unwrap();
        assert_eq!((lo.statistics, lo.rings, lo.coalescing, lo.channels), (None, None, None, None));
        let missing = ethtool.device("c").unwrap_err();
        assert_eq!(missing.to_string(), "query driver of c: no such device");
    }

    #[test]
    fn interrupt_moderation_is_set_where_there_is_some() {
        let ns = NetNs::create().unwrap();
        let _tun = ns.run(|| open_tun("t")).unwrap();
        let ethtool = Ethtool::open(&ns).unwrap();
        // A tun device has one such setting: how many packets it takes from its writer at once.
        let before = ethtool.coalescing("t").unwrap().unwrap();
        assert_eq!(before, Coalescing::default());
        let wanted = Coalescing { receive_frames: 32, ..before };
        ethtool.set_coalescing("t", &wanted).unwrap();
        assert_eq!(ethtool.coalescing("t"), Ok(Some(wanted)));
        let refused = ethtool.set_rings("t", Some(512), None).unwrap_err();
        assert_eq!(refused.errno(), Some(Errno::EOPNOTSUPP));
        assert!(refused.to_string().starts_with("set the rings of t: "), "{refused}");
        let more = ethtool.set_coalescing("t", &Coalescing { receive_us: 9, ..wanted }).unwrap_err();
        assert!(more.to_string().starts_with("set the interrupt moderation of t: "), "{more}");
    }

    #[test]
    fn speeds_of_more_than_16_bits() {
        let mut words = [0; sys::GSET_WORDS];
        words[3] = u32::from_ne_bytes([0x10, 0x27, 1, 0]);
        words[4] = u32::from_ne_bytes([0, 0, 1, 0]);
        let expected = LinkMode { speed_mbit: Some(10_000), full_duplex: Some(true), autonegotiation: true };
        if cfg!(target_endian = "little") {
            assert_eq!(link_mode(&words), expected);
            words[7] = 1;
            assert_eq!(link_mode(&words).speed_mbit, Some(75_536));
        }
        // SPEED_UNKNOWN and DUPLEX_UNKNOWN
        let unknown = link_mode(&[u32::MAX; sys::GSET_WORDS]);
        assert_eq!((unknown.speed_mbit, unknown.full_duplex), (None, None));
    }

    proptest! {
        #[test]
        fn hashes_and_names_of_any_bits(bits: u64, words: [u32; 8]) {
            let hash = flow_hash(bits);
            prop_assert_eq!(hash.source_port && hash.destination_port, bits & 0xc0 == 0xc0);
            prop_assert!(!text(&words).contains('\0'));
        }
    }
}
