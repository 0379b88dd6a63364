//! Whether destinations live: who is probed, and what of that is news for the log.

use std::collections::HashMap;
use std::net::SocketAddr;

use tokio::runtime::Handle;

use crate::health::probe::{Prober, Target};
use crate::health::{Change, Observer};
use crate::plan::{Outlet, Plan};

/// Probes the addresses of the plan in force, and looks at all verdicts.
pub(super) struct Verdicts {
    prober: Prober,
    observers: HashMap<(String, Option<SocketAddr>), Observer>,
}

impl Verdicts {
    /// Probes run on `runtime`.
    pub(super) fn new(runtime: Handle) -> Self {
        Self { prober: Prober::new(runtime), observers: HashMap::new() }
    }

    /// Probes what this plan wants probed and nothing else.
    pub(super) fn follow(&mut self, plan: &Plan) {
        let target = |outlet: &Outlet| Target::of(&outlet.settings, outlet.address?, &outlet.health);
        for unprobed in self.prober.follow(plan.outlets.iter().filter_map(target)) {
            tracing::warn!("{unprobed}");
        }
    }

    /// Tells what has changed since the last look.
    pub(super) fn look(&mut self, plan: &Plan) {
        let key = |outlet: &Outlet| (outlet.settings.name.clone(), outlet.address);
        let mut before = std::mem::take(&mut self.observers);
        for outlet in &plan.outlets {
            let mut observer = before.remove(&key(outlet)).unwrap_or_default();
            let change = observer.look(&outlet.health);
            self.observers.insert(key(outlet), observer);
            let Some(change) = change else { continue };
            let name = match outlet.address {
                Some(address) if address.to_string() != outlet.settings.name => {
                    format!("{} {address}", outlet.settings.name)
                }
                _ => outlet.settings.name.clone(),
            };
            match change {
                Change::Down(_) | Change::Still(_) | Change::Flapped(_) => {
                    tracing::warn!("destination {name}: {change}");
                }
                Change::Up => tracing::info!("destination {name}: {change}"),
            }
        }
    }
}
