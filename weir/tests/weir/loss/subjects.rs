//! Whom to follow, and where: what is not asked for is not in the account.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use tempfile::TempDir;
use weir_testbed::Ended;

use super::scene::grown;
use super::{Account, Following, Reader, Scene, expect_errors, weir};

/// Everything at once that can be lost to others on the way, beside what is followed.
#[test]
fn others_are_left_out() {
    let Some(mut scene) = Scene::set() else { return };
    let noise = scene.port + 1;
    let others = [scene.receiver.run(|| UdpSocket::bind(scene.receiver.at(noise))).unwrap(), scene.listen()];
    let [other, socket] = others;
    // The smallest that there is holds fewer than are sent at the least.
    setsockopt(&other, sockopt::RcvBuf, &1).unwrap();
    let rule = format!(
        "add table ip t; add chain ip t c {{ type filter hook input priority 0; }}; \
         add rule ip t c udp dport {{ {}, {noise} }} udp length {} counter drop",
        scene.port,
        8 + scene.lost_size,
    );
    scene.nft(&scene.receiver, &rule);
    let reader = Reader::start(socket);
    let (source, stranger) = (scene.source(), scene.source());
    let before = scene.receiver.counters();
    let following = scene.follow();
    let mut dropped = 0;
    for lost in scene.order() {
        let payload = scene.payload(lost);
        source.send_to(&payload, scene.to()).unwrap();
        dropped += u64::from(lost);
        // To the other's socket, to a closed port, nowhere, to a group that nobody has joined.
        stranger.send_to(&payload, scene.receiver.at(noise)).unwrap();
        dropped += u64::from(lost);
        stranger.send_to(&payload, scene.receiver.at(noise + 1)).unwrap();
        expect_errors(stranger.send_to(&payload, (Ipv4Addr::new(203, 0, 113, 1), noise)), Errno::ENETUNREACH);
    }
    reader.await_count(scene.kept);
    assert_eq!(scene.matched(&scene.receiver), dropped);
    assert!(grown(&scene.receiver, &before, "Udp", "RcvbufErrors") > 0, "the other's buffer was never full");
    let account = following.end().traced();
    assert_eq!(account.ledgers().len(), 1, "{:#}", account.0);
    account.of(scene.port).closes(scene.kept + scene.lost, scene.kept, &[("firewall", scene.lost)]);
}

/// A socket that is opened and a sender that begins while the account follows already.
#[test]
fn who_comes_later_is_followed() {
    let Some(mut scene) = Scene::set() else { return };
    let rule = scene.dropping("ip", "output");
    scene.nft(&scene.sender, &rule);
    let following = scene.follow();
    let reader = Reader::start(scene.listen());
    for lost in scene.order() {
        // Each from a socket of its own.
        let (socket, payload) = (scene.source(), scene.payload(lost));
        let result = socket.send_to(&payload, scene.to());
        if lost { expect_errors(result, Errno::EPERM) } else { assert_eq!(result.unwrap(), payload.len()) }
    }
    reader.await_count(scene.kept);
    scene.closes(following, "firewall_out");
}

#[test]
fn one_socket_of_two_on_a_port() {
    let Some(mut scene) = Scene::set() else { return };
    // Two addresses, one port: each socket has datagrams of its own.
    scene.ip(&scene.receiver, "address add 10.0.0.102/32 dev eth0");
    scene.ip(&scene.sender, "route add 10.0.0.102/32 via 10.0.0.2");
    let second = (Ipv4Addr::new(10, 0, 0, 102), scene.port).into();
    let _other = Reader::start(scene.receiver.run(|| UdpSocket::bind(second)).unwrap());
    let reader = Reader::start(scene.listen());
    let (socket, to) = (scene.source(), scene.to().to_string());
    let following = Following::start(&["--socket", &to], &[&scene.receiver.ns]);
    for lost in scene.order() {
        let to = if lost { second } else { scene.to() };
        socket.send_to(&scene.payload(lost), to).unwrap();
    }
    reader.await_count(scene.kept);
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    assert_eq!(ledger.0["receiver"]["address"], to, "{:#}", ledger.0);
    assert_eq!((ledger.0["received"].as_u64(), ledger.places()), (Some(scene.kept), vec![]), "{:#}", ledger.0);
}

/// Two accounts, each of its own host, and a loss between them.
#[test]
fn two_hosts_are_joined() {
    let Some(mut scene) = Scene::set() else { return };
    let rule = scene.dropping("netdev", "ingress device sender");
    scene.nft_on_switch(&rule);
    let socket = scene.source();
    let listener = scene.listen();
    setsockopt(&listener, sockopt::RcvBuf, &10_000).unwrap();
    let before = scene.receiver.counters();
    let (at_sender, at_receiver) =
        (Following::port(scene.port, &[&scene.sender.ns]), Following::port(scene.port, &[&scene.receiver.ns]));
    let to = scene.to();
    scene.send_all(&socket, to);
    let dropped = grown(&scene.receiver, &before, "Udp", "RcvbufErrors");
    let reader = Reader::start(listener);
    reader.await_count(scene.kept - dropped);
    let dir = TempDir::new().unwrap();
    let files = [("sender", at_sender), ("receiver", at_receiver)].map(|(name, following)| {
        let file = dir.path().join(name);
        fs::write(&file, following.end().traced().0.to_string()).unwrap();
        file
    });
    let account = Account(Ended::of(weir(&["loss", "account", "--json", "--join"]).args(files)).json());
    let mut places = vec![("network", scene.lost)];
    if dropped > 0 {
        places.push(("receive_buffer", dropped));
    }
    account.of(scene.port).closes(scene.kept + scene.lost, scene.kept - dropped, &places);
}

#[test]
fn on_the_loopback() {
    let Some(scene) = Scene::set() else { return };
    let at = (Ipv4Addr::LOCALHOST, scene.port);
    let listener = scene.receiver.run(|| UdpSocket::bind(at)).unwrap();
    setsockopt(&listener, sockopt::RcvBuf, &20_000).unwrap();
    let source = scene.receiver.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap();
    source.connect(at).unwrap();
    let before = scene.receiver.counters();
    let following = Following::port(scene.port, &[&scene.receiver.ns]);
    let sent = 100 + scene.lost;
    for _ in 0..sent {
        source.send(&scene.payload(true)).unwrap();
    }
    let dropped = grown(&scene.receiver, &before, "Udp", "RcvbufErrors");
    let reader = Reader::start(listener);
    reader.await_count(sent - dropped);
    let account = following.end().traced();
    account.of(scene.port).closes(sent, sent - dropped, &[("receive_buffer", dropped)]);
}

/// What a group's members share: several sockets on one port, each with its copy.
#[test]
fn two_members_on_one_host() {
    let Some(mut scene) = Scene::set() else { return };
    let (group, _) = scene.groups();
    let members = [212_992usize, 10_000].map(|buffer| {
        let socket = scene.receiver.run(|| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
            socket.set_reuse_address(true).unwrap();
            socket.bind(&std::net::SocketAddr::from((group, scene.port)).into()).unwrap();
            UdpSocket::from(socket)
        });
        setsockopt(&socket, sockopt::RcvBuf, &(buffer / 2)).unwrap();
        socket.join_multicast_v4(&group, &scene.receiver.v4).unwrap();
        socket
    });
    let speaker = scene.speaker();
    let before = scene.receiver.counters();
    let following = Following::start(&["--group", &group.to_string()], &[&scene.sender.ns, &scene.receiver.ns]);
    let sent = 100 + scene.lost;
    for _ in 0..sent {
        speaker.send_to(&scene.payload(true), (group, scene.port)).unwrap();
    }
    let dropped = grown(&scene.receiver, &before, "Udp", "RcvbufErrors");
    assert!(dropped > 0);
    let readers = members.map(Reader::start);
    for (reader, received) in readers.iter().zip([sent, sent - dropped]) {
        reader.await_count(received);
    }
    let account = following.end().traced();
    let mut ledgers = account.all_of(scene.port);
    ledgers.sort_by_key(|ledger| ledger.places().len());
    let [whole, short] = &ledgers[..] else { panic!("not two ledgers: {:#}", account.0) };
    whole.closes(sent, sent, &[]);
    short.closes(sent, sent - dropped, &[("receive_buffer", dropped)]);
}

/// What is read at the end is looked at before it.
#[test]
fn sessions_that_can_never_be_are_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sent.json");
    fs::write(&file, "{}").unwrap();
    for flag in ["--sent", "--received"] {
        let ended = Ended::of(weir(&["loss", "account", "--port", "5", "--duration", "60s", flag]).arg(&file));
        assert!(ended.status == Some(2) && ended.stderr.contains("sent.json: not what `weir "), "{ended:?}");
    }
}
