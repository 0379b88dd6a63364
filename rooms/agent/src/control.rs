//! The life of an agent: start, reloads, names that move, and an orderly end.
//!
//! ```text
//! one thread:  filter and drops attached -> privileges given up
//! then:        names -> the room runs, as every service does (weir_service)
//! ```

use std::sync::Arc;

use anyhow::Result;
use weir_kernel::capabilities::Capability;
use weir_kernel::sysctl;
use weir_service::names::HostNames;
use weir_service::{Launch, Service, Setup};
use weir_trace::packets::{Means, Packets, Wanted};

use crate::config::{Config, Origin};
use crate::interfaces::Interfaces;
use crate::ledger::Ledger;
use crate::room::{Agent, Parts};
use crate::state::State;

/// Runs an agent until it is asked to end; returns the final ledger.
///
/// # Errors
/// One line: the admin address is taken, a privilege cannot be given up, a thread cannot be started. What the kernel does
/// not permit of samples and drops is no error: it is told, and the rest runs.
pub fn run(origin: &Origin, config: Config, verbosity: u8) -> Result<Ledger> {
    let file = origin.file().map(Into::into);
    let setup = Setup::new(Launch { fixed: config.fixed(), file, verbosity })?;
    let wanted = Wanted { samples: config.samples_packets(), drops: config.most_drops() > 0 };
    let (packets, refused) = if wanted.samples || wanted.drops { Packets::start(wanted) } else { (None, Vec::new()) };
    let interfaces = Interfaces::open()?;
    let service: Service<Agent<'_>> = setup.start(needed(packets.as_ref().is_some_and(Packets::runs_programs)))?;
    tell_refused(wanted, packets.as_ref(), &refused);

    let names = HostNames::new(config.collectors());
    let state = Arc::new(State::default());
    let parts = Parts { interfaces, packets, names, state };
    let mut agent = Agent::new(origin, config, parts);
    service.run(&mut agent)?;
    Ok(agent.ledger())
}

/// What has to be kept: before Linux 5.19 maps are read by privilege.
fn needed(traces: bool) -> Vec<Capability> {
    let release = sysctl::seen("kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if traces && version < (5, 19) { vec![Capability::CAP_BPF, Capability::CAP_SYS_ADMIN] } else { Vec::new() }
}

/// One line with what is missing, why, and what works all the same.
fn tell_refused(wanted: Wanted, packets: Option<&Packets>, refused: &[String]) {
    let means = packets.and_then(Packets::means);
    let told = packets.is_some_and(Packets::drops);
    let missing = match (wanted.samples && means.is_none(), wanted.drops && !told) {
        (true, true) => "neither packets nor drops are told",
        (true, false) => "no packets are sampled",
        (false, true) => "no drops are told",
        (false, false) if means == Some(Means::Classic) => "packets are not sampled by eBPF",
        (false, false) => return,
    };
    let works = match (means, told) {
        (Some(Means::Program), _) => "packets and all counters are",
        (Some(Means::Classic), _) => "packets are sampled all the same, by classic filters, and all counters are told",
        (None, true) => "drops and all counters are",
        (None, false) => "counters of interfaces and of the machine are, without any privilege",
    };
    let refused = refused.join("; ");
    let permit = if refused.contains("CAP_BPF") { PERMIT } else { "" };
    tracing::warn!("{missing}: {refused}; {works}{permit}");
}

/// How whoever starts the agent lets it have eBPF.
const PERMIT: &str =
    "; to permit eBPF: docker run --cap-add BPF --cap-add PERFMON, or setcap cap_net_raw,cap_bpf,cap_perfmon+ep weir";
