//! The times of every message of a cell, in a file: `messages/CELL.csv`.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use weir_program::clock::Nanos;
use weir_report::messages::{self, Message};
use weir_report::record::Record;
use weir_report::store::{self, StoreError};
use weir_traffic::{ReceiveReport, SendReport};

use crate::endpoints::Facts;

/// Writes a file into `dir` for each of these records (one per receiver) that is `kept`, with a row for each sent
/// message whose times were kept. Bulk transfers have none.
///
/// # Errors
/// A file cannot be written: it is removed, to free the space on a full disk. The others stay.
pub fn write(dir: &Path, records: &[Record], facts: &Facts, kept: impl Fn(&Record) -> bool) -> Result<(), StoreError> {
    let Facts { sent: Some(sent), received, .. } = facts else { return Ok(()) };
    let mut written = Ok(());
    for (Record { row, .. }, report) in records.iter().zip(received).filter(|(record, _)| kept(record)) {
        store::folder(dir)?;
        let mut name = store::file_stem(&row.cell);
        if row.repeat > 1 {
            name += &format!("-{}", row.repeat);
        }
        let path = dir.join(format!("{name}.csv"));
        written = written.and(write_whole(&path, rows(sent, report)));
    }
    written
}

/// Writes a file with all of these rows, or no file.
fn write_whole(path: &Path, rows: Vec<Message>) -> Result<(), StoreError> {
    let file = store::fresh(path).map_err(|error| StoreError::new("create", path, error))?;
    let (_, written) = messages::write_all(path, file, rows);
    if written.is_err() && fs::symlink_metadata(path).is_ok_and(|there| there.is_file()) {
        let _ = fs::remove_file(path);
    }
    written
}

/// One row per sent message.
fn rows(sent: &SendReport, received: &ReceiveReport) -> Vec<Message> {
    let session = received.main_session();
    let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let peer = session.map(|session| session.peer).or(sent.local).unwrap_or(nobody);
    let (number, incarnation) = session.map_or((0, 0), |session| (session.session, session.incarnation));
    let flights = session.map_or(&[][..], |session| &session.flights);
    let arrived: HashMap<u64, Nanos> = flights.iter().map(|flight| (flight.number, flight.received)).collect();
    let row = |(place, departure): (u64, &weir_traffic::Departure)| Message {
        peer,
        session: number,
        incarnation,
        number: place,
        intended: Some(departure.intended),
        sent: Some(departure.sent),
        received: arrived.get(&place).copied(),
    };
    (0..).zip(&sent.departures).map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_traffic::{Departure, Flight, SessionReport};

    use super::*;

    #[test]
    fn what_was_lost_has_a_row_without_a_time_of_arrival() {
        let departures = [10, 20, 30].map(|at| Departure { intended: at, sent: at + 1 }).to_vec();
        let sent = SendReport { sent: 3, departures, ..SendReport::default() };
        let peer = "10.0.0.1:7".parse().unwrap();
        let flight = |number, received| Flight { number, intended: 0, sent: 0, received };
        let flights = vec![flight(2, 33), flight(0, 44)];
        let session = SessionReport { flights, incarnation: 5, ..SessionReport::new(peer, 9, 0, Duration::ZERO) };
        let received = ReceiveReport { sessions: vec![session], ..ReceiveReport::default() };
        let told: Vec<_> =
            rows(&sent, &received).iter().map(|row| (row.number, row.intended, row.sent, row.received)).collect();
        assert_eq!(
            told,
            [(0, Some(10), Some(11), Some(44)), (1, Some(20), Some(21), None), (2, Some(30), Some(31), Some(33))]
        );
        assert_eq!(rows(&sent, &ReceiveReport::default()).len(), 3);
    }
}
