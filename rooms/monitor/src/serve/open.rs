//! What other threads may ask of a running server.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_service::Observable;
use weir_service::losses::Loss;
use weir_service::metrics::Samples;
use weir_wire::signal::Cause;

use super::board::Board;
use super::events::Events;
use super::ledger::{Ledger, StreamCount};
use super::publish::Sent;
use super::settings::Watching;
use crate::api::{Acknowledged, Alarm, Event, NotAcknowledged, Shown, State};
use crate::outputs::{Outputs, latest};
use weir_signal::history::{History, Listed};
use weir_signal::receive::{self, News, Stream};

/// A server, as its threads and whoever asks share it.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) history: Arc<History>,
    pub(super) events: Events,
    board: Mutex<Board>,
    watching: Mutex<Arc<Watching>>,
    streams: Mutex<Streams>,
    receive: receive::Open,
    sent: Option<Arc<Sent>>,
    pub(super) outputs: Outputs,
    pub(super) changes: Arc<receive::Changes>,
    peers: Mutex<Vec<String>>,
    began: Instant,
    /// Channels that there was no room for.
    crowded: AtomicU64,
    /// Samples that were due while a station did not run.
    restart: AtomicU64,
}

/// By station and name the session that has them, and what has become of it.
#[derive(Debug, Default)]
struct Streams(HashMap<(String, String), (Arc<Stream>, News)>);

impl Streams {
    fn hear(&mut self, stream: &Arc<Stream>, news: News) {
        if matches!(news, News::Begun | News::Restarted | News::Twin) {
            // One that is called otherwise by now has no other name.
            self.0.retain(|_, (known, _)| known.session != stream.session);
            if self.0.len() >= MOST_STREAMS {
                self.0.retain(|_, (_, news)| !matches!(news, News::Ended | News::Silent));
            }
        }
        self.0.insert((stream.station.clone(), stream.name.clone()), (stream.clone(), news));
    }
}

/// Why datagrams are refused, and what to do.
pub(crate) const REFUSALS: [(&str, &str); 12] = [
    ("foreign", "something else is on the group: choose a group of their own for signals"),
    ("version", "sent by another version of weir: bring them to one"),
    ("malformed", "damaged or forged: weir monitor check names the source"),
    ("sessions", "too many senders live: listen to fewer, or keys keep forgers out"),
    ("channels", "a sender has more channels than can be"),
    ("long", "something else is on the group, or forged"),
    ("no_key", "they are encrypted: name the file of the group's key (key)"),
    ("no_sender", "they are signed: name the files of the senders' public keys (senders)"),
    ("plain", "they are not encrypted, and `key` says that they must be: encrypt = FILE at the station"),
    ("unsigned", "they are not signed, and `senders` says that they must be: sign = FILE at the station"),
    ("changed", "encrypted with another key, or altered on the way: compare the files of the group's key"),
    ("forged", "signed by none of `senders`: add the station's .pub file, or somebody forges"),
];

impl Open {
    /// With a history to write to.
    pub(super) fn new(history: Arc<History>, watching: &Arc<Watching>, receive: receive::Open) -> Self {
        Self {
            history,
            events: Events::default(),
            board: Mutex::default(),
            watching: Mutex::new(watching.clone()),
            streams: Mutex::default(),
            receive,
            sent: None,
            outputs: Outputs::default(),
            changes: Arc::default(),
            peers: Mutex::default(),
            began: Instant::now(),
            crowded: AtomicU64::new(0),
            restart: AtomicU64::new(0),
        }
    }

    /// That tells of what is sent, too.
    pub(super) fn telling(self, sent: Option<Arc<Sent>>) -> Self {
        Self { sent, ..self }
    }

    /// Locked before the history where both are.
    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        // A state is whole between two calls.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since the start.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Time of day, ns since 1970 UTC.
    pub(super) fn wall(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }

    /// By what channels are watched.
    pub(super) fn watching(&self) -> Arc<Watching> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// That has changed: whoever is told of a channel is told the limits that are in force.
    pub(super) fn rewatch(&self, watching: &Arc<Watching>) {
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = watching.clone();
        let catalog = self.history.catalog();
        let mut writing = self.history.write();
        for listed in catalog.iter() {
            writing.set_limits(listed.key, watching.limits(&listed.station, &listed.channel));
        }
    }

    /// Looks at what is new of all channels.
    pub(super) fn look(&self) {
        let told = self.board().look(&self.history, &self.watching(), self.now(), self.wall());
        self.events.extend(told);
    }

    pub(super) fn set_peers(&self, peers: Vec<String>) {
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    pub(super) fn count_crowded(&self) {
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }

    fn crowded(&self) -> u64 {
        self.crowded.load(Ordering::Relaxed) + self.changes.refused.load(Ordering::Relaxed)
    }

    pub(super) fn count_restart(&self, samples: u64) {
        self.restart.fetch_add(samples, Ordering::Relaxed);
    }

    /// What was not taken so far, by reason, each with what to do.
    pub(super) fn refused(&self) -> Vec<Loss> {
        let refused = self.receive.counts().refused;
        let of = |&(reason, remedy): &(&'static str, &'static str)| Loss {
            subject: "datagrams".to_owned(),
            reason,
            remedy,
            unit: "datagram",
            total: refused[reason],
        };
        let crowded = Loss {
            subject: "channels beyond 4,096".to_owned(),
            reason: "crowded",
            remedy: "all that are kept have had samples in the last seconds: listen to fewer stations, or use another server",
            unit: "datagram",
            total: self.crowded(),
        };
        REFUSALS.iter().map(of).chain([crowded]).collect()
    }

    /// What has become of a stream.
    pub(super) fn hear(&self, stream: &Arc<Stream>, news: News) {
        self.streams().hear(stream, news);
    }

    /// Sessions that are known.
    pub(super) fn sessions(&self) -> HashSet<u64> {
        self.streams().0.values().map(|(stream, _)| stream.session).collect()
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn account(&self) -> Ledger {
        let mut streams: Vec<StreamCount> =
            self.streams().0.values().map(|(stream, news)| StreamCount::new(stream, *news)).collect();
        streams.sort_by(|a, b| (&a.station, &a.stream, &a.session).cmp(&(&b.station, &b.stream, &b.session)));
        let states = self.board().states();
        // Sessions of servers are whole in themselves: what is missing between two of them only their feed lacks.
        let mut received = self.receive.counts();
        received.missing.add(Cause::Server as usize, self.changes.missing.load(Ordering::Relaxed));
        Ledger {
            elapsed_s: self.now().as_secs_f64(),
            channels: states.len(),
            stale: states.iter().filter(|state| state.stale).count(),
            in_alarm: states.iter().filter(|state| state.alarm != Alarm::None).count(),
            unacknowledged: states.iter().filter(|state| state.unacknowledged != Alarm::None).count(),
            crowded_channels: self.crowded(),
            forgotten_channels: self.board().forgotten,
            events: self.events.count(),
            received,
            due_in_restarts: self.restart.load(Ordering::Relaxed),
            published: self.sent.as_ref().map(|sent| sent.count()),
            outputs: self.outputs.counts(),
            changes: self.changes.followed.load(Ordering::Relaxed),
            streams,
            ..Ledger::default()
        }
        .close()
    }
}

impl Shown for Open {
    fn history(&self) -> &History {
        &self.history
    }

    fn states(&self) -> Vec<State> {
        self.board().states()
    }

    fn events_since(&self, id: u64) -> Vec<Event> {
        self.events.since(id)
    }

    fn ledger(&self) -> serde_json::Value {
        serde_json::to_value(self.account()).unwrap_or_default()
    }

    fn peers(&self) -> Vec<String> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn acknowledge(&self, channel: [&str; 3], seen: Option<Alarm>, by: &str) -> Result<Alarm, NotAcknowledged> {
        let catalog = self.history.catalog();
        let is_it = |listed: &&Arc<Listed>| [&*listed.station, &*listed.stream, &*listed.channel.name] == channel;
        let key = catalog.iter().find(is_it).ok_or(NotAcknowledged::Unknown)?.key;
        let by = Acknowledged { by: by.to_owned(), time_ns: self.wall() };
        let (alarm, draft) = self.board().acknowledge(key, seen, by)?;
        self.events.extend([draft]);
        Ok(alarm)
    }
}

impl Observable for Open {
    type Ledger = Ledger;

    fn metrics(&self, samples: &mut Samples<'_>) {
        samples.ledger(&self.account());
        let states = self.board().states();
        latest::metrics(&self.history, &states, samples);
    }

    fn ledger(&self) -> Ledger {
        self.account()
    }

    /// It serves its page from the start, whether stations send or not.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Streams that the ledger tells of: as many as the receiver knows.
const MOST_STREAMS: usize = 4096;

#[cfg(test)]
mod tests {
    use weir_wire::signal::Clock;

    use super::*;
    use weir_signal::history::Bounds;

    #[test]
    fn streams_by_the_thousand_are_bounded_and_each_name_has_one() {
        let mut streams = Streams::default();
        let stream = |session: u64, station: &str| {
            let (station, source) = (station.to_owned(), ([192, 0, 2, 1], 5110).into());
            Arc::new(Stream { session, station, name: "display".into(), source, clock: Clock::default() })
        };
        streams.hear(&stream(1, "lives"), News::Begun);
        for session in 2..20_000 {
            let one = stream(session, &format!("n{session}"));
            streams.hear(&one, News::Begun);
            streams.hear(&one, News::Ended);
            assert!(streams.0.len() <= MOST_STREAMS);
        }
        let shown = |streams: &Streams, station: &str| {
            streams.0.get(&(station.to_owned(), "display".to_owned())).map(|(stream, _)| stream.session)
        };
        assert_eq!(shown(&streams, "lives"), Some(1));
        streams.hear(&stream(2, "lives"), News::Restarted);
        assert_eq!(shown(&streams, "lives"), Some(2));
        streams.hear(&stream(2, "other"), News::Begun);
        streams.hear(&stream(3, "lives"), News::Begun);
        assert_eq!(["lives", "other"].map(|station| shown(&streams, station)), [Some(3), Some(2)]);
    }

    #[test]
    fn what_no_server_of_a_feed_had_is_missing_by_cause() {
        let history = Arc::new(History::new(Bounds::default()));
        let open = Open::new(history, &Arc::default(), receive::Open::default());
        open.changes.missing.store(20_250, Ordering::Relaxed);
        let ledger = open.account();
        assert_eq!(ledger.received.missing["server"], 20_250);
        assert!(ledger.closed && ledger.to_string().contains("missing, server: 20,250"), "{ledger}");
    }
}
