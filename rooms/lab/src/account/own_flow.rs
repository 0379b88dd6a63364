//! Which of a link's flows are the measured traffic's, where a load runs beside it.

use std::net::IpAddr;

use weir_emulator::ledger::DirectionReport;
use weir_emulator::model::FlowIdentity;
use weir_traffic::Transport;

use crate::scenario::Scenario;
use crate::topology::Topology;

/// The measured traffic's protocol, destination and port.
pub(super) struct OwnFlow {
    protocol: u8,
    destination: IpAddr,
    port: u16,
}

/// What a direction dropped of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnDrops {
    /// Planned losses.
    pub(super) lost: u64,
    /// Because the queue was full.
    pub(super) queue: u64,
}

impl OwnFlow {
    pub(super) fn new(scenario: &Scenario, topology: &Topology) -> Self {
        let protocol = if scenario.traffic.transport == Transport::Tcp { 6 } else { 17 };
        OwnFlow { protocol, destination: topology.traffic.destination, port: scenario.traffic.port }
    }

    /// Counts its drops, there or (with ends exchanged) back.
    pub(super) fn drops(&self, report: &DirectionReport) -> OwnDrops {
        let own = report.drops.iter().filter(|flow| self.matches(&flow.identity));
        own.fold(OwnDrops::default(), |sum, flow| OwnDrops {
            lost: sum.lost + flow.lost,
            queue: sum.queue + flow.queue_dropped,
        })
    }

    fn matches(&self, flow: &FlowIdentity) -> bool {
        let forward = flow.destination == self.destination && flow.destination_port == Some(self.port);
        let backward = flow.source == self.destination && flow.source_port == Some(self.port);
        flow.protocol == Some(self.protocol) && (forward || backward)
    }
}
