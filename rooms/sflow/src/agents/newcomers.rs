//! Agents that nobody has heard of: taken on credit while there are few, on probation when they come in floods.
//!
//! Anybody can write any agent address into a datagram. Who is established is never pushed out for newcomers; those must
//! send datagrams that continue one another for a second, from a table that forgets its oldest first.

use std::collections::{HashMap, VecDeque};

use super::agent::Stranger;
use super::{Identity, Nanos, SECOND};

/// Newcomers on probation, and the credit that is left.
#[derive(Debug)]
pub struct Newcomers {
    limit: usize,
    waiting: HashMap<Identity, Newcomer>,
    /// In the order in which they came, with what may have left already.
    order: VecDeque<(Identity, u64)>,
    turn: u64,
    credit: f64,
    counted: Nanos,
    /// Newcomers that had to go for later ones.
    pub evicted: u64,
}

#[derive(Debug)]
struct Newcomer {
    last: Stranger,
    since: Nanos,
    turn: u64,
}

/// Newcomers that are taken without proof, at once.
const CREDIT: f64 = 1024.0;
/// By how much the credit grows in a second.
const CREDIT_A_SECOND: f64 = 16.0;
/// How long datagrams must have continued one another.
const PROOF: Nanos = SECOND;

impl Newcomers {
    pub(super) fn new(limit: usize) -> Self {
        let (waiting, order) = (HashMap::new(), VecDeque::new());
        Self { limit: limit.max(1), waiting, order, turn: 0, credit: CREDIT, counted: 0, evicted: 0 }
    }

    /// How many are waiting.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody is waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether to take this one; `Some(true)`: proven.
    #[cold]
    pub(super) fn admit(&mut self, now: Nanos, who: Identity, number: u32, uptime: u32) -> Option<bool> {
        if let Some(known) = self.waiting.get_mut(&who) {
            let continued = known.last.continued(now, number, uptime);
            known.last = Stranger::new(now, number, uptime);
            if !continued {
                known.since = now;
            }
            let proven = continued && now.saturating_sub(known.since) >= PROOF;
            if proven {
                self.waiting.remove(&who);
            }
            return proven.then_some(true);
        }
        let earned = now.saturating_sub(self.counted) as f64 / SECOND as f64 * CREDIT_A_SECOND;
        (self.credit, self.counted) = ((self.credit + earned).min(CREDIT), now);
        if self.credit >= 1.0 {
            self.credit -= 1.0;
            return Some(false);
        }
        self.wait(now, who, number, uptime);
        None
    }

    fn wait(&mut self, now: Nanos, who: Identity, number: u32, uptime: u32) {
        self.turn += 1;
        self.waiting.insert(who, Newcomer { last: Stranger::new(now, number, uptime), since: now, turn: self.turn });
        self.order.push_back((who, self.turn));
        while self.waiting.len() > self.limit || self.order.len() > 2 * self.limit {
            let Some((oldest, turn)) = self.order.pop_front() else { return };
            if self.waiting.get(&oldest).is_some_and(|newcomer| newcomer.turn == turn) {
                self.waiting.remove(&oldest);
                self.evicted += 1;
            }
        }
    }
}
