//! From what is wanted to the router's kernel.

use std::time::Instant;

use weir_testbed::standstills::Standstills;

use crate::network::{Network, are_installed, blackholes, gobgpds, settings, until};

/// What issue and documentation promise, in ms.
const PROMISED: f64 = 200.0;

#[test]
#[ignore = "long: 5 s"]
fn routes_come_one_by_one_and_all_at_once() {
    for gobgpd in gobgpds() {
        let Some(network) = Network::create() else { return };
        let (Some(_gobgpd), Some(_bird)) = (network.gobgpd(gobgpd), network.bird()) else { return };
        let held = network.speaker(&settings());
        held.speaker.want(&[]);
        held.until_established();
        let mut monitor = network.monitor();

        let routes = blackholes(1000);
        let standstills = Standstills::watch();
        let mut delays: Vec<f64> = (1..=100)
            .map(|count| {
                let began = Instant::now();
                held.speaker.want(&routes[..count]);
                let wanted = routes[count - 1].rule.destination.network().to_string();
                let came = |line: &String| line.starts_with("blackhole") && line.split(' ').nth(1) == Some(&wanted);
                loop {
                    if came(&monitor.next_line().unwrap()) {
                        break standstills.running(began, Instant::now()).as_secs_f64() * 1e3;
                    }
                }
            })
            .collect();
        delays.sort_by(f64::total_cmp);
        let (median, p99) = (delays[49], delays[98]);
        held.install(&[]);
        until("withdrawn", || network.blackholes() == 0);

        let began = Instant::now();
        held.speaker.want(&routes);
        let mut came = 0;
        while came < routes.len() {
            if monitor.next_line().unwrap().starts_with("blackhole 10.9.") {
                came += 1;
            }
        }
        let all = began.elapsed().as_secs_f64() * 1e3;
        held.until("all installed", |state| are_installed(state, &routes));
        let known = began.elapsed().as_secs_f64() * 1e3;
        eprintln!(
            "{gobgpd}: to the router's kernel: one {median:.1} ms (median), {p99:.1} ms (p99); 1,000 {all:.0} ms, known here {known:.0} ms"
        );
        assert!(p99 <= PROMISED, "{gobgpd}: {p99} ms");
        held.speaker.want(&[]);
        until("withdrawn", || network.blackholes() == 0);
    }
}
