//! Whoever asks is answered, whatever others hold open; and who does not go on is ended.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weir_kernel::limits::ensure_file_descriptors;
use weir_testbed::{Started, http};

use crate::network::{Host, network};
use crate::weir;

const PAGE: u16 = 5180;
const ADMIN: u16 = 9514;

/// A server of pages on a host.
fn serve(host: &Host) -> (Started, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("monitor.toml");
    let text =
        format!("http = \"0.0.0.0:{PAGE}\"\nadmin = \"0.0.0.0:{ADMIN}\"\n[[listen]]\naddress = \"127.0.0.1:5110\"\n");
    fs::write(&file, text).unwrap();
    (host.run(|| Started::ready(weir(&["monitor", "serve", "-c", file.to_str().unwrap()]))), dir)
}

#[test]
fn thousands_of_connections_hold_up_nobody() {
    let Some([server, clients, gone]) = network(["server", "clients", "gone"]) else { return };
    ensure_file_descriptors(4000).unwrap();
    let (mut serving, _dir) = serve(&server);
    let ask = |port, path| clients.run(|| http::get(server.at(port), path));
    let is_served = || {
        assert_eq!((ask(ADMIN, "/healthz").body, ask(PAGE, "/events").status), ("ok\n".to_owned(), 200));
    };
    // To the page and to the admin address in turn.
    let open = |host: &Host| -> Vec<TcpStream> {
        let open = |port| TcpStream::connect(server.at(port)).unwrap();
        host.run(|| (0..5).flat_map(|_| [open(PAGE), open(ADMIN)]).collect())
    };
    let (mut idle, mut slow, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..100 {
        idle.extend(open(&clients));
        slow.extend(open(&clients));
        lost.extend(open(&gone));
        is_served();
    }
    // Their ends are told to nobody.
    let mut netlink = gone.netlink();
    let eth0 = netlink.link("eth0").unwrap().index;
    netlink.set_down(eth0).unwrap();
    for byte in b"GET" {
        // Most have been closed.
        slow.iter_mut().for_each(|stream| _ = stream.write(&[*byte]));
        is_served();
        sleep(Duration::from_secs(1));
    }
    let page = &ask(PAGE, "/ledger").json()["page"];
    assert!(page["connections_ended_full"].as_u64() >= Some(1500 - 256), "{page}");
    drop((idle, slow, lost));
    is_served();
    assert_eq!(serving.end().status, Some(0));
}

/// Each kind of client that does not go on, and one whose host goes without a word.
#[test]
#[ignore = "long: 35 s"]
fn what_does_not_go_on_ends() {
    let Some([server, clients, gone]) = network(["server", "clients", "gone"]) else { return };
    let (mut serving, _dir) = serve(&server);
    let open = |host: &Host, port, text: &str| {
        let mut stream = host.run(|| TcpStream::connect(server.at(port)).unwrap());
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let sockets = || {
        let open = fs::read_dir(format!("/proc/{}/fd", serving.pid())).unwrap();
        open.filter(|file| {
            let target = fs::read_link(file.as_ref().unwrap().path()).unwrap_or_default();
            target.to_string_lossy().starts_with("socket:")
        })
        .count()
    };
    let before = sockets();
    let begun = Instant::now();
    let whole = "GET /channels HTTP/1.1\r\nHost: a\r\n\r\n";
    let upgrade = "GET /live HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut held = Vec::new();
    for host in [&clients, &gone] {
        for port in [PAGE, ADMIN] {
            held.extend(["", "GET /", whole].map(|text| open(host, port, text)));
        }
        held.push(open(host, PAGE, upgrade));
    }
    // Each of them is there before one host goes.
    let mut first = [0];
    [2, 5, 6, 9, 12, 13].iter().for_each(|&at| held[at].read_exact(&mut first).unwrap());
    let mut netlink = gone.netlink();
    let eth0 = netlink.link("eth0").unwrap().index;
    netlink.set_down(eth0).unwrap();
    // Heads have 10 s, and so has what nobody acknowledges; who follows and says nothing has 30 s.
    while sockets() > before {
        assert!(begun.elapsed() < Duration::from_secs(45), "{} are open", sockets() - before);
        sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() > Duration::from_secs(30));
    assert_eq!(serving.end().status, Some(0));
}
