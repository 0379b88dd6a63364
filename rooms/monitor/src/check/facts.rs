//! What is so: looked at for some seconds.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use weir_dgram::{Inbox, Membership, Options, Socket};
use weir_kernel::capture::{Frame, Tap};
use weir_kernel::counters::Protocols;
use weir_kernel::links::{Netlink, Snooping};
use weir_kernel::namespaces::NetNs;
use weir_kernel::sockets::{Membership as Joined, groups};
use weir_program::stop::Stop;
use weir_wire::ip::Headers;

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
    /// Datagrams to the group that came to the interface; null: they cannot be seen (CAP_NET_RAW), or it is IPv6.
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
    let (begun, ns) = (Instant::now(), NetNs::current()?);
    let protocols = Protocols::open(&ns).ok();
    let reverse_path_drops = || {
        let counters = protocols.as_ref().and_then(|protocols| protocols.read().ok());
        counters.and_then(|counters| counters.get("TcpExt", "IPReversePathFilter")).unwrap_or(0)
    };
    let dropped_before = reverse_path_drops();
    let socket = match join(*group, interface.clone(), *receive_buffer) {
        Ok(socket) => Some(socket),
        Err(error) => {
            facts.not_joined = Some(error.to_string());
            None
        }
    };
    facts.receive_buffer = (*receive_buffer, *receive_buffer);
    if let Some(socket) = &socket {
        // The kernel grants twice what is asked, for its own accounts.
        facts.receive_buffer.1 = socket.granted().receive_buffer.granted / 2;
        let is_it = |joined: &Joined| {
            joined.group == group.ip() && interface.as_ref().is_none_or(|wanted| *wanted == joined.name)
        };
        facts.interface = groups(&ns).unwrap_or_default().into_iter().find(is_it).map(|joined| joined.name);
    }
    // Asked of the kernel: /sys shows the interfaces of whoever mounted it.
    if let Ok(mut netlink) = Netlink::open(&ns) {
        facts.bridges = bridges(&mut netlink);
        if let Some(link) = facts.interface.as_ref().and_then(|name| netlink.link(name).ok()) {
            (facts.up, facts.mtu) = (link.up, Some(link.mtu));
        }
    }
    // Frames are seen in front of every filter, but not without CAP_NET_RAW.
    let name = facts.interface.as_deref().filter(|_| group.is_ipv4());
    let mut tap = name.and_then(|name| Tap::open(&ns, name, SNAP, *receive_buffer).ok());
    let mut inbox = Inbox::new(64, 65_535);
    // From here on both count: what came before went to one of them alone.
    if let (Some(tap), Some(socket)) = (&mut tap, &socket) {
        take_frames(tap, *group, &mut facts);
        take_datagrams(socket, &mut inbox, &mut judge, begun.elapsed(), &mut facts);
        judge.clear();
        (facts.at_interface, facts.at_socket, facts.fragments) = (Some(0), 0, 0);
        facts.sources.clear();
        facts.refused.clear();
    }
    let until = begun + *duration;
    while Instant::now() < until && !stop.is_set() {
        let fds = socket.iter().map(AsFd::as_fd).chain([stop.as_fd()]);
        let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let left = until.saturating_duration_since(Instant::now()).min(LOOKS_APART);
        // Whatever wakes it, what there is is taken.
        let _ = poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        if let Some(tap) = &mut tap {
            take_frames(tap, *group, &mut facts);
        }
        if let Some(socket) = &socket {
            take_datagrams(socket, &mut inbox, &mut judge, begun.elapsed(), &mut facts);
        }
    }
    judge.account(&mut facts);
    if let Some(memory) = socket.as_ref().and_then(|socket| socket.memory().ok()) {
        facts.socket_drops = memory.drops.into();
    }
    facts.reverse_path_drops = reverse_path_drops().saturating_sub(dropped_before).unsigned_abs();
    facts.listened_s = begun.elapsed().as_secs_f64();
    Ok(facts)
}

fn join(group: SocketAddr, interface: Option<String>, receive_buffer: usize) -> Result<Socket, weir_dgram::Error> {
    let options =
        Options { reuse_address: true, receive_buffer: Some(receive_buffer), only_v6: true, ..Options::default() };
    let socket = Socket::bind(group, &options)?;
    socket.join(&Membership { group: group.ip(), source: None, interface })?;
    Ok(socket)
}

fn take_frames(tap: &mut Tap, group: SocketAddr, facts: &mut Facts) {
    for _ in 0..MOST_AT_ONCE / 64 {
        if tap.receive(|frame| take_frame(&frame, group, facts)).unwrap_or(0) == 0 {
            return;
        }
    }
}

fn take_frame(frame: &Frame<'_>, group: SocketAddr, facts: &mut Facts) {
    let is_ip = !frame.outgoing && frame.bytes.get(12..14) == Some(&IP.to_be_bytes());
    let Some(ip) = frame.bytes.get(14..).filter(|_| is_ip) else { return };
    let Ok(headers) = Headers::parse_snapshot(ip) else { return };
    let (IpAddr::V4(source), body) = (headers.source, headers.body(ip)) else { return };
    match headers.protocol {
        IGMP if body.first() == Some(&QUERY)
            && !facts.queriers.contains(&source)
            && facts.queriers.len() < MOST_SOURCES =>
        {
            facts.queriers.push(source);
        }
        UDP if headers.destination == group.ip() => {
            // The port is in the first fragment alone.
            if headers.offset > 0 || body.get(2..4) != Some(&group.port().to_be_bytes()) {
                return;
            }
            facts.fragments += u64::from(headers.fragment);
            facts.at_interface = facts.at_interface.map(|count| count + 1);
            let source = facts.sources.entry(facts.name(headers.source)).or_default();
            source.at_interface += 1;
            source.ttl = ip.get(8).copied();
        }
        _ => {}
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

/// ETH_P_IP
const IP: u16 = 0x0800;

const IGMP: u8 = 2;
const UDP: u8 = 17;

/// Membership query (RFC 9776).
const QUERY: u8 = 0x11;

/// Of a frame: the headers of Ethernet, IPv4 and UDP, with options.
const SNAP: u32 = 128;

/// From one look at frames to the next, while no datagram comes.
const LOOKS_APART: Duration = Duration::from_millis(50);

const MOST_AT_ONCE: usize = 4096;
const MOST_SOURCES: usize = 64;
