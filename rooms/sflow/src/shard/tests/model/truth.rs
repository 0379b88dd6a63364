//! What really passed an interface: its traffic again, from the same seed.

use super::{Plan, Totals, Traffic};

/// Goes through the traffic of one interface, once and forward.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    traffic: Traffic,
    /// The number of the last sample that was taken, from 1; 0: none.
    taken: u64,
    totals: Totals,
}

impl Truth {
    /// Of an interface, by agent and `ifIndex`.
    pub(crate) fn new(plan: &Plan, agent: u32, interface: u32) -> Self {
        Self { traffic: plan.traffic(agent, interface), taken: 0, totals: Totals::default() }
    }

    /// Everything up to a flow sample by its `sequence_number`, itself included. Numbers only rise from call to call.
    pub(crate) fn up_to_sample(&mut self, sequence: u32) -> Totals {
        while self.taken < u64::from(sequence) {
            self.totals = self.traffic.take().totals;
            self.taken += 1;
        }
        self.totals
    }

    /// Everything up to a time, in seconds since the start. Times only rise from call to call.
    pub(crate) fn up_to_time(&mut self, at: f64) -> Totals {
        while self.traffic.next().at <= at {
            self.totals = self.traffic.take().totals;
            self.taken += 1;
        }
        self.traffic.totals_at(at)
    }
}
