//! What really passed an interface, as a rate that is smoothed like those of flows.

use std::time::Duration;

use super::{CLASSES, Plan, Traffic};

/// Goes through the traffic of one interface, once and forward.
#[derive(Clone, Debug)]
pub(crate) struct Smoothed {
    traffic: Traffic,
    /// Time constant, s.
    t: f64,
    at: f64,
    frames: [u64; CLASSES.len()],
    rates: [f64; CLASSES.len()],
}

impl Smoothed {
    /// Of an interface, by agent and `ifIndex`. Before the start nothing passed.
    pub(crate) fn new(plan: &Plan, agent: u32, interface: u32, time_constant: Duration) -> Self {
        let traffic = plan.traffic(agent, interface);
        Self { traffic, t: time_constant.as_secs_f64(), at: 0.0, frames: Default::default(), rates: Default::default() }
    }

    /// Frames a second by class, what passed a time a ago weighing exp(-a / t) / t, up to a time in seconds since the start. Times
    /// only rise from call to call. What lies between two samples lies evenly.
    pub(crate) fn up_to(&mut self, at: f64) -> [f64; CLASSES.len()] {
        while self.traffic.next().at <= at {
            let sampled = self.traffic.take();
            self.pass(sampled.at, sampled.totals.frames);
        }
        let frames = self.traffic.totals_at(at).frames;
        self.pass(at, frames);
        self.rates
    }

    fn pass(&mut self, at: f64, frames: [u64; CLASSES.len()]) {
        let left = (-(at - self.at) / self.t).exp();
        for ((rate, before), now) in self.rates.iter_mut().zip(self.frames).zip(frames) {
            let passed = if at > self.at { (now - before) as f64 / (at - self.at) * (1.0 - left) } else { 0.0 };
            *rate = *rate * left + passed;
        }
        (self.at, self.frames) = (at, frames);
    }
}
