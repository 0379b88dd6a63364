//! What all flows of an agent make together, of each definition: those of one agent lie side by side, since a datagram is of one.

use super::decay::Instant;
use crate::names::AgentId;
use crate::sys::prefetch;

/// Sums by agent, then by column: a definition has one.
#[derive(Debug, Default)]
pub(super) struct Totals {
    sums: Vec<Total>,
    columns: usize,
}

/// The sum of the flows of an agent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) sum: f64,
    pub(super) squares: f64,
    pub(super) epoch: u32,
}

impl Totals {
    /// Counts what a flow of an agent grew by.
    #[inline]
    pub(super) fn add(&mut self, agent: AgentId, column: usize, amount: f64, at: Instant) {
        let place = agent.0 as usize * self.columns + column;
        if place >= self.sums.len() {
            self.sums.resize((agent.0 as usize + 1) * self.columns, Total::default());
        }
        let total = &mut self.sums[place];
        if total.epoch != at.epoch {
            let carry = at.carry(total.epoch);
            *total = Total { sum: total.sum * carry, squares: total.squares * carry * carry, epoch: at.epoch };
        }
        let amount = amount * at.weight;
        total.sum += amount;
        total.squares += amount * amount;
    }

    /// Asks for an agent's sums, which will be added to soon.
    #[inline]
    pub(super) fn foresee(&self, agent: AgentId) {
        let row = self.sums.iter().skip(agent.0 as usize * self.columns).take(self.columns);
        row.step_by(LINE).for_each(prefetch);
    }

    /// The sum of an agent's flows; 0: it has none.
    pub(super) fn get(&self, agent: AgentId, column: usize) -> Total {
        self.sums.get(agent.0 as usize * self.columns + column).copied().unwrap_or_default()
    }

    /// Begins a column anew, and makes room for it.
    pub(super) fn begin(&mut self, column: usize) {
        if column >= self.columns {
            let columns = (column + 1).next_multiple_of(LINE);
            let agents = self.sums.len() / self.columns.max(1);
            let mut sums = vec![Total::default(); agents * columns];
            for (new, old) in sums.chunks_exact_mut(columns).zip(self.sums.chunks_exact(self.columns.max(1))) {
                new[..self.columns].copy_from_slice(old);
            }
            (self.sums, self.columns) = (sums, columns);
        }
        self.sums.iter_mut().skip(column).step_by(self.columns).for_each(|total| *total = Total::default());
    }

    /// Forgets an agent, whose number will be given to another.
    pub(super) fn forget(&mut self, agent: AgentId) {
        let row = self.sums.iter_mut().skip(agent.0 as usize * self.columns).take(self.columns);
        row.for_each(|total| *total = Total::default());
    }
}

/// Sums in a line of the processor's cache, or little more.
const LINE: usize = 2;

#[cfg(test)]
mod tests {
    use super::super::decay::Clock;
    use super::*;

    #[test]
    fn columns_come_and_begin_anew_and_agents_go() {
        let mut clock = Clock::new(1.0, 0.0);
        let at = clock.advance(0.0);
        let mut totals = Totals::default();
        // Five columns, one after the other; each counts agent a as 10 a + column.
        for column in 0..5 {
            totals.begin(column);
            for agent in 0..4 {
                totals.add(AgentId(agent), column, f64::from(10 * agent) + column as f64, at);
            }
        }
        let expected = |agent: u32, column: usize| f64::from(10 * agent) + column as f64;
        for (agent, column) in (0..4).flat_map(|agent| (0..5).map(move |column| (agent, column))) {
            let total = totals.get(AgentId(agent), column);
            assert_eq!((total.sum, total.squares), (expected(agent, column), expected(agent, column).powi(2)));
        }
        totals.begin(3);
        totals.forget(AgentId(2));
        for (agent, column) in (0..4).flat_map(|agent| (0..5).map(move |column| (agent, column))) {
            let left = if agent == 2 || column == 3 { 0.0 } else { expected(agent, column) };
            assert_eq!(totals.get(AgentId(agent), column).sum, left, "{agent} {column}");
        }
        // Nobody has heard of these.
        assert_eq!(totals.get(AgentId(99), 0).sum, 0.0);
        totals.foresee(AgentId(99));
    }
}
