//! The account of each cell: its equation, ledger, distributions and planned drops.

use weir_units::format;

use crate::columns;
use crate::record::{DropList, Quantiles, Record, WRONG_CHECKSUM, Word};

/// The account of one record.
pub(super) struct AccountView {
    /// By which the script finds its timelines.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) valid: bool,
    pub(super) equation: String,
    pub(super) remarks: Vec<String>,
    pub(super) ledger: Vec<EntryView>,
    pub(super) quantiles: Vec<QuantilesView>,
    pub(super) drops: Vec<DropView>,
    /// Whether the script has something to draw.
    pub(super) sampled: bool,
}

/// A line of a ledger.
pub(super) struct EntryView {
    pub(super) place: Word,
    pub(super) name: Word,
    pub(super) count: String,
    pub(super) unit: Word,
    pub(super) source: Word,
}

/// A sample: count, mean, quantiles, largest.
pub(super) struct QuantilesView {
    pub(super) name: &'static str,
    pub(super) values: Vec<String>,
}

/// A drop list, shortened.
pub(super) struct DropView {
    pub(super) link: String,
    pub(super) flow: String,
    pub(super) dropped: String,
    pub(super) packets: String,
    pub(super) first: String,
}

impl AccountView {
    /// Arranges the record of this number; `quantiles` are the columns of its distributions.
    pub(super) fn new(number: usize, record: &Record, quantiles: &[f64]) -> Self {
        let row = &record.row;
        let mut remarks = record.remarks.clone();
        if record.reruns > 0 {
            remarks.push(format!("Ran again {} times because it was disturbed.", record.reruns));
        }
        let ledger = record.ledger.iter().map(|entry| EntryView {
            place: entry.place.clone(),
            name: entry.name.clone(),
            count: format::count(entry.count),
            unit: entry.unit.clone(),
            source: entry.source.clone(),
        });
        let samples = [
            ("one-way delay", &record.delays),
            ("emulator's lateness", &record.lateness),
            ("heartbeat's lateness", &record.heartbeat),
        ];
        let samples = samples.into_iter().filter(|(_, sample)| sample.n > 0);
        Self {
            number,
            name: if row.repeat > 1 { format!("{} (repeat {})", row.cell, row.repeat) } else { row.cell.clone() },
            valid: row.valid,
            equation: equation(record),
            remarks,
            ledger: ledger.collect(),
            quantiles: samples.map(|(name, sample)| distribution(name, sample, quantiles)).collect(),
            drops: record.drops.iter().map(drops).collect(),
            sampled: !record.timelines.is_empty(),
        }
    }
}

/// `sent 5622 = delivered 5566 + planned loss 56 + unexplained 0`, messages. Terms that are 0 are left out, but for the
/// last. Over TCP, where lost segments are no lost messages, what is not delivered is in one term.
fn equation(record: &Record) -> String {
    let row = &record.row;
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    // Bulk datagrams are counted as messages are.
    if row.transport != "udp"
        && let Some(received) = columns::number(record, "received_bytes")
    {
        return transfer(record, received);
    }
    let lost = match row.undelivered {
        Some(undelivered) => vec![("undelivered", undelivered)],
        None => vec![
            ("planned loss", row.planned_drops),
            ("queue", row.queue_drops),
            ("socket", row.socket_drops.unwrap_or(0)),
            (WRONG_CHECKSUM, wrong_checksums(record)),
            ("emulator", row.emulator_drops),
            ("backlog", columns::number(record, "backlog_drops").map_or(0, |drops| drops as u64)),
        ],
    };
    let mut sum = count(row.delivered);
    let mut terms = vec![format!("delivered {}", format::count(sum))];
    for (name, n) in lost.into_iter().filter(|(_, n)| *n > 0) {
        sum = sum.saturating_add(count(n));
        terms.push(format!("{name} {}", format::count(count(n))));
    }
    let unexplained = row.unexplained.map_or_else(|| "unknown".into(), format::count);
    let closes = row.unexplained.is_some_and(|n| sum.saturating_add(n) == count(row.sent));
    let sent = format::count(count(row.sent));
    // Where a message is several packets, or copied, the terms do not add up: they are then only listed.
    if closes {
        format!("sent {sent} = {} + unexplained {unexplained}", terms.join(" + "))
    } else {
        format!("sent {sent}; {}; unexplained {unexplained}", terms.join(", "))
    }
}

fn wrong_checksums(record: &Record) -> u64 {
    let entry = record.ledger.iter().find(|entry| *entry.name == *WRONG_CHECKSUM);
    entry.and_then(|entry| u64::try_from(entry.count).ok()).unwrap_or(0)
}

/// `22.6 MB received, 156 segments sent again, 162 packets lost as planned; unexplained 0`: a transfer of bytes has no
/// messages.
fn transfer(record: &Record, received: f64) -> String {
    let row = &record.row;
    let number = |n: u64| format::count(i64::try_from(n).unwrap_or(i64::MAX));
    let mut parts = vec![format!("{} received", format::bytes(received))];
    parts.extend(row.retransmits.map(|n| format!("{} segments sent again", number(n))));
    let drops = [
        (row.planned_drops, "packets lost as planned"),
        (row.queue_drops, "dropped by queues"),
        (row.emulator_drops, "not carried by the emulator"),
    ];
    parts.extend(drops.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", number(n))));
    let unexplained = row.unexplained.map_or_else(|| "unknown".into(), format::count);
    format!("{}; unexplained {unexplained}", parts.join(", "))
}

fn distribution(name: &'static str, sample: &Quantiles, keys: &[f64]) -> QuantilesView {
    let word = |value: Option<f64>| value.map(format::duration).unwrap_or_default();
    let mut values = vec![format::count(i64::try_from(sample.n).unwrap_or(i64::MAX)), word(sample.mean)];
    values.extend(keys.iter().map(|&q| word(sample.get(q))));
    values.push(word(sample.max));
    QuantilesView { name, values }
}

/// Every quantile that any record has.
pub(super) fn quantile_keys(records: &[Record]) -> Vec<f64> {
    let samples = records.iter().flat_map(|record| [&record.delays, &record.lateness, &record.heartbeat]);
    let mut keys: Vec<f64> = samples.flat_map(|sample| sample.values.iter().map(|(q, _)| *q)).collect();
    keys.sort_by(f64::total_cmp);
    keys.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    keys
}

/// How many indexes of a drop list the page shows.
const SHOWN_DROPS: usize = 12;

fn drops(list: &DropList) -> DropView {
    let mut first = list.indexes.iter().take(SHOWN_DROPS).map(u64::to_string).collect::<Vec<_>>().join(" ");
    if list.indexes.len() > SHOWN_DROPS {
        first += &format!(" … digest {:016x}", digest(&list.indexes));
    }
    if !list.complete {
        first += " (list cut off)";
    }
    let count = |n: u64| format::count(i64::try_from(n).unwrap_or(i64::MAX));
    let dropped = count(list.indexes.len() as u64);
    DropView {
        link: list.link.clone(),
        flow: list.flow.clone(),
        dropped: if list.complete { dropped } else { format!("≥ {dropped}") },
        packets: count(list.packets),
        first,
    }
}

/// FNV-1a over the indexes as little-endian 64-bit numbers: equal lists are seen at a glance.
fn digest(indexes: &[u64]) -> u64 {
    let bytes = indexes.iter().flat_map(|index| index.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::record::{Counter, LedgerEntry};

    #[test]
    fn the_account_adds_up_or_does_not_pretend_to() {
        let mut record = fixture::records()[2].clone();
        let planned = record.row.planned_drops;
        assert_eq!(
            equation(&record),
            format!("sent 5622 = delivered {} + planned loss {planned} + unexplained 0", 5622 - planned)
        );
        let [place, unit, source] = ["receiver socket", "datagrams", "InCsumErrors"].map(Word::from);
        record.ledger.push(LedgerEntry::new(Counter { place, name: WRONG_CHECKSUM.into(), unit, source }, 9));
        record.row.delivered -= 9;
        assert!(equation(&record).ends_with(" + wrong checksum 9 + unexplained 0"));
        record.row.planned_drops += 1;
        assert!(equation(&record).contains("; delivered "));
        record.row.unexplained = None;
        assert!(equation(&record).ends_with("unexplained unknown"));
    }

    #[test]
    fn a_transfer_is_told_in_bytes() {
        let mut record = fixture::matrix_records()[19].clone();
        record.extra = [("received_bytes".into(), Some(22.6e6))].into();
        (record.row.retransmits, record.row.planned_drops, record.row.unexplained) = (Some(156), 162, Some(0));
        let said = "22.6 MB received, 156 segments sent again, 162 packets lost as planned; unexplained 0";
        assert_eq!(equation(&record), said);
    }
}
