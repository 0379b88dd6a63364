//! From a flood to its end, with real speakers: `weir sflow agent` samples what passes a router, `weir sflow serve` has gobgpd announce
//! a blackhole route, BIRD or FRR takes it into the router's kernel, which drops; or a rule (FlowSpec), of which a program behind
//! ExaBGP makes one of nftables.
//!
//! ```text
//! attacker 10.9.1.1 --- router 10.9.0.2 (agent; BIRD, or FRR and, as 10.9.0.3, ExaBGP) --- victim 10.9.4.0/22
//!                          |
//!                       analyser 10.9.0.1 (gobgpd)
//! ```

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_testbed::network::{end, namespace};
use weir_testbed::standstills::Standstills;
use weir_testbed::{Ended, PATIENCE, Started, program, skip};

use crate::sflow::serve::{File, Serve};
use crate::weir;

/// Datagrams a second of a flood, as far as this machine can.
const FLOOD: u32 = 40_000;

/// What the issue promises from the flood to the drop.
const PROMISED: Duration = Duration::from_secs(1);

struct Network {
    attacker: NetNs,
    victim: NetNs,
    router: NetNs,
    analyser: NetNs,
    file: File,
}

impl Network {
    #[track_caller]
    fn create() -> Option<Self> {
        program("ip")?;
        let [attacker, victim, router, analyser] = [namespace()?, namespace()?, namespace()?, namespace()?];
        for (number, (host, port)) in
            [(&attacker, "attacker"), (&victim, "victim"), (&analyser, "analyser")].iter().enumerate()
        {
            let mac = 2 * number as u32;
            Netlink::open(host)
                .unwrap()
                .add_veth(&end(host, "eth0", mac, 1500), &end(&router, port, mac + 1, 1500))
                .unwrap();
        }
        let network = Self { attacker, victim, router, analyser, file: File::new("") };
        network.script(
            &network.router,
            "ip link set lo up
             for link in attacker:1 victim:8 analyser:0; do
                 ip addr add 10.9.${link#*:}.2/24 dev ${link%:*}; ip link set ${link%:*} up
             done
             echo 1 >/proc/sys/net/ipv4/ip_forward; ip route add 10.9.2.0/24 via 10.9.8.1; ip route add 10.9.4.0/22 via 10.9.8.1",
        );
        for (ns, number) in [(&network.attacker, 1), (&network.victim, 8), (&network.analyser, 0)] {
            network.script(
                ns,
                &format!(
                    "ip link set lo up; ip addr add 10.9.{number}.1/24 dev eth0; ip link set eth0 up
                     ip route add default via 10.9.{number}.2"
                ),
            );
        }
        network.script(&network.victim, "ip route add local 10.9.2.0/24 dev lo; ip route add local 10.9.4.0/22 dev lo");
        Some(network)
    }

    fn script(&self, ns: &NetNs, script: &str) -> String {
        let ended = ns.run(|| Ended::of(Command::new("sh").args(["-ec", script]))).unwrap();
        assert_eq!(ended.status, Some(0), "{script}: {ended:?}");
        ended.stdout
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let folder = self.file.dir.path();
        fs::write(folder.join(name), text.replace("@DIR@", &folder.display().to_string())).unwrap();
        folder.join(name)
    }

    /// Starts a program; what it says is in a file.
    fn spawn(&self, ns: &NetNs, name: &str, command: &Command) -> Started {
        let mut logged = Command::new("sh");
        logged.args(["-c", "exec \"$@\" >\"$0\" 2>&1"]).arg(self.file.dir.path().join(format!("{name}.log")));
        logged.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        logged.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        ns.run(|| Started::spawn(logged)).unwrap()
    }

    #[track_caller]
    fn gobgpd(&self) -> Option<Started> {
        let head = "[global.config]\nas = 65001\nrouter-id = \"10.9.0.1\"\nlocal-address-list = [\"10.9.0.1\"]\n";
        let mut command = Command::new(program("gobgpd")?);
        // The router, and a program behind ExaBGP on it.
        let neighbour = include_str!("../../../../../rooms/protect/tests/bgp/gobgpd-neighbour.toml");
        let other = neighbour.replace("10.9.0.2", "10.9.0.3");
        command.arg("-f").arg(self.write("gobgpd.toml", &format!("{head}{neighbour}{other}")));
        command.args(["--api-hosts", "127.0.0.1:50051", "--pprof-disable"]);
        Some(self.spawn(&self.analyser, "gobgpd", &command))
    }

    #[track_caller]
    fn bird(&self) -> Option<Started> {
        let text = include_str!("../../../../../rooms/protect/tests/bgp/bird.conf");
        let mut command = Command::new(program("bird")?);
        command.args(["-f", "-c"]).arg(self.write("bird.conf", text));
        command.arg("-s").arg(self.file.dir.path().join("bird.ctl"));
        Some(self.spawn(&self.router, "bird", &command))
    }

    /// FRR's programs, as packages start them but for the user.
    #[track_caller]
    fn frr(&self) -> Option<[Started; 2]> {
        let (zebra, bgpd) = (program("zebra")?, program("bgpd")?);
        let folder = self.file.dir.path().display().to_string();
        let groups = fs::read_to_string("/etc/group").unwrap() + "frr:x:9998:root\nfrrvty:x:9999:root\n";
        let groups = self.write("group", &groups);
        let start = |name: &str, program: &Path, more: &[&str], text: &str| {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-ec", "mount --bind \"$0\" /etc/group; exec \"$@\""]);
            command.arg(&groups).arg(program).args(["-u", "root", "-g", "root", "-P", "0"]).args(more).arg("-f");
            command.arg(self.write(&format!("{name}.conf"), text));
            command.args(["-z", &format!("{folder}/zserv"), "--vty_socket", &folder]);
            command.args(["-i", &format!("{folder}/{name}.pid")]);
            self.spawn(&self.router, name, &command)
        };
        self.script(&self.router, "ip route add blackhole 192.0.2.1");
        let zebra = start("zebra", &zebra, &[], "ip route 192.0.2.1/32 blackhole\n");
        self.until("zebra", || Path::new(&format!("{folder}/zserv")).exists());
        let text = include_str!("../../../../../rooms/protect/tests/bgp/frr-bgpd.conf");
        Some([zebra, start("bgpd", &bgpd, &["-l", "10.9.0.2"], text)])
    }

    /// ExaBGP, and the program that it tells.
    #[track_caller]
    fn exabgp(&self) -> Option<Started> {
        let (python, nft) = (program("python3")?, program("nft")?);
        let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers/python");
        if !fs::exists(format!("{place}/exabgp")).unwrap() {
            skip("needs ExaBGP");
            return None;
        }
        let helper =
            self.write("flow_to_nft.py", include_str!("../../../../../rooms/protect/tests/bgp/flow_to_nft.py"));
        let text = include_str!("../../../../../rooms/protect/tests/bgp/exabgp.conf").replace("10.9.0.2", "10.9.0.3");
        let run = format!("{} {} {}", python.display(), helper.display(), nft.display());
        let file = self.write("exabgp.conf", &text.replace("@RUN@", &run));
        self.script(&self.router, "ip addr add 10.9.0.3/24 dev analyser");
        let mut command = Command::new(&python);
        command.args(["-m", "exabgp", "server"]).arg(file).env("PYTHONPATH", place);
        command.env("exabgp_daemon_user", "root").env("exabgp_api_cli", "false");
        Some(self.spawn(&self.router, "exabgp", &command))
    }

    fn agent(&self) -> Started {
        let flags = ["sflow", "agent", "--agent", "10.9.0.2", "--to", "10.9.0.1", "--interface", "attacker"];
        let rates = ["--polling", "1s", "--sampling", "1000", "--drops", "0/s"];
        self.router.run(|| Started::ready(weir(&[&flags[..], &rates].concat()))).unwrap()
    }

    fn serve(&self) -> Serve {
        let path = self.file.path();
        self.analyser.run(|| Serve::start(&["-c", &path, "--workers", "1"])).unwrap()
    }

    /// Two groups of networks: the first is blackholed, the other gets rules.
    fn configure(&self, blackholed: &str, ruled: &str) {
        let journal = self.file.dir.path().join("journal");
        self.file.write(&format!(
            r#"user = "root"
            [[listener]]
            address = "10.9.0.1:6343"
            [protect]
            mode = "automatic"
            agents = ["10.9.0.2"]
            settle = "1s"
            journal = {journal:?}
            [protect.ttl]
            hysteresis = "1s"
            [protect.speaker]
            gobgp = "127.0.0.1:50051"
            next_hop = "192.0.2.1"
            [protect.groups.web]
            networks = [{blackholed}]
            thresholds.udp_flood.packets = "2k/s"
            [[protect.groups.web.levels]]
            action = "blackhole"
            harm = "100%"
            [protect.groups.games]
            networks = [{ruled}]
            thresholds.udp_flood.packets = "2k/s"
            [[protect.groups.games.levels]]
            action = "drop"
            harm = "100%"
            [protect.caps]
            share = "100%"
            "#
        ));
    }

    fn is_established(&self) -> bool {
        let mut command = Command::new(program("birdc").expect("it comes with bird"));
        command.arg("-s").arg(self.file.dir.path().join("bird.ctl")).args(["show", "protocols", "gobgp"]);
        self.router.run(|| Ended::of(&mut command)).unwrap().stdout.contains("Established")
    }

    /// Blackhole routes in the router's kernel that BIRD made.
    fn blackholes(&self) -> usize {
        self.script(&self.router, "ip route show type blackhole proto bird")
            .lines()
            .filter(|line| line.contains(".7 "))
            .count()
    }

    #[track_caller]
    fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is() {
            let log = |name: &str| fs::read_to_string(self.file.dir.path().join(name)).unwrap_or_default();
            // Who speaks BGP and finds nobody tries again only after some seconds.
            let logs = || ["journal", "gobgpd.log", "bird.log"].map(log).concat();
            assert!(began.elapsed() < 3 * PATIENCE, "{what}: {}", logs());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Until the analyser has counters of the router's interface: samples that nothing is counted for are not believed. The journal
    /// tells nothing of that; a little traffic is sampled meanwhile.
    fn warm(&self, serve: &mut Serve) {
        let sender = self.attacker.run(|| UdpSocket::bind("0.0.0.0:53").unwrap()).unwrap();
        self.until("rates", || {
            // Nobody answers there (ICMP): the next call would be told.
            (0..20).for_each(|_| drop(sender.send_to(&[0; 400], "10.9.2.250:9")));
            let serve = &mut *serve;
            let rate = self.analyser.run(move || serve.get("/metric/10.9.0.2/ifinucastpkts/json")).unwrap();
            rate[0]["metricValue"].is_number()
        });
    }

    /// Whether nothing comes through to a host: one to another host, that was sent later, has.
    fn drops(&self, target: Ipv4Addr) -> bool {
        let bind = |address: &str| self.victim.run(|| UdpSocket::bind((address, 9)).unwrap()).unwrap();
        let (first, second) = (bind(&target.to_string()), bind("10.9.2.250"));
        let sender = self.attacker.run(|| UdpSocket::bind("0.0.0.0:53").unwrap()).unwrap();
        // The router may say that there is no way.
        drop(sender.send_to(b"x", (target, 9)));
        sender.send_to(b"x", "10.9.2.250:9").or_else(|_| sender.send_to(b"x", "10.9.2.250:9")).unwrap();
        second.set_read_timeout(Some(PATIENCE)).unwrap();
        second.recv(&mut [0; 9]).unwrap();
        first.set_nonblocking(true).unwrap();
        first.recv(&mut [0; 9]).is_err()
    }

    /// Floods a host for this long. How long the machine ran from the first datagram to the last that came through; `None`: they came to
    /// the end.
    fn flood(&self, target: Ipv4Addr, length: Duration) -> Option<Duration> {
        let begin = Instant::now();
        self.flood_while(target, || begin.elapsed() < length)
    }

    fn flood_while(&self, target: Ipv4Addr, goes_on: impl Fn() -> bool) -> Option<Duration> {
        let receiver = self.victim.run(|| UdpSocket::bind((target, 9)).unwrap()).unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let sender = self.attacker.run(|| UdpSocket::bind("0.0.0.0:53").unwrap()).unwrap();
        let (is_over, watch) = (AtomicBool::new(false), Standstills::watch());
        thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let mut last = None;
                while !is_over.load(Ordering::Relaxed) {
                    if receiver.recv(&mut [0; 500]).is_ok() {
                        last = Some(Instant::now());
                    }
                }
                last
            });
            let begin = Instant::now();
            let mut sent = 0;
            while goes_on() {
                let due = begin.elapsed().as_millis() as u32 * (FLOOD / 1000);
                while sent < due {
                    // The router may say that there is no way.
                    drop(sender.send_to(&[0; 400], (target, 9)));
                    sent += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
            let end = Instant::now();
            is_over.store(true, Ordering::Relaxed);
            let last = receiving.join().unwrap().expect("some came through");
            (last + Duration::from_millis(100) < end).then(|| watch.running(begin, last))
        })
    }

    /// Lines of the journal, but for one that is only half there yet.
    fn journal(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.file.dir.path().join("journal")).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Each of a network of its own: neighbours that are flooded are taken for a carpet.
fn target(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 3 + number, 7)
}

/// gobgpd, BIRD, agent and analyser, all in session.
#[track_caller]
fn scene(network: &Network) -> Option<(Serve, [Started; 3])> {
    let (gobgpd, bird) = (network.gobgpd()?, network.bird()?);
    network.configure(r#""10.9.2.0/24", "10.9.4.0/24", "10.9.5.0/24", "10.9.6.0/24""#, r#""10.9.7.0/24""#);
    let mut serve = network.serve();
    let agent = network.agent();
    network.warm(&mut serve);
    network.until("a session of gobgpd with BIRD", || network.is_established());
    Some((serve, [gobgpd, bird, agent]))
}

#[test]
fn a_flood_is_dropped_and_stays_so_over_a_kill() {
    let Some(network) = Network::create() else { return };
    let Some((serve, _programs)) = scene(&network) else { return };
    let (begin, host) = (Instant::now(), target(1));
    network.flood_while(host, || begin.elapsed() < PATIENCE && network.blackholes() == 0);
    assert!(network.drops(host), "{:#?}", network.journal());
    // What gobgpd has stays.
    drop(serve);
    assert!(network.drops(host) && network.blackholes() == 1);
}

#[test]
#[ignore = "long: 12 s"]
fn floods_are_dropped_within_a_second() {
    let Some(network) = Network::create() else { return };
    let Some((serve, _programs)) = scene(&network) else { return };
    let mut delays: Vec<Duration> = (1..=3)
        .map(|number| {
            let delay = network.flood(target(number), Duration::from_secs(3));
            delay.unwrap_or_else(|| panic!("it came through to the end: {:#?}", network.journal()))
        })
        .collect();
    delays.sort_unstable();
    let installed: Vec<_> = network
        .journal()
        .iter()
        .filter(|line| line["what"] == "installed")
        .map(|line| line["why"].to_string())
        .collect();
    eprintln!("from the first datagram of a flood to the last that came through: {delays:?}; {installed:?}");
    assert!(delays[1] < PROMISED, "{delays:?}");

    // Killed: what gobgpd has stays, and what comes back knows it again.
    let before = network.blackholes();
    assert!(before >= 1, "routes of floods that are over go after 11 s");
    drop(serve);
    assert!(network.blackholes() > 0);
    let _serve = network.serve();
    network.until("withdrawn", || network.blackholes() == 0);
    // The routes go first, lines are written later.
    let over = || network.journal().iter().filter(|line| line["what"] == "over").count();
    network.until("the floods to be over", || over() >= 3);
    assert_eq!(over(), 3, "{:#?}", network.journal());
}

#[test]
#[ignore = "long: 9 s"]
fn frr_and_a_program_behind_exabgp_stop_floods_too() {
    let Some(network) = Network::create() else { return };
    let (Some(_gobgpd), Some(_frr), Some(_exabgp)) = (network.gobgpd(), network.frr(), network.exabgp()) else {
        return;
    };
    network.configure(r#""10.9.4.0/24""#, r#""10.9.5.0/24""#);
    let mut serve = network.serve();
    let _agent = network.agent();
    network.warm(&mut serve);
    let gobgp = program("gobgp").expect("it comes with gobgpd");
    let sessions = || network.script(&network.analyser, &format!("{} neighbor", gobgp.display()));
    network.until("sessions with both", || sessions().matches("Establ").count() == 2);
    let delays = [1, 2].map(|number| network.flood(target(number), Duration::from_secs(3)));
    eprintln!("FRR, ExaBGP and nft: from the first datagram of a flood to the last that came through: {delays:?}");
    let [routes, rules] = ["ip route show type blackhole proto bgp", "nft list chain inet flowspec forward"]
        .map(|script| network.script(&network.router, script));
    let is_one = |text: &str, target: &str| text.matches(".7").count() == 1 && text.contains(target);
    assert!(is_one(&routes, "10.9.4.7") && is_one(&rules, "10.9.5.7"), "{routes}{rules}");
    for delay in delays {
        // Both programs take their time; ExaBGP tells what it has heard ten times a second.
        assert!(delay.is_some_and(|delay| delay < 2 * PROMISED), "{:#?}", network.journal());
    }
}
