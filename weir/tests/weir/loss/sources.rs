//! Whose datagrams were lost, of many who send to one socket.

use std::net::{Ipv4Addr, UdpSocket};

use serde_json::{Value, json};

use super::account::path;
use super::sockets::refuse;
use super::{Following, Reader, Scene, weir};

/// Of twelve addresses in three networks: all send, three lose what the socket's filter refuses, or what a rule drops.
#[test]
fn who_lost_how_many_of_how_many_and_where() {
    let Some(mut scene) = Scene::set() else { return };
    let address = |net: u8, host: u8| Ipv4Addr::new(10, 1, net, host);
    let all: Vec<Ipv4Addr> = (1..=3).flat_map(|net| (1..=4).map(move |host| address(net, host))).collect();
    for address in &all {
        scene.ip(&scene.sender, &format!("address add {address}/32 dev eth0"));
    }
    scene.ip(&scene.receiver, "route add 10.1.0.0/16 via 10.0.0.1");
    let (firewalled, refused) = (address(3, 1), [address(1, 2), address(1, 4)]);
    let rule = format!(
        "add table ip t; add chain ip t c {{ type filter hook input priority 0; }}; \
         add rule ip t c ip saddr {firewalled} udp length {} counter drop",
        8 + scene.lost_size,
    );
    scene.nft(&scene.receiver, &rule);
    let socket = scene.listen_roomy();
    refuse(&socket, scene.lost_size);
    let reader = Reader::start(socket);
    let bind = |address: &Ipv4Addr| scene.sender.run(|| UdpSocket::bind((*address, 0))).unwrap();
    let sockets: Vec<UdpSocket> = all.iter().map(bind).collect();

    let port = scene.port.to_string();
    let follow = |by: &str| Following::start(&["--port", &port, "--by", by], &[&scene.receiver.ns]);
    let (by_address, by_network) = (follow("source"), follow("source/24"));
    let netns = path(&scene.receiver.ns);
    let for_people = ["loss", "account", "--port", &port, "--by", "source", "--duration", "120s", "--netns", &netns];
    let for_people = Following::spawn(weir(&for_people));
    let (mut kept, mut sent) = (0, 0);
    let mut rows = Vec::new();
    for (from, socket) in all.iter().zip(&sockets) {
        let (of_kept, of_lost) = (scene.seed.number(1..20), scene.seed.number(1..20));
        let loses = *from == firewalled || refused.contains(from);
        let size = if loses { scene.lost_size } else { scene.kept_size };
        for (count, size) in [(of_kept, scene.kept_size), (of_lost, size)] {
            for _ in 0..count {
                socket.send_to(&vec![7; size], scene.to()).unwrap();
            }
        }
        sent += of_kept + of_lost;
        kept += if loses { of_kept } else { of_kept + of_lost };
        if loses {
            let place = if *from == firewalled { "firewall" } else { "socket_filter" };
            rows.push((from.to_string(), of_kept + of_lost, of_lost, place));
        }
    }
    reader.await_count(kept);

    let account = by_address.end().traced();
    let ledger = account.of(scene.port);
    let by_source = &ledger.0["by_source"];
    let mut told: Vec<&Value> = by_source["lost"].as_array().unwrap().iter().collect();
    assert!(told.is_sorted_by_key(|row| std::cmp::Reverse(row["lost"].as_u64())), "{by_source:#}");
    told.sort_by_key(|row| row["source"].as_str());
    let row = |(source, seen, lost, place): &(String, u64, u64, &str)| json!({"source": source, "seen": seen, "lost": lost, "places": [{"place": place, "datagrams": lost}]});
    assert_eq!(json!(told), json!(rows.iter().map(row).collect::<Vec<_>>()), "{:#}", ledger.0);
    let others = ["sources", "unlisted", "unknown", "evicted"].map(|name| by_source[name].as_u64());
    assert_eq!(others, [Some(12), Some(0), Some(0), Some(0)], "{by_source:#}");
    assert_eq!(ledger.0["arrived"], sent, "{:#}", ledger.0);

    let account = by_network.end();
    let by_source = &account.of(scene.port).0["by_source"];
    let nets: Vec<&str> =
        by_source["lost"].as_array().unwrap().iter().map(|row| row["source"].as_str().unwrap()).collect();
    assert_eq!(by_source["sources"], 3, "{by_source:#}");
    assert!(nets.len() == 2 && nets.contains(&"10.1.1.0/24") && nets.contains(&"10.1.3.0/24"), "{nets:?}");

    let text = for_people.end_with_text();
    assert!(text.contains("\n  3 of 12 sources lost datagrams\n"), "{text}");
    for (source, seen, lost, _) in &rows {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{source} "))).unwrap_or_default();
        assert!(line.contains(&format!("{lost} of {seen}")), "{source}: {text}");
    }
}
