//! The rows of drops that a line of `--json` has: after a scan of all ports they would be tens of thousands.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serializer;

use super::snapshot::{Count, Drops, worst};

/// The rows of drops that a line has: the largest of those with a port, and the others summed over their ports. Who sends
/// chooses ports; nobody outside chooses places and reasons.
fn told(all: &[Drops]) -> Vec<Cow<'_, Drops>> {
    let (mut of_ports, mut told): (Vec<Cow<'_, Drops>>, Vec<_>) =
        all.iter().map(Cow::Borrowed).partition(|drops| drops.port.is_some());
    if of_ports.len() <= MOST_ROWS {
        return all.iter().map(Cow::Borrowed).collect();
    }
    of_ports.sort_by(|one, other| {
        other.datagrams.total.cmp(&one.datagrams.total).then_with(|| one.names().cmp(&other.names()))
    });
    let others = of_ports.split_off(MOST_ROWS);
    let place = |drops: &Drops| (drops.namespace, drops.place, drops.reason.clone(), drops.function.clone());
    let mut sums: HashMap<_, usize> = told.iter().enumerate().map(|(at, drops)| (place(drops), at)).collect();
    for drops in others {
        let sum = *sums.entry(place(&drops)).or_insert(told.len());
        match told.get_mut(sum) {
            Some(sum) => sum.to_mut().take_in(&drops),
            None => told.push(Cow::Owned(Drops { port: None, rows: 1, ..drops.into_owned() })),
        }
    }
    told.extend(of_ports);
    told.sort_by(|one, other| worst(one.datagrams, other.datagrams).then_with(|| one.names().cmp(&other.names())));
    told
}

/// Rows with a port in one line.
const MOST_ROWS: usize = 1000;

pub(super) fn serialize<S: Serializer>(all: &[Drops], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(told(all))
}

impl Drops {
    /// Takes another row of the same place in.
    fn take_in(&mut self, other: &Drops) {
        let per_s = self.datagrams.per_s.into_iter().chain(other.datagrams.per_s).reduce(|one, other| one + other);
        self.datagrams = Count { total: self.datagrams.total + other.datagrams.total, per_s };
        self.rows += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// As after a scan of all ports.
    #[test]
    fn a_line_has_few_rows_and_loses_no_datagram() {
        let mut now = fixture::at(60);
        let one = now.drops[1].clone();
        let row = |port: u16, total, per_s| Drops {
            port: Some(port),
            datagrams: Count { total, per_s: Some(per_s) },
            ..one.clone()
        };
        now.drops = (1..=20_000).map(|port| row(port, 2, 1.0)).collect();
        now.drops.push(row(20_001, 100, 50.0));
        // Already told without its port, and in another namespace.
        now.drops.push(Drops { port: None, datagrams: Count { total: 10, per_s: Some(5.0) }, ..one.clone() });
        now.drops.push(Drops { namespace: None, ..row(20_002, 1, 0.0) });
        now.sort();
        let line = serde_json::to_value(&now).unwrap();
        let rows = line["drops"].as_array().unwrap();
        let sum: u64 = rows.iter().map(|row| row["datagrams"]["total"].as_u64().unwrap()).sum();
        let per_s: f64 = rows.iter().map(|row| row["datagrams"]["per_s"].as_f64().unwrap()).sum();
        assert_eq!((rows.len(), sum, per_s), (MOST_ROWS + 2, 40_111, 20_055.0));
        let summed: Vec<u64> = rows.iter().map(|row| row["rows"].as_u64().unwrap()).filter(|rows| *rows > 0).collect();
        assert_eq!(summed, [20_001 - MOST_ROWS as u64, 1]);
        assert!(rows.iter().any(|row| row["port"] == 20_001));
        // What is known of ports stays known to whoever counts them.
        assert_eq!(now.drops.len(), 20_003);
    }
}
