//! Many agents, datagram by datagram in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Agent, Due, Plan};

/// All agents of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    agents: Vec<Agent>,
    /// When the next datagram of each agent is due, ns, and whose it is.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// The last one that was taken.
    datagram: Vec<u8>,
}

impl Fleet {
    /// At the start of time.
    pub(crate) fn new(plan: &Plan) -> Self {
        let agents: Vec<Agent> = (0..plan.agents).map(|agent| Agent::new(plan, agent)).collect();
        let order = agents.iter().enumerate().map(|(index, agent)| Reverse((nanos(agent.due().at), index))).collect();
        Self { agents, order, datagram: Vec::new() }
    }

    /// The next datagram, and when it is due; `None`: there are no agents.
    pub(crate) fn next_datagram(&mut self) -> Option<(Due, &[u8])> {
        let Reverse((_, index)) = self.order.pop()?;
        let agent = &mut self.agents[index];
        let due = agent.take(&mut self.datagram);
        self.order.push(Reverse((nanos(agent.due().at), index)));
        Some((due, &self.datagram))
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
