//! The real program in networks of our own.

use std::path::Path;
use std::time::Duration;

use weir_kernel::counters;
use weir_kernel::links::{MAIN_TABLE, MacAddress, Netlink, Route, TcpRule, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_lab::iperf3::{Iperf3Settings, Transfer};
use weir_program::clock::now;
use weir_program::stop::Stop;
use weir_testbed::{PATIENCE, program};
use weir_traffic::bulk::{BulkReport, BulkSettings};

use super::WEIR;

const DATA_PORT: u16 = 5300;

pub(super) fn settings() -> Iperf3Settings {
    let (congestion, duration) = (Some("reno".into()), Duration::from_secs(1));
    let to = "127.0.0.1:5201".parse().unwrap();
    of(BulkSettings { streams: 2, congestion, duration, ..BulkSettings::new(to) })
}

pub(super) fn of(bulk: BulkSettings) -> Iperf3Settings {
    Iperf3Settings { bulk, rate: None, data_port: Some(DATA_PORT) }
}

pub(super) fn loopback() -> NetNs {
    let ns = NetNs::create().unwrap();
    Netlink::open(&ns).unwrap().set_loopback_up().unwrap();
    ns
}

pub(super) fn prepare(ns: &NetNs, settings: &Iperf3Settings) -> anyhow::Result<Transfer> {
    // This test's own `main` starts no init.
    Transfer::prepare(Path::new(&*WEIR), ns, ns, settings)
}

pub(super) fn transfer(ns: &NetNs, settings: &Iperf3Settings) -> BulkReport {
    prepare(ns, settings).unwrap().run(now(), &Stop::new().unwrap())
}

#[test]
fn errors_are_in_iperf3s_words() {
    let Some(_) = program("iperf3") else { return };
    let ns = loopback();
    let fastest = transfer(&ns, &of(BulkSettings { congestion: Some("fastest".into()), ..settings().bulk }));
    let error = fastest.errors.iter().find(|error| error.operation == "iperf3 -c").unwrap();
    assert!(error.error.contains("TCP_CONGESTION"), "{error:?}");
    assert_eq!((fastest.connected, fastest.received_bytes, fastest.window), (0, 0, None));

    let nowhere = of(BulkSettings { to: "192.0.2.1:5201".parse().unwrap(), ..settings().bulk });
    let unreachable = transfer(&ns, &nowhere);
    assert!(unreachable.errors[0].error.contains("unable to connect to server"), "{:?}", unreachable.errors);
    let half = of(BulkSettings { duration: Duration::from_millis(500), ..settings().bulk });
    assert_eq!(prepare(&ns, &half).err().unwrap().to_string(), "a window of 500ms: iperf3 counts whole seconds");
}

/// Two wires between a client and a server: over `data` go the data connections, and nothing arrives.
fn with_dead_data_link() -> (NetNs, NetNs) {
    let (client, server) = (NetNs::create().unwrap(), NetNs::create().unwrap());
    let mac = MacAddress::local;
    for (number, name) in [(1, "control"), (2, "data")] {
        let near = VethEnd { name, mtu: 1500, mac: mac(number), ns: &client, queue_length: 0 };
        let far = VethEnd { name, mtu: 1500, mac: mac(10 + number), ns: &server, queue_length: 0 };
        let mut links = [Netlink::open(&client).unwrap(), Netlink::open(&server).unwrap()];
        links[0].add_veth(&near, &far).unwrap();
        for (host, links) in (1..).zip(&mut links) {
            let index = links.link(name).unwrap().index;
            links.add_address(index, format!("10.0.{number}.{host}/24").parse().unwrap()).unwrap();
            links.set_up(index).unwrap();
        }
        links.iter_mut().for_each(|links| links.wait_until_running(name).unwrap());
    }
    let mut links = Netlink::open(&client).unwrap();
    let data = links.link("data").unwrap().index;
    links.add_neighbour(data, "10.0.2.2".parse().unwrap(), mac(99)).unwrap();
    let there = Route::new("10.0.1.2/32".parse().unwrap(), Some("10.0.2.2".parse().unwrap()), data);
    links.install_route(&Route { table: 100, ..there }).unwrap();
    assert_ne!(MAIN_TABLE, 100);
    let rule = TcpRule {
        priority: 100,
        ipv6: false,
        source_ports: Some(DATA_PORT..=DATA_PORT + 1),
        destination_ports: None,
        table: 100,
    };
    links.add_rule(&rule).unwrap();
    (client, server)
}

#[test]
fn data_connections_that_never_come_up_are_given_up_in_time() {
    let Some(_) = program("iperf3") else { return };
    let (client, server) = with_dead_data_link();
    // Time enough for the control connection.
    let timeout = Duration::from_secs(2);
    let settings =
        of(BulkSettings { to: "10.0.1.2:5201".parse().unwrap(), connect_timeout: timeout, ..settings().bulk });
    let transfer = Transfer::prepare(Path::new(&*WEIR), &client, &server, &settings).unwrap();
    let begin = now();
    let report = transfer.run(begin, &Stop::new().unwrap());
    let took = Duration::from_nanos(now() - begin);
    assert!(took >= timeout && took < PATIENCE, "{took:?}");
    assert_eq!((report.connected, report.connect, report.received_bytes, report.stopped), (0, None, 0, false));
    let errors: Vec<_> = report.errors.iter().map(|error| (error.operation, error.error.as_str())).collect();
    assert_eq!(errors, [("connect", "connection timed out")]);
    assert!(report.batches.is_empty() && report.window.is_none());
    // The control connection had come up: what was given up is a data connection, by the port that is only its own.
    let control = counters::snmp(&server).unwrap().get("Tcp", "PassiveOpens");
    assert_eq!(control, Some(1));
}
