//! Holds the place of the model while it is being written.

use super::*;

/// One direction of a link: the state of its model.
#[derive(Debug)]
pub struct Direction {
    impairments: Impairments,
    flows: Vec<FlowDrops>,
}

/// A flow known to a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHandle(usize);

impl Direction {
    /// A fresh state.
    pub fn new(impairments: &Impairments, _key: Key) -> Self {
        Self {
            impairments: impairments.clone(),
            flows: Vec::new(),
        }
    }
    /// Finds or adds a flow.
    pub fn flow(&mut self, tuple: &FlowTuple) -> FlowHandle {
        let at = self.flows.iter().position(|f| f.flow == *tuple).unwrap_or_else(|| {
            self.flows.push(FlowDrops {
                flow: *tuple,
                packets: 0,
                indexes: vec![],
                complete: true,
            });
            self.flows.len() - 1
        });
        FlowHandle(at)
    }
    /// Decides a packet's fate.
    pub fn decide(&mut self, flow: FlowHandle, arrival: Nanos, _bytes: u32) -> Decision {
        let flow = &mut self.flows[flow.0];
        let index = flow.packets;
        flow.packets += 1;
        if let Loss::List(list) = &self.impairments.loss
            && list.contains(&index)
        {
            flow.indexes.push(index);
            return Decision::Drop(Cause::Loss);
        }
        Decision::Pass {
            release: self.control(arrival),
            corrupt: None,
            copy: None,
        }
    }
    /// Delays a control packet.
    pub fn control(&mut self, arrival: Nanos) -> Nanos {
        arrival + self.impairments.delay.as_nanos() as u64
    }
    /// Passes a super-packet whole.
    pub fn pass_run(&mut self, flow: FlowHandle, arrival: Nanos, segments: u32) -> Option<Nanos> {
        if self.impairments.loss != Loss::None {
            return None;
        }
        self.flows[flow.0].packets += u64::from(segments);
        Some(self.control(arrival))
    }
    /// Whether packets leave in the order they came.
    pub fn keeps_order(&self) -> bool {
        true
    }
    /// Planned drops so far.
    pub fn drops(&self) -> Vec<FlowDrops> {
        self.flows.clone()
    }
    /// Flows that share one drop pattern.
    pub fn unlisted_flows(&self) -> u64 {
        0
    }
}
