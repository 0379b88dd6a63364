//! Arbitrary bytes as what the ends of iperf3 print: refused, or a report that does not exceed its window. And as what any other
//! program prints.
//!
//! `cargo +nightly fuzz run iperf3` (needs cargo-fuzz).
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_lab::foreign;
use weir_traffic::Transport;

fuzz_target!(|input: (&[u8], &[u8], bool)| {
    let (client, server, datagrams) = input;
    foreign::program(client);
    let transport = if datagrams { Transport::Udp } else { Transport::Tcp };
    for report in foreign::iperf3(client, server, transport) {
        assert!(report.used <= Duration::from_secs(3));
        assert_eq!(report.datagrams.is_some(), datagrams && report.connected > 0);
    }
});
