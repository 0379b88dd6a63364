//! A destination whose address is translated, as a Kubernetes service's is: the kernel keeps a flow with the pod that it chose
//! first, until the tee sends from another port.

use std::net::TcpListener;

use super::datagrams::{Sink, source};
use super::network::{Host, await_that, network};
use super::{Tee, program};

#[test]
fn datagrams_follow_a_service_to_its_next_pod() {
    let Some(nft) = program("nft") else { return };
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let mut link = host.netlink();
    let index = link.link("eth0").unwrap().index;
    link.add_route("10.96.0.0/24".parse().unwrap(), None, index).unwrap();
    host.output(&nft, &["add table ip n; add chain ip n out { type nat hook output priority -100; }"]);
    let lead_to = |pod: &Host| {
        let rule = format!("flush chain ip n out; add rule ip n out ip daddr 10.96.0.1 dnat to {}", pod.v4);
        host.output(&nft, &[&rule]);
    };
    lead_to(&a);
    let listen = |host: &Host| host.run(|| TcpListener::bind(host.at(7777)).unwrap());
    let (first, second) = (Sink::bind(&a, a.at(5000)), Sink::bind(&b, b.at(5000)));
    let (alive, _other) = (listen(&a), listen(&b));
    let mut tee = Tee::configured(
        &host,
        r#"
        listener = [{ address = "0.0.0.0:5000" }]
        destination = [{ name = "service", to = "10.96.0.1:5000",
                         probe = { tcp = 7777, interval = "100ms", timeout = "50ms" } }]
        "#,
    );
    let socket = source(&client, client.at(0));
    let send = || socket.send_to(b"x", host.at(5000)).unwrap();
    await_that("the first pod to be sent to", || {
        send();
        first.count() > 0
    });
    await_that("the way to be open, though no neighbour is asked", || {
        send();
        let ledger = tee.ledger();
        let service = &ledger["destinations"][0];
        service["sent"]["datagrams"].as_u64() > service["sent_unresolved"].as_u64()
    });
    assert_eq!(tee.ledger()["destinations"][0]["healthy"], true);
    // The pod goes, and the service leads to the next one.
    drop((alive, first));
    await_that("the destination to be down", || tee.ledger()["destinations"][0]["healthy"] == false);
    lead_to(&b);
    await_that("the second pod to be sent to", || {
        send();
        second.count() > 0
    });
    tee.end();
}
