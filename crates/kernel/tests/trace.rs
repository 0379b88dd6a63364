//! What is traced of UDP datagrams, each in namespaces of its own, counted against what was done to them.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::linux::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{self, sockopt};
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::sysctl;
use weir_kernel::trace::{Detail, Drop, Filter, SocketTrace, Trace, Tracer, features};

const LOCALHOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// A network namespace.
struct Host {
    ns: NetNs,
    inode: u32,
}

impl Host {
    /// With loopback up and nothing else.
    fn new() -> Host {
        let ns = NetNs::create().unwrap();
        let mut netlink = Netlink::open(&ns).unwrap();
        let lo = netlink.link("lo").unwrap().index;
        netlink.set_up(lo).unwrap();
        let inode = ns.run(|| fs::metadata("/proc/thread-self/ns/net").unwrap().st_ino() as u32).unwrap();
        Host { ns, inode }
    }

    fn socket(&self) -> UdpSocket {
        self.socket_at(LOCALHOST)
    }

    fn socket_at(&self, address: Ipv4Addr) -> UdpSocket {
        let socket = self.ns.run(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    fn filter(&self, ports: &[u16]) -> Filter {
        Filter { ports: ports.to_vec(), namespaces: vec![self.inode] }
    }

    fn trace(&self, ports: &[u16]) -> Tracer {
        start(&self.filter(ports))
    }

    /// Whether there is an nft to set the rules with.
    fn rules(&self, rules: &str) -> bool {
        let nft = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"].into_iter().find(|path| fs::exists(path).unwrap());
        let Some(nft) = nft else {
            assert!(std::env::var_os("CI").is_none(), "nft is missing");
            println!("no nft: skipped");
            return false;
        };
        let status = self.ns.run(|| {
            let mut child = Command::new(nft).args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
            child.wait().unwrap()
        });
        assert!(status.unwrap().success(), "{rules}");
        true
    }

    /// A counter of /proc/net/snmp.
    fn counter(&self, protocol: &str, name: &str) -> u64 {
        let text = self.ns.run(|| fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
        let mut lines =
            text.lines().filter(|line| line.starts_with(&format!("{protocol}:"))).map(str::split_whitespace);
        let index = lines.next().unwrap().position(|own| own == name).unwrap();
        lines.next().unwrap().nth(index).unwrap().parse().unwrap()
    }
}

/// Two hosts at the ends of a cable: 10.0.0.1 and 10.0.0.2.
fn cable() -> [(Host, Ipv4Addr); 2] {
    let hosts = [1, 2].map(|number| (Host::new(), Ipv4Addr::new(10, 0, 0, number)));
    let mut netlink = Netlink::open(&hosts[0].0.ns).unwrap();
    let end = |number: usize| VethEnd {
        name: "eth0",
        ns: &hosts[number].0.ns,
        mac: MacAddress::local(number as u32 + 1),
        mtu: 1500,
        queue_length: 0,
    };
    netlink.add_veth(&end(0), &end(1)).unwrap();
    for (host, address) in &hosts {
        let mut netlink = Netlink::open(&host.ns).unwrap();
        let index = netlink.link("eth0").unwrap().index;
        netlink.add_address(index, format!("{address}/24").parse().unwrap()).unwrap();
        netlink.set_up(index).unwrap();
    }
    hosts
}

/// Ordinary users may not trace, in a user namespace of theirs neither.
fn permitted() -> bool {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let refused =
        REFUSED.get_or_init(|| Tracer::start(Detail::Drops, &Filter::default()).err().map(|error| error.to_string()));
    if let Some(refused) = refused {
        assert!(std::env::var_os("CI").is_none(), "{refused}");
        println!("skipped: {refused}");
    }
    refused.is_none()
}

fn start(filter: &Filter) -> Tracer {
    let tracer = Tracer::start(Detail::Everything, filter).unwrap();
    assert_eq!((tracer.detail(), tracer.refused()), (Detail::Everything, &[] as &[String]));
    tracer
}

fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().unwrap().port()
}

fn cookie(socket: &UdpSocket) -> u64 {
    socket2::SockRef::from(socket).cookie().unwrap()
}

/// Reads everything that waits; returns how many times it did.
fn drain(socket: &UdpSocket) -> u64 {
    let mut bytes = [0; 65_536];
    (0..).take_while(|_| socket.recv(&mut bytes).is_ok()).count() as u64
}

/// The only drop.
fn only(trace: &Trace) -> &Drop {
    assert_eq!(trace.missed, 0, "{trace:?}");
    assert_eq!(trace.drops.len(), 1, "{:#?}", trace.drops);
    &trace.drops[0]
}

fn of(trace: &Trace, socket: u64) -> &SocketTrace {
    trace.sockets.iter().find(|own| own.cookie == socket).unwrap()
}

/// Until the kernel has done what nobody can wait for otherwise.
fn until(mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it did not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_full_receive_buffer() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    let mut tracer = host.trace(&[port(&receiver)]);
    for _ in 0..1000 {
        sender.send_to(&[7; 100], receiver.local_addr().unwrap()).unwrap();
    }
    let trace = tracer.read().unwrap();
    let own = *of(&trace, cookie(&receiver));
    assert_eq!(
        only(&trace),
        &Drop {
            reason: "SOCKET_RCVBUFF".into(),
            function: trace.drops[0].function.clone(),
            namespace: host.inode,
            interface: 1,
            cookie: cookie(&receiver),
            port: port(&receiver),
            from_port: port(&sender),
            outgoing: false,
            datagrams: 1000 - own.enqueued,
            buffers: 1000 - own.enqueued,
        }
    );
    assert!(["", "udp_queue_rcv_one_skb"].contains(&trace.drops[0].function.as_str()), "{}", trace.drops[0].function);
    assert_eq!((own.namespace, own.port, own.reads), (host.inode, port(&receiver), 0));
    assert_eq!(
        (own.level, own.level_max),
        (own.receive_buffer, own.receive_buffer),
        "256 of 832 bytes fill it exactly"
    );

    assert_eq!(drain(&receiver), own.enqueued);
    let trace = tracer.read().unwrap();
    let own = of(&trace, cookie(&receiver));
    assert_eq!((own.reads, own.read_datagrams), (own.enqueued, Some(own.enqueued)));
    assert_eq!((own.read_bytes, own.level), (own.enqueued * 100, 0));
    assert_eq!(own.reader, nix::unistd::gettid().as_raw() as u32);

    // What passed on the way there.
    let passed = |passages: &[weir_kernel::trace::Passage], cookie: u64| {
        assert_eq!(passages.len(), 1, "{passages:?}");
        let passage = passages[0];
        assert_eq!((passage.namespace, passage.interface, passage.cookie), (host.inode, 1, cookie));
        assert_eq!((passage.port, passage.datagrams, passage.bytes), (port(&receiver), 1000, 100_000));
    };
    passed(&trace.arrivals, 0);
    passed(&trace.departures, cookie(&sender));
    assert!(trace.receive_softirq_ns.iter().sum::<u64>() > 0);
    assert_eq!(trace.reassembling, 0);
}

#[test]
fn joined_buffers_count_as_their_datagrams() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    socket::setsockopt(&sender, sockopt::UdpGsoSegment, &100).unwrap();
    socket::setsockopt(&receiver, sockopt::UdpGroSegment, &true).unwrap();
    let mut tracer = host.trace(&[port(&receiver)]);
    for _ in 0..100 {
        sender.send_to(&[7; 6390], receiver.local_addr().unwrap()).unwrap();
    }
    let trace = tracer.read().unwrap();
    let own = *of(&trace, cookie(&receiver));
    let lost = only(&trace);
    assert!(own.enqueued > 0 && lost.buffers > 0, "{own:?} {lost:?}");
    assert_eq!((lost.buffers, lost.datagrams), (100 - own.enqueued, (100 - own.enqueued) * 64));
    assert_eq!((trace.arrivals[0].datagrams, trace.arrivals[0].bytes), (6400, 639_000));
    assert_eq!((trace.departures[0].datagrams, trace.departures[0].bytes), (6400, 639_000));
    assert_eq!((trace.sends[0].calls, trace.sends[0].datagrams), (100, 6400));
    assert_eq!(drain(&receiver), own.enqueued);
    let own = *of(&tracer.read().unwrap(), cookie(&receiver));
    assert_eq!((own.reads, own.read_datagrams), (own.enqueued, Some(own.enqueued * 64)));

    // Of datagrams of other sizes nobody knows how many a read returned.
    socket::setsockopt(&sender, sockopt::UdpGsoSegment, &50).unwrap();
    sender.send_to(&[7; 200], receiver.local_addr().unwrap()).unwrap();
    assert_eq!(drain(&receiver), 1);
    assert_eq!(of(&tracer.read().unwrap(), cookie(&receiver)).read_datagrams, None);

    // A socket that joins nothing gets the same datagrams one by one.
    let plain = host.socket();
    tracer.follow(&host.filter(&[port(&plain)])).unwrap();
    socket::setsockopt(&sender, sockopt::UdpGsoSegment, &100).unwrap();
    for _ in 0..10 {
        sender.send_to(&[7; 6400], plain.local_addr().unwrap()).unwrap();
    }
    let trace = tracer.read().unwrap();
    let own = *of(&trace, cookie(&plain));
    let lost: u64 = trace.drops.iter().filter(|lost| lost.cookie == cookie(&plain)).map(|lost| lost.datagrams).sum();
    assert_eq!(own.enqueued + lost, 640);
    assert_eq!(drain(&plain), own.enqueued);
    assert_eq!(of(&tracer.read().unwrap(), cookie(&plain)).read_datagrams, Some(own.enqueued));
    assert_eq!(tracer.read().unwrap().missed, 0);
}

#[test]
fn a_closed_port_and_ports_that_are_not_followed() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let sender = host.socket();
    let (followed, other) = (port(&host.socket()), port(&host.socket()));
    let mut tracer = host.trace(&[followed]);
    for _ in 0..7 {
        sender.send_to(b"a", (LOCALHOST, followed)).unwrap();
        sender.send_to(b"b", (LOCALHOST, other)).unwrap();
    }
    let trace = tracer.read().unwrap();
    let lost = only(&trace);
    assert_eq!((lost.reason.as_str(), lost.port, lost.datagrams), ("NO_SOCKET", followed, 7));
    assert_eq!((lost.cookie, lost.outgoing, lost.namespace), (0, false, host.inode));

    // From now on the other is followed, and another host, too: what was counted stays.
    let neighbour = Host::new();
    let ports = vec![other];
    tracer.follow(&Filter { ports, namespaces: vec![neighbour.inode, host.inode] }).unwrap();
    let stranger = neighbour.socket();
    for _ in 0..5 {
        sender.send_to(b"a", (LOCALHOST, followed)).unwrap();
        sender.send_to(b"b", (LOCALHOST, other)).unwrap();
        stranger.send_to(b"b", (LOCALHOST, other)).unwrap();
    }
    let trace = tracer.read().unwrap();
    let mut counts: Vec<_> = trace.drops.iter().map(|lost| (lost.namespace, lost.port, lost.datagrams)).collect();
    counts.sort();
    let mut expected = [(host.inode, followed, 7), (host.inode, other, 5), (neighbour.inode, other, 5)];
    expected.sort();
    assert_eq!(counts, expected);
    // A connected socket that is not followed does not appear; one that is not connected might send anywhere.
    assert_eq!(trace.missed, 0);
}

#[test]
fn closed_with_data_unread() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    let (to, own) = (port(&receiver), cookie(&receiver));
    let mut tracer = host.trace(&[to]);
    for _ in 0..10 {
        sender.send_to(&[7; 100], (LOCALHOST, to)).unwrap();
    }
    receiver.recv(&mut [0; 100]).unwrap();
    drop(receiver);
    until(|| !tracer.read().unwrap().drops.is_empty());
    until(|| tracer.read().unwrap().drops.iter().map(|lost| lost.datagrams).sum::<u64>() == 9);
    let trace = tracer.read().unwrap();
    let lost = only(&trace);
    assert_eq!((lost.cookie, lost.namespace, lost.port), (own, host.inode, to), "{lost:?}");
    assert!(lost.function.is_empty() || lost.function.starts_with("udp_destruct_"), "{lost:?}");
}

#[test]
fn a_firewall_at_the_output_and_at_the_input() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    let to = port(&receiver);
    let unreachable = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), to));
    if !host.rules(&format!(
        "table ip t {{
            chain out {{ type filter hook output priority 0; udp dport {to} udp length 20 drop; }}
            chain in {{ type filter hook input priority 0; udp dport {to} udp length 21 drop; }}
        }}"
    )) {
        return;
    }
    let mut tracer = host.trace(&[to]);
    for _ in 0..3 {
        sender.send_to(&[0; 12], (LOCALHOST, to)).unwrap_err();
    }
    for _ in 0..4 {
        sender.send_to(&[0; 13], (LOCALHOST, to)).unwrap();
    }
    for _ in 0..5 {
        sender.send_to(&[0; 14], (LOCALHOST, to)).unwrap();
    }
    for _ in 0..6 {
        // Bound to loopback it cannot be sent elsewhere.
        sender.send_to(&[0; 14], unreachable).unwrap_err();
    }
    let trace = tracer.read().unwrap();
    assert_eq!(trace.missed, 0);
    let mut drops: Vec<_> =
        trace.drops.iter().map(|lost| (lost.reason.as_str(), lost.outgoing, lost.cookie, lost.datagrams)).collect();
    drops.sort();
    assert_eq!(drops, [("NETFILTER_DROP", false, 0, 4), ("NETFILTER_DROP", true, cookie(&sender), 3)]);
    assert_eq!(drain(&receiver), 5);
    let mut sends: Vec<_> = trace.sends.iter().map(|sends| (sends.errno, sends.calls)).collect();
    sends.sort();
    assert_eq!(sends.iter().map(|(_, calls)| calls).sum::<u64>(), 18);
    assert!(sends.contains(&(0, 9)) && sends.contains(&(libc::EPERM, 3)), "{sends:?}");
    assert!(trace.sends.iter().all(|sends| sends.cookie == cookie(&sender) && sends.from_port == port(&sender)));
}

#[test]
fn a_reader_that_stalls_and_one_that_only_looks() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    receiver.set_nonblocking(false).unwrap();
    let own = cookie(&receiver);
    let mut tracer = host.trace(&[port(&receiver)]);
    for _ in 0..20 {
        sender.send_to(&[7; 100], receiver.local_addr().unwrap()).unwrap();
    }
    let begin = Instant::now();
    until(|| of(&tracer.read().unwrap(), own).longest_stall_ns > 30_000_000);
    assert!(begin.elapsed() >= Duration::from_millis(29), "it is told while it goes on, and not before");
    receiver.peek(&mut [0; 100]).unwrap();
    assert_eq!(of(&tracer.read().unwrap(), own).reads, 0);
    receiver.set_nonblocking(true).unwrap();
    assert_eq!(drain(&receiver), 20);
    let after = *of(&tracer.read().unwrap(), own);
    assert_eq!(after.reads, 20);
    assert!(after.longest_stall_ns >= 30_000_000 && after.stalled_ns >= after.longest_stall_ns, "{after:?}");
    thread::sleep(Duration::from_millis(20));
    let later = *of(&tracer.read().unwrap(), own);
    assert_eq!(later.longest_stall_ns, after.longest_stall_ns, "an empty queue does not stall");
    assert_eq!(later.stalled_ns, after.stalled_ns);
    assert!(later.level_ns[0] > after.level_ns[0] && later.level_ns[1..] == [0; 4], "{later:?}");
}

#[test]
fn times_at_each_level() {
    if !permitted() {
        return;
    }
    let host = Host::new();
    let (sender, receiver) = (host.socket(), host.socket());
    let own = cookie(&receiver);
    let mut tracer = host.trace(&[port(&receiver)]);
    let mut sent = 0;
    // A datagram of 100 bytes is 832 of 212,992: 256 of them are all of it.
    for (band, fill) in [(0, 127), (1, 191), (2, 230), (3, 255), (4, 256)] {
        while sent < fill {
            sender.send_to(&[7; 100], receiver.local_addr().unwrap()).unwrap();
            sent += 1;
        }
        let before = of(&tracer.read().unwrap(), own).level_ns;
        thread::sleep(Duration::from_millis(5));
        let after = of(&tracer.read().unwrap(), own).level_ns;
        for (index, (before, after)) in before.into_iter().zip(after).enumerate() {
            assert_eq!(after - before >= 5_000_000, index == band, "{fill}: {before} {after} in {index}");
            assert_eq!(after != before, index == band, "{fill}: {before} {after} in {index}");
        }
    }
    assert_eq!(of(&tracer.read().unwrap(), own).enqueued, 256);
}

/// Fragments 1 and 3 of each datagram reach the reassembly, the second is taken out before.
#[test]
fn a_fragmented_datagram_is_lost_once_where_its_first_piece_was() {
    if !permitted() {
        return;
    }
    let [(sending, _), (receiving, to)] = cable();
    let (sender, receiver) = (sending.socket_at(Ipv4Addr::UNSPECIFIED), receiving.socket_at(Ipv4Addr::UNSPECIFIED));
    let ports = [port(&receiver)];
    let namespaces = vec![sending.inode, receiving.inode];
    sysctl::set(&receiving.ns, &[("ipv4/ipfrag_time", "1")]).unwrap();
    // 1,480 bytes a fragment: the second begins at 185 * 8.
    if !receiving.rules(
        "table ip t { chain c { type filter hook prerouting priority -450; ip frag-off & 0x1fff == 185 drop; }; }",
    ) {
        return;
    }
    let mut tracer = start(&Filter { ports: ports.to_vec(), namespaces });
    for _ in 0..6 {
        sender.send_to(&[7; 4000], (to, ports[0])).unwrap();
    }
    for _ in 0..3 {
        sender.send_to(&[7; 1000], (to, ports[0])).unwrap();
    }
    until(|| receiving.counter("Ip", "ReasmFails") >= 6);
    let trace = tracer.read().unwrap();
    let lost = only(&trace);
    assert_eq!((lost.reason.as_str(), lost.datagrams, lost.port), ("NETFILTER_DROP", 6, ports[0]));
    assert_eq!((lost.from_port, lost.namespace, lost.outgoing), (port(&sender), receiving.inode, false));
    assert_eq!(trace.reassembling, 0);
    assert_eq!(trace.arrivals.iter().map(|passage| passage.datagrams).sum::<u64>(), 9);
    assert_eq!(trace.departures.iter().map(|passage| passage.datagrams).sum::<u64>(), 9);
    assert_eq!(trace.departures.iter().map(|passage| passage.bytes).sum::<u64>(), 27_000);
    assert_eq!(drain(&receiver), 3);

    // Whole ones are no longer waited for.
    assert!(receiving.rules("flush ruleset"));
    for _ in 0..4 {
        sender.send_to(&[7; 4000], (to, ports[0])).unwrap();
    }
    assert_eq!(drain(&receiver), 4);
    let trace = tracer.read().unwrap();
    assert_eq!((trace.reassembling, only(&trace).datagrams), (0, 6));
}

#[test]
fn fragments_that_wait_are_neither_lost_nor_there() {
    if !permitted() {
        return;
    }
    let [(sending, _), (receiving, to)] = cable();
    let receiver = receiving.socket_at(Ipv4Addr::UNSPECIFIED);
    let own = port(&receiver);
    sysctl::set(&receiving.ns, &[("ipv4/ipfrag_time", "2")]).unwrap();
    let raw = sending
        .ns
        .run(|| {
            socket::socket(
                socket::AddressFamily::Inet,
                socket::SockType::Raw,
                socket::SockFlag::empty(),
                socket::SockProtocol::Raw,
            )
        })
        .unwrap()
        .unwrap();
    let mut tracer = receiving.trace(&[own]);
    let piece = |id: u16, offset: u16, more: bool, port: u16| {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[6..8].copy_from_slice(&(offset / 8 | if more { 0x2000 } else { 0 }).to_be_bytes());
        packet.extend([4, 210]);
        packet.extend(port.to_be_bytes());
        packet.extend([0, 40, 0, 0]);
        packet.extend([7; 8]);
        let address = socket::SockaddrIn::from(SocketAddrV4::new(to, 0));
        socket::sendto(std::os::fd::AsRawFd::as_raw_fd(&raw), &packet, &address, socket::MsgFlags::empty()).unwrap();
    };
    piece(1, 0, true, own); // the rest never comes
    piece(2, 16, true, 0); // the first never comes
    piece(3, 0, true, own ^ 1); // nobody follows it
    until(|| receiving.counter("Ip", "ReasmReqds") == 3);
    let trace = tracer.read().unwrap();
    assert_eq!((trace.reassembling, trace.drops.len()), (2, 0), "{:?}", trace.drops);
    until(|| receiving.counter("Ip", "ReasmFails") == 3);
    let trace = tracer.read().unwrap();
    let mut lost: Vec<_> = trace.drops.iter().map(|lost| (lost.reason.as_str(), lost.port, lost.datagrams)).collect();
    lost.sort();
    assert_eq!(lost, [("FRAG_REASM_TIMEOUT", 0, 1), ("FRAG_REASM_TIMEOUT", own, 1)]);
    assert_eq!(trace.reassembling, 0);
}

/// Capabilities belong to threads: this one gives them up.
#[test]
fn without_privilege_the_reason_is_one_line() {
    let refused = thread::spawn(|| {
        caps::clear(None, caps::CapSet::Effective).unwrap();
        Tracer::start(Detail::Everything, &Filter::default()).err().unwrap().to_string()
    });
    let refused = refused.join().unwrap();
    assert!(refused.contains("needs CAP_BPF and CAP_PERFMON") && !refused.contains('\n'), "{refused}");
}

#[test]
fn a_kernel_without_a_tracepoint_is_traced_in_less_detail() {
    if !permitted() {
        return;
    }
    let mut types = fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let name = b"\0btf_trace_sk_data_ready\0";
    let at = types.windows(name.len()).position(|window| window == name).unwrap();
    types[at + name.len() - 2] = b'_';
    let file = std::env::temp_dir().join(format!("weir-types-{}", std::process::id()));
    fs::write(&file, types).unwrap();
    let tracer = Tracer::start_with_types(&file, Detail::Everything, &Filter::default());
    fs::remove_file(&file).unwrap();
    let tracer = tracer.unwrap();
    assert_eq!(tracer.detail(), Detail::Drops);
    assert_eq!(tracer.refused(), ["trace sk_data_ready: this kernel has no such tracepoint"]);

    assert!(features().unwrap().iter().any(|feature| feature.name == "tracepoint sk_data_ready" && feature.present));
}
