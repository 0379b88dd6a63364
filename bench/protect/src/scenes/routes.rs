//! A thousand routes at once: how long until the peer of a real gobgpd has all of them, whose session stands, and what that costs; beside
//! `gobgp`, the command that scripts call once a route.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bench_measure::{Report, median};
use serde_json::json;
use weir_kernel::links::Netlink;
use weir_kernel::namespaces::NetNs;
use weir_program::config::Address;
use weir_protect::bgp::Speaker;
use weir_protect::config::{document::OnStop, values::Community};
use weir_protect::model::{Action, Route, Rule};
use weir_protect::settings;

use super::Scale;
use super::neighbour;
use crate::programs::Programs;

const ROUTES: u32 = 1_000;
/// As many as a command a route takes seconds for.
const BY_COMMAND: u32 = 200;
/// The one that is there before.
const FIRST: u32 = 60_000;
const BLACKHOLE: Community = Community::Standard(65_535, 666);
const GOBGP: &str = "127.0.0.1:50051";
/// What anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    let (Some(gobgpd), Some(gobgp)) = (&programs.gobgpd, &programs.gobgp) else {
        println!("gobgpd or gobgp is missing: left out");
        return Ok(());
    };
    let (mut times, mut costs, mut by_command, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scale.rounds.min(5) {
        let scene = Scene::start(gobgpd)?;
        let (time, cost) = scene.by_weir()?;
        drop(scene);
        let scene = Scene::start(gobgpd)?;
        let command = scene.by_command(gobgp)?;
        times.push(time * 1e3);
        costs.push(cost * 1e3);
        by_command.push(command * 1e3);
        ratios.push(command / (time / f64::from(ROUTES)));
    }
    let [time, cost, command, ratio] = [&times, &costs, &by_command, &ratios].map(|values| median(values));
    println!(
        "{ROUTES} blackhole routes wanted at once, until the peer of gobgpd, whose session stands, has all of them ({} rounds):",
        times.len()
    );
    let goal = report.goal("1,000 routes at the peer", "<= 1 s", &format!("{time:.0} ms"), time <= 1000.0);
    println!("    weir: {time:.0} ms, {cost:.0} ms of processors (weir, gobgpd, and the peer that counts) {goal}");
    println!("    gobgp, a command a route, one after the other: {command:.1} ms a route: {ratio:.0} times as long");
    report.figure(json!({"scene": "routes", "routes": ROUTES, "ms": time, "processors_ms": cost, "command_ms_a_route": command, "ratio": ratio}));
    Ok(())
}

/// gobgpd in a network of its own, and its neighbour, which notes how many routes it has and when.
struct Scene {
    network: NetNs,
    gobgpd: Child,
    counts: Receiver<(Instant, u32)>,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn start(gobgpd: &std::path::Path) -> Result<Self> {
        let network = NetNs::create().context("make a network (root is needed)")?;
        Netlink::open(&network)?.set_loopback_up()?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("gobgpd.toml");
        fs::write(
            &file,
            format!(
                "[global.config]\nas = 65001\nrouter-id = \"127.0.0.1\"\nlocal-address-list = [\"127.0.0.1\"]\n\
                 [[neighbors]]\n[neighbors.config]\nneighbor-address = \"{}\"\npeer-as = {}\n\
                 [neighbors.transport.config]\nlocal-address = \"127.0.0.1\"\n\
                 [[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"ipv4-unicast\"\n",
                neighbour::ADDRESS,
                neighbour::ASN
            ),
        )?;
        let counts = network.run(neighbour::start)??;
        let mut command = Command::new(gobgpd);
        command.arg("-f").arg(&file).args(["--api-hosts", GOBGP, "--pprof-disable"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let gobgpd = network.run(|| command.spawn())?.context("start gobgpd")?;
        Ok(Self { network, gobgpd, counts, _folder: folder })
    }

    fn speaker(&self) -> Result<Speaker> {
        let settings = settings::Speaker {
            gobgp: Address(GOBGP.parse()?),
            id: 1,
            marker: None,
            community: BLACKHOLE,
            next_hop: None,
            next_hop_v6: None,
            on_stop: OnStop::Keep,
        };
        let speaker = self.network.run(|| Speaker::start(&settings, || {}))??;
        // gobgpd tells a neighbour that speaks no graceful restart nothing for some seconds (its deferral time): that is the start of
        // a session, and not what is measured.
        speaker.want(&[route(FIRST)?]);
        self.until(1)?;
        Ok(speaker)
    }

    /// Until the neighbour has so many; when that was.
    fn until(&self, routes: u32) -> Result<Instant> {
        loop {
            let (at, count) = self.counts.recv_timeout(PATIENCE).context("the neighbour hears nothing")?;
            if count == routes {
                return Ok(at);
            }
        }
    }

    /// Seconds until the neighbour has them, and seconds of processors.
    fn by_weir(&self) -> Result<(f64, f64)> {
        let speaker = self.speaker()?;
        let routes = (0..ROUTES).chain([FIRST]).map(route).collect::<Result<Vec<_>>>()?;
        let before = self.cost()?;
        let began = Instant::now();
        speaker.want(&routes);
        let time = self.until(ROUTES + 1)? - began;
        Ok((time.as_secs_f64(), self.cost()? - before))
    }

    /// Seconds a route.
    fn by_command(&self, gobgp: &std::path::Path) -> Result<f64> {
        let _speaker = self.speaker()?;
        let began = Instant::now();
        for number in 0..BY_COMMAND {
            let prefix = prefix(number);
            let arguments = ["global", "rib", "add", &prefix, "nexthop", "192.0.2.1", "community", "65535:666"];
            let status = self.network.run(|| Command::new(gobgp).args(arguments).status())??;
            ensure!(status.success(), "gobgp {arguments:?}: {status}");
        }
        Ok((self.until(BY_COMMAND + 1)? - began).as_secs_f64() / f64::from(BY_COMMAND))
    }

    /// Seconds of processors so far, of gobgpd and this program, which has the peer in it.
    fn cost(&self) -> Result<f64> {
        Ok(spent("self")? + spent(&self.gobgpd.id().to_string())?)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.gobgpd.kill());
        drop(self.gobgpd.wait());
    }
}

/// What a process has had of processors, in seconds (proc(5), stat: utime and stime, in hundredths).
fn spent(process: &str) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let behind = text.rsplit(") ").next().unwrap_or_default();
    let ticks = behind.split(' ').skip(11).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}

fn prefix(number: u32) -> String {
    format!("10.1.{}.{}/32", number / 256, number % 256)
}

fn route(number: u32) -> Result<Route> {
    let rule = Rule::to(prefix(number).parse()?);
    let next_hop = Some("192.0.2.1".parse()?);
    Ok(Route { rule, action: Action::Blackhole, next_hop, communities: vec![BLACKHOLE] })
}
