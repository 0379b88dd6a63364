//! From where traffic is seen: an agent, in one direction. A frame is sampled there once at most.
//!
//! An agent that samples at ingress and at egress has two views, of which each sees every frame once; agents on one path see the same
//! frame again. What several views see is therefore never added up, unless they are the edge of the network, which has one view. What is told in an agent's name
//! and not believed has views of its own: their weights would hide what is. Views are in pairs, first the one that is not believed.

use std::net::IpAddr;

use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::sequential::Most;

/// A view, by its number.
pub(super) type View = u16;
/// The edge; nothing is in the other one of its pair.
pub(super) const EDGE: View = 1;

/// All views.
#[derive(Debug, Default)]
pub(super) struct Views {
    limit: usize,
    /// Pairs by agent, and whether it is what goes out.
    index: HashMap<(IpAddr, bool), View, RandomState>,
    views: Vec<State>,
    /// Sightings of further ones, which are not counted.
    pub(super) refused: u64,
}

#[derive(Debug, Default)]
struct State {
    packets: Ceiling,
    bits: Ceiling,
    /// By stream.
    exposures: HashMap<u32, Exposed, RandomState>,
    /// When they were last looked at, all of them, and the longest since.
    looked: u64,
    longest: u64,
    /// Of several streams: when the newest sample came, and when the burst of that began. Of any: when the burst before ended.
    last: u64,
    begun: u64,
    complete: u64,
}

/// A stream of a view: when it was last heard there, and since how long before its samples were taken.
#[derive(Clone, Copy, Debug)]
struct Exposed {
    last: u64,
    exposure: u64,
}

/// How far apart bursts begin at least, and all exposures are looked at, ns.
const LEAST: u64 = 1_000_000;
/// How long a stream counts that is silent, ns: no exposure is longer.
const HEARD: u64 = 10_000_000_000;

/// The most that samples have counted of late.
#[derive(Clone, Copy, Debug, Default)]
struct Ceiling {
    most: f32,
    ln: f32,
    /// Of this window and the one before.
    recent: f32,
    before: f32,
    /// When this window began, ns.
    since: u64,
    /// How many of the last ones were above it, older ones less.
    clipped: f32,
}

/// Length of a window, ns.
const WINDOW: u64 = 60_000_000_000;
/// Samples above the ceiling after which it is raised: a few that are wrong do not make the detector blind.
const CLIPPED: f32 = 4.0;
/// What it is above the largest: the effective rate is an estimate, and goes up and down by some percent.
const MARGIN: f32 = 1.1;

impl Views {
    pub(super) fn new(limit: usize) -> Self {
        let edge = <[State; 2]>::default();
        Self { limit: limit.clamp(1, 30_000), index: HashMap::default(), views: edge.into(), refused: 0 }
    }

    /// The view of an agent's packets that come in, or go out.
    #[inline]
    pub(super) fn find(&mut self, agent: IpAddr, egress: bool, is_good: bool) -> Option<View> {
        let key = (agent, egress);
        if let Some(&pair) = self.index.get(&key) {
            return Some(pair + View::from(is_good));
        }
        // What is not believed leaves room for what is.
        if self.index.len() >= if is_good { self.limit } else { self.limit / 2 } {
            self.refused += 1;
            return None;
        }
        let pair = self.views.len() as View;
        self.views.resize_with(self.views.len() + 2, State::default);
        self.index.insert(key, pair);
        Some(pair + View::from(is_good))
    }

    /// Whether nothing speaks against what is told there.
    pub(super) fn is_good(&self, view: View) -> bool {
        view % 2 == 1
    }

    /// When the burst began that may not be over: all that was taken before has come.
    pub(super) fn complete(&self, view: View) -> u64 {
        self.views[usize::from(view)].complete
    }

    /// What a sample counts there, in packets and in bits: no more than was known as the most before; and what is the most from now on.
    #[inline]
    pub(super) fn admit(&mut self, view: View, now: u64, packets: f32, bits: f32) -> [(f32, Most); 2] {
        let state = &mut self.views[usize::from(view)];
        [state.packets.admit(now, packets), state.bits.admit(now, bits)]
    }

    /// For how long before now a sample of a stream may have been taken: the longest of all streams of its view, or a fast one's short
    /// exposure would raise the floor that a slow one's next burst needs. `None`: nobody knows, or others did not wait for so long.
    #[inline]
    pub(super) fn expose(&mut self, view: View, stream: u32, now: u64, exposure: Option<u64>) -> Option<u64> {
        let state = &mut self.views[usize::from(view)];
        let known = exposure.unwrap_or_default();
        let is_new = state.exposures.insert(stream, Exposed { last: now, exposure: known }).is_none();
        if state.exposures.len() == 1 {
            let since = now - known.min(now);
            // An exposure that is cut off begins with each sample.
            if since > state.complete + LEAST {
                state.complete = since;
            }
            return exposure;
        }
        // In between none has grown by more than the time that has passed: the longest is told as up to 1 ms longer, never shorter.
        let mut others = state.longest + (now - state.looked);
        if is_new || now >= state.looked + LEAST {
            state.exposures.retain(|_, one| now - one.last <= HEARD);
            let all = state.exposures.iter().filter(|(other, _)| **other != stream);
            others = all.map(|(_, one)| one.exposure.max(now - one.last)).max().unwrap_or(0);
            (state.looked, state.longest) = (now, others);
        }
        state.longest = state.longest.max(known);
        // Of several rhythms: as long as the slowest.
        if now > state.begun + others.max(known) {
            (state.begun, state.complete) = (now, state.complete.max(state.last));
        }
        state.last = now;
        exposure.filter(|_| !is_new || known <= others).map(|known| known.max(others))
    }
}

impl Ceiling {
    #[inline]
    fn admit(&mut self, now: u64, weight: f32) -> (f32, Most) {
        let counted = weight.min(self.most);
        if weight > self.most {
            self.clipped += 1.0;
            if self.most == 0.0 {
                self.set(weight * MARGIN);
            } else if self.clipped > CLIPPED {
                self.set((weight * MARGIN).min(2.0 * self.most));
            }
        } else {
            self.clipped *= 0.9;
        }
        self.recent = self.recent.max(weight.min(self.most));
        if now.saturating_sub(self.since) > WINDOW {
            let most = self.recent.max(self.before) * MARGIN;
            if self.before > 0.0 && most < self.most {
                self.set(most);
            }
            (self.before, self.recent, self.since) = (self.recent, weight.min(self.most), now);
        }
        (counted, Most { weight: self.most, ln: self.ln })
    }

    #[cold]
    fn set(&mut self, most: f32) {
        let Most { weight, ln } = Most::new(most);
        (self.most, self.ln, self.clipped) = (weight, ln, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_known_before_it_is_needed_and_sinks_slowly() {
        let mut views = Views::new(2);
        let view = views.find("10.0.0.1".parse().unwrap(), false, true).unwrap();
        let mut counted = |time: u64, weight: f32| views.admit(view, time * 1_000_000_000, weight, 0.0)[0].0;
        assert_eq!(counted(0, 1000.0), 0.0, "nothing was known before the first");
        assert_eq!(counted(1, 1000.0), 1000.0);
        // One that is a million times too large is one sample.
        assert!(counted(2, 1e9) < 1101.0);
        assert!(counted(3, 1000.0) == 1000.0);
        assert!((0..50).all(|_| counted(4, 1000.0) == 1000.0));
        // What stays is believed, in steps.
        let steps: Vec<f32> = (0..16).map(|_| counted(5, 4000.0)).collect();
        assert!(steps[0] < 1101.0 && steps[15] == 4000.0, "{steps:?}");
        for time in 6..600 {
            counted(time, 1000.0);
        }
        assert!(counted(600, 4000.0) < 1600.0);
        assert!(views.find("10.0.0.1".parse().unwrap(), true, true).is_some());
        assert!(views.find("10.0.0.2".parse().unwrap(), true, true).is_none(), "as many as there may be");
        assert_eq!(views.refused, 1);
    }
}
