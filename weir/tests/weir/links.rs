//! Interfaces that are deleted and made anew under their names, with another index: what was bound to them, joined on them or sent
//! through them goes on, and says so.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::Value;
use socket2::SockRef;
use tempfile::TempDir;
use weir_testbed::network::{Host, cable, plug, unplug};
use weir_testbed::{Started, await_that, http, program, together};

use crate::weir;

#[test]
fn what_an_interface_took_along_is_there_again_when_it_is_made_anew() {
    together(&[
        ("bound to a group", || tee(2, r#"address = "239.1.1.1:7000", interface = "eth0""#, GROUP)),
        ("bound to a group, routed", || tee(2, r#"address = "239.1.1.1:7000""#, GROUP)),
        ("joined", || tee(2, r#"address = "0.0.0.0:7000", join = { group = "239.1.1.1", interface = "eth0" }"#, GROUP)),
        ("bound", || tee(2, r#"address = "0.0.0.0:7000", interface = "eth0""#, NEAR)),
        ("bound, one worker", || tee(1, r#"address = "0.0.0.0:7000", interface = "eth0""#, NEAR)),
        ("bound, IPv6", || tee(1, r#"address = "[::]:7000", interface = "eth0""#, "[fd00::1]:7000")),
        ("sent through", || sent(r#"to = "10.0.0.2:9000", interface = "eth0""#)),
        ("sent from", || sent(r#"to = "10.0.0.2:9000", from = "10.0.0.1:9001", interface = "eth0""#)),
        ("sent as kept", || sent(r#"to = "10.0.0.2:9000", source = "kept", interface = "eth0""#)),
        ("sent to a group", || sent(r#"to = "239.1.1.1:9000", interface = "eth0""#)),
        ("serve", || monitor(&["serve", "--http", "127.0.0.1:0"])),
        ("record", || monitor(&["record", "--dir"])),
        ("feed", feed),
        ("recv", recv),
    ]);
}

/// Two hosts whose cable can be taken away, and a folder.
struct Scene {
    hosts: [Host; 2],
    ip: PathBuf,
    dir: TempDir,
}

impl Scene {
    #[track_caller]
    fn new() -> Option<Self> {
        let ip = program("ip")?;
        let scene = Self { hosts: cable(1500)?, ip, dir: TempDir::new().unwrap() };
        scene.route();
        Some(scene)
    }

    /// Of groups, through the one interface.
    fn route(&self) {
        for host in &self.hosts {
            let mut netlink = host.netlink();
            let eth0 = netlink.link("eth0").unwrap().index;
            netlink.add_route("224.0.0.0/4".parse::<IpNet>().unwrap(), None, eth0).unwrap();
        }
    }

    /// A service on one of the hosts.
    #[track_caller]
    fn start(&self, host: usize, mut command: Command) -> Service {
        command.args(["--json", "--admin", "127.0.0.1:0"]);
        let mut started = self.hosts[host].run(|| Started::ready(command));
        let line = started.line("admin: http://");
        let admin = line.split_once("http://").unwrap().1.trim_end_matches('/').parse().unwrap();
        Service { started, host, admin }
    }

    /// `weir tee` with this file, and a sink of what it forwards to this host.
    #[track_caller]
    fn tee(&self, text: &str) -> Service {
        let file = self.dir.path().join("tee.toml");
        fs::write(&file, text).unwrap();
        let mut command = weir(&["tee", "-c"]);
        command.arg(file);
        self.start(0, command)
    }

    fn get(&self, service: &Service, path: &str) -> http::Answer {
        let admin = service.admin;
        self.hosts[service.host].run(|| http::get(admin, path))
    }

    /// What flows through services goes on behind an interface that is made anew; each is not ready meanwhile, and says why.
    #[track_caller]
    fn outlives(&self, mut services: Vec<Service>, mut flows: impl FnMut(&[Service]) -> bool) {
        await_that("it to flow", || flows(&services));
        unplug(&self.hosts, &self.ip);
        for service in &services {
            await_that("it to miss its interface", || {
                let answer = self.get(service, "/readyz");
                (answer.status, answer.body.as_str()) == (503, "interface eth0 is gone\n")
            });
        }
        await_that("nothing to flow", || !flows(&services));
        plug(&self.hosts);
        self.route();
        await_that("it to flow again", || flows(&services));
        for service in &mut services {
            await_that("it to be ready", || self.get(service, "/readyz").status == 200);
            for words in ["interface eth0 is gone", "interface eth0 is back"] {
                service.started.await_line(words);
            }
            let said = service.started.said().iter().filter(|line| line.contains("interface eth0 is")).count();
            assert_eq!(said, 2, "{:#?}", service.started.said());
        }
        services.into_iter().for_each(|service| drop(service.started.stop()));
    }
}

struct Service {
    started: Started,
    host: usize,
    admin: SocketAddr,
}

/// Sends once; whether it comes, or anything that was sent before.
fn passes(from: &UdpSocket, to: &str, sink: &UdpSocket) -> bool {
    // Without an interface it cannot be sent.
    let _ = from.send_to(b"datagram", to);
    sink.recv(&mut [0; 100]).is_ok()
}

fn bind(host: &Host, address: &str) -> UdpSocket {
    let socket = host.run(|| UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    socket
}

/// What comes to a listener of a tee from the other host.
fn tee(workers: usize, listener: &str, to: &str) {
    let Some(scene) = Scene::new() else { return };
    let sink = bind(&scene.hosts[0], "127.0.0.1:9000");
    let tee = scene.tee(&format!(
        "workers = {workers}\nlistener = [{{ {listener} }}]\ndestination = [{{ to = \"127.0.0.1:9000\" }}]"
    ));
    let any = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    scene.outlives(vec![tee], |_| passes(&bind(&scene.hosts[1], any), to, &sink));
}

/// What a tee sends to the other host.
fn sent(destination: &str) {
    let Some(scene) = Scene::new() else { return };
    // What is kept must be an address that others take, and stays when the interface goes.
    let (mut netlink, own) = (scene.hosts[0].netlink(), "192.0.2.1/32".parse::<IpNet>().unwrap());
    let lo = netlink.link("lo").unwrap().index;
    netlink.add_address(lo, own).unwrap();
    let source = bind(&scene.hosts[0], "192.0.2.1:0");
    let tee =
        scene.tee(&format!("listener = [{{ address = \"127.0.0.1:7000\" }}]\ndestination = [{{ {destination} }}]"));
    scene.outlives(vec![tee], |_| {
        let sink = bind(&scene.hosts[1], "0.0.0.0:9000");
        let _ = SockRef::from(&sink).join_multicast_v4(&Ipv4Addr::new(239, 1, 1, 1), &Ipv4Addr::new(10, 0, 0, 2));
        passes(&source, "127.0.0.1:7000", &sink)
    });
}

/// What a station on the other host sends to a group, which loses its interface as well.
fn monitor(arguments: &[&str]) {
    let Some(scene) = Scene::new() else { return };
    let listen = ["--listen", "239.1.1.1:7000", "--interface", "eth0"];
    let mut command = weir(&["monitor"]);
    command.args(arguments);
    if arguments.contains(&"record") {
        command.arg(scene.dir.path()).args(["--leave", "1MiB"]);
    }
    command.args(listen);
    let source = "sine,name=x,rate=1k/s";
    let station = ["monitor", "station", "--source", source, "--interface", "eth0", "--to", "239.1.1.1:7000"];
    let services = vec![scene.start(0, command), scene.start(1, weir(&station))];
    let mut before = 0;
    scene.outlives(services, |services| {
        let ledger: Value = scene.get(&services[0], "/ledger").json();
        let count = ledger.pointer("/received/datagrams").or(ledger.get("datagrams")).unwrap().as_u64().unwrap();
        std::mem::replace(&mut before, count) < count
    });
}

/// What comes to a station's source by a group.
fn feed() {
    let Some(scene) = Scene::new() else { return };
    let source = "udp,listen=239.1.1.1:7000,format=statsd";
    let station = scene.start(0, weir(&["monitor", "station", "--source", source, "--interface", "eth0"]));
    let mut before = 0;
    scene.outlives(vec![station], |services| {
        let _ = bind(&scene.hosts[1], "0.0.0.0:0").send_to(b"hits:2|c", GROUP);
        let ledger: Value = scene.get(&services[0], "/ledger").json();
        let count = ledger["sources"][0]["datagrams"].as_u64().unwrap();
        std::mem::replace(&mut before, count) < count
    });
}

/// What `weir recv` gets by a group, before and after: it ends when the second sender has.
fn recv() {
    let Some(scene) = Scene::new() else { return };
    let mut recv = scene.hosts[0].run(|| {
        let arguments = ["--join", "239.1.1.1@eth0", "--senders", "2", "--idle-timeout", "0", "--json"];
        Started::saying("listening", weir(&[&["recv", "--listen", "0.0.0.0:7000"][..], &arguments].concat()))
    });
    let send = || {
        let ended = scene.hosts[1].run(|| weir(&["send", "--to", GROUP, "-n", "10", "--interval", "1ms"]).output());
        assert!(ended.unwrap().status.success());
    };
    send();
    unplug(&scene.hosts, &scene.ip);
    recv.await_line("interface eth0 is gone");
    plug(&scene.hosts);
    scene.route();
    recv.await_line("interface eth0 is back");
    send();
    let account = recv.wait().json();
    assert_eq!(account["sessions"].as_array().unwrap().len(), 2, "{account:#}");
}

const GROUP: &str = "239.1.1.1:7000";
const NEAR: &str = "10.0.0.1:7000";
