//! Four hosts: an attacker and a victim on either side of a router, which has the speaker as its neighbour.
//!
//! ```text
//! attacker 10.9.1.1, fd09:1::1 --- router --- victim 10.9.2.0/24, 10.9.4.0/22, fd09:2::/64
//!                                    | 10.9.0.2
//!                                 speaker 10.9.0.1 (gobgpd, and the room)
//! ```

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use ipnet::IpNet;
use tempfile::TempDir;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_program::config::Address;
use weir_protect::bgp::{Speaker, State};
use weir_protect::config::document::OnStop;
use weir_protect::config::values::Community;
use weir_protect::model::{Action, Installed, Neighbour, Route, Rule};
use weir_protect::settings::Speaker as Settings;
pub(crate) use weir_testbed::await_that as until;
use weir_testbed::network::{end, namespace};
use weir_testbed::{Ended, PATIENCE, Started, program};

/// Versions of gobgpd, as `program` knows them: Debian's, and version 4 where Go was at hand to build it.
pub(crate) fn gobgpds() -> Vec<&'static str> {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers/bin/gobgpd4");
    if std::path::Path::new(built).exists() {
        return vec!["gobgpd", "gobgpd4"];
    }
    weir_testbed::leave_unjudged("no Go to build gobgpd 4");
    vec!["gobgpd"]
}

const MARKER: Community = Community::Standard(65001, 666);
pub(crate) const BLACKHOLE: Community = Community::Standard(65535, 666);

pub(crate) struct Network {
    pub(crate) attacker: NetNs,
    pub(crate) victim: NetNs,
    pub(crate) router: NetNs,
    pub(crate) speaker: NetNs,
    pub(crate) folder: TempDir,
}

impl Network {
    #[track_caller]
    pub(crate) fn create() -> Option<Network> {
        program("ip")?;
        let [attacker, victim, router, speaker] = [namespace()?, namespace()?, namespace()?, namespace()?];
        for (number, (host, port)) in
            [(&attacker, "attacker"), (&victim, "victim"), (&speaker, "speaker")].iter().enumerate()
        {
            let mac = 2 * number as u32;
            Netlink::open(host)
                .unwrap()
                .add_veth(&end(host, "eth0", mac, 1500), &end(&router, port, mac + 1, 1500))
                .unwrap();
        }
        let network = Network { attacker, victim, router, speaker, folder: tempfile::tempdir().unwrap() };
        let host = |ns, script: &str| {
            network.script(ns, &format!("ip link set lo up; {}", script.replace("@", "/proc/sys/net")))
        };
        host(
            &network.router,
            "for link in attacker:1 victim:8 speaker:0; do
                 i=${link%:*}; n=${link#*:}
                 ip addr add 10.9.$n.2/24 dev $i; ip -6 addr add fd09:$n::2/64 dev $i nodad; ip link set $i up
             done
             echo 1 >@/ipv4/ip_forward; echo 1 >@/ipv6/conf/all/forwarding
             ip route add 10.9.2.0/24 via 10.9.8.1; ip route add 10.9.4.0/22 via 10.9.8.1; ip route add fd09:2::/64 via fd09:8::1",
        );
        let plugged = |ns, n: u8, more: &str| {
            let address = format!("ip addr add 10.9.{n}.1/24 dev eth0; ip -6 addr add fd09:{n}::1/64 dev eth0 nodad");
            let gateway = format!("ip route add default via 10.9.{n}.2; ip route add default via fd09:{n}::2");
            host(ns, &format!("{address}; ip link set eth0 up; {gateway}; {more}"));
        };
        plugged(&network.attacker, 1, "");
        plugged(&network.speaker, 0, "");
        // Every address there is the victim's.
        let local = "echo 1 >@/ipv6/ip_nonlocal_bind; ip route add local 10.9.2.0/24 dev lo; ip route add local 10.9.4.0/22 dev lo; ip route add local fd09:2::/64 dev lo";
        plugged(&network.victim, 8, local);
        Some(network)
    }

    pub(crate) fn script(&self, ns: &NetNs, script: &str) -> String {
        let ended = ns.run(|| Ended::of(Command::new("sh").args(["-ec", script]))).unwrap();
        assert_eq!(ended.status, Some(0), "{script}: {ended:?}");
        ended.stdout
    }

    /// Writes a file, in which `@DIR@` is its folder.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text.replace("@DIR@", &self.folder.path().display().to_string())).unwrap();
        path
    }

    /// gobgpd, with the router as its neighbour.
    #[track_caller]
    pub(crate) fn gobgpd(&self, name: &str) -> Option<Started> {
        self.gobgpd_with(name, include_str!("gobgpd-neighbour.toml"))
    }

    /// gobgpd, with more in its file.
    #[track_caller]
    pub(crate) fn gobgpd_with(&self, name: &str, more: &str) -> Option<Started> {
        let head = "[global.config]\nas = 65001\nrouter-id = \"10.9.0.1\"\nlocal-address-list = [\"10.9.0.1\"]\n";
        let file = self.file("gobgpd.toml", &format!("{head}{more}"));
        let mut command = Command::new(program(name)?);
        command.arg("-f").arg(file).args(["--api-hosts", GOBGP, "--pprof-disable"]);
        Some(spawn(&self.speaker, command))
    }

    #[track_caller]
    pub(crate) fn bird(&self) -> Option<Started> {
        self.bird_with(include_str!("bird.conf"))
    }

    #[track_caller]
    pub(crate) fn bird_with(&self, text: &str) -> Option<Started> {
        let file = self.file("bird.conf", text);
        let mut command = Command::new(program("bird")?);
        command.arg("-f").arg("-c").arg(file).arg("-s").arg(self.folder.path().join("bird.ctl"));
        Some(spawn(&self.router, command))
    }

    pub(crate) fn speaker(&self, settings: &Settings) -> Held {
        let (tell, bell) = mpsc::channel();
        let start = || Speaker::start(settings, move || tell.send(()).unwrap_or(())).unwrap();
        Held { speaker: self.speaker.run(start).unwrap(), bell }
    }

    /// Whether a datagram to one host comes through: it has, or one to another host that was sent later has, and it has not.
    pub(crate) fn passes(&self, target: IpAddr) -> bool {
        let other: IpAddr = if target.is_ipv4() { "10.9.2.250" } else { "fd09:2::250" }.parse().unwrap();
        let bind = |address: IpAddr| self.victim.run(|| UdpSocket::bind((address, 9)).unwrap()).unwrap();
        let (first, second) = (bind(target), bind(other));
        let from = if target.is_ipv4() { "0.0.0.0:53" } else { "[::]:53" };
        let sender = self.attacker.run(|| UdpSocket::bind(from).unwrap()).unwrap();
        // An answer that nobody is there (ICMP) ends the next send.
        let send = |to: IpAddr| {
            let to = SocketAddr::new(to, 9);
            sender.send_to(b"x", to).or_else(|_| sender.send_to(b"x", to)).unwrap();
        };
        send(target);
        send(other);
        second.set_read_timeout(Some(PATIENCE)).unwrap();
        second.recv(&mut [0; 9]).unwrap();
        first.set_nonblocking(true).unwrap();
        first.recv(&mut [0; 9]).is_ok()
    }

    /// `ip monitor route` on the router.
    pub(crate) fn monitor(&self) -> Started {
        let mut command = Command::new("ip");
        command.args(["monitor", "route"]);
        let (mut monitor, is_heard) = (spawn(&self.router, command), AtomicBool::new(false));
        // It says nothing when it listens: make something for it to say.
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_heard.load(Ordering::Relaxed) {
                    self.script(
                        &self.router,
                        "ip route add blackhole 198.51.100.1; ip route del blackhole 198.51.100.1",
                    );
                }
            });
            monitor.next_line();
            is_heard.store(true, Ordering::Relaxed);
        });
        monitor
    }

    /// The blackhole routes of the router's kernel.
    pub(crate) fn blackholes(&self) -> usize {
        let said = self.script(
            &self.router,
            "ip route show type blackhole proto bird; ip -6 route show type blackhole proto bird",
        );
        said.lines().count()
    }
}

/// Where gobgpd listens.
pub(crate) const GOBGP: &str = "127.0.0.1:50051";

/// Starts a program on a host.
pub(crate) fn spawn(ns: &NetNs, mut command: Command) -> Started {
    command.stdin(Stdio::null());
    ns.run(|| Started::spawn(command)).unwrap()
}

/// A speaker whose state is waited for.
pub(crate) struct Held {
    pub(crate) speaker: Speaker,
    bell: Receiver<()>,
}

impl Held {
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is: impl Fn(&State) -> bool) {
        let began = Instant::now();
        while !is(&self.speaker.state()) {
            let left = PATIENCE.saturating_sub(began.elapsed());
            assert!(self.bell.recv_timeout(left).is_ok(), "{what}: {:?}", self.speaker.state().speaking);
        }
    }

    /// Wants them, and waits until all of them are installed.
    #[track_caller]
    pub(crate) fn install(&self, routes: &[Route]) {
        self.speaker.want(routes);
        self.until("installed", |state| are_installed(state, routes));
    }

    #[track_caller]
    pub(crate) fn until_established(&self) {
        self.until("a neighbour", |state| state.speaking.neighbours.iter().any(Neighbour::is_established));
    }
}

pub(crate) fn are_installed(state: &State, routes: &[Route]) -> bool {
    routes.iter().all(|route| matches!(state.installed(route), Installed::Yes { .. }))
}

pub(crate) fn settings() -> Settings {
    Settings {
        gobgp: Address(GOBGP.parse().unwrap()),
        id: 1,
        marker: Some(MARKER),
        community: BLACKHOLE,
        next_hop: None,
        next_hop_v6: None,
        on_stop: OnStop::Keep,
    }
}

pub(crate) fn blackhole(prefix: &str) -> Route {
    let destination: IpNet = prefix.parse().unwrap();
    let next_hop = if destination.network().is_ipv4() { "192.0.2.1" } else { "100::1" }.parse().unwrap();
    Route {
        rule: Rule::to(destination),
        action: Action::Blackhole,
        next_hop: Some(next_hop),
        communities: vec![BLACKHOLE],
    }
}

/// So many blackhole routes, of hosts in 10.9.4.0/22.
pub(crate) fn blackholes(count: u16) -> Vec<Route> {
    (0..count).map(|host| blackhole(&format!("10.9.{}.{}/32", 4 + (host >> 8), host & 255))).collect()
}
