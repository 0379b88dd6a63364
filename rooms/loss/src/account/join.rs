//! Joins the accounts of two hosts: what left the one and came to the other.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::book::{Account, Count, Entry, Ledger, VERSION};
use super::ledger::rest::WHAT_BECAME_OF;
use super::ledger::sent::BEFORE_THIS_HOST;
use crate::places::{Place, Stage};

/// Reads the sender's and the receiver's account, and joins them.
///
/// # Errors
/// If a file cannot be read, or is no account, or one of another version.
pub fn files(sender: &Path, receiver: &Path) -> Result<Account> {
    let accounts = (read(sender)?, read(receiver)?);
    ensure!(
        !are_swapped(&accounts.0, &accounts.1),
        "--join: {} is the receiver's account and {} the sender's: the sender's goes first",
        sender.display(),
        receiver.display()
    );
    Ok(join(accounts.0, accounts.1))
}

/// Whether what was given as the sender's account knows who received and not what was sent, and the other one the reverse.
fn are_swapped(sender: &Account, receiver: &Account) -> bool {
    let is_receivers = |ledger: &Ledger| ledger.receiver.is_some() && ledger.sent.is_none();
    let is_senders = |ledger: &Ledger| ledger.receiver.is_none() && ledger.sent.is_some();
    sender
        .ledgers
        .iter()
        .filter(|ledger| is_receivers(ledger))
        .any(|receiving| receiver.ledgers.iter().any(|sending| sending.port == receiving.port && is_senders(sending)))
}

fn read(path: &Path) -> Result<Account> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    parse(path, &text)
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Account> {
    let account: Account = serde_json::from_str(text)
        .with_context(|| format!("{}: not what `weir loss account --json` prints", path.display()))?;
    ensure!(
        account.version == VERSION,
        "{}: an account of version {}, this is {VERSION} (use the same `weir` on both hosts)",
        path.display(),
        account.version
    );
    Ok(account)
}

/// One account of both: the sender's losses before departure, the receiver's after arrival, and `network` between.
pub(crate) fn join(sender: Account, receiver: Account) -> Account {
    let mut ledgers = Vec::new();
    // The sender's host has no receiver.
    let unbound = |warning: &String| warning.ends_with("nobody has bound it in the namespaces followed");
    let mut warnings: Vec<String> = sender.warnings.into_iter().filter(|warning| !unbound(warning)).collect();
    for warning in receiver.warnings {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    for receiving in receiver.ledgers {
        let Some(sending) = sender.ledgers.iter().find(|ledger| ledger.port == receiving.port) else { continue };
        ledgers.push(join_ledgers(sending, receiving));
    }
    let mut counters = sender.sources.counters;
    counters.retain(|counter| receiver.sources.counters.contains(counter));
    Account {
        version: VERSION,
        started: sender.started.min(receiver.started),
        took_s: sender.took_s.max(receiver.took_s),
        sources: super::book::Sources {
            trace: if sender.sources.trace == receiver.sources.trace { sender.sources.trace } else { None },
            trace_refused: sender.sources.trace_refused.or(receiver.sources.trace_refused),
            counters,
        },
        namespaces: sender.namespaces.into_iter().chain(receiver.namespaces).collect(),
        ledgers,
        warnings,
    }
}

const NETWORK: &str = "what the network lost: an account without a full trace does not tell it";

fn join_ledgers(sending: &Ledger, receiving: Ledger) -> Ledger {
    // On the sender's host nobody receives: of its places only those before departure, and those of its own interfaces.
    let departing = |place: Place| matches!(place.stage(), Stage::Sending | Stage::NextHop | Stage::Departed);
    let mut places: Vec<Entry> = sending.places.iter().filter(|entry| departing(entry.place)).cloned().collect();
    let lost_after_departure: u64 =
        places.iter().filter(|entry| entry.place.stage() == Stage::Departed).map(|entry| entry.datagrams).sum();
    let arriving = |place: Place| !departing(place) && place != Place::Network;
    let network = sending.departed.zip(receiving.arrived).map(|(departed, arrived)| {
        let left = departed.saturating_sub(lost_after_departure);
        (left, arrived, left.saturating_sub(arrived))
    });
    let mut unknown = sending.unknown.clone();
    unknown.retain(|words| !words.starts_with(WHAT_BECAME_OF));
    unknown.extend(receiving.unknown.into_iter().filter(|words| words != BEFORE_THIS_HOST));
    let mut explanation = receiving.explanation;
    match network {
        Some((left, arrived, lost)) => {
            if lost > 0 {
                places.push(Entry {
                    place: Place::Network,
                    datagrams: lost,
                    source: "departed - arrived".to_owned(),
                    also: vec![
                        Count { source: "departed".to_owned(), count: left },
                        Count { source: "arrived".to_owned(), count: arrived },
                    ],
                    remedy: Place::Network.row().remedy.to_owned(),
                    ..Entry::default()
                });
            }
            if arrived > left {
                let more = arrived - left;
                explanation.push(format!(
                    "{more} more came than left: another sender, a copy on the way, or accounts that did not begin together"
                ));
            }
        }
        None => unknown.push(NETWORK.to_owned()),
    }
    places.extend(receiving.places.into_iter().filter(|entry| arriving(entry.place)));
    places.sort_by_key(|entry| entry.place);
    let lost: u64 = places.iter().map(|entry| entry.datagrams).sum();
    let pending = sending.pending.zip(receiving.pending).map(|(sending, receiving)| sending + receiving);
    let unexplained = match (sending.sent, receiving.received, pending, network) {
        (Some(sent), Some(received), Some(pending), Some(_)) => {
            let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            Some(signed(sent) - signed(received) - signed(lost) - signed(pending))
        }
        _ => None,
    };
    Ledger {
        sent: sending.sent,
        departed: sending.departed,
        pending,
        pending_where: sending.pending_where.iter().cloned().chain(receiving.pending_where).collect(),
        places,
        unexplained,
        unknown,
        explanation,
        senders: sending.senders.clone(),
        ..receiving
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(port: u16) -> Ledger {
        Ledger { port, pending: Some(0), ..Ledger::default() }
    }

    #[test]
    fn what_left_and_did_not_come_is_the_networks() {
        let sender = Ledger { sent: Some(100), departed: Some(95), received: Some(0), ..ledger(5000) };
        let lost = Entry { place: Place::NoRoute, datagrams: 5, source: "send calls".into(), ..Entry::default() };
        let sender = Ledger { places: vec![lost], ..sender };
        let receiver = Ledger { arrived: Some(80), received: Some(80), ..ledger(5000) };
        let of = |ledger| Account { version: VERSION, ledgers: vec![ledger], ..Account::default() };
        let joined = join(of(sender), of(receiver));
        let [ledger] = &joined.ledgers[..] else { panic!("{joined:?}") };
        let places: Vec<_> = ledger.places.iter().map(|entry| (entry.place, entry.datagrams)).collect();
        assert_eq!(places, [(Place::NoRoute, 5), (Place::Network, 15)]);
        assert_eq!((ledger.sent, ledger.received, ledger.unexplained), (Some(100), Some(80), Some(0)));
    }

    #[test]
    fn accounts_in_the_wrong_order_are_refused_with_the_right_one() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, ledger: Ledger| {
            let account = Account { version: VERSION, ledgers: vec![ledger], ..Account::default() };
            let path = folder.path().join(name);
            fs::write(&path, serde_json::to_string(&account).unwrap()).unwrap();
            path
        };
        let sender = write("a", Ledger { sent: Some(100), departed: Some(95), ..ledger(5000) });
        let receiver = crate::account::book::Receiver::default();
        let receiving = Ledger { receiver: Some(receiver), arrived: Some(80), received: Some(80), ..ledger(5000) };
        let receiver = write("b", receiving);
        assert_eq!(files(&sender, &receiver).unwrap().ledgers[0].sent, Some(100));
        let (a, b) = (sender.display(), receiver.display());
        let expected = format!("--join: {b} is the receiver's account and {a} the sender's: the sender's goes first");
        assert_eq!(files(&receiver, &sender).unwrap_err().to_string(), expected);
    }

    #[test]
    fn without_both_counts_the_network_is_unknown() {
        let answered = |words: &str| vec![words.to_owned()];
        let sender = Ledger {
            sent: Some(100),
            received: Some(0),
            unknown: answered(&format!("{WHAT_BECAME_OF} 17 that left")),
            ..ledger(5000)
        };
        let receiver =
            Ledger { arrived: Some(80), received: Some(80), unknown: answered(BEFORE_THIS_HOST), ..ledger(5000) };
        let joined = join_ledgers(&sender, receiver);
        assert_eq!((joined.unexplained, joined.places.len()), (None, 0));
        assert_eq!(joined.unknown, [NETWORK]);
    }
}
