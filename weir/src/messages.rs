//! `--messages`: writes the first messages to a file.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Result;
use weir_program::output::complain;
use weir_report::messages::{self, Message};
use weir_report::store::StoreError;
use weir_traffic::{ReceiveReport, SendReport, SenderSettings};

use crate::{Outcome, files};

/// The file, created before the first message.
pub(crate) struct Rows {
    path: PathBuf,
    file: File,
}

/// What the file lacks.
#[derive(Default)]
pub(crate) struct Unwritten {
    /// Messages.
    pub(crate) messages: u64,
    failed: Option<StoreError>,
}

impl Rows {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = files::create(path).map_err(|error| StoreError::new("create", path, error).outside_the_lab())?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes the sent and received messages whose times were kept. A disk that fails does not end the measurement: the
    /// missing messages are counted.
    pub(crate) fn finish(self, sent: &[(&SenderSettings, &SendReport)], received: &[&ReceiveReport]) -> Unwritten {
        let departures = sent.iter().flat_map(|(settings, report)| {
            (0..).zip(&report.departures).map(|(number, departure)| Message {
                peer: report.local.unwrap_or(settings.to),
                session: settings.session,
                incarnation: report.incarnation,
                number,
                intended: Some(departure.intended),
                sent: Some(departure.sent),
                received: None,
            })
        });
        let flights = received.iter().flat_map(|report| &report.sessions).flat_map(|session| {
            session.flights.iter().map(|flight| Message {
                peer: session.peer,
                session: session.session,
                incarnation: session.incarnation,
                number: flight.number,
                // A message too short for its incarnation does not carry this either.
                intended: (session.incarnation != 0).then_some(flight.intended),
                sent: Some(flight.sent),
                received: Some(flight.received),
            })
        });
        let (written, ended) = messages::write_all(&self.path, self.file, departures.chain(flights));
        let sent: u64 = sent.iter().map(|(_, report)| report.sent).sum();
        let all = sent + received.iter().map(|report| report.total().received).sum::<u64>();
        Unwritten { messages: all - written, failed: ended.err().map(StoreError::outside_the_lab) }
    }
}

impl Unwritten {
    /// The outcome of a command that has printed its result: a failure if the file could not be written.
    pub(crate) fn judge(self, ended: Result<Outcome>) -> Result<Outcome> {
        match (self.failed, ended) {
            (None, ended) => ended,
            (Some(failed), Ok(_)) => Err(failed.into()),
            (Some(failed), Err(error)) => {
                complain!("weir: {failed}");
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_leads_messages_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file.csv"), folder.path().join("link.csv"));
        std::fs::write(&file, "somebody's").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let refused = Rows::create(&link).err().map(|error| error.to_string());
        let why = format!("create {}: a symbolic link. Name the file itself.", link.display());
        assert_eq!((refused, std::fs::read_to_string(&file).unwrap()), (Some(why), "somebody's".to_owned()));
        assert!(Rows::create(&file).is_ok());
    }
}
