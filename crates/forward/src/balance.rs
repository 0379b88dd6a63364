//! How a group shares out datagrams among its living members.

use std::net::IpAddr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::settings::Policy;

/// A group, its members led to outlets.
#[derive(Debug)]
pub struct Group {
    /// How it shares out.
    pub policy: Policy,
    /// At least one.
    pub members: Vec<Member>,
    /// Which member gets a copy of the next datagram whoever is chosen, counted from 1; 0: none.
    wanted: AtomicUsize,
    /// Where to look for the next such member.
    next_wanted: AtomicUsize,
}

/// The members of a group that a source prefers, the best first; those that there are not: [`u32::MAX`].
pub(crate) type Preferred = [u32; 4];

/// A destination as a member of a group.
#[derive(Debug)]
pub struct Member {
    /// Stands for its name; the same in every plan and process.
    key: u64,
    /// Indices of its outlets: each gets a copy.
    pub outlets: Vec<usize>,
}

impl Member {
    /// A member by the name of its destination.
    pub fn new(name: &str, outlets: Vec<usize>) -> Self {
        // FNV-1a: short, and never to change, for it decides which member gets which source.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self { key: mix(hash), outlets }
    }

    /// What decides between members for a source, given as a number.
    fn weight(&self, source: u64) -> u64 {
        mix(self.key ^ source)
    }
}

impl Group {
    /// A group of at least one member.
    pub fn new(policy: Policy, members: Vec<Member>) -> Self {
        Self { policy, members, wanted: AtomicUsize::new(0), next_wanted: AtomicUsize::new(0) }
    }

    /// Has the next datagram go to one of those members, too, of which this holds, each in its turn: one that nothing is
    /// sent to would never be found to answer again. Returns whether there is one.
    pub fn want(&self, silent: impl Fn(&Member) -> bool) -> bool {
        if self.policy == Policy::Replicate {
            return false;
        }
        let start = self.next_wanted.load(Ordering::Relaxed);
        let Some(at) = (start..self.members.len()).chain(0..start).find(|&at| silent(&self.members[at])) else {
            return false;
        };
        self.next_wanted.store((at + 1) % self.members.len(), Ordering::Relaxed);
        self.wanted.store(at + 1, Ordering::Relaxed);
        true
    }

    /// The member that gets a copy of this datagram whoever is chosen.
    pub fn take_wanted(&self) -> Option<&Member> {
        // Mostly there is none, and then the line must not change hands.
        if self.wanted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.members.get(self.wanted.swap(0, Ordering::Relaxed).checked_sub(1)?)
    }

    /// The members that get a datagram of this source. `up`: whether an outlet is thought to live; a member lives with
    /// one of its outlets. `preferred`: what [`preferred`](Self::preferred) says of the source, asked for only where that
    /// spares work. `turn` counts the datagrams of this group; it moves on by one only for [`Policy::RoundRobin`]. When
    /// nobody is thought to live, everybody is: a wrong verdict must not silence a group.
    pub fn choose(
        &self,
        source: IpAddr,
        preferred: impl FnOnce() -> Preferred,
        turn: &mut usize,
        up: impl Fn(usize) -> bool,
    ) -> &[Member] {
        let lives = |member: &&Member| member.outlets.iter().any(|&outlet| up(outlet));
        let one = match self.policy {
            Policy::Replicate => return &self.members,
            Policy::Failover => self.members.iter().find(lives).or(self.members.first()),
            Policy::Hash => {
                let remembered = if self.members.len() > FEW { preferred() } else { NONE };
                let known = remembered.iter().filter_map(|&at| self.members.get(at as usize));
                known.into_iter().find(lives).or_else(|| {
                    // Highest random weight: a member that dies gives away its own sources alone, and gets the same back.
                    let source = number(source);
                    let weight = |member: &&Member| member.weight(source);
                    self.members
                        .iter()
                        .filter(lives)
                        .max_by_key(weight)
                        .or_else(|| self.members.iter().max_by_key(weight))
                })
            }
            Policy::RoundRobin => {
                let length = self.members.len();
                let start = *turn % length.max(1);
                let mut order = (start..length).chain(0..start);
                let found = order.find(|&at| lives(&&self.members[at])).or((length > 0).then_some(start));
                // The next turn begins behind the one that was found: counting on from `start` would give the neighbour
                // of a dead member twice its share.
                found.map(|at| {
                    *turn = at + 1;
                    &self.members[at]
                })
            }
        };
        one.map_or(&[], slice::from_ref)
    }

    /// The members with the highest weights for a source, whoever lives. They stay the same as long as the group does.
    pub fn preferred(&self, source: IpAddr) -> Preferred {
        let source = number(source);
        let mut best = [(0, u32::MAX); PREFERRED];
        for (at, member) in self.members.iter().enumerate() {
            let weight = member.weight(source);
            // Of equals the last, as `max_by_key` has it.
            let place = best.iter().position(|&(other, index)| index == u32::MAX || other <= weight);
            if let Some(place) = place {
                best[place..].rotate_right(1);
                best[place] = (weight, at as u32);
            }
        }
        best.map(|(_, at)| at)
    }
}

/// An address as a number, the same for an IPv4 address and the IPv6 one it maps to.
fn number(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => mix(u64::from(address.to_bits())),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            mix(mix((bits >> 64) as u64) ^ bits as u64)
        }
    }
}

/// Spreads every bit over all: a hash, never to change, for it decides which member gets which source (the finaliser of
/// SplitMix64; Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const NONE: Preferred = [u32::MAX; PREFERRED];

const PREFERRED: usize = size_of::<Preferred>() / size_of::<u32>();

/// Members that are weighed as quickly as a memory is asked.
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn group(policy: Policy, members: usize) -> Group {
        Group::new(policy, (0..members).map(|at| Member::new(&format!("sink {at}"), vec![at])).collect())
    }

    /// The outlets that get a datagram of this source.
    fn chosen(group: &Group, source: u32, turn: &mut usize, down: &[usize]) -> Vec<usize> {
        let source = IpAddr::V4(Ipv4Addr::from_bits(source));
        let up = |outlet| !down.contains(&outlet);
        let members = group.choose(source, || group.preferred(source), turn, up);
        members.iter().flat_map(|member| member.outlets.clone()).collect()
    }

    #[test]
    fn replicate_asks_nobody_how_he_is() {
        assert_eq!(chosen(&group(Policy::Replicate, 3), 1, &mut 0, &[1]), [0, 1, 2]);
    }

    #[test]
    fn failover_takes_the_first_that_lives() {
        let group = group(Policy::Failover, 3);
        assert_eq!(chosen(&group, 1, &mut 0, &[]), [0]);
        assert_eq!(chosen(&group, 1, &mut 0, &[0, 1]), [2]);
        assert_eq!(chosen(&group, 1, &mut 0, &[0, 1, 2]), [0]);
    }

    #[test]
    fn those_that_are_silent_are_asked_in_turn_and_once() {
        let group = group(Policy::Failover, 4);
        let taken = || group.take_wanted().map(|member| member.outlets[0]);
        assert_eq!(taken(), None);
        for silent in [1, 3, 1] {
            assert!(group.want(|member| [1, 3].contains(&member.outlets[0])));
            assert_eq!((taken(), taken()), (Some(silent), None));
        }
        assert!(!group.want(|_| false));
        assert_eq!(taken(), None);
    }

    #[test]
    fn round_robin_gives_everybody_the_same() {
        let group = group(Policy::RoundRobin, 4);
        for (down, shares) in [(vec![], [75, 75, 75, 75]), (vec![1], [100, 0, 100, 100]), (vec![0, 1, 2, 3], [75; 4])] {
            let (mut turn, mut counts) = (0, [0; 4]);
            for _ in 0..300 {
                counts[chosen(&group, 1, &mut turn, &down)[0]] += 1;
            }
            assert_eq!(counts, shares, "{down:?} down");
        }
    }

    #[test]
    fn sources_spread_evenly() {
        let group = group(Policy::Hash, 8);
        let mut counts = [0_u32; 8];
        // 10.0.0.0/16, consecutive: what exporters of one site look like.
        for source in 0..65_536 {
            counts[chosen(&group, 0x0a00_0000 + source, &mut 0, &[])[0]] += 1;
        }
        // 8192 each; the standard deviation of a fair draw is 85.
        assert!(counts.iter().all(|&count| count.abs_diff(8_192) < 6 * 85), "{counts:?}");
    }

    #[test]
    fn a_mapped_address_goes_where_the_address_goes() {
        let group = group(Policy::Hash, 5);
        for last in 0..=255 {
            let v4 = Ipv4Addr::new(192, 0, 2, last);
            let v6: Ipv6Addr = v4.to_ipv6_mapped();
            let outlets = |source: IpAddr| group.choose(source, || NONE, &mut 0, |_| true)[0].outlets[0];
            assert_eq!(outlets(v4.into()), outlets(v6.into()));
        }
    }

    proptest! {
        #[test]
        fn only_the_sources_of_the_dead_move(source: u32, members in 2_usize..12, down in prop::collection::vec(0_usize..12, 0..6)) {
            let group = group(Policy::Hash, members);
            let before = chosen(&group, source, &mut 0, &[])[0];
            let with = chosen(&group, source, &mut 0, &down)[0];
            if !down.contains(&before) {
                prop_assert_eq!(with, before);
            } else if (0..members).any(|member| !down.contains(&member)) {
                prop_assert!(!down.contains(&with));
            } else {
                prop_assert_eq!(with, before);
            }
        }

        /// What is remembered of a source decides as all weights would, whoever is dead.
        #[test]
        fn a_memory_changes_nothing(source: u32, members in 1_usize..40, down in prop::collection::vec(0_usize..40, 0..36)) {
            let group = group(Policy::Hash, members);
            let source = IpAddr::V4(Ipv4Addr::from_bits(source));
            let choose = |preferred| group.choose(source, || preferred, &mut 0, |outlet| !down.contains(&outlet))[0].outlets[0];
            prop_assert_eq!(choose(group.preferred(source)), choose(NONE));
        }

        #[test]
        fn the_order_of_members_does_not_matter(source: u32, turned in 0_usize..6) {
            let (group, mut other) = (group(Policy::Hash, 6), group(Policy::Hash, 6));
            other.members.rotate_left(turned);
            prop_assert_eq!(chosen(&group, source, &mut 0, &[]), chosen(&other, source, &mut 0, &[]));
        }
    }
}
