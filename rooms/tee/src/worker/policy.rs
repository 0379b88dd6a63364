//! When lanes change hands: decided from what every worker did in the last window, by nothing else.

use super::handle::Role;

/// A worker as the others saw it in the last window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    pub(super) role: Role,
    /// The part of the window that it did not sleep.
    pub(super) busy: f64,
    /// Of that, for lanes of others.
    pub(super) helping: f64,
}

/// What a worker decides from.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// Its number.
    pub(super) own: usize,
    /// By number.
    pub(super) loads: &'a [Load],
    /// Lanes of it that others hold.
    pub(super) lent: usize,
    /// Lanes here that had work and may be lent.
    pub(super) lanes: usize,
}

/// What a worker does about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing.
    Stay,
    /// Lend so many lanes to the first of these workers that takes them.
    Lend(Vec<(usize, usize)>),
    /// Take at most so many lanes back from this worker.
    TakeBack(usize, usize),
    /// Take all lanes back.
    TakeAllBack,
    /// Ask this lender to take all lanes back: there is enough to do here.
    Relieve(usize),
}

/// Decides for one worker.
pub(super) fn decide(view: &View<'_>) -> Decision {
    let own = view.load();
    match own.role {
        Role::Holder(lender) if own.busy > BUSY && own.busy - own.helping > own.helping => Decision::Relieve(lender),
        Role::Lender if own.busy + view.helping() < IDLE => Decision::TakeAllBack,
        Role::Free | Role::Lender if own.busy > BUSY => view.lend(),
        Role::Lender => view.take_back(),
        Role::Free | Role::Holder(_) => Decision::Stay,
    }
}

impl View<'_> {
    fn load(&self) -> Load {
        self.loads[self.own]
    }

    /// Lends as many lanes as leave the other no busier than this one; to who has most time first.
    fn lend(&self) -> Decision {
        let takes = |role| role == Role::Free || role == Role::Holder(self.own);
        let others = self.loads.iter().enumerate().filter(|(_, load)| takes(load.role) && load.busy < IDLE);
        let mut offers: Vec<_> = others
            .map(|(at, load)| (at, self.lanes_between(self.load().busy, load.busy).min(self.lanes)))
            .filter(|(_, lanes)| *lanes > 0)
            .collect();
        offers.sort_by(|(one, _), (other, _)| self.loads[*one].busy.total_cmp(&self.loads[*other].busy));
        if offers.is_empty() { Decision::Stay } else { Decision::Lend(offers) }
    }

    /// Takes lanes back from a holder that is busier than this worker would be with them.
    fn take_back(&self) -> Decision {
        let spare = |holder: usize| self.lanes_between(self.loads[holder].busy, self.load().busy);
        match self.holders().find(|&holder| self.loads[holder].busy > BUSY && spare(holder) > 0) {
            // One lane at least stays: to take back all is another decision.
            Some(holder) if self.lent > 1 => Decision::TakeBack(holder, spare(holder).min(self.lent - 1)),
            _ => Decision::Stay,
        }
    }

    /// Lanes that make both equally busy when they change hands.
    fn lanes_between(&self, busier: f64, other: f64) -> usize {
        ((busier - other) / (2.0 * self.cost())) as usize
    }

    /// What a lane costs: known from those that are lent; else receiving is taken for as much as a lane.
    fn cost(&self) -> f64 {
        match self.lent {
            0 => self.load().busy / (self.lanes + 1) as f64,
            lent => (self.helping() / lent as f64).max(LEAST_COST),
        }
    }

    /// The workers that hold lanes of this one.
    fn holders(&self) -> impl Iterator<Item = usize> {
        (0..self.loads.len()).filter(|&at| self.loads[at].role == Role::Holder(self.own))
    }

    /// What they do for it.
    fn helping(&self) -> f64 {
        self.holders().map(|holder| self.loads[holder].helping).sum()
    }
}

/// From here on a worker lends.
const BUSY: f64 = 0.7;

/// Below this a worker takes lanes of others; when it is enough for all, lanes go back.
const IDLE: f64 = 0.5;

/// A lane costs no less: what little it did in one window says nothing of the next.
const LEAST_COST: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Role = Role::Free;
    const LENDER: Role = Role::Lender;

    /// What worker 0 decides: its lent lanes, its lanes here, then of every worker role, busy and helping.
    fn decision(lent: usize, lanes: usize, loads: &[(Role, f64, f64)]) -> Decision {
        let load = |&(role, busy, helping): &(Role, f64, f64)| Load { role, busy, helping };
        let loads: Vec<Load> = loads.iter().map(load).collect();
        decide(&View { own: 0, loads: &loads, lent, lanes })
    }

    #[test]
    fn decisions() {
        use Decision::*;
        let held = Role::Holder(0);
        let cases = [
            ("alone", 0, 4, vec![(FREE, 1.0, 0.0)], Stay),
            ("not busy", 0, 4, vec![(FREE, 0.7, 0.0), (FREE, 0.0, 0.0)], Stay),
            (
                "half of the work of 4 lanes and the receiving",
                0,
                4,
                vec![(FREE, 1.0, 0.0), (FREE, 0.0, 0.0)],
                Lend(vec![(1, 2)]),
            ),
            ("one lane goes nowhere: receiving is as much", 0, 1, vec![(FREE, 1.0, 0.0), (FREE, 0.1, 0.0)], Stay),
            ("nothing to lend", 0, 0, vec![(FREE, 1.0, 0.0), (FREE, 0.0, 0.0)], Stay),
            ("the other has no time", 0, 4, vec![(FREE, 1.0, 0.0), (FREE, 0.5, 0.0)], Stay),
            (
                "most time first",
                0,
                8,
                vec![(FREE, 1.0, 0.0), (FREE, 0.4, 0.0), (FREE, 0.1, 0.0)],
                Lend(vec![(2, 4), (1, 2)]),
            ),
            (
                "lenders and holders of others take none",
                0,
                8,
                vec![(FREE, 1.0, 0.0), (LENDER, 0.1, 0.0), (Role::Holder(1), 0.2, 0.1)],
                Stay,
            ),
            ("more to who holds some", 2, 6, vec![(LENDER, 1.0, 0.0), (held, 0.2, 0.2)], Lend(vec![(1, 4)])),
            ("never more than there are", 2, 1, vec![(LENDER, 1.0, 0.0), (held, 0.2, 0.2)], Lend(vec![(1, 1)])),
            ("balanced", 2, 2, vec![(LENDER, 0.6, 0.0), (held, 0.6, 0.6)], Stay),
            ("little to do", 2, 2, vec![(LENDER, 0.2, 0.0), (held, 0.2, 0.2)], TakeAllBack),
            ("the holder has more to do", 4, 1, vec![(LENDER, 0.4, 0.0), (held, 1.0, 0.8)], TakeBack(1, 1)),
            ("one lane stays", 2, 3, vec![(LENDER, 0.1, 0.0), (held, 1.0, 0.4)], TakeBack(1, 1)),
            ("a holder with work of its own", 0, 4, vec![(Role::Holder(1), 0.9, 0.3), (LENDER, 0.9, 0.0)], Relieve(1)),
            ("a holder that only helps", 0, 4, vec![(Role::Holder(1), 0.9, 0.8), (LENDER, 0.9, 0.0)], Stay),
        ];
        for (case, lent, lanes, loads, expected) in cases {
            assert_eq!(decision(lent, lanes, &loads), expected, "{case}");
        }
    }

    /// Whatever the loads, what is decided can be done, and one worker's decision does not call for its undoing.
    #[test]
    fn lent_lanes_are_not_wanted_back_at_once() {
        for lanes in 1..20 {
            for percent in 0..50 {
                let idle = f64::from(percent) / 100.0;
                let Decision::Lend(offers) = decision(0, lanes, &[(FREE, 1.0, 0.0), (FREE, idle, 0.0)]) else {
                    continue;
                };
                let [(1, lent)] = offers[..] else { panic!("{offers:?}") };
                assert!(lent <= lanes);
                let moved = lent as f64 / (lanes + 1) as f64;
                let after = [(LENDER, 1.0 - moved, 0.0), (Role::Holder(0), idle + moved, moved)];
                let next = decision(lent, lanes - lent, &after);
                assert!(matches!(next, Decision::Stay | Decision::Lend(_)), "{lanes} lanes, {idle}: {next:?}");
            }
        }
    }
}
