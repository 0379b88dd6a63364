//! Against a name server of the tests' own, which speaks just enough of RFC 1035 and does as it is told.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

use tempfile::TempDir;
use tokio::sync::oneshot;

use super::*;

/// A name server on a port of the loopback interface. Ends with the process; nobody asks it for longer.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

/// What it says about each name.
#[derive(Default)]
struct Zone {
    records: HashMap<String, Vec<IpAddr>>,
    /// Names whose questions of these types (1: A, 28: AAAA) it leaves unanswered.
    silent: Vec<(String, u16)>,
    /// Names whose questions of these types it refuses to serve (SERVFAIL).
    broken: Vec<(String, u16)>,
    /// Answers over UDP carry nothing but the mark that they are truncated.
    truncates: bool,
    /// Questions it has seen.
    asked: Vec<String>,
}

impl Server {
    fn start() -> Self {
        // A number that is free for one may be somebody's of the other.
        let (udp, tcp) = (0..100)
            .find_map(|_| {
                let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                let tcp = TcpListener::bind(udp.local_addr().unwrap()).ok()?;
                Some((udp, tcp))
            })
            .unwrap();
        let address = udp.local_addr().unwrap();
        let zone = Arc::<Mutex<Zone>>::default();
        let (of_udp, of_tcp) = (Arc::clone(&zone), Arc::clone(&zone));
        thread::spawn(move || {
            let mut question = [0; 1500];
            while let Ok((len, from)) = udp.recv_from(&mut question) {
                if let Some(answer) = of_udp.lock().unwrap().answer(&question[..len], true) {
                    udp.send_to(&answer, from).unwrap();
                }
            }
        });
        thread::spawn(move || {
            for stream in tcp.incoming() {
                let (mut stream, zone) = (stream.unwrap(), Arc::clone(&of_tcp));
                thread::spawn(move || {
                    let mut len = [0; 2];
                    while stream.read_exact(&mut len).is_ok() {
                        let mut question = vec![0; u16::from_be_bytes(len).into()];
                        stream.read_exact(&mut question).unwrap();
                        if let Some(answer) = zone.lock().unwrap().answer(&question, false) {
                            let framed = [&(answer.len() as u16).to_be_bytes(), answer.as_slice()].concat();
                            stream.write_all(&framed).unwrap();
                        }
                    }
                });
            }
        });
        Self { address, zone }
    }

    fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.zone.lock().unwrap().records.insert(name.into(), addresses);
    }

    fn change(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zone.lock().unwrap());
    }
}

impl Zone {
    fn answer(&mut self, question: &[u8], udp: bool) -> Option<Vec<u8>> {
        let mut at = 12;
        let mut name = String::new();
        while question[at] != 0 {
            let label = &question[at + 1..][..question[at].into()];
            name.push_str(&String::from_utf8(label.to_ascii_lowercase()).unwrap());
            name.push('.');
            at += 1 + label.len();
        }
        let kind = u16::from_be_bytes([question[at + 1], question[at + 2]]);
        let asked = &question[12..at + 5];
        self.asked.push(name.clone());
        let key = (name, kind);
        if self.silent.contains(&key) {
            return None;
        }
        let records = self.records.get(&key.0);
        let code = match records {
            _ if self.broken.contains(&key) => 2,
            None => 3,
            Some(_) => 0,
        };
        let truncated = udp && self.truncates;
        let answers: Vec<Vec<u8>> = records
            .into_iter()
            .flatten()
            .filter(|_| code == 0 && !truncated)
            .filter_map(|address| match address {
                IpAddr::V4(v4) if kind == 1 => Some(v4.octets().to_vec()),
                IpAddr::V6(v6) if kind == 28 => Some(v6.octets().to_vec()),
                _ => None,
            })
            .collect();
        let mut answer = question[..2].to_vec();
        answer.extend([0x81 | if truncated { 2 } else { 0 }, 0x80 | code, 0, 1]);
        answer.extend((answers.len() as u16).to_be_bytes());
        answer.extend([0; 4]);
        answer.extend(asked);
        for data in answers {
            answer.extend([0xc0, 12]); // the name asked for
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 0]); // class IN, TTL 0
            answer.extend((data.len() as u16).to_be_bytes());
            answer.extend(data);
        }
        Some(answer)
    }
}

/// A resolver, what it tells, and the runtime below it.
struct Fixture {
    resolver: Resolver,
    events: Receiver<Event>,
    files: TempDir,
    _runtime: oneshot::Sender<()>,
}

/// Files of the test's own, and one server. `resolv_conf`, `hosts`: what they hold, if they exist. It asks often, and
/// is patient: a server of a busy machine may take a while.
fn fixture(server: Option<&Server>, resolv_conf: Option<&str>, hosts: Option<&str>) -> Fixture {
    fixture_with(server, resolv_conf, hosts, PATIENCE, FOR_GOOD)
}

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than any test.
const FOR_GOOD: Duration = Duration::from_secs(3600);

/// The time until a silent server is given up, where that is waited for.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// The same, with times of its own.
fn fixture_with(
    server: Option<&Server>,
    resolv_conf: Option<&str>,
    hosts: Option<&str>,
    timeout: Duration,
    hold: Duration,
) -> Fixture {
    let files = TempDir::new().unwrap();
    for (file, content) in [("resolv.conf", resolv_conf), ("hosts", hosts)] {
        if let Some(content) = content {
            fs::write(files.path().join(file), content).unwrap();
        }
    }
    let options = ResolverOptions {
        nameservers: server.iter().map(|server| server.address).collect(),
        resolv_conf: files.path().join("resolv.conf"),
        hosts: files.path().join("hosts"),
        shortest: Duration::from_millis(20),
        first_retry: Duration::from_millis(20),
        last_retry: Duration::from_millis(50),
        timeout,
        hold,
        ..ResolverOptions::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    thread::spawn(move || runtime.block_on(stopped));
    let (sender, events) = channel();
    let sender = Mutex::new(sender);
    let resolver = Resolver::new(handle, options, move |event| drop(sender.lock().unwrap().send(event)));
    Fixture { resolver, events, files, _runtime: stop }
}

impl Fixture {
    fn event(&self) -> Event {
        self.events.recv_timeout(2 * PATIENCE).unwrap()
    }

    fn resolved(&self) -> (String, Vec<String>) {
        match self.event() {
            Event::Resolved { name, addresses } => (name, addresses.iter().map(IpAddr::to_string).collect()),
            other => panic!("{other:?}"),
        }
    }

    fn addresses(&self, name: &str) -> Vec<String> {
        self.resolver.addresses(name).iter().map(IpAddr::to_string).collect()
    }
}

#[test]
fn both_families_are_found_and_changes_followed() {
    let server = Server::start();
    server.set("sink.example.", &["10.9.0.2", "10.9.0.1", "fd09::1"]);
    let mut fixture = fixture(Some(&server), None, None);
    fixture.resolver.follow(["sink.example"]);
    let (name, mut addresses) = fixture.resolved();
    assert_eq!(fixture.addresses(&name), addresses);
    addresses.sort();
    assert_eq!(addresses, ["10.9.0.1", "10.9.0.2", "fd09::1"]);

    server.set("sink.example.", &["10.9.0.3"]);
    assert_eq!(fixture.resolved(), ("sink.example".into(), vec!["10.9.0.3".into()]));
    assert_eq!(fixture.addresses("sink.example"), ["10.9.0.3"]);
}

#[test]
#[ignore = "long: 6 s, of what is to go"]
fn a_silent_server_takes_no_address_away() {
    let server = Server::start();
    server.set("sink.example.", &["10.9.0.1"]);
    let mut fixture = fixture_with(Some(&server), None, None, GIVEN_UP, FOR_GOOD);
    fixture.resolver.follow(["sink.example"]);
    fixture.resolved();
    server.change(|zone| zone.silent = vec![("sink.example.".into(), 1), ("sink.example.".into(), 28)]);
    let failing = fixture.event();
    assert_eq!(failing, Event::Failing { name: "sink.example".into(), reason: "timed out".into(), kept: 1 });
    assert_eq!(failing.to_string(), "resolve sink.example: timed out (its last 1 addresses stay in use)");
    // Further failures say nothing. They are there: the server goes on being asked.
    let asked = server.zone.lock().unwrap().asked.len();
    while server.zone.lock().unwrap().asked.len() < asked + 4 {
        assert_eq!(fixture.events.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
    }
    assert_eq!(fixture.addresses("sink.example"), ["10.9.0.1"]);
    server.change(|zone| zone.silent.clear());
    assert_eq!(fixture.resolved().1, ["10.9.0.1"]);
}

#[test]
fn a_family_that_fails_keeps_its_addresses() {
    let server = Server::start();
    server.set("sink.example.", &["10.9.0.1", "fd09::1"]);
    let mut fixture = fixture(Some(&server), None, None);
    fixture.resolver.follow(["sink.example"]);
    fixture.resolved();
    server.change(|zone| zone.broken.push(("sink.example.".into(), 28)));
    server.set("sink.example.", &["10.9.0.2"]);
    let mut addresses = fixture.resolved().1;
    addresses.sort();
    assert_eq!(addresses, ["10.9.0.2", "fd09::1"]);
    server.change(|zone| zone.broken.clear());
    assert_eq!(fixture.resolved().1, ["10.9.0.2"]);
}

#[test]
fn addresses_that_are_gone_for_good_are_withdrawn() {
    let server = Server::start();
    let name = "sink.example".to_owned();
    for hold in [FOR_GOOD, Duration::from_millis(300)] {
        server.set("sink.example.", &["10.9.0.1"]);
        let mut fixture = fixture_with(Some(&server), None, None, PATIENCE, hold);
        fixture.resolver.follow(["sink.example"]);
        fixture.resolved();
        server.change(|zone| zone.records.clear());
        assert_eq!(fixture.event(), Event::Failing { name: name.clone(), reason: "no addresses".into(), kept: 1 });
        if hold == FOR_GOOD {
            assert_eq!(fixture.addresses(&name), ["10.9.0.1"]);
        } else {
            assert_eq!(fixture.event(), Event::Withdrawn { name: name.clone() });
            assert!(fixture.addresses(&name).is_empty());
        }
        server.set("sink.example.", &["10.9.0.1"]);
        assert_eq!(fixture.resolved().1, ["10.9.0.1"]);
    }
}

#[test]
fn a_name_that_does_not_resolve_yet_delays_no_other() {
    let server = Server::start();
    server.change(|zone| zone.silent = vec![("late.example.".into(), 1), ("late.example.".into(), 28)]);
    server.set("late.example.", &["10.9.0.7"]);
    server.set("prompt.example.", &["10.9.0.1"]);
    let mut fixture = fixture_with(Some(&server), None, None, GIVEN_UP, FOR_GOOD);
    fixture.resolver.follow(["late.example", "prompt.example"]);
    assert_eq!(fixture.resolved(), ("prompt.example".into(), vec!["10.9.0.1".into()]));
    assert!(matches!(fixture.event(), Event::Failing { name, kept: 0, .. } if name == "late.example"));
    assert!(fixture.addresses("late.example").is_empty());
    server.change(|zone| zone.silent.clear());
    assert_eq!(fixture.resolved(), ("late.example".into(), vec!["10.9.0.7".into()]));
}

#[test]
fn search_domains_are_those_of_resolv_conf() {
    let server = Server::start();
    server.set("sinks.logging.svc.cluster.local.", &["10.9.0.1"]);
    let conf =
        "nameserver 192.0.2.53\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n";
    let mut fixture = fixture(Some(&server), Some(conf), None);
    fixture.resolver.follow(["sinks.logging"]);
    assert_eq!(fixture.resolved(), ("sinks.logging".into(), vec!["10.9.0.1".into()]));
    // Somebody else's name behind ours does not take its place when ours fails.
    server.set("sinks.logging.cluster.local.", &["10.9.0.66"]);
    let ours = "sinks.logging.svc.cluster.local.".to_owned();
    server.change(|zone| zone.broken = vec![(ours.clone(), 1), (ours, 28)]);
    assert!(matches!(fixture.event(), Event::Failing { kept: 1, .. }));
    assert_eq!(fixture.addresses("sinks.logging"), ["10.9.0.1"]);
}

#[test]
fn truncated_answers_are_asked_for_again_over_tcp() {
    let server = Server::start();
    let many: Vec<String> = (0..500).map(|i| format!("10.9.{}.{}", i / 200, i % 200 + 1)).collect();
    server.set("pods.example.", &many.iter().map(String::as_str).collect::<Vec<_>>());
    server.change(|zone| zone.truncates = true);
    let mut fixture = fixture(Some(&server), None, None);
    fixture.resolver.follow(["pods.example"]);
    let (_, mut found) = fixture.resolved();
    found.sort();
    let mut many = many;
    many.sort();
    assert_eq!(found, many);
}

#[test]
fn the_hosts_file_counts_first_and_is_read_again() {
    let server = Server::start();
    server.set("sink.example.", &["10.9.0.9"]);
    let mut fixture = fixture(Some(&server), None, Some("10.9.0.1 sink.example\n::1 other\n"));
    fixture.resolver.follow(["Sink.example"]);
    assert_eq!(fixture.resolved().1, ["10.9.0.1"]);
    assert!(server.zone.lock().unwrap().asked.is_empty());
    // A name followed from now on sees the new file; the other when its answer has grown old.
    fs::write(fixture.files.path().join("hosts"), "10.9.0.22 sink2.example # moved\n").unwrap();
    fixture.resolver.follow(["Sink.example", "sink2.example"]);
    assert_eq!(fixture.resolved(), ("sink2.example".into(), vec!["10.9.0.22".into()]));
}

#[test]
fn without_any_file_or_server_a_name_fails_and_says_what_is_missing() {
    let fixture = fixture_with(None, None, None, GIVEN_UP, FOR_GOOD);
    let options = fixture.resolver.shared.options.clone();
    // In a network where nobody listens on port 53 of 127.0.0.1, whatever this machine runs.
    let namespace = weir_kernel::namespaces::NetNs::create().unwrap();
    let event = namespace.run(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
        let tell = move |event| drop(sender.send(event));
        let mut resolver = Resolver::new(runtime.handle().clone(), options, tell);
        resolver.follow(["sink.example"]);
        runtime.block_on(events.recv())
    });
    let failing = event.unwrap().unwrap().to_string();
    let files = fixture.files.path().display();
    assert!(failing.starts_with("resolve sink.example: "), "{failing}");
    let why =
        format!(", asking 127.0.0.1 ({files}/resolv.conf: No such file or directory (os error 2)) (still trying)");
    assert!(failing.ends_with(&why), "{failing}");
}

#[test]
fn names_that_stay_keep_their_addresses_and_others_are_forgotten() {
    let server = Server::start();
    server.set("a.example.", &["10.9.0.1"]);
    server.set("b.example.", &["10.9.0.2"]);
    let mut fixture = fixture(Some(&server), None, None);
    fixture.resolver.follow(["a.example", "b.example", "a.example"]);
    let mut first = [fixture.resolved().0, fixture.resolved().0];
    first.sort();
    assert_eq!(first, ["a.example", "b.example"]);
    // Even while no server answers.
    server.change(|zone| zone.silent = ["a.example.", "b.example."].map(|name| (name.to_owned(), 1)).to_vec());
    fixture.resolver.follow(["b.example"]);
    assert_eq!(fixture.addresses("b.example"), ["10.9.0.2"]);
    assert!(fixture.addresses("a.example").is_empty());
    fixture.resolver.follow(["a.example", "b.example"]);
    assert!(fixture.addresses("a.example").is_empty(), "followed anew");
}
