//! What a card's driver shows and lets be set, as far as receiving needs it: `ethtool` with -g, -c, -a, -l and -i.
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
    /// Its receive ring (-g).
    pub ring: Option<Ring>,
    /// Interrupt moderation (-c).
    pub coalescing: Option<Coalescing>,
    /// Pause frames (-a).
    pub pause: Option<Pause>,
    /// The most queues that receive (-l).
    pub most_queues: Option<u32>,
    /// Speed and duplex.
    pub mode: Option<LinkMode>,
}

/// Length of each queue's receive ring, in descriptors; a packet takes one or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// As it is.
    pub length: u32,
    /// The longest that it may be.
    pub most: u32,
}

/// Interrupt moderation. A value the driver does not have reads 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalescing {
    /// Microseconds from a packet's arrival until the interrupt.
    pub receive_us: u32,
    /// Packets after which the interrupt comes at once.
    pub receive_frames: u32,
    /// The driver adapts the first two to the load.
    pub receive_adaptive: bool,
}

/// Pause frames (IEEE 802.3x).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// It stops sending when it is asked to.
    pub receive: bool,
    /// It asks the other end to stop when its ring is full.
    pub transmit: bool,
}

/// Speed and duplex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkMode {
    /// Mbit/s; `None`: no carrier, or the driver does not know. A veth claims 10,000.
    pub speed_mbit: Option<u32>,
    /// Both ends may send at once; `None`: the driver does not know.
    pub full_duplex: Option<bool>,
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
            ring: self.ring(interface)?,
            coalescing: self.coalescing(interface)?,
            pause: self.pause(interface)?,
            most_queues: self.most_queues(interface)?,
            mode: self.mode(interface)?,
        })
    }

    /// Its receive ring.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn ring(&self, interface: &str) -> Result<Option<Ring>, Error> {
        let mut words = [sys::ETHTOOL_GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0];
        let done = self.ask(interface, "rings", &mut words)?;
        Ok(done.map(|()| Ring { length: words[5], most: words[1] }))
    }

    /// Gives the receive ring another length; most cards lose their link for a moment.
    ///
    /// # Errors
    /// If there is no interface of that name, without privilege over the namespace, or if the driver cannot do it.
    pub fn set_ring(&self, interface: &str, length: u32) -> Result<(), Error> {
        let operation = || format!("set the receive ring of {interface}");
        let mut words = [sys::ETHTOOL_GRINGPARAM, 0, 0, 0, 0, 0, 0, 0, 0];
        sys::ethtool(self.socket.as_fd(), interface, &mut words).during(operation)?;
        [words[0], words[5]] = [sys::ETHTOOL_SRINGPARAM, length];
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
        Ok(done.map(|()| Coalescing {
            receive_us: words[1],
            receive_frames: words[2],
            receive_adaptive: words[10] != 0,
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
        [words[1], words[2], words[10]] = [wanted.receive_us, wanted.receive_frames, wanted.receive_adaptive.into()];
        sys::ethtool(self.socket.as_fd(), interface, &mut words).during(operation).map(drop)
    }

    /// Its pause frames.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn pause(&self, interface: &str) -> Result<Option<Pause>, Error> {
        let mut words = [sys::ETHTOOL_GPAUSEPARAM, 0, 0, 0];
        let done = self.ask(interface, "pause frames", &mut words)?;
        let [_, _, receive, transmit] = words.map(|word| word != 0);
        Ok(done.map(|()| Pause { receive, transmit }))
    }

    /// The most queues that receive.
    ///
    /// # Errors
    /// If there is no interface of that name.
    pub fn most_queues(&self, interface: &str) -> Result<Option<u32>, Error> {
        let mut words = [sys::ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
        let done = self.ask(interface, "queues", &mut words)?;
        let [_, receive_only, _, _, combined, ..] = words;
        Ok(done.map(|()| combined.max(receive_only)))
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

/// `struct ethtool_cmd`: after three words speed (16 bits), duplex, port; three words; the speed's upper half.
fn link_mode(words: &[u32; sys::GSET_WORDS]) -> LinkMode {
    let [low_a, low_b, duplex, _] = words[3].to_ne_bytes();
    let [high_a, high_b, ..] = words[7].to_ne_bytes();
    let (low, high) = (u16::from_ne_bytes([low_a, low_b]), u16::from_ne_bytes([high_a, high_b]));
    let speed = u32::from(high) << 16 | u32::from(low);
    LinkMode {
        // SPEED_UNKNOWN
        speed_mbit: (speed != 0 && speed != u32::MAX).then_some(speed),
        full_duplex: (duplex <= 1).then_some(duplex == 1),
    }
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
        assert_eq!((veth.most_queues, veth.coalescing, veth.pause), (Some(1), None, None));

        let lo = ethtool.device("lo").unwrap();
        assert_eq!((lo.ring, lo.coalescing, lo.most_queues), (None, None, None));
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
        let refused = ethtool.set_ring("t", 512).unwrap_err();
        assert_eq!(refused.errno(), Some(Errno::EOPNOTSUPP));
        assert!(refused.to_string().starts_with("set the receive ring of t: "), "{refused}");
        let more = ethtool.set_coalescing("t", &Coalescing { receive_us: 9, ..wanted }).unwrap_err();
        assert!(more.to_string().starts_with("set the interrupt moderation of t: "), "{more}");
    }

    #[test]
    fn speeds_of_more_than_16_bits() {
        let mut words = [0; sys::GSET_WORDS];
        words[3] = u32::from_ne_bytes([0x10, 0x27, 1, 0]);
        let expected = LinkMode { speed_mbit: Some(10_000), full_duplex: Some(true) };
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
        fn names_of_any_bits(words: [u32; 8]) {
            prop_assert!(!text(&words).contains('\0'));
        }
    }
}
