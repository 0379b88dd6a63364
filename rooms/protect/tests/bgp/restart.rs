//! gobgpd is killed in the middle of an attack and comes back: how long was the router without the routes?

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::capture::nlri;
use crate::network::{Network, are_installed, blackhole, blackholes, gobgpds, settings, until};

/// Datagrams a second, to the victim.
const RATE: u32 = 1000;

const VICTIM: &str = "10.9.2.7";

/// By this one it is seen that all before has been told.
const LAST: &str = "10.9.7.77/32";
const LAST_NLRI: [u8; 4] = [10, 9, 7, 77];

/// What came through of a stream of datagrams to a victim, while something was done: how many, and from the first to the last.
fn leaked(network: &Network, target: IpAddr, what: impl FnOnce()) -> (usize, Duration) {
    let receiver = network.victim.run(|| UdpSocket::bind((target, 9)).unwrap()).unwrap();
    let sender = network.attacker.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let stop = AtomicBool::new(false);
    let is_over = || stop.load(Ordering::Relaxed);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over() {
                // The router may say that there is no way.
                drop(sender.send_to(b"flood", SocketAddr::new(target, 9)));
                thread::sleep(Duration::from_secs(1) / RATE);
            }
        });
        let receiving = scope.spawn(|| {
            let mut times = Vec::new();
            while !is_over() {
                if receiver.recv(&mut [0; 9]).is_ok() {
                    times.push(Instant::now());
                }
            }
            times
        });
        what();
        stop.store(true, Ordering::Relaxed);
        let times = receiving.join().unwrap();
        let gap = times.first().map_or(Duration::ZERO, |first| times[times.len() - 1].duration_since(*first));
        (times.len(), gap)
    })
}

/// The session is there before the routes: they are back in about a second.
#[test]
#[ignore = "long: 3 s"]
fn a_restart_of_gobgpd_is_reconciled() {
    let Some(network) = Network::create() else { return };
    let (Some(first), Some(_bird)) = (network.gobgpd("gobgpd"), network.bird()) else { return };
    let Some(capture) = network.capture() else { return };
    let held = network.speaker(&settings());
    let mut routes = blackholes(1000);
    routes.push(blackhole(&format!("{VICTIM}/32")));
    held.install(&routes);
    held.until_established();
    until("all of them", || network.blackholes() == routes.len());
    let mut again = None;
    let (count, gap) = leaked(&network, VICTIM.parse().unwrap(), || {
        drop(first);
        held.until("gone", |state| !state.speaking.connected);
        again = network.gobgpd("gobgpd");
        held.until("back", |state| are_installed(state, &routes));
        held.until_established();
        until("all of them", || network.blackholes() == routes.len());
    });
    held.install(&[blackhole(LAST)]);
    let absences = capture.end(&nlri(LAST_NLRI)).absences(VICTIM);
    eprintln!(
        "neighbour in gobgpd's file: without the route {absences:?}; {count} datagrams of {RATE}/s came through, over {gap:?}"
    );
    // The reading is able to see one.
    assert!(absences.len() == 1 && (absences[0] > gap / 2 || gap.is_zero()), "{absences:?}, {gap:?}");
    assert!(absences[0] < Duration::from_secs(2), "{absences:?}");
    drop(again);
}

/// Killed while a thousand routes are announced, again and again.
#[test]
#[ignore = "long: 3 s"]
fn a_gobgpd_that_is_killed_on_the_way_gets_all_of_them() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let Some(mut running) = network.gobgpd(gobgpd) else { return };
        let Some(_bird) = network.bird() else { return };
        let held = network.speaker(&settings());
        held.speaker.want(&[]);
        held.until("a session", |state| state.speaking.connected);
        for round in 0..5 {
            held.speaker.want(&blackholes(1000));
            thread::sleep(Duration::from_millis(4 * round));
            drop(running);
            held.until("gone", |state| !state.speaking.connected);
            running = network.gobgpd(gobgpd).unwrap();
            held.until("all", |state| are_installed(state, &blackholes(1000)));
            held.speaker.want(&[]);
        }
        held.speaker.want(&blackholes(1000));
        until("all of them", || network.blackholes() == 1000);
    }
}
