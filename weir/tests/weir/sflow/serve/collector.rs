//! What comes in, and what becomes of it.

use std::io::IoSlice;
use std::net::UdpSocket;
use std::num::NonZeroU16;

use weir_dgram::{Options, Outgoing, Socket};

use super::agent::Agent;
use super::{File, Serve};

/// A relay sends for many agents from one port: the kernel gives each worker its agents all the same.
#[test]
fn agents_behind_one_port_go_to_a_worker_each() {
    let mut serve = Serve::start(&["--listen", "127.0.0.1:0", "--workers", "4"]);
    let (relay, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), serve.address());
    let mut agents = Agent::several(40);
    for _ in 0..10 {
        for agent in &mut agents {
            relay.send_to(&agent.datagram(), to).unwrap();
        }
    }
    let ledger = serve.await_received(400);
    assert_eq!((ledger["analysed"].clone(), ledger["misdirected"].clone()), (400.into(), 0.into()), "{ledger:#}");
    assert_eq!(ledger["samples"]["flow"], 400);
    assert_eq!(serve.stop()["analysed"], 400);
}

/// A relay on the same machine joins datagrams into one of the kernel's (UDP_SEGMENT), which comes to one socket: what of it
/// belongs to other workers is theirs all the same.
#[test]
fn a_run_of_several_agents_is_split() {
    let mut serve = Serve::start(&["--listen", "127.0.0.1:0", "--workers", "4"]);
    let relay = Socket::connect(None, serve.address(), &Options { gso: true, ..Options::default() }).unwrap();
    let mut agents = Agent::several(40);
    for _ in 0..5 {
        let run: Vec<Vec<u8>> = agents.iter_mut().map(Agent::datagram).collect();
        let (size, run) = (run[0].len(), run.concat());
        let pieces = [IoSlice::new(&run)];
        let sent = relay.send(&[Outgoing { pieces: &pieces, segment: NonZeroU16::new(size as u16), to: None }]);
        assert!(sent.error.is_none(), "{sent:?}");
    }
    let ledger = serve.await_received(200);
    assert_eq!((ledger["analysed"].clone(), ledger["samples"]["flow"].clone()), (200.into(), 200.into()), "{ledger:#}");
    // Of four workers three are others.
    let misdirected = ledger["misdirected"].as_u64().unwrap();
    assert!((100..200).contains(&misdirected), "{ledger:#}");
}

/// Each kind of what cannot be used is counted under its name, costs nothing else, and is told of once with a remedy.
#[test]
fn what_is_not_analysed_is_counted_by_reason() {
    let file = File::new("allow = [\"10.1.2.0/24\"]\n[[listener]]\naddress = \"127.0.0.1:0\"\n");
    let mut serve = Serve::start(&["-c", &file.path(), "--workers", "2"]);
    let (socket, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), serve.address());
    let send = |payload: &[u8]| _ = socket.send_to(payload, to).unwrap();

    let mut agent = Agent::new([10, 1, 2, 3]);
    let first = agent.datagram();
    send(&first);
    agent.lose();
    agent.lose();
    send(&agent.datagram());
    send(&first);
    send(&Agent::new([10, 1, 3, 3]).datagram());
    send(&[0, 9, 0, 1, 0, 0, 0, 0]);
    send(&[0, 0, 0, 5, 0, 0, 0, 7, 1, 2, 3, 4]);
    send(&first[..20]);
    send(b"");
    // Its one sample is cut: the datagram is still one of a sequence.
    let whole = agent.datagram();
    send(&whole[..whole.len() - 8]);

    let ledger = serve.await_received(9);
    let rejected = |reason: &str| ledger["rejected"][reason].as_u64().unwrap();
    let counted = ["duplicate", "not_allowed", "version", "address_type", "cut"].map(rejected);
    assert_eq!(counted, [1, 1, 1, 1, 2], "{ledger:#}");
    assert_eq!(
        (ledger["analysed"].clone(), ledger["samples"]["malformed"].clone()),
        (3.into(), 1.into()),
        "{ledger:#}"
    );
    assert_eq!(ledger["lost_before"], 2);
    let own = socket.local_addr().unwrap().ip().to_string();
    assert_eq!(
        (ledger["malformed_by"][&own].clone(), ledger["malformed_by"]["10.1.2.3"].clone()),
        (4.into(), 1.into())
    );
    let line = serve.await_line("dropped in");
    assert!(line.contains('('), "{line}");
}
