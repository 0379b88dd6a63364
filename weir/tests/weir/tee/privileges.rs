//! A container's case: no privilege at all.

use super::datagrams::{Sink, assert_same, send_all, source};
use super::network::network;
use super::{Tee, program};

#[test]
fn a_high_port_needs_no_privilege() {
    let Some(setpriv) = program("setpriv") else { return };
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let sinks = [Sink::bind(&a, a.at(5000)), Sink::bind(&b, b.at6(5000))];
    let tee = Tee::unprivileged(
        &host,
        &setpriv,
        &["--listen", "[::]:5514", "--to", "10.0.0.3:5000", "--to", "[fd00::4]:5000"],
    );
    let payloads: Vec<Vec<u8>> = (0..2000u32).map(|number| number.to_be_bytes().repeat(300)).collect();
    send_all(&source(&client, client.at(0)), host.at(5514), &payloads, &[&sinks[0], &sinks[1]]);
    sinks.iter().for_each(|sink| assert_same(&sink.payloads(2000), &payloads));
    let account = tee.end();
    account.is_lossless(2000);
    // Not forced, the buffer is what the kernel grants anyone: twice net.core.rmem_max at most.
    let limit: u64 = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap().trim().parse().unwrap();
    let listener = account.entry("listeners", "[::]:5514");
    let asked = listener["asked_buffer"].as_u64().unwrap();
    assert_eq!(listener["receive_buffer"].as_u64(), Some(2 * limit.min(asked)));
}
