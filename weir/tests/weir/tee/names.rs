//! Host names: every address gets a copy, a change is followed, and a name server that does not answer costs nobody a
//! datagram.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::datagrams::{Sink, send_all, source};
use super::network::{Host, await_that, network};
use super::{Tee, program};
use crate::WEIR;

/// A tee in a tree of mounts of its own: nobody else sees its hosts file, nor its one name server, which swallows all questions.
struct Machine {
    tee: Tee,
    _name_server: UdpSocket,
}

impl Machine {
    /// `None` without a program that it takes: the test is skipped.
    fn start(host: &Host, dns: &Host, options: &str, configuration: &str) -> Option<Machine> {
        let unshare = program("unshare")?;
        let dir = TempDir::new().unwrap();
        let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        file("hosts", "");
        file("resolv.conf", &format!("nameserver {}\noptions {options}\n", dns.v4));
        file("tee.toml", configuration);
        let name_server = dns.run(|| UdpSocket::bind((dns.v4, 53))).unwrap();
        let script = "mount --bind \"$1/hosts\" /etc/hosts && mount --bind \"$1/resolv.conf\" /etc/resolv.conf && \
                      exec \"$0\" tee --json -c \"$1/tee.toml\"";
        let mut command = Command::new(unshare);
        command.args(["--mount", "sh", "-c", script, &WEIR]).arg(dir.path()).stdin(Stdio::null());
        Some(Machine { tee: Tee::ready(host, command, dir), _name_server: name_server })
    }

    /// Puts these and no others into the hosts file.
    fn name(&self, name: &str, hosts: &[&Host]) {
        let lines: String = hosts.iter().map(|host| format!("{} {name}\n", host.v4)).collect();
        fs::write(self.tee.dir.path().join("hosts"), lines).unwrap();
    }
}

#[test]
#[ignore = "long: 17 s"]
fn a_name_is_followed_to_all_its_addresses() {
    let Some([client, host, dns, live, a, b, c]) = network(["client", "tee", "dns", "live", "a", "b", "c"]) else {
        return;
    };
    let Some(mut machine) = Machine::start(&host, &dns, "timeout:1 attempts:1", CONFIGURATION) else { return };
    let [live, to_a, to_b, to_c] = [&live, &a, &b, &c].map(|host| Sink::bind(host, host.at(5000)));
    let socket = source(&client, client.at(0));
    let send = |text: &str, sinks: &[&Sink]| {
        let payloads: Vec<Vec<u8>> = (0..1000).map(|number| format!("{text} {number}").into_bytes()).collect();
        send_all(&socket, host.at(5000), &payloads, sinks);
    };
    // Nobody knows the name yet.
    send("unresolved", &[&live]);
    assert_eq!(live.take(1000).len(), 1000);
    let line = machine.tee.await_line("resolve pods.example.test: ");
    assert!(line.ends_with("(still trying)"), "{line}");
    assert_eq!(to_a.count(), 0);

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
    machine.name("pods.example.test", &[&a, &b]);
    mark(&[&to_a, &to_b]);
    send("two", &[&live, &to_a, &to_b]);

    machine.name("pods.example.test", &[&b, &c]);
    mark(&[&to_c]);
    mark(&[&to_b, &to_c]);
    send("changed", &[&live, &to_b, &to_c]);

    // Silence again: what was known stays.
    machine.name("pods.example.test", &[]);
    let line = machine.tee.await_line("(its last 2 addresses stay in use)");
    assert!(line.contains("resolve pods.example.test: "), "{line}");
    send("kept", &[&live, &to_b, &to_c]);
    let came = |sink: &Sink| {
        let payloads = sink.payloads(0);
        ["two", "changed", "kept"]
            .map(|text| payloads.iter().filter(|payload| payload.starts_with(text.as_bytes())).count())
    };
    assert_eq!([came(&to_a), came(&to_b), came(&to_c)], [[1000, 0, 0], [1000, 1000, 1000], [0, 1000, 1000]]);

    let account = machine.tee.end();
    let total = 4000 + markers;
    assert_eq!((account.received(), account.sent("live")), ((total, 0), total));
    // Before there was an address, each datagram was one copy that could not go anywhere. That entry goes with the first address.
    let unresolved = [account.drops("pods"), account.drops("(removed)")].concat();
    assert!(
        matches!(unresolved[..], [("unresolved", count)] if (1000..1000 + markers).contains(&count)),
        "{account:?}"
    );
}

#[test]
fn a_name_server_that_never_answers_costs_nobody_a_datagram_and_holds_up_no_end() {
    let Some([client, host, dns, live]) = network(["client", "tee", "dns", "live"]) else { return };
    let names: String = (0..12).map(|number| format!("{{ to = \"pod{number}.example.test:5000\" }},")).collect();
    let configuration = format!(
        "listener = [{{ address = \"0.0.0.0:5000\" }}]\ndestination = [{names} {{ name = \"live\", to = \"{}\" }}]",
        live.at(5000)
    );
    let Some(machine) = Machine::start(&host, &dns, "timeout:30", &configuration) else { return };
    let live = Sink::bind(&live, live.at(5000));
    let payloads: Vec<Vec<u8>> = (0..1000).map(|number| format!("{number}").into_bytes()).collect();
    send_all(&source(&client, client.at(0)), host.at(5000), &payloads, &[&live]);
    assert_eq!(live.payloads(1000), payloads);

    let tasks = fs::read_dir(format!("/proc/{}/task", machine.tee.pid())).unwrap();
    let names = tasks.filter(|task| fs::read(task.as_ref().unwrap().path().join("comm")).unwrap() == b"names\n");
    assert_eq!(names.count(), 8, "of twelve lookups, eight at a time");
    let asked = Instant::now();
    assert_eq!(machine.tee.end().drops("pod0.example.test:5000"), [("unresolved", 1000)]);
    assert!(asked.elapsed() < Duration::from_secs(10), "lookups take 60 s");
}

const CONFIGURATION: &str = r#"
listener = [{ address = "0.0.0.0:5000" }]
destination = [{ name = "live", to = "10.0.0.4:5000" },
               { name = "pods", to = "pods.example.test:5000", addresses = "all" }]
"#;
