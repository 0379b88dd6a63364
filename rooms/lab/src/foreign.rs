//! Private parsers of untrusted input, public only for the targets in fuzz/.

use std::net::Ipv4Addr;
use std::time::Duration;

use weir_traffic::Transport;
use weir_traffic::bulk::{BulkReport, BulkSettings};

use crate::iperf3::{Iperf3Settings, report};
use crate::programs::Lines;

/// The output of both ends of iperf3, as one report.
pub fn iperf3(client: &[u8], server: &[u8], transport: Transport) -> [BulkReport; 2] {
    let bulk = BulkSettings {
        transport,
        streams: 2,
        duration: Duration::from_secs(3),
        warmup: Duration::from_secs(1),
        ..BulkSettings::new((Ipv4Addr::LOCALHOST, 7).into())
    };
    let settings = Iperf3Settings { bulk, rate: None, data_port: None };
    let [client, server] = [client, server].map(|printed| Lines::read(printed).first_object().unwrap_or_default());
    [true, false].map(|complete| report::report(&settings, &client, &server, complete))
}

/// The output of a program, as its last object and all lines that are objects.
pub fn program(stdout: &[u8]) {
    let lines = Lines::read(stdout);
    let _ = (lines.last_object(), lines.objects(0));
}
