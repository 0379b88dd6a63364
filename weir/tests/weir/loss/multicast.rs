//! Groups: joined by nobody, joined by somebody else.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use socket2::SockRef;

use super::scene::grown;
use super::{Following, Reader, Scene};
use weir_testbed::await_that;

#[test]
fn group_not_joined() {
    let Some(mut scene) = Scene::set() else { return };
    let (group, other) = scene.groups();
    let reader = Reader::start(scene.member(group));
    let speaker = scene.speaker();
    let before = scene.receiver.counters();
    let following = Following::port(scene.port, &[&scene.sender.ns, &scene.receiver.ns]);
    for lost in scene.order() {
        let to = SocketAddr::from((if lost { other } else { group }, scene.port));
        speaker.send_to(&scene.payload(lost), to).unwrap();
    }
    reader.await_count(scene.kept);
    await_that("all to arrive", || grown(&scene.receiver, &before, "Ip", "InReceives") >= scene.kept + scene.lost);
    assert_eq!(grown(&scene.receiver, &before, "Udp", "IgnoredMulti"), 0);
    scene.closes(following, "not_joined");
}

#[test]
fn group_joined_by_another_socket() {
    let Some(mut scene) = Scene::set() else { return };
    let (group, _) = scene.groups();
    // Bound to the host's address, it takes no group; another port's socket brings the group to the host.
    let reader = Reader::start(scene.listen());
    let member = scene.receiver.run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    member.join_multicast_v4(&group, &scene.receiver.v4).unwrap();
    let speaker = scene.speaker();
    let before = scene.receiver.counters();
    let following = scene.follow();
    for lost in scene.order() {
        let to = if lost { (group, scene.port).into() } else { scene.to() };
        speaker.send_to(&scene.payload(lost), to).unwrap();
    }
    reader.await_count(scene.kept);
    assert_eq!(grown(&scene.receiver, &before, "Udp", "IgnoredMulti"), scene.lost);
    scene.closes(following, "no_matching_socket");
}

impl Scene {
    /// Two groups.
    pub(super) fn groups(&mut self) -> (Ipv4Addr, Ipv4Addr) {
        let mut octet = |range| u8::try_from(self.seed.number(range)).unwrap();
        (Ipv4Addr::new(239, 1, octet(0..256), octet(1..255)), Ipv4Addr::new(239, 2, octet(0..256), octet(1..255)))
    }

    /// A socket of the receiver's in a group, bound to it.
    pub(super) fn member(&self, group: Ipv4Addr) -> UdpSocket {
        let socket = self.receiver.run(|| UdpSocket::bind((group, self.port))).unwrap();
        socket.join_multicast_v4(&group, &self.receiver.v4).unwrap();
        socket
    }

    /// A socket of the sender's that sends to groups by `eth0` and does not hear itself.
    pub(super) fn speaker(&self) -> UdpSocket {
        let socket = self.source();
        SockRef::from(&socket).set_multicast_if_v4(&self.sender.v4).unwrap();
        socket.set_multicast_loop_v4(false).unwrap();
        socket
    }
}
