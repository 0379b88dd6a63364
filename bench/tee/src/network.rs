//! Three hosts in a row: source, tee, sinks; for comparison a cable from the source straight to the sinks.

use std::fs::read_to_string;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::peer;
use weir_kernel::links::{LinkStatistics, MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::offloads::{Offload, Offloads};

use crate::stream::{LEAST, Progress, Stream, patience};

/// How the way is laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Whether a run that the source sends at once arrives at the tee whole, as a network card with GRO hands it over,
    /// or cut into its datagrams.
    pub(crate) runs_arrive: bool,
    /// Segmentation offload on the tee's way out.
    pub(crate) offload: bool,
    /// Whether sinks drop at ingress what comes.
    pub(crate) drop: bool,
}

/// Single datagrams in, whatever is sent out, all of which reaches the sinks.
pub(crate) const SINGLES: Shape = Shape { runs_arrive: false, offload: true, drop: false };

/// The hosts and their cables.
pub(crate) struct Network {
    pub(crate) source: NetNs,
    pub(crate) tee: NetNs,
    pub(crate) sinks: NetNs,
}

/// Where the tee listens.
pub(crate) const LISTENER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 1, 1), PORT);

/// Where the `index`th sink is.
pub(crate) fn sink(index: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 77, 2, 10 + index as u8), PORT)
}

/// Addresses on the sinks' cable at which nobody answers ARP.
pub(crate) const DEAD: [SocketAddrV4; 2] =
    [SocketAddrV4::new(Ipv4Addr::new(10, 77, 2, 200), PORT), SocketAddrV4::new(Ipv4Addr::new(10, 77, 2, 201), PORT)];

/// Where the first sink is over the cable from the source.
pub(crate) const DIRECT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 3, 10), PORT);

impl Network {
    pub(crate) fn new(shape: Shape) -> Result<Network> {
        let network = Network { source: NetNs::create()?, tee: NetNs::create()?, sinks: NetNs::create()? };
        let Network { source, tee, sinks } = &network;
        // Over it the control side is asked.
        Netlink::open(tee)?.set_loopback_up()?;
        let sink_addresses: Vec<Ipv4Addr> = (0..MOST_SINKS).map(|index| *sink(index).ip()).collect();
        let source_side = Ipv4Addr::new(10, 77, 1, 2);
        cable(
            &End { ns: source, name: "eth0", mac: 1, addresses: &[source_side] },
            &End { ns: tee, name: "in0", mac: 2, addresses: &[*LISTENER.ip()] },
        )?;
        cable(
            &End { ns: tee, name: OUT, mac: 3, addresses: &[Ipv4Addr::new(10, 77, 2, 1)] },
            &End { ns: sinks, name: "eth0", mac: 4, addresses: &sink_addresses },
        )?;
        cable(
            &End { ns: source, name: "direct", mac: 5, addresses: &[Ipv4Addr::new(10, 77, 3, 2)] },
            &End { ns: sinks, name: "direct", mac: 6, addresses: &[*DIRECT.ip()] },
        )?;
        if !shape.runs_arrive {
            Offloads::open(source)?.set("eth0", Offload::UdpSegmentation, false)?;
        }
        if !shape.offload {
            let mut offloads = Offloads::open(tee)?;
            for offload in [Offload::UdpSegmentation, Offload::TcpSegmentation] {
                offloads.set(OUT, offload, false)?;
            }
        }
        if shape.drop {
            network.drop_at_ingress()?;
        }
        Ok(network)
    }

    /// What the tee sent over its outgoing cable so far: datagrams of `size`. A run counts as one packet with one set of
    /// headers.
    pub(crate) fn left(&self, netlink: &mut Netlink, size: usize) -> Result<u64> {
        let LinkStatistics { tx_packets, tx_bytes, .. } = netlink.link(OUT)?.statistics;
        if size > UNFRAGMENTED {
            // Each fragment has the headers of Ethernet and IPv4, one of them that of UDP.
            return Ok((tx_bytes - tx_packets * (HEADERS - UDP)) / (size as u64 + UDP));
        }
        Ok((tx_bytes - tx_packets * HEADERS) / size as u64)
    }

    /// As [`Network::left`], once nothing more has left for a while.
    pub(crate) fn settled(&self, netlink: &mut Netlink, size: usize) -> Result<u64> {
        let (mut left, mut since) = (self.left(netlink, size)?, Instant::now());
        while since.elapsed() < QUIET {
            sleep(Duration::from_millis(5));
            let now = self.left(netlink, size)?;
            if now != left {
                (left, since) = (now, Instant::now());
            }
        }
        Ok(left)
    }

    /// Waits until a UDP socket of the tee's host is bound to the listener's port.
    pub(crate) fn await_listener(&self) -> Result<()> {
        let deadline = patience();
        while !self.tee_ports()?.contains(&PORT) {
            ensure!(Instant::now() < deadline, "nothing listens on {LISTENER} after 10 s");
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Sends to the tee until copies leave for as many destinations, and none is left under way.
    pub(crate) fn await_flow(&self, destinations: usize) -> Result<()> {
        let mut netlink = Netlink::open(&self.tee)?;
        let (before, deadline) = (self.left(&mut netlink, LEAST)?, patience());
        let stream = Stream { size: LEAST, run: 1, interval: Duration::ZERO };
        // An ICMP error that came back would cost a replicator its next send.
        let open = || (0..MOST_SINKS).map(|index| UdpSocket::bind(sink(index))).collect::<Result<Vec<_>, _>>();
        let _sinks = self.sinks.run(open)??;
        while self.left(&mut netlink, LEAST)? < before + destinations as u64 {
            ensure!(Instant::now() < deadline, "no copies leave the tee after 10 s");
            stream.send(&self.source, LISTENER, &Progress::default(), 1)?;
            sleep(Duration::from_millis(5));
        }
        self.settled(&mut netlink, LEAST)?;
        Ok(())
    }

    /// UDP ports that are bound on the tee's host.
    pub(crate) fn tee_ports(&self) -> Result<Vec<u16>> {
        let mut tables = self.tee.run(|| read_to_string("/proc/thread-self/net/udp"))??;
        tables += &self.tee.run(|| read_to_string("/proc/thread-self/net/udp6"))?.unwrap_or_default();
        let port = |line: &str| {
            let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
            u16::from_str_radix(port, 16).ok()
        };
        Ok(tables.lines().filter_map(port).collect())
    }

    /// Datagrams for which the listener's sockets had no room, so that no replicator saw them.
    pub(crate) fn listener_drops(&self) -> Result<u64> {
        let table = self.tee.run(|| read_to_string("/proc/thread-self/net/udp"))??;
        let port = format!(":{PORT:04X}");
        let of_listener = |line: &&str| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&port));
        let drops = |line: &str| line.split_whitespace().next_back().and_then(|drops| drops.parse::<u64>().ok());
        Ok(table.lines().filter(of_listener).filter_map(drops).sum())
    }

    fn drop_at_ingress(&self) -> Result<()> {
        const RULES: &str = "table netdev sink {\n chain ingress {\n\
            type filter hook ingress device \"eth0\" priority 0; policy accept;\n\
            ip protocol udp drop\n}\n}\n";
        let start = || Command::new(peer("nft")).args(["-f", "-"]).stdin(Stdio::piped()).spawn();
        let mut nft = self.sinks.run(start)?.context("run nft (apt install nftables)")?;
        nft.stdin.take().context("nft has no input")?.write_all(RULES.as_bytes())?;
        ensure!(nft.wait()?.success(), "nft refused a rule at ingress");
        Ok(())
    }
}

/// One end of a cable.
struct End<'a> {
    ns: &'a NetNs,
    name: &'a str,
    mac: u32,
    addresses: &'a [Ipv4Addr],
}

/// Joins two ends, each of which knows the other's addresses for ever.
fn cable(a: &End<'_>, b: &End<'_>) -> Result<()> {
    fn veth<'a>(end: &End<'a>) -> VethEnd<'a> {
        VethEnd { ns: end.ns, name: end.name, mac: MacAddress::local(end.mac), mtu: 1500, queue_length: 1000 }
    }
    Netlink::open(a.ns)?.add_veth(&veth(a), &veth(b))?;
    for end in [a, b] {
        let mut netlink = Netlink::open(end.ns)?;
        let index = netlink.link(end.name)?.index;
        netlink.set_no_link_local(index)?;
        netlink.set_up(index)?;
        for address in end.addresses {
            netlink.add_address(index, format!("{address}/24").parse()?)?;
        }
    }
    for (end, other) in [(a, b), (b, a)] {
        let mut netlink = Netlink::open(end.ns)?;
        netlink.wait_until_running(end.name)?;
        let index = netlink.link(end.name)?.index;
        for address in other.addresses {
            netlink.add_neighbour(index, (*address).into(), MacAddress::local(other.mac))?;
        }
    }
    Ok(())
}

/// The tee's interface towards the sinks.
const OUT: &str = "out0";

const PORT: u16 = 9000;

/// Sinks that have an address.
pub(crate) const MOST_SINKS: usize = 16;

/// Ethernet, IPv4 and UDP headers.
const HEADERS: u64 = 14 + 20 + UDP;

/// A UDP header.
const UDP: u64 = 8;

/// The longest payload that needs no fragments on the cables.
pub(crate) const UNFRAGMENTED: usize = 1500 - 20 - 8;

/// For so long nothing leaves when all has left.
const QUIET: Duration = Duration::from_millis(60);
