//! Signals from stations to viewers over links that lose: does every viewer know of every sample?
//!
//! ```text
//! stations, servers: `weir monitor station`, `weir monitor serve`, on hosts of their own      viewer: the room's receiver
//!   | witness: a receiver on the station's host, in front of every link                         | shown, gaps with causes
//!   v when each sample was                                                                       v and when that was known
//! judgement: samples that the station had = shown + gaps, at every viewer
//! ```
//!
//! Stations tell at their end how many samples there were. A viewer is held against that: of whatever is neither shown nor a gap
//! nothing explains what became.

mod judgement;
mod programs;
mod viewer;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::poll::{PollFd, PollFlags};
use weir_monitor::receive::Listen;
use weir_program::clock::{self, Nanos, nanos};
use weir_program::stop::Stop;
use weir_traffic::{Transport, Window};

pub use self::judgement::{Report, Seen};
use self::programs::{Server, Station, Told};
use self::viewer::{Setting, Viewer};
use crate::endpoints::joined;
use crate::network::Network;
use crate::scenario::{Follow, Monitor, ReaderStall, Scenario};
use crate::topology::{Flow, SECOND, Topology, VIEWERS};

/// Viewers that have joined, servers that run, stations that are ready to be started.
pub struct Feed {
    stations: Vec<Station>,
    servers: Vec<Server>,
    viewers: Vec<Viewer>,
    /// One a station, on its host.
    witnesses: Vec<Viewer>,
    duration: Duration,
    drain: Duration,
    kill: Option<Duration>,
    stall: Option<ReaderStall>,
}

impl Feed {
    /// Opens and starts what has to be there before the first sample.
    ///
    /// # Errors
    /// A socket cannot be opened, a server does not start, a switch does not hear who has joined.
    pub fn prepare(
        network: &Network<'_>,
        scenario: &Scenario,
        topology: &Topology,
        processors: &[Option<usize>],
    ) -> Result<Feed> {
        let monitor = scenario.monitor.clone().unwrap_or_default();
        let traffic = &scenario.traffic;
        let to = |group: IpAddr| SocketAddr::new(group, traffic.port);
        let listen = |node: usize, flow: &Flow| -> Option<Listen> {
            let at = flow.receivers.iter().position(|&receiver| receiver == node)?;
            let (link, _) = *flow.paths[at].forward.last()?;
            let interface = Some(network.interface(node, link).to_owned());
            Some(Listen { address: to(flow.destination), interface, source: None })
        };
        // What a host listens to: each group once.
        let listens = |node: usize, wanted: &dyn Fn(IpAddr) -> bool| {
            let mut all: Vec<Listen> = Vec::new();
            for listen in
                topology.groups.iter().filter(|flow| wanted(flow.destination)).filter_map(|flow| listen(node, flow))
            {
                if !all.contains(&listen) {
                    all.push(listen);
                }
            }
            all
        };
        let from_stations = |group: IpAddr| group != VIEWERS;
        let follows_servers = monitor.follow == Follow::Servers;
        let wanted = |group: IpAddr| from_stations(group) != follows_servers;
        let buffer = scenario.receive.buffer.0.map(|size| usize::try_from(size.bytes).unwrap_or(usize::MAX));

        let mut servers = Vec::new();
        for (priority, name) in (0..).zip(&monitor.servers) {
            let node = topology.node(name)?;
            let config = programs::Serve {
                name,
                listen: listens(node, &from_stations),
                publish: follows_servers.then(|| to(VIEWERS)),
                interface: sends_by(network, topology, node, VIEWERS),
                priority,
                display: monitor.display,
                delay: monitor.delay,
            };
            servers.push(Server::start(network.namespace(node), &config)?);
        }
        let open = |node: usize, listen: Vec<Listen>| {
            let setting = Setting { listen, buffer, processor: processors[node] };
            Viewer::open(network.namespace(node), setting)
        };
        let viewers = topology.traffic.receivers.iter().map(|&node| open(node, listens(node, &wanted)));
        let viewers = viewers.collect::<Result<Vec<_>>>()?;
        let (mut stations, mut witnesses) = (Vec::new(), Vec::new());
        for (number, name) in (0..).zip(monitor.stations(traffic)) {
            let node = topology.node(name)?;
            let own = topology.groups.iter().filter(|flow| flow.sender == node && from_stations(flow.destination));
            let mut groups: Vec<(SocketAddr, String)> = own
                .filter_map(|flow| {
                    let (link, _) = *flow.paths.first()?.forward.first()?;
                    Some((to(flow.destination), network.interface(node, link).to_owned()))
                })
                .collect();
            groups.sort_by_key(|(address, _)| address.ip() == SECOND);
            let (first, interface) = groups.first().cloned().context("a station has a group")?;
            let listen = vec![Listen { address: first, interface: Some(interface), source: None }];
            let setting = Setting { listen, buffer: None, processor: None };
            witnesses.push(Viewer::open(network.namespace(node), setting)?);
            stations.push(Station::new(network.namespace(node), name, number, groups, &monitor, traffic)?);
        }
        for flow in &topology.groups {
            network
                .wait_for_members(flow.destination, &flow.receivers)
                .with_context(|| servers.iter_mut().filter_map(Server::fault).collect::<Vec<_>>().join("; "))?;
        }
        Ok(Feed {
            stations,
            servers,
            viewers,
            witnesses,
            duration: scenario.run.duration.duration(),
            drain: scenario.run.drain.duration(),
            kill: monitor.kill.map(|kill| kill.duration()),
            stall: scenario.receive.stall,
        })
    }

    /// Starts the stations at `begin`, ends them after the window, and the viewers when the drain is over.
    ///
    /// # Errors
    /// A station cannot be started, or ends without its account.
    pub fn run(self, begin: Nanos, realtime: bool, stop: &Stop) -> Result<Report> {
        let Feed { stations, mut servers, viewers, witnesses, duration, drain, kill, stall } = self;
        let over = AtomicBool::new(false);
        let window = Window { start: begin, end: begin + nanos(duration) };
        let (told, stopped, seen, truth) = std::thread::scope(|scope| {
            let over = &over;
            let watch = |viewer: Viewer, stall: Option<ReaderStall>| {
                scope.spawn(move || viewer.run(over, window, realtime, stall))
            };
            let watching: Vec<_> = viewers.into_iter().map(|viewer| watch(viewer, stall)).collect();
            let witnessing: Vec<_> = witnesses.into_iter().map(|witness| watch(witness, None)).collect();
            let (told, stopped) = conduct(stations, &mut servers, begin, duration, kill, stop);
            if told.is_ok() {
                wait_until(clock::now() + nanos(drain), stop);
            }
            over.store(true, Ordering::Relaxed);
            let seen = watching.into_iter().map(joined).collect::<Result<Vec<_>>>();
            let truth = witnessing.into_iter().map(joined).collect::<Result<Vec<_>>>();
            (told, stopped, seen, truth)
        });
        let told: Vec<Told> = told?;
        let faults: Vec<String> = servers.iter_mut().filter_map(Server::fault).collect();
        Ok(judgement::judge(window, stopped, &told, &truth?, seen?, faults))
    }
}

/// From the start of the stations to their end; whether that came early.
fn conduct(
    stations: Vec<Station>,
    servers: &mut [Server],
    begin: Nanos,
    duration: Duration,
    kill: Option<Duration>,
    stop: &Stop,
) -> (Result<Vec<Told>>, bool) {
    let play = || -> Result<Vec<Told>> {
        wait_until(begin, stop);
        let running = stations.into_iter().map(Station::start).collect::<Result<Vec<_>>>()?;
        if let (Some(kill), Some(server)) = (kill, servers.first_mut()) {
            wait_until(begin + nanos(kill), stop);
            server.kill()?;
        }
        wait_until(begin + nanos(duration), stop);
        // All at once, not one behind the other.
        running.iter().try_for_each(programs::Started::ask_to_end)?;
        running.into_iter().map(programs::Started::ended).collect()
    };
    let told = play();
    (told, stop.is_set())
}

fn wait_until(at: Nanos, stop: &Stop) {
    while clock::now() < at && !stop.is_set() {
        clock::wait(&mut [PollFd::new(stop.as_fd(), PollFlags::POLLIN)], Some(at));
    }
}

/// The interface by which a host sends to a group.
fn sends_by(network: &Network<'_>, topology: &Topology, node: usize, group: IpAddr) -> Option<String> {
    let flow = topology.groups.iter().find(|flow| flow.sender == node && flow.destination == group)?;
    let (link, _) = *flow.paths.first()?.forward.first()?;
    Some(network.interface(node, link).to_owned())
}

/// Refuses a plant that cannot run.
pub fn check(scenario: &Scenario) -> Result<()> {
    let monitor = scenario.monitor.clone().unwrap_or_default();
    let traffic = &scenario.traffic;
    let Monitor { stations, servers, follow, groups, channels, rate, kill, .. } = &monitor;
    ensure!(traffic.transport == Transport::Udp, "traffic.transport: signals go over udp, not {}", traffic.transport);
    let group = traffic.address.filter(IpAddr::is_multicast);
    let group = group.context("traffic.address: signals go to a multicast group, e.g. \"239.192.77.1\"")?;
    ensure!(
        group.is_ipv4() && group != VIEWERS && group != SECOND,
        "traffic.address: {group}: take another IPv4 group"
    );
    ensure!(
        stations.is_empty() || stations.contains(&traffic.from),
        "traffic.from: `{}` is not among monitor.stations",
        traffic.from
    );
    ensure!(*follow == Follow::Stations || !servers.is_empty(), "monitor.follow: there are no monitor.servers");
    ensure!((1..=2).contains(groups), "monitor.groups: {groups}: 1, or 2 (A/B)");
    ensure!((1..=1000).contains(channels), "monitor.channels: {channels}: 1 to 1000");
    ensure!(rate.micro_hertz > 0, "monitor.rate: more than 0");
    if let Some(kill) = kill {
        ensure!(!servers.is_empty(), "monitor.kill: there are no monitor.servers");
        ensure!(
            kill.duration() < scenario.run.duration.duration(),
            "monitor.kill: {kill}: within run.duration, {}",
            scenario.run.duration
        );
    }
    ensure!(
        (1232..=1472).contains(&traffic.payload.bytes),
        "traffic.payload: {}: a datagram has 1232B to 1472B; blocks are small where monitor.delay is",
        traffic.payload
    );
    Ok(())
}
