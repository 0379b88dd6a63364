//! Lost at the receiving socket, or for want of one.

use std::net::UdpSocket;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, SockFilter, SockRef, Socket, Type};

use super::scene::grown;
use super::{Following, Ledger, Reader, Scene};
use weir_testbed::await_that;

#[test]
fn port_closed() {
    let Some(mut scene) = Scene::set() else { return };
    closed(&mut scene, false);
}

#[test]
fn port_closed_for_ipv6() {
    let Some(mut scene) = Scene::set() else { return };
    closed(&mut scene, true);
}

/// Nobody listens first, and then somebody does.
fn closed(scene: &mut Scene, v6: bool) {
    let (from, to) = if v6 { (scene.sender.at6(0), scene.to6()) } else { (scene.sender.at(0), scene.to()) };
    let socket = scene.sender.run(|| UdpSocket::bind(from)).unwrap();
    let before = scene.receiver.counters();
    let following = scene.follow();
    for _ in 0..scene.lost {
        socket.send_to(&scene.payload(true), to).unwrap();
    }
    assert_eq!(grown(&scene.receiver, &before, if v6 { "Udp6" } else { "Udp" }, "NoPorts"), scene.lost);
    let reader = Reader::start(scene.receiver.run(|| UdpSocket::bind(to)).unwrap());
    for _ in 0..scene.kept {
        socket.send_to(&scene.payload(false), to).unwrap();
    }
    reader.await_count(scene.kept);
    scene.closes(following, "port_closed");
}

#[test]
fn port_that_nobody_ever_uses() {
    let Some(scene) = Scene::set() else { return };
    let socket = scene.source();
    let following = scene.follow();
    for _ in 0..scene.lost {
        socket.send_to(&scene.payload(true), scene.to()).unwrap();
    }
    let account = following.end().traced();
    account.without_receiver().closes(scene.lost, 0, &[("port_closed", scene.lost)]);
}

#[test]
fn socket_filter() {
    let Some(mut scene) = Scene::set() else { return };
    let socket = scene.listen();
    refuse(&socket, scene.lost_size);
    let reader = Reader::start(socket);
    let source = scene.source();
    let before = scene.receiver.counters();
    let following = scene.follow();
    scene.send_all(&source, scene.to());
    reader.await_count(scene.kept);
    assert_eq!(grown(&scene.receiver, &before, "Udp", "InErrors"), scene.lost);
    scene.closes(following, "socket_filter");
}

/// Lets a socket filter out payloads of this size.
pub(super) fn refuse(socket: &UdpSocket, size: usize) {
    // `ld len` (the UDP header counts), `jeq`, `ret 0`, `ret all` (linux/filter.h).
    let length = u32::try_from(8 + size).unwrap();
    let filter = [(0x80, 0, 0, 0), (0x15, 0, 1, length), (0x06, 0, 0, 0), (0x06, 0, 0, u32::MAX)];
    let filter = filter.map(|(code, jt, jf, k)| SockFilter::new(code, jt, jf, k));
    SockRef::from(socket).attach_filter(&filter).unwrap();
}

#[test]
fn receive_buffer() {
    let Some(mut scene) = Scene::set() else { return };
    overflows(&mut scene, false);
}

#[test]
fn receive_buffer_for_ipv6() {
    let Some(mut scene) = Scene::set() else { return };
    overflows(&mut scene, true);
}

/// Nobody reads while more is sent than fits.
fn overflows(scene: &mut Scene, v6: bool) {
    let (from, to) = if v6 { (scene.sender.at6(0), scene.to6()) } else { (scene.sender.at(0), scene.to()) };
    let socket = scene.receiver.run(|| UdpSocket::bind(to)).unwrap();
    setsockopt(&socket, sockopt::RcvBuf, &(scene.seed.size(20..100) * 1000)).unwrap();
    let source = scene.sender.run(|| UdpSocket::bind(from)).unwrap();
    let before = scene.receiver.counters();
    let following = scene.follow();
    let sent = 400 + scene.lost;
    for _ in 0..sent {
        source.send_to(&scene.payload(true), to).unwrap();
    }
    let dropped = grown(&scene.receiver, &before, if v6 { "Udp6" } else { "Udp" }, "RcvbufErrors");
    assert!(dropped > 0, "the buffer was never full");
    let reader = Reader::start(socket);
    reader.await_count(sent - dropped);
    let account = following.end().traced();
    account.of(scene.port).closes(sent, sent - dropped, &[("receive_buffer", dropped)]);
}

#[test]
fn receive_buffer_of_joined_datagrams() {
    let Some(mut scene) = Scene::set() else { return };
    let socket = scene.listen();
    setsockopt(&socket, sockopt::UdpGroSegment, &true).unwrap();
    let source = scene.source();
    let size = scene.seed.size(50..150);
    setsockopt(&source, sockopt::UdpGsoSegment, &i32::try_from(size).unwrap()).unwrap();
    let before = scene.receiver.counters();
    let following = scene.follow();
    let (calls, segments) = (scene.seed.number(150..250), scene.seed.size(40..64));
    for _ in 0..calls {
        source.send_to(&vec![0; size * segments], scene.to()).unwrap();
    }
    let sent = calls * segments as u64;
    let buffers = grown(&scene.receiver, &before, "Udp", "RcvbufErrors");
    let reader = Reader::joined(socket, size);
    scene.receiver.await_read(scene.port);
    let (_socket, received) = reader.stop_counted();
    assert!(received > 0 && received.is_multiple_of(segments as u64), "{received} of {segments} each");
    // The kernel counts buffers, each of which holds as many datagrams as a call sent.
    assert!(0 < buffers && buffers < sent - received, "{buffers} of {sent}, {received} received");
    let account = following.end().traced();
    account.of(scene.port).closes(sent, received, &[("receive_buffer", sent - received)]);
}

#[test]
fn closed_with_data_unread() {
    let Some(scene) = Scene::set() else { return };
    let reader = Reader::start(scene.listen());
    let source = scene.source();
    let following = scene.follow();
    for _ in 0..scene.kept {
        source.send_to(&scene.payload(false), scene.to()).unwrap();
    }
    reader.await_count(scene.kept);
    let socket = reader.stop();
    for _ in 0..scene.lost {
        source.send_to(&scene.payload(true), scene.to()).unwrap();
    }
    drop(socket);
    scene.closes(following, "closed_unread");
}

/// Sockets that share a port (SO_REUSEPORT), each with something unread: who closes first has lost what it had.
#[test]
fn closed_with_data_unread_by_one_of_several() {
    let Some(scene) = Scene::set() else { return };
    let bind = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&scene.to().into()).unwrap();
        UdpSocket::from(socket)
    };
    let following = scene.follow();
    let mut sockets: Vec<UdpSocket> = scene.receiver.run(|| (0..4).map(|_| bind()).collect());
    for _ in 0..200 {
        scene.source().send_to(&scene.payload(false), scene.to()).unwrap();
    }
    await_that("all of them", || {
        let listed = weir_kernel::counters::sockets(&scene.receiver.ns).unwrap();
        listed.iter().map(|one| u64::from(one.memory.queued)).sum::<u64>() >= 200 * 832
    });
    drop(sockets.drain(..2));
    let mut read = 0;
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0; 100]).is_ok() {
            read += 1;
        }
    }
    let account = following.end().traced();
    assert!(0 < read && read < 200, "{read} of 200 were not spread");
    // Who lived between two looks at the sockets is known to the trace alone, by no address.
    let [ledger] = account.ledgers() else { panic!("not one ledger: {:#}", account.0) };
    Ledger(ledger).closes(200, read, &[("closed_unread", 200 - read)]);
}

#[test]
fn left_in_the_queue() {
    let Some(scene) = Scene::set() else { return };
    let socket = scene.listen();
    let source = scene.source();
    let following = scene.follow();
    for _ in 0..scene.kept {
        source.send_to(&scene.payload(false), scene.to()).unwrap();
    }
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    let number = |name: &str| ledger.0[name].as_u64();
    let found = (number("sent"), number("received"), number("pending"), ledger.places(), ledger.unexplained());
    assert_eq!(found, (Some(scene.kept), Some(0), Some(scene.kept), vec![], Some(0)), "{:#}", ledger.0);
    drop(socket);
}

#[test]
fn cut_off_by_a_small_buffer() {
    let Some(mut scene) = Scene::set() else { return };
    let socket = scene.listen();
    let source = scene.source();
    let following = scene.follow();
    let to = scene.to();
    scene.send_all(&source, to);
    let mut buffer = vec![0; scene.kept_size];
    for _ in 0..scene.kept + scene.lost {
        socket.recv(&mut buffer).unwrap();
    }
    let bytes = scene.lost * (scene.lost_size - scene.kept_size) as u64;
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    // Received, if in part.
    ledger.closes(scene.kept + scene.lost, scene.kept + scene.lost, &[]);
    let explanation = ledger.0["explanation"].to_string();
    assert!(explanation.contains("cut off") && explanation.contains(&bytes.to_string()), "{bytes}: {explanation}");
}

/// Datagrams that the kernel has joined, read with a buffer for the first two of each.
#[test]
fn joined_datagrams_cut_off_by_a_small_buffer() {
    let Some(scene) = Scene::set() else { return };
    let socket = scene.receiver.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    setsockopt(&socket, sockopt::UdpGroSegment, &true).unwrap();
    let source = scene.receiver.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    setsockopt(&source, sockopt::UdpGsoSegment, &500).unwrap();
    let to = socket.local_addr().unwrap();
    let following = Following::port(to.port(), &[&scene.receiver.ns]);
    for _ in 0..4 {
        source.send_to(&[0; 20_000], to).unwrap();
    }
    for _ in 0..4 {
        assert_eq!(socket.recv(&mut [0; 700]).unwrap(), 700);
    }
    let account = following.end().traced();
    account.of(to.port()).closes(160, 8, &[("truncated", 152)]);
}
