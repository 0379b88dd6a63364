//! Plans that change under load, and the end.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use weir_testbed::network::cable;
use weir_units::Size;

use super::fixture::*;
use crate::counters::REMOVED;
use crate::plan::Plan;
use crate::settings::{Membership, Recipient, Source};
use crate::sockets::Sockets;
use crate::worker::Workers;

#[test]
fn other_options_leave_the_source_port_as_it_is() {
    let sink = sink("127.0.0.1:0");
    let base = settings(&[sink.local_addr().unwrap()]);
    let workers = start(base.clone());
    let source = source(address(&workers, 0));
    let mut senders = std::collections::BTreeSet::new();
    for round in 0..20_u8 {
        let mut other = base.clone();
        let to = &mut other.destinations[0];
        (to.dscp, to.ttl, to.send_buffer) = (Some(round), Some(round + 1), Size { bytes: u64::from(round + 1) << 14 });
        to.source = if round % 2 == 0 { Source::Own } else { Source::Proxy };
        reload(&workers, other);
        source.send(b"x").unwrap();
        senders.insert(sink.recv_from(&mut [0; 100]).unwrap().1);
    }
    assert_eq!(senders.len(), 1, "{senders:?}");
}

#[test]
fn what_stays_loses_nothing_while_others_come_and_go() {
    let sink = sink("127.0.0.1:0");
    let other = super::fixture::sink("127.0.0.1:0");
    let mut base = settings(&[sink.local_addr().unwrap()]);
    base.workers = 2;
    let mut more = settings(&[sink.local_addr().unwrap(), other.local_addr().unwrap()]);
    more.workers = 2;
    more.listeners.push(listener("127.0.0.2:0"));
    more.listeners[1].name = "second".into();
    let workers = start(base.clone());
    let to = address(&workers, 0);
    let stop = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let source = source(to);
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                // Never more on the way than the receive buffers hold.
                for _ in 0..100 {
                    source.send(&payload(number, 100)).unwrap();
                    number += 1;
                }
                for datagram in payloads(&sink, 100).iter().zip(number - 100..) {
                    assert!(*datagram.0 == payload(datagram.1, 100));
                }
            }
            number
        });
        for _ in 0..200 {
            reload(&workers, more.clone());
            reload(&workers, base.clone());
        }
        stop.store(true, Ordering::Relaxed);
        sender.join().unwrap()
    });
    let ledger = finish(&workers);
    assert_eq!(ledger.listeners[0].received.datagrams, u64::from(sent));
    assert_eq!(count(&ledger, sink.local_addr().unwrap()).sent.datagrams, u64::from(sent));
    assert_eq!(count(&ledger, sink.local_addr().unwrap()).drops.total(), 0);
    // Nothing ever came to the others: they leave no trace.
    assert_eq!(ledger.listeners.iter().filter(|listener| listener.name == "second").count(), 0);
}

/// From then on it has one socket: what came to the others before is not lost, nor what comes at that moment.
#[test]
fn a_listener_that_joins_its_first_group_loses_nothing() {
    let Some([near, _far]) = cable(1500) else { return };
    let round = |workers| {
        let sink = sink("127.0.0.1:0");
        let mut base = settings(&[sink.local_addr().unwrap()]);
        base.workers = workers;
        base.listeners[0].address = "0.0.0.0:0".parse().unwrap();
        let mut member = base.clone();
        let group = "239.1.1.1".parse().unwrap();
        member.listeners[0].groups = vec![Membership { group, source: None, interface: Some("eth0".into()) }];
        let workers = start(base);
        let to = SocketAddr::from(([127, 0, 0, 1], address(&workers, 0).port()));
        let sources: Vec<_> = (0..32).map(|_| source(to)).collect();
        let (flowing, stop) = (Barrier::new(2), AtomicBool::new(false));
        let sent = thread::scope(|scope| {
            let sender = scope.spawn(|| {
                flowing.wait();
                let mut sent = 0;
                while !stop.load(Ordering::Relaxed) {
                    for source in &sources {
                        source.send(b"x").unwrap();
                    }
                    payloads(&sink, sources.len());
                    sent += sources.len() as u64;
                }
                sent
            });
            flowing.wait();
            reload(&workers, member);
            stop.store(true, Ordering::Relaxed);
            sender.join().unwrap()
        });
        let ledger = finish(&workers);
        let listener = &ledger.listeners[0];
        assert_eq!((listener.received.datagrams, listener.kernel_drops), (sent, Some(0)));
        assert_eq!(count(&ledger, sink.local_addr().unwrap()).sent.datagrams, sent);
    };
    near.run(|| (0..50).for_each(|number| round(2 + number % 3)));
}

#[test]
fn what_was_queued_at_a_removed_listener_still_goes_where_it_should() {
    let sinks = [sink("127.0.0.1:0"), sink("127.0.0.1:0")];
    let to = sinks.each_ref().map(|sink| sink.local_addr().unwrap());
    let mut both = settings(&to);
    both.listeners.push(listener("127.0.0.2:0"));
    both.listeners[1].name = "second".into();
    both.rules = vec![rule(vec![Recipient::Destination(0)]), rule(vec![Recipient::Destination(1)])];
    both.rules[0].listeners = vec![0];
    both.rules[1].name = "of the second".into();
    both.rules[1].listeners = vec![1];
    let only = {
        let mut only = settings(&to[..1]);
        only.rules[0].listeners = vec![0];
        only
    };
    let workers = start(only.clone());
    for round in 0..50 {
        reload(&workers, both.clone());
        let source = source(address(&workers, 1));
        let sent: Vec<_> = (0..200).map(|number| payload(round * 200 + number, 50)).collect();
        for datagram in &sent {
            source.send(datagram).unwrap();
        }
        reload(&workers, only.clone());
        assert!(payloads(&sinks[1], 200) == sent);
    }
    let ledger = finish(&workers);
    let second = &ledger.listeners[1];
    assert_eq!((second.received.datagrams, second.kernel_drops), (10_000, Some(0)));
    assert_eq!((&*second.name, count(&ledger, REMOVED).sent.datagrams), (REMOVED, 10_000));
    assert_eq!(ledger.listeners[0].name, "in", "what is there comes first");
}

#[test]
fn options_of_a_listener_change_with_datagrams_in_its_queue() {
    let sink = sink("127.0.0.1:0");
    let base = settings(&[sink.local_addr().unwrap()]);
    let workers = start(base.clone());
    let source = source(address(&workers, 0));
    let before = workers.ledger().listeners[0].receive_buffer;
    for round in 0..50 {
        let mut other = base.clone();
        other.listeners[0].receive_buffer = Some((9 + round % 2) << 20);
        for number in 0..100 {
            source.send(&payload(number, 50)).unwrap();
        }
        reload(&workers, other);
        payloads(&sink, 100);
    }
    let ledger = workers.ledger();
    assert_eq!(ledger.listeners[0].asked_buffer, Some(10 << 20));
    assert!(ledger.listeners[0].receive_buffer >= before, "it never shrinks");
    let ledger = finish(&workers);
    assert_eq!(ledger.listeners[0].received.datagrams, 5_000);
    assert_eq!(ledger.listeners[0].kernel_drops, Some(0));
}

#[test]
fn what_the_kernel_had_accepted_is_sent_before_the_end() {
    let sink = sink("127.0.0.1:0");
    let mut settings = settings(&[sink.local_addr().unwrap()]);
    settings.workers = 2;
    let workers = start(settings);
    let to = address(&workers, 0);
    let (sources, count_each) = (4, 2_000);
    for _ in 0..sources {
        let source = source(to);
        for number in 0..count_each {
            source.send(&payload(number, 100)).unwrap();
        }
    }
    let ledger = finish(&workers);
    let all = u64::from(sources * count_each);
    let drops = ledger.listeners[0].kernel_drops.unwrap();
    assert_eq!(ledger.listeners[0].received.datagrams + drops, all);
    assert_eq!(count(&ledger, sink.local_addr().unwrap()).sent.datagrams, all - drops);
    payloads(&sink, (all - drops) as usize);
    assert_empty(&sink);
}

#[test]
fn an_account_closes_under_load() {
    let sinks = [sink("127.0.0.1:0"), sink("127.0.0.1:0")];
    let mut settings = settings(&sinks.each_ref().map(|sink| sink.local_addr().unwrap()));
    settings.workers = 2;
    let workers = start(settings);
    let to = address(&workers, 0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let sources: Vec<_> = (0..8).map(|_| source(to)).collect();
            while !stop.load(Ordering::Relaxed) {
                sources.iter().for_each(|source| drop(source.send(&[0; 300])));
            }
        });
        for _ in 0..500 {
            let ledger = workers.ledger();
            assert!(ledger.closed, "{ledger:#?}");
        }
        assert!(workers.is_alive(Duration::from_secs(10)));
        stop.store(true, Ordering::Relaxed);
    });
    finish(&workers);
    assert!(!workers.is_alive(Duration::ZERO));
}

#[test]
fn a_socket_that_was_handed_to_us_outlives_us() {
    let sink = sink("127.0.0.1:0");
    let bound = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = bound.local_addr().unwrap();
    let mut settings = settings(&[sink.local_addr().unwrap()]);
    settings.workers = 2;
    settings.listeners[0].address = to;
    for round in 0..3 {
        let source = source(to);
        source.send(&[round]).unwrap();
        let handed = OwnedFd::from(bound.try_clone().unwrap());
        let plan = Plan::build(settings.clone().into(), &Default::default(), None);
        let sockets = Sockets::open(&plan, vec![handed], None).unwrap();
        let workers = Workers::start(plan, sockets).unwrap();
        assert_eq!(payloads(&sink, 1), [[round]]);
        finish(&workers);
    }
    source(to).send(b"to whoever is next").unwrap();
    assert_eq!(bound.recv(&mut [0; 64]).unwrap(), 18);
}

#[test]
fn an_address_that_another_program_uses_is_not_shared() {
    let options = weir_dgram::Options { reuse_port: true, ..Default::default() };
    let other = weir_dgram::Socket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
    let mut settings = settings(&[]);
    settings.workers = 2;
    settings.listeners[0].address = other.local_addr();
    let plan = Plan::build(settings.into(), &Default::default(), None);
    let error = Sockets::open(&plan, Vec::new(), None).unwrap_err().to_string();
    assert!(error.contains("address already in use"), "{error}");
}
