//! Host names: one that does not resolve yet delays nothing, every address gets a copy, and a change counts after its
//! TTL.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use super::datagrams::{Sink, send_all, source};
use super::network::{Host, await_that, network};
use super::{Tee, program};
use crate::WEIR;

#[test]
fn a_name_is_followed_to_all_its_addresses() {
    let Some(unshare) = program("unshare") else { return };
    let Some([client, host, dns, live, a, b, c]) = network(["client", "tee", "dns", "live", "a", "b", "c"]) else {
        return;
    };
    let [live, a, b, c] = [&live, &a, &b, &c].map(|host| Sink::bind(host, host.at(5000)));
    let address = |sink: &Sink| match sink.address.ip() {
        std::net::IpAddr::V4(address) => address,
        other => panic!("{other}"),
    };
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("resolv.conf"), format!("nameserver {}\noptions timeout:1\n", dns.v4)).unwrap();
    fs::write(dir.path().join("tee.toml"), CONFIGURATION).unwrap();
    let server = NameServer::start(&dns);
    // In a tree of mounts of its own: nobody else sees another resolv.conf.
    let script = "mount --bind \"$1/resolv.conf\" /etc/resolv.conf && exec \"$0\" tee --json -c \"$1/tee.toml\"";
    let mut command = Command::new(unshare);
    command.args(["--mount", "sh", "-c", script, &WEIR]).arg(dir.path()).stdin(Stdio::null());
    let tee = Tee::ready(&host, command, dir);

    let socket = source(&client, client.at(0));
    let send = |text: &str, sinks: &[&Sink]| {
        let payloads: Vec<Vec<u8>> = (0..1000).map(|number| format!("{text} {number}").into_bytes()).collect();
        send_all(&socket, host.at(5000), &payloads, sinks);
    };
    // The server says nothing yet.
    send("unresolved", &[&live]);
    assert_eq!(live.take(1000).len(), 1000);
    await_that("a question", || server.questions() > 0);
    assert_eq!(a.count(), 0);

    // Each address has to be reached by a marker before it can miss nothing.
    let mut markers = 0;
    let mut mark = |sinks: &[&Sink]| {
        await_that("the name to resolve", || {
            send_all(&socket, host.at(5000), &[b"marker".to_vec()], &[&live]);
            markers += 1;
            sinks.iter().all(|sink| sink.count() > 0)
        });
        // One behind the last: whatever was sent before has come.
        let last = format!("marker {markers}").into_bytes();
        socket.send_to(&last, host.at(5000)).unwrap();
        markers += 1;
        [&[&live][..], sinks].concat().iter().for_each(|sink| sink.await_payload(&last));
    };
    server.answer(&[address(&a), address(&b)]);
    mark(&[&a, &b]);
    send("two", &[&live, &a, &b]);

    server.answer(&[address(&b), address(&c)]);
    mark(&[&c]);
    mark(&[&b, &c]);
    send("changed", &[&live, &b, &c]);

    // Silence again: what was known stays.
    server.answer(&[]);
    let asked = server.questions();
    await_that("another question", || server.questions() > asked);
    send("kept", &[&live, &b, &c]);
    let came = |sink: &Sink| {
        let payloads = sink.payloads(0);
        ["two", "changed", "kept"]
            .map(|text| payloads.iter().filter(|payload| payload.starts_with(text.as_bytes())).count())
    };
    assert_eq!([came(&a), came(&b), came(&c)], [[1000, 0, 0], [1000, 1000, 1000], [0, 1000, 1000]]);

    let account = tee.end();
    let total = 4000 + markers;
    assert_eq!((account.received(), account.sent("live")), ((total, 0), total));
    // Before there was an address, each datagram was one copy that could not go anywhere.
    let unresolved = account.drops("pods");
    assert!(
        matches!(unresolved[..], [("unresolved", count)] if (1000..1000 + markers).contains(&count)),
        "{account:?}"
    );
}

const CONFIGURATION: &str = r#"
listener = [{ address = "0.0.0.0:5000" }]
destination = [{ name = "live", to = "10.0.0.4:5000" },
               { name = "pods", to = "pods.example.test:5000", addresses = "all" }]
"#;

/// A name server that has one name, with a TTL of a second. With no addresses it does not answer at all.
struct NameServer {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    addresses: Mutex<Vec<Ipv4Addr>>,
    questions: Mutex<usize>,
    ends: AtomicBool,
}

impl NameServer {
    fn start(host: &Host) -> NameServer {
        let socket = host.run(|| UdpSocket::bind((host.v4, 53))).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let state = Arc::new(State::default());
        let thread = thread::spawn({
            let state = Arc::clone(&state);
            move || state.serve(&socket)
        });
        NameServer { state, thread: Some(thread) }
    }

    fn answer(&self, addresses: &[Ipv4Addr]) {
        *self.state.addresses.lock().unwrap() = addresses.to_vec();
    }

    /// How many questions have been asked.
    fn questions(&self) -> usize {
        *self.state.questions.lock().unwrap()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

impl State {
    fn serve(&self, socket: &UdpSocket) {
        let mut buffer = [0; 1500];
        while !self.ends.load(Ordering::Relaxed) {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
            *self.questions.lock().unwrap() += 1;
            let addresses = self.addresses.lock().unwrap().clone();
            if !addresses.is_empty() {
                let _ = socket.send_to(&answer(&buffer[..length], &addresses), from);
            }
        }
    }
}

/// An answer to a query (RFC 1035, section 4.1): the addresses for type A, none for others.
fn answer(query: &[u8], addresses: &[Ipv4Addr]) -> Vec<u8> {
    let name = query[12..].iter().position(|&byte| byte == 0).unwrap();
    let question = &query[12..12 + name + 5];
    let addresses = if question[name + 1..name + 3] == [0, 1] { addresses } else { &[] };
    // Response, authoritative, recursion desired and available; one question.
    let mut message =
        [&query[..2], &[0x85, 0x80, 0, 1, 0, u8::try_from(addresses.len()).unwrap(), 0, 0, 0, 0]].concat();
    message.extend(question);
    for address in addresses {
        // The question's name, type A, class IN, TTL 1 s, 4 bytes.
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        message.extend(address.octets());
    }
    message
}
