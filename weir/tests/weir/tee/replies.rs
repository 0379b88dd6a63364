//! Answers of a destination find their way back to whoever asked, and to nobody else.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ipnet::IpNet;
use weir_testbed::PATIENCE;

use super::Tee;
use super::datagrams::source;
use super::network::{Host, await_that, network};

/// Answers each question with who asked, as far as it can tell, and the question.
struct Server {
    socket: Arc<UdpSocket>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(host: &Host, address: SocketAddr) -> Server {
        let socket = Arc::new(host.run(|| UdpSocket::bind(address)).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (socket, ends) = (Arc::clone(&socket), Arc::clone(&ends));
            move || {
                let mut question = [0; 65_536];
                while !ends.load(Ordering::Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut question) else { continue };
                    let answer = [format!("{from} ").as_bytes(), &question[..length]].concat();
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Server { socket, ends, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A client that hears one address alone.
fn client(host: &Host, from: SocketAddr, to: SocketAddr) -> UdpSocket {
    let socket = source(host, from);
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Asks, and returns as whom the server knows this client.
#[track_caller]
fn ask(client: &UdpSocket, question: &str) -> SocketAddr {
    client.send(question.as_bytes()).unwrap();
    let mut bytes = [0; 2048];
    let length = client.recv(&mut bytes).unwrap();
    let answer = String::from_utf8(bytes[..length].to_vec()).unwrap();
    let (known, rest) = answer.split_once(' ').unwrap();
    assert_eq!(rest, question);
    known.parse().unwrap()
}

#[track_caller]
fn assert_silent(client: &UdpSocket) {
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::WouldBlock);
    client.set_nonblocking(false).unwrap();
}

fn configuration(more: &str) -> String {
    format!(
        "workers = 2\nlistener = [{{ name = \"in\", address = \"[::]:5000\" }}]\n\
         destination = [{{ name = \"a\", to = \"10.0.0.3:5000\", replies = true{more} }}]"
    )
}

#[test]
fn each_client_gets_its_own_answers_from_where_it_asked() {
    let Some([clients, host, a]) = network(["client", "tee", "a"]) else { return };
    // An address that the kernel would not choose to answer from.
    let mut netlink = host.netlink();
    let eth0 = netlink.link("eth0").unwrap().index;
    netlink.add_address(eth0, "10.0.0.77/24".parse::<IpNet>().unwrap()).unwrap();
    let server = Server::start(&a, a.at(5000));
    let mut tee = Tee::configured(&host, &configuration(""));
    let asked: [SocketAddr; 3] = [host.at(5000), "10.0.0.77:5000".parse().unwrap(), host.at6(5000)];
    let those: Vec<UdpSocket> = (0..12)
        .map(|number| {
            let to = asked[number % 3];
            client(&clients, if to.is_ipv4() { clients.at(0) } else { clients.at6(0) }, to)
        })
        .collect();
    let mut known = Vec::new();
    for round in 0..5 {
        for (number, client) in those.iter().enumerate() {
            let as_whom = ask(client, &format!("{round} {number}"));
            assert_eq!(as_whom.ip(), host.v4);
            match known.get(number) {
                None => known.push(as_whom),
                Some(before) => assert_eq!(*before, as_whom, "a session stays"),
            }
        }
    }
    let mut ports = known.clone();
    ports.sort();
    ports.dedup();
    assert_eq!(ports.len(), those.len(), "a port for each client");

    // A stranger who knows the port, and another port of the destination's own host, have no say.
    let strangers = [source(&clients, clients.at(0)), source(&a, a.at(0))];
    for as_whom in &known {
        for stranger in &strangers {
            stranger.send_to(b"forged", as_whom).unwrap();
        }
    }
    // Of the destination, nobody else could; it may speak first as well.
    server.socket.send_to(b"late", known[7]).unwrap();
    let mut bytes = [0; 16];
    assert_eq!(those[7].recv(&mut bytes).unwrap(), 4);
    those.iter().for_each(assert_silent);

    // Other options leave sessions as they are.
    tee = tee.reload(&configuration(", dscp = 46, sessions = 500"));
    assert_eq!(ask(&those[0], "again"), known[0]);
    let sessions = |ledger: &serde_json::Value, name: &str| {
        let mut destinations = ledger["destinations"].as_array().unwrap().iter();
        destinations.find(|to| to["name"] == name).unwrap()["replies"]["sessions"].as_u64()
    };
    assert_eq!(sessions(&tee.ledger(), "a"), Some(12));
    // Without the destination there are none.
    tee = tee.reload(&configuration("").replace("\"a\"", "\"other\""));
    assert_eq!(sessions(&tee.ledger(), "(removed)"), Some(0));
    let account = tee.end();
    let replies = &account.entry("destinations", "(removed)")["replies"];
    let of = |name: &str| replies[name].as_u64().unwrap();
    assert_eq!((&replies["received"]["datagrams"], &replies["returned"]["datagrams"]), (&62.into(), &62.into()));
    assert_eq!(["dropped", "opened", "aged", "evicted", "failed"].map(of), [0, 12, 0, 0, 0]);
    assert_eq!(account.sent("(removed)"), 61);
}

#[test]
fn sessions_are_bounded_and_age() {
    let Some([clients, host, a]) = network(["client", "tee", "a"]) else { return };
    let _server = Server::start(&a, a.at(5000));
    // Longer than the machine stands still from one question to the next.
    let few = ", sessions = 3, session_timeout = \"3s\"";
    let mut tee = Tee::configured(&host, &configuration(few).replace("workers = 2", "workers = 1"));
    let those: Vec<UdpSocket> = (0..20).map(|_| client(&clients, clients.at(0), host.at(5000))).collect();
    let known: Vec<SocketAddr> = those.iter().map(|client| ask(client, "who am I")).collect();
    assert_eq!(ask(&those[19], "still"), known[19]);
    // The first has made room for others long ago, and is served all the same.
    ask(&those[0], "again");
    let mut replies = serde_json::Value::Null;
    await_that("sessions to age", || {
        let ledger = tee.ledger();
        replies = ledger["destinations"][0]["replies"].clone();
        replies["sessions"] == 0
    });
    let of = |name: &str| replies[name].as_u64().unwrap();
    let (opened, aged, evicted) = (of("opened"), of("aged"), of("evicted"));
    assert!(opened >= 21 && opened == aged + evicted && evicted >= 1 && aged >= 1, "{replies:#}");
    assert_eq!(replies["returned"]["datagrams"], 22, "{replies:#}");
    tee.end();
}

/// As a resolver does: each client asks once, so that no session sends after its question was refused.
#[test]
fn a_closed_port_is_found_though_each_session_asks_once() {
    let Some([clients, host, _a, b]) = network(["client", "tee", "a", "b"]) else { return };
    let _server = Server::start(&b, b.at(5000));
    let tee = Tee::configured(
        &host,
        r#"
        workers = 2
        listener = [{ address = "0.0.0.0:5000" }]
        destination = [
            { name = "a", to = "10.0.0.3:5000", replies = true },
            { name = "b", to = "10.0.0.4:5000", replies = true },
        ]
        group = [{ name = "group", policy = "failover", members = ["a", "b"] }]
        "#,
    );
    await_that("the second member to answer", || {
        let client = client(&clients, clients.at(0), host.at(5000));
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        client.send(b"question").unwrap();
        client.recv(&mut [0; 64]).is_ok()
    });
    let account = tee.end();
    assert!(account.entry("destinations", "a")["icmp_errors"].as_u64() > Some(1), "{account:?}");
}
