//! Traced actions of the kernel on the datagrams of one receiver.

use weir_trace::{Drop, SocketTrace};

use super::PathAccount;

impl PathAccount<'_> {
    /// Drops on the way to this receiver: on its host, and wherever no other receiver is meant. `None`: not traced.
    pub(super) fn traced_drops(&self) -> Option<Vec<&Drop>> {
        let others = self.measured.topology.traffic.receivers.iter().enumerate();
        let others = others.filter(|(index, _)| *index != self.receiver);
        let others: Vec<u32> = others.filter_map(|(_, &node)| self.namespace(node)).collect();
        let trace = self.measured.trace.as_ref()?;
        Some(trace.drops.iter().filter(|drop| !others.contains(&drop.namespace)).collect())
    }

    /// Datagrams that its socket received and delivered. `None`: not traced.
    pub(super) fn traced_socket(&self) -> Option<&SocketTrace> {
        let host = self.namespace(self.measured.topology.traffic.receivers[self.receiver])?;
        let port = self.cell.scenario.traffic.port;
        let sockets = &self.measured.trace.as_ref()?.sockets;
        sockets.iter().find(|socket| socket.namespace == host && socket.port == port)
    }

    /// Why the trace is incomplete or missing.
    pub(super) fn trace_remarks(&self) -> Vec<String> {
        let missed = self.measured.trace.as_ref().map_or(0, |trace| trace.missed.total());
        let missed =
            (missed > 0).then(|| format!("traced: {missed} events were missed, so the counts are lower bounds"));
        let untraced = self.measured.untraced.as_ref().map(|why| format!("not traced: {why}"));
        let traced = self.traced_drops().map(|drops| {
            let full = drops.iter().filter(|drop| is_full_buffer(drop));
            full.map(|drop| drop.datagrams).sum::<u64>()
        });
        let differ = traced.zip(self.socket_drops()).filter(|(traced, counted)| traced != counted);
        let differ = differ.map(|(traced, counted)| {
            format!(
                "traced: {traced} drops at the full receive buffer; the result uses the socket's {counted}, without wrong checksums"
            )
        });
        missed.into_iter().chain(differ).chain(untraced).collect()
    }

    fn namespace(&self, node: usize) -> Option<u32> {
        self.measured.network.namespace(node).inode().ok()
    }
}

/// Whether the socket's receive buffer was full.
pub(super) fn is_full_buffer(drop: &Drop) -> bool {
    drop.reason == "SOCKET_RCVBUFF"
}

/// Whether the processor's backlog was full (net/core/dev.c, `enqueue_to_backlog`).
pub(super) fn is_full_backlog(drop: &Drop) -> bool {
    drop.reason == "CPU_BACKLOG" || (drop.reason == "NOT_SPECIFIED" && drop.function == "enqueue_to_backlog")
}
