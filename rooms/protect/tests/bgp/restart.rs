//! gobgpd is killed in the middle of an attack and comes back: how long was the router without the routes?

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_protect::bgp::Settings;

use crate::capture::nlri;
use crate::network::{Network, are_installed, blackhole, blackholes, gobgpds, router, settings, until};

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

#[test]
#[ignore = "long: 10 s"]
fn a_restart_of_gobgpd_lets_nothing_through_where_neighbours_come_last() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(first), Some(_bird)) = (network.gobgpd(gobgpd, false), network.bird()) else { return };
        let Some(capture) = network.capture() else { return };
        let held = network.speaker(Settings { neighbours: vec![router()], ..settings() });
        let mut routes = blackholes(1000);
        routes.push(blackhole(&format!("{VICTIM}/32")));
        held.install(&routes);
        held.until_established();
        until("all of them", || network.blackholes() == routes.len());
        let mut again = None;
        let (count, gap) = leaked(&network, VICTIM.parse().unwrap(), || {
            drop(first);
            held.until("gone", |state| !state.is_up());
            again = network.gobgpd(gobgpd, false);
            held.until("back", |state| are_installed(state, &routes));
            held.until_established();
            // What was kept goes with the End-of-RIB: a route withdrawn after it shows that it has come.
            let fewer = &routes[1..];
            held.install(fewer);
            until("fewer", || network.blackholes() == fewer.len());
        });
        held.install(&[blackhole(LAST)]);
        let absences = capture.end(&nlri(LAST_NLRI)).absences(VICTIM);
        eprintln!(
            "{gobgpd}: killed and started: without the route {absences:?}; {count} datagrams of {RATE}/s came through, over {gap:?}"
        );
        assert_eq!((count, &absences[..]), (0, &[][..]), "{gobgpd}: over {gap:?}");
        drop(again);
    }
}

/// With the neighbour in gobgpd's own file, the session is there before the routes: the gap that the order above closes.
#[test]
#[ignore = "long: 3 s"]
fn a_restart_of_gobgpd_with_neighbours_of_its_own_is_reconciled() {
    let Some(network) = Network::create() else { return };
    let (Some(first), Some(_bird)) = (network.gobgpd("gobgpd", true), network.bird()) else { return };
    let Some(capture) = network.capture() else { return };
    let held = network.speaker(settings());
    let mut routes = blackholes(1000);
    routes.push(blackhole(&format!("{VICTIM}/32")));
    held.install(&routes);
    held.until_established();
    until("all of them", || network.blackholes() == routes.len());
    let mut again = None;
    let (count, gap) = leaked(&network, VICTIM.parse().unwrap(), || {
        drop(first);
        held.until("gone", |state| !state.is_up());
        again = network.gobgpd("gobgpd", true);
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
    drop(again);
}

/// Killed while a thousand routes are announced, again and again.
#[test]
#[ignore = "long: 3 s"]
fn a_gobgpd_that_is_killed_on_the_way_gets_all_of_them() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let Some(mut running) = network.gobgpd(gobgpd, false) else { return };
        let Some(_bird) = network.bird() else { return };
        let held = network.speaker(Settings { neighbours: vec![router()], ..settings() });
        held.speaker.want(Vec::new());
        held.until("a session", weir_protect::bgp::State::is_up);
        for round in 0..5 {
            held.speaker.want(blackholes(1000));
            thread::sleep(Duration::from_millis(4 * round));
            drop(running);
            held.until("gone", |state| !state.is_up());
            running = network.gobgpd(gobgpd, false).unwrap();
            held.until("all", |state| are_installed(state, &blackholes(1000)));
            held.speaker.want(Vec::new());
        }
        held.speaker.want(blackholes(1000));
        until("all of them", || network.blackholes() == 1000);
    }
}
