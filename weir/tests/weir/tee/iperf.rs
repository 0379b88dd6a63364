//! iperf2's UDP client, whose two servers count what is lost and out of order by themselves.

use std::path::Path;
use std::process::Stdio;

use weir_kernel::namespaces::process::Running;

use super::network::{Host, network};
use super::{Tee, program};

#[test]
fn two_iperf_servers_miss_nothing() {
    let Some(iperf) = program("iperf") else { return };
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let before = [&a, &b].map(Host::counters);
    let servers = [&a, &b].map(|host| serve(host, &iperf));
    let tee = Tee::start(&host, &["0.0.0.0:5001"], &[a.at(5001), b.at(5001)]);
    // A pace that a server sustains with its buffer. They answer the tee, which hands no answers on: the client repeats
    // its last datagram ten times and gives up waiting.
    let flags = ["-u", "-c", "10.0.0.2", "-b", "20m", "-l", "1000", "-n", "2500000"];
    let said = client.output(&iperf, &flags);
    let reports = servers.map(report);
    let account = tee.end();
    let (received, _) = account.received();
    account.is_lossless(usize::try_from(received).unwrap());

    let sent = said.lines().find_map(|line| line.split_once("] Sent ")?.1.strip_suffix(" datagrams")?.parse().ok());
    let sent: u64 = sent.unwrap_or_else(|| panic!("{said}"));
    assert!(sent > 2500 && received >= sent, "{received}: {said}");
    for (([lost, total, out_of_order], host), before) in reports.into_iter().zip([&a, &b]).zip(&before) {
        // The last one is the end, and not counted by the server.
        assert_eq!((total, out_of_order), (sent - 1, 0));
        // A server to which a busy machine gives no processor for long misses some: its kernel has counted those.
        let unread = host.counters().since(before).get("Udp", "RcvbufErrors").unwrap();
        assert!(lost <= unread.cast_unsigned(), "{lost} lost, {unread} not read");
    }
}

/// A server that ends after one client.
fn serve(host: &Host, iperf: &Path) -> Running {
    let flags = ["-s", "-u", "-P", "1", "-w", "4m", "-y", "C"];
    let mut running = host.program(iperf).args(flags).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    host.await_port(5001, &mut running);
    running
}

/// What a server says at its end: datagrams lost, in all, and out of order.
fn report(server: Running) -> [u64; 3] {
    let (_, stdout, _) = server.output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    // time, addresses and ports, id, interval, bytes, bit/s, jitter, lost, total, percent, out of order
    let fields: Vec<&str> = text.lines().next().unwrap_or_else(|| panic!("no report")).split(',').collect();
    [10, 11, 13].map(|field| fields[field].parse().unwrap_or_else(|_| panic!("{text}")))
}
