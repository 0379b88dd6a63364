//! Several links in one thread: they come and go without disturbing one another.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use weir_emulator::datapath::{Emulator, EmulatorSettings};
use weir_emulator::ledger::{Ledger, LinkReport};
use weir_emulator::model::{Impairments, Loss};

use crate::network::{Network, assert_sound, network, settled};

/// A socket on host a that sends to one on host b.
pub(crate) fn sockets(network: &Network) -> (UdpSocket, UdpSocket) {
    let receiver = network.b.run(|| UdpSocket::bind((network.b.v4, 0))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // A receiver whose processor stands still loses nothing, where that is allowed.
    let _ = setsockopt(&receiver, sockopt::RcvBufForce, &(4 << 20));
    let sender = network.a.run(|| UdpSocket::bind((network.a.v4, 0))).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

/// Packets received from a host's sockets, and not from its kernel.
fn data(ledger: &Ledger) -> u64 {
    ledger.received - ledger.control
}

pub(crate) fn received(count: u64) -> impl Fn(&LinkReport) -> bool {
    move |report| data(&report.forward.ledger) == count
}

#[test]
fn links_come_and_go_while_others_carry() {
    let (Some(steady), Some(fickle)) = (network(), network()) else {
        return;
    };
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    let delay = Impairments { delay: Duration::from_millis(1), ..Default::default() };
    let link = steady.attach(&emulator, &delay, &delay);
    let (sender, receiver) = sockets(&steady);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..1000u32 {
                sender.send(&number.to_be_bytes()).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        scope.spawn(|| {
            let (sender, receiver) = sockets(&fickle);
            for _ in 0..20 {
                let link = fickle.attach(&emulator, &delay, &delay);
                sender.send(b"through").unwrap();
                assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), 7);
                let report = emulator.detach(link).unwrap();
                assert_sound(&report.forward.ledger);
                assert_eq!(data(&report.forward.ledger), 1);
                assert!(emulator.detach(link).is_err(), "it is gone");
            }
        });
        let mut bytes = [0; 100];
        for number in 0..1000u32 {
            assert_eq!(receiver.recv(&mut bytes).unwrap(), 4);
            assert_eq!(bytes[..4], number.to_be_bytes());
        }
    });
    let report = settled(&emulator, link, received(1000));
    assert_sound(&report.forward.ledger);
}

#[test]
fn what_waits_when_a_link_ends_is_in_flight() {
    let Some(network) = network() else { return };
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    let slow = Impairments { delay: Duration::from_secs(60), ..Default::default() };
    let link = network.attach(&emulator, &slow, &slow);
    let (sender, _receiver) = sockets(&network);
    for _ in 0..10 {
        sender.send(b"never arrives").unwrap();
    }
    while data(&emulator.report(link).unwrap().forward.ledger) < 10 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let ledger = emulator.detach(link).unwrap().forward.ledger;
    assert_sound(&ledger);
    assert_eq!((ledger.in_flight, ledger.delivered), (10 + ledger.control, 0));
}

#[test]
fn packets_without_memory_are_counted() {
    let Some(network) = network() else { return };
    let settings = EmulatorSettings { pool_bytes: 200_000, ..EmulatorSettings::default() };
    let emulator = Emulator::spawn(settings).unwrap();
    let slow = Impairments { delay: Duration::from_secs(60), ..Default::default() };
    let link = network.attach(&emulator, &slow, &slow);
    let (sender, _receiver) = sockets(&network);
    for _ in 0..500 {
        sender.send(&[0; 100]).unwrap();
    }
    while data(&emulator.report(link).unwrap().forward.ledger) < 500 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let report = emulator.detach(link).unwrap();
    // Of 64 slots the hosts' kernels may have taken some, for reports of their own.
    let (forward, backward) = (report.forward.ledger, report.backward.ledger);
    assert_eq!((forward.unexplained(), backward.unexplained()), (0, 0));
    assert_eq!(forward.in_flight + backward.in_flight, 64, "{report:#?}");
    assert!(forward.buffer_dropped >= 436, "{report:#?}");
}

#[test]
fn an_interface_that_is_down_refuses_and_nothing_else_suffers() {
    let (Some(broken), Some(sound)) = (network(), network()) else {
        return;
    };
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    let plain = Impairments::default();
    let (dead, alive) = (broken.attach(&emulator, &plain, &plain), sound.attach(&emulator, &plain, &plain));
    let (lost, _) = sockets(&broken);
    let (sender, receiver) = sockets(&sound);
    broken.set_down(&broken.b);
    for number in 0..200u32 {
        lost.send(&number.to_be_bytes()).unwrap();
        sender.send(&number.to_be_bytes()).unwrap();
        assert_eq!(receiver.recv(&mut [0; 100]).unwrap(), 4);
    }
    let ledger = settled(&emulator, dead, received(200)).forward.ledger;
    // A report of the kernel's own may have passed before.
    assert!(ledger.send_failed >= 200 && ledger.delivered <= ledger.control, "{ledger:#?}");
    assert_eq!(ledger.unexplained(), 0);
    assert_sound(&settled(&emulator, alive, received(200)).forward.ledger);
}

#[test]
fn membership_reports_are_control_and_never_dropped() {
    let Some(network) = network() else { return };
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    let nothing_passes = Impairments { loss: Loss::Bernoulli(1.0), ..Default::default() };
    let link = network.attach(&emulator, &nothing_passes, &nothing_passes);
    let Network { a, .. } = &network;
    let member = a.run(|| UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 5000)))).unwrap();
    let std::net::IpAddr::V4(own) = a.v4 else { panic!() };
    member.join_multicast_v4(&Ipv4Addr::new(239, 1, 2, 3), &own).unwrap();
    let (sender, _receiver) = sockets(&network);
    sender.send(b"lost").unwrap();
    let ledger =
        settled(&emulator, link, |report| report.forward.ledger.control >= 1 && report.forward.ledger.lost >= 1)
            .forward
            .ledger;
    assert_sound(&ledger);
    assert_eq!(ledger.delivered, ledger.control, "{ledger:#?}");
    assert_eq!(ledger.lost, 1);
}

#[test]
fn ending_the_emulator_ends_its_thread() {
    let Some(network) = network() else { return };
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    let plain = Impairments::default();
    network.attach(&emulator, &plain, &plain);
    drop(emulator);
    // A joined thread stays in /proc for the moment that the kernel takes to release it.
    let deadline = Instant::now() + Duration::from_secs(5);
    while threads() > before {
        assert!(Instant::now() < deadline, "left behind");
        std::thread::yield_now();
    }
    // Its descriptors are closed: the ports can be attached anew.
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    network.attach(&emulator, &plain, &plain);
}
