//! Every payload that the protocol allows goes through byte for byte, in order, from either family to either.

use weir_testbed::random::Source;

use super::Tee;
use super::datagrams::{Sink, assert_same, send_all, source};
use super::network::network;

#[test]
fn every_length_arrives_byte_for_byte() {
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let (sink4, sink6) = (Sink::bind(&a, a.at(5000)), Sink::bind(&b, b.at6(5000)));
    let tee = Tee::start(&host, &[host.at(5000), host.at6(5001)], &[sink4.address, sink6.address]);
    let sources = [(source(&client, client.at(0)), host.at(5000)), (source(&client, client.at6(0)), host.at6(5001))];

    let mut random = Source::drawn();
    // Nothing, little, the edge of what fits a packet of 1500 bytes over either family, jumbo frames, the limit of IPv4.
    let mut lengths = vec![0, 1, 2, 1451, 1452, 1453, 1471, 1472, 1473, 2952, 2953, 8972, 8973, 65_506, 65_507, 0];
    lengths.extend((0..30).map(|_| random.size(0..65_508)));
    // Runs of equal lengths, also empty ones, the last of a run shorter: what is joined and must come apart again.
    for _ in 0..40 {
        let length = random.size(0..1473);
        lengths.extend(vec![length; 1 + random.size(0..70)]);
        lengths.push(random.size(0..length + 1));
    }
    let payloads: Vec<Vec<u8>> = lengths.iter().map(|&length| random.bytes(length)).collect();
    for (socket, to) in &sources {
        send_all(socket, *to, &payloads, &[&sink4, &sink6]);
        for sink in [&sink4, &sink6] {
            assert_same(&sink.payloads(payloads.len()), &payloads);
        }
    }
    tee.end().is_lossless(2 * payloads.len());
}

#[test]
fn what_only_ipv6_can_carry_is_counted_for_ipv4() {
    let Some([client, host, a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let (sink4, sink6) = (Sink::bind(&a, a.at(5000)), Sink::bind(&b, b.at6(5000)));
    let tee = Tee::start(&host, &[host.at6(5000)], &[sink4.address, sink6.address]);
    let mut random = Source::drawn();
    // An IPv4 datagram has at most 65,535 bytes with 28 of headers, an IPv6 payload 65,535 with 8.
    let payloads: Vec<Vec<u8>> = (65_500..=65_527).map(|length| random.bytes(length)).collect();
    send_all(&source(&client, client.at6(0)), host.at6(5000), &payloads, &[&sink6]);
    assert_same(&sink6.payloads(28), &payloads);
    assert_same(&sink4.payloads(8), &payloads[..8]);
    let account = tee.end();
    let [name4, name6] = [&sink4, &sink6].map(|sink| sink.address.to_string());
    assert_eq!((account.sent(&name6), account.drops(&name6)), (28, vec![]));
    assert_eq!((account.sent(&name4), account.drops(&name4)), (8, vec![("too_long", 20)]));
}
