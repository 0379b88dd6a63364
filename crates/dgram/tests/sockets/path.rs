//! Across interfaces: what the path does to runs and to long datagrams.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use weir_dgram::{Offload, Options, Socket};
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_kernel::offloads::{self, Offloads};

use crate::network::{Host, cable, end, namespace, pattern, payloads, receive, send};

/// A sender on host a, and a receiver on host b that takes runs.
fn sockets([a, b]: &[Host; 2], to: IpAddr, options: &Options) -> (Socket, Socket) {
    let receiving = Options { gro: true, receive_buffer: Some(1 << 20), ..Options::default() };
    let receiver = b.run(|| Socket::bind(SocketAddr::new(to, 0), &receiving)).unwrap();
    let sender = a.run(|| Socket::connect(None, receiver.local_addr(), options)).unwrap();
    (sender, receiver)
}

#[test]
fn a_run_crosses_a_veth_whole() {
    let Some(hosts) = cable(1500) else { return };
    let options = Options { gso: true, ..Options::default() };
    for (to, segment) in [(hosts[1].v4, 1472), (hosts[1].v6, 1452)] {
        let (sender, receiver) = sockets(&hosts, to, &options);
        let payload = pattern(20 * usize::from(segment) + 1);
        assert_eq!(send(&sender, &payload, segment).joined, 21);
        receive(&receiver, 21, |message| {
            assert_eq!((message.length, message.segment), (payload.len(), NonZeroU16::new(segment)));
            assert!(message.bytes == payload);
        });
        // An empty datagram between others stays one, and is not swallowed by the joining.
        for payload in [&b"before"[..], b"", b"after"] {
            assert_eq!(send(&sender, payload, segment).messages, 1);
        }
        assert_eq!(payloads(&receiver, 3), [&b"before"[..], b"", b"after"]);
    }
}

#[test]
fn segments_above_the_mtu_are_cut_by_us_and_fragmented_by_the_kernel() {
    let Some(hosts) = cable(1500) else { return };
    let options = Options { gso: true, ..Options::default() };
    for to in [hosts[1].v4, hosts[1].v6] {
        let (sender, receiver) = sockets(&hosts, to, &options);
        let payload = pattern(7001);
        let taken = send(&sender, &payload, 2000);
        assert_eq!((taken.messages, taken.joined, taken.icmp), (1, 0, 0), "{taken:?}");
        assert!(payloads(&receiver, 4).iter().map(Vec::as_slice).eq(payload.chunks(2000)));
        let granted = sender.granted().gso;
        assert!(matches!(&granted, Offload::Below(2000, why) if why.contains("do not fit the path")), "{granted:?}");
        // The next one is cut at once; shorter segments are still left to the kernel.
        assert_eq!(send(&sender, &payload, 2000).calls, 1);
        assert!(payloads(&receiver, 4).iter().map(Vec::as_slice).eq(payload.chunks(2000)));
        assert_eq!(send(&sender, &payload, 1400).joined, 6);
        assert!(payloads(&receiver, 6).iter().map(Vec::as_slice).eq(payload.chunks(1400)));
    }
}

#[test]
fn a_device_without_offloads_gets_every_datagram() {
    let Some(hosts) = cable(1500) else { return };
    let mut switches = Offloads::open(&hosts[0].ns).unwrap();
    for offload in
        [offloads::Offload::UdpSegmentation, offloads::Offload::GenericSegmentation, offloads::Offload::SendChecksum]
    {
        switches.set("eth0", offload, false).unwrap();
    }
    let options = Options { gso: true, ..Options::default() };
    let (sender, receiver) = sockets(&hosts, hosts[1].v4, &options);
    for _ in 0..3 {
        let payload = pattern(10_001);
        let taken = send(&sender, &payload, 1000);
        assert_eq!((taken.messages, taken.segments), (1, 0), "{taken:?}");
        assert!(payloads(&receiver, 11).iter().map(Vec::as_slice).eq(payload.chunks(1000)));
        // Before Linux 6.11 the kernel refuses (EIO), since then it computes the checksums itself.
        match sender.granted().gso {
            Offload::Active => assert_eq!(taken.joined, 11),
            Offload::Off(why) => {
                assert_eq!(taken.joined, 0);
                assert!(why.contains("checksum offload"), "{why}");
            }
            Offload::Below(..) => panic!("{:?}", sender.granted()),
        }
    }
}

#[test]
fn a_neighbour_that_does_not_answer_fills_the_send_buffer_and_no_more() {
    let Some(hosts) = cable(1500) else { return };
    let nobody = SocketAddr::new("10.0.0.200".parse().unwrap(), 9);
    let options = Options { send_buffer: Some(8192), ..Options::default() };
    let sender = hosts[0].run(|| Socket::connect(None, nobody, &options)).unwrap();
    // Without UDP_SEGMENT the message is cut by us, and the buffer is full in the middle of it.
    let taken = send(&sender, &pattern(60_000), 1000);
    assert_eq!(taken.messages, 0);
    assert!((1..60).contains(&taken.segments), "{taken:?}");
    assert_eq!(taken.error.unwrap().kind(), ErrorKind::WouldBlock);
    let memory = sender.memory().unwrap();
    assert!(memory.send_queue > 0 && memory.send_buffer == 16_384, "{memory:?}");
}

#[test]
fn what_may_be_fragmented_is_never_lost_to_a_narrow_path() {
    let Some((sender_ns, router, receiver_ns)) = narrow_path() else { return };
    let receiver =
        receiver_ns.run(|| Socket::bind("10.2.0.2:0".parse().unwrap(), &Options::default())).unwrap().unwrap();
    let connect =
        |options: Options| sender_ns.run(|| Socket::connect(None, receiver.local_addr(), &options)).unwrap().unwrap();
    let may = connect(Options { fragment: true, ..Options::default() });
    for payload in [pattern(1400), pattern(9000)] {
        assert_eq!(send(&may, &payload, 0).messages, 1);
        assert!(payloads(&receiver, 1) == [payload]);
    }
    // The others lose the first: it is what tells them the path's MTU.
    let may_not = connect(Options { errors: true, ..Options::default() });
    assert_eq!(send(&may_not, &pattern(1400), 0).messages, 1);
    crate::network::wait_error(&may_not);
    let reported = may_not.next_error().unwrap().unwrap();
    // RFC 792: destination unreachable, fragmentation needed; RFC 1191: the MTU of the next hop.
    assert_eq!((reported.errno, reported.kind, reported.code, reported.info), (libc::EMSGSIZE, 3, 4, 1000));
    assert_eq!(reported.offender, Some("10.1.0.1".parse().unwrap()));
    assert_eq!(send(&may_not, &pattern(1400), 0).messages, 1);
    assert!(payloads(&receiver, 1) == [pattern(1400)]);
    drop(router);
}

/// Sender 10.1.0.2 - router - receiver 10.2.0.2, whose link takes 1000 bytes.
fn narrow_path() -> Option<(NetNs, NetNs, NetNs)> {
    let (sender, router, receiver) = (namespace()?, namespace()?, namespace()?);
    let mut inside = Netlink::open(&router).unwrap();
    for (ns, port, number, mtu) in [(&sender, "wide", 1, 1500), (&receiver, "narrow", 2, 1000)] {
        inside.add_veth(&end(&router, port, 10 * number, mtu), &end(ns, "eth0", 10 * number + 1, mtu)).unwrap();
        let mut outside = Netlink::open(ns).unwrap();
        for (netlink, name, own) in [(&mut inside, port, 1), (&mut outside, "eth0", 2)] {
            let index = netlink.link(name).unwrap().index;
            netlink.set_no_link_local(index).unwrap();
            netlink.set_up(index).unwrap();
            netlink.add_address(index, format!("10.{number}.0.{own}/24").parse().unwrap()).unwrap();
        }
        let index = outside.link("eth0").unwrap().index;
        let gateway = format!("10.{number}.0.1").parse().unwrap();
        outside.add_route("10.0.0.0/8".parse().unwrap(), Some(gateway), index).unwrap();
    }
    for (netlink, name) in [(&sender, "eth0"), (&receiver, "eth0"), (&router, "wide"), (&router, "narrow")] {
        Netlink::open(netlink).unwrap().wait_until_running(name).unwrap();
    }
    // Of the namespace of the thread that opens it.
    router.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
    Some((sender, router, receiver))
}
