//! A definition in a shard.

use std::sync::Arc;

use super::batch::{Batch, Pending};
use super::definition::Checked;
use super::plan::{Condition, Evaluation, Node, Plan};
use super::table::{Table, Telling};
use super::value::Parts;
use super::values::Kind;

/// A definition with its flows, compiled into the plan of all.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) name: String,
    pub(super) checked: Arc<Checked>,
    condition: Option<Condition>,
    keys: Vec<Node>,
    columns: Vec<(Node, Kind)>,
    pub(super) clock: usize,
    /// When it began to count.
    pub(super) start: f64,
    /// Whether somebody wants to see its flows as they change.
    pub(super) watched: bool,
    pub(super) table: Table,
}

impl Compiled {
    pub(super) fn new(name: &str, checked: Arc<Checked>, clock: usize, start: f64) -> Compiled {
        let definition = &checked.definition;
        let telling = match (definition.log, definition.flow_start) {
            (false, _) => Telling::Never,
            (true, true) => Telling::AtStart,
            (true, false) => Telling::AtEnd,
        };
        let table = Table::new(checked.further, definition.active_timeout, telling);
        Compiled {
            name: name.to_owned(),
            table,
            checked,
            condition: None,
            keys: Vec::new(),
            columns: Vec::new(),
            clock,
            start,
            watched: false,
        }
    }

    /// Becomes a part of a plan.
    pub(super) fn compile(&mut self, plan: &mut Plan) {
        let checked = &self.checked;
        self.condition = checked.filter.as_ref().map(|filter| plan.condition(filter));
        self.keys = plan.nodes(&checked.keys);
        self.columns = checked.columns.iter().map(|column| (plan.node(&column.of), column.kind)).collect();
    }

    /// Works out key and values of the packet that was added to a batch last, and lets them wait there; not if it is none of this
    /// definition's, or lacks a key or the value.
    #[inline]
    pub(super) fn measure(&self, definition: u32, evaluation: &mut Evaluation<'_, '_>, weight: f64, batch: &mut Batch) {
        if self.condition.as_ref().is_some_and(|condition| !evaluation.meets(condition)) {
            return;
        }
        let Some((&(first, kind), others)) = self.columns.split_first() else { return };
        let Some(amount) = evaluation.amount(first, kind) else { return };
        let long = batch.long.len() as u32;
        let Some(key) = evaluation.key(&self.keys, &mut batch.long) else { return };
        let further = batch.further.len() as u32;
        if kind == Kind::Average {
            batch.further.push(weight);
        }
        for (node, kind) in others {
            let value = evaluation.amount(*node, *kind).map(|number| number as f64 * weight);
            batch.further.push(value.unwrap_or(0.0));
            if *kind == Kind::Average {
                batch.further.push(if value.is_some() { weight } else { 0.0 });
            }
        }
        let (packet, amount) = (batch.last(), amount as f64 * weight);
        batch.pending.push(Pending { key, long, amount, hash: 0, packet, definition, further, guess: 0 });
    }
}

impl Checked {
    /// A key as it is shown: its parts with `fs` between them.
    pub fn show(&self, key: &[u8]) -> String {
        let parts: Vec<String> = Parts(key).map(|part| part.to_string()).collect();
        parts.join(&self.definition.fs)
    }
}
