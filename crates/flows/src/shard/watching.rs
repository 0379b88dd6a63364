//! Thresholds in a shard: looked at where a value changes, so that a crossing is an event within the datagram's batch.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_wire::sflow::{DataSource, reason_name};

use super::Now;
use crate::agents::Moment;
use crate::counters::{Counters, Metric, Number};
use crate::events::{Crossings, Dropped, Event};
use crate::flows::{Ends, Flow};
use crate::names::{AgentId, Directory};
use crate::thresholds::{Fact, Facts, Observation, On, Rules, Watch};

/// A shard's thresholds, and where crossings are told.
#[derive(Debug)]
pub(super) struct Watching {
    pub(super) watch: Watch,
    rules: Arc<Rules>,
    /// Metrics of counters that a threshold is on.
    metrics: Vec<(&'static Metric, On)>,
    events: Arc<dyn Crossings>,
}

/// A packet that was dropped: what an event tells of it beside its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drop {
    /// Between whom it went.
    pub(super) who: Ends,
    /// `reason`.
    pub(super) reason: u32,
    /// `inputifindex`, where the device knows it.
    pub(super) input: Option<u32>,
}

impl Watching {
    pub(super) fn new(events: Arc<dyn Crossings>, limit: usize) -> Self {
        Self { watch: Watch::new(limit), rules: Arc::default(), metrics: Vec::new(), events }
    }

    /// Looks at these from now on.
    pub(super) fn adopt(&mut self, rules: Arc<Rules>) {
        self.watch.adopt(rules.clone());
        let on = |metric: &'static Metric| Some((metric, rules.on(&metric.name))).filter(|(_, on)| !on.is_empty());
        self.metrics = Metric::all().iter().filter_map(on).collect();
        self.rules = rules;
    }

    /// Whether a threshold is on a metric or flow definition of this name.
    pub(super) fn is_on(&self, name: &str) -> bool {
        !self.rules.on(name).is_empty()
    }

    /// Counters of a data source came.
    pub(super) fn counters(&mut self, who: Who<'_>, moment: &Moment, counters: &Counters, now: Now) {
        let Self { watch, metrics, events, .. } = self;
        for (metric, on) in metrics {
            let Some(Ok(reading)) = counters.read(metric, moment.now) else { continue };
            // Of another record, which came before: it was looked at then.
            let (Number::Number(value), 0) = (reading.value, reading.age) else { continue };
            let observation = Observation { agent: who.address, source: who.source, flow: None, value, decay: None };
            let known = Known { who, counters, now: moment.now };
            watch.observe(on.clone(), &observation, &known, Duration::from_nanos(now.nanos), |rule| {
                events.crossed(rule.event(now.unix_ms, &observation));
            });
        }
    }

    /// A flow changed. `decay`: the time constant of its definition.
    pub(super) fn flow(
        &mut self,
        who: Who<'_>,
        counters: &Counters,
        name: &str,
        flow: &Flow<'_>,
        drop: Option<Drop>,
        now: Now,
    ) {
        let Self { watch, rules, events, .. } = self;
        let (on, value) = (rules.on(name), flow.value());
        let decay = Some(Duration::from_secs_f64(flow.time_constant()));
        let observation = Observation { agent: who.address, source: who.source, flow: Some(flow.hash()), value, decay };
        let known = Known { who, counters, now: now.nanos };
        watch.observe(on, &observation, &known, Duration::from_nanos(now.nanos), |rule| {
            events.crossed(Event {
                drop: drop.map(|drop| dropped(who, drop)),
                flow_key: Some(flow.show()),
                ..rule.event(now.unix_ms, &observation)
            });
        });
    }
}

/// Whose value it is.
#[derive(Clone, Copy)]
pub(super) struct Who<'a> {
    pub(super) address: IpAddr,
    pub(super) id: AgentId,
    pub(super) source: DataSource,
    pub(super) names: &'a dyn Directory,
}

/// What filters of thresholds may ask.
struct Known<'a> {
    who: Who<'a>,
    counters: &'a Counters,
    now: u64,
}

impl Facts for Known<'_> {
    fn fact(&self, name: &str) -> Option<Fact<'_>> {
        let named = |name: Option<&'_ str>| name.map(|name| Fact::Text(name.to_owned().into()));
        match name {
            "agent" => return Some(Fact::Text(self.who.address.to_string().into())),
            "host_name" => return named(self.who.names.name(self.who.id)),
            "ifname" => return named(self.who.names.interface(self.who.id, self.who.source.index)),
            _ => {}
        }
        Some(self.counters.read(Metric::find(name)?, self.now)?.ok()?.value.into())
    }
}

fn dropped(who: Who<'_>, drop: Drop) -> Dropped {
    let place = drop.input.map(|index| {
        who.names
            .interface(who.id, index)
            .map_or_else(|| format!("ifIndex {index}"), |name| name.escape_debug().to_string())
    });
    Dropped {
        who: drop.who,
        why: Some(reason_name(drop.reason).map_or_else(|| drop.reason.to_string(), str::to_owned)),
        place,
    }
}
