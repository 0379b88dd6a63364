//! Losses by place, while they are collected.

use std::collections::BTreeMap;

use weir_trace::Drop;

use super::book::{Count, Entry, Part};
use super::evidence::NamespaceEvidence;
use crate::places::{Place, Stage};
use crate::reading;

/// Losses by place.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(BTreeMap<Place, Loss>);

/// Losses at one place.
#[derive(Clone, Debug, Default)]
struct Loss {
    datagrams: u64,
    /// Kernel buffers, where the trace counted them: what the kernel's own counters count.
    buffers: u64,
    source: String,
    believed: Option<String>,
    parts: BTreeMap<(String, String, Option<u32>), u64>,
}

impl Tally {
    /// Adds a traced drop.
    pub(super) fn add_drop(&mut self, drop: &Drop) {
        let place = Place::of_drop(&drop.reason, &drop.function, drop.outgoing);
        let loss = self.0.entry(place).or_default();
        loss.buffers += drop.buffers;
        self.add(place, drop.datagrams, "trace", &drop.reason, &drop.function, Some(drop.namespace));
    }

    /// Adds losses that something else counted.
    pub(super) fn add(
        &mut self,
        place: Place,
        datagrams: u64,
        source: &str,
        reason: &str,
        function: &str,
        namespace: Option<u32>,
    ) {
        if datagrams == 0 {
            return;
        }
        let loss = self.0.entry(place).or_default();
        loss.datagrams += datagrams;
        if loss.source.is_empty() {
            source.clone_into(&mut loss.source);
        }
        *loss.parts.entry((reason.to_owned(), function.to_owned(), namespace)).or_default() += datagrams;
    }

    /// Takes back so many of a place, of the largest parts first.
    pub(super) fn take(&mut self, place: Place, datagrams: u64) {
        let Some(loss) = self.0.get_mut(&place) else { return };
        let mut left = datagrams.min(loss.datagrams);
        loss.datagrams -= left;
        loss.buffers -= left.min(loss.buffers);
        let mut parts: Vec<&mut u64> = loss.parts.values_mut().collect();
        parts.sort_unstable();
        for part in parts.into_iter().rev() {
            let share = left.min(*part);
            (*part, left) = (*part - share, left - share);
        }
        loss.parts.retain(|_, part| *part > 0);
    }

    /// Says which source is believed at a place, and why.
    pub(super) fn believe(&mut self, place: Place, belief: String) {
        if let Some(loss) = self.0.get_mut(&place) {
            loss.believed = Some(belief);
        }
    }

    /// Datagrams lost at a place.
    pub(super) fn at(&self, place: Place) -> u64 {
        self.0.get(&place).map_or(0, |loss| loss.datagrams)
    }

    /// Kernel buffers lost at a place, as far as they were traced.
    pub(super) fn buffers_at(&self, place: Place) -> u64 {
        self.0.get(&place).map_or(0, |loss| loss.buffers)
    }

    /// Datagrams lost in these parts of the way.
    pub(super) fn within(&self, stages: &[Stage]) -> u64 {
        let lost = self.0.iter().filter(|(place, _)| stages.contains(&place.stage()));
        lost.map(|(_, loss)| loss.datagrams).sum()
    }

    /// All datagrams lost.
    pub(super) fn total(&self) -> u64 {
        self.0.values().map(|loss| loss.datagrams).sum()
    }

    /// As an account tells them, with the counters of the namespaces beside them.
    pub(super) fn into_entries(self, namespaces: &[NamespaceEvidence]) -> Vec<Entry> {
        let lost = self.0.into_iter().filter(|(_, loss)| loss.datagrams > 0);
        lost.map(|(place, loss)| loss.into_entry(place, namespaces)).collect()
    }
}

const TRACE: &str = "the trace: the counter counts buffers, and other sockets and ports, too";

/// Why a counter of all ports is believed.
pub(super) fn at_most(loss: &reading::Loss) -> String {
    let reading::Loss { name, packets, .. } = loss;
    format!("{name}, which counted {packets} on all ports: no more than is missing here")
}

impl Loss {
    fn into_entry(self, place: Place, namespaces: &[NamespaceEvidence]) -> Entry {
        let mut parts: Vec<_> = self.parts.into_iter().collect();
        parts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let ((reason, function, namespace), _) = parts.first().cloned().unwrap_or_default();
        let within: Vec<u32> = parts.iter().filter_map(|((_, _, namespace), _)| *namespace).collect();
        let of_these = namespaces.iter().filter(|ns| within.contains(&ns.inode)).flat_map(|ns| &ns.losses);
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for loss in of_these.filter(|loss| loss.place == place.counted_at() && loss.name != self.source) {
            let count = counts.entry(&loss.name).or_default();
            *count = if loss.of_machine { loss.packets } else { *count + loss.packets };
        }
        let also: Vec<Count> =
            counts.into_iter().map(|(source, count)| Count { source: source.to_owned(), count }).collect();
        let counted: u64 = also.iter().map(|count| count.count).sum();
        let differs = self.source == "trace" && counted > 0 && counted != self.datagrams;
        let believed = self.believed.or(differs.then(|| TRACE.to_owned()));
        let several = parts.len() > 1;
        let part = |((reason, function, namespace), datagrams): ((String, String, Option<u32>), u64)| Part {
            datagrams,
            reason,
            function,
            namespace: namespace.unwrap_or(0),
        };
        Entry {
            place,
            datagrams: self.datagrams,
            namespace,
            source: self.source,
            remedy: place.remedy(&reason, &function).to_owned(),
            reason: (!reason.is_empty()).then_some(reason),
            function: (!function.is_empty()).then_some(function),
            also,
            believed,
            parts: if several { parts.into_iter().map(part).collect() } else { Vec::new() },
        }
    }
}
