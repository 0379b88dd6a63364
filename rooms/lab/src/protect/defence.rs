//! What is put to the test: the analyser's shard and the room that protects, as `weir sflow serve` starts them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use ipnet::IpNet;
use weir_program::clock::{Nanos, now};
use weir_protect::config::{self, Context, document::Document};
use weir_protect::journal::{Entry, What};
use weir_protect::model::{Attack, Mode};
use weir_protect::room::{Room, Started};
use weir_protect::settings::Settings;
use weir_sflow::config::Config;
use weir_sflow::shard::{Names, Now, Shards};
use weir_wire::sflow::Datagram;

use super::schedule::{BENIGN, Flood, LISTED, Schedule};
use crate::endpoints::{joined, spawn};
use crate::scenario::Protect;
use crate::sflow::Analysis;

/// A shard, and the room behind its queue.
pub struct Defence {
    schedule: Schedule,
    shards: Shards,
    room: Room,
    events: Arc<Mutex<Vec<Event>>>,
}

/// Something that the room did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Event {
    /// When.
    pub(super) at: Nanos,
    /// What.
    pub(super) what: What,
    /// About whom.
    pub(super) target: IpNet,
    /// When the first sample above the threshold had come.
    pub(super) first_excess: Nanos,
    /// How many routes it is about.
    pub(super) routes: usize,
}

impl Defence {
    /// `from`: where agents' datagrams come from. `realtime`: the thread that decides runs as those that carry do; else they would leave it what
    /// is left of the processors.
    pub(super) fn start(schedule: &Schedule, from: IpAddr, realtime: bool) -> Result<Self> {
        let mut settings = Config::read("no configuration", "")?.settings;
        settings.carrier.workers = 1;
        let shards = Shards::new(&settings, Names::read(&settings)?);
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let told = events.clone();
        let listener = move |entry: &Entry, attack: Option<&Attack>| {
            let Some(target) = &entry.target else { return };
            let first_excess = attack.map_or(0, |attack| attack.detection.first_excess);
            let (what, routes) = (entry.what, entry.routes.len());
            let event = Event { at: now(), what, target: target.prefix, first_excess, routes };
            told.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        };
        let settings = Arc::new(settings_of(&schedule.settings, &schedule.floods(), from)?);
        let start = || Room::start(&settings, 1, None, Some(Box::new(listener)));
        // It is of its starter's kind.
        let started = thread::scope(|scope| joined(spawn(scope, realtime, None, start)));
        let Started { room, outlets } = started?;
        shards.protect(outlets);
        Ok(Self { schedule: schedule.clone(), shards, room, events })
    }

    /// Ends the room: what it did, in order.
    pub(super) fn finish(self) -> Vec<Event> {
        drop(self.room);
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Analysis for Defence {
    fn take(&mut self, bytes: &[u8], peer: SocketAddr, at: Nanos) -> Option<(u32, u32)> {
        let datagram = Datagram::parse(bytes).ok()?;
        let IpAddr::V4(address) = datagram.agent else { return None };
        self.shards.work(0).datagram(bytes, peer, Now { nanos: at, unix_ms: 0 });
        Some((self.schedule.agent(address, datagram.sequence)?, datagram.sequence))
    }

    fn look(&mut self, _: Nanos) {}
}

/// As a configuration would have it, in automatic mode. There is neither a journal nor a speaker: it is measured until a route is
/// wanted. Each target is a network of its own: neighbours that are flooded one after another would soon be one attack on the prefix
/// around them, whose route then covers those that come after.
pub(super) fn settings_of(protect: &Protect, floods: &[Flood], from: IpAddr) -> Result<Settings> {
    let Protect { threshold, false_alarms, .. } = protect;
    let targets: String = floods.iter().map(|flood| format!(", \"{}\"", flood.target)).collect();
    let text = format!(
        r#"agents = ["{LISTED} from {from}"]
        false_alarms = "{false_alarms}"
        caps = {{ routes = 10000, prefixes = 10000, share = "100%" }}
        [groups.hosts]
        networks = ["{BENIGN}"{targets}]
        thresholds.udp_flood.packets = "{threshold}"
        [[groups.hosts.levels]]
        action = "drop"
        harm = "100%""#
    );
    let document: Document = toml::from_str(&text).context("what is protected")?;
    let context = Context { file: None, at: "protect", interfaces: &|_| Vec::new(), serves: true };
    let mut settings = config::settings(&document, &context).context("protect")?;
    settings.mode = Mode::Automatic;
    settings.groups.values_mut().for_each(|group| group.mode = Mode::Automatic);
    Ok(settings)
}
