//! Floods of hosts and of the prefix around them at once: with what finds them, in a time of its own.

use weir_testbed::random::Source;

use super::*;
use crate::detect::{self, Detector};
use crate::evidence::{self, Counts as Counted, Exporter, Heard};

const HOST: &str = "192.0.2.7/32";

/// What finds, what decides, and a speaker that takes what it is asked for, or not.
struct Scenery {
    scene: Scene,
    detector: Detector,
    random: Source,
    speaker: Speaker,
    /// Whether the speaker takes routes for prefixes.
    takes: bool,
}

#[derive(Default)]
struct Speaker(Vec<Route>);

impl Announcer for Speaker {
    fn want(&mut self, routes: &[Route]) {
        self.0 = routes.to_vec();
    }

    fn installed(&self, route: &Route) -> Installed {
        if self.0.contains(route) { Installed::Yes { since: UNIX_EPOCH } } else { Installed::Waiting }
    }

    fn speaking(&self) -> Speaking {
        Speaking::default()
    }

    fn version(&self) -> u64 {
        0
    }
}

const BLACKHOLE: &str = r#"
    agents = ["10.0.0.1"]
    mode = "automatic"
    journal = "/tmp/journal"
    [ttl]
    hysteresis = "1s"
    [speaker]
    gobgp = "127.0.0.1:50051"
    next_hop = "198.51.100.1"
    [groups.web]
    networks = ["192.0.2.0/24"]
    thresholds.udp_flood.packets = "4k/s"
    levels = [{ action = "blackhole", harm = "100%" }]
"#;

impl Scenery {
    fn new(text: &str) -> Self {
        let scene = Scene::new(text);
        let threshold = detect::Threshold::packets(Class::UdpFlood, 4_000.0);
        let networks = vec!["192.0.2.0/24".parse().unwrap()];
        let group = detect::Group { name: "web".into(), networks, thresholds: vec![threshold] };
        let agent: IpAddr = [10, 0, 0, 1].into();
        let agents = vec![Exporter { agent: "10.0.0.1/32".parse().unwrap(), from: None, sub_agents: None }];
        let evidence = evidence::Settings { agents, ..evidence::Settings::default() };
        let mut detector =
            Detector::new(detect::Settings { groups: vec![group], evidence, ..detect::Settings::default() });
        let (time, stream) = (scene.now.nanos, Stream::default());
        detector.agent(&Heard { time, agent, stream, from: agent, trouble: None, pause: 0, is_known: false });
        detector.counters(&counted(time.saturating_sub(20 * SECOND), time));
        Self { scene, detector, random: Source(7), speaker: Speaker::default(), takes: true }
    }

    /// Lets tenths of a second pass, in which the host gets so many packets a second, and 64 others that many together.
    fn pass(&mut self, tenths: u64, host: u64, others: u64) {
        const ONE_IN: u64 = 50;
        for _ in 0..tenths {
            let samples = (host + others) / 10 / ONE_IN;
            for number in 0..samples {
                let is_host = self.random.number(0..host + others) < host;
                let last = if is_host { 7 } else { 64 + self.random.number(0..64) as u8 };
                let port = if is_host { 53 } else { 123 };
                let packet = Packet {
                    source: std::net::Ipv4Addr::from(0x3000_0000 + self.random.number(0..5_000) as u32).into(),
                    destination: [192, 0, 2, last].into(),
                    protocol: 17,
                    transport: Some(Transport::Udp { source: port, destination: 4_000 }),
                    fragment: false,
                    length: 900,
                    dscp: 0,
                };
                let time = self.scene.now.nanos + number * SECOND / 10 / samples;
                let (point, stream) = (Point { agent: [10, 0, 0, 1].into(), index: 1 }, Stream::default());
                let (ingress, frames) = (Some(true), ONE_IN as f64);
                let (kept, ago) = (0, [0; 2]);
                self.detector.sample(&Sighting {
                    time,
                    kept,
                    ago,
                    point,
                    stream,
                    ingress,
                    frames,
                    packet,
                    header: &[],
                });
                self.find();
            }
            self.scene.now.nanos += SECOND / 10;
            self.scene.now.wall += Duration::from_millis(100);
            if self.scene.now.nanos.is_multiple_of(SECOND) {
                self.detector.counters(&counted(self.scene.now.nanos - SECOND, self.scene.now.nanos));
            }
            self.detector.shield(self.scene.guard.shields(self.scene.now));
            self.detector.tick(self.scene.now.nanos, 0);
            self.find();
            self.scene.guard.tick(&Usual(1.0), self.scene.now);
            self.scene.settle();
            let takes = |route: &Route| self.takes || route.rule.destination.prefix_len() == 32;
            let wanted: Vec<Route> = self.scene.guard.wanted().into_iter().filter(takes).collect();
            self.speaker.want(&wanted);
            self.scene.guard.look(&self.speaker, self.scene.now);
        }
    }

    fn find(&mut self) {
        for finding in self.detector.take_findings() {
            self.scene.guard.finding(finding, &Usual(1.0), self.scene.now);
        }
    }

    /// Targets of attacks, with where they stand and what is against it.
    fn attacks(&self) -> Vec<(String, Phase, Option<&'static str>)> {
        let board = self.scene.guard.board(Vec::new(), None, Counts::default(), self.scene.now);
        let shown = |attack: &Arc<Attack>| {
            let limit = attack.refusal.as_ref().map(|refusal| refusal.limit);
            (attack.detection.target.prefix.to_string(), attack.phase, limit)
        };
        board.attacks.iter().map(shown).collect()
    }

    fn of_host(&self) -> Option<Phase> {
        self.attacks().iter().find(|attack| attack.0 == HOST).map(|attack| attack.1)
    }

    fn has_wide(&self, phase: Phase, limit: Option<&str>) -> bool {
        self.attacks().iter().any(|attack| attack.0 != HOST && attack.1 == phase && attack.2 == limit)
    }

    /// Approves of what waits.
    fn approve(&mut self, is_wide: bool) {
        let board = self.scene.guard.board(Vec::new(), None, Counts::default(), self.scene.now);
        let mut waiting = board.attacks.iter().filter(|attack| attack.phase == Phase::Pending);
        let is_meant = |attack: &&Arc<Attack>| (attack.detection.target.prefix.prefix_len() < 32) == is_wide;
        let id = waiting.find(is_meant).map(|attack| attack.id).unwrap();
        self.scene.ask(&Command::Approve { id }).unwrap();
    }

    #[track_caller]
    fn assert_host_stays(&mut self, tenths: u64, host: u64, others: u64) {
        for tenth in 0..tenths {
            self.pass(1, host, others);
            assert!(self.scene.wanted().contains(&format!("Blackhole {HOST}")), "after {tenth}: {:?}", self.attacks());
        }
    }
}

/// Counters that allow for anything.
fn counted(from: u64, to: u64) -> Counted {
    let (point, stream) = (Point { agent: [10, 0, 0, 1].into(), index: 1 }, Stream::default());
    Counted { point, stream, from, to, packets: [1e9; 2], bits: [1e13; 2], speed: None }
}

fn with(mode: &str, share: &str, dir: &tempfile::TempDir) -> String {
    let tokens = dir.path().join("tokens");
    std::fs::write(&tokens, "anna act 0123456789abcdef0123456789abcdef\n").unwrap();
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = BLACKHOLE.replace("automatic", mode);
    format!("{text}\n[caps]\nshare = \"{share}\"\n[access]\ntokens = {tokens:?}\n")
}

/// What an attacker may do on purpose: a carpet around the host, against which nothing may be done, does not end its protection.
#[test]
fn a_carpet_that_is_refused_does_not_end_the_protection_of_a_host_within() {
    let dir = tempfile::tempdir().unwrap();
    for mode in ["automatic", "manual"] {
        for host_first in [true, false] {
            let mut scenery = Scenery::new(&with(mode, "5%", &dir));
            let (host, others) = (12_000, 80_000);
            if host_first {
                scenery.pass(30, host, 0);
            } else {
                scenery.pass(30, 0, others);
                assert!(scenery.has_wide(Phase::Seen, Some("max_share")), "{:?}", scenery.attacks());
                scenery.pass(30, host, others);
            }
            if mode == "manual" {
                assert_eq!(scenery.of_host(), Some(Phase::Pending), "{:?}", scenery.attacks());
                scenery.approve(false);
            }
            // Longer than a flood that is not seen has to be quiet, and than its route stays.
            scenery.assert_host_stays(130, host, others);
            assert!(scenery.has_wide(Phase::Seen, Some("max_share")), "{:?}", scenery.attacks());
            // The carpet ends, and the host's flood goes on.
            scenery.assert_host_stays(130, host, 0);
            scenery.pass(140, 0, 0);
            assert!(scenery.scene.wanted().is_empty() && scenery.attacks().is_empty(), "{:?}", scenery.attacks());
        }
    }
}

/// One answer for all is enough, once it is there and as long as it is.
#[test]
fn a_carpet_takes_in_its_hosts_when_its_own_route_is_in_force() {
    let dir = tempfile::tempdir().unwrap();
    for mode in ["automatic", "manual"] {
        let mut scenery = Scenery::new(&with(mode, "100%", &dir));
        scenery.takes = false;
        let (host, others) = (12_000, 80_000);
        scenery.pass(30, host, 0);
        if mode == "manual" {
            scenery.approve(false);
            scenery.assert_host_stays(50, host, others);
            scenery.approve(true);
        }
        scenery.assert_host_stays(130, host, others);
        assert!(scenery.has_wide(Phase::Active, None), "{:?}", scenery.attacks());
        scenery.takes = true;
        scenery.pass(30, host, others);
        assert_eq!(scenery.of_host(), None, "{:?}", scenery.attacks());
        assert!(scenery.has_wide(Phase::Active, None), "{:?}", scenery.attacks());
        assert_eq!(scenery.scene.wanted().len(), 1, "{:?}", scenery.scene.wanted());
        // A person thinks better of it.
        let board = scenery.scene.guard.board(Vec::new(), None, Counts::default(), scenery.scene.now);
        scenery.scene.ask(&Command::Withdraw { id: board.attacks[0].id }).unwrap();
        scenery.pass(10, host, others);
        let expected = if mode == "manual" { Phase::Pending } else { Phase::Active };
        assert_eq!(scenery.of_host(), Some(expected), "{:?}", scenery.attacks());
        if mode == "automatic" {
            assert_eq!(scenery.scene.wanted(), [format!("Blackhole {HOST}")]);
            // What was only folded in was not hit again.
            assert!(scenery.scene.entries.iter().all(|entry| entry.times.unwrap_or_default() == 0));
        }
    }
}

/// A prefix that is attacked, and protected, becomes part of a wider one for which there is no room.
#[test]
fn an_attack_that_widens_beyond_a_cap_keeps_what_it_has() {
    let mut scene = Scene::new(&format!("{BLACKHOLE}\n[caps]\nshare = \"30%\"\n"));
    let (narrow, wide) = ("192.0.2.64/26", "192.0.2.0/25");
    scene.flood(detection(narrow, 900e3));
    assert_eq!(scene.wanted(), ["Blackhole 192.0.2.64/26"]);
    scene.pass(5.0);
    scene.flood(detection(wide, 900e3));
    let over = |scene: &mut Scene, prefix: &str, widened: Option<&str>| {
        let target = Target { prefix: prefix.parse().unwrap(), group: "web".into() };
        let widened = widened.map(|prefix| prefix.parse().unwrap());
        let (class, last) = (Class::UdpFlood, scene.now.nanos);
        scene.guard.finding(Finding::Over { target, class, last, is_hearsay: false, widened }, &Usual(0.0), scene.now);
    };
    over(&mut scene, narrow, Some(wide));
    for _ in 0..100 {
        scene.pass(1.0);
        scene.flood(detection(wide, 900e3));
        assert_eq!(scene.wanted(), ["Blackhole 192.0.2.64/26"]);
    }
    over(&mut scene, wide, None);
    scene.pass(5.0);
    assert!(scene.wanted().is_empty() && !scene.guard.is_busy());
}

/// Routes of hosts leave their room to that of the prefix around them.
#[test]
fn a_carpet_has_the_room_of_its_hosts() {
    let mut scene = Scene::new(&format!("{BLACKHOLE}\n[caps]\nshare = \"30%\"\nprefixes = 4\n"));
    for host in 64..80 {
        scene.flood(detection(&format!("192.0.2.{host}/32"), 900e3));
    }
    assert_eq!(scene.wanted().len(), 4);
    scene.flood(detection("192.0.2.64/26", 900e3));
    assert_eq!(scene.wanted(), ["Blackhole 192.0.2.64/26"]);
}
