//! What the network loses is missing to the sample, and with two ways hardly anything is.

use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};

use ipnet::IpNet;
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_testbed::network::{Host, cable};
use weir_testbed::standstills::Standstills;

use super::socket::{Client, Told};
use super::*;
use crate::network::network;

/// Two hosts with two cables: `eth0` and `eth1`.
#[track_caller]
fn cables() -> Option<[Host; 2]> {
    let hosts = cable(1500)?;
    let end = |host: usize| VethEnd {
        ns: &hosts[host].ns,
        name: "eth1",
        mac: MacAddress::local(100 + host as u32),
        mtu: 1500,
        queue_length: 1000,
    };
    Netlink::open(&hosts[0].ns).unwrap().add_veth(&end(0), &end(1)).unwrap();
    for (host, number) in hosts.iter().zip([1, 2]) {
        let mut netlink = host.netlink();
        let eth1 = netlink.link("eth1").unwrap().index;
        netlink.set_no_link_local(eth1).unwrap();
        netlink.set_up(eth1).unwrap();
        netlink.add_address(eth1, IpNet::new(Ipv4Addr::new(10, 0, 1, number).into(), 24).unwrap()).unwrap();
    }
    for host in &hosts {
        host.netlink().wait_until_running("eth1").unwrap();
    }
    Some(hosts)
}

/// So many datagrams of a station over two ways, of each of which a rule drops some. Samples that were sent and that are missing.
#[track_caller]
fn over_two_ways(datagrams: u64, rules: [Option<&str>; 2]) -> Option<(u64, u64)> {
    let hosts = cables()?;
    for (interface, rule) in ["eth0", "eth1"].into_iter().zip(rules) {
        if let Some(rule) = rule {
            drop_at(&hosts[1].ns, interface, rule)?;
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (station, server) = (dir.path().join("station.toml"), dir.path().join("server.toml"));
    std::fs::write(
        &station,
        "name = \"coil\"\nto = [\"239.192.77.1:5110\", \"239.192.77.3:5110\"]\ninterface = [\"eth0\", \"eth1\"]\n\
         display = \"0/s\"\nmost_bytes = \"1232B\"\n[[source]]\nkind = \"counter\"\nname = \"n\"\nrate = \"200k/s\"\n",
    )
    .unwrap();
    let listen = |number, interface| {
        format!("[[listen]]\naddress = \"239.192.77.{number}:5110\"\ninterface = \"{interface}\"\n")
    };
    std::fs::write(&server, listen(1, "eth0") + &listen(3, "eth1")).unwrap();
    let mut server = start(&hosts[1].ns, &["serve", "--json", "-c", server.to_str().unwrap()]);
    let mut station = start(&hosts[0].ns, &["station", "--json", "-c", station.to_str().unwrap()]);
    station.await_ledger(|ledger| ledger["streams"][0]["data"].as_u64() > Some(datagrams));
    let sent = sent(&station.stop());
    let ledger = server.await_ledger(|ledger| has_ended(ledger, "coil"));
    if received(&ledger).1 > 0 {
        await_event(&hosts[1].ns, "gap", "coil");
    }
    let ledger = server.stop();
    let (samples, missing) = received(&ledger);
    assert_eq!(samples + missing, sent, "{ledger:#}");
    assert_eq!(ledger["received"]["missing"]["network"], missing, "{ledger:#}");
    assert_eq!(ledger["received"]["copies"].as_u64() > Some(datagrams * 5 / 6), rules[1] != Some(""), "{ledger:#}");
    for (interface, rule) in ["eth0", "eth1"].into_iter().zip(rules) {
        assert!(rule.is_none() || dropped_at(&hosts[1].ns, interface) > datagrams / 120);
    }
    Some((sent, missing))
}

#[test]
fn one_way_that_loses_one_in_a_hundred_costs_as_much() {
    // The other way carries nothing.
    let Some((sent, missing)) = over_two_ways(3000, [Some("numgen inc mod 100 == 50"), Some("")]) else { return };
    let share = missing as f64 / sent as f64;
    assert!((0.0085..=0.0105).contains(&share), "{missing} of {sent}");
}

#[test]
fn what_one_way_loses_comes_on_the_other() {
    let Some((sent, missing)) = over_two_ways(3000, [Some("numgen inc mod 100 == 50"), None]) else { return };
    assert_eq!(missing, 0, "of {sent}");
}

/// One in 100 and one in 101: the same one is dropped on both ways once in 10,100.
#[test]
#[ignore = "long: 10 s"]
fn two_ways_that_lose_one_in_a_hundred_cost_next_to_nothing() {
    let rules = [Some("numgen inc mod 100 == 50"), Some("numgen inc mod 101 == 50")];
    let Some((sent, missing)) = over_two_ways(12_000, rules) else { return };
    let share = missing as f64 / sent as f64;
    assert!(missing > 0 && share <= 0.0002, "{missing} of {sent}");
}

/// Nothing comes behind the datagram that is lost but heartbeats, so often. How long each loss took to show, sorted.
fn at_the_end(losses: u64) -> Option<Vec<Duration>> {
    let [one, other, witness] = network(["station", "server", "witness"])?;
    program("nft")?;
    let mut server = start_server(&other.ns, GROUP);
    let heard = witness.run(|| {
        let socket = UdpSocket::bind(GROUP).unwrap();
        socket.join_multicast_v4(&Ipv4Addr::new(239, 192, 77, 1), &witness.v4).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    });
    let mut command = weir(&["monitor", "station", "--json", "--interface", "eth0", "--name", "coil"]);
    command.args(["--display", "0", "--source", "stdin,format=csv,time=rows,rate=1k/s"]).stdin(Stdio::piped());
    let mut station = one.run(|| Started::ready(command));
    let mut input = station.stdin();
    let mut write = |line: &str| input.write_all(line.as_bytes()).unwrap();
    let await_data = || {
        let mut bytes = [0; 2000];
        while heard.recv(&mut bytes).unwrap() > 0 && bytes[2] != 0x10 {}
    };
    write("I\n1\n");
    server.await_ledger(|ledger| received(ledger) == (1, 0));
    await_data();
    let mut client = Client::connect(&other.ns);
    client.ask(&[0], 100.0, 100);
    client.await_told(|told| matches!(told, Told::Samples { .. }));
    // Data and nothing else.
    drop_at(&other.ns, "eth0", "@th,80,8 0x10");
    let standstills = Standstills::watch();
    let mut took = Vec::new();
    for _ in 0..losses {
        write("2\n");
        await_data();
        let lost = Instant::now();
        client.await_told(|told| matches!(told, Told::Gap { samples: 1, .. }));
        took.push(standstills.running(lost, Instant::now()));
    }
    drop(input);
    station.wait();
    let ledger = server.await_ledger(|ledger| received(ledger) == (1, losses));
    assert_eq!(ledger["received"]["missing"]["network"], losses, "{ledger:#}");
    took.sort_unstable();
    Some(took)
}

#[test]
fn loss_at_the_end_shows() {
    at_the_end(2);
}

mod alone {
    use super::*;

    #[test]
    #[ignore = "long: 2 s"]
    fn loss_at_the_end_shows_at_once() {
        let Some(took) = at_the_end(9) else { return };
        eprintln!("loss at the end shows after {took:?}");
        assert!(took[4] <= Duration::from_millis(100) && took[8] <= Duration::from_millis(250), "{took:?}");
    }
}
