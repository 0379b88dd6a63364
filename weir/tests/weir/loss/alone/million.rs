//! A million datagrams to three receivers of a group, of which one is slow.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use super::super::scene::grown;
use super::super::{Following, Ledger, Reader, Scene};
use crate::network::Host;

#[test]
fn one_of_three_receivers_stalls() {
    stalls(100_000);
}

#[test]
#[ignore = "long: 15 s"]
fn one_of_three_receivers_of_a_million_stalls() {
    stalls(1_000_000);
}

fn stalls(datagrams: u64) {
    let Some((mut scene, [second, slow])) = Scene::with(["sender", "receiver", "second", "slow"]) else { return };
    let (group, _) = scene.groups();
    let member = |host: &Host| {
        let socket = host.run(|| UdpSocket::bind((group, scene.port))).unwrap();
        socket.join_multicast_v4(&group, &host.v4).unwrap();
        socket
    };
    let fast = [&scene.receiver, &second].map(|host| {
        let socket = member(host);
        setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20)).unwrap();
        Reader::start(socket)
    });
    let stalling = member(&slow);
    stalling.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let speaker = scene.speaker();
    let (ends, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = slow.counters();
    let port = scene.port.to_string();
    let namespaces = [&scene.sender.ns, &scene.receiver.ns, &second.ns, &slow.ns];
    let following = Following::start(&["--port", &port, "--group", &group.to_string()], &namespaces);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2000];
            loop {
                let over = ends.load(Ordering::SeqCst);
                match stalling.recv(&mut buffer) {
                    Ok(_) if taken.fetch_add(1, Ordering::SeqCst) % 20_000 == 0 => thread::sleep(STALL),
                    Ok(_) => {}
                    // Silence, and nothing more to come since before it.
                    Err(_) if over => return,
                    Err(_) => {}
                }
            }
        });
        setsockopt(&speaker, sockopt::UdpGsoSegment, &100).unwrap();
        let deadline = Instant::now() + PATIENCE;
        for call in 0..datagrams / SEGMENTS {
            let sent = call * SEGMENTS;
            while fast.iter().any(|reader| sent > reader.count() + WINDOW) {
                assert!(Instant::now() < deadline, "a fast receiver has lost some");
                thread::sleep(Duration::from_micros(200));
            }
            speaker.send_to(&[0; 100 * SEGMENTS as usize], (group, scene.port)).unwrap();
        }
        fast.iter().for_each(|reader| reader.await_count(datagrams));
        ends.store(true, Ordering::SeqCst);
    });
    let received = taken.load(Ordering::SeqCst);
    let lost = grown(&slow, &before, "Udp", "RcvbufErrors");
    assert_eq!(received + lost, datagrams);
    assert!(lost > 0, "it was never too slow");
    let account = following.end().traced();
    let of = |host: &Host| {
        account.all_of(scene.port).into_iter().find(|ledger| ledger.namespace() == u64::from(host.ns.inode().unwrap()))
    };
    let of = |host: &Host| of(host).unwrap_or_else(|| panic!("no ledger of {} in {:#}", host.name, account.0));
    assert_eq!(account.ledgers().len(), 3, "{:#}", account.0);
    of(&scene.receiver).closes(datagrams, datagrams, &[]);
    of(&second).closes(datagrams, datagrams, &[]);
    let ledger = of(&slow);
    ledger.closes(datagrams, received, &[("receive_buffer", lost)]);
    stalled(&ledger);
}

/// Its reader's stall is named as the reason, as long as it was at least.
#[track_caller]
fn stalled(ledger: &Ledger) {
    let longest = ledger.0["level"]["longest_stall_ms"].as_f64().unwrap();
    assert!(longest >= STALL.as_secs_f64() * 1000.0, "{longest} ms of {:#}", ledger.0);
    let explanation = ledger.0["explanation"].as_array().unwrap();
    assert!(explanation.iter().any(|line| line.as_str().unwrap().contains("did not read for")), "{explanation:?}");
}

/// In one call.
const SEGMENTS: u64 = 8;
/// So far the sender may be ahead of the fast receivers: for three receivers, fewer buffers than a processor's backlog
/// holds (net.core.netdev_max_backlog, 1000).
const WINDOW: u64 = 2_000;
/// For all of it.
const PATIENCE: Duration = Duration::from_secs(120);
const STALL: Duration = Duration::from_millis(40);
