//! Who sends what is malformed: of datagrams that cannot be read the peer, of samples the agent.

use std::collections::HashMap;
use std::net::IpAddr;

/// Counts by address, of a limited number of them.
#[derive(Debug)]
pub struct Offenders {
    limit: usize,
    counts: HashMap<IpAddr, u64>,
    others: u64,
}

impl Offenders {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, counts: HashMap::new(), others: 0 }
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Counts one. Who comes when the table is full is counted without a name: whoever is in it has been at it for longer.
    pub fn count(&mut self, who: IpAddr) {
        let full = self.counts.len() >= self.limit;
        match self.counts.get_mut(&who) {
            Some(count) => *count += 1,
            None if full => self.others += 1,
            None => drop(self.counts.insert(who, 1)),
        }
    }

    /// Everybody, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, u64)> {
        self.counts.iter().map(|(&who, &count)| (who, count))
    }

    /// What came of those for whom there was no room.
    pub fn others(&self) -> u64 {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_flood_of_addresses_takes_no_more_than_the_limit() {
        const LIMIT: usize = 1024;
        let mut offenders = Offenders::new(LIMIT);
        let known = IpAddr::from([10, 0, 0, 1]);
        offenders.count(known);
        for address in 0..10_000_u32 {
            offenders.count(Ipv4Addr::from(0xc000_0000 + address).into());
        }
        offenders.count(known);
        let named: u64 = offenders.iter().map(|(_, count)| count).sum();
        assert_eq!((offenders.iter().count(), named + offenders.others()), (LIMIT, 10_002));
        assert!(offenders.iter().any(|(who, count)| who == known && count == 2));
    }
}
