//! A guard in memory, whose board is known and whose commands change it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::guard::Denied;
use crate::journal::{Entry, WEIR, What};
use crate::model::*;
use crate::room::Commands;
use crate::room::commands::Asked;

/// As hostile as names from others can be.
pub(crate) const HOSTILE: &str = "<img src=x onerror=alert(1)>\u{1b}[2J\u{202e}gnp";

/// When the fixture's board was.
pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_403_655 + seconds)
}

/// An attack that waits for a person: DNS answers to a host.
pub(crate) fn attack(id: u64) -> Attack {
    let target = Target { prefix: "192.0.2.7/32".parse().unwrap(), group: "web".into() };
    let bare = Rule::to(target.prefix);
    let narrow =
        Rule { protocols: vec![17], source_ports: vec![Ports(53, 53)], lengths: Some((500, 65535)), ..bare.clone() };
    let share = |value: &str, share: f64| Share { value: value.into(), share };
    let point = Point { agent: "10.0.0.1".parse().unwrap(), index: 4 };
    let evidence = Evidence {
        rule: "group web, udp_amplification, 40,000 packets/s (fixed)".into(),
        threshold_packets: Some(40e3),
        packets: Rate { value: 812e3, low: 790e3, high: Some(834e3) },
        bits: Rate { value: 9.1e9, low: 8.8e9, high: Some(9.4e9) },
        log_evidence: 41.0,
        samples: 5120,
        sources: 1204,
        hosts: 1,
        points: vec![Spot { point, word: Word::Good }],
        top_sources: vec![share("203.0.113.7", 0.02), share("198.51.100.9", 0.01)],
        top_source_ports: vec![share("udp/53", 0.98)],
        top_destination_ports: vec![share("udp/40123", 0.4)],
        top_countries: vec![share("DE", 0.2), share(HOSTILE, 0.1)],
        top_asns: vec![share("64500", 0.3)],
        headers: vec!["005056000001005056000002080045000".into()],
        ..Evidence::default()
    };
    let route = Route { rule: narrow.clone(), action: Action::Drop, next_hop: None, communities: Vec::new() };
    Attack {
        id,
        detection: Detection {
            target,
            class: Class::UdpAmplification,
            first_excess: 1_000_000_000,
            decided: 1_040_000_000,
            evidence,
            rules: vec![bare, narrow],
            doubts: Vec::new(),
        },
        phase: Phase::Pending,
        began: at(0),
        last_seen: at(30),
        ended: None,
        level: Level { number: 0, routes: vec![route] },
        installed: Vec::new(),
        expires: None,
        harm: Harm { packets: 12.0, share: Some(0.004) },
        refusal: None,
        by: None,
        by_hand: false,
        was_announced: false,
        times: 0,
        peak: (
            Rate { value: 812e3, low: 790e3, high: Some(834e3) },
            Rate { value: 9.1e9, low: 8.8e9, high: Some(9.4e9) },
        ),
        curve: (0..60).map(|second| if second < 30 { 1e3 } else { 812e3 }).collect(),
    }
}

/// Two attacks, one of them doubted, and one that is over.
pub(crate) fn board() -> Board {
    let mut doubted = attack(18);
    doubted.phase = Phase::Seen;
    doubted.detection.target = Target { prefix: "2001:db8::/64".parse().unwrap(), group: "web".into() };
    let point = Point { agent: "10.0.0.9".parse().unwrap(), index: 1 };
    doubted.detection.doubts = Doubt::of(point, Word::Uncounted).into_iter().collect();
    doubted.refusal =
        Some(Refusal { limit: "max_routes", why: "4 routes would be announced, caps.routes is 3".into() });
    let mut over = attack(3);
    (over.phase, over.ended) = (Phase::Over, Some(at(20)));
    Board {
        time: at(30),
        mode: Mode::Manual,
        stopped: None,
        groups: vec![Group {
            name: "web".into(),
            networks: vec!["192.0.2.0/24".into(), "2001:db8::/48".into()],
            mode: Mode::Manual,
            thresholds: vec![Threshold {
                class: Class::UdpAmplification.name(),
                packets: Some(40e3),
                bits: None,
                learnt: false,
            }],
            hosts: 12,
        }],
        attacks: vec![Arc::new(doubted), Arc::new(attack(17))],
        history: vec![Arc::new(over)],
        speaker: Some(Speaking {
            address: "127.0.0.1:50051".into(),
            version: "gobgpd 3.10.0".into(),
            connected: true,
            since: Some(at(0)),
            why: None,
            standing: Some(1),
            settled: true,
            neighbours: vec![Neighbour { address: "192.0.2.254".parse().unwrap(), asn: 65002, state: "Established" }],
        }),
        short: Vec::new(),
        caps: Caps { max_routes: 1000, max_prefixes: 256, max_share: 0.05, max_harm: 0.2, ..Caps::default() },
        counts: Counts {
            sightings: 5120,
            alive_agents: 2,
            attacks: 3,
            doubted: [("uncounted", 1)].into(),
            ..Counts::default()
        },
    }
}

/// Guards nothing: a thread answers what it is asked, and notes it.
pub(crate) struct Fixture {
    pub(crate) commands: Commands,
    board: Show,
}

type Show = Arc<watch::Sender<Arc<Board>>>;

impl Fixture {
    pub(crate) fn new() -> Self {
        let (show, board) = watch::channel(Arc::new(board()));
        let show = Arc::new(show);
        let (commands, asked) = Commands::new(Arc::default(), board);
        commands.remember(&[Entry { attack: Some(17), ..Entry::new(at(0), WEIR, What::Detected, "") }]);
        let (board, journal) = (show.clone(), commands.clone());
        std::thread::spawn(move || {
            while let Ok(Asked::Command { command, by, answer }) = asked.recv() {
                journal.remember(&[Entry::new(at(45), &by, What::Announced, format!("{command:?}"))]);
                let _ = answer.send(done(&show, &command, &by));
            }
        });
        Self { commands, board }
    }

    /// Changes the board.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Board)) {
        self.board.send_modify(|board| change(Arc::make_mut(board)));
    }
}

fn done(board: &Show, command: &Command, by: &str) -> Result<String, Denied> {
    let with = |id: u64, change: &dyn Fn(&mut Attack) -> Result<String, Denied>| {
        let mut done = Err(Denied::Unknown(id));
        board.send_modify(|board| {
            if let Some(attack) = Arc::make_mut(board).attacks.iter_mut().find(|attack| attack.id == id) {
                done = change(Arc::make_mut(attack));
            }
        });
        done
    };
    let stop = |stopped| board.send_modify(|board| Arc::make_mut(board).stopped = stopped);
    match *command {
        Command::Approve { id } => with(id, &|attack| {
            if attack.phase != Phase::Pending {
                return Err(Denied::Refused(format!("attack {id}: its last step is announced already")));
            }
            attack.phase = Phase::Active;
            attack.installed = vec![Installed::Yes { since: at(31) }];
            (attack.by, attack.expires) = (Some(by.into()), Some(at(631)));
            Ok(format!("1 route of attack {id} is announced"))
        }),
        Command::Withdraw { id } => with(id, &|attack| {
            (attack.phase, attack.by) = (Phase::Seen, Some(by.into()));
            attack.installed.clear();
            Ok(format!("1 route of attack {id} is withdrawn"))
        }),
        Command::Extend { id, seconds } => with(id, &|attack| {
            attack.expires = Some(at(31 + seconds));
            Ok(format!("attack {id} lives for {seconds} s"))
        }),
        Command::Stop => {
            stop(Some(Stopped { by: by.into(), since: at(40) }));
            Ok("everything is withdrawn".into())
        }
        Command::Resume => {
            stop(None);
            Ok("resumed".into())
        }
        Command::Add { prefix, seconds } => Ok(format!("{prefix} for {seconds} s")),
    }
}
