//! What is so: looked at for some seconds.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{LinkAddr, recvfrom};
use serde::Serialize;
use socket2::{Domain, Protocol, Type};
use weir_dgram::{Inbox, Membership, Options, Socket};
use weir_kernel::links::{Netlink, Snooping};
use weir_kernel::namespaces::NetNs;
use weir_program::stop::Stop;

use super::judge::Judge;
use crate::serve::control::opener;
use crate::serve::settings::Keys;

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The group and its port.
    pub group: SocketAddr,
    /// The interface to join it on; `None`: where a route leads.
    pub interface: Option<String>,
    /// For how long.
    pub duration: Duration,
    /// Receive buffer that receivers ask for, bytes.
    pub receive_buffer: usize,
    /// By what it is opened, as a server does; without any it is a signal all the same.
    pub keys: Keys,
}

/// What is so.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// The group and its port.
    pub group: String,
    /// For how long it was listened to, seconds.
    pub listened_s: f64,
    /// Why the group cannot be joined; null: it was.
    pub not_joined: Option<String>,
    /// The interface that it was joined on, as the kernel lists it; null: it lists none.
    pub interface: Option<String>,
    /// Whether that interface is up.
    pub up: bool,
    /// Its MTU.
    pub mtu: Option<u32>,
    /// Bytes of receive buffer that were asked for, and granted.
    pub receive_buffer: (usize, usize),
    /// Bridges of this machine.
    pub bridges: Vec<Bridge>,
    /// Who asked for members (IGMP queries).
    pub queriers: Vec<Ipv4Addr>,
    /// Datagrams to the group that came to an interface; null: that may not be looked at (CAP_NET_RAW), or it is IPv6.
    pub at_interface: Option<u64>,
    /// Of those, fragments: they were longer than a frame.
    pub fragments: u64,
    /// Datagrams that came to the socket.
    pub at_socket: u64,
    /// Datagrams that were dropped there, for the buffer was full.
    pub socket_drops: u64,
    /// Packets dropped meanwhile because their source is reached another way (rp_filter).
    pub reverse_path_drops: u64,
    /// Who sends to the group, as seen at the interface or at the socket (`others`: beyond 64).
    pub sources: BTreeMap<String, Source>,
    /// Of those at the socket, datagrams that a server does not take, by source and by reason, as its ledger has them.
    pub refused: BTreeMap<String, BTreeMap<&'static str, u64>>,
}

/// A bridge of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bridge {
    /// Its name.
    pub name: String,
    /// Whether it sends groups to members alone.
    pub snoops: bool,
    /// Whether anybody is known to ask for members, itself included.
    pub asked: bool,
}

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Datagrams at the interface.
    pub at_interface: u64,
    /// Datagrams at the socket.
    pub at_socket: u64,
    /// The TTL with which they come; null: not seen.
    pub ttl: Option<u8>,
    /// Datagrams of data that its sessions have sent meanwhile, by their numbers; of a source of other datagrams 0.
    pub numbered: u64,
    /// Of those, datagrams that did not come to the socket.
    pub missing: u64,
}

/// Joins the group and listens.
///
/// # Errors
/// Waiting fails; a file of keys cannot be read. What the kernel refuses is a fact.
pub fn listen(settings: &Settings, stop: &Stop) -> Result<Facts> {
    let Settings { group, interface, duration, receive_buffer, keys } = settings;
    let mut judge = Judge::new(opener(keys)?, *keys != Keys::default());
    let mut facts = Facts { group: group.to_string(), ..Facts::default() };
    let begun = (Instant::now(), reverse_path_drops());
    let wire = wire(*group);
    let mut index = None;
    let socket = match join(*group, interface.clone(), *receive_buffer) {
        Ok(socket) => Some(socket),
        Err(error) => {
            facts.not_joined = Some(error.to_string());
            None
        }
    };
    facts.at_interface = wire.as_ref().map(|_| 0);
    facts.receive_buffer = (*receive_buffer, *receive_buffer);
    if let Some(socket) = &socket {
        // The kernel grants twice what is asked, for its own accounts.
        facts.receive_buffer.1 = socket.granted().receive_buffer.granted / 2;
        facts.interface = match group.ip() {
            IpAddr::V4(group) => {
                joined_on(&fs::read_to_string("/proc/net/igmp").unwrap_or_default(), group, interface.as_deref())
            }
            IpAddr::V6(_) => interface.clone(),
        };
    }
    // Asked of the kernel: /sys shows the interfaces of whoever mounted it.
    if let Ok(mut netlink) = NetNs::current().and_then(|ns| Netlink::open(&ns)) {
        facts.bridges = bridges(&mut netlink);
        if let Some(link) = facts.interface.as_ref().and_then(|name| netlink.link(name).ok()) {
            (facts.up, facts.mtu) = (link.up, Some(link.mtu));
            index = Some(link.index);
        }
    }
    let mut inbox = Inbox::new(64, 65_535);
    // From here on both count: what came before went to one of them alone.
    if let (Some(wire), Some(socket)) = (&wire, &socket) {
        take_packets(wire, *group, index, &mut facts);
        take_datagrams(socket, &mut inbox, &mut judge, begun.0.elapsed(), &mut facts);
        judge.clear();
        (facts.at_interface, facts.at_socket, facts.fragments) = (Some(0), 0, 0);
        facts.sources.clear();
        facts.refused.clear();
    }
    let until = begun.0 + *duration;
    while Instant::now() < until && !stop.is_set() {
        let fds = socket.iter().map(AsFd::as_fd).chain(wire.iter().map(AsFd::as_fd)).chain([stop.as_fd()]);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let left = until.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        // Whatever wakes it, what there is is taken.
        let _ = poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        if let Some(wire) = &wire {
            take_packets(wire, *group, index, &mut facts);
        }
        if let Some(socket) = &socket {
            take_datagrams(socket, &mut inbox, &mut judge, begun.0.elapsed(), &mut facts);
        }
    }
    judge.account(&mut facts);
    if let Some(memory) = socket.as_ref().and_then(|socket| socket.memory().ok()) {
        facts.socket_drops = memory.drops.into();
    }
    facts.reverse_path_drops = reverse_path_drops().saturating_sub(begun.1);
    facts.listened_s = begun.0.elapsed().as_secs_f64();
    Ok(facts)
}

fn join(group: SocketAddr, interface: Option<String>, receive_buffer: usize) -> Result<Socket, weir_dgram::Error> {
    let options =
        Options { reuse_address: true, receive_buffer: Some(receive_buffer), only_v6: true, ..Options::default() };
    let socket = Socket::bind(group, &options)?;
    socket.join(&Membership { group: group.ip(), source: None, interface })?;
    Ok(socket)
}

/// Sees the packets of all interfaces, in front of every filter. `None`: it may not, or they are IPv6.
fn wire(group: SocketAddr) -> Option<socket2::Socket> {
    if group.is_ipv6() {
        return None;
    }
    // Of every protocol: those that ask for one see packets behind the filters of the interface (nft's ingress).
    let every = i32::from(ALL.to_be());
    let socket = socket2::Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(every))).ok()?;
    socket.set_nonblocking(true).ok()?;
    let _ = socket.set_recv_buffer_size(8 << 20);
    Some(socket)
}

fn take_packets(wire: &socket2::Socket, group: SocketAddr, index: Option<u32>, facts: &mut Facts) {
    let mut bytes = [0; 2048];
    for _ in 0..MOST_AT_ONCE {
        let Ok((length, from)) = recvfrom::<LinkAddr>(wire.as_raw_fd(), &mut bytes) else { return };
        let Some(from) = from.filter(|from| from.protocol() == IP.to_be() && from.pkttype() != OUTGOING) else {
            continue;
        };
        let Some(packet) = Packet::parse(&bytes[..length]) else { continue };
        match packet.protocol {
            IGMP if packet.payload.first() == Some(&QUERY)
                && !facts.queriers.contains(&packet.source)
                && facts.queriers.len() < MOST_SOURCES =>
            {
                facts.queriers.push(packet.source);
            }
            UDP if IpAddr::V4(packet.destination) == group.ip() => {
                let is_fragment = packet.is_fragment;
                // The port is in the first fragment alone.
                let port = packet.payload.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
                if packet.offset > 0 || port != Some(group.port()) {
                    continue;
                }
                // It is heard on the interface on which the group was joined; a bridge and its ports show the same packet.
                if index.is_some_and(|index| from.ifindex() != index as usize) {
                    continue;
                }
                facts.fragments += u64::from(is_fragment);
                facts.at_interface = facts.at_interface.map(|count| count + 1);
                let source = facts.sources.entry(facts.name(packet.source.into())).or_default();
                source.at_interface += 1;
                source.ttl = Some(packet.ttl);
            }
            _ => {}
        }
    }
}

fn take_datagrams(socket: &Socket, inbox: &mut Inbox, judge: &mut Judge, now: Duration, facts: &mut Facts) {
    for _ in 0..MOST_AT_ONCE / 64 {
        if inbox.receive(socket).is_err() {
            break;
        }
        for message in inbox.messages() {
            let name = facts.name(message.source.ip());
            facts.at_socket += 1;
            facts.sources.entry(name.clone()).or_default().at_socket += 1;
            if let Some(why) = judge.judge(message.bytes, (message.source, &name), now) {
                *facts.refused.entry(name).or_default().entry(why).or_default() += 1;
            }
        }
    }
    judge.look(now);
}

impl Facts {
    /// By which name a source is listed.
    fn name(&self, source: IpAddr) -> String {
        let name = source.to_string();
        let is_listed = self.sources.len() < MOST_SOURCES || self.sources.contains_key(&name);
        if is_listed { name } else { "others".to_owned() }
    }
}

/// An IPv4 packet (RFC 791).
struct Packet<'a> {
    protocol: u8,
    ttl: u8,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    is_fragment: bool,
    offset: u16,
    payload: &'a [u8],
}

impl<'a> Packet<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, _) = bytes.split_first_chunk::<20>()?;
        let length = usize::from(header[0] & 15) * 4;
        let fragment = u16::from_be_bytes([header[6], header[7]]);
        Some(Self {
            protocol: header[9],
            ttl: header[8],
            source: Ipv4Addr::new(header[12], header[13], header[14], header[15]),
            destination: Ipv4Addr::new(header[16], header[17], header[18], header[19]),
            // More fragments, or not the first one.
            is_fragment: fragment & 0x3fff != 0,
            offset: fragment & 0x1fff,
            payload: bytes.get(length.max(20)..)?,
        })
    }
}

/// The interface on which /proc/net/igmp lists a group (net/ipv4/igmp.c, igmp_mc_seq_show): the wanted one, or the first.
pub(super) fn joined_on(igmp: &str, group: Ipv4Addr, wanted: Option<&str>) -> Option<String> {
    let mut interface = None;
    for line in igmp.lines().skip(1) {
        if !line.starts_with('\t') {
            interface = line.split_whitespace().nth(1).map(|name| name.trim_end_matches(':'));
            continue;
        }
        let listed = line.split_whitespace().next().and_then(|word| u32::from_str_radix(word, 16).ok());
        // In the byte order of the machine, of a number in the network's.
        let is_it = listed.is_some_and(|listed| Ipv4Addr::from(listed.to_ne_bytes()) == group);
        if is_it && wanted.is_none_or(|wanted| interface == Some(wanted)) {
            return interface.map(str::to_owned);
        }
    }
    None
}

/// Whether these bytes are a packet, and whether this text lists a group.
pub(crate) fn is_read(packet: &[u8], igmp: &str) -> [bool; 2] {
    let listed = joined_on(igmp, Ipv4Addr::new(239, 192, 77, 1), None);
    [Packet::parse(packet).is_some(), listed.is_some()]
}

fn bridges(netlink: &mut Netlink) -> Vec<Bridge> {
    let bridges = netlink.snooping().unwrap_or_default().into_iter();
    bridges
        .map(|Snooping { bridge, snoops, asks, asked, .. }| Bridge {
            name: bridge,
            snoops,
            asked: asked.unwrap_or(asks),
        })
        .collect()
}

/// TcpExt IPReversePathFilter of /proc/net/netstat.
fn reverse_path_drops() -> u64 {
    let text = fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(name, _)| *name == "IPReversePathFilter").and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// ETH_P_IP
const IP: u16 = 0x0800;

/// ETH_P_ALL
const ALL: u16 = 3;

/// PACKET_OUTGOING
const OUTGOING: u8 = 4;

const IGMP: u8 = 2;
const UDP: u8 = 17;

/// Membership query (RFC 9776).
const QUERY: u8 = 0x11;

const MOST_AT_ONCE: usize = 4096;
const MOST_SOURCES: usize = 64;
