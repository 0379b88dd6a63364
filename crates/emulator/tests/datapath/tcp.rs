//! TCP through the emulator: what goes in comes out, whatever happens on the way.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use weir_emulator::datapath::{Emulator, EmulatorSettings};
use weir_emulator::model::{Alteration, Alterations, Impairments, Loss, QueueLimit, Rate, Reorder};

use crate::network::{Network, assert_sound, network, settled};

/// Numbers that no re-cut can hit by accident.
fn contents(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    })
    .take(length)
    .collect()
}

/// Sends `data` from a to b over TCP; returns what arrived and how long it took.
fn tcp(network: &Network, to: IpAddr, data: &[u8]) -> (Vec<u8>, Duration) {
    let listener = network.b.run(|| TcpListener::bind((to, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        });
        let start = Instant::now();
        let mut stream = network.a.run(|| TcpStream::connect(address)).unwrap();
        stream.write_all(data).unwrap();
        drop(stream);
        (receiver.join().unwrap(), start.elapsed())
    })
}

fn tcp_is_byte_exact(impairments: &Impairments) {
    let Some(network) = network() else { return };
    let data = contents(8 << 20);
    for to in [network.b.v4, network.b.v6] {
        let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
        let link = network.attach(&emulator, impairments, impairments);
        let (received, _) = tcp(&network, to, &data);
        assert!(received == data, "{} of {} bytes, or other ones", received.len(), data.len());
        let report = settled(&emulator, link, |_| true);
        for ledger in [report.forward.ledger, report.backward.ledger] {
            assert_sound(&ledger);
        }
        let forward = report.forward.ledger;
        assert!(forward.received > 8 * (1 << 20) / 1500, "{forward:#?}");
        if impairments.loss != Loss::None {
            assert!(forward.lost > 0, "{forward:#?}");
        }
        if impairments.alterations != Alterations::default() {
            assert!(forward.altered[Alteration::Corrupt] > 0 && forward.duplicated > 0, "{forward:#?}");
            let errors = network.b.counter("Tcp", "InCsumErrors");
            assert!(errors > 0, "corrupted segments must fail their checksum");
        }
    }
}

#[test]
fn tcp_is_byte_exact_without_impairments() {
    tcp_is_byte_exact(&Impairments::default());
}

#[test]
fn tcp_is_byte_exact_at_two_percent_loss() {
    let delay = Duration::from_millis(1);
    tcp_is_byte_exact(&Impairments { loss: Loss::Bernoulli(0.02), delay, ..Default::default() });
}

#[test]
fn tcp_is_byte_exact_with_everything_at_once() {
    tcp_is_byte_exact(&Impairments {
        loss: Loss::Bernoulli(0.005),
        delay: Duration::from_millis(1),
        rate: Some(Rate { bits_per_second: 500_000_000, burst_bytes: 30_000 }),
        queue: QueueLimit::Bytes(1 << 20),
        duplicate: 0.01,
        alterations: Alterations::only(Alteration::Corrupt, 0.01),
        reorder: Some(Reorder { probability: 0.01, by: Duration::from_millis(1) }),
        ..Default::default()
    });
}
