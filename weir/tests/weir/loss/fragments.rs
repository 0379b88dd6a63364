//! Datagrams of several fragments, one of which the switch keeps for itself.

use super::scene::{grown, set};
use super::{Reader, Scene};
use weir_testbed::await_that;

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
    set(&scene.receiver.ns, &[("ipv4/ipfrag_time", "1")]);
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
    let following = scene.follow();
    let mut order: Vec<bool> = (0..kept + lost).map(|number| number < lost).collect();
    scene.seed.shuffle(&mut order);
    for lost in order {
        let size = scene.seed.size(3000..4400);
        if lost { &marked } else { &plain }.send_to(&vec![0; size], scene.to()).unwrap();
    }
    reader.await_count(kept);
    await_that("the rest to be given up", || grown(&scene.receiver, &before, "Ip", "ReasmFails") >= lost);
    let account = following.end().traced();
    account.of(scene.port).closes(kept + lost, kept, &[("reassembly", lost)]);
}

/// The receiver's own firewall drops a piece: lost there, and once.
#[test]
fn a_fragment_dropped_by_the_firewall() {
    let Some(mut scene) = Scene::set() else { return };
    set(&scene.receiver.ns, &[("ipv4/ipfrag_time", "1")]);
    let reader = Reader::start(scene.listen());
    let [plain, marked] = [scene.source(), scene.source()];
    socket2::SockRef::from(&marked).set_tos_v4(0x20).unwrap();
    let rule = "add table ip t; add chain ip t pre { type filter hook prerouting priority -450; }; \
                add rule ip t pre ip dscp 8 ip frag-off & 0x3fff > 0x2000 counter drop";
    scene.nft(&scene.receiver, rule);
    let before = scene.receiver.counters();
    let following = scene.follow();
    (scene.kept, scene.lost) = (scene.kept.min(20), scene.lost.min(20));
    for lost in scene.order() {
        let size = scene.seed.size(3000..4400);
        if lost { &marked } else { &plain }.send_to(&vec![0; size], scene.to()).unwrap();
    }
    reader.await_count(scene.kept);
    await_that("the rest to be given up", || grown(&scene.receiver, &before, "Ip", "ReasmFails") >= scene.lost);
    let account = following.end().traced();
    account.of(scene.port).closes(scene.kept + scene.lost, scene.kept, &[("firewall", scene.lost)]);
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
    let said = ledger.0["explanation"].to_string();
    assert!(said.contains(&format!("{lost} whose fragments waited for their others")), "{said}");
    true
}
