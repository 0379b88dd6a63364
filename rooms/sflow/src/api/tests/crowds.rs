//! Many clients, slow ones, and much work: nobody holds up the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::api::fixture::{Asked, Small, ask, get, serve, serve_at, serve_with};
use crate::api::{Settings, server};
use weir_service::http::{Limits, Serving};

#[test]
fn long_work_leaves_a_thread_to_others() {
    let (small, serving) = serve();
    let held = small.gate.lock().unwrap();
    let asked: Vec<Asked> = (1..5)
        .map(|most| ask(&serving, "GET", &format!("/activeflows/ALL/tcp/json?maxFlows={most}"), "", ""))
        .collect();
    while small.ranked.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
    let version = ask(&serving, "GET", "/version", "", "");
    version.0.get_ref().set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    assert_eq!(version.reply().status, 200);
    assert_eq!(small.ranked.load(Ordering::Relaxed), 1);
    drop(held);
    for asked in asked {
        assert_eq!(asked.reply().status, 200);
    }
}

/// A page about many agents is made beside the thread that serves all connections.
#[test]
fn a_page_that_takes_long_holds_up_nobody() {
    for target in ["/prometheus/metrics/ALL/ifinoctets/txt", "/dump/ALL/ifinoctets/json", "/table/ALL/ifinoctets/json"]
    {
        let (small, serving) = serve();
        let held = small.gate.lock().unwrap();
        let asked: Vec<Asked> = (0..3).map(|_| ask(&serving, "GET", target, "", "")).collect();
        while small.looked.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        let version = ask(&serving, "GET", "/version", "", "");
        version.0.get_ref().set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        assert_eq!(version.reply().status, 200, "{target}");
        assert_eq!(small.looked.load(Ordering::Relaxed), 1, "{target}");
        drop(held);
        for asked in asked {
            let reply = asked.reply();
            assert!(reply.status == 200 && reply.body.contains("ifinoctets"), "{reply:?}");
        }
    }
}

fn serve_limited(limits: Limits) -> Serving {
    let server = server::bind("127.0.0.1:0".parse().unwrap()).unwrap().with(limits);
    let small = Arc::new(Small::default());
    serve_at(server, small, Settings::default())
}

#[test]
fn silent_and_slow_clients_hold_nothing() {
    let serving = serve_limited(Limits { connections: 4, patience: Duration::from_secs(1000), ..Limits::PAGE });
    let mut stream = ask(&serving, "GET", "/events/stream?eventID=6", "", "");
    stream.head();
    let mut silent: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(serving.local_addr()).unwrap()).collect();
    assert_eq!(get(&serving, "/version").status, 200);
    // The oldest that did not wait had to go; whoever follows a stream still does.
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    assert!(String::from_utf8(stream.chunk()).unwrap().starts_with("id: 7\n"));

    // Longer than a machine stands still between a connection and its request.
    let serving = serve_limited(Limits { connections: 4, patience: Duration::from_millis(500), ..Limits::PAGE });
    let mut half = TcpStream::connect(serving.local_addr()).unwrap();
    half.write_all(b"PUT /flow/x/json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{").unwrap();
    let mut answer = Vec::new();
    let _ = half.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains(" 204 "));
    // Who does not read what is large is ended, too; who asks has the time to.
    let server = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let limits = Limits { connections: 4, patience: Duration::from_secs(2), ..Limits::PAGE };
    let large = Arc::new(Small { more: 200_000, ..Small::default() });
    let unread = serve_at(server.with(limits), large, Settings::default());
    let mut asked = ask(&unread, "GET", "/agents/json", "", "");
    asked.head();
    while unread.connections() > 0 {
        thread::yield_now();
    }
    let mut rest = Vec::new();
    let _ = asked.0.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"}\n\r\n0\r\n\r\n"), "all {} bytes came", rest.len());
    // A long poll is no standstill.
    let begin = Instant::now();
    assert_eq!(get(&serving, "/events/json?eventID=7&timeout=1").body, "[]");
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[test]
fn what_is_too_long_is_refused() {
    let (_, serving) = serve();
    let reply = {
        let mut stream = TcpStream::connect(serving.local_addr()).unwrap();
        let length = 2 << 20;
        let head = format!(
            "PUT /group/x/json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The server may have answered before all is sent.
        let _ = stream.write_all(&vec![b' '; length]);
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).map(|()| answer)
    };
    // Where the rest arrived after the end, the kernel takes the answer away.
    if let Ok(answer) = reply {
        assert_eq!(&answer, b"HTTP/1.1 413");
    }
    let mut stream = TcpStream::connect(serving.local_addr()).unwrap();
    let _ = stream.write_all(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000)).as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 2"));
    assert_eq!(get(&serving, "/version").status, 200);
}

/// An answer about all agents is made as far as the client reads it.
#[test]
fn large_answers_are_made_while_they_are_read() {
    const MORE: u32 = 200_000;
    let (small, serving) = serve_with(Small { more: MORE, ..Small::default() }, Settings::default());
    let mut asked = ask(&serving, "GET", "/prometheus/metrics/ALL/ifinoctets/txt", "", "");
    asked.head();
    let first = asked.chunk();
    assert!(first.starts_with(b"# HELP sflow_ifinoctets "));
    // What sockets and the server's buffer hold at most is far less than 15 MB: it waits until more is read.
    let before = small.looked.load(Ordering::Relaxed);
    assert!(before < MORE as usize, "{before}");
    assert_eq!(get(&serving, "/version").status, 200);
    let mut lines = first.iter().filter(|byte| **byte == b'\n').count();
    loop {
        let chunk = asked.chunk();
        if chunk.is_empty() {
            break;
        }
        lines += chunk.iter().filter(|byte| **byte == b'\n').count();
    }
    // Help, type, and the two of 10.0.0.1; that of 10.0.0.2 is stale.
    assert_eq!(lines, 4 + MORE as usize);

    let reply = get(&serving, "/agents/json");
    assert_eq!(reply.json().as_object().unwrap().len(), 3 + MORE as usize);
}
