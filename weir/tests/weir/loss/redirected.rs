//! What is taken out of its way at ingress and put back: it has come once.

use std::net::UdpSocket;

use super::{Reader, Scene};

/// To an ifb, as for shaping what comes, which hands it back to the interface it came by.
#[test]
fn through_an_ifb() {
    let Some(mut scene) = Scene::set() else { return };
    scene.ip(&scene.receiver, "link add ifb0 type ifb");
    scene.ip(&scene.receiver, "link set ifb0 up");
    scene.tc(&scene.receiver, "qdisc add dev eth0 ingress");
    let filter =
        "filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0";
    scene.tc(&scene.receiver, filter);
    counted_once(&mut scene);
    let sent = scene.tc(&scene.receiver, "-s qdisc show dev ifb0");
    let passed = scene.ip(&scene.receiver, "-s link show dev ifb0");
    assert!(
        !passed.contains("RX:  bytes packets errors dropped  missed   mcast           \n             0"),
        "{sent} {passed}"
    );
}

/// To an ifb that shapes what comes, as on a host that follows itself alone: what its queue drops has come.
#[test]
fn through_an_ifb_whose_queue_is_full() {
    let Some(scene) = Scene::set() else { return };
    scene.ip(&scene.receiver, "link add ifb0 type ifb");
    scene.ip(&scene.receiver, "link set ifb0 up");
    scene.tc(&scene.receiver, "qdisc add dev ifb0 root tbf rate 400kbit burst 2000 limit 3000");
    scene.tc(&scene.receiver, "qdisc add dev eth0 ingress");
    let filter =
        "filter add dev eth0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0";
    scene.tc(&scene.receiver, filter);
    let reader = Reader::start(scene.listen());
    let source = scene.source();
    let following = super::Following::port(scene.port, &[&scene.receiver.ns]);
    for _ in 0..200 {
        source.send_to(&[7; 200], scene.to()).unwrap();
    }
    let dropped = || -> u64 {
        let told = scene.tc(&scene.receiver, "-s qdisc show dev ifb0");
        let told = told.split("dropped ").nth(1).and_then(|rest| rest.split(',').next()?.parse().ok());
        told.unwrap()
    };
    weir_testbed::await_that("all to be read or dropped", || reader.count() + dropped() == 200);
    let (read, dropped) = (reader.count(), dropped());
    assert!(dropped > 0, "the queue was never full");
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    ledger.closes_from_arrival(200, read, &[("qdisc", dropped)]);
}

/// By nftables to a veth, whose other end is in the same namespace.
#[test]
fn forwarded_by_nftables() {
    let Some(mut scene) = Scene::set() else { return };
    let host = &scene.receiver;
    scene.ip(host, "link add v0 type veth peer name v1");
    let mac = host.netlink().link("eth0").unwrap().mac.unwrap();
    scene.ip(host, &format!("link set v1 address {mac}"));
    for link in ["v0", "v1"] {
        scene.ip(host, &format!("link set {link} up"));
    }
    let filters =
        [("ipv4/conf/all/rp_filter", "0"), ("ipv4/conf/v1/rp_filter", "0"), ("ipv4/conf/v1/accept_local", "1")];
    super::scene::set(&host.ns, &filters);
    let rule = format!(
        "add table netdev t; add chain netdev t c {{ type filter hook ingress device eth0 priority 0; }}; \
         add rule netdev t c udp dport {} fwd to v0",
        scene.port
    );
    scene.nft(host, &rule);
    counted_once(&mut scene);
}

fn counted_once(scene: &mut Scene) {
    let rule = scene.dropping("ip", "input");
    scene.nft(&scene.receiver, &rule);
    let reader = Reader::start(scene.listen());
    let source: UdpSocket = scene.source();
    let following = scene.follow();
    scene.send_all(&source, scene.to());
    reader.await_count(scene.kept);
    assert_eq!(scene.matched(&scene.receiver), scene.lost);
    let account = following.end().traced();
    let ledger = account.of(scene.port);
    ledger.closes(scene.kept + scene.lost, scene.kept, &[("firewall", scene.lost)]);
    assert_eq!(ledger.0["arrived"], scene.kept + scene.lost, "{:#}", ledger.0);
}
