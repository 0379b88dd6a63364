//! The sending end: the datagrams of all agents, each when it is due.

use weir_program::clock::Nanos;
use weir_sflow::model::Due;
use weir_traffic::Source;

use super::{Agents, Stamp};

/// The model's datagrams, and when each of them left.
pub(crate) struct Exporter {
    agents: Box<dyn Agents>,
    /// Whether each has its length in front, as a stream needs it.
    framed: bool,
    /// The datagram under way, with its frame.
    message: Vec<u8>,
    /// What it is; `None`: the first one is to come.
    current: Option<Due>,
    /// Whether it was sent.
    has_left: bool,
    stamps: Vec<Stamp>,
}

/// What an exporter has done.
pub(crate) struct Exported {
    /// The datagrams that were sent, in order.
    pub(crate) stamps: Vec<Stamp>,
    /// When those were due that were not sent, ns since the start of the window; none behind it.
    pub(crate) unsent: Vec<Nanos>,
}

impl Exporter {
    pub(crate) fn new(agents: Box<dyn Agents>, framed: bool) -> Self {
        let (message, stamps) = (Vec::new(), Vec::new());
        Self { agents, framed, message, current: None, has_left: false, stamps }
    }

    /// After a window of so many ns.
    pub(crate) fn finish(mut self, window: Nanos) -> Exported {
        let mut unsent = Vec::new();
        let mut next =
            self.current.filter(|_| !self.has_left).or_else(|| self.agents.next_datagram().map(|(due, _)| due));
        while let Some(due) = next.map(|due| nanos(due.at)).filter(|due| *due < window) {
            unsent.push(due);
            next = self.agents.next_datagram().map(|(due, _)| due);
        }
        Exported { stamps: self.stamps, unsent }
    }
}

impl Source for Exporter {
    fn next(&mut self) -> Option<(Nanos, &[u8])> {
        let (due, datagram) = self.agents.next_datagram()?;
        self.message.clear();
        if self.framed {
            self.message.extend((datagram.len() as u32).to_be_bytes());
        }
        self.message.extend(datagram);
        self.current = Some(due);
        self.has_left = false;
        Some((nanos(due.at), &self.message))
    }

    fn sent(&mut self, at: Nanos, intended: Nanos) {
        if let Some(Due { agent, sequence, .. }) = self.current {
            self.stamps.push(Stamp { agent, sequence, due: intended, sent: at });
            self.has_left = true;
        }
    }
}

fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9) as Nanos
}
