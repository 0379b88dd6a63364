//! Whether destinations live: who is probed, and what of that is news for the log.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::Handle;
use weir_kernel::icmp;

use crate::health::probe::{Prober, Target};
use crate::health::{Change, Health, Observer};
use crate::plan::{Outlet, Plan};

/// Probes the addresses of the plan in force, and looks at all verdicts.
pub(super) struct Verdicts {
    prober: Prober,
    /// Of the outlets of the plan that was followed last, in their order.
    observers: Vec<(Arc<Health>, Observer)>,
}

impl Verdicts {
    /// Probes run on `runtime`.
    pub(super) fn new(runtime: Handle) -> Self {
        Self { prober: Prober::new(runtime), observers: Vec::new() }
    }

    /// Probes what this plan wants probed and nothing else.
    pub(super) fn follow(&mut self, plan: &Plan) {
        let target = |outlet: &Outlet| Target::of(&outlet.settings, outlet.address?, &outlet.health);
        for unprobed in self.prober.follow(plan.outlets.iter().filter_map(target)) {
            tracing::warn!("{unprobed}");
        }
        let strays = icmp::strays();
        // What stays in a plan keeps its health.
        let mut before: HashMap<_, _> =
            self.observers.drain(..).map(|(health, observer)| (Arc::as_ptr(&health), observer)).collect();
        self.observers.extend(plan.outlets.iter().map(|outlet| {
            let observer = before.remove(&Arc::as_ptr(&outlet.health)).unwrap_or_else(|| {
                if let Some(strays) = strays {
                    outlet.health.note_strays(strays);
                }
                Observer::default()
            });
            (Arc::clone(&outlet.health), observer)
        }));
    }

    /// Tells what has changed since the last look at this plan, which is the one followed last.
    pub(super) fn look(&mut self, plan: &Plan) {
        let strays = icmp::strays();
        for (outlet, (health, observer)) in plan.outlets.iter().zip(&mut self.observers) {
            if let Some(strays) = strays {
                health.note_strays(strays);
            }
            if observer.begins_to_disbelieve(health) {
                tracing::warn!(
                    "destination {}: reports that it cannot be reached are not believed, for many come about what was never \
                     sent from here: somebody forges them (who: `tcpdump icmp or icmp6`)",
                    name(outlet)
                );
            }
            let Some(change) = observer.look(health) else { continue };
            let name = name(outlet);
            match change {
                Change::Down(_) | Change::Still(_) | Change::Flapped(_) => {
                    tracing::warn!("destination {name}: {change}");
                }
                Change::Up => tracing::info!("destination {name}: {change}"),
            }
        }
    }
}

/// A destination's name, and its address where that is another.
fn name(outlet: &Outlet) -> String {
    match outlet.address {
        Some(address) if address.to_string() != outlet.settings.name => format!("{} {address}", outlet.settings.name),
        _ => outlet.settings.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::thread::yield_now;
    use std::time::{Duration, Instant};

    use socket2::{Domain, Protocol, Socket, Type};
    use weir_testbed::network::on_loopback;

    use super::super::plan;
    use super::*;

    /// Has a message come that is about nobody, for its checksum is wrong; tells how many that are.
    fn stray() -> Option<u64> {
        let before = icmp::strays();
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).unwrap();
        socket.send_to(&[0; 8], &SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let start = Instant::now();
        while icmp::strays() == before {
            assert!(start.elapsed() < Duration::from_secs(20));
            yield_now();
        }
        icmp::strays()
    }

    #[test]
    fn what_came_before_a_destination_was_there_says_nothing_about_it_and_what_came_since_does() {
        let text = |to: &str| format!("listener = [{{ address = \"127.0.0.1:5000\" }}]\ndestination = [{to}]");
        let earlier =
            |plan: &Plan| plan.outlets.iter().map(|outlet| outlet.health.earlier_strays()).collect::<Vec<_>>();
        on_loopback(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut verdicts = Verdicts::new(runtime.handle().clone());
            let at_first = stray();
            let first = plan(&text("{ to = \"127.0.0.1:1\" }"), None);
            verdicts.follow(&first);
            assert_eq!(earlier(&first), [at_first]);
            let at_second = stray();
            let second = plan(&text("{ to = \"127.0.0.1:1\" }, { to = \"127.0.0.1:2\" }"), Some(&first));
            verdicts.follow(&second);
            assert_eq!(earlier(&second), [at_first, at_second], "one that stays keeps what it had");
            stray();
            verdicts.look(&second);
            assert_eq!(earlier(&second), [at_first, at_second]);
        });
    }
}
