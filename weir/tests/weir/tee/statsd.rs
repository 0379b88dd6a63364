//! StatsD: a shell's one-liner and a client that packs several metrics in a datagram, and two servers that add them up.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::network::network;
use super::{Tee, program};

#[test]
fn two_statsd_servers_count_alike() {
    let (Some(python), Some(bash)) = (program("python3"), program("bash")) else { return };
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let servers = [&a, &b].map(|host| {
        let program = host.program(&python).args(["-c", SERVER]).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut running = program.spawn().unwrap();
        host.await_port(8125, &mut running);
        running
    });
    let tee = Tee::start(&host, &["0.0.0.0:8125"], &[a.at(8125), b.at(8125)]);
    // So many at a time as the receive buffer of a server holds that a busy machine gives no processor.
    for (program, script) in [(&bash, ONE_LINER), (&python, PACKING)] {
        for first in ["0", "250", "500", "750"] {
            client.output(program, &["-c", script, first]);
            [&host, &a, &b].iter().for_each(|host| host.await_read(8125));
        }
    }
    let account = tee.end();
    account.is_lossless(DATAGRAMS);
    for (server, host) in servers.into_iter().zip([&a, &b]) {
        host.await_read(8125);
        server.signal(Signal::SIGTERM).unwrap();
        let (status, stdout, _) = server.output().unwrap();
        assert_eq!(status, 0);
        let state: Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(state["counters"]["requests"], 1000, "{state}");
        assert_eq!(state["counters"]["errors"], 3 * 1000);
        assert_eq!((&state["gauge"], &state["bad"]), (&999.into(), &0.into()));
        assert_eq!((&state["datagrams"], &state["packed"]), (&DATAGRAMS.into(), &1000.into()));
    }
}

const DATAGRAMS: usize = 2000;

/// The usual one-liner, whose datagrams end with a new line: 250 of them.
const ONE_LINER: &str = "for i in {1..250}; do echo 'requests:1|c' > /dev/udp/10.0.0.2/8125; done";

/// A client that packs metrics, as most libraries do, and ends a datagram without a new line: 250, from a number on.
const PACKING: &str = r#"
import socket, sys
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
first = int(sys.argv[1])
for i in range(first, first + 250):
    client.sendto(f"errors:3|c\ndepth:{i}|g\ntime:320|ms|@0.1".encode(), ("10.0.0.2", 8125))
"#;

/// A StatsD server that trusts nothing but whole lines.
const SERVER: &str = r#"
import json, re, signal, socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
server.settimeout(0.1)
state = {"counters": {}, "gauge": None, "bad": 0, "datagrams": 0, "packed": 0}
# What it is about to count when it is told to end is counted.
ends = []
signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
server.bind(("0.0.0.0", 8125))
while True:
    try:
        lines = server.recv(65536).decode().split("\n")
    except socket.timeout:
        if ends:
            print(json.dumps(state))
            sys.exit(0)
        continue
    if lines[-1] == "":
        lines.pop()
    state["datagrams"] += 1
    state["packed"] += len(lines) > 1
    for line in lines:
        match = re.fullmatch(r"([a-z]+):(\d+)\|(c|g|ms)(\|@0\.\d+)?", line)
        if not match:
            state["bad"] += 1
        elif match[3] == "c":
            state["counters"][match[1]] = state["counters"].get(match[1], 0) + int(match[2])
        elif match[3] == "g":
            state["gauge"] = int(match[2])
"#;
