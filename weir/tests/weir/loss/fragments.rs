//! Datagrams of several fragments, one of which the switch keeps for itself.

use std::net::{SocketAddr, UdpSocket};

use weir_testbed::await_that;

use super::scene::{grown, set};
use super::{Following, Reader, Scene};
use crate::network::Host;

#[test]
fn a_later_fragment_lost() {
    // Not the first, but more behind it.
    lost_between("ip frag-off & 0x3fff > 0x2000");
}

#[test]
fn the_first_fragment_lost() {
    lost_between("ip frag-off & 0x3fff == 0x2000");
}

/// Three fragments each; the switch, which nobody follows, drops those of some that match.
fn lost_between(which: &str) {
    let Some(mut scene) = Scene::set() else { return };
    let rule = format!(
        "add table netdev t; add chain netdev t in {{ type filter hook ingress device sender priority 0; }}; \
         add rule netdev t in ip dscp 8 {which} counter drop"
    );
    scene.nft_on_switch(&rule);
    let (_reader, following) = scene.send_fragments(scene.sender.at(0), scene.to(), None);
    scene.closes(following, "reassembly");
}

/// The receiver's own firewall drops a fragment: lost there if it is the first.
#[test]
fn a_fragment_dropped_by_the_firewall() {
    for (which, place) in [("== 0x2000", "firewall"), ("> 0x2000", "reassembly")] {
        let Some(mut scene) = Scene::set() else { return };
        let rule = format!(
            "add table ip t; add chain ip t pre {{ type filter hook prerouting priority -450; }}; \
             add rule ip t pre ip dscp 8 ip frag-off & 0x3fff {which} counter drop"
        );
        scene.nft(&scene.receiver, &rule);
        let (_reader, following) = scene.send_fragments(scene.sender.at(0), scene.to(), None);
        scene.closes(following, place);
    }
}

impl Scene {
    /// Sends few datagrams of three fragments each, of which those to be lost are marked for rules (`ip dscp 8`), and waits until
    /// the receiver has given these up.
    pub(super) fn send_fragments(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        router: Option<&Host>,
    ) -> (Reader, Following) {
        (self.kept, self.lost) = (self.kept.min(20), self.lost.min(20));
        set(&self.receiver.ns, &[("ipv4/ipfrag_time", "1")]);
        let reader = Reader::start(self.receiver.run(|| UdpSocket::bind(to)).unwrap());
        let [plain, marked] = [0; 2].map(|_| self.sender.run(|| UdpSocket::bind(from)).unwrap());
        socket2::SockRef::from(&marked).set_tos_v4(0x20).unwrap();
        let before = self.receiver.counters();
        let hosts = [&self.sender, &self.receiver].into_iter().chain(router);
        let following = Following::port(self.port, &hosts.map(|host| &host.ns).collect::<Vec<_>>());
        for lost in self.order() {
            let size = self.seed.size(3000..4400);
            if lost { &marked } else { &plain }.send_to(&vec![0; size], to).unwrap();
        }
        reader.await_count(self.kept);
        await_that("the rest to be given up", || grown(&self.receiver, &before, "Ip", "ReasmFails") >= self.lost);
        (reader, following)
    }
}

/// They wait when the account begins, and are given up while it goes on.
#[test]
#[ignore = "long: 15 s"]
fn what_was_begun_before_the_account_is_no_loss_of_it() {
    for which in ["ip frag-off & 0x3fff == 0x2000", "ip frag-off & 0x3fff > 0x2000"] {
        while !given_up_since(which) {}
    }
}

/// `false`: they were given up before the account had begun, for the machine stood still.
fn given_up_since(which: &str) -> bool {
    let Some(mut scene) = Scene::set() else { return true };
    set(&scene.receiver.ns, &[("ipv4/ipfrag_time", "6")]);
    let (kept, lost) = (scene.seed.number(5..20), scene.seed.number(5..20));
    let reader = Reader::start(scene.listen());
    let [plain, marked] = [scene.source(), scene.source()];
    socket2::SockRef::from(&marked).set_tos_v4(0x20).unwrap();
    let rule = format!(
        "add table netdev t; add chain netdev t in {{ type filter hook ingress device sender priority 0; }}; \
         add rule netdev t in ip dscp 8 {which} counter drop"
    );
    scene.nft_on_switch(&rule);
    let before = scene.receiver.counters();
    let given_up = || grown(&scene.receiver, &before, "Ip", "ReasmFails");
    for _ in 0..lost {
        marked.send_to(&[0; 4000], scene.to()).unwrap();
    }
    // Each has two fragments left.
    await_that("the fragments to wait", || grown(&scene.receiver, &before, "Ip", "ReasmReqds") == 2 * lost);
    let following = scene.follow();
    if given_up() > 0 {
        return false;
    }
    for _ in 0..kept {
        plain.send_to(&[0; 4000], scene.to()).unwrap();
    }
    reader.await_count(kept);
    await_that("the rest to be given up", || given_up() >= lost);
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    ledger.closes(kept, kept, &[]);
    true
}
