mod by_hand;
mod doubts;
mod life;
mod limits;
mod properties;
mod restarts;
mod rules;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipnet::IpNet;

use super::*;
use crate::config::{self, Context};
use crate::journal::{Entry, What};
use crate::model::*;
use crate::settings::Settings;

/// A guard in a time of its own, and a traffic of which a bare rule hits everything and any other this share; not a number: nothing is
/// known of it.
pub(super) struct Scene {
    pub(super) guard: Guard,
    pub(super) now: Now,
    pub(super) harm: f64,
    /// All lines so far.
    pub(super) entries: Vec<Entry>,
}

struct Usual(f64);

impl Traffic for Usual {
    fn harm(&self, _: &IpNet, rule: &Rule) -> Harm {
        if self.0.is_nan() {
            return Harm::default();
        }
        let share = if rule.is_bare() { 1.0 } else { self.0 };
        Harm { packets: share * 1_000.0, share: Some(share) }
    }
}

pub(super) const AUTOMATIC: &str = r#"
    agents = ["10.0.0.1"]
    mode = "automatic"
    journal = "/tmp/journal"
    [speaker]
    gobgp = "127.0.0.1:50051"
    next_hop = "198.51.100.1"
    [groups.web]
    networks = ["192.0.2.0/24", "2001:db8::/48"]
    [groups.web.thresholds.udp_flood]
    packets = "40k/s"
    [[groups.web.levels]]
    action = "limit"
    rate = "10mbit"
    [[groups.web.levels]]
    action = "drop"
    after = "10s"
    harm = "100%"
"#;

pub(super) fn settings(text: &str) -> Arc<Settings> {
    let document = toml::from_str(text).unwrap();
    let context = Context { file: None, at: "protect", interfaces: &|_| Vec::new(), serves: true };
    Arc::new(config::settings(&document, &context).unwrap())
}

/// A flood of this many packets a second, from UDP port 53.
pub(super) fn detection(prefix: &str, packets: f64) -> Detection {
    let prefix: IpNet = prefix.parse().unwrap();
    let bare = Rule::to(prefix);
    let narrow = Rule { protocols: vec![17], source_ports: vec![Ports(53, 53)], ..bare.clone() };
    let rate = Rate { value: packets, low: packets * 0.9, high: Some(packets * 1.1) };
    Detection {
        target: Target { prefix, group: "web".into() },
        class: Class::UdpFlood,
        first_excess: 0,
        decided: 0,
        evidence: Evidence { packets: rate, threshold_packets: Some(40e3), ..Evidence::default() },
        rules: vec![bare, narrow],
        doubts: Vec::new(),
    }
}

impl Scene {
    pub(super) fn new(text: &str) -> Self {
        let now = Now { nanos: SECOND, wall: UNIX_EPOCH + Duration::from_secs(1_800_000_000) };
        Self { guard: Guard::new(settings(text)), now, harm: 0.0, entries: Vec::new() }
    }

    pub(super) fn flood(&mut self, detection: Detection) {
        self.guard.finding(Finding::Flood(Box::new(detection)), &Usual(self.harm), self.now);
        self.settle();
    }

    pub(super) fn over(&mut self, prefix: &str) {
        let target = Target { prefix: prefix.parse().unwrap(), group: "web".into() };
        let over = Finding::Over { target, class: Class::UdpFlood, last: self.now.nanos };
        self.guard.finding(over, &Usual(self.harm), self.now);
        self.settle();
    }

    pub(super) fn ask(&mut self, command: &Command) -> Result<(), String> {
        let done = self.guard.command(command, "anna", &Usual(self.harm), self.now);
        self.settle();
        done.map_err(|denied| denied.to_string())
    }

    /// Lets seconds pass, a tenth at a time.
    pub(super) fn pass(&mut self, seconds: f64) {
        for _ in 0..(seconds * 10.0).round() as u64 {
            self.now.nanos += SECOND / 10;
            self.now.wall += Duration::from_millis(100);
            self.guard.tick(&Usual(self.harm), self.now);
        }
        self.settle();
    }

    /// A flood goes on for so many seconds, and is told of.
    pub(super) fn go_on(&mut self, detection: &Detection, seconds: f64) {
        for _ in 0..(seconds / 10.0) as u64 {
            self.flood(detection.clone());
            self.pass(10.0);
        }
        self.flood(detection.clone());
        self.pass(seconds % 10.0);
    }

    pub(super) fn adopt(&mut self, text: &str) {
        self.guard.adopt(&settings(text), &Usual(self.harm), self.now);
        self.settle();
    }

    fn settle(&mut self) {
        self.entries.extend(self.guard.take_entries());
    }

    /// The one attack that goes on.
    #[track_caller]
    pub(super) fn attack(&self) -> Attack {
        let board = self.guard.board(Vec::new(), None, Counts::default(), self.now);
        assert_eq!(board.attacks.len(), 1, "{board:#?}");
        (*board.attacks[0]).clone()
    }

    pub(super) fn whats(&self) -> Vec<What> {
        self.entries.iter().map(|entry| entry.what).collect()
    }

    pub(super) fn wanted(&self) -> Vec<String> {
        let text = |route: &Route| {
            let rule = if route.rule.is_bare() { "" } else { " narrow" };
            format!("{:?} {}{rule}", route.action, route.rule.destination)
        };
        self.guard.wanted().iter().map(text).collect()
    }

    pub(super) fn limit(&self) -> Option<&'static str> {
        self.attack().refusal.map(|refusal| refusal.limit)
    }
}
