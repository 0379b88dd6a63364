//! Open vSwitch with its datapath in user space: counters of each port, samples of the whole bridge, a pool that is made up.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_testbed::Ended;
use weir_testbed::network::{Host, namespace};

use super::meter::{RX_OCTETS, RX_PACKETS, TX_OCTETS};
use super::{Analyser, Count, Hits, LOOKS, Meter, Octets, Started, await_that, traffic, whole_frames};

#[test]
fn flows_come() {
    compare(false);
}

/// Looks for flows, or compares rates.
pub(super) fn compare(rates: bool) {
    let Some(tools) = Tools::find() else { return };
    let Some(iperf3) = weir_testbed::program("iperf3") else { return };
    let Some(ns) = namespace() else { return };
    let switch = OpenVSwitch::start(&tools, &ns);
    let [one, two] = &switch.hosts;
    let (analyser, meter) = (Analyser::start(&ns), Meter::start(&ns));
    analyser.define_senders(SMOOTHING);
    switch.sample(&tools, 20);

    // Nine of ten frames are of one host: its share is nearly certain, their number is not.
    let _traffic = [traffic(&iperf3, two, one, "14M", "500"), traffic(&iperf3, one, two, "1600K", "500")];
    if !rates {
        return analyser.await_senders(&["10.0.0.1", "10.0.0.2"]);
    }
    let senders = [("10.0.0.1", "p1"), ("10.0.0.2", "p2")];
    let mut hits =
        senders.map(|(sender, interface)| Hits::new(sender, Count::Column { interface, column: RX_PACKETS }));
    // Until nothing of the beginning is left in either.
    sleep(Duration::from_secs_f64(8.0 * SMOOTHING));

    let interfaces =
        [("p1", "ifinoctets", RX_OCTETS), ("p2", "ifinoctets", RX_OCTETS), ("p1", "ifoutoctets", TX_OCTETS)];
    let mut octets = [const { None }; 3].map(|_: Option<()>| Octets::default());
    for round in 0..LOOKS * 3 {
        sleep(Duration::from_secs_f64(SMOOTHING / 2.0));
        if round % 3 == 2 {
            hits.iter_mut().for_each(|hits| hits.check(&analyser, &meter, SMOOTHING));
        }
        let Some((table, at)) = analyser.dated("/table/ALL/ifname,ifinoctets,ifoutoctets/json") else { continue };
        for ((interface, metric, column), octets) in interfaces.iter().zip(&mut octets) {
            let row = table.as_array().unwrap().iter().find(|row| row[0]["metricValue"] == *interface);
            let Some(row) = row else { panic!("no {interface}: {table}") };
            let measure = row.as_array().unwrap().iter().find(|measure| measure["metricName"] == *metric).unwrap();
            // There is none before two counter samples.
            if measure["metricValue"].is_number() {
                octets.take((measure, at), &meter, &Count::Column { interface, column: *column });
            }
        }
    }
    for octets in &octets {
        assert!(octets.rates >= 5, "{octets:?}");
        octets.are_told();
    }
    hits.iter().for_each(Hits::are_enough);
}

/// In seconds.
const SMOOTHING: f64 = 0.5;

/// The programs of Open vSwitch.
struct Tools {
    database_tool: PathBuf,
    database: PathBuf,
    control: PathBuf,
    switch: PathBuf,
    schema: PathBuf,
}

impl Tools {
    /// `None`: the test is skipped.
    #[track_caller]
    fn find() -> Option<Tools> {
        let database_tool = weir_testbed::program("ovsdb-tool")?;
        // Unpacked, or installed.
        let schema = "usr/share/openvswitch/vswitch.ovsschema";
        let unpacked = database_tool.parent()?.with_file_name("root").join(schema);
        let schema = if unpacked.exists() { unpacked } else { Path::new("/").join(schema) };
        Some(Tools {
            database: weir_testbed::program("ovsdb-server")?,
            control: weir_testbed::program("ovs-vsctl")?,
            switch: weir_testbed::program("ovs-vswitchd")?,
            database_tool,
            schema,
        })
    }
}

/// A bridge `br0` with hosts 1 and 2 behind its ports `p1` and `p2`; all that it writes is in a directory of its own.
struct OpenVSwitch<'a> {
    ns: &'a NetNs,
    dir: TempDir,
    hosts: [Host; 2],
    _running: [Started; 2],
}

impl<'a> OpenVSwitch<'a> {
    #[track_caller]
    fn start(tools: &Tools, ns: &'a NetNs) -> Self {
        let mut netlink = Netlink::open(ns).unwrap();
        netlink.set_loopback_up().unwrap();
        let hosts = [(1, "p1"), (2, "p2")].map(|(number, port)| {
            let host = Host::plugged(number, ns, port, 1500);
            let port = netlink.link(port).unwrap().index;
            netlink.set_no_link_local(port).unwrap();
            netlink.set_up(port).unwrap();
            host.wait_until_running();
            whole_frames(&host);
            host
        });
        hosts[0].knows(2);
        hosts[1].knows(1);

        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let (database, socket) = (path("conf.db"), path("db.sock"));
        run(ns, here(&dir, &tools.database_tool).args(["create", &database, tools.schema.to_str().unwrap()]));
        let flags = [&database[..], &format!("--remote=punix:{socket}"), &format!("--unixctl={}", path("db.ctl"))];
        let served = spawn(ns, here(&dir, &tools.database), &flags);
        await_that("the database of Open vSwitch", || Path::new(&socket).exists());
        let flags =
            [&format!("unix:{socket}")[..], &format!("--unixctl={}", path("switch.ctl")), "--log-file=/dev/null"];
        let switched = spawn(ns, here(&dir, &tools.switch), &flags);
        let switch = OpenVSwitch { ns, dir, hosts, _running: [served, switched] };
        switch.control(tools, &["init"]);
        let bridge = ["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"];
        switch.control(tools, &[&bridge[..], &["--", "add-port", "br0", "p1", "--", "add-port", "br0", "p2"]].concat());
        switch
    }

    /// Sends one frame of so many to a collector here, and counters every second.
    #[track_caller]
    fn sample(&self, tools: &Tools, one_of: u32) {
        let sampling = format!("sampling={one_of}");
        let agent = ["agent=lo", "target=\"127.0.0.1:6343\"", "header=128", &sampling, "polling=1"];
        let create = [&["--", "--id=@sflow", "create", "sflow"][..], &agent].concat();
        self.control(tools, &[&create[..], &["--", "set", "bridge", "br0", "sflow=@sflow"]].concat());
    }

    /// Returns when the switch has done as it is told.
    #[track_caller]
    fn control(&self, tools: &Tools, arguments: &[&str]) {
        let database = format!("--db=unix:{}", self.dir.path().join("db.sock").display());
        run(self.ns, here(&self.dir, &tools.control).args([&database[..], "--timeout=20"]).args(arguments));
    }
}

/// A program that keeps to a directory.
fn here(dir: &TempDir, name: &Path) -> Command {
    let mut command = Command::new(name);
    command.envs(["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"].map(|place| (place, dir.path())));
    command.stdin(Stdio::null());
    command
}

fn spawn(ns: &NetNs, mut command: Command, flags: &[&str]) -> Started {
    command.args(flags);
    ns.run(|| Started::spawn(command)).unwrap()
}

#[track_caller]
fn run(ns: &NetNs, command: &mut Command) {
    let ended = ns.run(|| Ended::of(command)).unwrap();
    assert_eq!(ended.status, Some(0), "{}", ended.stderr);
}
