//! `weir send` to `weir recv` over the loopback interface.

use std::net::UdpSocket;
use std::ops::{Deref, DerefMut};

use ipnet::IpNet;
use nix::sys::signal::Signal;
use serde_json::Value;
use weir_kernel::links::Netlink;
use weir_kernel::sysctl;
use weir_program::clock::now;
use weir_testbed::network::{end, namespace, on_loopback};
use weir_testbed::{Ended, Started, await_that, program};

use crate::network::network;
use crate::weir;

/// What a command does that ends by itself.
pub(super) fn run(arguments: &[&str]) -> Ended {
    Ended::of(&mut weir(arguments))
}

/// The account of one that had nothing to say besides.
#[track_caller]
pub(super) fn json(ended: &Ended) -> Value {
    assert_eq!(ended.stderr, "");
    ended.json()
}

/// A `weir recv` that listens already.
pub(super) struct Listening {
    started: Started,
    pub(super) address: String,
}

impl Listening {
    pub(super) fn start(arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", arguments)
    }

    pub(super) fn start_at(address: &str, arguments: &[&str]) -> Self {
        let mut started = Started::spawn(weir(&[&["recv", "--listen", address], arguments].concat()));
        let line = started.await_line("");
        let address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}"));
        let address = address.rsplit(' ').next().unwrap().to_owned();
        Self { started, address }
    }

    pub(super) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }

    /// Waits for its end; what it said first, where it listens, is not among what it said.
    #[track_caller]
    pub(super) fn ended(mut self) -> Ended {
        let mut ended = self.started.wait();
        ended.stderr = ended.stderr.split_once('\n').unwrap().1.to_owned();
        ended
    }

    #[track_caller]
    pub(super) fn json(self) -> Value {
        json(&self.ended())
    }

    /// Waits until it has read all that its UDP socket holds (/proc/net/udp: `sl local_address rem_address st tx:rx`).
    fn await_read(&self) {
        let port = format!(":{:04X}", self.port().parse::<u16>().unwrap());
        await_that("its socket to be read", || {
            let table = std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
            let sockets = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let mut own = sockets.filter(|fields| fields[1].ends_with(&port));
            own.all(|fields| fields[4].ends_with(":00000000"))
        });
    }
}

impl Deref for Listening {
    type Target = Started;

    fn deref(&self) -> &Started {
        &self.started
    }
}

impl DerefMut for Listening {
    fn deref_mut(&mut self) -> &mut Started {
        &mut self.started
    }
}

#[test]
fn both_ends_agree_on_the_account() {
    for (transport, payload) in [("udp", "1000B"), ("tcp", "1000B"), ("tcp", "40B"), ("udp", "20B")] {
        let listening = Listening::start(&["--transport", transport, "--json"]);
        // What comes while a receiver has no processor fits into its buffer: 90 messages.
        let flags = ["--payload", payload, "--interval", "5ms", "-n", "50", "--session", "9", "--json"];
        let to = ["send", "--to", &listening.address, "--transport", transport];
        let sent = json(&run(&[&to[..], &flags].concat()));
        let received = listening.json();

        assert_eq!(sent["sent"], 50, "{sent}");
        let [session] = &received["sessions"].as_array().unwrap()[..] else { panic!("{received}") };
        assert_eq!((&session["sent"], &session["received"]), (&sent["sent"], &sent["sent"]), "{transport} {payload}");
        assert_eq!((&session["session"], &session["peer"]), (&sent["session"], &sent["from"]));
        assert_eq!((&session["received_bytes"], &session["lost"]), (&sent["sent_bytes"], &0.into()));
        assert_eq!((&session["delay_n"], &session["same_machine"]), (&sent["sent"], &true.into()));
        assert!(session["delay_mean_us"].as_f64() > Some(0.0) && session["delay_p50_us"].is_f64(), "{session}");
        assert_eq!((&received["foreign"], &received["evicted"]), (&0.into(), &0.into()));
    }
}

#[test]
fn groups_are_heard_from_all_or_from_the_chosen_source() {
    // IPv4 only: the loopback interface has one IPv6 address, so that there is no source to choose.
    let all = Listening::start_at("239.255.77.1:0", &["--join", "239.255.77.1@lo", "--json"]);
    let at = format!("239.255.77.1:{}", all.port());
    let one = Listening::start_at(&at, &["--join", "239.255.77.1@lo", "--source", "127.0.0.7", "--json"]);
    let send = |from: &str| {
        let from = format!("{from}:0");
        let flags = ["--from", &from, "--interface", "lo", "--interval", "5ms", "--duration", "50ms", "--json"];
        let sent = json(&run(&[&["send", "--to", &at][..], &flags].concat()));
        (sent["from"].clone(), sent["sent"].clone())
    };
    // The receiver of all ends with the first sender that announces its end, and is waited for: else it would hear the next
    // one, too, where it gets no processor for long enough. The other must not have heard of it.
    let stranger = send("127.0.0.8");
    let heard = all.json();
    let chosen = send("127.0.0.7");
    for (received, (from, sent)) in [(heard, stranger), (one.json(), chosen)] {
        let [session] = &received["sessions"].as_array().unwrap()[..] else { panic!("{received}") };
        assert_eq!((&session["peer"], &session["received"], &session["lost"]), (&from, &sent, &0.into()));
    }
}

#[test]
fn people_get_a_summary() {
    let listening = Listening::start(&[]);
    let to = listening.address.clone();
    let foreign = UdpSocket::bind("127.0.0.1:0").unwrap();
    foreign.send_to(b"not ours", &to).unwrap();
    let flags = ["--session", "5", "--rate", "250/s", "--duration", "200ms"];
    let [sent, received] = [run(&[&["send", "--to", &to][..], &flags].concat()), listening.ended()].map(|ended| {
        assert_eq!(ended.status, Some(0), "{}", ended.stderr);
        ended.stdout
    });

    let (_, count) = sent.split_once("  sent        ").unwrap();
    let (count, rest) = count.split_once(' ').unwrap();
    // A hiccup at the end is made up for, for a hundredth of the time.
    let times = [200, 201, 202, 203].map(|ms| format!("messages of 1000B in {ms} ms\n"));
    assert!(times.iter().any(|time| rest.starts_with(time)), "{sent}");
    for line in [
        "session 5 from 127.0.0.1:",
        &format!("  sent        {count}\n  received    {count}\n  lost        0 (0 %)\n"),
        &format!(" (n {count})\n"),
        "foreign       1 datagrams",
    ] {
        assert!(received.contains(line), "{received}");
    }
}

#[test]
fn without_an_announcement_the_count_is_unknown() {
    let listening = Listening::start(&["--idle-timeout", "2s"]);
    // Messages 0, 1 and 4 of session 3, 16 bytes each, as the documented layout has them.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for number in [0, 1, 4] {
        let header = [0xa7, 0x20, 0, 3, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 1];
        socket.send_to(&header, &listening.address).unwrap();
    }
    let Ended { status, stdout, stderr } = listening.ended();
    assert_eq!(status, Some(1));
    assert_eq!(stderr, "weir: 1 of 1 sessions fell silent without announcing their end: counts cover only what came\n");
    for line in [
        "  sent        unknown, at least 5: the end was not announced\n",
        "  received    3\n",
        "  lost        at least 2 (40 %)\n",
        "  delay       unknown: messages below 40B do not identify the sender's clock\n",
    ] {
        assert!(stdout.contains(line), "{stdout}");
    }
}

#[test]
fn whoever_asks_for_patience_gets_it_without_a_sender_too() {
    for transport in ["udp", "tcp"] {
        let listening = Listening::start(&["--idle-timeout", "100ms", "--transport", transport]);
        let Ended { status, stdout, stderr } = listening.ended();
        assert_eq!(
            (status, &*stdout, &*stderr),
            (Some(1), "nothing received\n", "weir: nothing received within 100 ms\n")
        );
    }
}

#[test]
fn parallel_senders_tell_each_and_all_and_every_interval() {
    for transport in ["udp", "tcp", "quic", "quic-datagram"] {
        let listening = Listening::start(&["--transport", transport, "--every", "50ms", "--senders", "3", "--json"]);
        let flags = ["-n", "60", "-P", "3", "--interval", "2ms", "--session", "10", "--every", "50ms", "--json"];
        // All of them fit into the receiver's buffer, if it gets no processor meanwhile.
        let to = ["send", "--to", &listening.address, "--transport", transport, "--payload", "100B"];
        let sent = json(&run(&[&to[..], &flags].concat()));
        let received = listening.json();
        let streams: Vec<_> =
            sent["streams"].as_array().unwrap().iter().map(|s| (s["session"].clone(), s["sent"].clone())).collect();
        assert_eq!(streams, [10, 11, 12].map(|session| (Value::from(session), Value::from(60))));
        let sum = |of: &Value, key: &str| of.as_array().unwrap().iter().map(|i| i[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sent["sent"].as_u64(), sum(&sent["intervals"], "sent")), (Some(180), 180), "{transport} {sent}");
        assert_eq!((sum(&received["sessions"], "received"), sum(&received["intervals"], "received")), (180, 180));
        let session = &received["sessions"][0];
        assert!(session["jitter_us"].is_f64() && session["incarnation"].is_u64(), "{session}");
    }
}

#[test]
fn a_thousand_senders_are_told_apart() {
    are_told_apart(1_000);
}

#[test]
#[ignore = "long: 4 s, judges resident memory"]
fn ten_thousand_senders_fit_into_200_megabytes() {
    assert!(are_told_apart(10_000) < 200_000);
}

/// So many senders of 30 messages each; the receiver's largest resident memory, kB.
fn are_told_apart(senders: u16) -> u64 {
    let listening = Listening::start(&["--receive-buffer", "64MiB", "--senders", &senders.to_string(), "--json"]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(&listening.address).unwrap();
    // Messages of 16 bytes as the documented layout has them, their delays spread over a second; the end extended.
    let message = |session: u16, number: u8| {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&[0xa7, 0x20]);
        bytes[2..4].copy_from_slice(&session.to_be_bytes());
        bytes[7] = number;
        bytes[8..].copy_from_slice(&(now() - u64::from(number) * 33_000_000).to_be_bytes());
        bytes
    };
    let end = |session: u16| {
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&message(session, 30));
        bytes[1] = 0x23;
        bytes[35] = 40;
        bytes[36..].copy_from_slice(b"WEIR");
        bytes
    };
    for number in 0..30 {
        (0..senders).for_each(|session| assert_eq!(socket.send(&message(session, number)).unwrap(), 16));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", listening.pid())).unwrap();
    // There is room then: an end that is dropped does not come again.
    listening.await_read();
    for session in 0..senders {
        socket.send(&end(session)).unwrap();
    }
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    let received = listening.json();
    let sessions = received["sessions"].as_array().unwrap();
    // The socket may drop where the receiver gets no processor.
    let got: u64 = sessions.iter().map(|session| session["received"].as_u64().unwrap()).sum();
    assert_eq!((received["evicted"].as_u64(), sessions.len()), (Some(0), usize::from(senders)));
    assert!(
        got + received["socket_drops"].as_u64().unwrap() >= 30 * u64::from(senders),
        "{got} {}",
        received["socket_drops"]
    );
    most
}

fn send_twenty(to: &Listening) {
    let sent = run(&["send", "--to", &to.address, "-n", "20", "--interval", "1ms"]);
    assert_eq!(sent.status, Some(0), "{}", sent.stderr);
}

#[test]
fn ctrl_c_leaves_a_result() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap().to_string();
    let flags = ["--duration", "1h", "--interval", "1h", "--session", "258", "--json"];
    let mut sending = Started::spawn(weir(&[&["send", "--to", &to][..], &flags].concat()));
    let mut message = [0; 2000];
    assert_eq!(receiver.recv(&mut message).unwrap(), 1000);
    sending.signal(Signal::SIGINT);
    let sent = sending.wait().json();
    assert_eq!((&sent["sent"], &sent["stopped"]), (&1.into(), &true.into()));
    // The announcement: flags extended and end, session 258, one message sent.
    assert_eq!(receiver.recv(&mut message).unwrap(), 40);
    assert_eq!(message[..8], [0xa7, 0x23, 1, 2, 0, 0, 0, 1]);

    let listening = Listening::start(&["--json"]);
    listening.signal(Signal::SIGTERM);
    assert_eq!(listening.json()["sessions"], Value::Array(Vec::new()));
}

#[test]
fn a_duration_does_not_put_off_announced_ends() {
    let listening = Listening::start(&["--duration", "10m", "--json"]);
    send_twenty(&listening);
    assert_eq!(listening.json()["sessions"][0]["received"], 20);
}

#[test]
fn one_forged_datagram_does_not_end_a_receiver_before_its_sender() {
    let listening = Listening::start(&["--json"]);
    // The end of session 258, of no messages, as the documented layout has it.
    let mut forged = [0; 40];
    forged[..4].copy_from_slice(&[0xa7, 0x23, 1, 2]);
    (forged[31], forged[35]) = (9, 40);
    forged[36..].copy_from_slice(b"WEIR");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(socket.send_to(&forged, &listening.address).unwrap(), 40);
    send_twenty(&listening);
    let received = listening.json();
    assert_eq!((&received["sessions"][0]["received"], &received["ends_alone"]), (&20.into(), &1.into()), "{received}");
}

/// It claims a message of a session of which nothing came.
#[test]
fn a_forged_end_of_a_message_ends_nothing() {
    let listening = Listening::start(&[]);
    let mut forged = [0; 40];
    forged[..4].copy_from_slice(&[0xa7, 0x23, 1, 2]);
    (forged[7], forged[31], forged[35]) = (1, 9, 40);
    forged[36..].copy_from_slice(b"WEIR");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&forged, &listening.address).unwrap();
    listening.await_read();
    send_twenty(&listening);
    let Ended { status, stdout: told, stderr: said } = listening.ended();
    assert_eq!((status, &*said), (Some(0), ""));
    assert!(
        told.contains("  received    20")
            && told.contains("end alone     1 announced ends of sessions without messages"),
        "{told}"
    );
}

#[test]
fn a_sender_to_a_closed_port_says_that_nobody_listens() {
    on_loopback(|| {
        let told = run(&["send", "--to", "127.0.0.1:5000", "-n", "20", "--interval", "5ms"]).stdout;
        assert!(told.contains("connection refused"), "{told}");
        assert!(told.contains(": nothing listens on 127.0.0.1:5000\n"), "{told}");
        let Ended { status, stderr, .. } = run(&["send", "--transport", "tcp", "--to", "127.0.0.1:5000"]);
        assert_eq!((status, stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.contains("connect: connection refused"), "{stderr}");
    });
}

#[test]
fn a_full_disk_costs_the_rows_and_not_the_account() {
    let listening = Listening::start(&["--messages", "/dev/full"]);
    let flags = ["-n", "20", "--interval", "1ms", "--messages", "/dev/full"];
    let sent = run(&[&["send", "--to", &listening.address][..], &flags].concat());
    for Ended { status, stdout: told, stderr: said } in [sent, listening.ended()] {
        assert_eq!(status, Some(1), "{said}");
        assert!(
            told.contains("  sent        20") && told.contains("not written") && told.contains(" 20 messages"),
            "{told}"
        );
        assert!(said.starts_with("weir: write /dev/full: No space left on device") && !said.contains("lab"), "{said}");
    }
}

#[test]
fn a_file_that_cannot_be_made_is_said_before_listening() {
    let Ended { status, stderr: said, .. } = run(&["recv", "--listen", "127.0.0.1:0", "--messages", "/nonexist/x"]);
    assert_eq!((status, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.starts_with("weir: create /nonexist/x: No such file"), "{said}");
}

#[test]
fn errors_are_one_line_and_a_status() {
    let held = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let cases: [(&[&str], i32, &str); 32] = [
        (&["recv", "--messages", "m.parquet"], 2, "Parquet is not supported. Write CSV"),
        (&["recv", "--listen", &taken], 1, "address already in use"),
        (&["send", "--to", &taken, "--payload", "15B"], 2, "payload of 15B: a message over udp has 16B"),
        (&["send", "--to", &taken, "--payload", "15"], 2, "`15`: a size needs a unit, e.g. 15B"),
        (&["send", "--to", "192.0.2.7"], 2, "`192.0.2.7`: write ADDRESS:PORT"),
        (&["send", "--to", &taken, "--interval", "1ms", "--rate", "1/s"], 2, "cannot be used with"),
        (&["recv", "--listen", &taken, "--join", "10.0.0.1"], 2, "`10.0.0.1`: not a multicast address"),
        (
            &["recv", "--listen", "0.0.0.0:0", "--join", "239.1.1.1@nowhere"],
            1,
            "find the interface nowhere: no such device",
        ),
        (&["send", "--to", &taken, "--interface", "nowhere"], 1, "set SO_BINDTODEVICE to nowhere: no such device"),
        (&["send", "--to", &taken, "--dscp", "64"], 2, "write a DSCP, 0 to 63, or its name"),
        (&["send", "--to", &taken, "--dscp", "ef", "--transport", "quic"], 2, "--dscp: not over quic"),
        (&["send", "--to", &taken, "-R", "--transport", "quic"], 2, "--reverse: not over quic. Use --transport"),
        (&["send", "--to", &taken, "--bidir", "--transport", "quic-datagram"], 2, "--bidir: not over quic-datagram. "),
        (&["recv", "--listen", &taken, "--allow-reverse", "--transport", "quic"], 2, "Use --transport udp or tcp at"),
        (&["send", "--to", &taken, "--quantum", "1ms"], 2, "--quantum: needs --pacing schedule"),
        (&["send", "--to", &taken, "--every", "1ms"], 2, "`1ms`: must be at least 10ms"),
        (&["recv"], 2, "--listen <ADDR:PORT>"),
        (&["send", "--to", &taken, "--congestion", "bbr"], 2, "--congestion: not over udp"),
        (&["send", "--to", &taken, "--nodelay"], 2, "--nodelay: only over tcp"),
        (&["send", "--to", &taken, "-n", "0"], 2, "`0`: write 1 or more"),
        (&["send", "--to", &taken, "--session", "foo"], 2, "invalid value 'foo' for '--session <SESSION>'"),
        (&["send", "--to", &taken, "--rate", "10M"], 2, ", or bits, e.g. 10mbit"),
        (&["send", "--to", &taken, "--rate", "9tbit"], 2, "--rate: more than one message of 1000B per nanosecond"),
        (&["send", "--to", "127.0.0.1:0"], 2, "--to 127.0.0.1:0: port 0 is not a destination"),
        (&["recv", "--listen", &taken, "--session", "70000"], 2, "70000 is not in 0..=65535"),
        (&["recv", "--listen", &taken, "--senders", "0"], 2, "0 is not in 1.."),
        (&["recv", "--listen", &taken, "--sessions", "2", "--senders", "5"], 2, "--senders 5: more than --sessions 2"),
        (
            &["recv", "--listen", &taken, "--allow-reverse", "--reverse-duration", "0s"],
            2,
            "`0s`: must be longer than 0",
        ),
        (&["send", "-c", "127.0.0.1"], 2, "tip: send with `weir send --to ADDR:PORT`"),
        (&["send", "--to", &taken, "-t", "10"], 2, "tip: set the duration with `--duration 10s`"),
        (&["recv", "-s"], 2, "tip: receive with `weir recv --listen ADDR:PORT`"),
        (&["recv", "--listen", &taken, "-p", "5201"], 2, "tip: write the port in the address"),
    ];
    for (arguments, expected, message) in cases {
        let Ended { status, stderr, .. } = run(arguments);
        assert_eq!(status, Some(expected), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
        if expected == 1 {
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
    }
}

/// Its own interface's queue drops and delays: what TCP hands to it again was not sent twice, and a full send buffer cuts
/// the last message.
#[test]
fn a_sender_through_a_slow_link_knows_that_all_has_come() {
    let Some(tc) = program("tc") else { return };
    let Some([sender, receiver]) = network(["sender", "receiver"]) else { return };
    let slow = ["rate", "10mbit", "burst", "20kb", "latency", "100ms"];
    sender.output(&tc, &[&["qdisc", "add", "dev", "eth0", "root", "tbf"][..], &slow].concat());
    for transport in ["tcp", "quic"] {
        let listening = receiver.run(|| Listening::start_at("10.0.0.2:0", &["--transport", transport, "--json"]));
        let flags = ["--payload", "50000B", "--interval", "0s", "--duration", "1s", "--drain", "60s", "--json"];
        let to = ["send", "--to", &listening.address, "--transport", transport];
        let sent = json(&sender.run(|| run(&[&to[..], &flags].concat())));
        let received = listening.json();
        let session = &received["sessions"][0];
        assert_eq!((&session["sent"], &session["received"]), (&sent["sent"], &sent["sent"]), "{transport} {received}");
        assert_eq!((&sent["outstanding_bytes"], &sent["partial_bytes"]), (&0.into(), &0.into()), "{transport} {sent}");
    }
}

/// The kernel gives a neighbour that does not answer up after three requests, and says so only to those that read reports.
#[test]
fn a_host_that_cannot_be_reached_is_told() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let mut netlink = Netlink::open(&here).unwrap();
    // What the kernel reports to itself goes through it.
    netlink.set_loopback_up().unwrap();
    netlink.add_veth(&end(&here, "eth0", 1, 1500), &end(&there, "eth0", 2, 1500)).unwrap();
    let eth0 = netlink.link("eth0").unwrap().index;
    netlink.add_address(eth0, "10.0.0.1/24".parse::<IpNet>().unwrap()).unwrap();
    netlink.set_up(eth0).unwrap();
    sysctl::set(&here, &[("ipv4/neigh/eth0/retrans_time_ms", "100")]).unwrap();
    let mut other = Netlink::open(&there).unwrap();
    let port = other.link("eth0").unwrap().index;
    other.set_up(port).unwrap();
    netlink.wait_until_running("eth0").unwrap();
    let send = ["send", "--to", "10.0.0.9:5000", "--rate", "50/s", "-n", "100", "--json"];
    let sent = json(&here.run(|| run(&send)).unwrap());
    let told = |error: &Value| error["operation"] == "send" && error["error"] == "no route to host";
    assert!(sent["errors"].as_array().unwrap().iter().any(told), "{sent}");
    // What was reported about one costs none of the others.
    assert_eq!((&sent["sent"], &sent["shortfall"]), (&100.into(), &0.into()), "{sent}");
}

#[test]
fn help_does_not_drift() {
    for command in ["send", "recv"] {
        let help = Ended::of(weir(&[command, "--help"]).env("COLUMNS", "100"));
        assert_eq!(help.status, Some(0));
        insta::assert_snapshot!(format!("help_{command}"), help.stdout);
    }
}
