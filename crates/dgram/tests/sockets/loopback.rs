//! Between sockets of one machine.

use std::io::{ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_dgram::{Address, Error, Inbox, Offload, Options, Origin, Outgoing, Socket};

use crate::network::{on_loopback, pattern, payloads, receive, send, wait_error, wait_readable};

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";

/// A receiver at `address` and a sender connected to it.
fn pair(address: &str, options: &Options) -> (Socket, Socket) {
    let receiver = Socket::bind(address.parse().unwrap(), options).unwrap();
    let sender = Socket::connect(None, receiver.local_addr(), options).unwrap();
    (sender, receiver)
}

#[test]
fn a_socket_in_use_is_given_other_options_and_its_defaults_back() {
    let receiver = Socket::bind("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
    let sender = Socket::connect(None, receiver.local_addr(), &Options::default()).unwrap();
    let socket = socket2::SockRef::from(&sender);
    let now = || (socket.ttl_v4().unwrap(), socket.tos_v4().unwrap(), socket.send_buffer_size().unwrap());
    let (local, defaults) = (socket.local_addr().unwrap(), now());
    let other = Options { ttl: Some(9), dscp: Some(46), send_buffer: Some(64 << 10), ..Options::default() };
    sender.set_outgoing(&other).unwrap();
    assert_eq!(now(), (9, 46 << 2, 128 << 10));
    sender.set_outgoing(&Options::default()).unwrap();
    assert_eq!(now(), defaults);
    assert_eq!(socket.local_addr().unwrap().as_socket(), local.as_socket());
}

#[test]
fn datagrams_of_all_lengths_arrive_whole_and_in_order() {
    on_loopback(|| {
        for (address, longest) in [(V4, 65_507), (V6, 65_527)] {
            let (sender, receiver) = pair(address, &Options::default());
            let sent: Vec<Vec<u8>> = [0, 1, 0, 1472, 9000, longest, 3].map(pattern).into();
            let pieces: Vec<[IoSlice<'_>; 2]> = sent
                .iter()
                .map(|payload| {
                    let (a, b) = payload.split_at(payload.len() / 3);
                    [IoSlice::new(a), IoSlice::new(b)]
                })
                .collect();
            let batch: Vec<Outgoing<'_>> =
                pieces.iter().map(|pieces| Outgoing { pieces, segment: None, to: None }).collect();
            let taken = sender.send(&batch);
            assert_eq!((taken.messages, taken.segments, taken.calls), (7, 0, 1));
            assert!(taken.error.is_none());
            let mut received = Vec::new();
            receive(&receiver, 7, |message| {
                assert_eq!(message.source, sender.local_addr());
                assert_eq!((message.arrival, message.local, message.socket_drops), (None, None, None));
                assert!(!message.truncated);
                received.push(message.bytes.to_vec());
            });
            assert!(received == sent, "not the same bytes");
            let taken = send(&sender, &pattern(longest + 1), 0);
            assert_eq!(taken.error.unwrap().raw_os_error(), Some(libc::EMSGSIZE));
        }
    });
}

#[test]
fn more_than_a_batch_goes_out_in_order_to_several_destinations() {
    on_loopback(|| {
        let receivers: Vec<Socket> =
            (0..3).map(|_| Socket::bind(V4.parse().unwrap(), &Options::default()).unwrap()).collect();
        let addresses: Vec<Address> = receivers.iter().map(|receiver| receiver.local_addr().into()).collect();
        let sender = Socket::bind(V4.parse().unwrap(), &Options::default()).unwrap();
        let numbers: Vec<[u8; 2]> = (0..300u16).map(u16::to_be_bytes).collect();
        let pieces: Vec<[IoSlice<'_>; 1]> = numbers.iter().map(|number| [IoSlice::new(number)]).collect();
        let batch: Vec<Outgoing<'_>> = pieces
            .iter()
            .zip(addresses.iter().cycle())
            .map(|(pieces, to)| Outgoing { pieces, segment: None, to: Some(to) })
            .collect();
        let taken = sender.send(&batch);
        assert_eq!((taken.messages, taken.calls), (300, 5));
        for (index, receiver) in receivers.iter().enumerate() {
            let expected: Vec<_> = numbers.iter().skip(index).step_by(3).map(|number| number.to_vec()).collect();
            assert_eq!(payloads(receiver, 100), expected);
        }
    });
}

#[test]
fn the_kernel_cuts_and_joins_runs() {
    on_loopback(|| {
        let options = Options { gso: true, gro: true, ..Options::default() };
        for address in [V4, V6] {
            let (sender, receiver) = pair(address, &options);
            let granted = sender.granted();
            assert_eq!((granted.gso, granted.gro), (Offload::Active, Offload::Active));
            // 64 segments; the last shorter; nearly the most bytes that fit one packet of loopback, with headers (gso_max_size
            // 65,536); one alone; none.
            for (length, segment, joined, datagrams) in [
                (64 * 100, 100, 64, 64),
                (63 * 100 + 1, 100, 64, 64),
                (65_400, 1100, 60, 60),
                (100, 100, 0, 1),
                (99, 100, 0, 1),
                (0, 100, 0, 1),
            ] {
                let payload = pattern(length);
                let taken = send(&sender, &payload, segment);
                assert_eq!((taken.messages, taken.calls, taken.joined), (1, 1, joined), "{length} by {segment}");
                let mut messages = 0;
                receive(&receiver, datagrams, |message| {
                    messages += 1;
                    let run = (datagrams > 1).then_some(segment);
                    assert_eq!((message.length, message.segment.map(NonZeroU16::get)), (length, run));
                    assert!(message.bytes == payload);
                });
                assert_eq!(messages, 1, "loopback hands the run over as it is");
            }
            // Even longer ones are cut on the way.
            let payload = pattern(65_507);
            assert_eq!(send(&sender, &payload, 1100).joined, 60);
            let received = payloads(&receiver, 60);
            assert!(received.iter().map(Vec::as_slice).eq(payload.chunks(1100)));
        }
    });
}

#[test]
fn runs_beyond_what_the_kernel_cuts_are_cut_by_us() {
    on_loopback(|| {
        let options = Options { gso: true, ..Options::default() };
        let (sender, receiver) = pair(V4, &options);
        // Too many segments, too many bytes. 65 datagrams do not fit one batch.
        for (length, segment, calls) in [(65 * 10, 10, 2), (70_000, 9000, 1)] {
            let payload = pattern(length);
            let taken = send(&sender, &payload, segment);
            assert_eq!((taken.messages, taken.segments, taken.joined, taken.calls), (1, 0, 0, calls));
            let expected: Vec<_> = payload.chunks(segment.into()).map(<[u8]>::to_vec).collect();
            assert!(payloads(&receiver, expected.len()) == expected);
        }
        assert_eq!(sender.granted().gso, Offload::Active, "it was not asked to");
        // A socket that may not leave it to the kernel.
        let plain = Socket::connect(None, receiver.local_addr(), &Options::default()).unwrap();
        assert_eq!(plain.granted().gso, Offload::Off("not asked for".into()));
        assert_eq!(send(&plain, &pattern(25), 10).joined, 0);
        assert_eq!(
            payloads(&receiver, 3),
            [pattern(25)[..10].to_vec(), pattern(25)[10..20].to_vec(), pattern(25)[20..].to_vec()]
        );
    });
}

/// An address at which nobody listens, nor ever by chance: no socket of a network of its own is given a port below 32768.
fn closed(address: &str) -> SocketAddr {
    let ip = address.parse::<SocketAddr>().unwrap().ip();
    SocketAddr::new(ip, 5000)
}

#[test]
fn a_closed_port_costs_no_datagram() {
    on_loopback(|| {
        let closed = closed(V4);
        let options = Options { errors: true, ..Options::default() };
        let sender = Socket::connect(None, closed, &options).unwrap();
        let mut icmp = 0;
        for _ in 0..5 {
            let taken = send(&sender, b"x", 0);
            assert_eq!(taken.messages, 1, "{taken:?}");
            icmp += taken.icmp;
        }
        assert_eq!(icmp, 4, "each send but the first finds the answer to the one before");
        wait_error(&sender);
        for _ in 0..5 {
            let reported = sender.next_error().unwrap().unwrap();
            assert_eq!((reported.errno, reported.origin), (libc::ECONNREFUSED, Origin::Icmp));
            // RFC 792: destination unreachable, port unreachable.
            assert_eq!((reported.kind, reported.code), (3, 3));
            assert_eq!(reported.offender, Some(Ipv4Addr::LOCALHOST.into()));
            assert_eq!(reported.destination, Some(closed));
        }
        assert_eq!(sender.next_error().unwrap(), None);
        assert_eq!(send(&sender, b"x", 0).icmp, 0, "the queue is empty, so nothing is pending");

        // In a batch, too, to whom the kernel answers at once.
        let piece = [IoSlice::new(b"y")];
        let batch = [Outgoing { pieces: &piece, segment: None, to: None }; 10];
        let plain = Socket::connect(None, closed, &Options::default()).unwrap();
        let taken = plain.send(&batch);
        assert_eq!((taken.messages, taken.icmp), (10, 9), "{taken:?}");

        // The port opens: the next datagram arrives, and reports do not disturb receiving.
        let server = UdpSocket::bind(closed).unwrap();
        assert_eq!(send(&plain, b"z", 0).messages, 1);
        let mut bytes = [0; 10];
        assert_eq!(server.recv_from(&mut bytes).unwrap(), (1, plain.local_addr()));
        drop(server);
        assert_eq!(send(&plain, b"refused", 0).messages, 1);
        let mut inbox = Inbox::new(4, 100);
        assert_eq!(inbox.receive(&plain).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(inbox.reported(), 1);
    });
}

#[test]
fn errors_of_ipv6_are_told_too() {
    on_loopback(|| {
        let closed = closed(V6);
        let sender = Socket::connect(None, closed, &Options { errors: true, ..Options::default() }).unwrap();
        assert_eq!(send(&sender, b"x", 0).messages, 1);
        wait_error(&sender);
        let reported = sender.next_error().unwrap().unwrap();
        // RFC 4443: destination unreachable, port unreachable.
        assert_eq!((reported.origin, reported.kind, reported.code), (Origin::Icmp6, 1, 4));
        assert_eq!((reported.errno, reported.destination), (libc::ECONNREFUSED, Some(closed)));
        assert_eq!(reported.offender, Some(closed.ip()));
    });
}

#[test]
fn drops_are_counted_in_both_ways() {
    on_loopback(|| {
        const SENT: u32 = 200;
        let options = Options { receive_buffer: Some(8192), count_drops: true, ..Options::default() };
        let (sender, receiver) = pair(V4, &options);
        for _ in 0..SENT {
            assert_eq!(send(&sender, &[0; 500], 0).messages, 1);
        }
        let memory = receiver.memory().unwrap();
        assert_eq!(memory.receive_buffer, 16_384);
        assert!(memory.receive_queue > 0 && memory.drops > 0, "{memory:?}");
        let mut inbox = Inbox::new(64, 2048);
        let received = inbox.receive(&receiver).unwrap();
        assert_eq!(received as u32 + memory.drops, SENT);
        assert_eq!(inbox.receive(&receiver).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(receiver.memory().unwrap().receive_queue, 0);
        // What is queued now knows of them.
        assert_eq!(send(&sender, b"after", 0).messages, 1);
        receive(&receiver, 1, |message| assert_eq!(message.socket_drops, Some(memory.drops)));
    });
}

#[test]
fn too_long_for_the_buffer_is_told_with_the_true_length() {
    on_loopback(|| {
        let (sender, receiver) = pair(V4, &Options { gso: true, gro: true, ..Options::default() });
        let mut inbox = Inbox::new(2, 100);
        for (length, segment, datagrams) in [(100, 0, 1), (101, 0, 1), (350, 100, 4)] {
            assert_eq!(send(&sender, &pattern(length), segment).messages, 1);
            wait_readable(&receiver);
            assert_eq!(inbox.receive(&receiver).unwrap(), 1);
            let message = inbox.message(0);
            assert_eq!((message.bytes, message.length), (&pattern(length)[..100], length));
            assert_eq!((message.truncated, message.datagrams()), (length > 100, datagrams));
        }
    });
}

#[test]
fn arrivals_are_stamped_in_order() {
    on_loopback(|| {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let (sender, receiver) = pair(V4, &Options { timestamps: true, ..Options::default() });
        // The kernel begins to stamp a moment after it is asked to (net_enable_timestamp leaves it to a work queue): what comes
        // until then is stamped when it is read, behind what comes later.
        let mut stamps_arrivals = false;
        while !stamps_arrivals {
            assert_eq!(send(&sender, b"x", 0).messages, 1);
            let arrived = now();
            receive(&receiver, 1, |message| stamps_arrivals = message.arrival.unwrap() <= arrived);
        }
        let before = now();
        for _ in 0..50 {
            assert_eq!(send(&sender, b"x", 0).messages, 1);
        }
        let mut stamps = vec![before];
        receive(&receiver, 50, |message| stamps.push(message.arrival.unwrap()));
        stamps.push(now());
        assert!(stamps.is_sorted(), "{stamps:?}");
    });
}

#[test]
fn closed_for_more_what_is_queued_stays() {
    on_loopback(|| {
        let (sender, receiver) = pair(V4, &Options::default());
        for payload in [b"one", b"two"] {
            assert_eq!(send(&sender, payload, 0).messages, 1);
        }
        receiver.close_intake().unwrap();
        for _ in 0..3 {
            assert_eq!(send(&sender, b"late", 0).messages, 1);
        }
        assert_eq!(payloads(&receiver, 2), [b"one", b"two"]);
        assert_eq!(receiver.memory().unwrap().drops, 3);
    });
}

#[test]
fn what_one_leaves_aside_the_others_of_its_address_get() {
    on_loopback(|| {
        let options = Options { reuse_port: true, receive_buffer: Some(4 << 20), ..Options::default() };
        for address in [V4, "0.0.0.0:0", V6, "[::]:0"] {
            let first = Socket::bind(address.parse().unwrap(), &options).unwrap();
            let second = Socket::bind(first.local_addr(), &options).unwrap();
            let to = match first.local_addr() {
                to if to.ip().is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, to.port())),
                to => to,
            };
            // Enough flows that both have some, but for once in 2^99.
            let senders: Vec<_> = (0..100).map(|_| Socket::connect(None, to, &Options::default()).unwrap()).collect();
            let round = |text: &[u8]| {
                assert!(senders.iter().all(|sender| send(sender, text, 0).messages == 1));
            };
            round(b"before");
            second.stand_aside().unwrap();
            round(b"after");
            let [first, second] = [first, second].map(|socket| queued(&socket));
            assert!((1..100).contains(&second.len()), "{address}");
            assert_eq!(second, vec![b"before"; second.len()], "{address}");
            let before = vec![&b"before"[..]; 100 - second.len()];
            assert_eq!(first, [before, vec![b"after"; 100]].concat(), "{address}");
        }
    });
}

/// What waits in a socket.
fn queued(socket: &Socket) -> Vec<Vec<u8>> {
    let (mut inbox, mut all) = (Inbox::new(64, 65_535), Vec::new());
    while inbox.receive(socket).is_ok() {
        all.extend(inbox.messages().flat_map(|message| message.segments().map(<[u8]>::to_vec).collect::<Vec<_>>()));
    }
    all
}

#[test]
fn a_socket_of_both_families_tells_plain_addresses() {
    on_loopback(|| {
        let options = Options { local_address: true, ..Options::default() };
        let receiver = Socket::bind("[::]:0".parse().unwrap(), &options).unwrap();
        let port = receiver.local_addr().port();
        for (to, name) in [("127.0.0.2", "lo"), ("::1", "lo")] {
            let to = SocketAddr::new(to.parse().unwrap(), port);
            let sender = Socket::connect(None, to, &Options::default()).unwrap();
            assert_eq!(send(&sender, b"x", 0).messages, 1);
            receive(&receiver, 1, |message| {
                assert_eq!(message.source, sender.local_addr());
                assert_eq!(message.local, Some(to.ip()));
                assert_eq!(message.interface, Some(nix::net::if_::if_nametoindex(name).unwrap()));
            });
        }
        // Alone, it leaves the port to an IPv4 socket.
        let options = Options { only_v6: true, ..Options::default() };
        let receiver = Socket::bind("[::]:0".parse().unwrap(), &options).unwrap();
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, receiver.local_addr().port()));
        assert_eq!(Socket::bind(v4, &Options::default()).unwrap().local_addr(), v4);
    });
}

#[test]
fn an_answer_leaves_from_the_address_that_was_asked() {
    on_loopback(|| {
        for (bound, asked) in
            [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "127.0.0.2"), ("[::]:0", "::1"), (V4, "127.0.0.1")]
        {
            let options = Options { local_address: true, ..Options::default() };
            let answering = Socket::bind(bound.parse().unwrap(), &options).unwrap();
            let to = SocketAddr::new(asked.parse().unwrap(), answering.local_addr().port());
            // Connected: it receives from nowhere else.
            let asking = Socket::connect(None, to, &Options::default()).unwrap();
            assert_eq!(send(&asking, b"ask", 0).messages, 1);
            receive(&answering, 1, |message| {
                let from = message.local;
                assert_eq!(from, Some(to.ip()));
                answering.send_from(b"answer", message.source, from).unwrap();
                answering.send_from(b"from where a route leads", message.source, None).unwrap();
            });
            wait_readable(&asking);
            // To 127.0.0.2's peer a route leads from there, too, or it does not: the first one came in any case.
            assert_eq!(queued(&asking)[0], b"answer", "{bound} {asked}");
        }
        let socket = Socket::bind(V4.parse().unwrap(), &Options::default()).unwrap();
        let elsewhere = socket.send_from(b"x", socket.local_addr(), Some("192.0.2.7".parse().unwrap()));
        assert!(elsewhere.is_err(), "no address of this host");
    });
}

#[test]
fn buffers_beyond_the_sysctl_are_forced_or_say_what_capped_them() {
    on_loopback(|| {
        let limit = |name: &str| -> usize {
            std::fs::read_to_string(format!("/proc/sys/net/core/{name}"))
                .map_or(212_992, |text| text.trim().parse().unwrap())
        };
        let ask = limit("rmem_max").max(limit("wmem_max")) * 3;
        let options = Options { receive_buffer: Some(ask), send_buffer: Some(ask), ..Options::default() };
        let granted = Socket::bind(V4.parse().unwrap(), &options).unwrap().granted();
        for (buffer, sysctl, name) in [
            (granted.receive_buffer, "net.core.rmem_max", "rmem_max"),
            (granted.send_buffer, "net.core.wmem_max", "wmem_max"),
        ] {
            assert_eq!(buffer.asked, Some(ask));
            match buffer.limit {
                None => assert_eq!(buffer.granted, 2 * ask),
                Some(limited) => {
                    assert_eq!(limited, sysctl);
                    assert_eq!(buffer.granted, 2 * limit(name));
                }
            }
        }
        let small = Options { receive_buffer: Some(10_000), ..Options::default() };
        let granted = Socket::bind(V4.parse().unwrap(), &small).unwrap().granted();
        assert_eq!((granted.receive_buffer.granted, granted.receive_buffer.limit), (20_000, None));
        assert_eq!((granted.send_buffer.asked, granted.send_buffer.limit), (None, None));
    });
}

#[test]
fn the_buffer_of_a_socket_in_use_grows_and_never_shrinks() {
    on_loopback(|| {
        let asking = |bytes| Options { receive_buffer: Some(bytes), ..Options::default() };
        let socket = Socket::bind(V4.parse().unwrap(), &asking(20_000)).unwrap();
        let granted = |socket: &Socket| socket.memory().unwrap().receive_buffer;
        for (asked, accounted) in [(10_000, 40_000), (30_000, 60_000), (20_000, 60_000)] {
            let again = socket.with_options(&asking(asked)).unwrap();
            let buffer = again.granted().receive_buffer;
            assert_eq!((buffer.asked, buffer.granted, buffer.limit), (Some(asked), accounted, None));
            assert_eq!(granted(&socket) as usize, accounted, "it is the same socket");
        }
        let default = socket.with_options(&Options::default()).unwrap().granted().receive_buffer;
        assert_eq!((default.asked, default.granted), (None, 60_000));
    });
}

#[test]
fn a_socket_from_elsewhere_is_checked_and_fitted_out() {
    on_loopback(|| {
        let theirs = UdpSocket::bind(V4).unwrap();
        let address = theirs.local_addr().unwrap();
        let options = Options { timestamps: true, receive_buffer: Some(30_000), ..Options::default() };
        let socket = Socket::adopt(OwnedFd::from(theirs), &options).unwrap();
        assert_eq!((socket.local_addr(), socket.peer_addr()), (address, None));
        assert_eq!(socket.granted().receive_buffer.granted, 60_000);
        assert_eq!(Inbox::new(1, 10).receive(&socket).unwrap_err().kind(), ErrorKind::WouldBlock);
        let sender = Socket::connect(None, address, &Options::default()).unwrap();
        assert_eq!(send(&sender, b"x", 0).messages, 1);
        receive(&socket, 1, |message| assert!(message.arrival.is_some()));

        let refusal = |fd: OwnedFd| Socket::adopt(fd, &Options::default()).unwrap_err().to_string();
        let stream = std::net::TcpListener::bind(V4).unwrap();
        assert!(refusal(stream.into()).ends_with(": no UDP socket"));
        let (local, _other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        assert!(refusal(local.into()).ends_with(": no UDP socket"));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(refusal(file.into()).ends_with(": socket operation on non-socket"));
    });
}

#[test]
fn refusals_name_the_address() {
    on_loopback(|| {
        let taken = Socket::bind(V4.parse().unwrap(), &Options::default()).unwrap();
        let address = taken.local_addr();
        let error = Socket::bind(address, &Options::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "bind {address}: address already in use (another program listens there: choose another port, or end it)"
            )
        );
        let nobody = "192.0.2.1:5".parse().unwrap();
        let error = Socket::connect(None, nobody, &Options::default()).unwrap_err();
        assert_eq!(error.to_string(), "connect to 192.0.2.1:5: network is unreachable (no route leads there)");
        let error = Socket::connect(Some(V6.parse().unwrap()), nobody, &Options::default()).unwrap_err();
        assert!(matches!(error, Error::Family { .. }), "{error}");
        let options = Options { interface: Some("nowhere".into()), ..Options::default() };
        let error = Socket::bind(V4.parse().unwrap(), &options).unwrap_err();
        assert_eq!(error.to_string(), "set SO_BINDTODEVICE to nowhere: no such device (no interface has this name)");
    });
}

#[test]
fn hops_are_told_and_set_and_a_datagram_leaves_from_where_it_is_told_to() {
    on_loopback(|| {
        for (address, from, other) in
            [(V4, "127.0.0.1", "127.0.0.7"), ("[::]:0", "127.0.0.1", "127.0.0.7"), (V6, "::1", "::1")]
        {
            let options = Options { hops: true, local_address: true, ..Options::default() };
            let receiver = Socket::bind(address.parse().unwrap(), &options).unwrap();
            let port = receiver.local_addr().port();
            let to = SocketAddr::new(from.parse().unwrap(), port);
            let sender = Socket::connect(None, to, &Options::default()).unwrap();
            for hops in [1, 63, 255] {
                let pieces = [IoSlice::new(b"xyz")];
                let mut message = Outgoing { pieces: &pieces, segment: None, to: None };
                assert_eq!(sender.send_with_hops(&[message], |_| Some(hops)).messages, 1);
                // Cut by us, for the sender has not asked that the kernel may.
                message.segment = NonZeroU16::new(1);
                assert_eq!(sender.send_with_hops(&[message], |_| Some(hops)).messages, 1);
                receive(&receiver, 4, |message| assert_eq!(message.hops, Some(hops)));
                send(&sender, b"x", 0);
                receive(&receiver, 1, |message| assert_eq!(message.hops, Some(64)));
            }
            let client = UdpSocket::bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
            let any = if address == V4 { None } else { Some(other.parse().unwrap()) };
            receiver.send_from(b"answer", client.local_addr().unwrap(), any).unwrap();
            let mut bytes = [0; 16];
            let (length, source) = client.recv_from(&mut bytes).unwrap();
            let expected = SocketAddr::new(any.unwrap_or(to.ip()), port);
            assert_eq!((&bytes[..length], source), (&b"answer"[..], expected));
        }
    });
}
