//! Whether destinations live: who is probed, and what of that is news for the log.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::probe::{Prober, Target};
use weir_forward::health::{Change, Health, Observer};
use weir_forward::plan::{Outlet, Plan};

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
        // What stays in a plan keeps its health.
        let mut before: HashMap<_, _> =
            self.observers.drain(..).map(|(health, observer)| (Arc::as_ptr(&health), observer)).collect();
        self.observers.extend(plan.outlets.iter().map(|outlet| {
            let observer = before.remove(&Arc::as_ptr(&outlet.health)).unwrap_or_default();
            (Arc::clone(&outlet.health), observer)
        }));
    }

    /// Tells what has changed since the last look at this plan, which is the one followed last.
    pub(super) fn look(&mut self, plan: &Plan) {
        for (outlet, (health, observer)) in plan.outlets.iter().zip(&mut self.observers) {
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
