//! The keeper process of a network of shells: opens hosts, changes links, and keeps the ledger.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use nix::errno::Errno;
use weir_emulator::model::Way;
use weir_kernel::namespaces::user;
use weir_kernel::rendezvous::{Answer, Rendezvous};
use weir_kernel::sysctl;
use weir_program::clock;
use weir_program::output::in_one_line;
use weir_program::stop::Stop;

use super::{Ledger, READY, Refusal, Request, fingerprint, ledger, place};
use crate::cell::Testbed;
use crate::network::Network;
use crate::runner;
use crate::sweep::Sweep;
use crate::topology::Topology;

/// The keeper: holds the network of a scenario until the last shell has gone. Reports on standard output that it is
/// ready, or its error, and stays at least until standard input ends.
pub fn keep(sweep: Sweep) -> Result<()> {
    let mut output = io::stdout();
    match serve(sweep, &mut output) {
        // Another keeper was faster: its network serves as well.
        Err(error) if error.downcast_ref().and_then(weir_kernel::Error::errno) == Some(Errno::EADDRINUSE) => {
            writeln!(output, "{READY}")?;
        }
        Err(error) => writeln!(output, "{}", in_one_line(&error))?,
        Ok(()) => {}
    }
    Ok(())
}

/// Events for the keeper's main thread.
enum Event {
    /// A request, and the connection for its answer.
    Asked(String, mpsc::Sender<Answer>),
    /// The last shell has gone.
    Unused,
}

/// A network that is up, and its changed values.
struct Keeper<'a> {
    /// The scenario as it was brought up: a request for another one is refused.
    sweep: Sweep,
    /// The scenario as it is now.
    topology: Topology,
    network: Network<'a>,
    /// The keeper's user namespace.
    user: OwnedFd,
    /// What the kernel refused, and programs lack.
    refused: Vec<String>,
    /// These and further notes for the ledger.
    notes: Vec<String>,
    up: Instant,
    /// When steps and traces started.
    steps_from: Option<Instant>,
    /// Keys that were set by hand and their values, the latest last.
    by_hand: Vec<(String, String)>,
}

fn serve(sweep: Sweep, output: &mut impl Write) -> Result<()> {
    let place = place(&sweep.scenario().name)?;
    user::obtain_network_privilege()?;
    runner::ensure_descriptors(&sweep, 1)?;
    let testbed = Testbed::start(sweep.scenario(), Stop::new()?, 1)?;
    let mut keeper = Keeper::new(sweep, &testbed)?;
    let (events, heard) = mpsc::channel();
    let asked = events.clone();
    let rendezvous = Rendezvous::offer(&place, move |request| {
        let (answer, answered) = mpsc::channel();
        let gone = |_| weir_kernel::Error::Answer {
            operation: "ask the network's keeper".into(),
            detail: "it is ending: try again".into(),
        };
        asked.send(Event::Asked(request.to_owned(), answer)).map_err(|_| gone(mpsc::RecvError))?;
        answered.recv().map_err(gone)
    })?;
    writeln!(output, "{READY}")?;
    output.flush()?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Until the shell that started the keeper has its lease, or has died.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            rendezvous.wait_until_unused();
            let _ = events.send(Event::Unused);
        });
        while let Ok(Event::Asked(request, answer)) = heard.recv() {
            let _ = answer.send(keeper.answer(&request));
        }
        // A request that comes now finds no network.
        drop(heard);
    });
    Ok(())
}

impl<'a> Keeper<'a> {
    fn new(sweep: Sweep, testbed: &'a Testbed) -> Result<Self> {
        let scenario = sweep.scenario();
        let topology = Topology::new(scenario)?;
        let mut network = Network::build(&topology, testbed.emulator(0), scenario.run.seed)?;
        let mut refused = network.refused().to_vec();
        let mut notes = Vec::new();
        match network.set_congestion(&topology, &scenario.tcp.congestion) {
            Ok(false) => {}
            Ok(true) => notes.push(format!(
                "tcp.congestion = {} overrides what programs choose before they connect: this machine permits only {} as a \
                 default",
                scenario.tcp.congestion,
                sysctl::seen("net/ipv4/tcp_allowed_congestion_control").unwrap_or_else(|| "others".into())
            )),
            Err(error) => {
                let error = in_one_line(&error.into());
                refused.push(format!("programs use the congestion control of this machine, not tcp.congestion: {error}"));
            }
        }
        notes.extend_from_slice(&refused);
        Ok(Keeper {
            topology,
            network,
            user: user::current()?,
            refused,
            notes,
            up: Instant::now(),
            steps_from: None,
            by_hand: Vec::new(),
            sweep,
        })
    }

    fn answer(&mut self, request: &str) -> Answer {
        let mut descriptors = Vec::new();
        let said = match serde_json::from_str(request) {
            Ok(Request::Enter { fingerprint, host }) => self.enter(fingerprint, &host, &mut descriptors),
            Ok(Request::Set { set }) => self.change(&set),
            Ok(Request::StartSteps) => self.start_steps(),
            Ok(Request::Ledger) => self.ledger(),
            Err(_) => Err(anyhow!("it belongs to another version of Weir. Leave its shells first.")),
        };
        let said = said.map_err(|error| Refusal(in_one_line(&error)));
        let text = serde_json::to_string(&said).unwrap_or_else(|error| format!("{error}"));
        Answer { text, descriptors }
    }

    fn enter(&mut self, asked: u64, host: &str, descriptors: &mut Vec<OwnedFd>) -> Result<String> {
        ensure!(
            asked == fingerprint(&self.sweep),
            "its network is up with other settings. Use the same ({}), or leave its shells first.",
            self.sweep.set_in_words()
        );
        let node = self.topology.node(host)?;
        for held in [self.user.as_fd(), self.network.namespace(node).as_fd()] {
            let held = held.try_clone_to_owned().with_context(|| format!("open the network of {host}"))?;
            descriptors.push(held);
        }
        if self.steps_from.is_none() {
            self.start_steps()?;
        }
        Ok(self.refused.join("\n"))
    }

    /// Sets these keys, all or none, and changes the affected links; returns text for the user.
    fn change(&mut self, set: &[(String, String)]) -> Result<String> {
        for (key, _) in set {
            let of_link = key.strip_prefix("links.").and_then(|link| link.split_once('.'));
            let changes = of_link.is_some_and(|(_, own)| !["ends", "mtu", "direct"].contains(&own));
            ensure!(
                changes || key.starts_with("path."),
                "`{key}` cannot change while the network is up. Only what links do to packets can, e.g. links.NAME.forward.loss or path.delay."
            );
        }
        let others = self.by_hand.iter().filter(|(known, _)| set.iter().all(|(key, _)| key != known));
        let by_hand: Vec<_> = others.chain(set).cloned().collect();
        let sweep = self.sweep.with(&by_hand)?;
        let is_axis = |(key, _): &(String, String)| sweep.axes.iter().any(|axis| axis.key == *key);
        ensure!(!by_hand.iter().any(is_axis), "a network that is up has no axes. Give each key one value.");
        let topology = sweep.topology()?;
        let mut changed = 0;
        for (index, (old, new)) in self.topology.links.iter().zip(&topology.links).enumerate() {
            for way in [Way::Forward, Way::Backward] {
                let plan = &new.impairments[way as usize];
                if *plan != old.impairments[way as usize] {
                    self.network.change_plan(index, way, plan.clone())?;
                    changed += 1;
                }
            }
        }
        (self.topology, self.by_hand) = (topology, by_hand);
        let set: Vec<String> = set.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let ways = if changed == 1 { "1 direction".to_owned() } else { format!("{changed} directions") };
        let at = self.up.elapsed().as_secs_f64();
        let set = set.join(", ");
        Ok(format!("{set}: {ways} of links changed, {at:.3} s after the network came up"))
    }

    fn start_steps(&mut self) -> Result<String> {
        self.network.start_clocks(clock::now())?;
        let at = Instant::now();
        self.steps_from = Some(at);
        let changing = self.topology.links.iter().flat_map(|link| &link.impairments).any(|plan| {
            let traced = plan.phases().any(|impairments| impairments.trace.is_some());
            traced || !plan.steps.is_empty()
        });
        let nothing = if changing { "" } else { "; no link has any" };
        let at = (at - self.up).as_secs_f64();
        Ok(format!("steps and traces start, {at:.3} s after the network came up{nothing}"))
    }

    fn ledger(&self) -> Result<String> {
        let readings = self.network.read()?;
        let ways = |(index, reading)| {
            [Way::Forward, Way::Backward].map(|way| ledger::direction(&self.topology, reading, index, way))
        };
        Ok(serde_json::to_string(&Ledger {
            network: self.sweep.scenario().name.clone(),
            up_s: self.up.elapsed().as_secs_f64(),
            steps_from_s: self.steps_from.map(|from| (from - self.up).as_secs_f64()),
            set: self.by_hand.clone(),
            notes: self.notes.clone(),
            links: readings.iter().enumerate().flat_map(ways).collect(),
        })?)
    }
}
